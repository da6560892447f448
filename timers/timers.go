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

	"vobo/internal/approval"
)

const (
	sweepBatch  = 500
	pruneBatch  = 5_000
	recoverEach = "@every 5s"
	pruneEach   = "@every 10m"
	reloadEach  = "@every 3s"
	dispatchMin = "@every 1s"
	dispatchGap = 10 * time.Millisecond
)

// Config says how often.
type Config struct {
	SweepEvery time.Duration
	Reload     func() error // takes up a changed key ring; nil: none
	Log        *slog.Logger
}

// Timers are the running loops.
type Timers struct {
	cfg  Config
	svc  *approval.Service
	cron *cron.Cron
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	sweep, dispatch, recoverNow, prune chan struct{}
}

// Start begins the loops; each runs its passes one after another.
func Start(svc *approval.Service, cfg Config) (*Timers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Timers{
		cfg: cfg, svc: svc, cron: cron.New(), ctx: ctx, stop: cancel,
		sweep: make(chan struct{}, 1), dispatch: make(chan struct{}, 1),
		recoverNow: make(chan struct{}, 1), prune: make(chan struct{}, 1),
	}
	for spec, wake := range map[string]chan struct{}{
		recoverEach: t.recoverNow, pruneEach: t.prune, dispatchMin: t.dispatch,
	} {
		if _, err := t.cron.AddFunc(spec, nudge(wake)); err != nil {
			cancel()
			return nil, err
		}
	}
	if cfg.SweepEvery <= 0 {
		cancel()
		return nil, fmt.Errorf("VOBO_SWEEP_EVERY must be more than nothing, not %s", cfg.SweepEvery)
	}
	t.cron.Schedule(every(cfg.SweepEvery), cron.FuncJob(nudge(t.sweep)))
	if cfg.Reload != nil {
		if _, err := t.cron.AddFunc(reloadEach, t.reload); err != nil {
			cancel()
			return nil, err
		}
	}
	t.work.Go(func() { t.loop("sweep", t.sweep, t.sweepAll) })
	t.work.Go(func() { t.loop("dispatch", t.dispatch, t.dispatchAll) })
	t.work.Go(func() { t.loop("recover", t.recoverNow, func() error { _, err := svc.RecoverOnce(ctx); return err }) })
	t.work.Go(func() {
		t.loop("prune", t.prune, func() error { _, err := svc.PruneOnce(ctx, pruneBatch); return err })
	})
	t.work.Go(t.relayWakes)
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

func nudge(wake chan struct{}) func() {
	return func() {
		select {
		case wake <- struct{}{}:
		default: // a pass is asked for already
		}
	}
}

// loop runs a pass whenever it is woken; a failing pass is reported and the loop goes on.
func (t *Timers) loop(name string, wake <-chan struct{}, pass func() error) {
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-wake:
			if err := pass(); err != nil && t.ctx.Err() == nil {
				t.cfg.Log.Error("a pass failed; the next one tries again", "loop", name, "error", err)
			}
		}
	}
}

// sweepAll fires what is due until nothing is left. Replicas start at different offsets.
func (t *Timers) sweepAll() error {
	offset := rand.IntN(2) * sweepBatch
	for t.ctx.Err() == nil {
		fired, err := t.svc.SweepOnce(t.ctx, sweepBatch, offset)
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

// dispatchAll leases what is due as far as senders are free; a sender that becomes
// free wakes it again.
func (t *Timers) dispatchAll() error {
	_, err := t.svc.DispatchOnce(t.ctx)
	return err
}

// relayWakes starts a dispatch at once when effects were committed; the next ones
// within dispatchGap share one.
func (t *Timers) relayWakes() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.svc.Woken():
			nudge(t.dispatch)()
		}
		gap := time.NewTimer(dispatchGap)
		select {
		case <-t.ctx.Done():
			gap.Stop()
			return
		case <-gap.C:
		}
	}
}

func (t *Timers) reload() {
	if err := t.cfg.Reload(); err != nil {
		t.cfg.Log.Error("the key ring could not be read again; the one in memory stays", "error", err)
	}
}
