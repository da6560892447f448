package e2e_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"vobo/internal/testkit"
)

// poison are headers by which a caller might choose where links lead.
var poison = []string{
	"Host", "evil.example", "X-Forwarded-Host", "evil.example, b.evil.example", "X-Forwarded-Proto", "gopher",
	"Forwarded", "host=evil.example;proto=gopher", "X-Forwarded-Prefix", "/evil", "X-Original-URL", "/evil",
}

func poisoned() http.Header {
	header := http.Header{}
	for pair := poison; len(pair) > 0; pair = pair[2:] {
		header.Set(pair[0], pair[1])
	}
	return header
}

const reminding = "{after: P1D, remind: owner}"

// field report B39, S-23: links, parts, redirects and cookies follow the configured
// address, whatever a request says.
func TestLinksFollowTheConfiguredAddressAlone(t *testing.T) {
	t.Parallel()
	quick := variant(t, "onboarding.v1.yaml", "onboarding-quick", reminding, "{after: PT1S, remind: owner}")
	s := serve(t, setup{definitions: []string{quick}, env: map[string]string{"VOBO_BASE_URL": "https://x.example/flow/"}})
	var started instance
	s.api(rosa, http.MethodPost, "/v1/instances", map[string]any{"definition": "onboarding-quick", "data": applicant("Hal")}, poison...).
		want(t, http.StatusCreated).into(t, &started)
	s.api(rosa, http.MethodPost, "/v1/instances/"+started.ID+"/events", map[string]any{"event": "submit"}, poison...).want(t, http.StatusOK)
	for _, mail := range s.mail.WaitMail(t, ana, 2) { // the second is the reminder: no request was there
		if link := mail.Link(t); !strings.HasPrefix(link, "https://x.example/flow/a/") {
			t.Errorf("the link of the mail %q begins with %.40s", mail.Subject, link)
		}
		if strings.Contains(string(mail.Raw), "evil") {
			t.Errorf("the mail %q was poisoned", mail.Subject)
		}
	}
	mails := s.mail.MailsTo(ana)
	link := mails[len(mails)-1].Link(t)
	look := func(method, path string) answer {
		t.Helper()
		got, err := send(direct, method, s.inside(path), nil, poisoned())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.text(), "evil") || strings.Contains(got.header.Get("Location"), "evil") {
			t.Errorf("%s was poisoned: %v\n%s", path, got.header, got.text())
		}
		return got
	}
	page := look(http.MethodGet, link).want(t, http.StatusOK)
	parts := regexp.MustCompile(`(?:href|src|action)="(/[^"]*)"`).FindAllStringSubmatch(page.text(), -1)
	if len(parts) < 3 {
		t.Fatalf("the page has %d addresses", len(parts))
	}
	for _, part := range parts {
		if !strings.HasPrefix(part[1], "/flow/") {
			t.Errorf("the page refers to %s, which is not below /flow/", part[1])
		} else if strings.Contains(part[1], "/static/") {
			look(http.MethodGet, "https://x.example"+part[1]).want(t, http.StatusOK)
		}
	}
	if to := look(http.MethodGet, s.base+"/inbox").want(t, http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "/flow/login") {
		t.Errorf("a stranger is led to %s", to)
	}
	v := s.stranger()
	v.post("/login", map[string][]string{"email": {luis}}, poison...).want(t, http.StatusOK)
	testkit.WaitFor(t, "the log-in mail", func() bool { return len(s.loginMails(luis)) == 1 })
	address := loginLink.FindString(s.loginMails(luis)[0].Text)
	if !strings.HasPrefix(address, "https://x.example/flow/login/") {
		t.Errorf("the log-in link is %.40s", address)
	}
	cookie := look(http.MethodGet, address).want(t, http.StatusOK).header.Get("Set-Cookie")
	if !strings.Contains(cookie, "Path=/flow/") || !strings.Contains(cookie, "Secure") {
		t.Errorf("the cookie is not for https and /flow/ alone: %s", cookie)
	}
	s.submit(link, "event", "approve").want(t, http.StatusOK)
}

// field report B39: an IPv6 address keeps its brackets.
func TestLinksKeepTheBracketsOfAnIPv6Address(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{env: map[string]string{"VOBO_BASE_URL": "http://[::1]:8080"}})
	s.submitted("onboarding", "Ida")
	if link := s.linkOf(ana, "Approve Ida"); !strings.HasPrefix(link, "http://[::1]:8080/a/") {
		t.Errorf("the link begins with %.40s", link)
	}
}
