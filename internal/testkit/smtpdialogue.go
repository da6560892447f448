package testkit

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// maxMailBytes bounds what a message's content may hold.
const maxMailBytes = 64 << 20

// dialogue is one connection with its state.
type dialogue struct {
	server  *MailServer
	conn    net.Conn // under TLS after STARTTLS
	in      *bufio.Reader
	session MailMode
	mode    MailMode // of the present message
	secure  bool
	login   bool
	mails   int
	from    string
	to      []string
	begun   bool // MAIL was taken
}

// talk serves one connection to its end.
func (m *MailServer) talk(conn net.Conn) {
	defer m.leave(conn)
	defer func() { _ = conn.Close() }() // the client may have closed first
	d := &dialogue{server: m, conn: conn, in: bufio.NewReader(conn), session: m.sessions.take()}
	if !d.answer(d.session, AtGreeting, "220 mail.test ESMTP") {
		return
	}
	for {
		line, ok := d.command()
		if !ok {
			return
		}
		m.commands.append(line)
		if !d.obey(line) {
			return
		}
	}
}

// command reads a line; a silence longer than allowed ends the session with 421.
func (d *dialogue) command() (string, bool) {
	if _, idle := d.server.limits(); idle > 0 {
		conn := d.conn
		timer := time.AfterFunc(idle, func() {
			_, _ = conn.Write([]byte("421 4.4.2 mail.test idle for too long\r\n")) // nobody may be there
			_ = conn.Close()
		})
		defer timer.Stop()
	}
	line, err := d.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err == nil
}

// obey answers one command and tells whether the session goes on.
func (d *dialogue) obey(line string) bool {
	verb, rest, _ := strings.Cut(line, " ")
	switch strings.ToUpper(verb) {
	case "EHLO", "HELO":
		return d.answer(d.session, AtHello, d.extensions(verb)...)
	case "STARTTLS":
		return d.startTLS()
	case "AUTH":
		return d.auth(rest)
	case "MAIL":
		return d.mail(rest)
	case "RCPT":
		return d.rcpt(rest)
	case "DATA":
		return d.data()
	case "RSET":
		d.reset()
		return d.say("250 2.0.0 Reset")
	case "NOOP":
		return d.say("250 2.0.0 OK")
	case "QUIT":
		d.say("221 2.0.0 Bye")
		return false
	}
	return d.say("500 5.5.2 Unknown command")
}

func (d *dialogue) reset() { d.from, d.to, d.begun = "", nil, false }

func (d *dialogue) extensions(verb string) []string {
	d.reset()
	if strings.EqualFold(verb, "HELO") {
		return []string{"250 mail.test"}
	}
	lines := []string{"250-mail.test", "250-8BITMIME", "250-PIPELINING"}
	if d.server.tls != nil && !d.secure {
		lines = append(lines, "250-STARTTLS")
	}
	if d.server.login[0] != "" {
		lines = append(lines, "250-AUTH PLAIN")
	}
	return append(lines, fmt.Sprintf("250 SIZE %d", maxMailBytes))
}

func (d *dialogue) startTLS() bool {
	if d.server.tls == nil || d.secure {
		return d.say("503 5.5.1 STARTTLS is not offered")
	}
	if d.session.at == AtStartTLS && d.session.act == actRefuse {
		return d.answer(d.session, AtStartTLS)
	}
	if !d.answer(d.session, AtStartTLS, "220 2.0.0 Go ahead") {
		return false
	}
	secure := tls.Server(d.conn, d.server.tls)
	if secure.Handshake() != nil {
		return false // the client does not trust us
	}
	d.conn, d.in, d.secure = secure, bufio.NewReader(secure), true
	return true
}

func (d *dialogue) auth(rest string) bool {
	if d.session.at == AtAuth && d.session.act != actAnswer {
		return d.answer(d.session, AtAuth, "235 2.7.0 Welcome")
	}
	mechanism, initial, _ := strings.Cut(rest, " ")
	if !strings.EqualFold(mechanism, "PLAIN") || d.server.login[0] == "" {
		return d.say("504 5.5.4 Unknown mechanism")
	}
	given, err := base64.StdEncoding.DecodeString(initial)
	if err != nil || string(given) != "\x00"+d.server.login[0]+"\x00"+d.server.login[1] {
		return d.say("535 5.7.8 Authentication credentials invalid")
	}
	d.login = true
	return d.say("235 2.7.0 Welcome")
}

func (d *dialogue) mail(rest string) bool {
	limit, _ := d.server.limits()
	switch {
	case d.server.tls != nil && !d.secure:
		return d.say("530 5.7.0 Must issue a STARTTLS command first")
	case d.server.login[0] != "" && !d.login:
		return d.say("530 5.7.0 Authentication required")
	case d.begun:
		return d.say("503 5.5.1 Nested MAIL command")
	case limit > 0 && d.mails >= limit:
		d.say("421 4.7.0 Too many mails in this session")
		return false
	}
	from, ok := path(rest, "FROM:")
	if !ok {
		return d.say("501 5.5.4 Write MAIL FROM:<address>")
	}
	d.mode = d.server.messages.take()
	if d.mode.at == AtMail && d.mode.act == actRefuse {
		return d.answer(d.mode, AtMail)
	}
	d.from, d.begun = from, true
	return d.answer(d.mode, AtMail, "250 2.1.0 Sender taken")
}

func (d *dialogue) rcpt(rest string) bool {
	to, ok := path(rest, "TO:")
	switch {
	case !d.begun:
		return d.say("503 5.5.1 No MAIL before RCPT")
	case !ok:
		return d.say("501 5.5.4 Write RCPT TO:<address>")
	case d.server.refusal(to) != 0:
		return d.answer(MailRefuse(AtRcpt, d.server.refusal(to)), AtRcpt)
	case d.mode.at == AtRcpt && d.mode.act == actRefuse:
		return d.answer(d.mode, AtRcpt)
	}
	d.to = append(d.to, to)
	return d.answer(d.mode, AtRcpt, "250 2.1.5 Recipient taken")
}

// path reads FROM:<a> or TO:<a>, parameters after it ignored.
func path(rest, keyword string) (string, bool) {
	if len(rest) < len(keyword) || !strings.EqualFold(rest[:len(keyword)], keyword) {
		return "", false
	}
	address, ok := strings.CutPrefix(strings.TrimSpace(rest[len(keyword):]), "<")
	address, _, closed := strings.Cut(address, ">")
	return address, ok && closed
}

func (d *dialogue) data() bool {
	if len(d.to) == 0 {
		return d.say("503 5.5.1 No RCPT before DATA")
	}
	if d.mode.at == AtData && d.mode.act == actRefuse {
		return d.answer(d.mode, AtData)
	}
	if !d.answer(d.mode, AtData, "354 Go ahead, end with a dot") {
		return false
	}
	raw, ok := d.content()
	if !ok {
		return false // cut in the middle: no message
	}
	from, to := d.from, slices.Clone(d.to)
	d.reset()
	d.mails++
	if d.mode.at == AtContent && d.mode.act == actRefuse {
		return d.answer(d.mode, AtContent)
	}
	mail, err := ParseMail(raw)
	if err != nil {
		return d.say("554 5.6.0 " + strings.Map(oneLine, err.Error()))
	}
	mail.From, mail.To = from, to
	mail.Answered = d.mode.at != AtContent || d.mode.act != actDrop
	d.server.mails.append(mail)
	return d.answer(d.mode, AtContent, "250 2.0.0 Mail taken")
}

func oneLine(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}

// content reads to a line of one dot and takes the dots off that were stuffed.
func (d *dialogue) content() ([]byte, bool) {
	var raw bytes.Buffer
	for raw.Len() < maxMailBytes {
		line, err := d.in.ReadBytes('\n')
		if err != nil {
			return nil, false
		}
		if bytes.Equal(bytes.TrimRight(line, "\r\n"), []byte(".")) {
			return raw.Bytes(), true
		}
		raw.Write(bytes.TrimPrefix(line, []byte(".")))
	}
	return nil, false
}

// answer does what the mode asks for at a phase, else says the healthy lines; it tells
// whether the session goes on.
func (d *dialogue) answer(mode MailMode, at MailPhase, healthy ...string) bool {
	if mode.act == actSlow {
		pause := time.NewTimer(mode.each)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-d.server.release:
		}
	}
	if mode.at != at {
		return d.say(healthy...)
	}
	switch mode.act {
	case actDrop:
		return false
	case actStall:
		<-d.server.release
	case actRefuse:
		said := d.say(fmt.Sprintf("%d %d.1.1 so says the mail server", mode.code, mode.code/100))
		return said && mode.code != 421
	}
	return d.say(healthy...)
}

// say tells whether the client is still there.
func (d *dialogue) say(lines ...string) bool {
	_, err := d.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
	return err == nil
}
