// Package timers is the edge that says when to sweep, dispatch, recover and prune;
// never what. robfig/cron only wakes the loops: a missed tick loses nothing, since
// each pass looks at what is due in the database.
package timers

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	"golang.org/x/time/rate"

	"vobo/internal/approval"
)

const (
	sweepBatch = 500
	pruneBatch = 5_000
	joinBatch  = 500
	callBatch  = 200

	lookEach    = "@every 1s" // for what is due although nobody said so
	recoverEach = "@every 5s"
	callsEach   = "@every 5s"
	alertEach   = "@every 1m"
	pruneEach   = "@every 10m"
	reloadEach  = "@every 3s"

	wakeBurst = 16 // passes in a row; after that commits share passes
)

// Reload takes up a file that changed.
type Reload struct {
	Name string // for the log: "key ring"
	Do   func() error
}

// Config says how often.
type Config struct {
	SweepEvery time.Duration
	Reload     []Reload // every 3 seconds; one that fails leaves what is in memory
	Log        *slog.Logger
}

// passes is the work of one service, each a bounded batch that returns how much it found.
type passes struct {
	sweep    func(ctx context.Context, limit, offset int) (int, error)
	dispatch func(context.Context) (int, error)
	feed     func(context.Context) (int, error)
	join     func(ctx context.Context, limit int) (int, error)
	calls    func(ctx context.Context, limit int) (int, error)
	restore  func(context.Context) (int, error)
	prune    func(ctx context.Context, limit int) (int, error)
	alert    func(context.Context) error
	woken    <-chan struct{}
}

// Timers are the running loops.
type Timers struct {
	cfg  Config
	do   passes
	cron *cron.Cron
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
}

// Start begins the loops; each runs its passes one after another.
func Start(svc *approval.Service, cfg Config) (*Timers, error) {
	return start(passes{
		sweep: svc.SweepOnce, dispatch: svc.DispatchOnce, feed: svc.FeedOnce, join: svc.JoinOnce, calls: svc.LookForCalls,
		restore: svc.RecoverOnce, prune: svc.PruneOnce, alert: svc.AlertOnce, woken: svc.Woken(),
	}, cfg)
}

func start(do passes, cfg Config) (*Timers, error) {
	if cfg.SweepEvery <= 0 {
		return nil, fmt.Errorf("VOBO_SWEEP_EVERY must be more than nothing, not %s", cfg.SweepEvery)
	}
	t := &Timers{cfg: cfg, do: do, cron: cron.New()}
	t.ctx, t.stop = context.WithCancel(context.Background())
	reload := reloader{log: cfg.Log, all: cfg.Reload, said: map[string]string{}}
	onWake := []func(){}
	t.cron.Schedule(every(cfg.SweepEvery), cron.FuncJob(t.loop("sweep", 0, t.sweepAll)))
	for _, l := range []struct {
		name, each string
		gap        time.Duration // more than 0: commits wake it too, and under load they share a pass every gap
		pass       func() error
	}{
		{"dispatch", lookEach, 10 * time.Millisecond, func() error { _, err := do.dispatch(t.ctx); return err }},
		{"feed", lookEach, 25 * time.Millisecond, func() error { _, err := do.feed(t.ctx); return err }},
		{"join", lookEach, 50 * time.Millisecond, func() error { return t.untilNone(joinBatch, do.join) }},
		{"calls", callsEach, 0, func() error { return t.untilNone(callBatch, do.calls) }},
		{"recover", recoverEach, 0, func() error { _, err := do.restore(t.ctx); return err }},
		{"alert", alertEach, 0, func() error { return do.alert(t.ctx) }},
		{"prune", pruneEach, 0, func() error { return t.untilNothing(pruneBatch, do.prune) }},
		{"reload", reloadEach, 0, reload.pass},
	} {
		nudge := t.loop(l.name, l.gap, l.pass)
		if _, err := t.cron.AddFunc(l.each, nudge); err != nil {
			t.Stop()
			return nil, err
		}
		if l.gap > 0 {
			onWake = append(onWake, nudge)
		}
	}
	t.work.Go(func() { t.relayWakes(onWake) })
	t.cron.Start()
	return t, nil
}

// Stop begins nothing new and waits for the passes under way.
func (t *Timers) Stop() {
	<-t.cron.Stop().Done()
	t.stop()
	t.work.Wait()
}

// every is a schedule of any length; cron's own rounds to whole seconds.
type every time.Duration

// Next implements cron.Schedule.
func (e every) Next(now time.Time) time.Time { return now.Add(time.Duration(e)) }

// loop runs a pass whenever it is nudged; a failing pass is reported and the loop goes on.
// Nudges while a pass runs, or while a gap lasts, ask for one more. The gap counts only
// after wakeBurst passes in a row.
func (t *Timers) loop(name string, gap time.Duration, pass func() error) (nudge func()) {
	wake, pace := make(chan struct{}, 1), rate.NewLimiter(rate.Inf, 0)
	if gap > 0 {
		pace = rate.NewLimiter(rate.Every(gap), wakeBurst)
	}
	t.work.Go(func() {
		for pace.Wait(t.ctx) == nil {
			select {
			case <-t.ctx.Done():
				return
			case <-wake:
				if err := pass(); err != nil && t.ctx.Err() == nil {
					t.cfg.Log.Error("a pass failed; the next one tries again", "loop", name, "error", err)
				}
			}
		}
	})
	return func() {
		select {
		case wake <- struct{}{}:
		default: // a pass is asked for already
		}
	}
}

// sweepAll fires what is due until nothing is left. Replicas start at different offsets.
func (t *Timers) sweepAll() error {
	offset := rand.IntN(2) * sweepBatch
	for t.ctx.Err() == nil {
		fired, err := t.do.sweep(t.ctx, sweepBatch, offset)
		if err != nil {
			return err
		}
		if fired == 0 && offset == 0 {
			return nil
		}
		if fired == 0 {
			offset = 0
		}
	}
	return nil
}

// untilNone repeats a pass as long as it finds whole batches.
func (t *Timers) untilNone(batch int, pass func(context.Context, int) (int, error)) error {
	for t.ctx.Err() == nil {
		if n, err := pass(t.ctx, batch); err != nil || n < batch {
			return err
		}
	}
	return nil
}

// untilNothing repeats a pass until one finds nothing.
func (t *Timers) untilNothing(batch int, pass func(context.Context, int) (int, error)) error {
	for t.ctx.Err() == nil {
		if n, err := pass(t.ctx, batch); err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// relayWakes starts passes at once when a commit asks for them.
func (t *Timers) relayWakes(nudges []func()) {
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.do.woken:
			for _, nudge := range nudges {
				nudge()
			}
		}
	}
}

// reloader takes up changed files. A file that cannot be read is told once, not at every look.
type reloader struct {
	log  *slog.Logger
	all  []Reload
	said map[string]string // by name, what is wrong with it
}

func (r *reloader) pass() error {
	for _, one := range r.all {
		text := ""
		if err := one.Do(); err != nil {
			text = err.Error()
		}
		switch before := r.said[one.Name]; {
		case text == before:
		case text != "":
			r.log.Error("the "+one.Name+" could not be read again; what is in memory stays", "error", text)
		default:
			r.log.Info("the " + one.Name + " can be read again")
		}
		r.said[one.Name] = text
	}
	return nil
}
