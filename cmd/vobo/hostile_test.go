package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

// A page elsewhere whose name was made to resolve to this machine is another site.
func TestADemoAnswersOnlyAsThisMachine(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(ownNameOnly)
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	for host, own := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.1": true, "localhost:8080": true, "[::1]:8080": true, "[::1]": true,
		"evil.example:8080": false, "evil.example": false, "localhost.evil.example": false, "192.0.2.1:8080": false, "": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if got := w.Code == http.StatusNoContent; got != own {
			t.Errorf("Host %q: status %d", host, w.Code)
		}
	}
}
