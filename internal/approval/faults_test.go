package approval

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

var errCrash = errors.New("crashed here")

// breaker makes a process fail at one point of the store: the first times it comes
// there, or, as a process that has crashed, for ever.
type breaker struct {
	mu    sync.Mutex
	point string
	left  int
	hit   int
}

const forever = 1 << 30

func (k *breaker) arm(point string, times int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.point, k.left, k.hit = point, times, 0
}

func (k *breaker) fail(point string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if point != k.point || k.left == 0 {
		return nil
	}
	k.left--
	k.hit++
	return errCrash
}

func (k *breaker) hits() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hit
}

var commitPoints = []string{store.PointBegin, store.PointLocked, store.PointRead, store.PointPlanned, store.PointWritten, store.PointCommitted}

// guarantee R-03: the points of a decision and of a start
func TestACrashAtAnyPointOfACommitLeavesNothingOrEverything(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		rounds := size(50, 200)
		b.need("duel")
		rosa := b.as("rosa@example.com")
		var k breaker
		faulty, _, stop := b.process(nil, k.fail)
		defer stop()
		var wrong tally
		for _, point := range commitPoints {
			ids := b.duels(rounds)
			ana, _ := b.links(ids)
			more := b.duels(rounds)
			for i := range rounds {
				times := []int{1, forever}[i%2]
				b.crashedDecision(faulty, &k, point, times, ids[i], ana[i], &wrong)
				b.crashedStart(faulty, &k, point, times, rosa, fmt.Sprintf("%s-%d", point, i), &wrong)
				b.crashedRaise(faulty, &k, point, more[i], &wrong)
			}
		}
		wrong.check(t, "R-03 events and starts half done or done twice", 3*rounds*len(commitPoints))
	})
}

// crashedDecision decides through a process that fails at a point, looks at what it
// left and lets the client try again at a healthy one.
func (b *bundle) crashedDecision(faulty *Service, k *breaker, point string, times int, id, link string, wrong *tally) {
	b.t.Helper()
	k.arm(point, times)
	res, err := faulty.DecideByToken(b.ctx, link, RoutePage, RaiseRequest{Event: "approve"}, Caller{})
	hit := k.hits()
	k.arm("", 0)
	rows, tells := len(b.history(id)), b.named(id, "tell_approved")
	if hit == 0 || times == 1 && err != nil || (rows-1) != tells || rows > 2 || err == nil && rows != 2 {
		wrong.add("%s ×%d: hit %d, %d rows, %d effects, answer %v", point, times, hit, rows, tells, err)
	}
	again, aerr := b.decide(link, RoutePage, RaiseRequest{Event: "approve"})
	if aerr != nil || again.Replayed != (rows == 2) {
		wrong.add("%s ×%d again: %+v, %v", point, times, again, aerr)
		return
	}
	if err == nil && res.Transition.Hash != again.Transition.Hash {
		wrong.add("%s ×%d: the retry gives another answer", point, times)
	}
	if len(b.history(id)) != 2 || b.named(id, "tell_approved") != 1 {
		wrong.add("%s ×%d: after the retry %v", point, times, b.states(id))
	}
}

// crashedRaise loses an answer once, to a caller who has no key to try again with: the
// service finds by itself what it had written, and gives the first answer.
func (b *bundle) crashedRaise(faulty *Service, k *breaker, point, id string, wrong *tally) {
	b.t.Helper()
	k.arm(point, 1)
	res, err := faulty.Raise(b.ctx, b.as("bea@example.com"), id, RaiseRequest{Event: "reject"})
	k.arm("", 0)
	if err != nil || res.Instance.State != "rejected" || len(b.history(id)) != 2 || b.named(id, "tell_rejected") != 1 {
		wrong.add("%s by session: %+v, %v, %v", point, res, err, b.states(id))
	}
}

// crashedStart is crashedDecision for a start with an Idempotency-Key.
func (b *bundle) crashedStart(faulty *Service, k *breaker, point string, times int, c Caller, key string, wrong *tally) {
	b.t.Helper()
	r := StartRequest{Definition: "duel", Data: map[string]any{"title": key}, Idem: idem(key, "POST /v1/instances", key)}
	k.arm(point, times)
	res, err := faulty.Start(b.ctx, c, r)
	k.arm("", 0)
	again, aerr := b.svc.Start(b.ctx, c, r)
	if times == 1 && err != nil || aerr != nil || err == nil && (!again.Replayed || again.bytes() != res.bytes()) {
		wrong.add("start %s ×%d: %v, then %+v, %v", point, times, err, again, aerr)
		return
	}
	third, err := b.svc.Start(b.ctx, c, r)
	if err != nil || !third.Replayed || third.bytes() != again.bytes() {
		wrong.add("start %s ×%d, a third time: %+v, %v", point, times, third, err)
	}
	var started string
	if err := jsonInto(third.Raw, &started); err != nil {
		wrong.add("start %s: %v", point, err)
		return
	}
	if rows := b.history(started); len(rows) != 1 {
		wrong.add("start %s ×%d: %d rows", point, times, len(rows))
	}
}

var outboxPoints = []string{
	store.PointClaim, store.PointClaimCommitted, store.PointStart, store.PointStartCommitted,
	store.PointFinish, store.PointFinishWritten, store.PointFinishCommit, store.PointRelease,
}

// guarantee R-03: the points of the outbox; D4: a copy needs an attempt of unknown end
func TestACrashAtAnyPointOfTheOutboxLosesNothingAndExplainsEveryCopy(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		rounds, batch := size(4, 20), 8 // of one idempotent and one other effect each
		rosa := b.as("rosa@example.com")
		var wrong tally
		for _, point := range outboxPoints {
			for round := range rounds {
				var ids []string
				for i := range batch {
					ids = append(ids, b.start(rosa, "notes", fmt.Sprintf(`{"title":"%s %d %d"}`, point, round, i)).ID)
				}
				b.crashedOutbox(t, point, &wrong)
				b.settle(t)
				b.explained(ids, point, &wrong)
			}
		}
		wrong.check(t, "R-03 effects lost, or copied without an attempt of unknown end", 2*rounds*batch*len(outboxPoints))
	})
}

// crashedOutbox lets a process send until it fails at a point and is gone.
func (b *bundle) crashedOutbox(t *testing.T, point string, wrong *tally) {
	t.Helper()
	var k breaker
	k.arm(point, forever)
	faulty, _, stop := b.process(nil, k.fail)
	passes := 2
	if point == store.PointRelease {
		passes = 1 // the second one is stopped while effects wait for their place at the receiver
	}
	for range passes {
		if _, err := faulty.DispatchOnce(b.ctx); err != nil && !errors.Is(err, errCrash) {
			wrong.add("%s: %v", point, err)
		}
		testkit.WaitFor(t, "the attempts of the process that fails to end", func() bool {
			faulty.outbox.mu.Lock()
			defer faulty.outbox.mu.Unlock()
			return len(faulty.outbox.running) == 0
		})
	}
	if point == store.PointRelease {
		b.stopWithAQueue(t, faulty, stop)
	} else {
		stop()
	}
	if k.hits() == 0 {
		wrong.add("%s was never reached", point)
	}
}

// stopWithAQueue stops a process whose receiver holds every answer back until then.
func (b *bundle) stopWithAQueue(t *testing.T, svc *Service, stop func()) {
	t.Helper()
	held := make(chan struct{})
	hold := func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
		<-held
		testkit.AnswerJSON(http.StatusOK, `{"id":"x1"}`)(w, r, c)
	}
	b.answer("/note", hold)
	b.answer("/once", hold)
	svc.outbox.lanes.mu.Lock()
	svc.outbox.lanes.at(strings.TrimPrefix(b.hooks.URL, "http://")).pace = time.Millisecond // so that much is leased ahead
	svc.outbox.lanes.mu.Unlock()
	if _, err := svc.DispatchOnce(b.ctx); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	testkit.WaitFor(t, "the stop to begin", svc.outbox.stopping)
	close(held)
	<-stopped
}

// settle takes over what a process left: leases run out, what may not be repeated is
// unknown and resolved by a person.
func (b *bundle) settle(t *testing.T) {
	t.Helper()
	b.pass(lease + time.Second)
	if _, err := b.svc.RecoverOnce(b.ctx); err != nil {
		t.Fatalf("recover: %v", err)
	}
	for range 3 {
		b.deliver()
		b.pass(time.Minute)
	}
}

// explained checks that every effect was delivered, or is known to be of unknown end,
// and that there are no more copies than attempts of unknown end.
func (b *bundle) explained(ids []string, point string, wrong *tally) {
	b.t.Helper()
	copies := map[string]int{}
	for _, c := range b.hooks.Calls() {
		copies[c.Header.Get("webhook-id")]++
	}
	for _, id := range ids {
		for _, e := range b.effects(id) {
			if e.Kind != kindWebhook {
				continue
			}
			unknown := 0
			for _, a := range e.Attempts {
				if a.Outcome == "unknown" || a.Outcome == "started" {
					unknown++
				}
			}
			n := copies[e.Key]
			switch {
			case e.Status == fsm.EffectSucceeded && n >= 1 && n-1 <= unknown:
			case e.Status == fsm.EffectUnknown && !e.Idempotent && n <= 1:
			default:
				wrong.add("%s: %s is %s after %d copies and attempts %+v", point, e.Name, e.Status, n, e.Attempts)
			}
		}
	}
}

// http-api.md: what is refused by a stop is refused before it is written.
func TestAStoppingServiceFinishesWhatItTookAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		const n = 200
		ids := b.duels(n)
		ana, _ := b.links(ids)
		svc, _, stop := b.process(nil, nil)
		errs := make([]error, n)
		var decided atomic.Int32
		var stopped sync.WaitGroup
		once := sync.OnceFunc(func() { stopped.Go(stop) })
		each(n, 16, func(i int) {
			if decided.Load() > n/4 {
				once()
			}
			defer decided.Add(1)
			_, errs[i] = svc.DecideByToken(b.ctx, ana[i], RoutePage, RaiseRequest{Event: "approve"}, Caller{})
		})
		once()
		stopped.Wait()
		var wrong tally
		outcomes := b.outcomes(b.raw())
		done := 0
		for i, id := range ids {
			if errs[i] == nil {
				done++
			}
			if (errs[i] == nil) != (outcomes[id].state == "approved") {
				wrong.add("%s: %v", outcomes[id].state, errs[i])
			}
		}
		t.Logf("%d of %d were taken", done, n)
		wrong.check(t, "R-29 answers that do not agree with the database", n)
	})
}

// field report B66
func TestManyClientsSweeperAndOutboxOnSQLiteLoseNothing(t *testing.T) {
	t.Parallel()
	const clients, each = 50, 10
	b := newBundle(t, testkit.SQLite(t))
	b.need("duel")
	rosa := b.as("rosa@example.com")
	done := make(chan struct{})
	var beside sync.WaitGroup
	var wrong tally
	loop := func(f func() error) {
		beside.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					wrong.add("beside: %v", err)
					return
				}
			}
		})
	}
	loop(func() error { _, err := b.svc.SweepOnce(b.ctx, 100, 0); return err })
	loop(func() error { _, err := b.svc.DispatchOnce(b.ctx); return err })
	loop(func() error { // an export that reads everything
		_, err := b.svc.Instances(b.ctx, admin, store.InstanceFilter{}, store.Paging{Limit: 500})
		return err
	})
	together(clients, func(i int) {
		for n := range each {
			res, err := b.svc.Start(b.ctx, rosa, StartRequest{Definition: "duel", Data: map[string]any{"title": fmt.Sprint(i, n)}})
			if err != nil {
				wrong.add("start: %v", err)
				continue
			}
			infos, err := b.store.Assignees(b.ctx, res.View.ID)
			if err != nil || len(infos) != 2 {
				wrong.add("assignees: %d, %v", len(infos), err)
				continue
			}
			if _, err := b.decide(b.svc.mint(res.View.ID, &infos[n%2].Assignee), routes[n%2], RaiseRequest{Event: []string{"approve", "reject"}[n%2]}); err != nil {
				wrong.add("decision: %v", err)
			}
		}
	})
	close(done)
	beside.Wait()
	b.deliver()
	for id, o := range b.outcomes(b.raw()) {
		if o.rows != 1 || o.effects != 1 {
			wrong.add("%s: %+v", id, o)
		}
	}
	counts := b.query(b.raw(), `SELECT (SELECT count(*) FROM instances), (SELECT count(*) FROM transitions),
		(SELECT count(*) FROM effects WHERE kind = 'email'), (SELECT count(*) FROM effects WHERE status NOT IN ('succeeded', 'cancelled'))`)[0]
	if want := fmt.Sprintf("%d|%d|%d|0", clients*each, 2*clients*each, clients*each); counts != want {
		t.Errorf("instances, history rows, effects, unsent: %s, want %s", counts, want)
	}
	wrong.check(t, "B66 starts and decisions lost or failed", clients*each)
}
