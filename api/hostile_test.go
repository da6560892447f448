package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"vobo/internal/fault"
)

// guarantee S-15: a neighbour of the same site can set a cookie without a prefix.
func TestOnlyTheCookieOfTheBaseURLsKindIsRead(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://127.0.0.1:8080": "vobo", "https://vobo.example.com": "__Host-vobo", "https://vobo.example.com/": "__Host-vobo", "https://example.com/flow": "__Secure-vobo",
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := sessionCookie(u); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

// guarantee S-19
func TestErrorsOutsideTheDescriptionAreHardenedToo(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.HTTPErrorHandler = ErrorHandler(Config{Log: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/nothing", nil))
	if w.Code != http.StatusNotFound {
		t.Fatalf("status %d", w.Code)
	}
	for _, name := range []string{"Cache-Control", "X-Content-Type-Options", "Referrer-Policy", "Content-Security-Policy"} {
		if w.Header().Get(name) == "" {
			t.Errorf("no %s", name)
		}
	}
}

// What a proxy and this server may read in two ways is not read at all; a name that
// was left empty by mistake never makes the key act for itself.
func TestWhoCallsIsSaidOnceAndNotLeftEmpty(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]http.Header{
		"two keys":     {"Authorization": {"Bearer vobo_a", "Bearer vobo_b"}},
		"two people":   {"Authorization": {"Bearer vobo_a"}, "On-Behalf-Of": {"ana@example.com", "tom@example.com"}},
		"nobody named": {"Authorization": {"Bearer vobo_a"}, "On-Behalf-Of": {" "}},
	} {
		e := echo.New()
		a := &API{cookie: SessionCookie}
		a.huma = humaecho.New(e, huma.DefaultConfig("test", "1"))
		var err error
		a.huma.UseMiddleware(func(ctx huma.Context, _ func(huma.Context)) { _, err = a.identify(ctx) })
		huma.Get(a.huma, "/who", a.me)
		r := httptest.NewRequest(http.MethodGet, "/who", nil)
		for key, values := range headers {
			r.Header[key] = values
		}
		e.ServeHTTP(httptest.NewRecorder(), r)
		if fault.CodeOf(err) != fault.Malformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
