package testkit

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// MailServer is a real SMTP server that keeps what it is sent and fails as it is told.
//
// It reads as laxly as the worst servers do: a bare line feed ends a line, and a line
// of one dot ends a message whatever line end stands before and after it. A text that
// smuggles a second mail past any server smuggles it past this one.
type MailServer struct {
	addr     string
	tls      *tls.Config // nil: no STARTTLS
	certFile string
	login    [2]string // user and password; "": none needed
	mails    journal[Mail]
	commands journal[string]
	messages script[MailMode]
	sessions script[MailMode]
	release  chan struct{}
	unhold   sync.Once

	mu      sync.Mutex
	refused map[string]int // lower-case recipient → reply code
	limit   int            // mails per session; 0: any
	idle    time.Duration  // 0: for ever
	conns   map[net.Conn]bool
	opened  int
	closed  bool
	ended   sync.WaitGroup
}

// SMTP starts a mail server without TLS; it ends with the test.
func SMTP(t testing.TB) *MailServer {
	t.Helper()
	return serveSMTP(t, &MailServer{})
}

// SMTPWithStartTLS starts a mail server that takes mail under STARTTLS only.
// CertFile is what its clients have to trust.
func SMTPWithStartTLS(t testing.TB) *MailServer {
	t.Helper()
	donor := httptest.NewTLSServer(nil) // lends its certificate for 127.0.0.1
	server := &MailServer{
		tls:      &tls.Config{Certificates: donor.TLS.Certificates, MinVersion: tls.VersionTLS12},
		certFile: filepath.Join(t.TempDir(), "mail-ca.pem"),
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: donor.Certificate().Raw})
	donor.Close()
	if err := os.WriteFile(server.certFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return serveSMTP(t, server)
}

// SMTPWithLogin starts a mail server without TLS that takes mail after AUTH PLAIN only.
// URL holds the user and the password.
func SMTPWithLogin(t testing.TB, user, password string) *MailServer {
	t.Helper()
	return serveSMTP(t, &MailServer{login: [2]string{user, password}})
}

func serveSMTP(t testing.TB, m *MailServer) *MailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start a mail server: %v", err)
	}
	m.addr, m.release = listener.Addr().String(), make(chan struct{})
	m.refused, m.conns = map[string]int{}, map[net.Conn]bool{}
	m.ended.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			if m.enter(conn) {
				m.ended.Go(func() { m.talk(conn) })
			}
		}
	})
	t.Cleanup(func() {
		m.Release()
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("stop the mail server: %v", err)
		}
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		m.Cut()
		m.ended.Wait()
	})
	return m
}

// URL is the server's address in the form of VOBO_SMTP_URL.
func (m *MailServer) URL() string {
	u := url.URL{Scheme: "smtp", Host: m.addr, RawQuery: "tls=none"}
	if m.tls != nil {
		u.RawQuery = "tls=starttls"
	}
	if m.login[0] != "" {
		u.User = url.UserPassword(m.login[0], m.login[1])
	}
	return u.String()
}

// CertFile is a PEM file for SSL_CERT_FILE; empty without TLS.
func (m *MailServer) CertFile() string { return m.certFile }

// SetMode sets what happens to every message from now on, or to every session if the
// mode acts before a message can begin. MailAccept ends both.
func (m *MailServer) SetMode(mode MailMode) {
	m.messages.set(MailAccept)
	m.sessions.set(MailAccept)
	m.scriptOf(mode).set(mode)
}

// Next sets what happens to the next messages (or sessions), one mode each, before the
// mode of SetMode holds again.
func (m *MailServer) Next(modes ...MailMode) {
	for _, mode := range modes {
		m.scriptOf(mode).queue(mode)
	}
}

func (m *MailServer) scriptOf(mode MailMode) *script[MailMode] {
	switch mode.at {
	case AtGreeting, AtHello, AtStartTLS, AtAuth:
		return &m.sessions
	}
	return &m.messages
}

// Release lets every answer go that MailHold and MailStall held back, also later ones.
func (m *MailServer) Release() { m.unhold.Do(func() { close(m.release) }) }

// RefuseRecipient answers code to RCPT of one address from now on, whatever the mode
// is; 0 takes it again.
func (m *MailServer) RefuseRecipient(address string, code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused[strings.ToLower(address)] = code
}

// CloseAfter lets a session take n mails and answers 421 to the next, closing the
// connection; 0 sets no limit.
func (m *MailServer) CloseAfter(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = n
}

// CloseWhenIdle says 421 and closes a session that is silent for that long; 0 never.
// Sessions that are silent already keep the limit that they had.
func (m *MailServer) CloseWhenIdle(after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = after
}

// Cut closes every open connection without a word.
func (m *MailServer) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for conn := range m.conns {
		// It may be closed already, which is what is wanted.
		_ = conn.Close()
	}
}

// Open is how many sessions are open now.
func (m *MailServer) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

// Sessions is how many sessions there were.
func (m *MailServer) Sessions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened
}

// Commands returns every command line that came, in order of arrival and as it came,
// without its line end. The content of messages is not among them.
func (m *MailServer) Commands() []string {
	found, _ := m.commands.snapshot(func(string) bool { return true })
	return found
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

// enter counts a connection in, unless the server has ended.
func (m *MailServer) enter(conn net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = conn.Close() // nobody is served any more
		return false
	}
	m.opened++
	m.conns[conn] = true
	return true
}

func (m *MailServer) leave(conn net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, conn)
}

func (m *MailServer) limits() (mails int, idle time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limit, m.idle
}

func (m *MailServer) refusal(address string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused[strings.ToLower(address)]
}
