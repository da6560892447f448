package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// Limits of what a caller may send.
const (
	MaxComment = 10_000 // characters
	MaxReason  = 2_000
	maxLabels  = 20
	maxLabel   = 200
)

// fill copies a caller's request into an event.
func fill(ev *fsm.Event, r RaiseRequest, client Caller) error {
	if utf8.RuneCountInString(r.Comment) > MaxComment {
		return fault.New(fault.InvalidInput, "The comment is too long.").With(
			fault.Field{Pointer: "/comment", Detail: fmt.Sprintf("Use at most %d characters; it has %d.", MaxComment, utf8.RuneCountInString(r.Comment))})
	}
	if err := definitions.CheckJSON(r.Input); err != nil {
		return err
	}
	ev.Name, ev.Input, ev.Comment = r.Event, r.Input, r.Comment
	ev.Documents, ev.Digest, ev.IfRevision = r.Documents, r.Digest, r.IfRevision
	ev.Locale = client.Locale
	return nil
}

// Start starts an instance. When it answers, the first wait, its tasks, links,
// deadlines and effects are committed. Faults: not-found (definition or version),
// forbidden (requesters), invalid-input, key-in-use, limit-exceeded, idempotency-mismatch.
func (s *Service) Start(ctx context.Context, c Caller, r StartRequest) (*StartResult, error) {
	d, err := s.planner.Definition(ctx, r.Definition, r.Version)
	if err != nil {
		return nil, err
	}
	requester, startedBy, err := s.requesterOf(c, r.Requester)
	if err != nil {
		return nil, err
	}
	if err := s.mayStart(ctx, c, d, requester); err != nil {
		return nil, err
	}
	if err := checkLabels(r.Labels); err != nil {
		return nil, err
	}
	if err := definitions.CheckJSON(r.Data); err != nil {
		return nil, err
	}
	ev, err := s.newEvent(fsm.KindStart, "")
	if err != nil {
		return nil, err
	}
	ev.Instance, ev.Actor, ev.Assurance, ev.Locale = ev.ID, actorFor(c), c.Assurance, c.Locale
	ev.Start = &fsm.StartEvent{Data: r.Data, Requester: requester, StartedBy: startedBy, Labels: r.Labels}
	job := &store.Job{Event: ev, Snapshot: &fsm.Snapshot{Definition: d}}
	key, err := s.keyOf(ctx, d, ev)
	if err != nil && fault.CodeOf(err) != fault.InvalidInput { // Plan refuses it, with every field at once
		return nil, err
	}
	if job.Claims, err = idempotencyClaim(c, r.Idem); err != nil {
		return nil, err
	}
	job.Claims = append(job.Claims, businessKeyClaim(d, key)...)
	f, err := s.fire(ctx, job)
	if err != nil {
		return nil, s.hideInstance(ctx, c, err)
	}
	if f.kept != nil {
		res := &StartResult{Replayed: true}
		res.Raw, err = s.keptRaw(ctx, f.kept, &res.View)
		return res, err
	}
	view := s.viewOfStart(f.job.Snapshot, &f.job.Step)
	view.Token = s.token(ev.Instance, f.job.Step.Assignees, f.job.Step.Successor)
	return &StartResult{View: view}, nil
}

// requesterOf says in whose name a caller starts, and who did.
func (s *Service) requesterOf(c Caller, named string) (requester, startedBy string, err error) {
	if named == "" || named == c.ID {
		return c.ID, "", nil
	}
	if !c.HasRole("impersonator") {
		return "", "", fault.New(fault.Forbidden, "Only a key with the role impersonator may start in somebody else's name. Leave out `requester`, or ask an operator for such a key.")
	}
	return named, c.ID, nil
}

// keyOf computes the business key that the start will claim.
func (s *Service) keyOf(ctx context.Context, d *definitions.Definition, ev *fsm.Event) (string, error) {
	if d.Key == nil {
		return "", nil
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return "", err
	}
	data := fsm.WithDefaults(d, ev.Start.Data)
	return fsm.KeyOf(d, data, &definitions.Env{
		Data: data, Vars: s.cfg.Vars, Zone: s.cfg.Zone, Now: now,
		Instance: definitions.InstanceVars{ID: ev.Instance, Definition: d.Name, Version: d.Version, StartedAt: now, Requester: ev.Start.Requester},
	})
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fault.New(fault.InvalidInput, "There are too many labels.").With(
			fault.Field{Pointer: "/labels", Detail: fmt.Sprintf("Use at most %d.", maxLabels)})
	}
	for k, v := range labels {
		if k == "" || utf8.RuneCountInString(k) > maxLabel || utf8.RuneCountInString(v) > maxLabel {
			return fault.New(fault.InvalidInput, "A label is empty or too long.").With(
				fault.Field{Pointer: "/labels/" + k, Detail: fmt.Sprintf("Names and values have at most %d characters, names at least one.", maxLabel)})
		}
	}
	return nil
}

// Raise raises an event as the caller. Faults: those of "Decisions by token" in the
// order for keys and sessions; revision-mismatch where IfRevision does not match.
func (s *Service) Raise(ctx context.Context, c Caller, id string, r RaiseRequest) (*Result, error) {
	return s.raise(ctx, c, id, 0, r)
}

// raise raises an event in the present wait, or (wait > 0) in the wait whose task was read.
func (s *Service) raise(ctx context.Context, c Caller, id string, wait int, r RaiseRequest) (*Result, error) {
	if _, err := s.readable(ctx, c, id); err != nil {
		return nil, err
	}
	ev, err := s.newEvent(fsm.KindRaise, id)
	if err != nil {
		return nil, err
	}
	ev.Actor, ev.Assurance, ev.Wait = actorFor(c), c.Assurance, wait
	if err := fill(ev, r, c); err != nil {
		return nil, err
	}
	job := &store.Job{Event: ev}
	if job.Claims, err = idempotencyClaim(c, r.Idem); err != nil {
		return nil, err
	}
	f, err := s.fire(ctx, job)
	if wait > 0 && fault.CodeOf(err) == fault.AlreadyDecided {
		f, err = s.closedWait(ctx, ev)
	}
	if err != nil {
		return nil, err
	}
	return s.result(ctx, f)
}

// closedWait answers a decision on a task whose wait is over from the history, which
// no longer changes: the caller's own answer again, or who decided.
func (s *Service) closedWait(ctx context.Context, ev *fsm.Event) (*fired, error) {
	snap, err := s.store.Snapshot(ctx, ev.Instance, s.planner)
	if err != nil {
		return nil, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	snap.Vars, snap.Zone = s.cfg.Vars, s.cfg.Zone
	for i := range snap.Past {
		past := &snap.Past[i]
		leaves := past.To != "" || past.Kind == fsm.TCancel
		if past.Wait != ev.Wait || snap.Left != nil {
			continue
		}
		if past.Actor.ID == ev.Actor.ID && (leaves || past.Kind == fsm.TVote) {
			snap.Own = past
		}
		if leaves {
			snap.Left = past
		}
	}
	step := fsm.DecideClosed(snap, ev, now)
	switch {
	case step == nil:
		return nil, fault.New(fault.Conflict, "The task's wait was entered again. Read it again and then decide.")
	case step.Refusal != nil:
		return nil, step.Refusal
	}
	return &fired{job: &store.Job{Event: ev, Snapshot: snap, Step: *step, Now: now}, replay: step.Replay}, nil
}

// Cancel cancels an instance, compensating what has been done. Again: the same plan.
func (s *Service) Cancel(ctx context.Context, c Caller, id, reason string, idem Idempotency) (*CancelResult, error) {
	snap, err := s.readable(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if err := operatorOnly(c, "cancel an instance"); err != nil {
		return nil, err
	}
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	if snap.Instance.Status == fsm.Cancelled {
		res := cancelResultOf(snap.Definition, snap.Instance)
		return &res, nil
	}
	f, err := s.operate(ctx, c, id, reason, idem, nil, func(ev *fsm.Event) { ev.Kind = fsm.KindCancel })
	if err != nil {
		return nil, err
	}
	if f.kept != nil || f.replay > 0 {
		if snap, err = s.store.Snapshot(ctx, id, s.planner); err != nil {
			return nil, err
		}
		res := cancelResultOf(snap.Definition, snap.Instance)
		return &res, nil
	}
	res := cancelResultOf(f.job.Snapshot.Definition, f.job.Step.Instance)
	return &res, nil
}

// RaiseAgain raises again the timer or effect event that last failed. Operators only.
func (s *Service) RaiseAgain(ctx context.Context, c Caller, id, reason string, idem Idempotency) (*Result, error) {
	snap, err := s.readable(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if err := operatorOnly(c, "raise a failed event again"); err != nil {
		return nil, err
	}
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	failed := failedDeadline(snap.Instance.Attention)
	if failed == nil && idem.Key == "" {
		return nil, fault.New(fault.Conflict, "No event of this instance has failed: there is nothing to raise again.")
	}
	f, err := s.operate(ctx, c, id, reason, idem, nil, func(ev *fsm.Event) { ev.Kind, ev.Deadline = fsm.KindRaiseAgain, failed })
	if err != nil {
		return nil, err
	}
	return s.result(ctx, f)
}

// operate fires an operator's event with an audited reason. answer is what an
// Idempotency-Key keeps where the step alone does not give it; once are claims beside it.
func (s *Service) operate(ctx context.Context, c Caller, id, reason string, idem Idempotency, answer json.RawMessage, set func(*fsm.Event), once ...store.Claim) (*fired, error) {
	ev, err := s.newEvent(fsm.KindCancel, id)
	if err != nil {
		return nil, err
	}
	ev.Actor, ev.Assurance, ev.Reason, ev.Locale = actorFor(c), c.Assurance, reason, c.Locale
	set(ev)
	job := &store.Job{Event: ev}
	if job.Claims, err = idempotencyClaim(c, idem); err != nil {
		return nil, err
	}
	for i := range job.Claims {
		if answer != nil {
			job.Claims[i].Answer = marshal(keptAnswer{Answer: answer})
		}
	}
	job.Claims = append(job.Claims, once...)
	return s.fire(ctx, job)
}

func checkReason(reason string) error {
	switch n := utf8.RuneCountInString(reason); {
	case n == 0:
		return fault.New(fault.InvalidInput, "A reason is needed: it stands in the history.").With(
			fault.Field{Pointer: "/reason", Detail: "Type a reason."})
	case n > MaxReason:
		return fault.New(fault.InvalidInput, "The reason is too long.").With(
			fault.Field{Pointer: "/reason", Detail: fmt.Sprintf("Use at most %d characters.", MaxReason)})
	}
	return nil
}

// actorFor is the actor that a caller is.
func actorFor(c Caller) fsm.Actor {
	return fsm.Actor{Kind: c.Kind, ID: c.ID, Name: c.Name, Via: c.Via, Groups: c.Groups, Roles: c.Roles}
}
