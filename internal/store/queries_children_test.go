package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

// parked starts a parent and so many children and parks its start effect.
func (p *simple) parked(t testing.TB, children int) (of StartEffect, ids []string) {
	t.Helper()
	of, leased := p.parent(t)
	p.plan = childPlan(t)
	for i := range children {
		ids = append(ids, p.child(t, of, i))
	}
	if ok, err := p.s.ParkEffect(t.Context(), &leased, "started"); err != nil || !ok {
		t.Fatalf("parked: %v, %v", ok, err)
	}
	return of, ids
}

func (b *bench) completions(t testing.TB) []Completion {
	t.Helper()
	all, err := b.Completions(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (b *bench) noted(t testing.TB, all []Completion) {
	t.Helper()
	if err := b.NoteCompletions(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) isParked(t testing.TB, of StartEffect) *ClaimedEffect {
	t.Helper()
	e, err := b.ParkedEffect(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCompletionsAreCountedUpToALimit(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, ids := p.parked(t, 7)
		for i, event := range []string{"approve", "approve", "approve", "reject", ""} {
			p.ends(t, ids[i], event)
		}
		if err := b.RefuseChild(t.Context(), of, 7, "no"); err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int]Join{10: {Well: 3, Bad: 3, Open: 2}, 2: {Well: 2, Bad: 2, Open: 2}, 1: {Well: 1, Bad: 1, Open: 1}} {
			if join, err := b.JoinOf(t.Context(), of, limit); err != nil || join != want {
				t.Errorf("up to %d: %+v, %v; want %+v", limit, join, err, want)
			}
		}
		all := b.completions(t)
		if len(all) != 6 || all[0].StartEffect != of || all[0].Index != 0 || all[5].Index != 7 {
			t.Fatalf("completions %+v, want six, oldest first", all)
		}
		b.noted(t, all[:4])
		if rest := b.completions(t); len(rest) != 2 || rest[0].Index != 4 {
			t.Errorf("after four were looked at: %+v", rest)
		}
	})
}

func TestTheResultsOfChildrenComeInTheOrderOfTheirList(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, ids := p.parked(t, 2)
		if err := b.RefuseChild(t.Context(), of, 2, "no"); err != nil {
			t.Fatal(err)
		}
		p.ends(t, ids[1], "reject")
		results, err := b.ChildResults(t.Context(), of)
		if err != nil || len(results) != 3 {
			t.Fatal(results, err)
		}
		data := p.read(t, ids[0]).Instance.Data
		for i, want := range []ChildResult{
			{Index: 0, ID: ids[0], State: "review", Status: ChildRunning, Data: data},
			{Index: 1, ID: ids[1], State: "refused", Status: ChildFailed, Data: data},
			{Index: 2, Status: ChildRefused},
		} {
			if !reflect.DeepEqual(results[i], want) {
				t.Errorf("result %d is %+v, want %+v", i, results[i], want)
			}
		}
	})
}

func TestAParkedStartWaitsForNothingButItsChildren(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, leased := p.parent(t)
		p.plan = childPlan(t)
		child := p.child(t, of, 0)
		p.ends(t, child, "approve")
		b.noted(t, b.completions(t))
		if b.isParked(t, of) != nil {
			t.Fatal("a leased start counts as parked")
		}
		if under, err := b.StartsUnderWay(t.Context(), of.Parent, 1); err != nil || !under {
			t.Errorf("leased: under way %v, %v", under, err)
		}
		lost := leased
		lost.Fence++
		if ok, err := b.ParkEffect(t.Context(), &lost, ""); err != nil || ok {
			t.Errorf("a lost lease parked: %v, %v", ok, err)
		}
		if ok, err := b.ParkEffect(t.Context(), &leased, "one child"); err != nil || !ok {
			t.Fatal(ok, err)
		}
		parked := b.isParked(t, of)
		if parked == nil || parked.Fence != leased.Fence || parked.Name != "parts" || parked.Attempt != 1 || string(parked.Request) != string(leased.Request) {
			t.Fatalf("parked %+v", parked)
		}
		if again := b.completions(t); len(again) != 1 || again[0].Index != 0 {
			t.Errorf("completions after parking: %+v", again)
		}
		if under, err := b.StartsUnderWay(t.Context(), of.Parent, 1); err != nil || under {
			t.Errorf("parked: under way %v, %v", under, err)
		}
		b.pass(1000 * leased.LeaseUntil.Sub(leased.QueuedAt))
		if claimed := p.claim(t, 10); len(claimed) != 0 {
			t.Errorf("a parked start was claimed: %+v", claimed)
		}
		page, err := b.Effects(t.Context(), EffectFilter{Instance: of.Parent}, Paging{})
		if err != nil || page.Items[0].Status != fsm.EffectRunning || page.Items[0].Attempts[0].Detail != "one child" {
			t.Errorf("it shows as %+v, %v", page.Items, err)
		}
		if n := p.finish(t, finishOf(*parked, fsm.EffectSucceeded)); n != 1 || b.isParked(t, of) != nil {
			t.Errorf("finished %d", n)
		}
	})
}

// The completion that decides is noted by somebody who looked before the effect was parked.
func TestACompletionThatIsNotedWhileItsEffectIsParkedIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, leased := p.parent(t)
		p.plan = childPlan(t)
		p.ends(t, p.child(t, of, 0), "approve")
		seen := b.completions(t)
		if b.isParked(t, of) != nil {
			t.Fatal("parked too early")
		}
		if ok, err := b.ParkEffect(t.Context(), &leased, ""); err != nil || !ok {
			t.Fatal(ok, err)
		}
		b.noted(t, seen)
		again := b.completions(t)
		if len(again) != 1 {
			t.Fatalf("completions %+v, want the one that became news again", again)
		}
		b.noted(t, again)
		if rest := b.completions(t); len(rest) != 0 {
			t.Errorf("left: %+v", rest)
		}
	})
}

func TestLeavingAWaitCancelsItsStartsAndTellsItsLiveChildren(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		detached := startEffect()
		detached.Droppable = false
		id := p.queue(t, startEffect(), startEffect(), startEffect(), detached)
		claimed := p.claim(t, 10)
		parked, retried, leased, other := claimed[0], claimed[1], claimed[2], claimed[3]
		p.plan = childPlan(t)
		var live []string
		for i := range 3 {
			live = append(live, p.child(t, StartEffect{id, parked.EffectID}, i))
		}
		p.ends(t, live[1], "approve")
		p.child(t, StartEffect{id, other.EffectID}, 0)
		for _, e := range []ClaimedEffect{parked, other} {
			if ok, err := b.ParkEffect(t.Context(), &e, ""); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		later, now := finishOf(retried, fsm.EffectRetrying), b.now(t)
		later.NextAt = &now
		p.finish(t, later)
		p.ends(t, id, "approve")
		statuses := map[fsm.EffectID]fsm.EffectStatus{}
		for _, row := range p.read(t, id).Effects {
			statuses[row.EffectID] = row.Status
		}
		for _, c := range []struct {
			of   ClaimedEffect
			want fsm.EffectStatus
		}{{parked, fsm.EffectCancelled}, {retried, fsm.EffectCancelled}, {leased, fsm.EffectRunning}, {other, fsm.EffectRunning}} {
			if got := statuses[c.of.EffectID]; got != c.want {
				t.Errorf("effect %d is %s, want %s", c.of.N, got, c.want)
			}
		}
		if n := p.finish(t, finishOf(parked, fsm.EffectSucceeded)); n != 0 {
			t.Error("a cancelled start was decided")
		}
		for limit, want := range map[int][]string{10: {live[0], live[2]}, 1: {live[0]}} {
			if got, err := b.LiveChildren(t.Context(), id, 1, limit); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("live children %v, %v; want %v", got, err, want)
			}
		}
		if got, err := b.LiveChildren(t.Context(), id, 2, 10); err != nil || len(got) != 0 {
			t.Errorf("of another wait: %v, %v", got, err)
		}
	})
}

func TestChildrenAreListedInPages(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, ids := p.parked(t, 5)
		for _, effect := range []fsm.EffectID{{}, of.EffectID} {
			all := walk(t, 2, func() {}, func(ctx context.Context, paging Paging) (Page[Child], error) {
				return b.Children(ctx, of.Parent, effect, paging)
			})
			var got []string
			for _, c := range all {
				got = append(got, c.ID)
				if c.Effect != of.EffectID || c.Name != "parts" {
					t.Errorf("child %+v", c)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(ids) {
				t.Errorf("children %v, want %v", got, ids)
			}
		}
		none, err := b.Children(t.Context(), of.Parent, fsm.EffectID{Seq: 9, N: 9}, Paging{})
		if err != nil || len(none.Items) != 0 {
			t.Errorf("of no effect: %v, %v", none, err)
		}
	})
}

func TestAParkedStartsResultMayLeaveItsOwnWait(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, ids := p.parked(t, 1)
		p.ends(t, ids[0], "approve")
		f := finishOf(*b.isParked(t, of), fsm.EffectSucceeded)
		p.plan = func(job *Job) {
			job.Step = approveStep(job)
			job.Step.Result = job.Event.Result
		}
		job := &Job{Event: &fsm.Event{ID: newID(t), Instance: of.Parent, Kind: fsm.KindEffectResult, Result: &f.ResultEvent}}
		p.commit(t, job)
		wantWritten(t, job)
		if row := p.read(t, of.Parent).Effects[0]; row.Status != fsm.EffectSucceeded {
			t.Errorf("the start is %s", row.Status)
		}
		late := &Job{Event: &fsm.Event{ID: newID(t), Instance: of.Parent, Kind: fsm.KindEffectResult, Result: &f.ResultEvent}}
		p.commit(t, late)
		if late.Err == nil {
			t.Error("it was decided twice")
		}
	})
}

func TestTheDataOfTooManyChildrenIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, ids := p.parked(t, 3)
		p.ends(t, ids[0], "approve")
		large := `{"text":"` + strings.Repeat("é", 1<<20) + `"}` // two MiB and a little
		for _, id := range ids[:2] {
			b.write(t, "UPDATE instance_data SET data = ? WHERE instance_id = ?", large, id)
		}
		results, err := b.ChildResults(t.Context(), of)
		wantCode(t, err, fault.LimitExceeded)
		if results != nil || !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "4.0 MiB") || !strings.Contains(err.Error(), "at most 4 MiB") {
			t.Errorf("%d results, %v", len(results), err)
		}
		ended, err := b.ChildResults(t.Context(), of, ChildEnded, ChildFailed)
		if err != nil || len(ended) != 1 || ended[0].ID != ids[0] || ended[0].Data["text"] == nil {
			t.Errorf("of those that ended %d, %v", len(ended), err)
		}
	})
}

// Two replicas that note the same completions must not wait for each other.
func TestCompletionsAreLockedInTheOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{})
	p := newSimple(b.Store)
	of, ids := p.parked(t, 2)
	for _, id := range ids {
		p.ends(t, id, "approve")
	}
	all := b.completions(t)
	slices.Reverse(all)
	tx, err := b.impl.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const lock = "SELECT 1 FROM children WHERE instance_id = $1 AND idx = $2 FOR UPDATE"
	if _, err := tx.Exec(t.Context(), lock, of.Parent, 0); err != nil {
		t.Fatal(err)
	}
	noted := make(chan error, 1)
	go func() { noted <- b.NoteCompletions(context.Background(), all) }()
	b.waiting(t)
	if _, err := tx.Exec(t.Context(), lock+" NOWAIT", of.Parent, 1); err != nil {
		t.Errorf("who waits for the first holds the second: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-noted; err != nil || len(b.completions(t)) != 0 {
		t.Errorf("noted: %v", err)
	}
	if !strings.Contains(endChildren.postgres, "ORDER BY "+childKey+" FOR UPDATE") {
		t.Error("the ends of children are written in another order")
	}
}

func TestACrashWhileAChildIsRefusedOrAStartParkedLosesNothing(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		at := ""
		b := &bench{Store: reopened(t, Config{URL: url, Fault: func(point string) error {
			if point == at {
				return cut
			}
			return nil
		}})}
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := newSimple(b.Store)
		for _, point := range []string{PointRefuseChild, PointRefuseCommit, PointPark, PointParkCommit} {
			of, leased := p.parent(t)
			at = point
			refused, park := b.RefuseChild(t.Context(), of, 0, "no"), error(nil)
			if refused == nil {
				_, park = b.ParkEffect(t.Context(), &leased, "")
			}
			at = ""
			if !errors.Is(errors.Join(refused, park), cut) {
				t.Errorf("%s was not reached: %v, %v", point, refused, park)
			}
			if kept, want := b.children(t, of) != "", point != PointRefuseChild; kept != want {
				t.Errorf("%s: the refusal is kept: %v, want %v", point, kept, want)
			}
			if parked, want := b.isParked(t, of) != nil, point == PointParkCommit; parked != want {
				t.Errorf("%s: parked %v, want %v", point, parked, want)
			}
			if err := b.RefuseChild(t.Context(), of, 0, "no"); err != nil {
				t.Fatal(err)
			}
			if ok, err := b.ParkEffect(t.Context(), &leased, ""); err != nil || !ok && point != PointParkCommit {
				t.Errorf("%s, again: %v, %v", point, ok, err)
			}
			if b.children(t, of) != "0 refused over" || b.isParked(t, of) == nil {
				t.Errorf("%s: %s in the end", point, b.children(t, of))
			}
		}
	})
}
