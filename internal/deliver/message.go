package deliver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"mime/quotedprintable"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"vobo/internal/fault"
)

// Message is one mail. Its bytes depend on nothing but its fields.
type Message struct {
	ID            string // the effect's key; Message-ID and boundary are made from it
	From          string // address
	FromName      string
	To            string // address
	ToName        string
	Cc            []string // addresses
	Subject       string
	Text          string
	HTML          string // "": a text mail
	Date          time.Time
	References    string // key of the mail that this one follows in its thread, or its <message-id>; "": none
	AutoSubmitted bool   // a machine wrote it: no answer by an out-of-office robot, please (RFC 3834)
	Attachments   []Attachment
}

// Limits of a message.
const (
	MaxHeaderRunes = 1000    // of a subject or name; what is longer is shortened visibly
	MaxMessage     = 1 << 20 // bytes of text and HTML together
)

// MessageID returns the Message-ID, with its angle brackets, of the mail whose effect
// has that key, sent from that address.
func MessageID(key, from string) (string, error) {
	if err := CheckAddress(from); err != nil {
		return "", err
	}
	if key == "" || len(key) > 200 {
		return "", fault.New(fault.InvalidInput, "A mail needs an id of 1 to 200 bytes.")
	}
	var b strings.Builder
	for i, c := range []byte(key) {
		switch {
		case isLetterOrDigit(c) || c == '-':
			b.WriteByte(c)
		case c == '/' && i > 0 && i < len(key)-1 && isLetterOrDigit(key[i-1]) && isLetterOrDigit(key[i+1]):
			b.WriteByte('.')
		default: // any other byte by its code, so that two keys never share an id
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	_, domain, _ := strings.Cut(from, "@")
	return "<" + b.String() + "@" + domain + ">", nil
}

func isLetterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Bytes writes the message as RFC 5322 and MIME: CRLF line ends, 7-bit, no line above
// 78 bytes (but for a media type that is longer itself). Whatever the fields hold, there
// are exactly the headers that the fields ask for: line breaks in names and subjects
// become one space; attachments stand after the text, each a part of its own. An address
// that is not one, a missing date, an over-long text and attachments above
// MaxAttachments are fault.InvalidInput.
func (m Message) Bytes() ([]byte, error) {
	id, err := MessageID(m.ID, m.From)
	if err != nil {
		return nil, err
	}
	for _, a := range append([]string{m.To}, m.Cc...) {
		if err := CheckAddress(a); err != nil {
			return nil, err
		}
	}
	if m.Date.IsZero() {
		return nil, fault.New(fault.InvalidInput, "A mail needs a date.")
	}
	if len(m.Text)+len(m.HTML) > MaxMessage {
		return nil, fault.New(fault.InvalidInput, "The mail is larger than %d KiB.", MaxMessage>>10)
	}
	if err := m.checkAttachments(); err != nil {
		return nil, err
	}
	references, err := m.references()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	header(&b, "Date", m.Date.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	mailboxes(&b, "From", m.FromName, m.From)
	mailboxes(&b, "To", m.ToName, m.To)
	if len(m.Cc) > 0 {
		header(&b, "Cc", strings.Join(m.Cc, ",\r\n "))
	}
	header(&b, "Subject", headerText(m.Subject, len("Subject: ")))
	header(&b, "Message-ID", id)
	if references != "" {
		header(&b, "In-Reply-To", references)
		header(&b, "References", references)
	}
	if m.AutoSubmitted {
		header(&b, "Auto-Submitted", "auto-generated")
		header(&b, "X-Auto-Response-Suppress", "OOF, AutoReply")
	}
	header(&b, "MIME-Version", "1.0")
	return m.body(&b)
}

func (m Message) references() (string, error) {
	r := m.References
	if strings.HasPrefix(r, "<") && strings.HasSuffix(r, ">") {
		for _, c := range []byte(r[1 : len(r)-1]) {
			if c <= ' ' || c > '~' || c == '<' || c == '>' {
				return "", fault.New(fault.InvalidInput, "The mail refers to %q, which is no Message-ID.", printable(r, 80))
			}
		}
		return r, nil
	}
	if r == "" {
		return "", nil
	}
	return MessageID(r, m.From)
}

// body writes the text, or text and HTML, or multipart/mixed of those and the attachments.
func (m Message) body(b *bytes.Buffer) ([]byte, error) {
	if len(m.Attachments) == 0 {
		if err := m.content(b); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
	boundary := m.boundary("mixed")
	header(b, "Content-Type", "multipart/mixed;\r\n boundary=\""+boundary+"\"")
	b.WriteString("\r\n--" + boundary + "\r\n")
	if err := m.content(b); err != nil {
		return nil, err
	}
	for _, a := range m.Attachments {
		b.WriteString("\r\n--" + boundary + "\r\n")
		if err := a.write(b); err != nil {
			return nil, err
		}
	}
	b.WriteString("\r\n--" + boundary + "--\r\n")
	return b.Bytes(), nil
}

// boundary makes a separator that no part can hold: "=_" occurs neither in
// quoted-printable text (RFC 2045 section 6.7) nor in base64.
func (m Message) boundary(of string) string {
	sum := sha256.Sum256([]byte("vobo " + of + " " + m.ID))
	return "=_" + hex.EncodeToString(sum[:12])
}

func (m Message) content(b *bytes.Buffer) error {
	if m.HTML == "" {
		return part(b, "text/plain", m.Text)
	}
	boundary := m.boundary("boundary")
	header(b, "Content-Type", "multipart/alternative;\r\n boundary=\""+boundary+"\"")
	b.WriteString("\r\n")
	for _, p := range [][2]string{{"text/plain", m.Text}, {"text/html", m.HTML}} {
		b.WriteString("--" + boundary + "\r\n")
		if err := part(b, p[0], p[1]); err != nil {
			return err
		}
		b.WriteString("\r\n")
	}
	b.WriteString("--" + boundary + "--\r\n")
	return nil
}

func part(b *bytes.Buffer, mediaType, text string) error {
	header(b, "Content-Type", mediaType+"; charset=utf-8")
	header(b, "Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(b)
	text = cleanBody(text)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return fault.Wrap(err, fault.Internal, "The mail could not be encoded.")
	}
	if err := w.Close(); err != nil {
		return fault.Wrap(err, fault.Internal, "The mail could not be encoded.")
	}
	return nil
}

// cleanBody makes every line end LF (quoted-printable writes CRLF) and drops control
// characters but the tab.
func cleanBody(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

func header(b *bytes.Buffer, name, value string) {
	b.WriteString(name + ": " + value + "\r\n")
}

func mailboxes(b *bytes.Buffer, name, display, address string) {
	value := displayName(display, len(name)+2)
	if value == "" {
		header(b, name, address)
		return
	}
	header(b, name, value+"\r\n <"+address+">")
}

// oneLine turns every run of line breaks and other control characters into one space,
// drops direction controls, which nothing could close in a header, and shortens.
func oneLine(s string) string {
	var b strings.Builder
	gap := false
	count := 0
	for _, r := range strings.ToValidUTF8(s, string(utf8.RuneError)) {
		if isDirectionControl(r) {
			continue
		}
		if unicode.IsControl(r) || isLineSeparator(r) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 && r != ' ' {
			b.WriteByte(' ')
		}
		gap = false
		if count++; count > MaxHeaderRunes {
			b.WriteRune('…')
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// headerText writes unstructured text: as it is where that is short and plain ASCII,
// else as encoded-words (RFC 2047). used is what stands on the first line already.
func headerText(s string, used int) string {
	s = oneLine(s)
	if plainASCII(s) && used+len(s) <= 76 && !strings.Contains(s, "=?") {
		return s
	}
	return encodedWords(s, used)
}

// displayName writes a name as a quoted string or as encoded-words.
func displayName(s string, used int) string {
	s = oneLine(s)
	if s == "" {
		return ""
	}
	if plainASCII(s) && used+len(s) <= 60 && !strings.Contains(s, "=?") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return encodedWords(s, used)
}

func plainASCII(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// encodedWords writes s as base64 encoded-words, one a line, none splitting a rune.
func encodedWords(s string, used int) string {
	var b strings.Builder
	room := max(9, (75-used-12)/4*3)
	for s != "" {
		n := 0
		for n < len(s) {
			_, size := utf8.DecodeRuneInString(s[n:])
			if n+size > room {
				break
			}
			n += size
		}
		if b.Len() > 0 {
			b.WriteString("\r\n ")
		}
		b.WriteString("=?utf-8?b?" + base64.StdEncoding.EncodeToString([]byte(s[:n])) + "?=")
		s, room = s[n:], 45
	}
	return b.String()
}

// CheckAddress tells whether s is an address that mail can be sent to: local@domain in
// ASCII, without quotes, comments or a name; a host name with a dot (or localhost). The
// error, fault.InvalidInput, says what is wrong.
func CheckAddress(s string) error {
	bad := func(what string) error {
		return fault.New(fault.InvalidInput, "%q is no mail address: %s.", printable(s, 80), what)
	}
	if len(s) > 254 {
		return bad("it is longer than 254 characters")
	}
	local, domain, ok := strings.Cut(s, "@")
	if !ok || local == "" || domain == "" {
		return bad("it needs something on both sides of one @")
	}
	if len(local) > 64 {
		return bad("what stands before the @ is longer than 64 characters")
	}
	for i, c := range []byte(local) {
		dot := c == '.' && i > 0 && i < len(local)-1 && local[i-1] != '.'
		if !dot && !isLetterOrDigit(c) && strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) < 0 {
			return bad("a character before the @ is not allowed")
		}
	}
	if strings.Contains(domain, "_") || !validHostname(domain) {
		return bad("what stands after the @ is no domain (write other alphabets in punycode)")
	}
	if !strings.Contains(domain, ".") && !strings.EqualFold(domain, "localhost") {
		return bad("the domain has no dot")
	}
	return nil
}
