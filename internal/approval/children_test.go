package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// family starts a parent of n children, named 0…n-1, and lets it go.
func (b *bundle) family(definition string, list ...int) string {
	b.t.Helper()
	if list == nil {
		list = []int{}
	}
	for _, d := range []string{"kid", "moth", "keyed-kid"} {
		b.need(d)
	}
	text, err := json.Marshal(map[string]any{"list": list})
	if err != nil {
		b.t.Fatal(err)
	}
	rosa := b.as("rosa@example.com")
	id := b.start(rosa, definition, string(text)).ID
	b.raise(rosa, id, "go")
	return id
}

// rest lets services send and join until nothing is left to do for them.
func (b *bundle) rest(services ...*Service) {
	b.t.Helper()
	if len(services) == 0 {
		services = []*Service{b.svc}
	}
	testkit.WaitForWithin(b.t, 5*time.Minute, "the outbox to come to rest", func() bool {
		busy := 0
		for _, svc := range services {
			svc.outbox.mu.Lock()
			busy += len(svc.outbox.running)
			svc.outbox.mu.Unlock()
			svc.outbox.feed.mu.Lock()
			busy += svc.outbox.feed.underWay
			svc.outbox.feed.mu.Unlock()
			for what, pass := range map[string]func() (int, error){
				"dispatch": func() (int, error) { return svc.DispatchOnce(b.ctx) },
				"join":     func() (int, error) { return svc.JoinOnce(b.ctx, 500) },
				"feed":     func() (int, error) { return svc.FeedOnce(b.ctx) },
			} {
				n, err := pass()
				if err != nil {
					b.t.Fatalf("%s: %v", what, err)
				}
				busy += n
			}
		}
		return busy == 0
	})
}

// children are the children of an instance, in order.
func (b *bundle) children(id string) []ChildView {
	b.t.Helper()
	var all []ChildView
	p := store.Paging{Limit: 500}
	for {
		page, err := b.svc.Children(b.ctx, admin, id, "", p)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, page.Items...)
		if p.Cursor = page.Next; p.Cursor == "" {
			return all
		}
	}
}

func (b *bundle) childStatuses(id string) string {
	b.t.Helper()
	var all []string
	for _, c := range b.children(id) {
		all = append(all, c.Status)
	}
	return strings.Join(all, " ")
}

// spread is the start effect of a family.
func (b *bundle) spread(id string) EffectView { b.t.Helper(); return b.effect(id, "spread") }

func TestAParentGoesOnWhenAllItsChildrenEndedWell(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 7, 8, 9)
		b.rest()
		kids := b.children(id)
		if e := b.spread(id); len(kids) != 3 || e.Status != fsm.EffectRunning || e.NextAttemptAt != nil {
			t.Fatalf("%d children, the effect is %+v", len(kids), e)
		}
		for _, k := range slices.Backward(kids) { // the order of the list is that of the result, not of the ends
			if v := b.instance(id); v.State != "waiting" {
				t.Fatalf("with children open it is in %s", v.State)
			}
			kid := b.instance(k.ID)
			first := b.history(k.ID)[0]
			if kid.Parent != id || kid.Requester != "rosa@example.com" || first.Actor.ID != "effect:spread" || first.Assurance != fsm.ByEngine {
				t.Errorf("child %d: parent %s, requester %v, started by %+v", k.Index, kid.Parent, kid.Requester, first.Actor)
			}
			b.raise(admin, k.ID, "well")
			b.rest()
		}
		v := b.instance(id)
		if v.State != "done" || v.Attention {
			t.Fatalf("it is in %s, attention %+v", v.State, v.AttentionReasons)
		}
		var data struct {
			Made []struct {
				ID, State string
				Data      struct{ N int }
			}
		}
		if err := json.Unmarshal(v.Data, &data); err != nil {
			t.Fatal(err)
		}
		for i, made := range data.Made {
			if made.ID != kids[i].ID || made.State != "good" || made.Data.N != 7+i {
				t.Errorf("result %d is %+v", i, made)
			}
		}
		if len(data.Made) != 3 || b.events(id, "ready") != 1 || len(b.history(id)) != 3 {
			t.Errorf("%d results, history %v", len(data.Made), b.states(id))
		}
	})
}

func TestHowManyChildrenMustEndWellDecides(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		for _, c := range []struct {
			definition string
			ends       []string // of the children, in this order
			state      string
			after      int // as many ends decide
		}{
			{"family", []string{"well", "badly", "well"}, "failed", 2},
			{"family-any", []string{"badly", "well", "well"}, "done", 2},
			{"family-any", []string{"badly", "badly", "badly"}, "failed", 3},
			{"family-two", []string{"well", "badly", "well"}, "done", 3},
			{"family-two", []string{"badly", "badly", "well"}, "failed", 2},
		} {
			id := b.family(c.definition, 1, 2, 3)
			b.rest()
			kids := b.children(id)
			for i, end := range c.ends[:c.after] {
				if v := b.instance(id); v.State != "waiting" {
					t.Errorf("%s after %v: %s", c.definition, c.ends[:i], v.State)
				}
				b.raise(admin, kids[i].ID, end)
				b.rest()
			}
			if v := b.instance(id); v.State != c.state {
				t.Errorf("%s after %v: %s, want %s", c.definition, c.ends[:c.after], v.State, c.state)
			}
			for i := range kids[c.after:] {
				if k := b.instance(kids[c.after+i].ID); k.Status != fsm.Cancelled {
					t.Errorf("%s: a child that nobody waits for is %s", c.definition, k.Status)
				}
			}
		}
	})
}

func TestAnEmptyListIsDecidedAtOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		for definition, state := range map[string]string{"family": "done", "family-any": "failed", "family-two": "failed"} {
			id := b.family(definition)
			b.rest()
			if v := b.instance(id); v.State != state {
				t.Errorf("%s of none: %s, want %s", definition, v.State, state)
			}
		}
		id := b.family("family-loose")
		b.rest()
		if e := b.spread(id); e.Status != fsm.EffectSucceeded {
			t.Errorf("detached, of none: %s", e.Status)
		}
	})
}

func TestDetachedChildrenAreNotWaitedForAndNotStopped(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family-loose", 1, 2)
		b.rest()
		if v := b.instance(id); v.State != "done" || b.childStatuses(id) != "running running" {
			t.Errorf("%s with children %s", v.State, b.childStatuses(id))
		}
	})
}

func TestAChildThatIsRefusedCountsAsOneThatDidNotEndWellUntilItIsTriedAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("keyed-kid")
		other := b.start(admin, "keyed-kid", `{"n":2}`).ID
		id := b.family("family-keyed", 1, 2, -3)
		b.rest()
		kids := b.children(id)
		if !strings.Contains(kids[1].Detail, other) || !strings.Contains(kids[2].Detail, "/n") || kids[0].Status != store.ChildCancelled {
			t.Fatalf("children %+v", kids)
		}
		e := b.spread(id)
		if v := b.instance(id); v.State != "failed" || e.Status != fsm.EffectDead {
			t.Fatalf("%s, the effect is %s", v.State, e.Status)
		}

		id = b.family("patient-keyed", 11, 2)
		b.rest()
		if e = b.spread(id); e.Status != fsm.EffectDead || b.childStatuses(id) != "running refused" {
			t.Fatalf("the effect is %s with children %s", e.Status, b.childStatuses(id))
		}
		b.raise(admin, other, "well") // the key is free again
		if _, err := b.svc.RetryEffect(b.ctx, admin, e.ID, "the other one is done", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.rest()
		if s := b.childStatuses(id); s != "running running" {
			t.Fatalf("children after the retry: %s", s)
		}
		for _, k := range b.children(id) {
			b.raise(admin, k.ID, "well")
		}
		b.rest()
		if v := b.instance(id); v.State != "done" || v.Attention {
			t.Errorf("in the end: %s, %+v", v.State, v.AttentionReasons)
		}
	})
}

func TestAStartOfAnUnpublishedDefinitionWorksOnceItIsPublished(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("patient-absent", 1, 2)
		b.rest()
		e := b.spread(id)
		if v := b.instance(id); e.Status != fsm.EffectDead || !strings.Contains(v.AttentionReasons[0].Detail, "Publish it") {
			t.Fatalf("%s, attention %+v", e.Status, v.AttentionReasons)
		}
		b.publish(replaced(samples["kid"], "name: kid", "name: stranger"))
		if _, err := b.svc.RetryEffect(b.ctx, admin, e.ID, "published", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.rest()
		for _, k := range b.children(id) {
			b.raise(admin, k.ID, "well")
		}
		b.rest()
		if v := b.instance(id); v.State != "done" {
			t.Errorf("it is in %s with children %s", v.State, b.childStatuses(id))
		}
	})
}

func TestLeavingTheWaitCancelsTheChildrenAndTheirs(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("family")
		id := b.family("dynasty", 1, 2)
		b.rest()
		rosa := b.as("rosa@example.com")
		for _, k := range b.children(id) {
			b.raise(rosa, k.ID, "go")
		}
		b.rest()
		var all []string
		for _, k := range b.children(id) {
			all = append(all, k.ID)
			for _, grandchild := range b.children(k.ID) {
				all = append(all, grandchild.ID)
			}
		}
		if len(all) != 6 {
			t.Fatalf("%d descendants", len(all))
		}
		if _, err := b.svc.Cancel(b.ctx, admin, id, "not wanted", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.rest()
		for _, kid := range all {
			if v := b.instance(kid); v.Status != fsm.Cancelled {
				t.Errorf("%s is %s", kid, v.Status)
			}
		}
		if s := b.childStatuses(id); s != "cancelled cancelled" || b.spread(id).Status != fsm.EffectCancelled {
			t.Errorf("children %s, the effect is %s", s, b.spread(id).Status)
		}
	})
}

// What is started at the moment when the parent goes on is cancelled by the same stop.
func TestAStarterWhoseParentWentOnStopsAndLeavesNoChildBehind(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("kid")
		list := make([]int, 300)
		id := b.family("family", list...)
		if n, err := b.svc.DispatchOnce(b.ctx); n == 0 || err != nil {
			t.Fatalf("%d taken, %v", n, err)
		}
		testkit.WaitFor(t, "the first children", func() bool {
			page, err := b.svc.Children(b.ctx, admin, id, "", store.Paging{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Items) > 0
		})
		b.raise(admin, id, "give_up")
		b.rest()
		b.pass(time.Minute) // until the stop looks again
		b.rest()
		for _, k := range b.children(id) {
			if k.Status != store.ChildCancelled {
				t.Fatalf("child %d is %s", k.Index, k.Status)
			}
		}
		if e := b.spread(id); e.Status != fsm.EffectCancelled {
			t.Errorf("the effect is %s", e.Status)
		}
		t.Logf("%d of %d had been started", len(b.children(id)), len(list))
	})
}

// parentStatements counts what transactions of an instance wrote and read of it.
type bill struct{ history, events, effects int }

func (b *bundle) bill(id string) bill {
	return bill{len(b.history(id)), b.events(id, "ready"), len(b.effects(id))}
}

// issue 3: a parent of 10,000 gets one event, and its own rows do not grow with them.
func TestAParentOfThousandsGetsOneEventFromHoweverManyReplicas(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		few := b.family("moths", 0)
		b.rest()
		n := size(1_000, 10_000)
		list := make([]int, n)
		for i := range list {
			list[i] = i
		}
		services := b.services(2)
		id := b.family("moths", list...)
		began := time.Now()
		b.rest(services...)
		t.Logf("%d children started and joined in %s", n, time.Since(began).Round(time.Millisecond))
		if v := b.instance(id); v.State != "done" {
			t.Fatalf("it is in %s, attention %+v", v.State, v.AttentionReasons)
		}
		if one, many := b.bill(few), b.bill(id); one != many || many.events != 1 {
			t.Errorf("with 1 child %+v, with %d %+v", one, n, many)
		}
		var data struct {
			Made []struct{ Data struct{ N int } }
		}
		if err := json.Unmarshal(b.instance(id).Data, &data); err != nil {
			t.Fatal(err)
		}
		for i := range data.Made {
			if data.Made[i].Data.N != i {
				t.Fatalf("result %d is of child %d", i, data.Made[i].Data.N)
			}
		}
		if len(data.Made) != n || len(b.children(id)) != n {
			t.Errorf("%d results of %d children", len(data.Made), len(b.children(id)))
		}
	})
}

// guarantee R-03, for children: killed at any point, each child is there once and the
// parent is told once.
func TestAStarterThatIsKilledIsTakenOverWithoutASecondChild(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("moth")
		list := make([]int, 150)
		for i := range list {
			list[i] = i
		}
		for _, point := range []string{store.PointCommitted, store.PointWritten, store.PointClaimCommitted, store.PointPark, store.PointFinish} {
			t.Run(point, func(t *testing.T) {
				id := b.family("moths", list...)
				var k breaker
				k.arm(point, 3)
				faulty, _, stop := b.process(nil, k.fail)
				if _, err := faulty.DispatchOnce(b.ctx); err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				if _, err := faulty.JoinOnce(b.ctx, 500); err != nil && !errors.Is(err, errCrash) {
					t.Log("join:", err)
				}
				stop()
				b.pass(lease + time.Second)
				b.rest()
				if v := b.instance(id); v.State != "done" {
					t.Fatalf("it is in %s, %s, attention %+v", v.State, b.spread(id).Status, v.AttentionReasons)
				}
				seen := map[string]bool{}
				for _, c := range b.children(id) {
					seen[c.ID] = true
				}
				if len(seen) != len(list) || b.events(id, "ready") != 1 {
					t.Errorf("%d children, %d events", len(seen), b.events(id, "ready"))
				}
			})
		}
	})
}

func TestChildrenAreListedForWhoMayReadTheirParent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 1, 2, 3)
		b.rest()
		e := b.spread(id)
		page, err := b.svc.Children(b.ctx, b.as("rosa@example.com"), id, e.ID, store.Paging{Limit: 2})
		if err != nil || len(page.Items) != 2 || page.Next == "" || page.Items[1].Index != 1 || page.Items[0].Effect != e.ID {
			t.Errorf("the requester reads %+v, %v", page, err)
		}
		_, err = b.svc.Children(b.ctx, b.as("luis@example.com"), id, "", store.Paging{})
		wantCode(t, "somebody else", err, fault.NotFound)
		other := b.family("family", 1)
		_, err = b.svc.Children(b.ctx, admin, other, e.ID, store.Paging{})
		wantCode(t, "another instance's effect", err, fault.NotFound)
		_, err = b.svc.Children(b.ctx, admin, id, fmt.Sprintf("%s-9", id), store.Paging{})
		wantCode(t, "no effect at all", err, fault.NotFound)
	})
}
