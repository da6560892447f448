package main

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// guarantee D9
func TestAServerBoundsHeadersAndSlowClients(t *testing.T) {
	t.Parallel()
	s := newServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 15*time.Second {
		t.Errorf("headers within %s, the whole within %s", s.ReadHeaderTimeout, s.ReadTimeout)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := s.Serve(l); err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for size, want := range map[int]int{1_000: http.StatusNotFound, 100_000: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", size))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode != want {
			t.Errorf("%d bytes of headers: %d, want %d", size, res.StatusCode, want)
		}
	}
}

func TestAMisspeltSettingIsAnsweredWithTheNearestOne(t *testing.T) {
	t.Parallel()
	known := []string{"VOBO_LOG", "VOBO_SMTP_URL", "VOBO_ADDR"}
	for name, want := range map[string]string{"VOBO_SMPT_URL": "VOBO_SMTP_URL", "VOBO_ADR": "VOBO_ADDR", "VOBO_FOO": ""} {
		got := nearest(name, known)
		if (want == "") == strings.Contains(got, "did you mean") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want a hint at %q", name, got, want)
		}
	}
}
