package approval

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// byPath answers webhooks by their path, 200 with an id where nothing is said.
type byPath struct {
	mu      sync.Mutex
	answers map[string]testkit.WebhookAnswer
}

func (b *bundle) answer(path string, a testkit.WebhookAnswer) {
	b.paths.mu.Lock()
	defer b.paths.mu.Unlock()
	if b.paths.answers == nil {
		b.paths.answers = map[string]testkit.WebhookAnswer{}
		b.hooks.Answer(func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
			b.paths.mu.Lock()
			a := b.paths.answers[c.Path]
			b.paths.mu.Unlock()
			if a == nil {
				a = testkit.AnswerJSON(http.StatusOK, `{"id":"x1"}`)
			}
			a(w, r, c)
		})
	}
	b.paths.answers[path] = a
}

// called lists the paths that were called, in order.
func (b *bundle) called() []string {
	var all []string
	for _, c := range b.hooks.Calls() {
		all = append(all, c.Path)
	}
	return all
}

// orders starts an order and lets its first effects run.
func (b *bundle) orders() string {
	b.t.Helper()
	rosa := b.as("rosa@example.com")
	id := b.start(rosa, "orders", `{"title":"x"}`).ID
	b.raise(rosa, id, "go")
	b.deliver()
	return id
}

// field report B28, guarantee D3
func TestRetriesOfADeliveryCarryOneIdAndTheSameBytes(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.answer("/note", testkit.AnswerStatus(http.StatusInternalServerError))
		id := b.start(b.as("rosa@example.com"), "notes", `{"title":"Zoë & <b>\n😀"}`).ID
		b.deliver()
		b.answer("/note", testkit.AnswerReset()) // has read the body, and says nothing
		b.pass(2 * time.Minute)
		b.deliver()
		b.answer("/note", testkit.AnswerStatus(http.StatusOK))
		b.pass(2 * time.Minute)
		b.deliver()
		var calls []testkit.WebhookCall
		for _, c := range b.hooks.Calls() {
			if c.Path == "/note" {
				calls = append(calls, c)
			}
		}
		if len(calls) != 3 {
			t.Fatalf("%d attempts arrived, want 3", len(calls))
		}
		for i, c := range calls {
			key := b.effect(id, "note").Key
			if c.Header.Get("webhook-id") != key || c.Header.Get("Idempotency-Key") != key || string(c.Body) != string(calls[0].Body) {
				t.Errorf("attempt %d has id %q and body %s", i+1, c.Header.Get("webhook-id"), c.Body)
			}
			if n := c.Header.Get("Vobo-Attempt"); n != string(rune('1'+i)) {
				t.Errorf("attempt %d says that it is number %q", i+1, n)
			}
		}
		e := b.effect(id, "note")
		if e.Status != fsm.EffectSucceeded || len(e.Attempts) != 3 || e.Attempts[0].Outcome == e.Attempts[2].Outcome {
			t.Errorf("%s after %+v", e.Status, e.Attempts)
		}
		other := b.start(b.as("rosa@example.com"), "notes", `{"title":"Zoë & <b>\n😀"}`).ID
		if b.effect(other, "note").Key == e.Key {
			t.Error("another event has the same id")
		}
	})
}

// field report B30
func TestRetryAfterIsTheLeastThatIsWaited(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.answer("/note", testkit.AnswerRetryAfter(http.StatusServiceUnavailable, 120))
		id := b.start(b.as("rosa@example.com"), "notes", `{"title":"x"}`).ID
		asked := b.now()
		b.deliver()
		e := b.effect(id, "note")
		if e.NextAttemptAt == nil || e.NextAttemptAt.Before(asked.Add(120*time.Second)) {
			t.Fatalf("the next attempt is at %v, asked at %s", e.NextAttemptAt, asked)
		}
		b.pass(100 * time.Second)
		b.deliver()
		if n := len(b.effect(id, "note").Attempts); n != 1 {
			t.Errorf("%d attempts before the time that was asked for", n)
		}
	})
}

// field report B33
func TestADeadEffectFiresOnFailureAndUndoesNewestFirstOneByOne(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.answer("/c", testkit.AnswerStatus(http.StatusUnprocessableEntity))
		b.answer("/b/undo", testkit.AnswerStatus(http.StatusInternalServerError))
		id := b.orders()
		v := b.instance(id)
		if v.State != "failed" || v.Status != fsm.Finished || b.effect(id, "make_c").Status != fsm.EffectDead || b.events(id, "give_up") != 1 {
			t.Fatalf("%s: %v", v.State, b.states(id))
		}
		b.pass(time.Minute)
		b.deliver() // the second and last attempt of undo_b
		if e := b.effect(id, "undo_b"); e.Status != fsm.EffectDead {
			t.Fatalf("undo_b is %s", e.Status)
		}
		want := []string{"/a", "/b", "/c", "/b/undo", "/b/undo"}
		if got := b.called(); !slices.Equal(got, want) {
			t.Fatalf("called %v, want %v: undo_a waits for undo_b", got, want)
		}
		if v := b.instance(id); !v.Attention || !slices.ContainsFunc(v.AttentionReasons, func(a fsm.Attention) bool {
			return a.Reason == "dead-effect" && strings.Contains(a.Detail, "undo_b")
		}) {
			t.Errorf("operators see %+v", v.AttentionReasons)
		}
		b.answer("/b/undo", testkit.AnswerStatus(http.StatusOK))
		if _, err := b.svc.RetryEffect(b.ctx, admin, b.effect(id, "undo_b").ID, "it is back", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.deliver()
		if got := b.called()[5:]; !slices.Equal(got, []string{"/b/undo", "/a/undo"}) {
			t.Errorf("after the retry %v", got)
		}
		_, err := b.svc.RetryEffect(b.ctx, admin, b.effect(id, "undo_b").ID, "again", Idempotency{})
		wantCode(t, "retry of what succeeded", err, fault.Conflict) // field report B29
	})
}

// http-api.md, resolve: what nobody knows is not repeated and not taken as failed.
func TestAnEffectOfUnknownEndWaitsForAPersonWhoFindsOut(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.answer("/c", testkit.AnswerReset())
		id := b.orders()
		b.pass(time.Hour)
		b.deliver()
		e := b.effect(id, "make_c")
		if v := b.instance(id); e.Status != fsm.EffectUnknown || v.State != "third" || !v.Attention || len(b.called()) != 3 {
			t.Fatalf("%s in %s after %v", e.Status, v.State, b.called())
		}
		_, err := b.svc.ResolveEffect(b.ctx, b.as("rosa@example.com"), e.ID, ResolveRequest{Outcome: "succeeded", Reason: "seen"}, Idempotency{})
		wantCode(t, "somebody else resolves", err, fault.Forbidden)
		_, err = b.svc.ResolveEffect(b.ctx, admin, e.ID, ResolveRequest{Outcome: "succeeded"}, Idempotency{})
		wantCode(t, "without a reason", err, fault.InvalidInput)
		_, err = b.svc.ResolveEffect(b.ctx, admin, e.ID, ResolveRequest{Outcome: "succeeded", Reason: "seen in the books", Result: tree(t, `{"id":"c7"}`)}, Idempotency{})
		if err != nil {
			t.Fatal(err)
		}
		v := b.instance(id)
		if v.State != "done" || v.Attention || !strings.Contains(string(v.Data), `"c7"`) {
			t.Errorf("resolved: %s, attention %+v, %s", v.State, v.AttentionReasons, v.Data)
		}
		row := b.history(id)[len(b.history(id))-1]
		if row.Actor.ID != admin.ID || row.Reason != "seen in the books" {
			t.Errorf("the history says %+v, %q", row.Actor, row.Reason)
		}
		_, err = b.svc.ResolveEffect(b.ctx, admin, e.ID, ResolveRequest{Outcome: "failed", Reason: "no"}, Idempotency{})
		wantCode(t, "resolving twice", err, fault.Conflict)
	})
}

func TestGivingAnUnknownEffectUpRaisesItsFailure(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.answer("/c", testkit.AnswerReset())
		id := b.orders()
		e := b.effect(id, "make_c")
		if _, err := b.svc.ResolveEffect(b.ctx, admin, e.ID, ResolveRequest{Outcome: "failed", Reason: "not in the books"}, Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.deliver()
		if v := b.instance(id); v.State != "failed" || !slices.Equal(b.called(), []string{"/a", "/b", "/c", "/b/undo", "/a/undo"}) {
			t.Errorf("%s after %v", v.State, b.called())
		}
	})
}

func TestACancelTellsItsPlanAndUndoesNewestFirst(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.answer("/c", testkit.AnswerStatus(http.StatusServiceUnavailable)) // it waits in third
		id := b.orders()
		res, err := b.svc.Cancel(b.ctx, admin, id, "not needed", Idempotency{})
		if err != nil {
			t.Fatal(err)
		}
		var undo []string
		for _, i := range res.Compensation.Items {
			undo = append(undo, i.Undo)
		}
		if res.Instance.Status != fsm.Cancelled || !slices.Equal(undo[:2], []string{"undo_b", "undo_a"}) || res.Compensation.Done {
			t.Fatalf("the plan: %+v", res)
		}
		again, err := b.svc.Cancel(b.ctx, admin, id, "once more", Idempotency{})
		if err != nil || string(Render(again)) != string(Render(res)) {
			t.Errorf("again: %s, %v, want %s", Render(again), err, Render(res))
		}
		b.pass(10 * time.Minute)
		b.deliver()
		calls := slices.DeleteFunc(b.called(), func(p string) bool { return p == "/c" })
		if !slices.Equal(calls, []string{"/a", "/b", "/b/undo", "/a/undo"}) {
			t.Errorf("called %v", calls)
		}
		if v := b.instance(id); len(v.Deadlines) != 0 || v.FinishedAt == nil {
			t.Errorf("after the cancel: %+v", v)
		}
		_, err = b.svc.Raise(b.ctx, b.as("rosa@example.com"), id, RaiseRequest{Event: "go"})
		wantCode(t, "an event afterwards", err, fault.EventNotAllowedHere)
	})
}

// definition-language.md: a late result keeps its `set`; what it made is undone.
func TestAResultThatComesAfterTheWaitIsUndone(t *testing.T) {
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
		if v := b.instance(id); v.State != "failed" {
			t.Fatalf("after its time: %s", v.State)
		}
		close(release)
		testkit.WaitFor(t, "the late result", func() bool { return b.effect(id, "make_a").Status == fsm.EffectSucceeded })
		b.deliver()
		if got := b.called(); !slices.Equal(got, []string{"/a", "/a/undo"}) || b.events(id, "next") != 0 {
			t.Errorf("called %v, history %v", got, b.states(id))
		}
	})
}

// field report B26, guarantee D4: who lost the lease has nothing more to say.
func TestAResultOfALostLeaseIsDropped(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		release, held := make(chan struct{}), make(chan struct{}, 1)
		b.answer("/a", func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
			if c.Header.Get("Vobo-Attempt") == "1" {
				held <- struct{}{}
				<-release
				testkit.AnswerStatus(http.StatusUnprocessableEntity)(w, r, c)
				return
			}
			testkit.AnswerJSON(http.StatusOK, `{"id":"second"}`)(w, r, c)
		})
		rosa := b.as("rosa@example.com")
		id := b.start(rosa, "orders", `{"title":"x"}`).ID
		b.raise(rosa, id, "go")
		slow, _, stop := b.process(nil, nil)
		if _, err := slow.DispatchOnce(b.ctx); err != nil {
			t.Fatal(err)
		}
		<-held
		b.pass(lease + time.Second)
		b.deliver()
		rows := len(b.history(id))
		if v := b.instance(id); v.State != "done" {
			t.Fatalf("after the second attempt: %s, %v", v.State, b.states(id))
		}
		close(release)
		stop()
		b.unchanged("a late refusal to the first attempt", id, rows)
		if e := b.effect(id, "make_a"); e.Status != fsm.EffectSucceeded || len(e.Attempts) != 2 || b.events(id, "give_up") != 0 {
			t.Errorf("%s after %+v", e.Status, e.Attempts)
		}
	})
}

// Where any attempt got no answer, nobody knows what became of it once the attempts are
// used up, whatever the last one said.
func TestAnEffectWithAnUnansweredAttemptEndsUnknown(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.publish(twoAttempts)
		b.answer("/twice", testkit.AnswerReset())
		res, err := b.svc.Start(b.ctx, b.as("rosa@example.com"), StartRequest{Definition: "twice", Data: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		b.deliver()
		b.answer("/twice", testkit.AnswerStatus(http.StatusServiceUnavailable))
		b.pass(time.Minute)
		b.deliver()
		page, err := b.svc.Effects(b.ctx, admin, store.EffectFilter{Instance: res.View.ID, Kind: kindWebhook}, store.Paging{Limit: 5})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("%+v, %v", page.Items, err)
		}
		e := page.Items[0]
		if e.Status != fsm.EffectUnknown || len(e.Attempts) != 2 || e.Attempts[0].Outcome != store.AttemptUnanswered || e.Attempts[1].Outcome != "retry" {
			t.Errorf("%s", Render(e))
		}
	})
}

const twoAttempts = `name: twice
version: 1
initial: open
data: {type: object, properties: {}}
states:
  open:
    owner: [requester]
    enter: [call]
    deadlines: [{after: P9D, fire: expire}]
    events:
      expire: {to: closed, by: [timer]}
  closed: {final: true}
effects:
  call:
    webhook: {url: "{{ env.CORE_URL }}/twice", body: {a: 1}}
    idempotent: true
    reversible: false
    retry: {attempts: 2, first: PT1S, max: PT1S}
`
