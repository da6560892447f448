package deliver

import (
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// takenMail is what the server took.
type takenMail struct {
	from string
	to   []string
	raw  string
}

// mailServer is a real SMTP server whose answers a test scripts.
type mailServer struct {
	t        *testing.T
	addr     string
	server   *smtp.Server
	sessions atomic.Int64

	mu    sync.Mutex
	mails []takenMail
	conns []net.Conn

	onMail func(from string) error
	onRcpt func(to string) error
	onData func(s *mailSession, taken int) error // after the text was read; taken counts this server's mails
	auth   bool
}

type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	from   string
	to     []string
	login  bool
}

func startMail(t *testing.T, configure func(*mailServer, *smtp.Server)) *mailServer {
	t.Helper()
	m := &mailServer{t: t}
	m.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		m.sessions.Add(1)
		m.mu.Lock()
		m.conns = append(m.conns, c.Conn())
		m.mu.Unlock()
		return &mailSession{server: m, conn: c}, nil
	}))
	m.server.Domain, m.server.AllowInsecureAuth = "mail.test", true
	m.server.ErrorLog = log.New(io.Discard, "", 0)
	if configure != nil {
		configure(m, m.server)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = l.Addr().String()
	m.serve(l)
	return m
}

func (m *mailServer) serve(l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.server.Serve(l); err != nil {
			m.t.Error(err)
		}
	}()
	m.t.Cleanup(func() {
		// A hanging session is cut; that it was open is no fault.
		_ = m.server.Close()
		<-done
	})
}

func (m *mailServer) taken() []takenMail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]takenMail(nil), m.mails...)
}

// cutAll closes every connection there was.
func (m *mailServer) cutAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		_ = c.Close() // some are closed already
	}
}

func (s *mailSession) Reset()        { s.from, s.to = "", nil }
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) AuthMechanisms() []string {
	if s.server.auth {
		return []string{sasl.Plain}
	}
	return nil
}

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "vobo" || password != "p@ss/word" {
			return smtp.ErrAuthFailed
		}
		s.login = true
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.auth && !s.login {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "Authentication required"}
	}
	if s.from != "" {
		s.server.t.Error("nested MAIL")
	}
	s.from = from
	if s.server.onMail != nil {
		return s.server.onMail(from)
	}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.server.onRcpt != nil {
		if err := s.server.onRcpt(to); err != nil {
			return err
		}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m := s.server
	m.mu.Lock()
	n := len(m.mails)
	m.mu.Unlock()
	if m.onData != nil {
		if err := m.onData(s, n); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mails = append(m.mails, takenMail{s.from, s.to, string(raw)})
	return nil
}
