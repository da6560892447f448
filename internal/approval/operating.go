package approval

import (
	"context"
	"strconv"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// ResolveRequest is what a person found out about an effect.
type ResolveRequest struct {
	Outcome string // succeeded | failed
	Result  any
	Reason  string
}

// effect reads one effect by its public id. Fault not-found.
func (s *Service) effect(ctx context.Context, id string) (*store.EffectInfo, error) {
	instance, _, err := ParseID(id)
	if err != nil {
		return nil, err
	}
	page, err := s.store.Effects(ctx, store.EffectFilter{ID: id, Instance: instance}, store.Paging{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Items) == 0 {
		return nil, effectNotFound()
	}
	return &page.Items[0], nil
}

func effectNotFound() error {
	return fault.New(fault.NotFound, "There is no such effect, or it is not yours to read.")
}

// onceFor is the claim of an operator's retry: whoever read the effect as it stands now
// tries it again at most once, however often and from wherever that is asked for.
func onceFor(instance string, id fsm.EffectID, attempts int, doneAt *time.Time) store.Claim {
	end := ""
	if doneAt != nil {
		end = strconv.FormatInt(doneAt.UnixMilli(), 10)
	}
	return store.Claim{
		Kind: store.ClaimEffect, Scope: "retry " + effectKey(instance, id),
		Key: strconv.Itoa(attempts) + "@" + end, Keep: idempotencyKept,
	}
}

// triedAgain refuses a retry of what somebody else has tried again since it was read.
func triedAgain() error {
	return fault.New(fault.Conflict, "Somebody has tried this effect again already. Read it again.")
}

// retryable refuses to try again what no attempt can do.
func retryable(kind string, status fsm.EffectStatus) error {
	switch {
	case kind == kindManual:
		return fault.New(fault.Conflict, "A person does this by hand: there is nothing to try again. Resolve it: succeeded when it is done, failed to give it up.")
	case status != fsm.EffectDead && status != fsm.EffectUnknown:
		return fault.New(fault.Conflict, "The effect is %s: only a dead or unknown one can be tried again.", status)
	}
	return nil
}

// RetryEffect tries a dead or unknown effect again, once per call. Operators only.
// Faults: conflict where it is neither dead nor unknown, or done by hand.
func (s *Service) RetryEffect(ctx context.Context, c Caller, id, reason string, idem Idempotency) (*EffectView, error) {
	return s.onEffect(ctx, c, id, reason, idem, "try an effect again", fsm.EffectWaiting, func(ev *fsm.Event, e *store.EffectInfo) {
		ev.Kind, ev.Effect = fsm.KindRetryEffect, &e.EffectID
	})
}

// ResolveEffect records what a person found out about a dead or unknown effect: it
// happened (with a result), or it is given up. Operators only.
func (s *Service) ResolveEffect(ctx context.Context, c Caller, id string, r ResolveRequest, idem Idempotency) (*EffectView, error) {
	var status fsm.EffectStatus
	switch r.Outcome {
	case "succeeded":
		status = fsm.EffectSucceeded
	case "failed":
		status = fsm.EffectDead
	default:
		return nil, fault.New(fault.InvalidInput, "Say what became of the effect.").With(
			fault.Field{Pointer: "/outcome", Detail: "Use succeeded or failed."})
	}
	return s.onEffect(ctx, c, id, r.Reason, idem, "resolve an effect", status, func(ev *fsm.Event, e *store.EffectInfo) {
		ev.Kind = fsm.KindEffectResult
		ev.Result = &fsm.ResultEvent{
			Effect: e.EffectID, Status: status, Result: r.Result, Resolved: true,
			Outcome: "resolved", Detail: r.Reason,
		}
	})
}

// onEffect fires an operator's event about one effect, which leaves it in status then.
func (s *Service) onEffect(ctx context.Context, c Caller, id, reason string, idem Idempotency, what string,
	then fsm.EffectStatus, set func(*fsm.Event, *store.EffectInfo),
) (*EffectView, error) {
	e, err := s.effect(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err := s.readable(ctx, c, e.Instance); err != nil {
		return nil, err
	}
	if err := operatorOnly(c, what); err != nil {
		return nil, err
	}
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	v := s.effectView(e)
	v.Status, v.NextAttemptAt, v.GivenUp = then, nil, then == fsm.EffectDead
	var once []store.Claim
	if then == fsm.EffectWaiting {
		once = append(once, onceFor(e.Instance, e.EffectID, len(e.Attempts), e.DoneAt))
		if e.Kind == kindManual {
			return nil, retryable(e.Kind, e.Status)
		}
	}
	f, err := s.operate(ctx, c, e.Instance, reason, idem, marshal(v), func(ev *fsm.Event) { set(ev, e) }, once...)
	if err != nil {
		return nil, err
	}
	if f.kept != nil && f.kept.Kind == store.ClaimEffect {
		return nil, triedAgain()
	}
	if f.kept != nil {
		first := EffectView{Replayed: true}
		_, err := s.keptRaw(ctx, f.kept, &first)
		return &first, err
	}
	return &v, nil
}

// checkRing tells whether the database knows this process's key ring.
func (s *Service) checkRing(ctx context.Context) error {
	known, err := s.store.Ring(ctx)
	if err != nil {
		return err
	}
	for _, k := range known {
		for _, f := range s.cfg.Ring.Ring().Fingerprints() {
			if k.Kid == f.Kid && string(k.SHA256) == string(f.SHA256[:]) {
				return nil
			}
		}
	}
	return fault.New(fault.Unavailable, "The database does not know this key ring.")
}
