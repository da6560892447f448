package approval

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// The named cases of the source material.

func TestOrchestratorRestart(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("review")
		first, firstStore, stop := b.process(nil, nil)
		res, err := first.Start(b.ctx, b.as("rosa@example.com"), StartRequest{Definition: "review", Data: tree(t, `{"title":"Chairs","amount":100}`)})
		if err != nil {
			t.Fatal(err)
		}
		id := res.View.ID
		link, token := b.link(id, "ana@example.com"), b.callback(id)
		// It takes effects on and goes before it has sent one.
		if taken, err := firstStore.ClaimEffects(b.ctx, 100, lease); err != nil || len(taken) == 0 {
			t.Fatalf("claimed %d effects: %v", len(taken), err)
		}
		stop()

		b.deliver()
		if n := len(b.hooks.Calls()); n != 0 {
			t.Fatalf("%d calls while the lease of the one that went still holds", n)
		}
		b.pass(lease + time.Second)
		b.deliver()
		if n := len(b.hooks.WaitCalls(t, "/envelopes", 1)); n != 1 {
			t.Fatalf("%d calls after the restart, want one", n)
		}
		if again := b.link(id, "ana@example.com"); again != link {
			t.Error("the restarted process signs another link than the one in the inbox")
		}
		if body := string(b.hooks.Calls()[0].Body); !strings.Contains(body, token) {
			t.Errorf("the webhook carries another callback than before the restart: %s", body)
		}
		if res := b.mustDecide(link, RoutePage, RaiseRequest{Event: "reject", Comment: "no"}); res.Instance.State != "rejected" {
			t.Errorf("the old link led to %s", res.Instance.State)
		}
		// What was due while nothing ran, happens once.
		waiting := b.review()
		b.pass(80 * time.Hour)
		again, _ := b.replica(nil)
		for range 3 {
			if _, err := again.SweepOnce(b.ctx, 100, 0); err != nil {
				t.Fatal(err)
			}
		}
		if v := b.instance(waiting); v.State != "expired" || b.events(waiting, "expire") != 1 || len(b.history(waiting)) != 2 {
			t.Errorf("after the down-time: %s, %v", v.State, b.states(waiting))
		}
	})
}

func TestDuplicateCallback(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.review()
		token := b.callback(id)
		input := tree(t, `{"envelope":7,"pages":[1,2]}`)
		first := b.mustDecide(token, RouteCallback, RaiseRequest{Event: "signed", Input: input})
		if first.Replayed || first.Instance.State != "approved" || first.Transition.Actor.ID != "system:esign" {
			t.Fatalf("the first: %+v", first)
		}
		var other atomic.Int64
		together(20, func(int) { // the same content, its members in another order
			res, err := b.decide(token, RouteCallback, RaiseRequest{Event: "signed", Input: map[string]any{"pages": input["pages"], "envelope": input["envelope"]}})
			if err != nil || !res.Replayed || res.Transition.Hash != first.Transition.Hash {
				other.Add(1)
			}
		})
		if n := other.Load(); n > 0 {
			t.Errorf("%d of 20 duplicates got another answer", n)
		}
		b.pass(365 * 24 * time.Hour)
		if res := b.mustDecide(token, RouteCallback, RaiseRequest{Event: "signed", Input: input}); !res.Replayed {
			t.Error("a year later it is no replay")
		}
		_, err := b.decide(token, RouteCallback, RaiseRequest{Event: "signed", Input: tree(t, `{"envelope":8}`)})
		if f := wantCode(t, "another input", err, fault.AlreadyDecided); f.Winner == nil || f.Winner.Event != "signed" {
			t.Errorf("the winner is not named: %+v", f.Winner)
		}
		if n := len(b.history(id)); n != 2 {
			t.Errorf("%d history rows, want 2: %v", n, b.states(id))
		}
	})
}

func TestOutOfOrderEvent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		rosa := b.as("rosa@example.com")
		id := b.start(rosa, "onboarding", eva).ID
		doc := map[string]any{"contract": tree(t, document)}
		early := func(state string) {
			t.Helper()
			before := len(b.history(id))
			_, err := b.svc.Raise(b.ctx, rosa, id, RaiseRequest{Event: "document_received", Documents: doc})
			if f := wantCode(t, "a document in "+state, err, fault.EventNotAllowedHere); !strings.Contains(f.Message, state) {
				t.Errorf("the state is not named: %s", f.Message)
			}
			if v := b.instance(id); v.State != state || len(b.history(id)) != before {
				t.Errorf("it is in %s with %v", v.State, b.states(id))
			}
		}
		early("draft")
		b.raise(rosa, id, "submit")
		early("pending_approval")
		b.mustDecide(b.link(id, "ana@example.com"), RoutePage, RaiseRequest{Event: "approve"})
		done, err := b.svc.Raise(b.ctx, rosa, id, RaiseRequest{Event: "document_received", Documents: doc})
		if err != nil || done.Instance.State != "activated" {
			t.Fatalf("in its turn: %+v, %v", done, err)
		}
		// A late result of an attempt that is not the current one any more changes nothing.
		b.deliver()
		seq := len(b.history(id))
		e := b.effect(id, "welcome")
		_, at, err := ParseID(e.ID)
		if err != nil {
			t.Fatal(err)
		}
		n, err := b.store.FinishAttempts(b.ctx, []store.Finish{{Instance: id, ResultEvent: fsm.ResultEvent{Effect: at, Fence: 99, Attempt: 9, Status: fsm.EffectDead}}})
		if err != nil || n != 0 || b.effect(id, "welcome").Status != fsm.EffectSucceeded || len(b.history(id)) != seq {
			t.Errorf("a late result: %d written, %v, effect %s", n, err, b.effect(id, "welcome").Status)
		}
	})
}

const document = `{"name":"c.pdf","media_type":"application/pdf","size":10,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","uri":"mem://1"}`

func TestSimultaneousExpiry(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		// Two deciders and three sweepers meet at one instant, at which the wait is over.
		for range 20 {
			id := b.start(b.as("rosa@example.com"), "duel", `{"title":"x"}`).ID
			ana, bea := b.link(id, "ana@example.com"), b.link(id, "bea@example.com")
			b.pass(time.Hour)
			errs := make([]error, 5)
			together(5, func(i int) {
				switch i {
				case 0:
					_, errs[i] = b.decide(ana, RoutePage, RaiseRequest{Event: "approve"})
				case 1:
					_, errs[i] = b.decide(bea, RouteCallback, RaiseRequest{Event: "reject"})
				default:
					_, errs[i] = b.svc.SweepOnce(b.ctx, 100, 0)
				}
			})
			wantCode(t, "Ana", errs[0], fault.TokenExpired)
			wantCode(t, "Bea", errs[1], fault.TokenExpired)
			for _, err := range errs[2:] {
				if err != nil {
					t.Fatal(err)
				}
			}
			if v := b.instance(id); v.State != "expired" || b.events(id, "expire") != 1 || len(b.history(id)) != 2 ||
				b.named(id, "tell_expired") != 1 || b.named(id, "tell_approved")+b.named(id, "tell_rejected") != 0 {
				t.Fatalf("%s: %v", v.State, b.states(id))
			}
		}
	})
}

func TestNewVersionDeployed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) { // field report B40
		rosa := b.as("rosa@example.com")
		one, two := b.review(), b.review()
		link := b.link(one, "ana@example.com")
		second := strings.NewReplacer("version: 1", "version: 2", "title: \"Review", "title: \"Audit", "  open:\n", "  audit:\n",
			"initial: open", "initial: audit", "approve:", "accept:", "P3D, fire", "PT2H, fire", "P1D, remind", "PT1H, remind").Replace(samples["review"])
		b.publish(second)

		view, err := b.svc.ViewToken(b.ctx, link, "en")
		if err != nil || view.Closed != nil || view.Task.Title != "Review Chairs" {
			t.Fatalf("the page of a link of version 1 shows %q, closed %v, %v", view.Task.Title, view.Closed, err)
		}
		three := b.start(rosa, "review", `{"title":"Tables","amount":10}`)
		if three.Version != 2 || three.State != "audit" {
			t.Fatalf("a new one starts as version %d in %s", three.Version, three.State)
		}
		b.pass(3 * time.Hour)
		b.sweep()
		if v := b.instance(one); v.Version != 1 || v.State != "open" || len(v.Deadlines) != 2 {
			t.Errorf("version 1 is in %s as version %d with %d deadlines", v.State, v.Version, len(v.Deadlines))
		}
		if v := b.instance(three.ID); v.State != "expired" {
			t.Errorf("version 2 is in %s after its own time", v.State)
		}
		res := b.mustDecide(link, RoutePage, RaiseRequest{Event: "approve", Input: tree(t, `{"limit":5}`), Digest: view.Task.Digest})
		if res.Instance.State != "approved" || res.Transition.DefinitionVersion != 1 {
			t.Errorf("the link of version 1 led to %s by version %d", res.Instance.State, res.Transition.DefinitionVersion)
		}
		wantCode(t, "deleting a version in use", b.svc.DeleteDefinition(b.ctx, admin, "review", 1), fault.Conflict)
		b.pass(72 * time.Hour)
		b.sweep()
		if v := b.instance(two); v.State != "expired" || v.Version != 1 {
			t.Errorf("the other of version 1 is in %s", v.State)
		}
	})
}

func TestDependencyDown(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.hooks.Answer(testkit.AnswerStatus(http.StatusServiceUnavailable))
		id := b.review()
		b.deliver()
		e := b.effect(id, "ask_system")
		if e.Status != fsm.EffectRetrying || len(e.Attempts) != 1 || e.NextAttemptAt == nil {
			t.Fatalf("while the receiver is down: %s, %+v", e.Status, e.Attempts)
		}
		// People decide all the same, and what is not sent is sent once it is back.
		b.mustDecide(b.link(id, "bea@example.com"), RoutePage, RaiseRequest{Event: "ask", Comment: "which?"})
		b.hooks.Answer(testkit.AnswerStatus(http.StatusOK))
		b.pass(time.Minute)
		b.deliver()
		if e := b.effect(id, "ask_system"); e.Status != fsm.EffectSucceeded || len(e.Attempts) != 2 || len(b.hooks.Calls()) != 2 {
			t.Fatalf("after it is back: %s, %d attempts, %d calls", e.Status, len(e.Attempts), len(b.hooks.Calls()))
		}
		// A database that does not take a change gives 503 and changes nothing.
		var down atomic.Bool
		svc, _, stop := b.process(nil, func(point string) error {
			if down.Load() && point == store.PointBegin {
				return fault.New(fault.Unavailable, "down")
			}
			return nil
		})
		defer stop()
		down.Store(true)
		seq := len(b.history(id))
		ana := b.link(id, "ana@example.com")
		_, err := svc.DecideByToken(b.ctx, ana, RoutePage, RaiseRequest{Event: "reject", Comment: "no"}, Caller{})
		if f := wantCode(t, "with the database down", err, fault.Unavailable); !f.Retryable() || len(b.history(id)) != seq {
			t.Fatalf("with the database down: %v, %d rows", f, len(b.history(id))-seq)
		}
		down.Store(false)
		if res, err := svc.DecideByToken(b.ctx, ana, RoutePage, RaiseRequest{Event: "reject", Comment: "no"}, Caller{}); err != nil || res.Replayed || res.Instance.State != "rejected" {
			t.Fatalf("with the database back: %+v, %v", res, err)
		}
	})
}
