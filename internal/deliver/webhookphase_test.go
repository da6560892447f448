package deliver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// silentResolver asks a name server that never answers.
func silentResolver(t *testing.T) *net.Resolver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

// deafServer accepts connections and never reads from them.
func deafServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []net.Conn)
	go func() {
		var kept []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				done <- kept
				return
			}
			kept = append(kept, c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		for _, c := range <-done {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// field report B31, guarantee R-20: each phase has its limit, and the words say which it was.
func TestEachPhaseOfAnAttemptHasALimitAndWordsOfItsOwn(t *testing.T) {
	t.Parallel()
	never, drip, headers := testkit.Webhook(t), testkit.Webhook(t), testkit.Webhook(t)
	never.Answer(testkit.AnswerNever())
	drip.Answer(testkit.AnswerDrip(5 * time.Millisecond))
	headers.Answer(testkit.AnswerDripHeaders(5 * time.Millisecond))
	deaf := deafServer(t)
	roomy := phaseLimits{dial: time.Minute, handshake: time.Minute, write: time.Minute, header: time.Minute, body: time.Minute, total: time.Minute}
	const short = 150 * time.Millisecond
	for name, c := range map[string]struct {
		url     string
		limit   func(*phaseLimits)
		words   string
		wentOut bool
		body    int
	}{
		"look-up":         {"http://slow.test/", func(l *phaseLimits) { l.dial = short }, "connecting took longer than 150ms", false, 0},
		"handshake":       {"https://" + deaf, func(l *phaseLimits) { l.handshake = short }, "the TLS handshake took longer than 150ms", false, 0},
		"request":         {"http://" + deaf, func(l *phaseLimits) { l.write = short }, "sending the request took longer than 150ms", true, 32 << 20},
		"header":          {never.URL, func(l *phaseLimits) { l.header = short }, "no answer began within 150ms", true, 10},
		"dripping header": {headers.URL, func(l *phaseLimits) { l.header = short }, "no answer began within 150ms", true, 10},
		"body":            {drip.URL, func(l *phaseLimits) { l.body = short }, "the answer was not complete within 150ms", true, 10},
		"whole, look-up":  {"http://slow.test/", func(l *phaseLimits) { l.total = short }, "connecting took longer than 150ms", false, 0},
		"whole, header":   {never.URL, func(l *phaseLimits) { l.total = short }, "no answer began within 150ms", true, 10},
		"whole, body":     {drip.URL, func(l *phaseLimits) { l.total = short }, "the answer was not complete within 150ms", true, 10},
	} {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, idempotent %v", name, idempotent), func(t *testing.T) {
				t.Parallel()
				limits := roomy
				c.limit(&limits)
				s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1", "slow.test"}, Resolver: silentResolver(t), limits: limits})
				r := hook(c.url, idempotent)
				r.Body = []byte(strings.Repeat("1", c.body))
				out := s.Send(t.Context(), r)
				want := Retry
				if c.wentOut && !idempotent {
					want = Unknown
				}
				if out.Class != want || out.WentOut != c.wentOut || out.Answered || !strings.Contains(out.Detail, c.words) {
					t.Errorf("%+v, want %s and %q", out, want, c.words)
				}
			})
		}
	}
}

func TestALateButCompleteAnswerIsTaken(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		for range 10 {
			_, _ = io.WriteString(w, " ") // a caller that left is told by the test below
			if err := flush.Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	if out := localSender(t).Send(t.Context(), hook(server.URL, false)); out.Class != Success || !strings.Contains(string(out.Body), "true") {
		t.Errorf("%+v", out)
	}
}

// field report B31: a body of a gigabyte is given up after 64 KiB.
func TestAnEndlessBodyIsNotReadBeyondTheLimit(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	ended := make(chan struct{}, 2)
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 64<<10)
		for sent.Load() < 1<<30 {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				break
			}
		}
		ended <- struct{}{}
	})
	s := localSender(t)
	for _, idempotent := range []bool{false, true} {
		if out := s.Send(t.Context(), hook(server.URL, idempotent)); out.Class != Success || out.Body != nil || len(out.Answer) > maxAnswerText || !strings.Contains(out.Detail, "longer than 64 KiB") {
			t.Errorf("class %s, %d bytes kept, detail %q", out.Class, len(out.Body), out.Detail)
		}
		<-ended
	}
	// What the sockets' buffers took counts as sent; the rest of the gigabyte was not.
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d MiB were taken of 1024", n>>20)
	}
}
