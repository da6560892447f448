package approval

import (
	"context"
	"errors"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// ended is the end of an attempt on its way into the database.
type ended struct {
	finish store.Finish
	done   chan error
}

// writeEnds shares a commit between the ends that wait.
func (o *outbox) writeEnds() {
	for {
		var waiting []ended
		select {
		case <-o.ctx.Done():
			return
		case e := <-o.ended:
			waiting = append(waiting, e)
		}
		linger := time.NewTimer(endsLinger)
		for more := true; more && len(waiting) < endsAtOnce; {
			select {
			case e := <-o.ended:
				waiting = append(waiting, e)
			case <-linger.C:
				more = false
			}
		}
		linger.Stop()
		o.writeTogether(waiting)
	}
}

// writeTogether writes ends in one commit. Where it fails for another reason than that the
// database is not available, they are written one by one: a bad row fails alone.
func (o *outbox) writeTogether(waiting []ended) {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	rows := make([]store.Finish, len(waiting))
	for i := range waiting {
		rows[i] = waiting[i].finish
	}
	_, err := o.s.store.FinishAttempts(ctx, rows)
	alone := err != nil && fault.CodeOf(err) != fault.Unavailable && len(rows) > 1
	for i, w := range waiting {
		if alone {
			_, err = o.s.store.FinishAttempts(ctx, rows[i:i+1])
		}
		w.done <- err
	}
}

// write has the end of an attempt written, together with others.
func (o *outbox) write(ctx context.Context, f store.Finish) error {
	e := ended{f, make(chan error, 1)}
	select {
	case o.ended <- e:
		select {
		case err := <-e.done:
			return err
		case <-o.ctx.Done():
		}
	case <-o.ctx.Done():
	}
	_, err := o.s.store.FinishAttempts(ctx, []store.Finish{f}) // a stop has ended the writer; a second write is fenced
	return err
}

// report is how an attempt ended.
type report struct {
	deliver.Outcome
	result any  // of what is no webhook: a JSON tree
	apart  bool // the outcome says nothing about the receiver

	// At most one of these; with none of them the outcome's class decides.
	goesOn bool // work is left and nothing failed: again after wait, and never dead for it
	gone   bool // nobody needs it any more: cancelled
	parked bool // its children's completions end it: nothing is to be written

	wait time.Duration
}

// attempt makes one attempt.
type attempt func(context.Context) report

// fly makes one attempt and records its end. The places it took are free as soon as the
// outcome is known.
func (o *outbox) fly(f *flight) {
	defer o.flights.Done()
	if o.s.elapsed(f.claimed) > queuedFor { // its lease might not outlast an attempt
		o.follow(f, nil, f)
		return
	}
	long := time.AfterFunc(slowAfter, func() {
		if o.lanes.overtime(f) && o.hungry.Load() {
			o.s.Wake()
		}
	})
	rep, began := o.try(f)
	long.Stop()
	var out *deliver.Outcome
	if began && !rep.apart {
		out = &rep.Outcome
	}
	o.unended.Add(1)
	o.follow(f, out)
	if began && !rep.parked {
		o.record(f, rep)
	}
	o.unended.Add(-1)
	o.landed(f)
}

// follow gives a flight's places back and lets those begin that waited for them; what
// waited for too long, and back, is due again at once.
func (o *outbox) follow(f *flight, out *deliver.Outcome, back ...*flight) {
	next, stale := o.lanes.leave(f, out)
	stale = append(stale, back...)
	if next != nil {
		o.flights.Add(1)
		o.launch(next)
	}
	if len(stale) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), claimWithin)
	defer cancel()
	if err := o.giveBack(ctx, stale); err != nil {
		o.s.log.Warn("effects that waited for their receiver could not be given back; they come again when their lease is over", "effects", len(stale), "error", err)
	}
}

// try makes the attempt; began is false where it could not even be noted as started.
func (o *outbox) try(f *flight) (rep report, began bool) {
	ctx, cancel := context.WithTimeout(o.ctx, attemptFor-max(o.s.elapsed(f.claimed), 0))
	defer cancel()
	request, problem := o.s.build(f)
	if !f.Started {
		ours, err := o.s.store.StartAttempt(ctx, &f.ClaimedEffect)
		if err != nil || !ours {
			o.s.log.Warn("an attempt could not be started; it will be taken again", "effect", f.Key, "error", err)
			return report{}, false
		}
	}
	if problem != nil {
		return report{Outcome: deliver.Outcome{Class: deliver.Permanent, Detail: problem.Error()}}, true
	}
	return request(ctx), true
}

// record writes the end of an attempt. It must not be cut short by a stop: the
// database is asked until it answers or the lease is over.
func (o *outbox) record(f *flight, rep report) {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	res := o.s.endOf(f, rep)
	var err error
	for try := 0; ; try++ {
		err = o.s.finish(ctx, &f.ClaimedEffect, res)
		if fault.CodeOf(err) != fault.Unavailable || try >= singleTries || !o.s.committer.pause(ctx, try+3) {
			break
		}
	}
	if err != nil {
		o.s.log.Error("the end of an attempt could not be recorded", "effect", f.Key, "outcome", string(rep.Class), "error", err)
	}
	if !rep.goesOn && !rep.gone {
		o.s.metrics.outcome(f.Kind, rep.Outcome)
	}
}

// endOf turns the report of an attempt into the effect's next status.
func (s *Service) endOf(f *flight, rep report) fsm.ResultEvent {
	r := fsm.ResultEvent{
		Effect: f.EffectID, Fence: f.Fence, Attempt: f.Attempt,
		Outcome: string(rep.Class), Detail: rep.Detail, HTTP: rep.Status, Answer: rep.Answer, Result: rep.result,
	}
	if rep.Class == deliver.Retry && unanswered(rep.Outcome) {
		r.Outcome = store.AttemptUnanswered
	}
	switch {
	case rep.gone:
		r.Status, r.Result = fsm.EffectCancelled, nil
	case rep.goesOn:
		s.again(f, &r, rep.wait)
	case rep.Class == deliver.Success:
		r.Status = fsm.EffectSucceeded
		if r.Result == nil {
			r.Result = decodeAnswer(rep.Body)
		}
	case rep.Class == deliver.Permanent:
		r.Status = fsm.EffectDead
	case rep.Class == deliver.Unknown:
		r.Status = fsm.EffectUnknown
	case f.Attempt < f.Attempts:
		s.again(f, &r, deliver.Backoff(f.Attempt, f.First, f.Max, s.cfg.Jitter(), rep.RetryAfter))
	default:
		r.Status = fsm.EffectDead
		if f.UnknownBefore || unanswered(rep.Outcome) {
			r.Status = fsm.EffectUnknown
		}
	}
	return r
}

func (s *Service) again(f *flight, r *fsm.ResultEvent, wait time.Duration) {
	next := f.now(s.mono()).Add(wait)
	r.Status, r.NextAt = fsm.EffectRetrying, &next
}

// finish writes the end of an attempt: as an event where the instance must hear of
// it, else as a plain fenced write.
func (s *Service) finish(ctx context.Context, e *store.ClaimedEffect, r fsm.ResultEvent) error {
	if r.Status == fsm.EffectRetrying || r.Status == fsm.EffectCancelled {
		return s.outbox.write(ctx, store.Finish{Instance: e.Instance, ResultEvent: r})
	}
	if e.Broken != "" { // no event can be about a row that cannot be read
		return errors.Join(s.outbox.write(ctx, store.Finish{Instance: e.Instance, ResultEvent: r}),
			s.quarantine(ctx, e.Instance, "effect "+e.Key, errors.New(e.Broken)))
	}
	d, err := s.planner.Definition(ctx, e.Definition, e.Version)
	if err != nil {
		return err
	}
	if !instanceHears(d.Effect(e.Name), e, r.Status) {
		return s.outbox.write(ctx, store.Finish{Instance: e.Instance, ResultEvent: r})
	}
	return s.hear(ctx, e, r)
}

// hear makes the end of an effect an event of its instance.
func (s *Service) hear(ctx context.Context, e *store.ClaimedEffect, r fsm.ResultEvent) error {
	ev, err := s.newEvent(fsm.KindEffectResult, e.Instance)
	if err != nil {
		return err
	}
	ev.Actor = fsm.Actor{Kind: fsm.ActorEffect, ID: "effect:" + e.Name}
	ev.Assurance, ev.Result = fsm.ByEngine, &r
	_, err = s.fire(ctx, &store.Job{Event: ev})
	switch fault.CodeOf(err) {
	case fault.Internal, fault.LimitExceeded, fault.GuardRejected, fault.InvalidInput: // the call is never repeated for that
		if _, ferr := s.store.FinishAttempts(ctx, []store.Finish{{Instance: e.Instance, ResultEvent: r}}); ferr != nil {
			return errors.Join(err, ferr)
		}
		return errors.Join(err, s.quarantine(ctx, e.Instance, "effect "+e.Name, err))
	case fault.Conflict: // the lease was lost or a person resolved it: theirs counts
		s.log.Info("a late end of an attempt was dropped", "effect", e.Key)
		return nil
	}
	return err
}

// RecoverOnce makes unknown what a stopped process had begun to send and may not be
// sent again unasked.
func (s *Service) RecoverOnce(ctx context.Context) (int, error) {
	lost, err := s.store.LostAttempts(ctx, 100)
	if err != nil {
		return 0, err
	}
	var errs []error
	for i := range lost {
		e := &lost[i]
		r := fsm.ResultEvent{
			Effect: e.EffectID, Fence: e.Fence, Attempt: e.Attempt, Status: fsm.EffectUnknown,
			Outcome: string(deliver.Unknown), Detail: unsentReason,
		}
		errs = append(errs, s.finish(ctx, e, r))
	}
	return len(lost), errors.Join(errs...)
}
