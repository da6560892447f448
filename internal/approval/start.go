package approval

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	childrenAtOnce = 64               // being started at one moment, of all effects
	startFor       = 20 * time.Second // of one lease, which also outlasts a commit in the slow lane; what is left goes on with the next
	engineRetry    = 5 * time.Second  // where this service, and no receiver, was at fault
	maxDepth       = 16               // of children of children
)

// startChildren starts what a start effect's list still lacks, chunk by chunk. Each
// child is an event of its own under an id and a claim made of the effect's key and the
// child's place: however often and by how many it is tried, it happens once.
func (s *Service) startChildren(ctx context.Context, f *flight) report {
	start, of := f.frozen.Start, store.StartEffect{Parent: f.Instance, EffectID: f.EffectID}
	if start.Depth > maxDepth {
		return dead("Children of children may go %d deep; this would be %d. Start the process from its beginning instead.", maxDepth, start.Depth)
	}
	if len(start.Items) == 0 {
		return emptyStart(start)
	}
	ctx, cancel := context.WithTimeout(ctx, startFor+engineRetry-max(s.elapsed(f.claimed), 0))
	defer cancel()
	if f.Attempt == 1 { // the first, or an operator's: what was refused is tried again
		if err := s.store.ForgetRefused(ctx, of); err != nil {
			return s.ourFault(f, err)
		}
	}
	known, err := s.store.StartedChildren(ctx, of)
	if err != nil {
		return s.ourFault(f, err)
	}
	missing := make([]int, 0, len(start.Items)-min(len(known), len(start.Items)))
	for i := range start.Items {
		if _, there := known[i]; !there {
			missing = append(missing, i)
		}
	}
	for {
		if stands, err := s.stands(ctx, &f.ClaimedEffect, start.Detach); err != nil {
			return s.ourFault(f, err)
		} else if !stands {
			return goneOn()
		}
		if len(missing) == 0 {
			return s.allStarted(ctx, f, of)
		}
		if s.outbox.stopping() || s.elapsed(f.claimed) > startFor {
			return onward(0, "%d of %d are started; it goes on.", len(start.Items)-len(missing), len(start.Items))
		}
		chunk := missing[:min(childrenAtOnce, len(missing))]
		if rep := s.startChunk(ctx, f, chunk); rep != nil {
			return *rep
		}
		missing = missing[len(chunk):]
	}
}

// goneOn is the report of a start effect whose parent has left its wait, or is cancelled.
func goneOn() report {
	return report{Outcome: deliver.Outcome{Class: deliver.Permanent, Detail: "The instance has gone on: nothing more is started."}, gone: true}
}

// startChunk starts some children at once. nil: each of them is started or refused.
func (s *Service) startChunk(ctx context.Context, f *flight, places []int) *report {
	var (
		mu    sync.Mutex
		work  sync.WaitGroup
		first *report
	)
	keep := func(rep *report) {
		mu.Lock()
		defer mu.Unlock()
		if rep != nil && (first == nil || first.Class == deliver.Retry) {
			first = rep
		}
	}
	for _, place := range places {
		if !s.outbox.mayStart(ctx) {
			rep := onward(0, "Some are started; it goes on.")
			keep(&rep)
			break
		}
		work.Go(func() {
			defer func() { <-s.outbox.starting }()
			keep(s.startChild(ctx, f, place))
		})
	}
	work.Wait()
	return first
}

// mayStart waits for a place to start or cancel a child, which is given back by reading
// from starting; false when ctx ends or the service stops.
func (o *outbox) mayStart(ctx context.Context) bool {
	select {
	case o.starting <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-o.closing:
	}
	return false
}

// startChild starts one child. nil: it is started, or refused and kept as such.
func (s *Service) startChild(ctx context.Context, f *flight, place int) *report {
	job, err := s.childJob(ctx, f, place)
	if errors.Is(err, errNoDefinition) {
		rep := dead("There is no published definition %s. Publish it, then try this effect again.", nameOf(f.frozen.Start))
		return &rep
	}
	if err == nil {
		// No child may be committed after the attempt: a stop waits for its lease, then lists the children.
		err = s.committer.see(ctx, job)
	}
	if err == nil {
		err = job.Err
	}
	if err == nil && job.Lost == nil && isInternal(job.Step.Refusal) {
		rep := s.theirFault(f, job.Step.Refusal)
		return &rep
	}
	if err == nil {
		if why := refusedChild(job); why != "" {
			err = s.store.RefuseChild(ctx, store.StartEffect{Parent: f.Instance, EffectID: f.EffectID}, place, why)
		}
	}
	if err != nil {
		rep := s.ourFault(f, err)
		return &rep
	}
	return nil
}

// submit takes one event down the road; the caller looks into job. An error is this
// service's or its database's fault: the same may be offered again.
func (s *Service) submit(ctx context.Context, job *store.Job) error {
	if err := s.committer.do(ctx, job); err != nil {
		return err
	}
	return job.Err
}

// refusedChild says why a child was not started; "" where it was, now or before.
func refusedChild(job *store.Job) string {
	switch {
	case job.Lost != nil && job.Lost.Kind == store.ClaimBusinessKey && job.Lost.Instance != job.Event.Instance:
		return fmt.Sprintf("There is a live instance with this key already: %s.", job.Lost.Instance)
	case job.Lost == nil && job.Step.Refusal != nil:
		return inWords(job.Step.Refusal)
	}
	return ""
}

var errNoDefinition = errors.New("the definition is not published")

func nameOf(start *fsm.FrozenStart) string {
	if start.Version == 0 {
		return start.Definition
	}
	return fmt.Sprintf("%s version %d", start.Definition, start.Version)
}

// childJob is the event that starts a child.
func (s *Service) childJob(ctx context.Context, f *flight, place int) (*store.Job, error) {
	start := f.frozen.Start
	d, err := s.planner.Definition(ctx, start.Definition, start.Version)
	if fault.CodeOf(err) == fault.NotFound {
		return nil, errNoDefinition
	}
	if err != nil {
		return nil, err
	}
	ev, err := s.newEvent(fsm.KindStart, "")
	if err != nil {
		return nil, err
	}
	ev.ID = derivedID(f, strconv.Itoa(place))
	ev.Instance, ev.Assurance = ev.ID, fsm.ByEngine
	ev.Actor = fsm.Actor{Kind: fsm.ActorEffect, ID: "effect:" + f.Name}
	ev.Start = &fsm.StartEvent{
		Data: start.Items[place], Requester: start.Requester,
		Parent: &fsm.ParentRef{Instance: f.Instance, Effect: f.EffectID, Index: place, Depth: start.Depth},
	}
	job := &store.Job{Event: ev, Snapshot: &fsm.Snapshot{Definition: d}}
	key, err := s.keyOf(ctx, d, ev)
	if err != nil && fault.CodeOf(err) != fault.InvalidInput { // Plan refuses it, with every field at once
		return nil, err
	}
	job.Claims = append(businessKeyClaim(d, key), store.Claim{Kind: store.ClaimEffect, Scope: f.Key, Key: strconv.Itoa(place)})
	return job, nil
}

// derivedID is a UUIDv7 that every attempt of an effect makes alike: of the time when
// the effect was queued and what stands for.
func derivedID(f *flight, what string) string {
	sum := sha256.Sum256([]byte(f.Key + "/" + what))
	var id uuid.UUID
	ms := uint64(f.QueuedAt.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	copy(id[6:], sum[:10])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id.String()
}

// stands tells whether the parent still waits where the effect was queued. What undoes,
// what nobody waits for and what was queued by the cancel itself goes on.
func (s *Service) stands(ctx context.Context, e *store.ClaimedEffect, detached bool) (bool, error) {
	if detached || e.Undoes != (fsm.EffectID{}) {
		return true, nil
	}
	page, err := s.store.Instances(ctx, store.InstanceFilter{ID: e.Instance}, store.Paging{Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return false, err
	}
	in := &page.Items[0]
	if in.Status == fsm.Cancelled {
		return in.Compensation != nil && e.Seq >= in.Compensation.Seq, nil
	}
	return in.Wait == e.Wait, nil
}

// allStarted says what becomes of an effect all of whose children are started or refused.
func (s *Service) allStarted(ctx context.Context, f *flight, of store.StartEffect) report {
	start := f.frozen.Start
	if start.Detach {
		children, err := s.store.ChildResults(ctx, of)
		if tooLarge(err) {
			return childrenTooLarge(err)
		}
		if err != nil {
			return s.ourFault(f, err)
		}
		return succeeded(childTrees(children), "%d started; nobody waits for them.", len(start.Items))
	}
	ours, err := s.store.ParkEffect(ctx, &f.ClaimedEffect, fmt.Sprintf("%d started; it waits for them.", len(start.Items)))
	switch {
	case err != nil:
		return s.ourFault(f, err)
	case !ours: // who took the lease parks it
		s.log.Info("a start effect was taken over by another process", "effect", f.Key)
	default:
		s.Wake() // children may be done already
	}
	return report{parked: true}
}

func emptyStart(start *fsm.FrozenStart) report {
	if start.Detach || start.Need == 0 {
		return succeeded([]any{}, "The list is empty.")
	}
	return dead("The list is empty, and %d must end well.", start.Need)
}

func succeeded(result any, format string, args ...any) report {
	return report{Outcome: deliver.Outcome{Class: deliver.Success, Detail: fmt.Sprintf(format, args...), Answered: true}, result: result}
}

func dead(format string, args ...any) report {
	return reportOf(deliver.Outcome{Class: deliver.Permanent, Detail: fmt.Sprintf(format, args...)})
}

// onward is the report of what has work left and will go on after wait.
func onward(wait time.Duration, format string, args ...any) report {
	return report{Outcome: deliver.Outcome{Class: deliver.Retry, Detail: fmt.Sprintf(format, args...)}, goesOn: true, wait: wait}
}

// ourFault is the report of an attempt that this service, and nobody else, made fail.
func (s *Service) ourFault(f *flight, err error) report {
	s.log.Warn("an effect could not go on; it is tried again", "effect", f.Key, "error", err)
	return onward(engineRetry, "The service could not go on: %s", fault.As(err).Message)
}

// theirFault is the report of an attempt that failed for a defect in handling another
// instance: it is tried again like any other failure, and dead in the end, so that a
// person hears of it.
func (s *Service) theirFault(f *flight, refusal *fault.Error) report {
	s.log.Error("an effect could not act on another instance; it is tried again", "effect", f.Key, "error", refusal)
	return reportOf(deliver.Outcome{Class: deliver.Retry, Detail: inWords(refusal), Answered: true})
}

func isInternal(refusal *fault.Error) bool { return refusal != nil && refusal.Code == fault.Internal }

// inWords is a refusal with its fields.
func inWords(e *fault.Error) string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, field := range e.Fields {
		fmt.Fprintf(&b, " %s: %s", field.Pointer, field.Detail)
	}
	return b.String()
}

func tooLarge(err error) bool { return errors.Is(err, store.ErrTooLarge) }

// childrenTooLarge ends a start effect whose result would not fit.
func childrenTooLarge(err error) report {
	return dead("The children's data is larger than 4 MiB: %s. Let them keep less, or do not wait for them (detach).", fault.As(err).Message)
}

// childTrees are children as a result lists them, but for those that were not started.
func childTrees(children []store.ChildResult) []any {
	trees := make([]any, 0, len(children))
	for _, c := range children {
		if c.ID == "" {
			continue
		}
		trees = append(trees, map[string]any{"id": c.ID, "key": c.Key, "state": c.State, "data": c.Data})
	}
	return trees
}
