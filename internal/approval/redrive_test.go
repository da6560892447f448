package approval

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// deadNote starts notes whose webhook note is refused for good and once is delivered.
func (b *bundle) deadNote(answer string) string {
	b.t.Helper()
	b.answer("/note", testkit.AnswerText(http.StatusUnprocessableEntity, answer))
	id := b.start(b.as("rosa@example.com"), "notes", `{"title":"x"}`).ID
	b.deliver()
	if e := b.effect(id, "note"); e.Status != fsm.EffectDead {
		b.t.Fatalf("note is %s", e.Status)
	}
	return id
}

// redrive tries again what fits.
func (b *bundle) redrive(r RedriveRequest) *RedriveResult {
	b.t.Helper()
	if r.Reason == "" {
		r.Reason = "the core is back"
	}
	res, err := b.svc.Redrive(b.ctx, admin, r, Idempotency{})
	if err != nil {
		b.t.Fatalf("redrive: %v", err)
	}
	return res
}

// count counts the calls at a path.
func (b *bundle) count(path string) int {
	n := 0
	for _, p := range b.called() {
		if p == path {
			n++
		}
	}
	return n
}

// field report B29
func TestAManualRetryIsOneAttemptAndNeverOfWhatWasDelivered(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.deadNote("no such ledger")
		dead, delivered := b.effect(id, "note"), b.effect(id, "once")
		services := b.services(2)
		retried := make([]int, 12)
		together(len(retried), func(i int) { // a double click, and the API beside it
			svc := services[i%len(services)]
			if i%3 == 0 {
				_, err := svc.RetryEffect(b.ctx, admin, dead.ID, "again", Idempotency{})
				if err == nil {
					retried[i] = 1
				} else if fault.CodeOf(err) != fault.Conflict {
					t.Errorf("retry: %v", err)
				}
				return
			}
			res, err := svc.Redrive(b.ctx, admin, RedriveRequest{Instance: id, Reason: "again"}, Idempotency{})
			if err != nil {
				t.Errorf("redrive: %v", err)
				return
			}
			retried[i] = res.Retried
		})
		total := 0
		for _, n := range retried {
			total += n
		}
		if total != 1 {
			t.Fatalf("retried %d times: %v", total, retried)
		}
		b.answer("/note", testkit.AnswerText(http.StatusBadRequest, "the ledger is closed"))
		b.deliver()
		e := b.effect(id, "note")
		if n := b.count("/note"); n != 2 || e.Status != fsm.EffectDead || len(e.Attempts) != 2 {
			t.Fatalf("%d calls, %s after %+v", n, e.Status, e.Attempts)
		}
		if e.ID != dead.ID || e.Key != dead.Key || e.Reason == dead.Reason || !strings.Contains(e.Reason, "400") {
			t.Errorf("back as %s (%s) because %q", e.ID, e.Key, e.Reason)
		}
		for _, c := range b.hooks.Calls() {
			if c.Path == "/note" && c.Header.Get("webhook-id") != dead.Key {
				t.Errorf("an attempt has the id %s, want %s", c.Header.Get("webhook-id"), dead.Key)
			}
		}
		_, err := b.svc.RetryEffect(b.ctx, admin, delivered.ID, "again", Idempotency{})
		wantCode(t, "retry of what was delivered", err, fault.Conflict)
		if res := b.redrive(RedriveRequest{Instance: id, Name: "once"}); res.Matched != 0 {
			t.Errorf("a redrive of what was delivered: %+v", res)
		}
		if n := b.count("/once"); n != 1 {
			t.Errorf("/once was called %d times", n)
		}
	})
}

// field report B29: who saw it dead before it failed again retries nothing.
func TestARetryOfAnEffectThatHasFailedAgainSinceIsSkipped(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.deadNote("no")
		seen, _, err := b.svc.redrivable(b.ctx, &RedriveRequest{Instance: id, Status: []fsm.EffectStatus{fsm.EffectDead}, Limit: 1})
		if err != nil || len(seen) != 1 {
			t.Fatalf("found %+v, %v", seen, err)
		}
		b.redrive(RedriveRequest{Instance: id})
		b.deliver()
		if e := b.effect(id, "note"); e.Status != fsm.EffectDead || len(e.Attempts) != 2 {
			t.Fatalf("%s after %d attempts", e.Status, len(e.Attempts))
		}
		item, _, err := b.svc.redriveOne(b.ctx, admin, &RedriveRequest{Reason: "late"}, &seen[0], Idempotency{})
		if err != nil || item.Outcome != outcomeSkipped || item.Detail == "" {
			t.Errorf("the late one: %+v, %v", item, err)
		}
		if e := b.effect(id, "note"); e.Status != fsm.EffectDead {
			t.Errorf("it is %s", e.Status)
		}
		if res := b.redrive(RedriveRequest{Instance: id}); res.Retried != 1 {
			t.Errorf("who reads it anew: %+v", res)
		}
	})
}

func TestARedriveTriesWhatFitsItsFilterAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		var ids []string
		for range 3 {
			ids = append(ids, b.deadNote("no"))
		}
		before := b.now()
		b.pass(time.Hour)
		late := b.deadNote("no")
		b.answer("/c", testkit.AnswerReset())
		unknown := b.orders()
		host := strings.TrimPrefix(b.hooks.URL, "http://")
		for what, c := range map[string]struct {
			filter RedriveRequest
			want   int
		}{
			"nothing said":         {RedriveRequest{}, 4},
			"definition":           {RedriveRequest{Definition: "orders"}, 0},
			"definition, unknown":  {RedriveRequest{Definition: "orders", Status: []fsm.EffectStatus{fsm.EffectUnknown}}, 1},
			"both statuses":        {RedriveRequest{Status: []fsm.EffectStatus{fsm.EffectDead, fsm.EffectUnknown}}, 5},
			"name":                 {RedriveRequest{Name: "note"}, 4},
			"another name":         {RedriveRequest{Name: "once"}, 0},
			"kind":                 {RedriveRequest{Kind: "email"}, 0},
			"host":                 {RedriveRequest{Host: host}, 4},
			"another host":         {RedriveRequest{Host: "example.com"}, 0},
			"instance":             {RedriveRequest{Instance: ids[1]}, 1},
			"queued before":        {RedriveRequest{Before: &before}, 3},
			"no more than a limit": {RedriveRequest{Limit: 2}, 2},
		} {
			c.filter.DryRun = true
			res := b.redrive(c.filter)
			if res.Matched != c.want || res.Retried != 0 || !res.DryRun || res.More != (c.filter.Limit == 2) {
				t.Errorf("%s: %+v, want %d", what, res, c.want)
			}
			for _, item := range res.Items {
				if item.Outcome != outcomeWouldRetry {
					t.Errorf("%s: %+v", what, item)
				}
			}
		}
		if n := b.count("/note"); n != 4 {
			t.Errorf("dry runs called /note: %d", n)
		}
		b.answer("/note", testkit.AnswerStatus(http.StatusOK))
		res := b.redrive(RedriveRequest{Before: &before, Reason: "the ledger is open again"})
		b.deliver()
		for _, id := range ids {
			last := b.history(id)[len(b.history(id))-1]
			if e := b.effect(id, "note"); e.Status != fsm.EffectSucceeded {
				t.Errorf("redriven: %s, %+v", e.Status, last)
			}
			if !slices.ContainsFunc(b.history(id), func(h TransitionView) bool {
				return h.Kind == fsm.TOperator && h.Actor.ID == admin.ID && h.Reason == "the ledger is open again"
			}) {
				t.Errorf("the history of %s does not say why", id)
			}
		}
		if b.effect(late, "note").Status != fsm.EffectDead || b.effect(unknown, "make_c").Status != fsm.EffectUnknown || res.Retried != 3 {
			t.Errorf("%+v touched what does not fit", res)
		}
		for name, want := range map[string]float64{"vobo_effects_stuck": 2, "vobo_effects_redriven_total": 3, "vobo_calls_waiting": 0} {
			if n := metric(t, b.svc, name); n != want {
				t.Errorf("%s is %v, want %v", name, n, want)
			}
		}
		audit := b.query(b.raw(), "SELECT detail FROM audit WHERE action = 'effects-redriven'")
		if len(audit) != 1 || !strings.Contains(audit[0], "the ledger is open again") {
			t.Errorf("the audit says %v", audit)
		}
	})
}

func TestARedriveIsForOperatorsWithAReason(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		for what, c := range map[string]struct {
			who  Caller
			r    RedriveRequest
			code fault.Code
		}{
			"somebody":       {b.as("rosa@example.com"), RedriveRequest{Reason: "x"}, fault.Forbidden},
			"no reason":      {admin, RedriveRequest{}, fault.InvalidInput},
			"another status": {admin, RedriveRequest{Reason: "x", Status: []fsm.EffectStatus{fsm.EffectSucceeded}}, fault.InvalidInput},
			"limit":          {admin, RedriveRequest{Reason: "x", Limit: redriveMost + 1}, fault.InvalidInput},
		} {
			_, err := b.svc.Redrive(b.ctx, c.who, c.r, Idempotency{})
			wantCode(t, what, err, c.code)
		}
	})
}

// The same Idempotency-Key never tries an effect again twice, also where it failed again.
func TestARedriveUnderOneKeyTriesEachEffectOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.deadNote("no")
		idem := Idempotency{Key: "k1", Route: "POST /v1/effects/redrive", BodyHash: []byte{1}}
		r := RedriveRequest{Reason: "again", Instance: id}
		if res, err := b.svc.Redrive(b.ctx, admin, r, idem); err != nil || res.Retried != 1 || res.Replayed {
			t.Fatalf("first: %+v, %v", res, err)
		}
		b.deliver()
		res, err := b.svc.Redrive(b.ctx, admin, r, idem)
		if err != nil || !res.Replayed || res.Retried != 1 || res.Items[0].Detail == "" {
			t.Errorf("again: %+v, %v", res, err)
		}
		b.deliver()
		if n := b.count("/note"); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		other := idem
		other.BodyHash = []byte{2}
		_, err = b.svc.Redrive(b.ctx, admin, r, other)
		wantCode(t, "the key with another body", err, fault.IdempotencyMismatch)
	})
}

func TestWhatIsDoneByHandIsResolvedNotTriedAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.known.Store("orders", true)
		b.publish(replaced(samples["orders"], "compensate: undo_b", "compensate: manual"))
		b.answer("/c", testkit.AnswerStatus(http.StatusServiceUnavailable))
		id := b.orders()
		if _, err := b.svc.Cancel(b.ctx, admin, id, "not needed", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Hour)
		b.deliver()
		byHand := func() EffectView {
			for _, e := range b.effects(id) {
				if e.Kind == kindManual {
					return e
				}
			}
			t.Fatalf("nothing is to be done by hand: %+v", b.instance(id).Compensation)
			return EffectView{}
		}
		e := byHand()
		c := b.instance(id).Compensation
		if e.Status != fsm.EffectUnknown || e.Reason == "" || c == nil || c.Done || b.count("/a/undo") != 0 {
			t.Fatalf("%s (%s), %+v", e.Status, e.Reason, c)
		}
		_, err := b.svc.RetryEffect(b.ctx, admin, e.ID, "again", Idempotency{})
		if refused := wantCode(t, "try again", err, fault.Conflict); !strings.Contains(refused.Message, "by hand") {
			t.Errorf("refused with %q", refused.Message)
		}
		if res := b.redrive(RedriveRequest{Status: []fsm.EffectStatus{fsm.EffectUnknown}}); res.Retried != 0 || res.Skipped != 1 {
			t.Errorf("a redrive: %+v", res)
		}
		if _, err := b.svc.ResolveEffect(b.ctx, admin, e.ID, ResolveRequest{Outcome: "succeeded", Reason: "undone in the books"}, Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.deliver()
		if c := b.instance(id).Compensation; !c.Done || b.count("/a/undo") != 1 || byHand().Status != fsm.EffectSucceeded {
			t.Errorf("after it was done by hand: %+v", c)
		}
	})
}

// Who oversees sees the request as it is sent and what was answered; nobody sees a secret.
func TestAnEffectIsShownWithItsRequestToThoseWhoOversee(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.deadNote("no such ledger")
		e := b.effect(id, "note")
		full, err := b.svc.Effect(b.ctx, admin, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r := full.Request; r == nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL, "/note") || string(r.Body) != `{"title":"x"}` {
			t.Errorf("the request is %s", Render(r))
		}
		if a := full.Attempts[0]; !strings.Contains(a.Answer, "no such ledger") || a.Status != http.StatusUnprocessableEntity || a.FinishedAt == nil {
			t.Errorf("the attempt is %+v", a)
		}
		if full.FinishedAt == nil || full.Reason == "" || full.Definition != "notes" || full.Requester != "Rosa" {
			t.Errorf("shown: %+v", full)
		}
		mine, err := b.svc.Effect(b.ctx, b.as("rosa@example.com"), e.ID)
		if err != nil || mine.Request != nil || mine.Attempts[0].Answer != "" || mine.Result != nil || mine.Reason == "" {
			t.Errorf("the requester sees %s, %v", Render(mine), err)
		}
		_, err = b.svc.Effect(b.ctx, b.as("luis@example.com"), e.ID)
		wantCode(t, "somebody else", err, fault.NotFound)
		_, err = b.svc.Effect(b.ctx, admin, id+"-9-9")
		wantCode(t, "no such effect", err, fault.NotFound)

		review := b.review()
		asked, err := b.svc.Effect(b.ctx, admin, b.effect(review, "ask_system").ID)
		if err != nil || string(asked.Request.Body) != `{"notify":"`+maskedLink+`"}` {
			t.Errorf("the link is shown: %s, %v", Render(asked), err)
		}
		b.deliver()
		token := b.link(review, "ana@example.com")
		for _, v := range b.effects(review) {
			shown, err := b.svc.Effect(b.ctx, admin, v.ID)
			if err != nil || strings.Contains(string(Render(shown)), token) || strings.Contains(string(Render(shown)), "eyJ") {
				t.Errorf("%s shows a token: %s, %v", v.Name, Render(shown), err)
			}
			if v.Kind == "task-mail" && (len(shown.Request.To) != 1 || shown.Request.Subject == "" || !strings.Contains(shown.Request.Text, "Chairs")) {
				t.Errorf("the mail is shown as %s", Render(shown.Request))
			}
		}
	})
}

func TestSecretsOfARequestAreMasked(t *testing.T) {
	t.Parallel()
	v := webhookView(&fsm.FrozenWebhook{
		Method: "POST", URL: "https://user:pass@core.example.com/a?b=1&api_key=XYZZY&key=XYZZY&sig=XYZZY", Credentials: "core",
		Headers: [][2]string{
			{"Authorization", "Bearer XYZZY-12345678"},
			{"Cookie", "XYZZY"},
			{"X-Api-Key", "XYZZY"},
			{"X-Auth-Token", "XYZZY"},
			{"X-Trace", "t1"},
		},
		HasBody: true,
		Body: map[string]any{
			"password": "XYZZY", "nested": []any{map[string]any{"client_secret": "XYZZY", "amount": "5"}},
			"note": "use Bearer XYZZYXYZZY", "jwt": "eyJhbGciOiJIUzI1NiJ9.XYZZY.XYZZY", "callback": fsm.MarkerCallbackURL, "token_count": nil,
		},
	})
	text := string(Render(v))
	if strings.Contains(text, "XYZZY") || strings.Contains(text, "pass@") {
		t.Errorf("a secret is shown: %s", text)
	}
	for _, kept := range []string{`"t1"`, "b=1", `"amount":"5"`, maskedLink, `"credentials":"core"`, "core.example.com/a"} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s is not shown: %s", kept, text)
		}
	}
}

// http-api.md, explain: what came too late for its wait is named.
func TestExplainNamesAResultThatCameAfterItsWait(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		release := make(chan struct{})
		b.answer("/a", func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
			<-release
			testkit.AnswerJSON(http.StatusOK, `{"id":"late"}`)(w, r, c)
		})
		rosa := b.as("rosa@example.com")
		id := b.start(rosa, "orders", `{"title":"x"}`).ID
		b.raise(rosa, id, "go")
		if _, err := b.svc.DispatchOnce(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.hooks.WaitCalls(t, "/a", 1)
		b.pass(10 * 24 * time.Hour)
		b.sweep()
		close(release)
		testkit.WaitFor(t, "the late result", func() bool { return b.effect(id, "make_a").Status == fsm.EffectSucceeded })
		x, err := b.svc.Explain(b.ctx, admin, id)
		if err != nil || len(x.LateResults) != 1 || x.LateResults[0].Name != "make_a" {
			t.Errorf("late: %+v, %v", x.LateResults, err)
		}
		e, err := b.svc.Effect(b.ctx, admin, b.effect(id, "make_a").ID)
		if err != nil || !e.Late || string(e.Result) != `{"id":"late"}` {
			t.Errorf("the effect: %+v, %v", e, err)
		}
		var page store.Page[EffectView]
		if page, err = b.svc.Effects(b.ctx, admin, store.EffectFilter{Instance: id}, store.Paging{}); err != nil || len(page.Items) == 0 || page.Items[0].Result != nil {
			t.Errorf("a list shows results: %v", err)
		}
	})
}

// http-api.md, DELETE: the plan, and the instance shows how far it is.
func TestAnInstanceShowsHowFarItsUndoingIs(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.answer("/c", testkit.AnswerStatus(http.StatusServiceUnavailable))
		b.answer("/b/undo", testkit.AnswerStatus(http.StatusUnprocessableEntity))
		id := b.orders()
		if v := b.instance(id); v.Compensation != nil {
			t.Errorf("before the cancel: %+v", v.Compensation)
		}
		plan, err := b.svc.Cancel(b.ctx, admin, id, "not needed", Idempotency{})
		if err != nil || len(plan.Compensation.Items) < 2 {
			t.Fatalf("the plan: %+v, %v", plan, err)
		}
		b.pass(time.Hour)
		b.deliver()
		status := func(undo string) string {
			for _, item := range b.instance(id).Compensation.Items {
				if item.Undo == undo {
					return item.Status
				}
			}
			return ""
		}
		if status("undo_b") != "failed" || status("undo_a") == "succeeded" || b.instance(id).Compensation.Done {
			t.Errorf("while undo_b is dead: %+v", b.instance(id).Compensation)
		}
		again, err := b.svc.Cancel(b.ctx, admin, id, "once more", Idempotency{})
		if err != nil || string(Render(again.Compensation)) != string(Render(b.instance(id).Compensation)) {
			t.Errorf("a second cancel: %s, %v", Render(again), err)
		}
		_, err = b.svc.ResolveEffect(b.ctx, admin, b.effect(id, "undo_b").ID, ResolveRequest{Outcome: "failed", Reason: "b stays"}, Idempotency{})
		if err != nil {
			t.Fatal(err)
		}
		b.deliver()
		c := b.instance(id).Compensation
		if status("undo_a") != "succeeded" || !c.Done || !slices.Contains(c.NotUndone, "make_b") {
			t.Errorf("after b was given up: %+v", c)
		}
	})
}
