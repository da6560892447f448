package testkit

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strings"
	"testing"
)

// Mail is one message as a mail server got it.
type Mail struct {
	From     string   // envelope
	To       []string // envelope
	Answered bool     // the sender was told that it was accepted

	Header     mail.Header
	Subject    string // decoded
	MessageID  string // with its angle brackets
	Text, HTML string // decoded parts; empty where there is none
	Raw        []byte

	Attachments []MailAttachment // in order
}

// MailAttachment is a file that came with a mail.
type MailAttachment struct {
	Name      string // decoded; as it came, whatever it holds
	MediaType string // without parameters
	Data      []byte
}

// ParseMail reads a message with its text and HTML parts, however nested. It
// refuses what a mail reader could not show: broken MIME, an unknown encoding.
func ParseMail(raw []byte) (Mail, error) {
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Mail{}, fmt.Errorf("read a mail: %w", err)
	}
	m := Mail{Header: message.Header, MessageID: message.Header.Get("Message-Id"), Raw: raw}
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return Mail{}, fmt.Errorf("read the subject of a mail: %w", err)
	}
	err = m.addPart(message.Header.Get, message.Body)
	return m, err
}

func (m *Mail) addPart(header func(string) string, body io.Reader) error {
	contentType := header("Content-Type")
	if contentType == "" {
		contentType = "text/plain" // RFC 2045, section 5.2
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("read the content type %q: %w", contentType, err)
	}
	if strings.HasPrefix(kind, "multipart/") {
		return m.addParts(multipart.NewReader(body, params["boundary"]))
	}
	raw, err := decodePart(header("Content-Transfer-Encoding"), body)
	if err != nil {
		return fmt.Errorf("read the %s part: %w", kind, err)
	}
	if text := header("Content-Disposition"); text != "" {
		disposition, names, err := mime.ParseMediaType(text)
		if err != nil {
			return fmt.Errorf("read the disposition %q: %w", text, err)
		}
		if disposition == "attachment" {
			m.Attachments = append(m.Attachments, MailAttachment{Name: names["filename"], MediaType: kind, Data: raw})
			return nil
		}
	}
	text := strings.ReplaceAll(string(raw), "\r\n", "\n")
	switch kind {
	case "text/plain":
		m.Text += text
	case "text/html":
		m.HTML += text
	}
	return nil
}

func (m *Mail) addParts(parts *multipart.Reader) error {
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a part of a mail: %w", err)
		}
		if err := m.addPart(part.Header.Get, part); err != nil {
			return err
		}
	}
}

func decodePart(encoding string, body io.Reader) ([]byte, error) {
	switch strings.ToLower(encoding) {
	case "", "7bit", "8bit", "binary":
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	default:
		return nil, fmt.Errorf("unknown transfer encoding %q", encoding)
	}
	return io.ReadAll(body)
}

// decisionLink is the address of a decision page: a JWT behind /a/.
var decisionLink = regexp.MustCompile(`https?://[^\s"'<>]*/a/[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)

// Link returns the decision link, which must be the same in the text and in
// the HTML part. It fails the test where there is none, or more than one.
func (m Mail) Link(t testing.TB) string {
	t.Helper()
	found := map[string]bool{}
	for _, link := range decisionLink.FindAllString(m.Text+"\n"+m.HTML, -1) {
		found[link] = true
	}
	if len(found) != 1 {
		t.Fatalf("%d decision links, want one, in the mail %q to %s:\n%s", len(found), m.Subject, strings.Join(m.To, ", "), m.Text)
	}
	for link := range found {
		if m.HTML != "" && !strings.Contains(m.HTML, link) || m.Text != "" && !strings.Contains(m.Text, link) {
			t.Fatalf("the decision link is not in both parts of the mail %q to %s", m.Subject, strings.Join(m.To, ", "))
		}
		return link
	}
	return ""
}
