package e2e_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"vobo/internal/testkit"
)

// looks shows a page on a phone and on a desktop, light and dark; each must fit its
// window. Pictures of all four are kept where VOBOTEST_SCREENSHOTS says so.
func looks(t *testing.T, tab *testkit.Tab, name string) {
	t.Helper()
	for _, look := range []struct {
		name string
		set  []func()
	}{
		{"phone-light", []func(){tab.Phone, tab.Light}},
		{"phone-dark", []func(){tab.Phone, tab.Dark}},
		{"desktop-dark", []func(){tab.Desktop, tab.Dark}},
		{"desktop-light", []func(){tab.Desktop, tab.Light}},
	} {
		for _, set := range look.set {
			set()
		}
		assertFits(t, tab, name+" ("+look.name+")")
		if os.Getenv(testkit.ScreenshotVariable) != "" {
			tab.Screenshot(name + "-" + look.name)
		}
	}
}

// field report B02, S-02: a scanner that runs scripts and waits decides nothing; then
// the page without script still works as a plain form.
func TestAnOpenPageDecidesNothingByItself(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	id := s.submitted("onboarding", "Jan").ID
	link := s.linkOf(ana, "Approve Jan")
	s.settled(id)
	before := s.everything(id)
	tab := testkit.Browser(t)
	tab.Open(link)
	testkit.WaitFor(t, "ten seconds on the page", func() bool {
		return testkit.EvalTab[float64](tab, "performance.now()") > 10_000
	})
	if after := s.everything(id); after != before || tab.Address() != link {
		t.Errorf("an open page changed something, or went to %s:\nbefore %s\nafter  %s", tab.Address(), before, after)
	}
	for _, request := range tab.Requests() {
		if request != link && !strings.HasPrefix(request, s.base+"/static/") && !strings.HasPrefix(request, "data:") && !strings.HasSuffix(request, "/favicon.ico") {
			t.Errorf("the page asked for %s by itself", request)
		}
	}
	tab.Script(false)
	tab.Open(link)
	if status := tab.Follow("button.record"); status != http.StatusUnprocessableEntity {
		t.Errorf("no choice is answered with %d", status)
	}
	if now := s.read(id); now.State != "pending_approval" {
		t.Fatalf("no choice led to %s", now.State)
	}
	tab.Click(radio("approve"))
	if status := tab.Follow("button.record"); status != http.StatusOK {
		t.Errorf("the form without script is answered with %d", status)
	}
	if now := s.read(id); now.State != "waiting_docs" {
		t.Errorf("the form without script led to %s", now.State)
	}
	assertClean(t, tab, s)
}

// focus presses Tab until the element of a selector has the focus.
func focus(t *testing.T, tab *testkit.Tab, selector string) {
	t.Helper()
	for range 60 {
		if testkit.EvalTab[bool](tab, "document.activeElement.matches('"+selector+"')") {
			return
		}
		tab.Press(kb.Tab)
	}
	t.Fatalf("the key Tab never reaches %s", selector)
}

// A decision by keyboard alone; then field report B60: Back after deciding shows no
// live form, and what a stale form sends is answered with what was decided.
func TestADecisionByKeyboardAndTheWayBack(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	id := s.submitted("onboarding", "Kaya").ID
	link := s.linkOf(luis, "Approve Kaya")
	stale := digestField.FindStringSubmatch(s.page(link).text())
	tab := testkit.Browser(t)
	tab.Open(link)
	looks(t, tab, "decision")
	focus(t, tab, radio("approve"))
	tab.Press(kb.ArrowDown)
	if chosen := testkit.EvalTab[string](tab, `document.querySelector('input[name=event]:checked').value`); chosen != "reject" {
		t.Errorf("the arrow chose %q", chosen)
	}
	focus(t, tab, "button.record")
	tab.Press(kb.Enter)
	tab.WaitText("Nothing was recorded yet") // a rejection needs a comment
	if at := testkit.EvalTab[string](tab, "document.activeElement.id"); at != "problems" {
		t.Errorf("after a refused form the focus is on %q, not on what is wrong", at)
	}
	looks(t, tab, "decision-again")
	tab.Open(link)
	focus(t, tab, radio("approve"))
	tab.Press(kb.ArrowDown)
	focus(t, tab, "#comment")
	tab.Press("Not now.")
	focus(t, tab, "button.record")
	tab.Press(kb.Enter)
	tab.WaitText("Your decision is recorded")
	looks(t, tab, "done")
	if now := s.read(id); now.State != "rejected" {
		t.Fatalf("the keyboard led to %s", now.State)
	}
	tab.Do(chromedp.NavigateBack())
	tab.WaitText("Your decision is recorded")
	if live := tab.Count("button.record"); live != 0 {
		t.Error("the page behind Back has a live button")
	}
	again := s.post(link, map[string][]string{"event": {"reject"}, "comment": {"Not now."}, "digest": {stale[1]}}).want(t, http.StatusOK)
	if again.header.Get("Idempotent-Replayed") != "true" || !strings.Contains(again.words(), "You had recorded this before") {
		t.Errorf("the same press again: %s", again.words())
	}
	other := s.post(link, map[string][]string{"event": {"approve"}, "digest": {stale[1]}}).want(t, http.StatusConflict)
	if !strings.Contains(other.words(), "This is already decided") || !strings.Contains(other.words(), "Luis") {
		t.Errorf("another press: %s", other.words())
	}
	tab.Open(s.linkOf(ana, "Approve Kaya"))
	looks(t, tab, "already-decided")
	if rows := s.history(id); len(rows) != 3 {
		t.Errorf("the history has %d rows, want 3", len(rows))
	}
	assertClean(t, tab, s)
}

// A person logs in by a mailed link and decides in the inbox, with mouse and keys.
func TestAPersonDecidesInTheInbox(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	first, second := s.submitted("onboarding", "Lars").ID, s.start(rosa, "supplier", supplierOf("Mona", 5000)).ID
	tab := testkit.Browser(t)
	tab.Open(s.base + "/instances/" + first)
	looks(t, tab, "login")
	tab.Type("#email", ana)
	tab.Follow("button.record")
	tab.WaitText("Look into your mail")
	looks(t, tab, "login-sent")
	testkit.WaitFor(t, "the log-in mail", func() bool { return len(s.loginMails(ana)) == 1 })
	tab.Open(loginLink.FindString(s.loginMails(ana)[0].Text))
	looks(t, tab, "login-link")
	if status := tab.Follow("button.record"); status != http.StatusOK || tab.Address() != s.base+"/instances/"+first {
		t.Fatalf("after the log-in: %d at %s", status, tab.Address())
	}
	theInstancePageTells(t, tab)
	decideInTheInbox(t, s, tab, first, second)
	for _, page := range []string{"/inbox?folder=done", "/instances", "/start", "/problems", "/problems/already-decided"} {
		if status := tab.Open(s.base + page); status != http.StatusOK {
			t.Errorf("%s answers %d", page, status)
		}
		looks(t, tab, "page"+strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(page))
	}
	tab.Open(s.base + "/inbox")
	tab.Follow(`form[action$="/logout"] button`)
	tab.WaitText("Log in")
	tab.Do(chromedp.NavigateBack())
	tab.WaitText("Log in") // field report B60: after log-out nothing is behind Back
	if strings.Contains(tab.Text("body"), "Mona") {
		t.Error("after the log-out Back shows the inbox")
	}
	assertClean(t, tab, s)
}

func theInstancePageTells(t *testing.T, tab *testkit.Tab) {
	t.Helper()
	tab.WaitText("Lars")
	for _, part := range []string{"pending approval", "rosa", "the path", "timeline", "ana", "luis"} {
		if text := strings.ToLower(tab.Text("main")); !strings.Contains(text, part) {
			t.Errorf("the instance's page does not say %q: %s", part, text)
		}
	}
	testkit.WaitFor(t, "the diagram", func() bool {
		return testkit.EvalTab[int](tab, `document.querySelector(".diagram img").naturalWidth`) > 0
	})
	looks(t, tab, "instance")
}

func decideInTheInbox(t *testing.T, s *service, tab *testkit.Tab, first, second string) {
	t.Helper()
	tab.Open(s.base + "/inbox")
	tab.WaitText("Approve Lars")
	tab.WaitText("New supplier Mona")
	looks(t, tab, "inbox")
	tab.Follow(`a.task[href*="` + first + `"]`)
	tab.WaitText("1250.5")
	looks(t, tab, "inbox-task")
	tab.Click(radio("approve"))
	if status := tab.Follow("button.record"); status != http.StatusOK {
		t.Errorf("the decision in the inbox is answered with %d", status)
	}
	tab.WaitText("Your decision is recorded")
	rows := s.history(first)
	if last := rows[len(rows)-1]; last.Event != "approve" || last.Actor.ID != ana || last.Assurance != "session" {
		t.Errorf("the history says %+v", last)
	}

	tab.Open(s.base + "/inbox")
	tab.WaitText("New supplier Mona")
	tab.Press("j")
	tab.Press("o")
	tab.WaitText("Your decision")
	testkit.WaitFor(t, "the page's script", func() bool {
		return testkit.EvalTab[bool](tab, `document.readyState === "complete" && document.documentElement.classList.contains("js")`)
	})
	tab.Press("a")
	if !testkit.EvalTab[bool](tab, `document.querySelector('`+radio("approve")+`').checked`) {
		t.Error("the key a does not choose approve")
	}
	tab.Type(`input[name^="input.limit"]`, "4000")
	if status := tab.Follow("button.record"); status != http.StatusOK {
		t.Errorf("the decision by keys is answered with %d", status)
	}
	tab.WaitText("Your answer is noted")
	looks(t, tab, "noted")
	if now := s.read(second); now.State != "pending_approval" || now.Revision != 2 {
		t.Errorf("after one of two answers: %+v", now)
	}
}

// The other ends of a link have pages of the same care.
func TestClosedLinksHaveCarefulPages(t *testing.T) {
	t.Parallel()
	quick := variant(t, "onboarding.v1.yaml", "onboarding-quick", "{after: P3D, fire: expire}", "{after: PT2S, fire: expire}")
	s := serve(t, setup{definitions: []string{quick}})
	expired, cancelled := s.submitted("onboarding-quick", "Nils").ID, s.submitted("onboarding", "Olga").ID
	links := map[string]string{"expired": s.linkOf(ana, "Approve Nils"), "cancelled": s.linkOf(ana, "Approve Olga")}
	links["invalid"] = links["expired"][:len(links["expired"])-4]
	s.api(desk, http.MethodDelete, "/v1/instances/"+cancelled, map[string]any{"reason": "Asked twice."}).want(t, http.StatusAccepted)
	s.waitState(expired, "expired")
	tab := testkit.Browser(t)
	for name, want := range map[string]struct {
		status int
		text   string
	}{
		"expired": {200, "The time for this decision is over"}, "cancelled": {200, "already"}, "invalid": {404, "This link is not valid"},
	} {
		if status := tab.Open(links[name]); status != want.status {
			t.Errorf("%s: status %d, want %d", name, status, want.status)
		}
		tab.WaitText(want.text)
		if tab.Count("button.record") != 0 {
			t.Errorf("%s: the page has a live button", name)
		}
		looks(t, tab, "link-"+name)
	}
	if foreign := tab.ForeignRequests(s.base); len(foreign) > 0 {
		t.Errorf("the pages asked other hosts: %q", foreign)
	}
}
