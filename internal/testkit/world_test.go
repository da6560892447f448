package testkit

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

func getBody(t *testing.T, url string) []byte {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return body
}

const sampleToken = "eyJhbGciOiJIUzI1NiJ9.eyJqdGkiOiJ4In0.abc-_123"

const sampleMail = "From: Vobo <vobo@example.com>\r\nTo: ana@example.com\r\nSubject: =?utf-8?q?Approve_Jos=C3=A9?=\r\n" +
	"Message-ID: <k-1@example.com>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n" +
	"--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
	"Read and decide:\r\nhttp://127.0.0.1:1/vobo/a/eyJhbGciOiJIUzI1NiJ9.eyJq=\r\ndGkiOiJ4In0.abc-_123\r\n" +
	"--b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
	"PGEgaHJlZj0iaHR0cDovLzEyNy4wLjAuMToxL3ZvYm8vYS9leUpoYkdjaU9pSklVekkxTmlKOS5l\r\neUpxZEdraU9pSjRJbjAuYWJjLV8xMjMiPlJlYWQ8L2E+\r\n" +
	"--b--\r\n"

func sendTo(t *testing.T, server *MailServer, to string) error {
	t.Helper()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	return smtp.SendMail(u.Host, nil, "vobo@example.com", []string{to}, []byte(sampleMail))
}

func TestAMailIsKeptWithItsPartsAndItsLink(t *testing.T) {
	t.Parallel()
	server := SMTP(t)
	if err := sendTo(t, server, "ana@example.com"); err != nil {
		t.Fatal(err)
	}
	got := server.WaitMail(t, "ANA@example.com", 1)
	if len(got) != 1 || len(server.MailsTo("bob@example.com")) != 0 {
		t.Fatalf("%d mails, want 1 for ana and none for bob", len(got))
	}
	mail := got[0]
	if mail.Subject != "Approve José" || mail.MessageID != "<k-1@example.com>" || !mail.Answered || mail.From != "vobo@example.com" {
		t.Errorf("got %+v", mail)
	}
	if link, want := mail.Link(t), "http://127.0.0.1:1/vobo/a/"+sampleToken; link != want {
		t.Errorf("link = %s, want %s", link, want)
	}
}

func TestAMailServerAnswersByItsMode(t *testing.T) {
	t.Parallel()
	server := SMTP(t)
	for _, c := range []struct {
		mode MailMode
		code int // of the refusal; 0: accepted, -1: the connection is cut
		kept bool
	}{
		{MailAccept, 0, true},
		{MailDefer, 451, false},
		{MailReject, 554, false},
		{MailDeferRcpt, 450, false},
		{MailRejectRcpt, 550, false},
		{MailDropBeforeData, -1, false},
		{MailDropAfterData, -1, true},
	} {
		before := len(server.Mails())
		server.Next(c.mode)
		err := sendTo(t, server, "ana@example.com")
		code := 0
		if refusal, ok := errors.AsType[*textproto.Error](err); ok {
			code = refusal.Code
		} else if err != nil {
			code = -1
		}
		if code != c.code {
			t.Errorf("mode %v answers %d (%v), want %d", c.mode, code, err, c.code)
		}
		if kept := len(server.Mails()) - before; kept == 1 != c.kept {
			t.Errorf("mode %v keeps %d mails, want kept = %v", c.mode, kept, c.kept)
		}
	}
	server.SetMode(MailHold)
	answered := make(chan error, 1)
	go func() { answered <- sendTo(t, server, "held@example.com") }()
	server.WaitMail(t, "held@example.com", 1)
	select {
	case err := <-answered:
		t.Errorf("a held answer came: %v", err)
	default:
	}
	server.Release()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestAMailServerWithStartTLSTakesNoMailInTheClear(t *testing.T) {
	t.Parallel()
	server := SMTPWithStartTLS(t)
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := smtp.Dial(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Mail("vobo@example.com"); err == nil {
		t.Error("mail was taken in the clear")
	}
	block, err := os.ReadFile(server.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(block)
	if err := client.StartTLS(&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.Mail("vobo@example.com"), client.Quit()); err != nil {
		t.Error(err)
	}
}

func TestAWebhookReceiverRecordsAndAnswersAsProgrammed(t *testing.T) {
	t.Parallel()
	receiver := Webhook(t)
	client := &http.Client{
		Timeout:       Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	post := func(path string) (*http.Response, error) {
		return client.Post(receiver.URL+path, "application/json", strings.NewReader(`{"n":1.10}`))
	}
	receiver.Next(AnswerJSON(201, `{"id":7}`), AnswerRetryAfter(429, 3), AnswerRedirect("http://other.test/"), AnswerHuge(10<<20), AnswerReset())
	for i, want := range []int{201, 429, 307, 200, 0, 204} {
		answer, err := post("/orders?x=1")
		if want == 0 {
			if err == nil {
				t.Errorf("call %d: answer %d, want a reset", i, answer.StatusCode)
			}
			continue
		}
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		size, err := io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want {
			t.Errorf("call %d: %d, want %d", i, answer.StatusCode, want)
		}
		if want == 429 && answer.Header.Get("Retry-After") != "3" {
			t.Errorf("Retry-After = %q", answer.Header.Get("Retry-After"))
		}
		if want == 200 && size != 10<<20 {
			t.Errorf("huge answer of %d bytes", size)
		}
	}
	calls := receiver.WaitCalls(t, "/orders?x=1", 6)
	var body struct{ N any }
	if calls[0].JSON(t, &body); calls[0].Method != "POST" || body.N == nil {
		t.Errorf("call %+v", calls[0])
	}
}

func TestAWebhookThatNeverAnswersHoldsTheCaller(t *testing.T) {
	t.Parallel()
	receiver := Webhook(t)
	client := &http.Client{Timeout: 100 * time.Millisecond}
	for name, answer := range map[string]WebhookAnswer{"never": AnswerNever(), "drip": AnswerDrip(time.Millisecond)} {
		receiver.Answer(answer)
		response, err := client.Get(receiver.URL + "/" + name)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			err = errors.Join(err, response.Body.Close())
		}
		if timeout, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](err); !ok || !timeout.Timeout() {
			t.Errorf("%s: %v, want a time-out", name, err)
		}
	}
}

const page = `<!doctype html><meta name="viewport" content="width=device-width"><title>Decide</title>
<style>body{margin:0;background:#fff}@media(prefers-color-scheme:dark){body{background:#000;color:#fff}}</style>
<form method="post"><label><input type="radio" name="event" value="approve"> Approve</label>
<textarea name="comment"></textarea><button>Record my decision</button></form><p id="width"></p>
<script>document.getElementById("width").textContent = "width " + innerWidth; setTimeout(() => document.body.append("later"), 50)</script>`

func TestABrowserFillsAFormOnPhoneAndDesktopInLightAndDark(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/favicon.ico":
			w.WriteHeader(http.StatusNoContent)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, "<title>Done</title>"+r.FormValue("event")+": "+r.FormValue("comment"))
		default:
			io.WriteString(w, page)
		}
	}))
	t.Cleanup(server.Close)
	tab := Browser(t)
	if status := tab.Open(server.URL + "/a/x"); status != 200 || tab.Title() != "Decide" {
		t.Errorf("status %d, title %q", status, tab.Title())
	}
	tab.WaitText("later")
	if got := tab.Text("#width"); got != "width 1280" {
		t.Errorf("desktop: %s", got)
	}
	light, dark := corner(t, tab.Screenshot("desktop")), color.Gray{}
	tab.Dark()
	tab.Phone()
	tab.Open(server.URL + "/a/x")
	if got := tab.Text("#width"); got != "width 390" {
		t.Errorf("phone: %s", got)
	}
	if dark = corner(t, tab.Screenshot("phone")); light.Y != 255 || dark.Y != 0 {
		t.Errorf("corner of the page: light %v, dark %v", light, dark)
	}
	tab.Click("input[value=approve]")
	tab.Type("textarea", "fine")
	if status := tab.Follow("button"); status != 409 || !strings.Contains(tab.HTML(), "approve: fine") {
		t.Errorf("after the form: %d %s", status, tab.HTML())
	}
	if foreign := tab.ForeignRequests(server.URL); len(foreign) != 0 || len(tab.Requests()) < 3 {
		t.Errorf("requests %q, foreign %q", tab.Requests(), foreign)
	}
	tab.Script(false)
	if tab.Open(server.URL + "/a/x"); tab.Count("#width:empty") != 1 {
		t.Error("the page's script ran although scripts are off")
	}
}

func TestABrowserKeepsConsoleErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "script-src 'unsafe-inline'; img-src 'none'")
		io.WriteString(w, `<title>x</title><img src="http://127.0.0.1:1/foreign.png"><script>throw new Error("broken page")</script>`)
	}))
	t.Cleanup(server.Close)
	tab := Browser(t)
	tab.Open(server.URL)
	for _, want := range []string{"broken page", "Content Security Policy"} {
		WaitFor(t, want, func() bool { return strings.Contains(strings.Join(tab.ConsoleErrors(), "\n"), want) })
	}
}

// corner is the shade of a picture's last pixel.
func corner(t *testing.T, path string) color.Gray {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	end := picture.Bounds().Max
	return color.GrayModel.Convert(picture.At(end.X-1, end.Y-1)).(color.Gray)
}

// Not parallel: it changes the environment.
func TestAMissingChromiumNamesTheLineToRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	path, err := findChromium()
	if err == nil || !strings.Contains(err.Error(), "sudo apt-get install -y chromium") {
		t.Errorf("found %q, %v, want the line that installs it", path, err)
	}
}
