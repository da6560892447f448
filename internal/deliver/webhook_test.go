package deliver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vobo/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var attemptTime = time.Date(2026, 12, 3, 10, 0, 0, 0, time.UTC)

// shortLimits let a hanging receiver be seen within a moment.
var shortLimits = phaseLimits{dial: 2 * time.Second, handshake: 2 * time.Second, write: time.Second, header: 700 * time.Millisecond, body: 700 * time.Millisecond, total: 2 * time.Second, fetch: 2 * time.Second}

func newSender(t *testing.T, cfg WebhookConfig) *WebhookSender {
	t.Helper()
	s, err := NewWebhookSender(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func localSender(t *testing.T) *WebhookSender {
	t.Helper()
	return newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}})
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func hook(url string, idempotent bool) WebhookRequest {
	return WebhookRequest{ID: "01981f2e/4/1", Attempt: 1, URL: url, Body: []byte(`{"name":"Ana & <Co> 🙂"}`), Idempotent: idempotent, Timestamp: attemptTime}
}

// The table of the definition language, "Outcome of an attempt".
func TestEveryStatusHasItsClass(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", "/200")
		w.WriteHeader(code)
	})
	s := localSender(t)
	for code := 200; code < 600; code++ {
		plain, idempotent := Permanent, Permanent
		switch {
		case code < 300:
			plain, idempotent = Success, Success
		case code == 425 || code == 429 || code == 503:
			plain, idempotent = Retry, Retry
		case code == 408 || code >= 500:
			plain, idempotent = Unknown, Retry
		}
		for _, c := range []struct {
			idempotent bool
			want       Class
		}{{false, plain}, {true, idempotent}} {
			out := s.Send(t.Context(), hook(fmt.Sprintf("%s/%d", server.URL, code), c.idempotent))
			if out.Class != c.want || out.Status != code || !out.Answered || !out.WentOut {
				t.Errorf("%d, idempotent %v: %+v, want %s", code, c.idempotent, out, c.want)
			}
		}
	}
}

// field report B28: one id, the same bytes, a visible attempt number.
func TestAttemptsOfOneDeliveryDifferOnlyInNumberAndTime(t *testing.T) {
	t.Parallel()
	type seen struct {
		header http.Header
		body   string
	}
	var got []seen
	var mu sync.Mutex
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, seen{r.Header.Clone(), string(body)})
		if len(got) < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s := localSender(t)
	for n := 1; n <= 3; n++ {
		r := hook(server.URL, true)
		r.Attempt, r.Timestamp = n, attemptTime.Add(time.Duration(n)*time.Minute)
		r.Headers = [][2]string{{"Authorization", "Bearer x"}, {"X-Team", "risk"}}
		if out := s.Send(t.Context(), r); (out.Class == Success) != (n == 3) {
			t.Errorf("attempt %d: %+v", n, out)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i, g := range got {
		for name, want := range map[string]string{
			"Webhook-Id": "01981f2e/4/1", "Idempotency-Key": "01981f2e/4/1", "Vobo-Attempt": strconv.Itoa(i + 1), "Content-Type": "application/json", "User-Agent": "Vobo",
			"Webhook-Timestamp": strconv.FormatInt(attemptTime.Add(time.Duration(i+1)*time.Minute).Unix(), 10), "Authorization": "Bearer x", "X-Team": "risk",
		} {
			if values := g.header.Values(name); len(values) != 1 || values[0] != want {
				t.Errorf("attempt %d: %s is %q, want %q", i+1, name, values, want)
			}
		}
		if g.body != `{"name":"Ana & <Co> 🙂"}` {
			t.Errorf("attempt %d: body %s", i+1, g.body)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d requests for 3 attempts", len(got))
	}
}

func TestAnAnswerIsKeptIfItIsJSONAndSmall(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/json": ` {"id": 9007199254740993}`, "/text": "fine", "/none": "", "/exact": `"` + strings.Repeat("x", MaxAnswer-2) + `"`, "/large": `"` + strings.Repeat("x", MaxAnswer) + `"`, "/huge": strings.Repeat("x", 10<<20),
	}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		// The sender closes early on a long answer: that is its right.
		_, _ = io.WriteString(w, answers[r.URL.Path])
	})
	s := localSender(t)
	for path, answer := range answers {
		out := s.Send(t.Context(), hook(server.URL+path, false))
		want := ""
		if path == "/json" || path == "/exact" {
			want = answer
		}
		if out.Class != Success || string(out.Body) != want {
			t.Errorf("%s: class %s, %d bytes, detail %q", path, out.Class, len(out.Body), out.Detail)
		}
	}
	failed := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"secret":"of the inner network"}`)
	})
	if out := s.Send(t.Context(), hook(failed.URL, false)); out.Body != nil || strings.Contains(out.Detail, "secret") {
		t.Errorf("the body of a refusal comes back: %+v", out)
	}
}

// field report B30
func TestRetryAfterOfAnAnswerIsAMinimumAndOnlyForRetries(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Retry-After", r.URL.Query().Get("after"))
		w.WriteHeader(code)
	})
	s := localSender(t)
	for path, want := range map[string]time.Duration{
		"/429?after=120": 2 * time.Minute, "/503?after=Thu,+03+Dec+2026+10:02:00+GMT": 2 * time.Minute, "/429?after=-3": 0, "/503?after=9999999999": 24 * time.Hour, "/410?after=120": 0, "/200?after=120": 0,
	} {
		if out := s.Send(t.Context(), hook(server.URL+path, true)); out.RetryAfter != want {
			t.Errorf("%s: %v, want %v", path, out.RetryAfter, want)
		}
	}
}

// rawServer answers every connection with f, which gets it after the request's headers
// were read, and counts connections.
func rawServer(t *testing.T, f func(net.Conn)) (url string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = &atomic.Int64{}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			wg.Go(func() {
				stop := make(chan struct{})
				wg.Go(func() {
					select {
					case <-done:
					case <-stop:
					}
					_ = c.Close()
				})
				defer close(stop)
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					f(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		close(done)
		_ = l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String(), accepted
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// field report B31, guarantee R-20: receivers that hurt. Each attempt ends in time, and
// a request that went out without a whole answer is told from one that did not.
func TestAReceiverThatHurtsEndsWithinTheTimeOutAndIsNotCalledTwice(t *testing.T) {
	t.Parallel()
	write := func(c net.Conn, text string) { _, _ = io.WriteString(c, text) }
	drip := func(c net.Conn, head string) {
		write(c, head)
		for {
			if _, err := c.Write([]byte(" ")); err != nil {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-t.Context().Done():
				return
			}
		}
	}
	cases := map[string]struct {
		answer           func(net.Conn)
		plain, repeating Class
		answered         bool
	}{
		"never answers":     {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, Unknown, Retry, false},
		"closes":            {func(c net.Conn) { _ = c.Close() }, Unknown, Retry, false},
		"resets":            {reset, Unknown, Retry, false},
		"garbage":           {func(c net.Conn) { write(c, "SSH-2.0-OpenSSH_9.9\r\n") }, Unknown, Retry, false},
		"drips headers":     {func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nX: ") }, Unknown, Retry, false},
		"drips a body":      {func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n") }, Unknown, Retry, false},
		"breaks off a body": {func(c net.Conn) { write(c, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{"); reset(c) }, Unknown, Retry, false},
		"huge headers":      {func(c net.Conn) { write(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)) }, Unknown, Retry, false},
		"endless 100s":      {func(c net.Conn) { drip(c, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 50)) }, Unknown, Retry, false},
		"500 and drips":     {func(c net.Conn) { drip(c, "HTTP/1.1 500 X\r\nContent-Length: 9999\r\n\r\n") }, Unknown, Retry, true},
		"410 and drips":     {func(c net.Conn) { drip(c, "HTTP/1.1 410 Gone\r\nContent-Length: 9999\r\n\r\n") }, Permanent, Permanent, true},
		"redirects": {func(c net.Conn) {
			write(c, "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
		}, Permanent, Permanent, true},
		"redirects permanent": {func(c net.Conn) { write(c, "HTTP/1.1 308 X\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n") }, Permanent, Permanent, true},
	}
	for name, c := range cases {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, idempotent %v", name, idempotent), func(t *testing.T) {
				t.Parallel()
				url, accepted := rawServer(t, c.answer)
				s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}, limits: shortLimits})
				out := s.Send(t.Context(), hook(url, idempotent))
				want := c.plain
				if idempotent {
					want = c.repeating
				}
				if out.Class != want || out.Answered != c.answered || !out.WentOut {
					t.Errorf("%+v, want %s, answered %v", out, want, c.answered)
				}
				if n := accepted.Load(); n != 1 {
					t.Errorf("%d connections for one attempt", n)
				}
				if strings.Contains(out.Detail, "169.254") {
					t.Errorf("the detail repeats what the receiver sent: %s", out.Detail)
				}
			})
		}
	}
}

func TestWithoutAConnectionNothingIsUnknown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	notTLS := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request got through") })
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request got through") }))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(secure.Close)
	s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1", "nowhere.invalid"}, Resolver: testkit.DNS(t).Resolver()})
	for name, url := range map[string]string{
		"refused": "http://" + closed, "plain where TLS is asked": strings.Replace(notTLS.URL, "http:", "https:", 1),
		"unknown certificate": secure.URL, "no such name": "https://nowhere.invalid/",
	} {
		out := s.Send(t.Context(), hook(url, false))
		if out.Class != Retry || out.WentOut || out.Answered || !strings.HasPrefix(out.Detail, "No connection") {
			t.Errorf("%s: %+v", name, out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := s.Send(ctx, hook(notTLS.URL, false)); out.Class != Retry || out.WentOut {
		t.Errorf("a stopping service: %+v", out)
	}
}

func TestWebhooksGoOverTLSWithTheRightCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}, tls: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	for _, idempotent := range []bool{false, true, true} {
		if out := s.Send(t.Context(), hook(server.URL, idempotent)); out.Class != Success || !json.Valid(out.Body) {
			t.Errorf("%+v", out)
		}
	}
}

// A receiver that closes kept connections: idempotent deliveries reuse them, and a cut
// before a byte was written is no attempt; a cut after is one, and is not resent.
func TestACutOfAKeptConnectionLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	var bodies atomic.Int64
	var cut atomic.Bool
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil && (len(b) > 0 || r.Method == http.MethodGet) {
			bodies.Add(1)
		}
		if cut.Load() {
			hijacked, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			reset(hijacked)
		}
	})
	s := localSender(t)
	for n := range 20 {
		out := s.Send(t.Context(), hook(server.URL, true))
		for tries := 1; out.Class == Retry && tries < 5; tries++ { // the cut came with the request
			out = s.Send(t.Context(), hook(server.URL, true))
		}
		if out.Class != Success {
			t.Errorf("delivery %d: %+v", n, out)
		}
		if out := s.Send(t.Context(), hook(server.URL, false)); out.Class != Success {
			t.Errorf("a delivery that may not be repeated used a kept connection: %+v", out)
		}
		if n < 19 {
			server.CloseClientConnections()
		}
	}
	if n := bodies.Load(); n != 40 {
		t.Errorf("%d requests were answered for 40 deliveries", n)
	}
	for _, method := range []string{"POST", "PUT", "GET", "DELETE"} {
		cut.Store(false)
		if out := s.Send(t.Context(), hook(server.URL, true)); out.Class != Success {
			t.Errorf("warming up: %+v", out)
		}
		cut.Store(true)
		before := bodies.Load()
		r := hook(server.URL, true)
		r.Method = method
		if out := s.Send(t.Context(), r); out.Class != Retry || !out.WentOut || out.Answered {
			t.Errorf("%s on a kept connection, cut after the request: %+v", method, out)
		}
		if n := bodies.Load() - before; n != 1 {
			t.Errorf("%s was sent %d times in one attempt", method, n)
		}
	}
}

func TestAnEmptyBodyIsSentOnceAndWithoutChunks(t *testing.T) {
	t.Parallel()
	var got []string
	var mu sync.Mutex
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, strings.Join(append([]string{r.Method, strconv.FormatInt(r.ContentLength, 10)}, r.TransferEncoding...), " "))
	})
	s := localSender(t)
	for _, method := range []string{"", "PUT", "DELETE", "GET", "post"} {
		r := hook(server.URL, true)
		r.Method, r.Body = method, nil
		if out := s.Send(t.Context(), r); out.Class != Success {
			t.Errorf("%q: %+v", method, out)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "POST 0 PUT 0 DELETE 0 GET 0 POST 0"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// guarantee R-21, field report B31: healthy receivers do not wait for hanging ones.
func TestHealthyReceiversDoNotWaitForHangingOnes(t *testing.T) {
	t.Parallel()
	hanging, _ := rawServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	healthy := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}, limits: shortLimits})
	hung := make(chan Outcome, 20)
	for range cap(hung) {
		go func() { hung <- s.Send(context.WithoutCancel(t.Context()), hook(hanging, true)) }()
	}
	for range 20 {
		if out := s.Send(t.Context(), hook(healthy.URL, true)); out.Class != Success || !bytes.Equal(out.Body, hook("", true).Body) {
			t.Errorf("%+v", out)
		}
	}
	for range cap(hung) {
		if out := <-hung; out.Class != Retry {
			t.Errorf("%+v", out)
		}
	}
}
