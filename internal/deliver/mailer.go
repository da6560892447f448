package deliver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"vobo/internal/fault"
)

// tlsMode says how a connection to the mail server is encrypted.
type tlsMode string

const (
	startTLS    tlsMode = "starttls" // required, not merely tried
	implicitTLS tlsMode = "implicit"
	noTLS       tlsMode = "none"
)

// Limits of sending mail.
const (
	maxIdleSessions    = 4
	maxMailsPerSession = 50
)

// mailLimits bounds a connect and a whole attempt; idle is how long a session is kept.
type mailLimits struct{ dial, total, idle time.Duration }

// An attempt ends well before the outbox's lease of 60 s.
var defaultMailLimits = mailLimits{dial: 10 * time.Second, total: 45 * time.Second, idle: 4 * time.Second}

// Mailer sends mails over one SMTP server. It keeps a few sessions for the next mails,
// looks whether one still lives before it uses it, and throws away every session in
// which something went wrong. Safe for concurrent use; Close it at the end.
type Mailer struct {
	address, host  string
	mode           tlsMode
	user, password string
	from           string
	hello          string
	tls            *tls.Config
	limits         mailLimits

	mu     sync.Mutex
	idle   []*session
	closed bool
}

// NewMailer reads smtp://user:pass@host:port?tls=starttls|implicit|none (default
// starttls; smtps:// means implicit; default ports 587, 465 and 25) and the address
// mails come from. The error, fault.InvalidInput, never shows the password. A password
// without TLS is refused, except to this machine itself.
func NewMailer(smtpURL, from string) (*Mailer, error) {
	if err := CheckAddress(from); err != nil {
		return nil, fault.Wrap(err, fault.InvalidInput, "VOBO_MAIL_FROM: %s", fault.As(err).Message)
	}
	u, err := url.Parse(smtpURL)
	if err != nil || u.Host == "" || u.Opaque != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, badSMTP("write smtp://user:password@host:587?tls=starttls (characters like @ and / in the password percent-encoded)")
	}
	m := &Mailer{host: u.Hostname(), mode: startTLS, from: from, limits: defaultMailLimits}
	_, m.hello, _ = strings.Cut(from, "@")
	if u.Scheme == "smtps" {
		m.mode = implicitTLS
	}
	if err := m.option(u); err != nil {
		return nil, err
	}
	if net.ParseIP(m.host) == nil && !validHostname(m.host) {
		return nil, badSMTP("the host is neither a name nor an address")
	}
	port := u.Port()
	if port == "" {
		port = map[tlsMode]string{startTLS: "587", implicitTLS: "465", noTLS: "25"}[m.mode]
	}
	if !validPort(port) {
		return nil, badSMTP("the port is not 1 to 65535")
	}
	m.address = net.JoinHostPort(m.host, port)
	if u.User != nil {
		m.user = u.User.Username()
		m.password, _ = u.User.Password()
	}
	if m.user != "" && m.mode == noTLS && !isLoopback(m.host) {
		return nil, badSMTP("a password would go out in the clear; use tls=starttls or tls=implicit")
	}
	return m, nil
}

func (m *Mailer) option(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badSMTP("what follows the ? is not well-formed")
	}
	for name, values := range query {
		mode := tlsMode(values[0])
		known := mode == startTLS || mode == implicitTLS || mode == noTLS
		if name != "tls" || len(values) != 1 || !known {
			return badSMTP("after the ? only tls=starttls, tls=implicit or tls=none may stand")
		}
		if u.Scheme == "smtps" && mode != implicitTLS {
			return badSMTP("smtps:// contradicts tls=" + string(mode))
		}
		m.mode = mode
	}
	return nil
}

func badSMTP(what string) error { return fault.New(fault.InvalidInput, "VOBO_SMTP_URL: %s.", what) }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// From returns the address that mails come from.
func (m *Mailer) From() string { return m.from }

// Close ends the kept sessions; a later Send opens and closes one of its own.
func (m *Mailer) Close() {
	m.mu.Lock()
	idle := m.idle
	m.idle, m.closed = nil, true
	m.mu.Unlock()
	for _, s := range idle {
		s.drop()
	}
}

// Send makes one attempt, of at most 45 seconds, to hand raw (see Message.Bytes) to the
// mail server for the addresses in to, and classifies what came of it.
//
// Recipients refused for good are named in Detail while the others get their mail;
// if one is refused for now, nobody gets it and the whole is tried again. A cut after
// the last byte and before the answer is Unknown, or Retry if idempotent. What the
// settings here are to blame for, and not the recipient, is marked Config.
func (m *Mailer) Send(ctx context.Context, to []string, raw []byte, idempotent bool) Outcome {
	if len(to) == 0 {
		return Outcome{Class: Permanent, Detail: "The mail has no recipient."}
	}
	var good, malformed []string
	for _, a := range to {
		if err := CheckAddress(a); err != nil {
			malformed = append(malformed, fault.As(err).Message)
			continue
		}
		good = append(good, a)
	}
	if len(good) == 0 {
		return Outcome{Class: Permanent, Detail: strings.Join(malformed, " ")}
	}
	ctx, cancel := context.WithTimeout(ctx, m.limits.total)
	defer cancel()
	out := m.handOver(ctx, good, raw, idempotent)
	for _, what := range malformed {
		out.Detail += " " + what
	}
	return out
}

// handOver delivers to addresses that are well-formed. It begins again, on a new
// session, only where nothing of the mail was sent: when the server had ended a kept
// session, and when it ends the session after it refused a recipient for good, who is
// left out then.
func (m *Mailer) handOver(ctx context.Context, to []string, raw []byte, idempotent bool) Outcome {
	var refused []rejection
	for {
		s, kept, err := m.session(ctx)
		if err != nil {
			return m.unreachable(err)
		}
		h := s.deliver(ctx, m.from, to, raw, idempotent)
		if h.Class == Success {
			m.keep(s)
		} else {
			s.drop()
		}
		refused = append(refused, h.refused...)
		switch {
		case h.stale && kept:
			continue
		case h.cut && len(h.refused) > 0:
			to = without(to, h.refused)
			if len(to) == 0 {
				return allRefused(refused)
			}
			continue
		}
		if len(refused) > 0 {
			h.Detail += " Refused: " + join(refused) + "."
		}
		return h.Outcome
	}
}

func without(to []string, refused []rejection) []string {
	return slices.DeleteFunc(slices.Clone(to), func(a string) bool {
		return slices.ContainsFunc(refused, func(r rejection) bool { return r.address == a })
	})
}

// unreachable classifies what went wrong before a mail was begun. It is the server's
// or the configuration's fault, never the recipient's: try again and tell operators.
func (m *Mailer) unreachable(err error) Outcome {
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return Outcome{
			Class: Retry, Status: reply.Code, Answered: true, Config: reply.Code >= 500,
			Detail: m.hidden(fmt.Sprintf("The mail server %s does not let us in: %s.", m.host, replyText(reply))), Answer: m.hidden(replyAnswer(reply)),
		}
	}
	var known *setupError
	if errors.As(err, &known) {
		return Outcome{Class: Retry, Config: true, Detail: fmt.Sprintf("The mail server %s %s. Check VOBO_SMTP_URL.", m.host, known.what)}
	}
	return Outcome{Class: Retry, Detail: fmt.Sprintf("No connection to the mail server %s: %s.", m.host, reason(err))}
}

// hidden masks the password, which a server may repeat.
func (m *Mailer) hidden(text string) string {
	if len(m.password) < minSecret {
		return text
	}
	return mask(text, []string{m.password})
}

// setupError is a mail server that does not offer what VOBO_SMTP_URL asks for, or with
// which TLS cannot be agreed.
type setupError struct{ what string }

func (e *setupError) Error() string { return "deliver: the mail server " + e.what }

// session returns a kept session that still answers, or a new one.
func (m *Mailer) session(ctx context.Context) (_ *session, kept bool, err error) {
	for {
		m.mu.Lock()
		var s *session
		if n := len(m.idle); n > 0 {
			s, m.idle = m.idle[n-1], m.idle[:n-1]
		}
		m.mu.Unlock()
		if s == nil {
			s, err = m.open(ctx)
			return s, false, err
		}
		s.expiry.Stop()
		stop := s.bind(ctx)
		err = s.client.Reset()
		stop()
		if err == nil && ctx.Err() == nil {
			return s, true, nil
		}
		s.drop()
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
	}
}

func (m *Mailer) keep(s *session) {
	m.mu.Lock()
	if m.closed || len(m.idle) >= maxIdleSessions || s.mails >= maxMailsPerSession {
		m.mu.Unlock()
		s.quit(m.limits.dial)
		return
	}
	m.idle = append(m.idle, s)
	s.expiry = time.AfterFunc(m.limits.idle, func() { m.expire(s) })
	m.mu.Unlock()
}

func (m *Mailer) expire(s *session) {
	m.mu.Lock()
	found := false
	for i, other := range m.idle {
		if found = other == s; found {
			m.idle = append(m.idle[:i], m.idle[i+1:]...)
			break
		}
	}
	m.mu.Unlock()
	if found {
		s.quit(m.limits.dial)
	}
}

// open connects, encrypts and logs in.
func (m *Mailer) open(ctx context.Context) (*session, error) {
	d := net.Dialer{Timeout: m.limits.dial}
	conn, err := d.DialContext(ctx, "tcp", m.address)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	stop := s.bind(ctx)
	defer stop()
	if err := m.greet(ctx, s); err != nil {
		return nil, errors.Join(err, ctx.Err(), conn.Close())
	}
	return s, nil
}

func (m *Mailer) greet(ctx context.Context, s *session) (err error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.tls != nil {
		cfg = m.tls.Clone()
	}
	cfg.ServerName = m.host
	conn := s.conn
	if m.mode == implicitTLS {
		secure := tls.Client(conn, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			return tlsFailure(ctx, err)
		}
		conn = secure
	}
	if s.client, err = smtp.NewClient(conn, m.host); err != nil {
		return err
	}
	s.client.SkipSMTPUTF8(true)
	if err := s.client.Hello(m.hello); err != nil {
		return err
	}
	if m.mode == startTLS {
		if ok, _ := s.client.Extension("STARTTLS"); !ok {
			return &setupError{"does not offer STARTTLS"}
		}
		if err := s.client.StartTLS(cfg); err != nil {
			return tlsFailure(ctx, err)
		}
	}
	if m.user == "" {
		return nil
	}
	auth, err := m.auth(s.client)
	if err != nil {
		return err
	}
	return s.client.Auth(auth)
}

// tlsFailure tells a TLS that cannot be agreed from a connection that merely broke or a
// server that says "not now".
func tlsFailure(ctx context.Context, err error) error {
	var reply *textproto.Error
	var errno syscall.Errno
	var slow net.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &reply), errors.As(err, &errno), errors.As(err, &slow) && slow.Timeout(),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return err
	}
	what := reason(err)
	if what == unreadable {
		what = "TLS could not be agreed"
	}
	return &setupError{"cannot be reached under TLS: " + what}
}

func (m *Mailer) auth(c *smtp.Client) (smtp.Auth, error) {
	_, offered := c.Extension("AUTH")
	has := map[string]bool{}
	for _, name := range strings.Fields(strings.ToUpper(offered)) {
		has[name] = true
	}
	switch {
	case has["SCRAM-SHA-256"]:
		return smtp.ScramSHA256Auth(m.user, m.password), nil
	case has["PLAIN"]:
		return smtp.PlainAuth("", m.user, m.password, m.host, isLoopback(m.host)), nil
	case has["LOGIN"]:
		return smtp.LoginAuth(m.user, m.password, m.host, isLoopback(m.host)), nil
	case has["CRAM-MD5"]:
		return smtp.CRAMMD5Auth(m.user, m.password), nil
	}
	return nil, &setupError{"offers no way to log in that we know (SCRAM-SHA-256, PLAIN, LOGIN, CRAM-MD5)"}
}
