package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
)

// bundle is a fresh site with its own service.
type bundle struct {
	t   *testing.T
	svc *fakeService
	e   *echo.Echo
}

// origin is where the tests' site lives: with a path prefix, which cmd strips.
const (
	origin  = "http://vobo.example"
	baseURL = origin + "/flow"
)

func newBundle(t *testing.T, change ...func(*Config, *fakeService)) *bundle {
	t.Helper()
	svc := sample()
	cfg := Config{BaseURL: baseURL, Now: func() time.Time { return sampleNow }, Zone: time.UTC, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, f := range change {
		f(&cfg, svc)
	}
	e := echo.New()
	if err := Register(e, svc, cfg); err != nil {
		t.Fatal(err)
	}
	last, err := ErrorHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.HTTPErrorHandler = last
	return &bundle{t: t, svc: svc, e: e}
}

// as sets a session's cookie.
func as(session string) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "vobo", Value: session}) }
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func (b *bundle) do(method, path, body string, opts ...func(*http.Request)) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(method, origin+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, opt := range opts {
		opt(r)
	}
	w := httptest.NewRecorder()
	b.e.ServeHTTP(w, r)
	return w
}

func (b *bundle) get(path string, opts ...func(*http.Request)) *httptest.ResponseRecorder {
	b.t.Helper()
	return b.do("GET", path, "", opts...)
}

// post sends a form from our own origin; a session's token is added.
func (b *bundle) post(path, session string, form url.Values) *httptest.ResponseRecorder {
	b.t.Helper()
	opts := []func(*http.Request){header("Sec-Fetch-Site", "same-origin"), header("Origin", origin)}
	if session != "" {
		opts = append(opts, as(session))
		if form.Get("csrf") == "" {
			form.Set("csrf", "csrf-"+session)
		}
	}
	return b.do("POST", path, form.Encode(), opts...)
}

func form(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d\n%s", w.Code, status, w.Body)
	}
}

func wantText(t *testing.T, w *httptest.ResponseRecorder, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("page lacks %q\n%s", part, w.Body)
		}
	}
}

func wantNoText(t *testing.T, w *httptest.ResponseRecorder, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(w.Body.String(), part) {
			t.Errorf("page holds %q\n%s", part, w.Body)
		}
	}
}

func wantChanges(t *testing.T, svc *fakeService, want string) {
	t.Helper()
	if got := svc.changed(); got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
}

const instancePath = "/instances/" + sampleID

// everyPage is each page that can be looked at, with its status, for sweeps over all of them.
var everyPage = []struct {
	path, session string
	status        int
}{
	{"/a/open", "", 200},
	{"/a/decided", "", 200},
	{"/a/expired", "", 200},
	{"/a/revoked", "", 200},
	{"/a/suspended", "", 200},
	{"/a/changed", "", 200},
	{"/a/none", "", 404},
	{"/login", "", 200},
	{"/login/good-login", "", 200},
	{"/login/bad", "", 404},
	{"/problems", "", 200},
	{"/problems/not-permitted", "", 200},
	{"/problems/none", "", 404},
	{"/", "", 303},
	{"/inbox", "", 303},
	{"/inbox", "luis", 200},
	{"/inbox?folder=done", "luis", 200},
	{"/inbox?task=t-1", "luis", 200},
	{"/inbox?q=zzz", "luis", 200},
	{"/tasks/t-2", "luis", 200},
	{"/tasks/t-9", "luis", 200},
	{"/tasks/none", "luis", 404},
	{"/instances", "luis", 200},
	{"/instances?q=nothing", "luis", 200},
	{instancePath, "luis", 200},
	{instancePath, "olga", 200},
	{"/instances/none", "luis", 404},
	{instancePath + "/act", "luis", 200},
	{instancePath + "/cancel", "olga", 200},
	{instancePath + "/retry", "olga", 200},
	{instancePath, "vera", 200},
	{instancePath + "/children", "luis", 200},
	{instancePath + "/children?effect=" + sampleID + "-3-2", "vera", 200},
	{"/attention", "olga", 200},
	{"/attention", "vera", 200},
	{"/attention", "luis", 403},
	{"/effects", "olga", 200},
	{"/effects?status=unknown&kind=webhook&host=sign.example.com", "olga", 200},
	{"/effects?status=all", "vera", 200},
	{"/effects?name=none", "olga", 200},
	{"/effects", "luis", 403},
	{"/effects/" + effectUnknown, "olga", 200},
	{"/effects/" + effectUnknown, "vera", 200},
	{"/effects/" + effectUnknown, "luis", 200},
	{"/effects/" + effectDead, "olga", 200},
	{"/effects/" + effectRetrying, "olga", 200},
	{"/effects/" + effectManual, "olga", 200},
	{"/effects/" + effectUndo, "olga", 200},
	{"/effects/" + effectAccount, "olga", 200},
	{"/effects/none", "olga", 404},
	{"/effects/redrive?status=dead", "olga", 200},
	{"/effects/redrive?status=unknown&name=ask_signature", "olga", 200},
	{"/effects/redrive?name=none", "olga", 200},
	{"/effects/redrive", "vera", 403},
	{"/callbacks", "olga", 200},
	{"/callbacks?status=expired&source=none", "vera", 200},
	{"/callbacks", "luis", 403},
	{"/sinks", "vera", 200},
	{"/sinks", "olga", 200},
	{"/sinks", "luis", 403},
	{"/sinks/audit/enable", "olga", 200},
	{"/sinks/none/enable", "olga", 404},
	{"/sinks/audit/enable", "vera", 403},
	{"/start", "luis", 200},
	{"/start/none", "luis", 404},
	{"/dev/mail", "", 404},
	{"/none", "", 404},
	{"/static/none.css", "", 404},
}

// guarantee S-19, D6; field report B60
func TestEveryPageCarriesTheSecurityHeadersAndNoInlineCode(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, p := range everyPage {
		var opts []func(*http.Request)
		if p.session != "" {
			opts = append(opts, as(p.session))
		}
		w := b.get(p.path, opts...)
		if w.Code != p.status {
			t.Errorf("%s: status %d, want %d: %s", p.path, w.Code, p.status, w.Body)
		}
		referrer := "same-origin"
		if strings.HasPrefix(p.path, "/a/") || strings.HasPrefix(p.path, "/login/") || p.path == "/none" {
			referrer = "no-referrer"
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": referrer, "X-Robots-Tag": "noindex, nofollow", "Cross-Origin-Opener-Policy": "same-origin"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", p.path, name, got, want)
			}
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "object-src 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: CSP %q lacks %s", p.path, csp, want)
			}
		}
		body := strings.ToLower(w.Body.String())
		for _, bad := range []string{"unsafe-inline", "<style", " style=", " onclick", " onload", " onsubmit", "javascript:", "http-equiv", "<script>", "autofocus"} {
			if strings.Contains(body+csp, bad) {
				t.Errorf("%s: page holds %s", p.path, bad)
			}
		}
		if strings.Contains(body, "⟦") || strings.Contains(body, "%!") {
			t.Errorf("%s: words are missing:\n%s", p.path, body)
		}
	}
	wantChanges(t, b.svc, "")
}

// field report B39: links, assets, redirects and cookies honour the path prefix.
func TestEveryLinkHonoursTheBaseURLsPrefix(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *Config, _ *fakeService) { c.Mailbox = MailboxLoopback })
	for _, p := range append(everyPage, struct {
		path, session string
		status        int
	}{"/dev/mail", "luis", 200}) {
		var opts []func(*http.Request)
		if p.session != "" {
			opts = append(opts, as(p.session))
		}
		opts = append(opts, header("Host", "evil.example"), header("X-Forwarded-Host", "evil.example"), func(r *http.Request) { r.RemoteAddr = "127.0.0.1:5000" })
		w := b.get(p.path, opts...)
		if strings.Contains(w.Body.String(), "evil.example") {
			t.Errorf("%s: a link comes from the request", p.path)
		}
		for _, attribute := range []string{`href="/`, `action="/`, `src="/`} {
			for _, rest := range strings.Split(w.Body.String(), attribute)[1:] {
				if !strings.HasPrefix(rest, "flow/") {
					t.Errorf("%s: %s%.30s is outside the prefix", p.path, attribute, rest)
				}
			}
		}
		if to := w.Header().Get("Location"); to != "" && !strings.HasPrefix(to, "/flow/") {
			t.Errorf("%s: leads to %s", p.path, to)
		}
	}
}

func TestStaticFilesAreKeptForEverUnderTheirHashedNamesOnly(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	page := b.get("/a/open").Body.String()
	_, rest, found := strings.Cut(page, `href="/flow/static/vobo.`)
	if !found {
		t.Fatal("the page names no stylesheet")
	}
	hash, _, _ := strings.Cut(rest, `"`)
	w := b.get("/static/vobo." + hash)
	wantStatus(t, w, 200)
	if got := w.Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("Cache-Control %q", got)
	}
	if got := w.Header().Get("Content-Type"); got != "text/css; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	if strings.Contains(w.Body.String(), "://") || strings.Contains(w.Body.String(), "@import") {
		t.Error("the stylesheet names another host")
	}
	wantStatus(t, b.get("/static/vobo.css"), 404)
	wantStatus(t, b.get("/static/../web.go"), 404)
	wantStatus(t, b.get("/favicon.ico"), 200)
}

func TestAMethodThatAPageDoesNotTakeIsRefusedAsAPage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.do("DELETE", "/inbox", "")
	wantStatus(t, w, 405)
	wantText(t, w, "This address does not take that method")
}

func TestABaseURLThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "vobo.example", "ftp://vobo.example", "http://"} {
		if err := Register(echo.New(), sample(), Config{BaseURL: base, Now: time.Now}); err == nil {
			t.Errorf("%q was taken", base)
		}
	}
	if err := Register(echo.New(), sample(), Config{BaseURL: baseURL}); err == nil {
		t.Error("a site without a clock was made")
	}
}
