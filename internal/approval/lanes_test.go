package approval

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// callsTo is a definition each of whose instances calls every one of these addresses.
func callsTo(name string, attempts int, urls ...string) string {
	var enter, effects []string
	for i, url := range urls {
		enter = append(enter, fmt.Sprintf("e%d", i))
		effects = append(effects, fmt.Sprintf("  e%d: {webhook: {url: \"%s\"}, idempotent: true, reversible: false, retry: {attempts: %d, first: PT30S, max: PT30S}}", i, url, attempts))
	}
	return fmt.Sprintf(`
name: %s
version: 1
title: Calls
initial: open
states:
  open:
    owner: [requester]
    enter: [%s]
    deadlines: [{after: P90D, fire: expire}]
    events: {expire: {to: closed, by: [timer]}}
  closed: {final: true}
effects:
%s
`, name, strings.Join(enter, ", "), strings.Join(effects, "\n"))
}

// running lets a service do its work as the timers do, until the test ends or stop.
func (b *bundle) running(svc *Service) (stop func()) {
	b.t.Helper()
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-svc.Woken():
			case <-tick.C:
			}
			if _, err := svc.DispatchOnce(b.ctx); err != nil && b.ctx.Err() == nil {
				b.t.Errorf("dispatch: %v", err)
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); work.Wait() })
	b.t.Cleanup(stop)
	return stop
}

// arrivals notes when each call came for the first time, by its id.
type arrivals struct {
	mu sync.Mutex
	at map[string]time.Time
	n  map[string]int
}

func (a *arrivals) answer(then testkit.WebhookAnswer) testkit.WebhookAnswer {
	return func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
		id := c.Header.Get("webhook-id")
		a.mu.Lock()
		if a.at == nil {
			a.at, a.n = map[string]time.Time{}, map[string]int{}
		}
		if _, seen := a.at[id]; !seen {
			a.at[id] = time.Now()
		}
		a.n[id]++
		a.mu.Unlock()
		then(w, r, c)
	}
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// since gives how long after its instance was started each call came, shortest first.
func (a *arrivals) since(started map[string]time.Time) []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []time.Duration
	for id, at := range a.at {
		all = append(all, at.Sub(started[strings.SplitN(id, "/", 2)[0]]))
	}
	slices.Sort(all)
	return all
}

// guarantee R-21, field report B31. It counts goroutines, so it runs beside no other test.
func TestReceiversThatNeverAnswerDoNotHoldUpThoseThatDo(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		const each = 50
		var good arrivals
		var urls []string
		var hanging []*testkit.WebhookReceiver
		for range each {
			r := testkit.Webhook(t)
			r.Answer(testkit.AnswerNever())
			hanging = append(hanging, r)
			urls = append(urls, r.URL)
		}
		for range each {
			r := testkit.Webhook(t)
			r.Answer(good.answer(testkit.AnswerStatus(http.StatusNoContent)))
			urls = append(urls, r.URL)
		}
		samples := callsTo("calls", 1, urls...)
		b.publish(samples)
		b.known.Store("calls", true)
		b.running(b.svc)
		before := runtime.NumGoroutine()
		started, rounds := map[string]time.Time{}, size(8, 40)
		for range rounds {
			began := time.Now()
			started[b.start(admin, "calls", `{}`).ID] = began
		}
		testkit.WaitFor(t, "the good ones", func() bool { return good.count() == rounds*each })
		times := good.since(started)
		p99 := times[len(times)*99/100]
		during := runtime.NumGoroutine()
		t.Logf("%d good calls beside as many that hang: p50 %s, p99 %s; goroutines %d before, %d during", len(times), times[len(times)/2], p99, before, during)
		if p99 > 5*time.Second {
			t.Errorf("p99 is %s", p99)
		}
		if most := before + 8*(slowLane+fastLane); during > most {
			t.Errorf("%d goroutines, more than %d", during, most)
		}
		wire := 0
		for _, r := range hanging {
			if n := len(r.Calls()); n > perHost {
				t.Errorf("%d calls at once to one that hangs", n)
			} else {
				wire += n
			}
			r.Answer(testkit.AnswerReset())
			r.CutConnections()
		}
		if wire < each {
			t.Errorf("only %d calls hung", wire)
		}
		b.deliver()
		testkit.WaitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() < 2*before+2*each })
	})
}

// guarantee R-22
func TestPoisonDoesNotHoldUpWhatCanBeDelivered(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		const hosts = 20
		poison, fine := size(50, 500), size(100, 1_000) // instances; a poisoned one calls each host
		var urls []string
		var bad []*testkit.WebhookReceiver
		for i := range hosts {
			r := testkit.Webhook(t)
			switch i % 4 {
			case 0:
				r.ResetConnections()
			case 1:
				r.Answer(testkit.AnswerReset())
			case 2:
				r.Answer(testkit.AnswerStatus(http.StatusInternalServerError))
			case 3:
				r.Answer(testkit.AnswerNever())
			}
			bad = append(bad, r)
			urls = append(urls, r.URL)
		}
		var good, again arrivals
		b.hooks.Answer(good.answer(testkit.AnswerStatus(http.StatusNoContent)))
		b.publish(callsTo("poison", 2, urls...))
		b.publish(callsTo("fine", 2, b.hooks.URL))
		b.known.Store("poison", true)
		b.known.Store("fine", true)
		each(poison, 8, func(int) { b.start(admin, "poison", `{}`) })
		var mu sync.Mutex
		started := map[string]time.Time{}
		each(fine, 8, func(int) {
			began := time.Now()
			id := b.start(admin, "fine", `{}`).ID
			mu.Lock()
			started[id] = began
			mu.Unlock()
		})
		began := time.Now()
		stop := b.running(b.svc)
		testkit.WaitForWithin(t, time.Minute, "the first attempts of the good ones", func() bool { return good.count() == fine })
		t.Logf("%d good ones within %s behind %d older poisoned ones", fine, time.Since(began).Round(time.Millisecond), poison*hosts)

		for i, r := range bad { // what hangs fails at once from now on: the test need not wait for time-outs
			if i%4 == 3 {
				r.Answer(testkit.AnswerReset())
				r.CutConnections()
			}
		}
		testkit.WaitForWithin(t, 5*time.Minute, "the poison to be dead", func() bool {
			b.pass(10 * time.Second)
			counts, err := b.svc.Counts(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			return counts.EffectsByStatus[string(fsm.EffectDead)]+counts.EffectsByStatus[string(fsm.EffectUnknown)] == poison*hosts
		})
		stop()
		for _, r := range bad {
			r.TakeConnections()
			r.Answer(again.answer(testkit.AnswerStatus(http.StatusNoContent)))
		}
		redriven := 0
		for {
			res, err := b.svc.Redrive(b.ctx, admin, RedriveRequest{Status: []fsm.EffectStatus{fsm.EffectDead, fsm.EffectUnknown}, Limit: 10_000, Reason: "they work again"}, Idempotency{})
			if err != nil {
				t.Fatal(err)
			}
			if redriven += res.Retried; !res.More {
				break
			}
		}
		b.running(b.svc)
		testkit.WaitForWithin(t, 5*time.Minute, "the poison to be delivered", func() bool { return again.count() == poison*hosts })
		b.deliver()
		for id, n := range again.n {
			if n != 1 {
				t.Errorf("%s was delivered %d times after the redrive", id, n)
			}
		}
		if redriven != poison*hosts {
			t.Errorf("%d of %d were redriven", redriven, poison*hosts)
		}
	})
}

func TestAnAttemptLeavesTheFastLaneWhenItLastsAndTheSlowLaneIsBounded(t *testing.T) {
	t.Parallel()
	l := newLanes(time.Now)
	flying := make([]*flight, 0, fastLane+slowLane)
	for range fastLane + slowLane {
		f := &flight{ClaimedEffect: store.ClaimedEffect{}}
		if room, _ := l.room(); room == 0 {
			t.Fatalf("no room after %d", len(flying))
		}
		if begins, refused := l.admit(f); !begins || refused {
			t.Fatal("it does not begin")
		}
		flying = append(flying, f)
		if len(flying) <= slowLane && !l.overtime(f) {
			t.Fatalf("number %d stays in the fast lane", len(flying))
		}
	}
	last := flying[len(flying)-1]
	if room, suspect := l.room(); room != 0 || suspect != 0 || l.overtime(last) {
		t.Errorf("there is room for %d when both lanes are full", room)
	}
	l.leave(flying[0], nil)
	if room, _ := l.room(); room != 1 || last.lane != inSlow {
		t.Errorf("room for %d after one has left, the one that waited is in %d", room, last.lane)
	}
}

func TestAHostHasItsShareAndThoseThatDoNotAnswerComeLast(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	l := newLanes(func() time.Time { return now })
	var all []*flight
	for range perHost + 3 {
		f := &flight{host: "a.example", claimed: now}
		begins, _ := l.admit(f)
		if begins != (len(all) < perHost) {
			t.Errorf("number %d begins: %v", len(all)+1, begins)
		}
		all = append(all, f)
	}
	next, _ := l.leave(all[0], &deliver.Outcome{Class: deliver.Success, Answered: true})
	if next != all[perHost] {
		t.Error("the one that waited longest does not begin")
	}
	now = now.Add(queuedFor + time.Second)
	next, stale := l.leave(all[1], &deliver.Outcome{Class: deliver.Retry})
	if next != nil || len(stale) != 2 {
		t.Errorf("%d are given back, %v begins", len(stale), next)
	}
	if _, suspects := l.shares(); !slices.Equal(suspects, []string{"a.example"}) {
		t.Errorf("suspect are %v", suspects)
	}
	l.leave(all[2], nil) // it never dialled, and says nothing
	now = now.Add(suspectFor)
	if _, suspects := l.shares(); len(suspects) != 0 {
		t.Errorf("still suspect: %v", suspects)
	}
	l.leave(all[3], &deliver.Outcome{Class: deliver.Retry})
	l.leave(all[4], &deliver.Outcome{Class: deliver.Permanent, Answered: true})
	if _, suspects := l.shares(); len(suspects) != 0 {
		t.Errorf("suspect although it answers: %v", suspects)
	}
}

func TestAClaimLeavesOutTheLatestSuspectsAndTheyAreForgottenLast(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	l := newLanes(func() time.Time { return now })
	for i := range hostsKept + 1 {
		f := &flight{host: fmt.Sprintf("h%04d.example", i), claimed: now}
		l.admit(f)
		out := &deliver.Outcome{Class: deliver.Permanent, Answered: true}
		if i > hostsKept-avoided-100 {
			now, out = now.Add(time.Millisecond), &deliver.Outcome{Class: deliver.Retry}
		}
		l.leave(f, out)
		l.ended(f)
	}
	_, suspects := l.shares()
	if len(suspects) != avoided || suspects[0] != fmt.Sprintf("h%04d.example", hostsKept) {
		t.Errorf("%d are left out, the first %s", len(suspects), suspects[0])
	}
	if len(l.hosts) > hostsKept {
		t.Errorf("%d hosts are remembered", len(l.hosts))
	}
}
