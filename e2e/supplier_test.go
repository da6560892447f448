package e2e_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"vobo/internal/testkit"
)

func supplierOf(name string, yearly int) map[string]any {
	return map[string]any{"name": name, "tax_id": "B-" + name, "email": strings.ToLower(name) + "@example.net", "yearly": yearly}
}

// A supplier goes its whole way: a choice, two departments with a form, a question in
// between, a signature from outside, a vendor made by webhook, a welcome.
func TestASupplierIsTakenOn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *service) {
		s.esign.Answer(testkit.AnswerJSON(http.StatusCreated, `{"envelope":"E-1"}`))
		s.core.Answer(testkit.AnswerJSON(http.StatusCreated, `{"id":"V-77"}`))
		if small := s.start(rosa, "supplier", supplierOf("Small", 999)); small.State != "signing" {
			t.Errorf("a supplier of 999 a year is in %s, want signing: the choice lets it pass", small.State)
		}
		s.esign.WaitCalls(t, "/envelopes", 1)

		started := s.start(rosa, "supplier", supplierOf("Acme", 5000))
		if started.State != "pending_approval" {
			t.Fatalf("a supplier of 5000 a year is in %s", started.State)
		}
		title := "New supplier Acme, 5000 a year"
		anas, leas := s.linkOf(ana, title), s.linkOf(lea, title)
		anas = askAndGetTheSuccessor(t, s, started.ID, anas)
		twoDepartmentsApprove(t, s, started.ID, anas, leas)
		theSigningServiceAnswers(t, s, started.ID)

		done := s.waitState(started.ID, "active")
		s.settled(started.ID)
		if done.Data["vendor_id"] != "V-77" || done.Data["limit"] != 1000.0 {
			t.Errorf("the data at the end: %v", done.Data)
		}
		vendors := s.core.Calls()
		if len(vendors) != 1 || vendors[0].Path != "/vendors" || vendors[0].Header.Get("Idempotency-Key") == "" || vendors[0].Header.Get("Webhook-Id") == "" {
			t.Errorf("the core system was called %d times: %+v", len(vendors), vendors)
		}
		if welcome := s.mail.MailsTo("acme@example.net"); len(welcome) != 1 || !strings.Contains(welcome[0].Text, "Your number is V-77.") {
			t.Errorf("the welcome came %d times: %+v", len(welcome), welcome)
		}
		assertPath(t, s.history(started.ID), "pending_approval", "signing", "creating", "active")
	}, setup{})
}

var successorLink = regexp.MustCompile(`href="([^"]*/a/[^"]+)"`)

// askAndGetTheSuccessor asks a question, which uses Ana's link up without leaving the
// wait, and returns the link that the done page offers in its place.
func askAndGetTheSuccessor(t *testing.T, s *service, id, link string) string {
	t.Helper()
	s.submit(link, "event", "ask").want(t, http.StatusUnprocessableEntity) // a comment is required
	page := s.submit(link, "event", "ask", "comment", "Who owns it?").want(t, http.StatusOK)
	found := successorLink.FindStringSubmatch(page.text())
	if found == nil {
		t.Fatalf("the done page offers no successor: %s", page.words())
	}
	if question := s.mailOf(rosa, "A question on Acme"); !strings.Contains(question.Text, "Who owns it?") {
		t.Errorf("the question says %s", question.Text)
	}
	if now := s.read(id); now.State != "pending_approval" {
		t.Errorf("a question left the wait: %s", now.State)
	}
	s.submit(link, "event", "approve", "input.limit", "5").want(t, http.StatusConflict)
	again := s.submit(link, "event", "ask", "comment", "Who owns it?").want(t, http.StatusOK)
	if s.settled(id); again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the question asked again was not a replay")
	}
	s.mailOf(rosa, "A question on Acme") // one, no more
	next := html.UnescapeString(found[1])
	if strings.HasPrefix(next, "/") {
		next = s.base + next
	}
	if tokenOf(next) == tokenOf(link) {
		t.Error("the successor is the old link")
	}
	return next
}

func twoDepartmentsApprove(t *testing.T, s *service, id, anas, leas string) {
	t.Helper()
	s.submit(anas, "event", "approve").want(t, http.StatusUnprocessableEntity)                        // the form needs a limit
	s.submit(anas, "event", "approve", "input.limit", "0").want(t, http.StatusUnprocessableEntity)    // of at least 1
	s.submit(anas, "event", "approve", "input.limit", "many").want(t, http.StatusUnprocessableEntity) // a number
	noted := s.submit(anas, "event", "approve", "input.limit", "1000").want(t, http.StatusOK)
	if !strings.Contains(noted.words(), "1 of 2") {
		t.Errorf("the noted page does not say how many answers are missing: %s", noted.words())
	}
	if now := s.read(id); now.State != "pending_approval" {
		t.Fatalf("one department alone led to %s", now.State)
	}
	var last result
	s.api(noOne, http.MethodPost, "/v1/callbacks/"+tokenOf(leas),
		map[string]any{"event": "approve", "input": map[string]any{"limit": 1000}}).want(t, http.StatusOK).into(t, &last)
	if last.Instance.State != "signing" || last.Replayed {
		t.Fatalf("both departments approved: %+v", last)
	}
}

// theSigningServiceAnswers: the address it was given decides once, and answers the same
// for ever after.
func theSigningServiceAnswers(t *testing.T, s *service, id string) {
	t.Helper()
	var order struct {
		Signer, Notify string
		Amount         any
	}
	for _, call := range s.esign.WaitCalls(t, "/envelopes", 2) {
		if call.JSON(t, &order); order.Signer == "acme@example.net" {
			break
		}
	}
	if order.Signer != "acme@example.net" || !strings.HasPrefix(order.Notify, s.base+"/v1/callbacks/") {
		t.Fatalf("the signing service was told %+v", order)
	}
	post := func(body map[string]any) answer {
		return s.api(noOne, http.MethodPost, strings.TrimPrefix(order.Notify, s.base), body)
	}
	post(map[string]any{"event": "approve"}).wantProblem(t, http.StatusForbidden, "event-not-allowed")
	signed := map[string]any{"event": "signed", "documents": map[string]any{"contract": contract("https://esign.example.net/E-1")}}
	var first, second result
	post(signed).want(t, http.StatusOK).into(t, &first)
	again := post(signed).want(t, http.StatusOK)
	again.into(t, &second)
	if first.Replayed || !second.Replayed || again.header.Get("Idempotent-Replayed") != "true" || first.Transition.Seq != second.Transition.Seq {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if first.Transition.Actor.ID != "system:esign" || first.Instance.State != "creating" {
		t.Errorf("the callback was taken as %+v", first)
	}
	post(map[string]any{"event": "declined"}).wantProblem(t, http.StatusConflict, "already-decided")
	if page := s.page(s.base + "/a/" + tokenOf(order.Notify)); page.status != http.StatusNotFound {
		t.Errorf("a callback token has a page: %d", page.status)
	}
}

// A rejection needs a comment, and the applicant reads it.
func TestARejectionNeedsAComment(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *service) {
		id := s.submitted("onboarding", "Carla").ID
		link := s.linkOf(luis, "Approve Carla")
		form := s.submit(link, "event", "reject", "comment", "   ").want(t, http.StatusUnprocessableEntity)
		if !strings.Contains(form.text(), `id="problems"`) || !strings.Contains(form.text(), `href="#comment"`) {
			t.Errorf("the form does not say what is missing: %s", form.words())
		}
		if now := s.read(id); now.State != "pending_approval" {
			t.Fatalf("a refused form led to %s", now.State)
		}
		s.submit(link, "event", "reject", "comment", "No papers were sent.").want(t, http.StatusOK)
		s.waitState(id, "rejected")
		s.settled(id)
		if told := s.mail.MailsTo("carla@example.net"); len(told) != 1 || !strings.Contains(told[0].Text, "No papers were sent.") {
			t.Errorf("the applicant was told %d times", len(told))
		}
		last := s.history(id)[2]
		if last.Actor.ID != luis || last.Assurance != "link" || last.Comment != "No papers were sent." {
			t.Errorf("the history says %+v", last)
		}
	}, setup{})
}

// A deadline that nobody met ends the wait, once, on any number of replicas.
func TestADeadlinePasses(t *testing.T) {
	t.Parallel()
	quick := variant(t, "onboarding.v1.yaml", "onboarding-quick", "{after: P1D, remind: owner}\n      - {after: P2D, escalate: [\"group:managers\"]}\n      - {after: P3D, fire: expire}",
		"{after: PT2S, fire: expire}")
	onEach(t, func(t *testing.T, s *service) {
		id := s.submitted("onboarding-quick", "Dana").ID
		link := s.linkOf(ana, "Approve Dana")
		done := s.waitState(id, "expired")
		if done.Status != "finished" || len(done.Deadlines) != 0 || len(done.Tasks) != 0 {
			t.Errorf("after the deadline: %+v", done)
		}
		if page := s.page(link).want(t, http.StatusOK); !strings.Contains(page.words(), "The time for this decision is over") {
			t.Errorf("the link's page says %s", page.words())
		}
		s.submit(link, "event", "approve").want(t, http.StatusGone)
		s.api(noOne, http.MethodPost, "/v1/callbacks/"+tokenOf(link), map[string]any{"event": "approve"}).wantProblem(t, http.StatusGone, "token-expired")
		rows := s.history(id)
		assertPath(t, rows, "draft", "pending_approval", "expired")
		if last := rows[len(rows)-1]; last.Event != "expire" || last.Actor.ID != "timer" {
			t.Errorf("the history says %+v", last)
		}
	}, setup{definitions: []string{quick}})
}
