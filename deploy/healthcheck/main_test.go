package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOnlyAReadyServiceIsHealthy(t *testing.T) {
	t.Parallel()
	for status, healthy := range map[int]bool{200: true, 503: false, 404: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				w.WriteHeader(status)
			}
		}))
		_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
		if err := check("0.0.0.0:" + port); (err == nil) != healthy {
			t.Errorf("/readyz answers %d: %v, want healthy = %v", status, err, healthy)
		}
		server.Close()
		if err := check("0.0.0.0:" + port); err == nil {
			t.Error("a service that is gone is healthy")
		}
	}
	if err := check(""); err == nil {
		t.Error("a check without VOBO_ADDR is healthy")
	}
}
