package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// join lets one service join with a small limit until nothing changes.
func (b *bundle) join(limit int) {
	b.t.Helper()
	for range 8 {
		if _, err := b.svc.JoinOnce(b.ctx, limit); err != nil {
			b.t.Fatalf("join: %v", err)
		}
	}
}

func TestAStartEffectThatCannotBeJoinedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		bad, good := b.family("family", 1, 2, 3), b.family("family", 4)
		b.rest()
		kids := b.children(bad)
		for _, k := range slices.Concat(kids, b.children(good)) {
			b.raise(admin, k.ID, "well")
		}
		b.write(fmt.Sprintf("UPDATE instance_data SET data = '{' WHERE instance_id = '%s'", kids[1].ID))
		b.join(1)
		if v := b.instance(good); v.State != "done" {
			t.Errorf("behind one that fails it is in %s", v.State)
		}
		if v := b.instance(bad); v.State != "waiting" {
			t.Errorf("the one that fails is in %s", v.State)
		}
		b.write(fmt.Sprintf(`UPDATE instance_data SET data = '{"n":2}' WHERE instance_id = '%s'`, kids[1].ID))
		b.join(1)
		if v := b.instance(bad); v.State != "waiting" {
			t.Errorf("it is looked at again without a pause: %s", v.State)
		}
		b.pass(joinAgainMost)
		b.join(1)
		if v := b.instance(bad); v.State != "done" {
			t.Errorf("after it works again it is in %s", v.State)
		}
	})
}

func TestChildrenWhoseDataIsTooLargeEndTheirStartWithWords(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		waits, loose := b.family("family", 1), b.family("family-any", 1, 2)
		b.rest()
		for _, k := range slices.Concat(b.children(waits), b.children(loose)[1:]) {
			b.raise(admin, k.ID, "well")
		}
		for _, k := range []ChildView{b.children(waits)[0], b.children(loose)[0]} {
			b.write(fmt.Sprintf(`UPDATE instance_data SET data = '{"n":1,"x":"%s"}' WHERE instance_id = '%s'`, strings.Repeat("x", 5<<20), k.ID))
		}
		b.rest()
		e := b.spread(waits)
		if e.Status != fsm.EffectDead || !strings.Contains(e.Reason, "The children's data is larger than 4 MiB: ") || b.instance(waits).State != "failed" {
			t.Errorf("%s in %s, %q", e.Status, b.instance(waits).State, e.Reason)
		}
		if v := b.instance(loose); v.State != "done" { // the large one is not of its result
			t.Errorf("any: %s, %q", v.State, b.spread(loose).Reason)
		}
	})
}

func TestAStarterThatParksAfterItsParentLeftIsCancelledWithoutAnEvent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 1)
		var left sync.Once
		faulty, _, stop := b.process(nil, func(point string) error {
			if point == store.PointCommitted { // the only child is there; its starter has not been told
				left.Do(func() { b.raise(admin, id, "give_up") })
			}
			return nil
		})
		if _, err := faulty.DispatchOnce(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.rest(faulty, b.svc)
		stop()
		b.forgotten(id, "failed")
	})
}

// The starter has looked before its parent went on, and parks after: the join looks again.
func TestAParkedStartWhoseParentWentOnIsCancelledWithoutAnEvent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 1)
		b.rest()
		b.write(fmt.Sprintf("UPDATE effects SET wait = wait - 1 WHERE instance_id = '%s' AND kind = 'start'", id))
		if _, err := b.svc.Cancel(b.ctx, admin, b.children(id)[0].ID, "its parent has gone on", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.rest()
		b.forgotten(id, "waiting")
	})
}

// forgotten checks that a start effect was cancelled with its child, and that its parent
// in that state heard nothing of it.
func (b *bundle) forgotten(id, state string) {
	b.t.Helper()
	e, v := b.spread(id), b.instance(id)
	if e.Status != fsm.EffectCancelled || v.State != state || aboutEffects(v.AttentionReasons) || b.childStatuses(id) != store.ChildCancelled {
		b.t.Errorf("the effect is %s, the parent in %s, attention %+v, the child is %s", e.Status, v.State, v.AttentionReasons, b.childStatuses(id))
	}
	if n := b.events(id, "spread"); n != 0 {
		b.t.Errorf("%d events of the effect", n)
	}
}

func aboutEffects(all []fsm.Attention) bool {
	return slices.ContainsFunc(all, func(a fsm.Attention) bool { return a.Reason == "dead-effect" })
}

// started leases the start effect of an instance, as a dispatch does.
func (b *bundle) started(svc *Service, id string) *flight {
	b.t.Helper()
	claimed, err := svc.store.ClaimEffects(b.ctx, 100, lease)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range claimed {
		if e.Instance == id && e.Kind == kindStart {
			return newFlight(e, svc.mono())
		}
	}
	b.t.Fatalf("%s has no start effect that is due", id)
	return nil
}

func TestAnAttemptDoesNotEndWhileAChildOfItIsBeingCommitted(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 1)
		begun, gate := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var released atomic.Bool
		faulty, _, stop := b.process(nil, func(point string) error {
			if point == store.PointBegin {
				once.Do(func() { close(begun); <-gate })
			}
			return nil
		})
		defer stop()
		f := b.started(faulty, id)
		ctx, cancel := context.WithCancel(b.ctx)
		done := make(chan *report)
		go func() { done <- faulty.startChunk(ctx, f, []int{0}) }()
		<-begun
		cancel()
		time.AfterFunc(300*time.Millisecond, func() { released.Store(true); close(gate) })
		rep := <-done
		if !released.Load() || rep != nil {
			t.Errorf("the attempt ended before the commit: %v, %+v", !released.Load(), rep)
		}
		if s := b.childStatuses(id); s != store.ChildRunning {
			t.Errorf("the child is %q", s)
		}
	})
}

func TestWhoWaitsForAPlaceToStartOrStopChildrenGivesUpWithItsAttempt(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 1)
		f := b.started(b.svc, id)
		for range childrenAtOnce {
			b.svc.outbox.starting <- struct{}{}
		}
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		if rep := b.svc.startChunk(ctx, f, []int{0}); rep == nil || !rep.goesOn {
			t.Errorf("a chunk without a place ends as %+v", rep)
		}
		refused := map[string]string{}
		if over := b.svc.cancelAll(ctx, f, []string{id}, refused); over != 0 || len(refused) != 0 {
			t.Errorf("a stop without a place: %d over, refused %v", over, refused)
		}
		for range childrenAtOnce {
			<-b.svc.outbox.starting
		}
	})
}

func TestTheListOfAStartEffectIsReadOnceHoweverManyCompletionsCome(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 1, 2)
		b.rest()
		kids := b.children(id)
		b.raise(admin, kids[0].ID, "well")
		b.rest()
		b.write(fmt.Sprintf("UPDATE effects SET request = '{}' WHERE instance_id = '%s' AND kind = 'start'", id))
		b.raise(admin, kids[1].ID, "well")
		b.rest()
		if v := b.instance(id); v.State != "done" {
			t.Errorf("it is in %s, %q", v.State, b.spread(id).Reason)
		}
	})
}

// Children whose cancel is refused hide no other, and in the end a person hears of them.
func TestChildrenThatCannotBeCancelledAreLeftToAPerson(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", make([]int, childrenAtOnce+2)...)
		b.rest()
		kids := b.children(id)
		last := kids[len(kids)-1].ID
		for _, k := range kids[:len(kids)-1] {
			b.write(fmt.Sprintf("UPDATE instance_data SET data = '{' WHERE instance_id = '%s'", k.ID))
		}
		b.raise(admin, id, "give_up")
		b.rest()
		if v := b.instance(last); v.Status != fsm.Cancelled {
			t.Errorf("the last child is %s", v.Status)
		}
		if e := b.effect(id, "stop children"); e.Status != fsm.EffectRetrying {
			t.Errorf("after the first attempt it is %s: %+v", e.Status, e.Attempts)
		}
		b.write(fmt.Sprintf("UPDATE effects SET allowed = 3 WHERE instance_id = '%s' AND kind = 'stop'", id))
		for range 2 {
			b.pass(24 * time.Hour)
			b.rest()
		}
		e, v := b.effect(id, "stop children"), b.instance(id)
		if e.Status != fsm.EffectDead || !strings.Contains(e.Reason, fmt.Sprintf("%d children could not be cancelled", len(kids)-1)) {
			t.Errorf("in the end it is %s: %q", e.Status, e.Reason)
		}
		if !aboutEffects(v.AttentionReasons) {
			t.Errorf("attention %+v", v.AttentionReasons)
		}
	})
}

func TestABadRowAmongTheEndsOfAttemptsFailsAlone(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		bad := 2 // all together, and the first alone
		faulty, _, stop := b.process(nil, func(point string) error {
			if point != store.PointFinish || bad == 0 {
				return nil
			}
			bad--
			return fault.New(fault.Internal, "A value of the row cannot be written.")
		})
		defer stop()
		var all []ended
		for range 2 {
			id := b.family("family", 1)
			f := b.started(b.svc, id)
			r := fsm.ResultEvent{Effect: f.EffectID, Fence: f.Fence, Attempt: f.Attempt, Status: fsm.EffectCancelled, Outcome: "permanent"}
			all = append(all, ended{store.Finish{Instance: id, ResultEvent: r}, make(chan error, 1)})
		}
		faulty.outbox.writeTogether(all)
		if err := <-all[0].done; err == nil {
			t.Error("a bad row is written")
		}
		if err := <-all[1].done; err != nil || b.spread(all[1].finish.Instance).Status != fsm.EffectCancelled {
			t.Errorf("its neighbour: %v, %s", err, b.spread(all[1].finish.Instance).Status)
		}
	})
}

func TestALookoutForgetsNoHashOfAnInstanceThatWaitsAgain(t *testing.T) {
	t.Parallel()
	l := newLookout(nil)
	l.add("one", [][]byte{{1}, {2}})
	l.add("one", [][]byte{{2}, {3}})
	if got := l.take()["one"]; len(got) != 3 {
		t.Errorf("looked for under %v", got)
	}
}

// A list with a request that is too long for it still says what it is about.
func TestAStartOfManyChildrenIsListedWithoutItsRequest(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		list := make([]int, 6_000)
		for i := range list {
			list[i] = 1_000_000_000 + i
		}
		id := b.family("family", list...)
		if v := b.instance(id); len(v.Children) != 1 || v.Children[0].Total != len(list) {
			t.Errorf("children %+v of effects %+v", v.Children, v.Effects)
		}
		if e := b.spread(id); e.To == "" {
			t.Error("it says nothing of where it goes")
		}
	})
}
