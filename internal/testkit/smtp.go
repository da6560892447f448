package testkit

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// MailMode is what a mail server does with a message.
type MailMode int

// The modes of a MailServer.
const (
	MailAccept         MailMode = iota // 250
	MailDefer                          // 451 after the content: try again later
	MailReject                         // 554 after the content: never
	MailDeferRcpt                      // 450 to the recipient
	MailRejectRcpt                     // 550 to the recipient
	MailDropBeforeData                 // the connection is cut before any content
	MailDropAfterData                  // the message is kept and the connection cut before the answer
	MailHold                           // the message is kept and the answer held back until Release
)

// MailServer is a real SMTP server that keeps what it is sent.
type MailServer struct {
	addr     string
	startTLS bool
	certFile string
	mails    journal[Mail]
	modes    script[MailMode]
	release  chan struct{}
}

// SMTP starts a mail server without TLS; it ends with the test.
func SMTP(t testing.TB) *MailServer {
	t.Helper()
	return serveSMTP(t, nil)
}

// SMTPWithStartTLS starts a mail server that takes mail under STARTTLS only.
// CertFile is what its clients have to trust.
func SMTPWithStartTLS(t testing.TB) *MailServer {
	t.Helper()
	donor := httptest.NewTLSServer(nil) // lends its certificate for 127.0.0.1
	config := &tls.Config{Certificates: donor.TLS.Certificates}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: donor.Certificate().Raw})
	donor.Close()
	server := serveSMTP(t, config)
	server.certFile = filepath.Join(t.TempDir(), "mail-ca.pem")
	if err := os.WriteFile(server.certFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return server
}

func serveSMTP(t testing.TB, config *tls.Config) *MailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start a mail server: %v", err)
	}
	m := &MailServer{addr: listener.Addr().String(), startTLS: config != nil, release: make(chan struct{})}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: m, conn: c}, nil
	}))
	server.Domain, server.TLSConfig = "mail.test", config
	server.ReadTimeout, server.WriteTimeout = time.Minute, time.Minute
	server.ErrorLog = log.New(io.Discard, "", 0) // it reports the connections that the modes cut
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		m.Release()
		if err := server.Close(); err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Errorf("stop the mail server: %v", err)
		}
		if err := <-ended; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("mail server: %v", err)
		}
	})
	return m
}

// URL is the server's address in the form of VOBO_SMTP_URL.
func (m *MailServer) URL() string {
	if m.startTLS {
		return "smtp://" + m.addr + "?tls=starttls"
	}
	return "smtp://" + m.addr + "?tls=none"
}

// CertFile is a PEM file for SSL_CERT_FILE; empty without TLS.
func (m *MailServer) CertFile() string { return m.certFile }

// SetMode sets what happens to every message from now on.
func (m *MailServer) SetMode(mode MailMode) { m.modes.set(mode) }

// Next sets what happens to the next messages, one mode each, before the mode
// of SetMode holds again.
func (m *MailServer) Next(modes ...MailMode) { m.modes.queue(modes...) }

// Release lets every answer go that MailHold held back, also later ones.
func (m *MailServer) Release() {
	select {
	case <-m.release:
	default:
		close(m.release)
	}
}

// Mails returns the mails kept so far in order of arrival, with those whose
// answer the sender never got.
func (m *MailServer) Mails() []Mail {
	found, _ := m.mails.snapshot(func(Mail) bool { return true })
	return found
}

// MailsTo returns the mails kept so far for one recipient.
func (m *MailServer) MailsTo(to string) []Mail {
	found, _ := m.mails.snapshot(isTo(to))
	return found
}

// WaitMail waits until there are n mails for a recipient and returns all that
// there are for it.
func (m *MailServer) WaitMail(t testing.TB, to string, n int) []Mail {
	t.Helper()
	return m.WaitMailWhere(t, "for "+to, n, isTo(to))
}

// WaitMailWhere is WaitMail with a condition of its own, which what puts in words.
func (m *MailServer) WaitMailWhere(t testing.TB, what string, n int, match func(Mail) bool) []Mail {
	t.Helper()
	found, ok := m.mails.waitFor(Patience, n, match)
	if !ok {
		var all []string
		for _, mail := range m.Mails() {
			all = append(all, strings.Join(mail.To, ",")+": "+mail.Subject)
		}
		t.Fatalf("waited %s for %d mails %s; %d came. All mails:\n%s", Patience, n, what, len(found), strings.Join(all, "\n"))
	}
	return found
}

func isTo(to string) func(Mail) bool {
	return func(mail Mail) bool {
		return slices.ContainsFunc(mail.To, func(rcpt string) bool { return strings.EqualFold(rcpt, to) })
	}
}

// mailSession is one connection's dialogue.
type mailSession struct {
	server *MailServer
	conn   *smtp.Conn
	mode   MailMode
	from   string
	to     []string
}

func (s *mailSession) Reset()        { s.from, s.to = "", nil }
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if _, encrypted := s.conn.TLSConnectionState(); s.server.startTLS && !encrypted {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "Must issue a STARTTLS command first"}
	}
	s.from, s.mode = from, s.server.modes.take()
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	switch s.mode {
	case MailDeferRcpt:
		return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 1}, Message: "Mailbox busy"}
	case MailRejectRcpt:
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such mailbox"}
	case MailDropBeforeData:
		return s.drop()
	}
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	switch s.mode {
	case MailDefer:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "Try again later"}
	case MailReject:
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "Message refused"}
	}
	mail, err := ParseMail(raw)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: err.Error()}
	}
	mail.From, mail.To, mail.Answered = s.from, slices.Clone(s.to), s.mode != MailDropAfterData
	s.server.mails.append(mail)
	switch s.mode {
	case MailDropAfterData:
		return s.drop()
	case MailHold:
		<-s.server.release
	}
	return nil
}

// drop cuts the connection; the answer that it returns has nowhere to go.
func (s *mailSession) drop() error {
	return errors.Join(errors.New("connection cut on purpose"), s.conn.Conn().Close())
}
