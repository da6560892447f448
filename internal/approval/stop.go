package approval

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const stopAgain = time.Second // until a starter has seen that its parent went on

// stopChildren cancels the live children that start effects of one wait made, chunk by
// chunk, until none is left. Those whose cancel is refused are left to the next attempt,
// and in the end to a person.
func (s *Service) stopChildren(ctx context.Context, f *flight) report {
	stop, stopped := f.frozen.Stop, 0
	ctx, cancel := context.WithTimeout(ctx, startFor+engineRetry-max(s.elapsed(f.claimed), 0))
	defer cancel()
	refused := map[string]string{} // why, by child
	for !s.outbox.stopping() && s.elapsed(f.claimed) <= startFor {
		starting, err := s.store.StartsUnderWay(ctx, f.Instance, stop.Wait)
		if err != nil {
			return s.ourFault(f, err)
		}
		live, err := s.store.LiveChildren(ctx, f.Instance, stop.Wait, childrenAtOnce+len(refused))
		if err != nil {
			return s.ourFault(f, err)
		}
		live = slices.DeleteFunc(live, func(child string) bool { return refused[child] != "" })
		switch {
		case len(live) > 0:
			stopped += s.cancelAll(ctx, f, live, refused)
		case starting:
			s.outbox.pause(ctx, stopAgain)
		case len(refused) > 0:
			return notStopped(refused)
		default:
			return succeeded(map[string]any{"cancelled": numberTree(stopped)}, "%d children were cancelled.", stopped)
		}
	}
	return onward(0, "%d are cancelled; it goes on.", stopped)
}

// pause waits for d, or until ctx ends or the service stops.
func (o *outbox) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-o.closing:
	}
}

// notStopped is the report of an attempt after which only children live whose cancel is refused.
func notStopped(refused map[string]string) report {
	first := slices.Min(slices.Collect(maps.Keys(refused)))
	return reportOf(deliver.Outcome{Class: deliver.Retry, Answered: true, Detail: fmt.Sprintf(
		"%d children could not be cancelled, among them %s: %s Put them right, then try this again.", len(refused), first, refused[first])})
}

// cancelAll cancels children; it tells how many of them are over and adds to refused those
// that cannot be cancelled.
func (s *Service) cancelAll(ctx context.Context, f *flight, children []string, refused map[string]string) (over int) {
	var (
		mu   sync.Mutex
		work sync.WaitGroup
	)
	for _, child := range children {
		if !s.outbox.mayStart(ctx) {
			break
		}
		work.Go(func() {
			defer func() { <-s.outbox.starting }()
			err := s.cancelChild(ctx, f, child)
			if err != nil && ctx.Err() != nil { // its turn did not come
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				over++
				return
			}
			s.log.Warn("a child could not be cancelled; it is tried again", "instance", child, "parent", f.Instance, "error", err)
			refused[child] = inWords(fault.As(err))
		})
	}
	work.Wait()
	return over
}

// cancelChild cancels one child, unless it is over by itself.
func (s *Service) cancelChild(ctx context.Context, f *flight, child string) error {
	ev, err := s.newEvent(fsm.KindCancel, child)
	if err != nil {
		return err
	}
	ev.Actor = fsm.Actor{Kind: fsm.ActorEffect, ID: "effect:" + f.Name}
	ev.Assurance, ev.Reason = fsm.ByEngine, f.frozen.Stop.Reason
	job := &store.Job{Event: ev}
	if err := s.submit(ctx, job); err != nil {
		return err
	}
	if refusal := job.Step.Refusal; refusal != nil && refusal.Code != fault.Conflict {
		return refusal
	}
	return nil
}
