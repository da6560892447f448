package approval

import (
	"context"
	"encoding/json"
	"fmt"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// raiseElsewhere raises an event of the live instance that an event effect names by
// definition and key. What may still come is a retry; any other refusal is the
// effect's end. A claim of the effect's key lets it happen once, also where the end of
// an attempt was lost.
func (s *Service) raiseElsewhere(ctx context.Context, f *flight) report {
	r := f.frozen.Raise
	id := derivedID(f, "raise")
	live, err := s.store.LiveByKey(ctx, r.Definition, r.Key, 1)
	if err != nil {
		return s.ourFault(f, err)
	}
	if len(live) == 0 {
		return s.raisedBefore(ctx, f, id)
	}
	ev, err := s.newEvent(fsm.KindRaise, live[0])
	if err != nil {
		return s.ourFault(f, err)
	}
	ev.ID, ev.Name, ev.Input, ev.Assurance = id, r.Event, r.Input, fsm.ByKey
	ev.Actor = fsm.Actor{Kind: fsm.ActorSystem, ID: r.As, Via: "instance:" + f.Instance}
	job := &store.Job{Event: ev, Claims: []store.Claim{{Kind: store.ClaimEffect, Scope: f.Key, Key: "raise"}}}
	if err := s.submit(ctx, job); err != nil {
		return s.ourFault(f, err)
	}
	switch {
	case job.Lost != nil:
		return s.raisedAt(ctx, f, job.Lost.Instance, job.Lost.Seq)
	case job.Step.Refusal != nil:
		if isInternal(job.Step.Refusal) {
			return s.theirFault(f, job.Step.Refusal)
		}
		return raiseRefused(job.Step.Refusal)
	case job.Step.Replay > 0:
		return s.raisedAt(ctx, f, live[0], job.Step.Replay)
	}
	return raised(summaryOf(&job.Step.Instance))
}

// raiseRefused tells what may still come from what never will.
func raiseRefused(e *fault.Error) report {
	out := deliver.Outcome{Class: deliver.Permanent, Detail: inWords(e), Answered: true}
	switch e.Code {
	case fault.EventNotAllowedHere, fault.Suspended, fault.Unavailable:
		out.Class = deliver.Retry
	}
	return reportOf(out)
}

// pastLooks is how many earlier holders of the key are looked at.
const pastLooks = 5

// raisedBefore is for an effect whose target does not live: it may have ended by this
// very event, in an attempt whose end was lost.
func (s *Service) raisedBefore(ctx context.Context, f *flight, event string) report {
	r := f.frozen.Raise
	page, err := s.store.Instances(ctx, store.InstanceFilter{Definition: r.Definition, Key: &r.Key}, store.Paging{Limit: pastLooks})
	if err != nil {
		return s.ourFault(f, err)
	}
	for i := range page.Items {
		seq, err := s.store.EventSeq(ctx, page.Items[i].ID, event)
		if err != nil {
			return s.ourFault(f, err)
		}
		if seq > 0 {
			return s.raisedAt(ctx, f, page.Items[i].ID, seq)
		}
	}
	return reportOf(deliver.Outcome{
		Class: deliver.Retry, Answered: true,
		Detail: fmt.Sprintf("No instance of %s with the key %q lives. It may come.", r.Definition, r.Key),
	})
}

// raisedAt is the success that stands in the target's history.
func (s *Service) raisedAt(ctx context.Context, f *flight, instance string, seq int) report {
	page, err := s.store.Instances(ctx, store.InstanceFilter{ID: instance}, store.Paging{Limit: 1})
	if err != nil {
		return s.ourFault(f, err)
	}
	if len(page.Items) == 0 {
		return dead("The instance %s, which took the event, is gone.", instance)
	}
	t, err := s.store.TransitionAt(ctx, instance, seq)
	if err != nil {
		return s.ourFault(f, err)
	}
	d, err := s.planner.Definition(ctx, page.Items[0].Definition, t.DefinitionVersion)
	if err != nil {
		return s.ourFault(f, err)
	}
	return raised(resultOf(d, page.Items[0], t).Instance)
}

func raised(in Summary) report {
	return succeeded(map[string]any{
		"id": in.ID, "definition": in.Definition, "version": numberTree(in.Version), "key": in.Key,
		"state": in.State, "status": string(in.Status), "revision": numberTree(in.Revision),
	}, "%s %s took it and is in %s.", in.Definition, in.Key, in.State)
}

// numberTree writes a count as JSON trees have it.
func numberTree(n int) json.Number { return json.Number(fmt.Sprint(n)) }
