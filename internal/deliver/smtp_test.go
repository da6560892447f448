package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"vobo/internal/fault"
)

func newMailer(t *testing.T, url string) *Mailer {
	t.Helper()
	m, err := NewMailer(url, "vobo@mail.example")
	if err != nil {
		t.Fatal(err)
	}
	m.limits = mailLimits{dial: 2 * time.Second, total: 2 * time.Second, idle: time.Second}
	t.Cleanup(m.Close)
	return m
}

func plainMailer(t *testing.T, m *mailServer) *Mailer {
	t.Helper()
	return newMailer(t, "smtp://"+m.addr+"?tls=none")
}

func testMessage(n int) Message {
	return Message{ID: fmt.Sprintf("01981f2e/4/%d", n), From: "vobo@mail.example", To: "ana@example.com", Subject: "Approve", Text: "Hello\n.\nGood bye\n", Date: attemptTime}
}

func rawMessage(t *testing.T, n int) []byte {
	t.Helper()
	raw, err := testMessage(n).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAMailArrivesByteForByte(t *testing.T) {
	t.Parallel()
	server := startMail(t, nil)
	m := plainMailer(t, server)
	raw := rawMessage(t, 1)
	out := m.Send(t.Context(), []string{"ana@example.com"}, raw, true)
	if out.Class != Success || !out.Answered {
		t.Fatalf("%+v", out)
	}
	got := server.taken()
	if len(got) != 1 || got[0].raw != string(raw) || got[0].from != "vobo@mail.example" || strings.Join(got[0].to, " ") != "ana@example.com" {
		t.Errorf("the server took %q", got)
	}
}

func smtpError(code int) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: "so says the server"}
}

// field report B34, guarantee R-19
func TestTemporaryAnswersAreRetriedAndFinalOnesAreFinal(t *testing.T) {
	t.Parallel()
	for _, code := range []int{421, 450, 451, 452, 550, 551, 552, 553, 554} {
		for _, at := range []string{"MAIL", "RCPT", "DATA"} {
			t.Run(fmt.Sprint(code, " at ", at), func(t *testing.T) {
				t.Parallel()
				var refuse atomic.Bool
				refuse.Store(true)
				fail := func(here string) error {
					if here == at && refuse.Load() {
						return smtpError(code)
					}
					return nil
				}
				server := startMail(t, func(m *mailServer, _ *smtp.Server) {
					m.onMail = func(string) error { return fail("MAIL") }
					m.onRcpt = func(string) error { return fail("RCPT") }
					m.onData = func(*mailSession, int) error { return fail("DATA") }
				})
				m := plainMailer(t, server)
				want := Retry
				if code >= 500 {
					want = Permanent
				}
				out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, 1), false)
				if out.Class != want || out.Status != code || !out.Answered || !strings.Contains(out.Detail, "so says the server") {
					t.Errorf("%+v, want %s", out, want)
				}
				refuse.Store(false)
				if out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, 1), false); out.Class != Success {
					t.Errorf("afterwards: %+v", out)
				}
				if n := len(server.taken()); n != 1 {
					t.Errorf("%d mails taken", n)
				}
			})
		}
	}
}

// field report B34: what is wrong with us is not blamed on the recipient.
func TestLoginAndTLSFailuresAreRetriedAndNameTheSetting(t *testing.T) {
	t.Parallel()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	withTLS := func(m *mailServer, s *smtp.Server) {
		m.auth = true
		s.TLSConfig = &tls.Config{Certificates: certificate.TLS.Certificates, MinVersion: tls.VersionTLS12}
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate.Certificate())
	trusting := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	secure := startMail(t, withTLS)
	bare := startMail(t, nil)
	cases := map[string]struct {
		url    string
		tls    *tls.Config
		class  Class
		status int
		detail string
	}{
		"right password":       {"smtp://vobo:p%40ss%2Fword@" + secure.addr, trusting, Success, 250, ""},
		"wrong password":       {"smtp://vobo:nope@" + secure.addr, trusting, Retry, 535, "does not let us in"},
		"no password":          {"smtp://" + secure.addr, trusting, Retry, 530, "Authentication required"},
		"untrusted server":     {"smtp://vobo:nope@" + secure.addr, nil, Retry, 0, "certificate"},
		"no STARTTLS":          {"smtp://" + bare.addr, nil, Retry, 0, "STARTTLS"},
		"no AUTH":              {"smtp://vobo:x@" + bare.addr + "?tls=none", nil, Retry, 0, "no way to log in"},
		"implicit on a bare":   {"smtps://" + bare.addr, nil, Retry, 0, "TLS"},
		"nobody listens there": {"smtp://127.0.0.1:1?tls=none", nil, Retry, 0, "No connection"},
	}
	for name, c := range cases {
		m := newMailer(t, c.url)
		m.tls = c.tls
		out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, 1), false)
		if out.Class != c.class || out.Status != c.status || !strings.Contains(out.Detail, c.detail) || c.class == Retry && out.WentOut {
			t.Errorf("%s: %+v", name, out)
		}
		if ours := name != "right password" && name != "nobody listens there"; out.Config != ours {
			t.Errorf("%s: config is %v", name, out.Config)
		}
		if strings.Contains(out.Detail, "nope") || strings.Contains(out.Detail, "p@ss") {
			t.Errorf("%s: the password is in %q", name, out.Detail)
		}
	}
}

func TestMailGoesOverImplicitTLS(t *testing.T) {
	t.Parallel()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	server := &mailServer{t: t}
	server.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &mailSession{server: server, conn: c}, nil }))
	server.server.ErrorLog = log.New(io.Discard, "", 0)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	server.serve(l)
	pool := x509.NewCertPool()
	pool.AddCert(certificate.Certificate())
	m := newMailer(t, "smtps://"+l.Addr().String())
	m.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	for n := range 3 {
		if out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, n), false); out.Class != Success {
			t.Errorf("%+v", out)
		}
	}
}

// guarantee R-18: only a cut after the last byte is unknown, and a mail that counts as
// idempotent goes again with the same Message-ID.
func TestACutAfterTheTextIsUnknownAndBeforeItIsNot(t *testing.T) {
	t.Parallel()
	cut := func(s *mailSession) error {
		_ = s.conn.Conn().Close()
		return errors.New("cut")
	}
	for _, c := range []struct {
		name              string
		after, idempotent bool
		want              Class
	}{
		{"after the text", true, false, Unknown},
		{"after the text, idempotent", true, true, Retry},
		{"before the text", false, false, Retry},
		{"before the text, idempotent", false, true, Retry},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var first atomic.Bool
			first.Store(true)
			var last *mailSession
			server := startMail(t, func(m *mailServer, _ *smtp.Server) {
				m.onRcpt = func(string) error {
					if !c.after && first.Swap(false) {
						m.cutAll()
					}
					return nil
				}
				m.onData = func(s *mailSession, _ int) error {
					last = s
					if c.after && first.Swap(false) {
						m.mu.Lock()
						m.mails = append(m.mails, takenMail{raw: "taken before the cut"})
						m.mu.Unlock()
						return cut(s)
					}
					return nil
				}
			})
			m := plainMailer(t, server)
			out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, 1), c.idempotent)
			if out.Class != c.want || out.WentOut != c.after || out.Answered {
				t.Errorf("%+v, want %s", out, c.want)
			}
			if out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, 1), c.idempotent); out.Class != Success || last == nil {
				t.Errorf("afterwards: %+v", out)
			}
		})
	}
}

func TestAStallingMailServerEndsWithTheTimeOut(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	server := startMail(t, func(m *mailServer, _ *smtp.Server) {
		m.onData = func(*mailSession, int) error {
			<-release
			return nil
		}
	})
	m := plainMailer(t, server)
	m.limits.total = 200 * time.Millisecond
	if out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, 1), false); out.Class != Unknown || !strings.Contains(out.Detail, "closed") && !strings.Contains(out.Detail, "too long") {
		t.Errorf("%+v", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := m.Send(ctx, []string{"ana@example.com"}, rawMessage(t, 1), false); out.Class != Retry || out.WentOut {
		t.Errorf("a stopping service: %+v", out)
	}
}

// field report B35
func TestSessionsAreReusedAndAServerThatEndsThemCostsNoAttempt(t *testing.T) {
	t.Parallel()
	server := startMail(t, nil)
	m := plainMailer(t, server)
	for n := range 10 {
		if out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, n), false); out.Class != Success {
			t.Errorf("mail %d: %+v", n, out)
		}
	}
	if n := server.sessions.Load(); n != 1 {
		t.Errorf("%d sessions for 10 mails in a row", n)
	}
	// The server ends every session while it is idle.
	for n := 10; n < 20; n++ {
		server.cutAll()
		if out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, n), false); out.Class != Success {
			t.Errorf("mail %d after an idle cut: %+v", n, out)
		}
	}
	if got := server.taken(); len(got) != 20 {
		t.Errorf("%d mails taken, want 20", len(got))
	}
}

// field report B35: a server that takes three mails a session and says 421 to the next.
func TestAServerThatLimitsMailsPerSessionCostsNoAttempt(t *testing.T) {
	t.Parallel()
	var inSession atomic.Int64
	server := startMail(t, nil)
	server.onMail = func(string) error {
		if inSession.Add(1) > 3 {
			inSession.Store(0)
			return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "Too many mails in this session"}
		}
		return nil
	}
	m := plainMailer(t, server)
	for n := range 10 {
		if out := m.Send(t.Context(), []string{"ana@example.com"}, rawMessage(t, n), false); out.Class != Success {
			t.Errorf("mail %d: %+v", n, out)
		}
	}
	if got := server.taken(); len(got) != 10 {
		t.Errorf("%d mails taken, want 10", len(got))
	}
}

// field report B25, B35: a bad recipient harms neither the good ones nor later mails.
func TestABadRecipientHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	server := startMail(t, func(m *mailServer, _ *smtp.Server) {
		m.onRcpt = func(to string) error {
			switch {
			case strings.HasPrefix(to, "gone"):
				return smtpError(550)
			case strings.HasPrefix(to, "later"):
				return smtpError(450)
			}
			return nil
		}
	})
	m := plainMailer(t, server)
	long := strings.Repeat("x", 300) + "@example.com"
	for n, c := range []struct {
		to     []string
		want   Class
		taken  string
		detail string
	}{
		{[]string{"ana@example.com"}, Success, "ana@example.com", ""},
		{[]string{"gone@example.com"}, Permanent, "", "gone@example.com"},
		{[]string{"luis@example.com"}, Success, "luis@example.com", ""},
		{[]string{"ana@example.com", "a@b", "mei@example.com"}, Success, "ana@example.com mei@example.com", `"a@b"`},
		{[]string{"ana@example.com", "gone@example.com"}, Success, "ana@example.com", "gone@example.com"},
		{[]string{"ana@example.com", "later@example.com"}, Retry, "", "later@example.com"},
		{[]string{"x@y\u200f"}, Permanent, "", "no mail address"},
		{[]string{""}, Permanent, "", "no mail address"},
		{[]string{long}, Permanent, "", "longer"},
		{nil, Permanent, "", "no recipient"},
		{[]string{"ana@example.com\r\nDATA"}, Permanent, "", "no mail address"},
		{[]string{"ana@example.com> NOTIFY=NEVER"}, Permanent, "", "no mail address"},
		{[]string{"rosa@example.com"}, Success, "rosa@example.com", ""},
	} {
		before := len(server.taken())
		out := m.Send(t.Context(), c.to, rawMessage(t, n), true)
		if out.Class != c.want || !strings.Contains(out.Detail, c.detail) {
			t.Errorf("%.60q: %+v, want %s", c.to, out, c.want)
		}
		got := ""
		if all := server.taken(); len(all) > before {
			got = strings.Join(all[len(all)-1].to, " ")
		}
		if got != c.taken {
			t.Errorf("%.60q: taken for %q, want %q", c.to, got, c.taken)
		}
	}
}

func TestManyMailsAtOnceAllArriveOnce(t *testing.T) {
	t.Parallel()
	server := startMail(t, nil)
	m := plainMailer(t, server)
	m.limits.total = 20 * time.Second
	var wg sync.WaitGroup
	for n := range 60 {
		raw := rawMessage(t, n)
		wg.Go(func() {
			if out := m.Send(t.Context(), []string{"ana@example.com"}, raw, false); out.Class != Success {
				t.Errorf("mail %d: %+v", n, out)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, got := range server.taken() {
		seen[got.raw] = true
	}
	if len(seen) != 60 || len(server.taken()) != 60 {
		t.Errorf("%d different of %d mails taken, want 60 of 60", len(seen), len(server.taken()))
	}
}

func TestMailSettingsAreCheckedAndNeverShown(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"smtp://mail.example":                      "mail.example:587",
		"smtp://mail.example?tls=none":             "mail.example:25",
		"smtps://mail.example":                     "mail.example:465",
		"smtp://mail.example?tls=implicit":         "mail.example:465",
		"smtp://u:p@mail.example:2525/":            "mail.example:2525",
		"smtp://u:p@localhost:25?tls=none":         "localhost:25",
		"smtp://[::1]:25?tls=none":                 "[::1]:25",
		"":                                         "",
		"mail.example:587":                         "",
		"http://mail.example":                      "",
		"smtp://":                                  "",
		"smtp://mail.example:0":                    "",
		"smtp://mail.example:99999":                "",
		"smtp://mail.example/path":                 "",
		"smtp://mail.example?tls=maybe":            "",
		"smtp://mail.example?tls=none&tls=none":    "",
		"smtp://mail.example?insecure=1":           "",
		"smtps://mail.example?tls=none":            "",
		"smtp://u:topsecret@mail.example?tls=none": "",
		"smtp://u:topsecret@mail.example:x":        "",
		"smtp://u:topsecret@mail example":          "",
		"smtp://u:topsecret@":                      "",
		"smtp://mail.example#x":                    "",
	} {
		m, err := NewMailer(url, "vobo@mail.example")
		switch {
		case want == "" && (fault.CodeOf(err) != fault.InvalidInput || !strings.Contains(err.Error(), "VOBO_SMTP_URL")):
			t.Errorf("%q: %v", url, err)
		case want != "" && (err != nil || m.address != want):
			t.Errorf("%q: %v", url, err)
		case err != nil && strings.Contains(err.Error(), "topsecret"):
			t.Errorf("%q: the message shows the password: %v", url, err)
		}
	}
	if _, err := NewMailer("smtp://mail.example", "not an address"); fault.CodeOf(err) != fault.InvalidInput || !strings.Contains(err.Error(), "VOBO_MAIL_FROM") {
		t.Errorf("a bad sender: %v", err)
	}
}

// guarantee S-22: nothing in a text ends the mail early or starts another.
func TestATextCannotSmuggleASecondMail(t *testing.T) {
	t.Parallel()
	server := startMail(t, nil)
	m := plainMailer(t, server)
	for n, text := range []string{"a\n.\nMAIL FROM:<x@evil.example>\n", "a\r\n.\r\nMAIL FROM:<x@evil.example>\r\n", "a\r.\rMAIL", "a\n.\r\nMAIL", "a\r\n.\nMAIL", ".", ".\n", "..\n", "a\x00\n.\n", "\r\n.\r\n\r\n.\r\n", "\n\n.\n"} {
		msg := testMessage(n)
		msg.Text, msg.Subject = text, text
		raw, err := msg.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		before := len(server.taken())
		if out := m.Send(t.Context(), []string{"ana@example.com"}, raw, true); out.Class != Success {
			t.Errorf("%q: %+v", text, out)
		}
		got := server.taken()
		if len(got) != before+1 || !bytes.Equal([]byte(got[before].raw), raw) {
			t.Errorf("%q: the server took %d mails, the last %q", text, len(got)-before, got[len(got)-1].raw)
		}
	}
}
