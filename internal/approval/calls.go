package approval

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	callbackKept = 7 * 24 * time.Hour // a call whose wait has not begun
	lookFirst    = 10 * time.Second   // until the first look again
	lookMost     = 10 * time.Minute
	callsAtOnce  = 500 // of one instance, in one pass
	takePasses   = 64  // over one instance's calls in which it moved on and took none
	waitersCount = 11  // instances of one call that are counted
)

// lookNow gives a kept call to the instance that waits for it. A failure leaves it
// waiting: LookForCalls looks again.
func (s *Service) lookNow(ctx context.Context, call *store.Call) {
	detail, err := s.look(ctx, call, nil)
	if err == nil && detail != "" {
		err = s.store.CallLooked(ctx, call.ID, detail, lookAgain(call.Looks))
	}
	if err != nil {
		s.log.Warn("a call is kept, but its wait could not be looked for; it is looked for again", "call", call.ID, "source", call.Source, "error", err)
	}
}

// lookAgain is how long after its looks-th look a waiting call is looked at again.
func lookAgain(looks int) time.Duration {
	return min(lookMost, lookFirst<<min(looks, 10))
}

// look finds the one instance that a waiting call is for, and gives it all its calls.
// detail says why this call goes on waiting; "" where it does not. seen, which may be
// nil, takes what was found out about the others.
func (s *Service) look(ctx context.Context, call *store.Call, seen map[string]string) (detail string, err error) {
	known := call.Hashes
	found, err := s.waitersOf(ctx, call)
	if err == nil {
		err = s.noteHashes(ctx, call, known)
	}
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return nobodyWaits(call), nil
	case len(found) > 1:
		return manyWait(len(found)), nil
	}
	return s.takeAll(ctx, found[0], call, seen)
}

func nobodyWaits(call *store.Call) string {
	switch {
	case call.Key != "" && call.Definition != "":
		return fmt.Sprintf("No live instance of %s has the business key %q.", call.Definition, call.Key)
	case call.Key != "":
		return fmt.Sprintf("No live instance has the business key %q, and no wait for %s fits its input.", call.Key, call.Event)
	case len(call.Hashes) == 0:
		return fmt.Sprintf("It names no business key, and no published definition correlates %s by what its input has.", call.Event)
	}
	return fmt.Sprintf("No wait for %s fits its input.", call.Event)
}

func manyWait(n int) string {
	count := fmt.Sprint(n)
	if n >= waitersCount {
		count = fmt.Sprintf("%d or more", n)
	}
	return count + " instances wait for it: it goes to none until only one does."
}

// noteHashes keeps by what else a waiting call is found since a definition was published
// after it came, so that it is listed with the other calls of the wait that takes it.
func (s *Service) noteHashes(ctx context.Context, call *store.Call, known [][]byte) error {
	added := slices.DeleteFunc(slices.Clone(call.Hashes), func(h []byte) bool {
		return slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, h) })
	})
	if len(added) == 0 {
		return nil
	}
	return s.store.AddCallHashes(ctx, call.ID, added)
}

// waitersOf lists the instances that a call is for, at most waitersCount: those whose
// wait its input fits, else those with its business key. What it is found by is computed
// anew: a definition may have been published since it came.
func (s *Service) waitersOf(ctx context.Context, call *store.Call) ([]string, error) {
	var err error
	if call.Hashes, err = s.callHashes(ctx, call); err != nil {
		return nil, err
	}
	var found []string
	if len(call.Hashes) > 0 {
		if found, err = s.store.WaitingFor(ctx, call.Hashes, waitersCount); err != nil || len(found) > 0 {
			return found, err
		}
	}
	if call.Key == "" {
		return nil, nil
	}
	found, err = s.store.LiveByKey(ctx, call.Definition, call.Key, waitersCount)
	if err != nil || len(found) < 2 {
		return found, err
	}
	return s.whoTakes(ctx, call, found)
}

// whoTakes leaves those out of several holders of one business key, of different
// definitions, whose open wait does not know the event or is not open to its source. If
// none is left, all are.
func (s *Service) whoTakes(ctx context.Context, call *store.Call, instances []string) ([]string, error) {
	var taking []string
	for _, id := range instances {
		snap, err := s.store.Snapshot(ctx, id, s.planner)
		if fault.CodeOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		st := snap.Definition.State(snap.Instance.State)
		if st == nil || st.Kind != definitions.Wait {
			continue
		}
		if e := st.Event(call.Event); e != nil && e.OpenToSystem(call.Source) {
			taking = append(taking, id)
		}
	}
	if len(taking) == 0 {
		return instances, nil
	}
	return taking, nil
}

// takeAll gives an instance every waiting call that is for it, in the order in which
// they came. own, which may be nil, is among them; detail says why it goes on waiting.
// In this process one goroutine at a time does so for an instance; between processes
// each call's claim decides.
func (s *Service) takeAll(ctx context.Context, instance string, own *store.Call, seen map[string]string) (detail string, err error) {
	release, err := s.takers.acquire(ctx, instance)
	if err != nil {
		return "", fault.Wrap(err, fault.Unavailable, "The answer took too long.")
	}
	defer release()
	for idle := 0; idle < takePasses; idle++ {
		pass := &taking{s: s, instance: instance, own: own, seen: seen}
		again, err := pass.run(ctx)
		if err != nil || !again {
			return pass.detail, err
		}
		if pass.took {
			idle = 0
		}
	}
	return "Its instance moved on too fast: it is looked at again.", nil
}

// takers lets one goroutine at a time take the calls of an instance.
type takers struct {
	mu sync.Mutex
	by map[string]*taker
}

type taker struct {
	turn  chan struct{} // capacity 1: holds a token while somebody takes
	users int
}

func newTakers() *takers { return &takers{by: map[string]*taker{}} }

// acquire waits for the turn at an instance; release gives it back.
func (t *takers) acquire(ctx context.Context, instance string) (release func(), err error) {
	t.mu.Lock()
	one := t.by[instance]
	if one == nil {
		one = &taker{turn: make(chan struct{}, 1)}
		t.by[instance] = one
	}
	one.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.by, instance)
		}
	}
	select {
	case one.turn <- struct{}{}:
		return func() { <-one.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// taking is one pass over the calls of one instance. Each is offered for the very
// revision at which all of them were listed, so that no call overtakes an earlier one
// for which the instance has become ready meanwhile: then the pass starts anew.
type taking struct {
	s        *Service
	instance string
	own      *store.Call
	detail   string            // why own goes on waiting
	seen     map[string]string // why others do, by id; nil: nobody asks
	hashes   [][]byte          // under which the calls were listed
	snap     *fsm.Snapshot     // as read without a lock, before the calls were listed, and as calls that were taken left it
	revision int               // for which calls are offered
	held     bool              // an earlier call must wait
	took     bool
}

// run tells whether another pass is needed.
func (t *taking) run(ctx context.Context) (again bool, err error) {
	if t.snap, err = t.s.store.Snapshot(ctx, t.instance, t.s.planner); err != nil {
		return false, err
	}
	t.revision = t.snap.Instance.Revision
	calls, err := t.list(ctx)
	if err != nil {
		return false, err
	}
	for i := range calls {
		again, err := t.give(ctx, &calls[i])
		if err != nil || again {
			return again, err
		}
	}
	return false, nil
}

// list reads what waits for the instance, in the order in which it came.
func (t *taking) list(ctx context.Context) ([]store.Call, error) {
	var err error
	if t.hashes, err = t.s.store.HashesOf(ctx, t.instance); err != nil {
		return nil, err
	}
	var calls []store.Call
	if len(t.hashes) > 0 {
		if calls, err = t.s.store.EarlyCalls(ctx, t.hashes, callsAtOnce); err != nil {
			return nil, err
		}
	}
	own := t.own
	if own == nil || slices.ContainsFunc(calls, func(c store.Call) bool { return c.ID == own.ID }) {
		return calls, nil
	}
	now, err := t.s.call(ctx, own.ID) // taken meanwhile, or found by a correlation that was published after it came
	if err != nil || now.Status != store.CallWaiting {
		return calls, err
	}
	calls = append(calls, *now)
	slices.SortStableFunc(calls, func(a, b store.Call) int {
		return cmp.Or(a.ReceivedAt.Compare(b.ReceivedAt), strings.Compare(a.ID, b.ID))
	})
	return calls, nil
}

// give offers one call; again: the calls must be listed anew.
func (t *taking) give(ctx context.Context, call *store.Call) (again bool, err error) {
	if words := t.closedTo(call.Event); words != "" {
		t.waits(call, words)
		return false, nil
	}
	if words := fsm.CallFits(t.snap, call.Event, call.Input); words != "" { // until its data change, and then the calls are listed anew
		t.explain(call, words)
		return false, nil
	}
	found, err := t.s.waitersOf(ctx, call)
	if err != nil {
		return false, err
	}
	if len(found) != 1 || found[0] != t.instance { // not this instance's alone: it holds up nobody here
		switch len(found) {
		case 0:
			t.explain(call, nobodyWaits(call))
		case 1:
			t.explain(call, fmt.Sprintf("Instance %s waits for it: it is looked at again.", found[0]))
		default:
			t.explain(call, manyWait(len(found)))
		}
		return false, nil
	}
	o, err := t.s.offer(ctx, call, t.instance, t.revision)
	if err != nil {
		return false, err
	}
	switch o.what {
	case offerTaken:
		t.took = true
		t.revision, t.snap.Instance = o.step.Transition.Seq, o.step.Instance
		return t.held || t.foundElse(o.step), nil
	case offerMoved, offerGone:
		return true, nil
	case offerWaits:
		t.waits(call, o.words)
	}
	return false, nil
}

// foundElse tells whether, after a step, the instance is found by other calls than those
// that were listed.
func (t *taking) foundElse(step *fsm.Step) bool {
	if step.Transition.To == "" {
		return step.SetCorrelations
	}
	return len(step.Awaits) != len(t.hashes) || slices.ContainsFunc(step.Awaits, func(h []byte) bool {
		return !slices.ContainsFunc(t.hashes, func(k []byte) bool { return bytes.Equal(h, k) })
	})
}

// waits notes that a call goes on waiting for this instance.
func (t *taking) waits(call *store.Call, words string) {
	t.held = true
	t.explain(call, words)
}

func (t *taking) explain(call *store.Call, words string) {
	if t.own != nil && call.ID == t.own.ID {
		t.detail = words
	}
	if t.seen != nil {
		t.seen[call.ID] = words
	}
}

// closedTo says why the instance, as it was read, cannot take an event at all.
func (t *taking) closedTo(event string) string {
	in := &t.snap.Instance
	st := t.snap.Definition.State(in.State)
	switch {
	case in.Status == fsm.Finished, in.Status == fsm.Cancelled:
		return fmt.Sprintf("Its instance %s is %s.", in.ID, in.Status)
	case st == nil || st.Kind != definitions.Wait || st.Event(event) == nil:
		return fmt.Sprintf("Instance %s is in %s, which does not wait for %s.", in.ID, in.State, event)
	}
	return ""
}

type offerOutcome int

const (
	offerTaken   offerOutcome = iota
	offerRefused              // for good
	offerWaits                // the instance cannot take it now
	offerMoved                // not decided: the instance is at another revision
	offerGone                 // somebody else took it
)

type offered struct {
	what  offerOutcome
	words string
	step  *fsm.Step // of what was taken
}

// offer raises a call's event in an instance, once: the claim of its webhook-id and the
// end of its waiting are committed with it.
func (s *Service) offer(ctx context.Context, call *store.Call, instance string, atRevision int) (offered, error) {
	ev, err := s.newEvent(fsm.KindRaise, instance)
	if err != nil {
		return offered{}, err
	}
	ev.Actor = fsm.Actor{Kind: fsm.ActorSystem, ID: "system:" + call.Source}
	ev.Assurance, ev.IfRevision = fsm.ByCallback, atRevision
	ev.Name, ev.Input, ev.Comment, ev.Documents = call.Event, call.Input, call.Comment, call.Documents
	job := &store.Job{Event: ev, Callback: call.ID, Claims: []store.Claim{{
		Kind: store.ClaimWebhookID, Scope: call.Source, Key: call.WebhookID,
		BodyHash: call.BodyHash, Answer: []byte(call.ID), Keep: idempotencyKept,
	}}}
	if err := s.committer.do(ctx, job); err != nil {
		return offered{}, err
	}
	switch {
	case job.Lost != nil:
		return offered{what: offerGone}, nil
	case job.Err != nil:
		return offered{}, job.Err
	case job.Step.Replay > 0:
		return s.refuseCall(ctx, call, job, fmt.Sprintf("The same was recorded before, as number %d of the history: it changes nothing.", job.Step.Replay))
	case job.Step.Refusal != nil:
		return s.notTaken(ctx, call, job)
	}
	s.metrics.call(store.CallTaken)
	return offered{what: offerTaken, step: &job.Step}, nil
}

// notTaken parts refusals that time may cure from those that are final.
func (s *Service) notTaken(ctx context.Context, call *store.Call, job *store.Job) (offered, error) {
	refusal := job.Step.Refusal
	switch refusal.Code {
	case fault.RevisionMismatch:
		return offered{what: offerMoved}, nil
	case fault.EventNotAllowedHere, fault.Suspended, fault.TokenExpired, fault.AlreadyDecided, fault.Unavailable, fault.Conflict:
		return offered{what: offerWaits, words: refusal.Message}, nil
	case fault.Internal:
		s.log.Error("a call could not be taken", "call", call.ID, "instance", job.Event.Instance, "error", refusal)
		return offered{what: offerWaits, words: "The service failed to take it; the cause is in its log."}, nil
	}
	s.refused(ctx, job)
	words := refusal.Message
	for _, f := range refusal.Fields {
		words += " " + strings.TrimSpace(f.Pointer+" "+f.Detail)
	}
	return s.refuseCall(ctx, call, job, words)
}

func (s *Service) refuseCall(ctx context.Context, call *store.Call, job *store.Job, words string) (offered, error) {
	s.metrics.call(store.CallRefused)
	return offered{what: offerRefused, words: words}, s.store.RefuseCall(ctx, call.ID, job.Event.Instance, words)
}

// LookForCalls looks again for the waits of calls that wait, and ends those whose time
// is over; it returns how many it looked at.
func (s *Service) LookForCalls(ctx context.Context, limit int) (int, error) {
	expired, err := s.store.ExpireCalls(ctx, limit)
	if err != nil {
		return 0, err
	}
	s.metrics.calls.WithLabelValues(store.CallExpired).Add(float64(expired))
	due, err := s.store.CallsToLookAt(ctx, limit)
	if err != nil {
		return 0, err
	}
	var errs []error
	seen := map[string]string{} // what a look found out about the other calls of its instance
	for i := range due {
		call := &due[i]
		var err error
		detail, known := seen[call.ID]
		if !known {
			detail, err = s.look(ctx, call, seen)
		}
		if fault.CodeOf(err) == fault.Unavailable {
			return i, errors.Join(append(errs, err)...)
		}
		if err != nil { // it alone: others go on
			errs = append(errs, fmt.Errorf("call %s: %w", call.ID, err))
			detail = "The service failed to look for its wait; the cause is in its log."
		}
		if detail != "" {
			errs = append(errs, s.store.CallLooked(ctx, call.ID, detail, lookAgain(call.Looks)))
		}
	}
	return len(due), errors.Join(errs...)
}
