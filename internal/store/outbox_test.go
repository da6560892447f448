package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

// queue commits a step that queues these effects on a fresh instance.
func (p *simple) queue(t testing.TB, effects ...fsm.QueuedEffect) string {
	t.Helper()
	p.plan = func(job *Job) {
		simpleStep(job)
		job.Step.Effects = effects
		for i := range job.Step.Effects {
			job.Step.Effects[i].Seq, job.Step.Effects[i].N = 1, i+1
		}
	}
	defer func() { p.plan = nil }()
	return p.started(t)
}

func mail(idempotent bool) fsm.QueuedEffect {
	e := webhook(1, 1)
	e.Kind, e.Request, e.Idempotent, e.Priority = "email", []byte(`{"email":{"to":"a@example.com","subject":"\u0000link\u0000","body":""}}`), idempotent, 1
	e.Input = map[string]any{"x": "1"}
	return e
}

// claim leases what is due.
func (p *simple) claim(t testing.TB, limit int) []ClaimedEffect {
	t.Helper()
	claimed, err := p.s.ClaimEffects(t.Context(), limit, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

func finishOf(e ClaimedEffect, status fsm.EffectStatus) Finish {
	return Finish{Instance: e.Instance, ResultEvent: fsm.ResultEvent{
		Effect: e.EffectID, Fence: e.Fence, Attempt: e.Attempt, Status: status,
		Outcome: "success", HTTP: 200, Result: map[string]any{"ok": true},
	}}
}

// finish ends attempts and tells how many were still ours.
func (p *simple) finish(t testing.TB, fs ...Finish) int {
	t.Helper()
	n, err := p.s.FinishAttempts(t.Context(), fs)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attempts lists an instance's attempts as "n outcome".
func (b *bench) attempts(t testing.TB, instance string) []string {
	t.Helper()
	list, err := selectRows(b.reader(t.Context()), func(row rowScanner, v *string) error {
		var n int
		var outcome string
		err := row.Scan(&n, &outcome)
		*v = fmt.Sprintf("%d %s", n, outcome)
		return err
	}, "SELECT attempt, outcome FROM attempts WHERE instance_id = ? ORDER BY seq, n, fence", instance)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAnEffectIsLeasedStartedAndFinished(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		linked := mail(true)
		linked.Link = fsm.EffectID{Seq: 1, N: 1}
		id := p.queue(t, webhook(1, 1), linked)
		claimed := p.claim(t, 10)
		if len(claimed) != 2 || claimed[0].Kind != "email" {
			t.Fatalf("claimed %+v, want the mail before the webhook", claimed)
		}
		e := claimed[0]
		if e.Instance != id || e.Key != id+"/1/2" || e.Fence != 1 || e.Attempt != 1 || !e.Started || e.Definition != "simple" || e.Version != 1 ||
			e.UnknownBefore || e.First != 5*time.Second || e.Max != 6*time.Hour || string(e.Request) != string(linked.Request) {
			t.Errorf("claimed %+v", e)
		}
		if e.Link == nil || e.Link.Ref != "system:bench" || string(e.Link.JTIHash) != string(tokenOf(id)) || claimed[1].Link != nil {
			t.Errorf("its link is %+v", e.Link)
		}
		if again := p.claim(t, 10); len(again) != 0 {
			t.Errorf("leased effects were claimed again: %+v", again)
		}
		if n := p.finish(t, finishOf(claimed[0], fsm.EffectSucceeded), finishOf(claimed[1], fsm.EffectSucceeded)); n != 2 {
			t.Errorf("%d of 2 were ours", n)
		}
		if n := p.finish(t, finishOf(claimed[0], fsm.EffectDead)); n != 0 {
			t.Error("a finished attempt was finished again")
		}
		for _, row := range p.read(t, id).Effects {
			if row.Status != fsm.EffectSucceeded || row.Attempts != 1 {
				t.Errorf("afterwards: %+v", row)
			}
		}
		if got := fmt.Sprint(b.attempts(t, id)); got != "[1 success 1 success]" {
			t.Errorf("attempts %s", got)
		}
	})
}

func TestARetryComesWhenItIsDue(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, webhook(1, 1))
		f := finishOf(p.claim(t, 1)[0], fsm.EffectRetrying)
		at := b.now(t).Add(time.Minute)
		f.NextAt, f.Outcome = &at, "retry"
		p.finish(t, f)
		if early := p.claim(t, 1); len(early) != 0 {
			t.Fatalf("claimed before its time: %+v", early)
		}
		b.pass(time.Minute)
		due := p.claim(t, 1)
		if len(due) != 1 || due[0].Attempt != 2 || due[0].Fence != 2 || due[0].UnknownBefore {
			t.Errorf("after a minute: %+v", due)
		}
		if got := fmt.Sprint(b.attempts(t, id)); got != "[1 retry 2 started]" {
			t.Errorf("attempts %s", got)
		}
	})
}

// guarantee D4
func TestALostLeaseFinishesNothing(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, webhook(1, 1))
		old := p.claim(t, 1)[0]
		b.pass(2 * time.Minute)
		fresh := p.claim(t, 1)[0]
		if fresh.Fence != 2 || fresh.Attempt != 2 || !fresh.UnknownBefore {
			t.Fatalf("taken over: %+v", fresh)
		}
		if n := p.finish(t, finishOf(old, fsm.EffectSucceeded)); n != 0 {
			t.Error("the old lease finished the effect")
		}
		result := func(e ClaimedEffect) *Job {
			f := finishOf(e, fsm.EffectSucceeded)
			return &Job{Event: &fsm.Event{ID: newID(t), Instance: id, Kind: fsm.KindEffectResult, Result: &f.ResultEvent}}
		}
		p.plan = func(job *Job) {
			job.Step = stayStep(job)
			job.Step.Result = job.Event.Result
		}
		late, neighbour := result(old), result(fresh)
		p.commit(t, late)
		wantCode(t, late.Err, fault.Conflict)
		if n := p.read(t, id).Instance.Revision; n != 1 {
			t.Errorf("the late result moved the instance to revision %d", n)
		}
		p.commit(t, neighbour)
		wantWritten(t, neighbour)
		row := p.read(t, id).Effects[0]
		if row.Status != fsm.EffectSucceeded || row.Result == nil {
			t.Errorf("after the result: %+v", row)
		}
		if got := fmt.Sprint(b.attempts(t, id)); got != "[1 unknown 2 success]" {
			t.Errorf("attempts %s", got)
		}
	})
}

func TestANonIdempotentEffectIsNeverSentTwiceByItself(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, mail(false))
		e := p.claim(t, 1)[0]
		if e.Started || e.Attempt != 1 || len(b.attempts(t, id)) != 0 {
			t.Fatalf("claimed as started: %+v", e)
		}
		b.pass(2 * time.Minute) // not started: it may be taken again
		e = p.claim(t, 1)[0]
		if ok, err := b.StartAttempt(t.Context(), &e); err != nil || !ok || !e.Started {
			t.Fatalf("start: %v, %v", ok, err)
		}
		if ok, err := b.StartAttempt(t.Context(), &ClaimedEffect{Instance: id, QueuedEffect: e.QueuedEffect, Fence: 1, LeaseUntil: e.LeaseUntil}); err != nil || ok {
			t.Errorf("the lost lease started an attempt: %v, %v", ok, err)
		}
		if lost, err := b.LostAttempts(t.Context(), 10); err != nil || len(lost) != 0 {
			t.Errorf("lost while its lease lasts: %v, %v", lost, err)
		}
		b.pass(2 * time.Minute)
		if again := p.claim(t, 1); len(again) != 0 {
			t.Errorf("an attempt of unknown end was repeated: %+v", again)
		}
		lost, err := b.LostAttempts(t.Context(), 10)
		if err != nil || len(lost) != 1 || lost[0].Fence != e.Fence || lost[0].Attempt != 1 {
			t.Errorf("lost: %+v, %v", lost, err)
		}
	})
}

func TestReleasedEffectsComeAgainAtOnce(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		p.queue(t, mail(false))
		claimed := p.claim(t, 1)
		if err := b.ReleaseEffects(t.Context(), claimed); err != nil {
			t.Fatal(err)
		}
		if again := p.claim(t, 1); len(again) != 1 || again[0].Attempt != 1 {
			t.Errorf("after the release: %+v", again)
		}
	})
}

func TestEachDueEffectIsGivenToOneOfManyWorkers(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		const effects = 60
		for range effects / 20 {
			var all []fsm.QueuedEffect
			for range 20 {
				all = append(all, mail(true))
			}
			p.queue(t, all...)
		}
		var mu sync.Mutex
		seen := map[string]int{}
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() {
				for {
					claimed, err := b.ClaimEffects(context.Background(), 7, time.Minute)
					mu.Lock()
					for _, e := range claimed {
						seen[e.Key]++
					}
					all := len(seen) == effects
					mu.Unlock()
					if err != nil || all {
						errs <- err
						return
					}
				}
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for key, n := range seen {
			if n != 1 {
				t.Errorf("%s was given %d times", key, n)
			}
		}
	})
}

// guarantee R-21: one host's receivers do not take every place
func TestABusyHostLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		b := &bench{Store: reopened(t, Config{URL: url, PerHost: 2})}
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := newSimple(b.Store)
		other := webhook(1, 1)
		other.Request, other.Priority = []byte(`{"webhook":{"method":"POST","url":"https://other.example/hook"}}`), 9
		p.queue(t, webhook(1, 1), webhook(1, 1), webhook(1, 1), webhook(1, 1), other)
		claimed := p.claim(t, 4)
		if len(claimed) != 3 || string(claimed[2].Request) != string(other.Request) {
			t.Errorf("claimed %d, want two of the busy host and the other's", len(claimed))
		}
		p.finish(t, finishOf(claimed[0], fsm.EffectSucceeded))
		if more := p.claim(t, 4); len(more) != 1 {
			t.Errorf("claimed %d more, want one in the place that is free", len(more))
		}
	})
}

func TestLeavingAWaitDropsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		droppable := func(idempotent bool) fsm.QueuedEffect {
			e := mail(idempotent)
			e.Droppable, e.Wait = true, 1
			return e
		}
		sent, leased, waiting, kept := droppable(true), droppable(false), droppable(false), mail(true)
		sent.Priority, leased.Priority, waiting.Priority, kept.Priority = 0, 1, 2, 3
		id := p.queue(t, sent, leased, waiting, kept)
		claimed := p.claim(t, 2)
		decision := raiseJob(t, id, "approve")
		p.commit(t, decision)
		wantWritten(t, decision)
		var got []string
		for _, e := range p.read(t, id).Effects[:4] {
			got = append(got, string(e.Status))
		}
		if fmt.Sprint(got) != "[running cancelled cancelled waiting]" {
			t.Errorf("statuses %v", got)
		}
		if ok, err := b.StartAttempt(t.Context(), &claimed[1]); err != nil || ok {
			t.Errorf("a dropped effect was started: %v, %v", ok, err)
		}
		if n := p.finish(t, finishOf(claimed[0], fsm.EffectSucceeded)); n != 1 {
			t.Error("what was under way could not be finished")
		}
	})
}

func TestAnOperatorsRetryStartsTheAttemptsAnew(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, webhook(1, 1))
		p.finish(t, finishOf(p.claim(t, 1)[0], fsm.EffectDead))
		if again := p.claim(t, 1); len(again) != 0 {
			t.Fatalf("a dead effect was claimed: %+v", again)
		}
		p.plan = func(job *Job) {
			job.Step = stayStep(job)
			job.Step.EffectChanges = []fsm.EffectChange{{EffectID: *job.Event.Effect, Status: fsm.EffectWaiting, Retry: true}}
			if len(job.Snapshot.Effects) != 1 || job.Snapshot.Effects[0].Status != fsm.EffectDead {
				t.Errorf("planned on %+v", job.Snapshot.Effects)
			}
		}
		job := &Job{Event: &fsm.Event{ID: newID(t), Instance: id, Kind: fsm.KindRetryEffect, Effect: &fsm.EffectID{Seq: 1, N: 1}}}
		p.commit(t, job)
		wantWritten(t, job)
		if again := p.claim(t, 1); len(again) != 1 || again[0].Attempt != 1 || again[0].Fence != 2 {
			t.Errorf("after the retry: %+v", again)
		}
	})
}

// guarantee R-03
func TestAFaultInTheOutboxLosesNoEffect(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		cut := errors.New("cut")
		for _, point := range FaultPoints[6:14] {
			cfg, armed := b.impl.cfg, false
			cfg.Fault = func(at string) error {
				if armed && at == point {
					return cut
				}
				return nil
			}
			p := newSimple(reopened(t, cfg))
			id := p.queue(t, mail(false))
			err := p.once(t.Context(), &armed)
			if point != PointRelease && !errors.Is(err, cut) {
				t.Errorf("%s: got %v", point, err)
			}
			b.pass(2 * time.Minute)
			again, err := p.s.ClaimEffects(t.Context(), 10, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			lost, err := p.s.LostAttempts(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			status := p.read(t, id).Effects[0].Status
			fates := map[string]bool{"again": len(again) == 1, "unknown": len(lost) == 1, "done": status == fsm.EffectSucceeded}
			want := map[string]string{
				PointStartCommitted: "unknown", PointFinish: "unknown", PointFinishWritten: "unknown",
				PointFinishCommit: "done", PointRelease: "done",
			}[point]
			if want == "" {
				want = "again"
			}
			if n := len(again) + len(lost); !fates[want] || n > 1 {
				t.Errorf("%s: status %s, again %d, unknown %d; want %s", point, status, len(again), len(lost), want)
			}
			for _, e := range append(again, lost...) {
				if ok, err := p.s.StartAttempt(t.Context(), &e); err != nil || !ok && !e.Started {
					t.Fatal(ok, err)
				}
				p.finish(t, finishOf(e, fsm.EffectSucceeded))
			}
		}
	})
}

// once takes one effect through the outbox with the fault armed.
func (p *simple) once(ctx context.Context, armed *bool) error {
	*armed = true
	defer func() { *armed = false }()
	claimed, err := p.s.ClaimEffects(ctx, 1, time.Minute)
	if err != nil {
		return err
	}
	if ok, err := p.s.StartAttempt(ctx, &claimed[0]); err != nil || !ok {
		return err
	}
	_, err = p.s.FinishAttempts(ctx, []Finish{finishOf(claimed[0], fsm.EffectSucceeded)})
	return err
}
