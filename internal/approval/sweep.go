package approval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// SweepOnce reads due deadlines without a lock and offers them as events; the
// committer locks their instances and Plan checks again. It returns how many fired.
// offset spreads replicas that sweep at the same time.
func (s *Service) SweepOnce(ctx context.Context, limit, offset int) (int, error) {
	due, err := s.store.DueDeadlines(ctx, limit, offset)
	if err != nil {
		return 0, err
	}
	var (
		mu    sync.Mutex
		errs  []error
		fired int
		work  sync.WaitGroup
		slots = make(chan struct{}, 2*batchSize)
	)
	for _, d := range due {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			err := s.fireDeadline(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				fired++
			} else if fault.CodeOf(err) != fault.Conflict { // another replica was first
				errs = append(errs, err)
			}
		})
	}
	work.Wait()
	return fired, errors.Join(errs...)
}

func (s *Service) fireDeadline(ctx context.Context, d store.DueDeadline) error {
	ev, err := s.newEvent(fsm.KindDeadline, d.Instance)
	if err != nil {
		return err
	}
	ev.Actor, ev.Assurance = fsm.Actor{Kind: fsm.ActorTimer, ID: "timer"}, fsm.ByEngine
	ev.Deadline = &d.Ref
	job := &store.Job{Event: ev}
	if _, err = s.fire(ctx, job); err == nil {
		s.metrics.lateness(job.Now.Sub(d.DueAt))
		return nil
	}
	switch fault.CodeOf(err) {
	case fault.Conflict, fault.NotFound, fault.Unavailable, fault.Suspended:
		return err
	}
	s.log.Error("a deadline could not fire", "instance", d.Instance, "deadline", d.Ref, "error", err)
	if ferr := s.store.DeadlineFailed(ctx, d.Instance, d.Ref, deadlineBackoff); ferr != nil {
		return errors.Join(err, ferr)
	}
	return errors.Join(err, s.quarantine(ctx, d.Instance, deadlineRef(d.Ref), err))
}

// deadlineBackoff is how long a deadline that failed waits before it is offered again.
const deadlineBackoff = 5 * time.Minute

// quarantine raises attention for an event of the engine that failed, once per ref.
func (s *Service) quarantine(ctx context.Context, instance, ref string, cause error) error {
	ev, err := s.newEvent(fsm.KindQuarantine, instance)
	if err != nil {
		return err
	}
	ev.Actor, ev.Assurance = fsm.Actor{Kind: fsm.ActorTimer, ID: "timer"}, fsm.ByEngine
	ev.Name, ev.Reason = ref, fault.As(cause).Message
	_, err = s.fire(ctx, &store.Job{Event: ev})
	if fault.CodeOf(err) == fault.Conflict {
		return nil
	}
	return err
}

// deadlineRef names a deadline's occurrence in an attention.
func deadlineRef(d fsm.DeadlineRef) string {
	return fmt.Sprintf("deadline %d-%d-%d", d.Seq, d.N, d.Occurrence)
}

// failedDeadline is the deadline whose event last failed; nil where none did.
func failedDeadline(all []fsm.Attention) *fsm.DeadlineRef {
	for i := len(all) - 1; i >= 0; i-- {
		var d fsm.DeadlineRef
		if n, err := fmt.Sscanf(all[i].Ref, "deadline %d-%d-%d", &d.Seq, &d.N, &d.Occurrence); err == nil && n == 3 && all[i].Reason == "quarantine" {
			return &d
		}
	}
	return nil
}

// PruneOnce removes what has expired; it returns how many rows.
func (s *Service) PruneOnce(ctx context.Context, limit int) (int, error) {
	return s.store.Prune(ctx, limit)
}
