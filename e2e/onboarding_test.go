package e2e_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
)

func applicant(name string) map[string]any {
	return map[string]any{"applicant": map[string]any{"name": name, "email": strings.ToLower(name) + "@example.net"}, "total": 1250.5}
}

// contract is a document by reference.
func contract(uri string) map[string]any {
	return map[string]any{"name": "contract.pdf", "media_type": "application/pdf", "size": 1234, "sha256": strings.Repeat("0a", 32), "uri": uri}
}

// submitted starts an onboarding in Rosa's name and hands it to the risk group.
func (s *service) submitted(definition, name string) instance {
	s.t.Helper()
	started := s.start(rosa, definition, applicant(name))
	return s.raise(rosa, started.ID, map[string]any{"event": "submit"}).Instance
}

// A customer is taken on: the API starts it, mails ask for a decision, one is made on
// a phone, a document comes, the welcome goes out once.
func TestACustomerIsOnboarded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *service) {
		started := s.start(rosa, "onboarding", applicant("Bilal"))
		if started.State != "draft" || started.Status != "running" || len(started.Tasks) != 1 {
			t.Fatalf("a start answers with its first wait and its task, not %+v", started)
		}
		if done := s.raise(rosa, started.ID, map[string]any{"event": "submit"}); done.Instance.State != "pending_approval" || done.Transition.Assurance != "impersonated" {
			t.Fatalf("after submit: %+v", done)
		}
		anas, luiss := s.linkOf(ana, "Approve Bilal"), s.linkOf(luis, "Approve Bilal")
		if anas == luiss {
			t.Fatal("two people got the same link")
		}
		for _, link := range []string{anas, luiss} {
			if !strings.HasPrefix(link, s.base+"/a/") {
				t.Errorf("a link begins with %.40s, not with the base URL %s", link, s.base)
			}
		}
		s.settled(started.ID)
		looksChangeNothing(t, s, started.ID, anas, luiss)
		approveOnAPhone(t, s, anas)
		if now := s.read(started.ID); now.State != "waiting_docs" {
			t.Fatalf("after the approval the state is %s", now.State)
		}
		theOtherLinkTellsWhoDecided(t, s, started.ID, luiss)

		requesters := s.linkOf(rosa, "Waiting docs")
		document := contract("https://files.example.net/contract.pdf")
		s.api(noOne, http.MethodPost, "/v1/callbacks/"+tokenOf(requesters), map[string]any{"event": "document_received"}).wantProblem(t, 422, "invalid-input")
		var done result
		s.api(noOne, http.MethodPost, "/v1/callbacks/"+tokenOf(requesters),
			map[string]any{"event": "document_received", "documents": map[string]any{"contract": document}}).want(t, http.StatusOK).into(t, &done)
		if done.Instance.State != "activated" || done.Instance.Status != "finished" || done.Replayed {
			t.Fatalf("after the document: %+v", done)
		}
		s.settled(started.ID)
		if kept, _ := s.read(started.ID).Data["contract"].(map[string]any); kept["uri"] != document["uri"] {
			t.Errorf("the reference is not in the data: %v", kept)
		}
		if welcome := s.mail.MailsTo("bilal@example.net"); len(welcome) != 1 || welcome[0].Subject != "Welcome, Bilal" || !strings.Contains(welcome[0].Text, "Your account is active.") {
			t.Errorf("the welcome came %d times", len(welcome))
		}
		assertPath(t, s.history(started.ID), "draft", "pending_approval", "waiting_docs", "activated")
	}, setup{})
}

// assertPath compares the states that the history went through.
func assertPath(t *testing.T, rows []transition, want ...string) {
	t.Helper()
	var got []string
	for i, row := range rows {
		if row.Seq != i+1 {
			t.Errorf("row %d of the history has the number %d", i+1, row.Seq)
		}
		if row.To != "" {
			got = append(got, row.To)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the path is %v, want %v", got, want)
	}
}

// field report B01, S-01: gateways open every link, from several addresses.
func looksChangeNothing(t *testing.T, s *service, id string, links ...string) {
	t.Helper()
	before, mails := s.everything(id), len(s.mail.Mails())
	looks := []struct {
		method string
		header http.Header
	}{
		{http.MethodHead, nil},
		{http.MethodOptions, nil},
		{http.MethodGet, nil},
		{http.MethodGet, http.Header{"Sec-Purpose": {"prefetch;prerender"}, "Purpose": {"prefetch"}, "X-Moz": {"prefetch"}}},
		{http.MethodGet, http.Header{"Range": {"bytes=0-99"}}},
		{http.MethodGet, http.Header{"User-Agent": {"Mozilla/5.0 (compatible; BarracudaCentral)"}, "Cookie": {"vobo=nonsense"}}},
		{http.MethodGet, nil},
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		client := clientAt(t, from)
		for _, link := range links {
			for _, look := range looks {
				got, err := send(client, look.method, link, nil, look.header)
				if err != nil {
					t.Fatalf("%s: %v", look.method, err)
				}
				if look.method == http.MethodOptions {
					got.want(t, http.StatusNoContent)
					continue
				}
				if got.want(t, http.StatusOK); look.method == http.MethodGet && !strings.Contains(got.text(), `value="approve"`) {
					t.Errorf("a look from %s shows no form: %s", from, got.words())
				}
				assertSecretPage(t, got)
			}
		}
	}
	if after := s.everything(id); after != before {
		t.Errorf("looking at links changed something:\nbefore %s\nafter  %s", before, after)
	}
	if now := len(s.mail.Mails()); now != mails {
		t.Errorf("looking at links sent %d mails", now-mails)
	}
}

// guarantee D6: the headers of a page whose address is a secret.
func assertSecretPage(t *testing.T, page answer) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	} {
		if got := page.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := page.header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "script-src 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the content security policy lacks %q: %s", part, policy)
		}
	}
	if strings.Contains(policy, "unsafe-inline") || !strings.Contains(page.header.Get("X-Robots-Tag"), "noindex") || page.header.Get("Set-Cookie") != "" {
		t.Errorf("the headers of a secret page are %v", page.header)
	}
}

// clientAt is a client whose requests come from an address of its own.
func clientAt(t testing.TB, address string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: testkit.Patience}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testkit.Patience, CheckRedirect: direct.CheckRedirect}
}

func approveOnAPhone(t *testing.T, s *service, link string) {
	t.Helper()
	tab := testkit.Browser(t)
	tab.Phone()
	if status := tab.Open(link); status != http.StatusOK {
		t.Fatalf("the link's page has the status %d", status)
	}
	tab.WaitText("Bilal")
	if chosen := tab.Count("input[type=radio]:checked"); chosen != 0 {
		t.Errorf("%d answers are chosen beforehand", chosen)
	}
	assertFits(t, tab, "the decision page")
	tab.Click(radio("approve"))
	if status := tab.Follow("button.record"); status != http.StatusOK {
		t.Errorf("the decision was answered with %d", status)
	}
	tab.WaitText("Your decision is recorded")
	tab.WaitText("Ana")
	assertFits(t, tab, "the done page")
	assertClean(t, tab, s)
}

// radio is the selector of an answer's radio button.
func radio(event string) string { return `input[name="event"][value="` + event + `"]` }

// assertFits fails the test where a page is wider than its window.
func assertFits(t *testing.T, tab *testkit.Tab, what string) {
	t.Helper()
	if over := testkit.EvalTab[int](tab, "document.documentElement.scrollWidth - window.innerWidth"); over > 0 {
		t.Errorf("%s is %d px wider than the window", what, over)
	}
}

// assertClean fails the test where a page asked another host or complained.
func assertClean(t *testing.T, tab *testkit.Tab, s *service) {
	t.Helper()
	if foreign := tab.ForeignRequests(s.base); len(foreign) > 0 {
		t.Errorf("the pages asked other hosts: %q", foreign)
	}
	for _, complaint := range tab.ConsoleErrors() {
		if !strings.Contains(complaint, "responded with a status of 422") { // a refused form, which the tests want
			t.Errorf("the pages complained in the console: %s", complaint)
		}
	}
}

func theOtherLinkTellsWhoDecided(t *testing.T, s *service, id, link string) {
	t.Helper()
	var at time.Time
	for _, row := range s.history(id) {
		if row.Event == "approve" {
			at = row.At
		}
	}
	page := s.page(link).want(t, http.StatusOK)
	assertSecretPage(t, page)
	for _, part := range []string{"already decided", "Ana", "approve", at.UTC().Format("15:04")} {
		if !strings.Contains(strings.ToLower(page.words()), strings.ToLower(part)) {
			t.Errorf("the other link's page does not say %q: %s", part, page.words())
		}
	}
	s.submit(link, "event", "approve").want(t, http.StatusConflict)
	got := s.api(noOne, http.MethodPost, "/v1/callbacks/"+tokenOf(link), map[string]any{"event": "reject", "comment": "late"})
	got.wantProblem(t, http.StatusConflict, "already-decided")
	var problem struct {
		Winner struct {
			Event, Actor string
			At           time.Time
		}
	}
	if got.into(t, &problem); problem.Winner.Event != "approve" || problem.Winner.Actor != "Ana" && problem.Winner.Actor != ana || !problem.Winner.At.Equal(at) {
		t.Errorf("the problem names %+v as the winner", problem.Winner)
	}
	if rows := s.history(id); len(rows) != 3 {
		t.Errorf("the late decisions left the history with %d rows, want 3", len(rows))
	}
}
