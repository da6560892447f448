package approval

import (
	"context"
	"encoding/json"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// fired is an event that was committed, replayed, or answered earlier.
type fired struct {
	job    *store.Job
	replay int             // seq of the act that already recorded this decision
	kept   *store.ClaimRow // the first answer of an idempotency key, or of what an effect does once
}

// Fire takes one event down the one road. A refusal comes back as *fault.Error and
// nothing was written; code unavailable means that the same call may be repeated.
func (s *Service) fire(ctx context.Context, job *store.Job) (*fired, error) {
	if err := s.committer.do(ctx, job); err != nil {
		return nil, err
	}
	switch {
	case job.Lost != nil:
		return s.lostClaim(job)
	case job.Err != nil:
		return nil, job.Err
	case job.Step.Refusal != nil:
		s.refused(ctx, job)
		return nil, job.Step.Refusal
	case job.Step.Replay > 0:
		return &fired{job: job, replay: job.Step.Replay}, nil
	}
	return &fired{job: job}, nil
}

// lostClaim answers an event whose claim somebody else holds.
func (s *Service) lostClaim(job *store.Job) (*fired, error) {
	lost := job.Lost
	if lost.Kind == store.ClaimBusinessKey {
		e := fault.New(fault.KeyInUse, "There is a live instance with this key already: %s.", lost.Instance)
		e.Instance = lost.Instance
		return nil, e
	}
	if lost.Kind == store.ClaimEffect { // done by an earlier attempt, or by another process
		return &fired{job: job, kept: lost}, nil
	}
	for _, c := range job.Claims {
		if c.Kind != lost.Kind {
			continue
		}
		if string(c.BodyHash) != string(lost.BodyHash) {
			return nil, fault.New(fault.IdempotencyMismatch, "This Idempotency-Key was used with another body. Use a new key for a new request.")
		}
	}
	if lost.Answer == nil {
		e := fault.New(fault.InProgress, "A request with this Idempotency-Key is still running. Ask again in a moment.")
		e.RetryAfter = idempotencyRetry
		return nil, e
	}
	return &fired{job: job, kept: lost}, nil
}

// keptAnswer is what an idempotency key keeps: the first answer but for the token,
// which is never stored and signed again at a replay.
type keptAnswer struct {
	Answer json.RawMessage `json:"answer"`
	Token  fsm.EffectID    `json:"token,omitzero"`
}

// keepAnswer puts the answer of a planned step beside its idempotency claim, so that
// both are committed together. What an effect did to another instance keeps that
// instance's summary.
func keepAnswer(s *Service, job *store.Job, step *fsm.Step) {
	for i := range job.Claims {
		if job.Claims[i].Kind == store.ClaimEffect {
			job.Claims[i].Answer = marshal(summaryOf(&step.Instance))
		}
		if job.Claims[i].Kind != store.ClaimIdempotency {
			continue
		}
		var answer any
		switch job.Event.Kind {
		case fsm.KindStart:
			answer = s.viewOfStart(job.Snapshot, step)
		case fsm.KindCancel:
			answer = cancelResultOf(job.Snapshot.Definition, step.Instance)
		case fsm.KindRetryEffect, fsm.KindEffectResult:
			continue // rendered before, see onEffect
		default:
			answer = resultOf(job.Snapshot.Definition, step.Instance, step.Transition)
		}
		job.Claims[i].Answer = marshal(keptAnswer{marshal(answer), step.Successor})
	}
}

// token signs the link of an assignee row of an instance; "" where it has none.
func (s *Service) token(instance string, rows []fsm.Assignee, id fsm.EffectID) string {
	if id == (fsm.EffectID{}) {
		return ""
	}
	for i := range rows {
		if rows[i].Seq == id.Seq && rows[i].N == id.N {
			return s.mint(instance, &rows[i])
		}
	}
	return ""
}

// tokenAt is token for a row that must be read first.
func (s *Service) tokenAt(ctx context.Context, instance string, id fsm.EffectID) (string, error) {
	if id == (fsm.EffectID{}) {
		return "", nil
	}
	infos, err := s.store.Assignees(ctx, instance)
	if err != nil {
		return "", err
	}
	for i := range infos {
		if infos[i].Seq == id.Seq && infos[i].N == id.N {
			return s.mint(instance, &infos[i].Assignee), nil
		}
	}
	return "", nil
}

// successorAt is the link that an act gave its actor: theirs among the rows it made.
func (s *Service) successorAt(ctx context.Context, instance string, t *fsm.Transition) (string, error) {
	infos, err := s.store.Assignees(ctx, instance)
	if err != nil {
		return "", err
	}
	token := ""
	for i := range infos {
		a := &infos[i].Assignee
		if a.Seq == t.Seq && a.Kind != fsm.AssigneeCallback && (a.Ref == t.Actor.ID || a.Ref == callerRef(t.Actor.ID, t.Actor.Kind)) {
			token = s.mint(instance, a)
		}
	}
	return token, nil
}

// refused leaves an audit line of an authentic caller's refusal; a failure to write it
// is logged and does not change the answer.
func (s *Service) refused(ctx context.Context, job *store.Job) {
	ev, code := job.Event, job.Step.Refusal.Code
	if ev.Kind != fsm.KindRaise || code == fault.InvalidToken {
		return
	}
	line := store.AuditLine{
		Actor: ev.Actor.ID, Action: "decision-refused", Instance: ev.Instance,
		Token: job.TokenHash, Detail: map[string]any{"event": ev.Name, "code": string(code)},
	}
	if err := s.store.Audit(ctx, line); err != nil {
		s.log.Error("an audit line could not be written", "action", line.Action, "instance", line.Instance, "error", err)
	}
}

// idempotencyClaim is the claim of an Idempotency-Key; nil where none was sent.
func idempotencyClaim(c Caller, i Idempotency) ([]store.Claim, error) {
	if i.Route == "" {
		return nil, nil
	}
	if len(i.Key) == 0 || len(i.Key) > 255 {
		return nil, fault.New(fault.Malformed, "An Idempotency-Key has 1 to 255 characters.")
	}
	return []store.Claim{{
		Kind: store.ClaimIdempotency, Scope: c.ID + "\n" + c.Via + "\n" + i.Route,
		Key: i.Key, BodyHash: i.BodyHash, Keep: idempotencyKept,
	}}, nil
}

// businessKeyClaim is the claim of a business key; nil for a definition without one.
func businessKeyClaim(d *definitions.Definition, key string) []store.Claim {
	if key == "" {
		return nil
	}
	return []store.Claim{{Kind: store.ClaimBusinessKey, Scope: d.Name, Key: key}}
}
