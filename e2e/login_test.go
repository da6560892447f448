package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"vobo/internal/testkit"
)

// visitor is a logged-in person without a browser: cookies, and what forms need.
type visitor struct {
	s       *service
	client  *http.Client
	cookies map[string]string
	link    string // the used-up log-in token
	session string
}

var (
	loginLink  = regexp.MustCompile(`https?://[^\s"'<>]*/login/([A-Za-z0-9_-]+)`)
	nonceField = regexp.MustCompile(`name="nonce" value="([^"]*)"`)
	csrfField  = regexp.MustCompile(`name="csrf" value="([^"]*)"`)
	address    atomic.Uint32
)

// stranger is somebody who is not logged in yet, with an address of their own, since
// log-ins are counted by address.
func (s *service) stranger() *visitor {
	s.t.Helper()
	return &visitor{s: s, cookies: map[string]string{}, client: clientAt(s.t, fmt.Sprintf("127.0.1.%d", 1+address.Add(1)%250))}
}

// logIn logs a person in by the link of a mail and returns where that leads.
func (s *service) logIn(who, next string) (*visitor, string) {
	s.t.Helper()
	v := s.stranger()
	return v, v.logIn(who, next)
}

func (v *visitor) logIn(who, next string) string {
	v.s.t.Helper()
	before := len(v.s.loginMails(who))
	sent := v.post("/login", url.Values{"email": {who}, "next": {next}})
	if sent.want(v.s.t, http.StatusOK); !strings.Contains(sent.words(), "Look into your mail") {
		v.s.t.Fatalf("the log-in page answers %s", sent.words())
	}
	testkit.WaitFor(v.s.t, "the log-in mail", func() bool { return len(v.s.loginMails(who)) > before })
	mails := v.s.loginMails(who)
	found := loginLink.FindStringSubmatch(mails[len(mails)-1].Text)
	if found == nil {
		v.s.t.Fatalf("the mail has no link: %s", mails[len(mails)-1].Text)
	}
	v.link = found[1]
	page := v.get("/login/"+v.link).want(v.s.t, http.StatusOK)
	nonce := nonceField.FindStringSubmatch(page.text())
	if nonce == nil {
		v.s.t.Fatalf("the page of the log-in link has no form: %s", page.words())
	}
	in := v.post("/login/"+v.link, url.Values{"nonce": {nonce[1]}}).want(v.s.t, http.StatusSeeOther)
	v.session = v.cookies["vobo"]
	return in.header.Get("Location")
}

func (s *service) loginMails(who string) []testkit.Mail {
	var found []testkit.Mail
	for _, m := range s.mail.MailsTo(who) {
		if strings.Contains(m.Subject, "log in") {
			found = append(found, m)
		}
	}
	return found
}

func (v *visitor) get(path string) answer {
	v.s.t.Helper()
	return v.do(http.MethodGet, path, "", nil)
}

func (v *visitor) post(path string, form url.Values, extra ...string) answer {
	v.s.t.Helper()
	return v.do(http.MethodPost, path, form.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, extra...))
}

func (v *visitor) do(method, path, body string, header []string) answer {
	v.s.t.Helper()
	h := http.Header{}
	for name, value := range v.cookies {
		h.Add("Cookie", name+"="+value)
	}
	for ; len(header) > 0; header = header[2:] {
		h.Set(header[0], header[1])
	}
	got, err := send(v.client, method, v.s.at+path, []byte(body), h)
	if err != nil {
		v.s.t.Fatalf("%s %s: %v", method, path, err)
	}
	for _, line := range got.header.Values("Set-Cookie") {
		cookie, err := http.ParseSetCookie(line)
		if err != nil {
			v.s.t.Fatal(err)
		}
		if v.cookies[cookie.Name] = cookie.Value; cookie.MaxAge < 0 {
			delete(v.cookies, cookie.Name)
		}
		if !cookie.HttpOnly || cookie.SameSite == http.SameSiteNoneMode {
			v.s.t.Errorf("the cookie %s may be read by scripts or goes to other sites: %s", cookie.Name, line)
		}
	}
	return got
}

// field report B59, S-23: wherever a log-in is told to lead, it stays here.
func TestALogInNeverLeadsAway(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	people := []string{ana, luis, lea, omar} // one person gets few log-in mails in a row
	for i, next := range []string{
		"//evil.example", `/\evil.example`, "/%5Cevil.example", "/%09//evil.example", "https:evil.example", "https://evil.example",
		"/inbox@evil.example", "/\t/evil.example", "javascript:alert(1)", "/inbox\r\nSet-Cookie: a=b", "/login/x", "／／evil.example",
	} {
		if _, to := s.logIn(people[i%len(people)], next); to != "/inbox" {
			t.Errorf("next=%q leads to %q", next, to)
		}
	}
	if _, to := s.logIn(ana, "/instances?status=running"); to != "/instances?status=running" {
		t.Errorf("a good next leads to %q", to)
	}
}

// field report B59: a session gets a new id at log-in; the old one is dead after it,
// and the new one after log-out.
func TestASessionIsNewAtLogInAndDeadAfterLogOut(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	v := s.stranger()
	v.cookies["vobo"] = "planted"
	v.logIn(ana, "")
	first := v.session
	if first == "planted" || first == "" {
		t.Fatalf("after the log-in the session is %q", first)
	}
	v.logIn(ana, "")
	alive := func(session string) bool {
		other := s.stranger()
		other.cookies["vobo"] = session
		return other.get("/inbox").status == http.StatusOK
	}
	if alive(first) || !alive(v.session) || alive("planted") {
		t.Errorf("after another log-in: old alive %v, new alive %v", alive(first), alive(v.session))
	}
	csrf := csrfField.FindStringSubmatch(v.get("/inbox").want(t, http.StatusOK).text())
	if csrf == nil {
		t.Fatal("the inbox has no form to log out")
	}
	last := v.session
	v.post("/logout", url.Values{"csrf": {csrf[1]}}).want(t, http.StatusSeeOther)
	if alive(last) {
		t.Error("the session lives after the log-out")
	}
	used := s.stranger()
	if page := used.get("/login/" + v.link); page.status != http.StatusNotFound {
		t.Errorf("a used log-in link answers %d", page.status)
	}
}

// field report B59: forms of other sites change nothing.
func TestAFormOfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	id := s.submitted("onboarding", "Gus").ID
	v, _ := s.logIn(ana, "")
	open := "/tasks/" + s.read(id).Tasks[0].ID
	page := v.get(open).want(t, http.StatusOK).text()
	form := url.Values{"event": {"approve"}}
	for name, field := range map[string]*regexp.Regexp{"csrf": csrfField, "digest": digestField} {
		found := field.FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("the page of a task has no field %s", name)
		}
		form.Set(name, found[1])
	}
	s.settled(id)
	before := s.everything(id)
	refused := func(what string, got answer, allowed ...int) {
		t.Helper()
		for _, status := range append(allowed, http.StatusForbidden) {
			if got.status == status {
				return
			}
		}
		t.Errorf("%s: status %d", what, got.status)
	}
	refused("another site", v.post(open, form, "Sec-Fetch-Site", "cross-site"))
	refused("another origin", v.post(open, form, "Origin", "https://evil.example"))
	refused("log-out by another site", v.post("/logout", url.Values{"csrf": form["csrf"]}, "Sec-Fetch-Site", "cross-site"))
	refused("no token", v.post(open, url.Values{"event": form["event"], "digest": form["digest"]}))
	refused("text/plain", v.do(http.MethodPost, open, form.Encode(), []string{"Content-Type", "text/plain"}), http.StatusUnsupportedMediaType)
	refused("JSON as text", v.do(http.MethodPost, "/v1"+open+"/decide", `{"event":"approve"}`, []string{"Content-Type", "text/plain"}), http.StatusUnsupportedMediaType)
	refused("JSON by cookie alone", v.do(http.MethodPost, "/v1"+open+"/decide", `{"event":"approve"}`, []string{"Content-Type", "application/json"}))
	if after := s.everything(id); after != before {
		t.Errorf("a foreign form changed something:\nbefore %s\nafter  %s", before, after)
	}
	v.post(open, form).want(t, http.StatusOK)
	if now := s.read(id); now.State != "waiting_docs" {
		t.Errorf("the form of our own page led to %s", now.State)
	}
}
