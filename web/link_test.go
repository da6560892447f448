package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// guarantee S-01; field reports B01, B02
func TestLookingAtALinkChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	first := b.get("/a/open").Body.String()
	for _, opt := range []func(*http.Request){header("Range", "bytes=0-10"), header("Purpose", "prefetch"), header("Sec-Purpose", "prefetch"), header("User-Agent", "Mozilla/5.0 (compatible; mail-scanner)")} {
		w := b.get("/a/open", opt)
		wantStatus(t, w, 200)
		if w.Body.String() != first {
			t.Error("another page for another visitor")
		}
	}
	wantStatus(t, b.do("HEAD", "/a/open", ""), 200)
	w := b.do("OPTIONS", "/a/open", "")
	wantStatus(t, w, 204)
	if got := w.Header().Get("Allow"); got != "GET, HEAD, OPTIONS, POST" {
		t.Errorf("Allow %q", got)
	}
	wantChanges(t, b.svc, "")
	if strings.Contains(first, "checked") || strings.Contains(first, "Set-Cookie") {
		t.Error("an answer is chosen beforehand")
	}
	if cookies := b.get("/a/open", as("luis")).Result().Cookies(); len(cookies) != 0 {
		t.Errorf("a link's page sets cookies: %v", cookies)
	}
}

func TestTheDecisionPageSaysWhoAsksWhatSinceWhenAndUntilWhen(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get("/a/open")
	wantText(t, w, "<bdi>Ana Ruiz</bdi> asks for your decision", "New supplier Talleres Núñez", "Wed 2 Dec, 19:24 (Madrid)", "in 2 days", "Sun 29 Nov, 09:24",
		"You are asked as a member of risk.", "<strong><bdi>sanctions list</bdi></strong>", "The contract goes out for signing", "1 of 2 needed answers", "Rosa Gil", "You decide as <bdi>Luis Pérez</bdi>", "Not you?",
		`<input type="hidden" name="digest" value="d1">`, `name="input.limit"`, "Record my decision", "opens <bdi>files.example.com</bdi>")
	page := w.Body.String()
	if facts, answers := strings.Index(page, "What this is about"), strings.Index(page, `name="event"`); facts < 0 || facts > answers {
		t.Error("the facts do not stand before the answers")
	}
	if got := strings.Count(page, `name="event"`); got != 3 {
		t.Errorf("%d answers, want 3", got)
	}
}

// guarantee S-03
func TestAFormWithoutAChoiceComesBackWithASummary(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.post("/a/open", "", form("comment", "typed <b>text</b>", "input.limit", "12", "digest", "d1"))
	wantStatus(t, w, 422)
	wantText(t, w, "Nothing was recorded yet", `href="#event-approve"`, "Choose one of the answers", "typed &lt;b&gt;text&lt;/b&gt;", `value="12"`, "<title>Error: ")
	w = b.post("/a/open", "", form("event", "approve", "event", "reject", "digest", "d1"))
	wantStatus(t, w, 422)
	wantText(t, w, "Choose one answer only")
	wantStatus(t, b.do("POST", "/a/open", ""), 422)
	wantChanges(t, b.svc, "")
}

func TestADecisionIsRecordedOnceAndItsRepetitionGetsTheSamePage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	answer := form("event", "approve", "input.limit", "40 000", "comment", "Fine.\r\nGo on", "digest", "d1")
	w := b.do("POST", "/a/open", answer.Encode(), header("Origin", "null"), as("luis"))
	wantStatus(t, w, 200)
	wantText(t, w, "Your decision is recorded", "Approve", "Luis Pérez", "Mon 30 Nov, 11:24 (Madrid)", "What happens next", "The contract goes to the signing service", "Open my inbox")
	if got := b.svc.last; got.Comment != "Fine.\nGo on" || got.Digest != "d1" || string(definitions.EncodeJSON(got.Input)) != `{"limit":40000}` || got.Idem.Key != "" {
		t.Errorf("decided with %+v", got)
	}
	for _, again := range []url.Values{answer, form("event", "approve", "input.limit", "40000.0")} {
		w = b.post("/a/open", "", again)
		wantStatus(t, w, 200)
		wantText(t, w, "Your decision is recorded", "Nothing was done twice")
		if w.Header().Get("Idempotent-Replayed") != "true" {
			t.Error("the replay is not marked")
		}
	}
	wantChanges(t, b.svc, "decide approve")
	w = b.get("/a/open")
	wantStatus(t, w, 200)
	wantText(t, w, "Your decision is recorded", "Mon 30 Nov, 11:24")
	wantNoText(t, w, "Record my decision")
	for _, other := range []url.Values{form("event", "reject", "comment", "no"), form("event", "approve", "input.limit", "1")} {
		w = b.post("/a/open", "", other)
		wantStatus(t, w, 409)
		wantText(t, w, "This is already decided", "What you recorded")
	}
	wantStatus(t, b.post("/a/open", "", form("comment", "x")), 409)
	wantChanges(t, b.svc, "decide approve")
}

func TestAfterAStayThePageLeadsToTheSuccessorLink(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.post("/a/open", "", form("event", "ask", "comment", "Which register?", "digest", "d1"))
	wantStatus(t, w, 200)
	wantText(t, w, "Recorded; the request stays open", `href="/flow/a/successor"`, "Decide further on this request")
	wantStatus(t, b.get("/a/successor"), 200)
}

func TestEveryOutcomeOfALinkIsAPageOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, c := range []struct {
		token  string
		status int // of a POST
		want   []string
	}{
		{"decided", 409, []string{"This is already decided", "<bdi>Rosa Gil</bdi> chose", "Approve", "Your answer was not needed."}},
		{"expired", 410, []string{"The time for this decision is over", "Ask Ana Ruiz (ana@example.com)"}},
		{"revoked", 410, []string{"This link does not work any more", "Ask rosa@example.com"}},
		{"suspended", 423, []string{"This request is paused", "Olga Ivanova paused"}},
		{"changed", 409, []string{"What you read has changed", "What it says now", `<span class="grp">250</span>`, "A fresh link was mailed"}},
	} {
		w := b.get("/a/" + c.token)
		wantStatus(t, w, 200)
		wantText(t, w, append(c.want, `href="/flow/inbox"`)...)
		wantNoText(t, w, "Record my decision")
		for _, answer := range []url.Values{form("event", "approve", "input.limit", "5"), form("event", "approve", "input.limit", "not a number"), form("comment", "no choice")} {
			w = b.post("/a/"+c.token, "", answer)
			wantStatus(t, w, c.status)
			wantText(t, w, c.want...)
		}
	}
	wantChanges(t, b.svc, "")
}

// guarantee D7: one identical answer for every token that is not authentic.
func TestWhatIsNoLinkGetsOneNeutralPage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	first := b.get("/a/none")
	wantStatus(t, first, 404)
	wantText(t, first, "This link is not valid")
	for _, token := range []string{"x", "eyJhbGciOiJub25lIn0.e30.", strings.Repeat("a", 3000), "%2e%2e%2f", "a%00b"} {
		for _, w := range []interface{ Result() *http.Response }{b.get("/a/" + token), b.post("/a/"+token, "", form("event", "approve"))} {
			r := w.Result()
			if r.StatusCode != 404 {
				t.Errorf("%.20q: status %d", token, r.StatusCode)
			}
		}
		if w := b.get("/a/" + token); w.Body.String() != first.Body.String() {
			t.Errorf("%.20q: another page", token)
		}
	}
}

func TestRefusalsThatLeaveTheLinkGoodBringTheFormBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		refusal *fault.Error
		status  int
		again   bool
		want    string
	}{
		{fault.New(fault.InvalidInput, "Not valid.").With(fault.Field{Pointer: "/limit", Detail: "Not above the amount asked for"}), 422, true, `href="#input-limit"`},
		{fault.New(fault.InvalidInput, "Not valid.").With(fault.Field{Pointer: "/comment", Detail: "At most 10000 characters; this has 100000."}), 422, true, `href="#comment"`}, // field report B65
		{fault.New(fault.GuardRejected, "The amount is above the limit of this way."), 422, true, "above the limit of this way"},
		{fault.New(fault.NotPermitted, "Four eyes: who asks cannot approve."), 403, true, "Four eyes"},
		{fault.New(fault.EventNotAllowed, "This link does not allow that."), 403, true, "does not allow that"},
		{fault.New(fault.AssuranceRequired, "Log in to decide this."), 403, true, "Log in to decide"},
		{&fault.Error{Code: fault.Unavailable, Message: "Busy for a moment.", RetryAfter: 1500 * time.Millisecond}, 503, true, "Busy for a moment"},
		{fault.New(fault.Suspended, "Paused by Olga."), 423, false, "This request is paused"},
		{&fault.Error{Code: fault.AlreadyDecided, Message: "Not needed.", Winner: &fault.Winner{Event: "timer", Actor: "timer", At: sampleNow}}, 409, false, "The deadline passed on"},
	} {
		b := newBundle(t, func(_ *Config, f *fakeService) { f.refuse = c.refusal })
		w := b.post("/a/open", "", form("event", "approve", "input.limit", "99", "comment", "kept text", "digest", "d1"))
		wantStatus(t, w, c.status)
		wantText(t, w, c.want)
		if c.again {
			wantText(t, w, "kept text", `value="99"`, `value="approve" id="event-approve" checked`)
		}
		if c.refusal.Code == fault.Unavailable && w.Header().Get("Retry-After") != "2" {
			t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
		}
		wantChanges(t, b.svc, "")
	}
}

func TestTheOrderOfTheTableStandsBeforeTheFormsOwnMistakes(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) { f.refuse = fault.New(fault.ContentChanged, "The amount has changed.") })
	w := b.post("/a/open", "", form("event", "approve", "input.limit", "no number", "digest", "older"))
	wantStatus(t, w, 409)
	wantText(t, w, "What you read has changed", "What it says now")
	b = newBundle(t, func(_ *Config, f *fakeService) {
		f.refuse = fault.New(fault.EventNotAllowed, "This link does not allow that.")
	})
	wantStatus(t, b.post("/a/open", "", form("event", "withdraw", "nonsense", "1", "digest", "d1")), 403)
}

func TestFieldsThatNoFormHasAreRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.post("/a/open", "", form("event", "approve", "input.limit", "5", "digest", "d1", "state", "approved"))
	wantStatus(t, w, 422)
	wantText(t, w, "This form has no field")
	wantChanges(t, b.svc, "")
	w = b.post("/a/open", "", form("event", "reject", "comment", "x", "digest", "d1", "input.sneaky.deep", "1"))
	wantStatus(t, w, 200)
	if got := string(definitions.EncodeJSON(b.svc.last.Input)); got != `{"sneaky":{"deep":"1"}}` {
		t.Errorf("the schema was not asked about an unknown input: %s", got)
	}
}

func TestBodiesThatCannotBeReadAreRefusedWithoutADecision(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for name, c := range map[string]struct {
		body, kind string
		status     int
	}{
		"json":        {`{"event":"approve"}`, "application/json", 415},
		"plain text":  {"event=approve", "text/plain", 415},
		"nul":         {"event=approve&comment=%00", "application/x-www-form-urlencoded", 400},
		"not utf-8":   {"event=approve&comment=%ff", "application/x-www-form-urlencoded", 400},
		"bad escape":  {"event=%zz", "application/x-www-form-urlencoded", 400},
		"over 1 MiB":  {"event=approve&comment=" + strings.Repeat("a", maxBody), "application/x-www-form-urlencoded", 413},
		"no boundary": {"x", "multipart/form-data", 400},
	} {
		w := b.do("POST", "/a/open", c.body, header("Content-Type", c.kind))
		if w.Code != c.status {
			t.Errorf("%s: status %d, want %d", name, w.Code, c.status)
		}
	}
	wantChanges(t, b.svc, "")
}

func TestTwoAnswersWithAFieldOfTheSameNameKeepThemApart(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) {
		limit := []definitions.FormField{{Name: "limit", Type: "integer"}}
		f.links["open"].Task.Events = []approval.OfferedEvent{{Name: "approve", Title: "Approve", Comment: "none", Fields: limit}, {Name: "counter", Title: "Counter", Comment: "none", Fields: limit}}
	})
	wantText(t, b.get("/a/open"), `name="input.limit@approve"`, `name="input.limit@counter"`)
	wantStatus(t, b.post("/a/open", "", form("event", "counter", "input.limit@approve", "1", "input.limit@counter", "2", "digest", "d1")), 200)
	if got := string(definitions.EncodeJSON(b.svc.last.Input)); got != `{"limit":2}` {
		t.Errorf("read %s", got)
	}
	wantStatus(t, b.post("/a/second", "", form("event", "approve", "input.limit", "7", "digest", "d1")), 200)
	if got := string(definitions.EncodeJSON(b.svc.last.Input)); got != `{"limit":7}` {
		t.Errorf("the plain name of the contract was not read: %s", got)
	}
}

func TestADocumentGoesAlongByReference(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) {
		f.links["open"].Task.Events = []approval.OfferedEvent{{Name: "document_received", Title: "Send the contract", Comment: "none", Documents: []approval.DocumentNeed{{Name: "contract", Required: true}}}}
	})
	wantText(t, b.get("/a/open"), "Document: <bdi>Contract</bdi>", `name="document.contract.uri"`, "keeps a reference")
	w := b.post("/a/open", "", form("event", "document_received", "digest", "d1"))
	wantStatus(t, w, 422)
	wantText(t, w, `href="#document-contract-uri"`, "paste its address")
	w = b.post("/a/open", "", form("event", "document_received", "digest", "d1", "document.contract.uri", "javascript:alert(1)"))
	wantStatus(t, w, 422)
	wantChanges(t, b.svc, "")
	wantStatus(t, b.post("/a/open", "", form("event", "document_received", "digest", "d1", "document.contract.uri", "https://files.example.com/c/Signed.pdf")), 200)
	if got := string(definitions.EncodeJSON(b.svc.last.Documents["contract"])); got != `{"name":"Signed.pdf","uri":"https://files.example.com/c/Signed.pdf"}` {
		t.Errorf("sent %s", got)
	}
}
