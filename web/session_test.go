package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// field report B59; guarantee S-23
func TestALogInLeadsToOurOwnPagesOnly(t *testing.T) {
	t.Parallel()
	for _, own := range []string{"/inbox", "/inbox?folder=done&q=%25+x", "/tasks/0198c0de-1-1", "/instances", "/instances/0198/cancel", "/effects/0198-1-1", "/effects?status=dead", "/callbacks", "/sinks", "/attention", "/start/onboarding", "/dev/mail"} {
		if got := safeNext(own); got != own {
			t.Errorf("%q leads to %q", own, got)
		}
	}
	for _, foreign := range foreignNexts {
		if got := safeNext(foreign); got != landing {
			t.Errorf("%q leads to %q", foreign, got)
		}
	}
}

var foreignNexts = []string{
	"", "/", "//e", "///e", "/\\e", "\\\\e", "/%5Ce", "/%5ce", "/%2Fe", "/%09//e", "/\t//e", "https:e", "https://e", "HTTP://e", "javascript:alert(1)", "data:text/html,x", "//e/inbox", "/inbox//e", "/inbox/..//e", "/../e", "/inbox/../../e", "/inbox/./x", "/inbox/…",
	"@e", "/@e", "e.example", "/a/token", "/login", "/logout", "/v1/instances", "/inboxes", "/inbox\r\nSet-Cookie: a=b", "/inbox\x00", "/inbox#//e", "/inbox/%2e%2e/x", "/ｅ", "／／e", "/inbox?next=\\e", "http:/e", "http:///e", "/;@e", " /inbox", "/inbox ", "?x", "/inbox" + strings.Repeat("a", 3000),
}

// guarantee S-36 (FuzzNextURL)
func FuzzNextNeverLeavesOurOrigin(f *testing.F) {
	for _, seed := range append(foreignNexts, "/inbox", "/instances?q=1", "/tasks/x") {
		f.Add(seed)
	}
	base, err := url.Parse("https://vobo.example/flow/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := safeNext(next)
		if got != next && got != landing {
			t.Fatalf("%q became %q: neither it nor the inbox", next, got)
		}
		for _, prefix := range []string{"", "/flow"} {
			to, err := base.Parse(prefix + got)
			if err != nil {
				t.Fatalf("%q is no address: %v", got, err)
			}
			if to.Host != "vobo.example" || to.Scheme != "https" || strings.ContainsAny(got, "\\\r\n\t \x00") || strings.HasPrefix(got, "//") || !strings.HasPrefix(to.Path, prefix+"/") {
				t.Fatalf("%q leads to %s", next, to)
			}
		}
	})
}

// guarantee S-14; field report B59
func TestFormsOfASessionAreTakenFromOurOwnPagesOnly(t *testing.T) {
	t.Parallel()
	paths := []string{"/tasks/t-1", instancePath + "/act", instancePath + "/cancel", instancePath + "/retry", "/effects/" + effectUnknown, "/effects/redrive", "/sinks/audit/enable", "/start/supplier", "/logout"}
	body := form("event", "reject", "comment", "x", "reason", "x", "choice", "giveup", "before", "2026-11-30T10:24:00Z", "csrf", "csrf-olga", "digest", "d1").Encode()
	noToken := form("event", "reject", "comment", "x", "reason", "x", "choice", "giveup", "before", "2026-11-30T10:24:00Z").Encode()
	for _, path := range paths {
		b := newBundle(t)
		for name, c := range map[string]struct {
			body   string
			opts   []func(*http.Request)
			status int
		}{
			"cross-site":         {body, []func(*http.Request){as("olga"), header("Sec-Fetch-Site", "cross-site")}, 403},
			"same-site":          {body, []func(*http.Request){as("olga"), header("Sec-Fetch-Site", "same-site")}, 403},
			"foreign origin":     {body, []func(*http.Request){as("olga"), header("Origin", "https://evil.example")}, 403},
			"null origin":        {body, []func(*http.Request){as("olga"), header("Origin", "null")}, 403},
			"no token":           {noToken, []func(*http.Request){as("olga"), header("Sec-Fetch-Site", "same-origin")}, 403},
			"another's token":    {strings.Replace(body, "csrf-olga", "csrf-luis", 1), []func(*http.Request){as("olga"), header("Sec-Fetch-Site", "same-origin")}, 403},
			"no session":         {body, []func(*http.Request){header("Sec-Fetch-Site", "same-origin")}, 401},
			"plain text":         {body, []func(*http.Request){as("olga"), header("Sec-Fetch-Site", "same-origin"), header("Content-Type", "text/plain")}, 415},
			"json as plain text": {`{"event":"reject"}`, []func(*http.Request){as("olga"), header("Sec-Fetch-Site", "cross-site"), header("Content-Type", "text/plain")}, 403},
		} {
			w := b.do("POST", path, c.body, c.opts...)
			if w.Code != c.status {
				t.Errorf("%s, %s: status %d, want %d", path, name, w.Code, c.status)
			}
		}
		wantChanges(t, b.svc, "")
		wantStatus(t, b.do("PUT", path, body, as("olga"), header("X-HTTP-Method-Override", "POST")), 405)
	}
}

// Each route that takes a POST is either a token's page, the log-in, or refuses strangers.
func TestNoRouteThatChangesSomethingIsOpenToStrangers(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	exempt := map[string]bool{"/a/:token": true, "/login": true, "/login/:token": true}
	seen := 0
	for _, route := range b.e.Routes() {
		if route.Method == "GET" || route.Method == "HEAD" || route.Method == "OPTIONS" || exempt[route.Path] {
			continue
		}
		seen++
		path := strings.NewReplacer(":id", "t-1", ":name", "x").Replace(route.Path)
		if w := b.do(route.Method, path, "csrf=x", header("Sec-Fetch-Site", "cross-site"), as("luis")); w.Code != 403 {
			t.Errorf("%s %s: status %d", route.Method, route.Path, w.Code)
		}
	}
	if seen < 8 {
		t.Errorf("only %d routes were tried", seen)
	}
	wantChanges(t, b.svc, "")
}

// guarantee S-15; field report B59
func TestALogInLinkLogsInByItsButtonOnceAndWithANewSession(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	wantStatus(t, b.do("HEAD", "/login/good-login", ""), 200)
	w := b.get("/login/good-login")
	wantText(t, w, "Log me in", "Opening the link alone does nothing")
	wantChanges(t, b.svc, "")
	nonce := w.Result().Cookies()[0]
	if nonce.Name != "vobo-login" || !nonce.HttpOnly || nonce.SameSite != http.SameSiteLaxMode || nonce.Path != "/flow/" {
		t.Errorf("cookie %v", nonce)
	}
	wantStatus(t, b.do("POST", "/login/good-login", "nonce="+nonce.Value), 403)
	wantStatus(t, b.do("POST", "/login/good-login", "nonce=other", func(r *http.Request) { r.AddCookie(nonce) }), 403)
	wantChanges(t, b.svc, "")
	w = b.do("POST", "/login/good-login", "nonce="+nonce.Value, func(r *http.Request) { r.AddCookie(nonce) }, as("luis"), header("Origin", "null"))
	wantStatus(t, w, 303)
	if to := w.Header().Get("Location"); to != "/flow/instances?status=running" {
		t.Errorf("leads to %q", to)
	}
	session := ""
	for _, c := range w.Result().Cookies() {
		if c.Name == "vobo" {
			session = c.Value
			if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure || c.Path != "/flow/" || c.Domain != "" {
				t.Errorf("cookie %v", c)
			}
		}
	}
	if session != "fresh" {
		t.Errorf("session %q", session)
	}
	wantChanges(t, b.svc, "login luis@example.com; logout luis")
	wantStatus(t, b.get("/inbox", as("luis")), 303)
	wantStatus(t, b.do("POST", "/login/good-login", "nonce="+nonce.Value, func(r *http.Request) { r.AddCookie(nonce) }), 404)
}

func TestOverHTTPSTheCookieIsBoundToItsHost(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"https://vobo.example": "__Host-vobo", "https://vobo.example/flow": "__Secure-vobo"} {
		b := newBundle(t, func(c *Config, _ *fakeService) { c.BaseURL, c.Demo = base, true })
		w := b.post("/login", "", form("person", "luis@example.com", "next", "//evil"))
		wantStatus(t, w, 303)
		c := w.Result().Cookies()[0]
		if c.Name != want || !c.Secure || !c.HttpOnly {
			t.Errorf("%s: cookie %v", base, c)
		}
		if w.Header().Get("Strict-Transport-Security") == "" || !strings.HasSuffix(w.Header().Get("Location"), "/inbox") {
			t.Errorf("%s: %v", base, w.Header())
		}
	}
}

// guarantee S-11: nobody learns who is known here.
func TestAskingForALogInLinkAnswersTheSameForEverybody(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	known, unknown := b.post("/login", "", form("email", "luis@example.com", "next", "/instances")), b.post("/login", "", form("email", "none@example.com", "next", "https://evil"))
	wantStatus(t, known, 200)
	if known.Code != unknown.Code || strings.ReplaceAll(known.Body.String(), "luis@", "none@") != unknown.Body.String() {
		t.Error("the answers differ")
	}
	wantText(t, known, "Look into your mail")
	wantChanges(t, b.svc, "login mail luis@example.com /instances; login mail none@example.com /inbox")
	for _, bad := range []string{"", "luis", "@x", "a b@example.com", "a@example.com\r\nBcc: x@y"} {
		w := b.post("/login", "", form("email", bad))
		wantStatus(t, w, 422)
		wantText(t, w, "Type an email address")
	}
	wantStatus(t, b.do("POST", "/login", "email=luis@example.com", header("Sec-Fetch-Site", "cross-site")), 403)
	wantStatus(t, b.post("/login", "", form("person", "luis@example.com")), 422)
}

func TestInTheDemoOnePicksAPerson(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *Config, _ *fakeService) { c.Demo = true })
	w := b.get("/login?next=/instances")
	wantText(t, w, "Who do you want to be?", "Luis Pérez", `value="/instances"`)
	wantNoText(t, w, "Gone Person")
	w = b.post("/login", "", form("person", "luis@example.com", "next", "/instances"))
	wantStatus(t, w, 303)
	wantChanges(t, b.svc, "login as luis@example.com")
}

// field report B60
func TestAfterLoggingOutNothingIsShown(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.post("/logout", "luis", form())
	wantStatus(t, w, 303)
	if c := w.Result().Cookies()[0]; c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("cookie %v", c)
	}
	wantChanges(t, b.svc, "logout luis")
	w = b.get("/instances?status=running", as("luis"))
	wantStatus(t, w, 303)
	if to := w.Header().Get("Location"); to != "/flow/login?next=%2Finstances%3Fstatus%3Drunning" {
		t.Errorf("leads to %q", to)
	}
}

func TestWhatWasTypedIsGivenBackWhenTheSessionIsOver(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.do("POST", "/tasks/t-1", form("event", "reject", "comment", "a long reason").Encode(), header("Sec-Fetch-Site", "same-origin"))
	wantStatus(t, w, 401)
	wantText(t, w, "You are not logged in any more", `href="/flow/login"`)
}
