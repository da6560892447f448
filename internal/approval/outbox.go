package approval

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	lease        = 60 * time.Second // longer than the longest attempt
	claimWithin  = 10 * time.Second // for one look at what is due
	senders      = 32               // attempts under way at once
	perHost      = 6                // of them to one host
	notifyTopic  = "effects"
	notifyEvery  = 20 * time.Millisecond
	endsLinger   = 5 * time.Millisecond // ends of attempts wait this long for others to share their commit
	unsentReason = "The service that was sending stopped before it could record an answer."
)

// outbox sends what commits queued: leases, attempts, results. Each attempt is
// committed as started before it dials and as ended after.
type outbox struct {
	s     *Service
	slots chan struct{}
	woken chan struct{} // capacity 1: something may be due
	told  chan struct{} // capacity 1: other replicas should look
	ended chan ended    // ends of attempts that wait to be written together

	mu      sync.Mutex
	hosts   map[string]int
	running map[string]store.ClaimedEffect
	closed  bool

	work   sync.WaitGroup
	cancel context.CancelFunc
	ctx    context.Context // of attempts under way: ends when the stop's grace does
}

func newOutbox(s *Service) *outbox {
	o := &outbox{
		s: s, slots: make(chan struct{}, senders), woken: make(chan struct{}, 1), told: make(chan struct{}, 1), ended: make(chan ended, senders),
		hosts: map[string]int{}, running: map[string]store.ClaimedEffect{},
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// wake says that effects were committed.
func (o *outbox) wake() {
	for _, c := range []chan struct{}{o.woken, o.told} {
		select {
		case c <- struct{}{}:
		default: // a wake-up is waiting already
		}
	}
}

// start begins what runs beside the senders: telling other replicas, and writing the
// ends of attempts.
func (o *outbox) start() {
	o.work.Go(o.tellReplicas)
	o.work.Go(o.writeEnds)
}

// tellReplicas tells other replicas of new effects, at most once every notifyEvery.
func (o *outbox) tellReplicas() {
	pace := time.NewTicker(notifyEvery)
	defer pace.Stop()
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-o.told:
			if err := o.s.store.Notify(o.ctx, notifyTopic); err != nil && o.ctx.Err() == nil {
				o.s.log.Debug("other replicas could not be told of new effects; they will look by themselves", "error", err)
			}
		}
		select {
		case <-o.ctx.Done():
			return
		case <-pace.C:
		}
	}
}

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
		for more := true; more && len(waiting) < senders; {
			select {
			case e := <-o.ended:
				waiting = append(waiting, e)
			case <-linger.C:
				more = false
			}
		}
		linger.Stop()
		rows := make([]store.Finish, len(waiting))
		for i := range waiting {
			rows[i] = waiting[i].finish
		}
		ctx, cancel := context.WithTimeout(context.Background(), lease)
		_, err := o.s.store.FinishAttempts(ctx, rows)
		cancel()
		for _, w := range waiting {
			w.done <- err
		}
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

// stop starts nothing new, waits for attempts under way until ctx ends, and gives
// back what was not started.
func (o *outbox) stop(ctx context.Context) error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	free := make(chan struct{})
	go func() {
		for range senders {
			o.slots <- struct{}{}
		}
		close(free)
	}()
	var err error
	select {
	case <-free:
	case <-ctx.Done():
		err = ctx.Err()
	}
	o.cancel()
	o.work.Wait()
	return err
}

// Woken is signalled when effects were committed here.
func (s *Service) Woken() <-chan struct{} { return s.outbox.woken }

// Wake looks for due effects soon; another replica said that there are some.
func (s *Service) Wake() {
	select {
	case s.outbox.woken <- struct{}{}:
	default:
	}
}

// DispatchOnce leases what is due, as far as there are free senders, and sends it in
// the background. It returns how many effects it took.
func (s *Service) DispatchOnce(ctx context.Context) (int, error) {
	o := s.outbox
	o.mu.Lock()
	closed := o.closed
	o.mu.Unlock()
	free := senders - len(o.slots)
	if free <= 0 || closed {
		return 0, nil
	}
	// A stop must not cut this short: a lease that nobody knows of lasts until it runs out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimWithin)
	defer cancel()
	claimed, err := s.store.ClaimEffects(ctx, free, lease)
	if err != nil {
		return 0, err
	}
	var back []store.ClaimedEffect
	for _, e := range claimed {
		if !o.take(e) {
			back = append(back, e)
			continue
		}
		o.work.Go(func() { o.send(e) })
	}
	return len(claimed) - len(back), s.giveBack(ctx, back)
}

// giveBack makes leased effects that will not be sent here due again at once. Where the
// lease had started the attempt, that attempt ends as one that never dialled.
func (s *Service) giveBack(ctx context.Context, back []store.ClaimedEffect) error {
	if len(back) == 0 {
		return nil
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	var started []store.Finish
	for i := range back {
		if e := &back[i]; e.Started {
			started = append(started, store.Finish{Instance: e.Instance, ResultEvent: fsm.ResultEvent{
				Effect: e.EffectID, Fence: e.Fence,
				Attempt: e.Attempt, Status: fsm.EffectRetrying, NextAt: &now, Outcome: string(deliver.Retry), Detail: "Not sent: the service was stopping.",
			}})
		}
	}
	_, err = s.store.FinishAttempts(ctx, started)
	return errors.Join(err, s.store.ReleaseEffects(ctx, back)) // which leaves the started ones alone
}

// take books a sender and a place at the effect's host; false where there is none. The
// store has given each host its share already, so an attempt that the lease has started
// is not refused for its host: its place is free as soon as its predecessor's end,
// which the database knows, is known here.
func (o *outbox) take(e store.ClaimedEffect) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	host := hostOf(&e)
	if o.closed || (host != "" && !e.Started && o.hosts[host] >= perHost) {
		return false
	}
	select {
	case o.slots <- struct{}{}:
	default:
		return false
	}
	o.hosts[host]++
	o.running[e.Key] = e
	return true
}

func (o *outbox) give(e store.ClaimedEffect) {
	o.mu.Lock()
	host := hostOf(&e)
	if o.hosts[host]--; o.hosts[host] <= 0 {
		delete(o.hosts, host)
	}
	delete(o.running, e.Key)
	o.mu.Unlock()
	<-o.slots
	o.s.Wake()
}

// hostOf is the host a webhook goes to; "" for mails.
func hostOf(e *store.ClaimedEffect) string {
	f, err := thaw(e.Request)
	if err != nil || f.Webhook == nil {
		return ""
	}
	u, err := url.Parse(f.Webhook.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// send makes one attempt and records its end.
func (o *outbox) send(e store.ClaimedEffect) {
	defer o.give(e)
	ctx, cancel := context.WithTimeout(o.ctx, lease-5*time.Second)
	defer cancel()
	request, problem := o.s.build(&e)
	if !e.Started {
		ours, err := o.s.store.StartAttempt(ctx, &e)
		if err != nil || !ours {
			o.s.log.Warn("an attempt could not be started; it will be taken again", "effect", e.Key, "error", err)
			return
		}
	}
	var out deliver.Outcome
	if problem != nil {
		out = deliver.Outcome{Class: deliver.Permanent, Detail: problem.Error()}
	} else {
		out = request(ctx)
	}
	o.record(e, out)
}

// record writes the end of an attempt. It must not be cut short by a stop: the
// database is asked until it answers or the lease is over.
func (o *outbox) record(e store.ClaimedEffect, out deliver.Outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	res, err := o.s.ended(ctx, &e, out)
	for try := 0; err == nil; try++ {
		err = o.s.finish(ctx, &e, res)
		if err == nil || fault.CodeOf(err) != fault.Unavailable || try >= singleTries {
			break
		}
		if !o.s.committer.pause(ctx, try+3) {
			break
		}
		err = nil
	}
	if err != nil {
		o.s.log.Error("the end of an attempt could not be recorded", "effect", e.Key, "outcome", string(out.Class), "error", err)
	}
	o.s.metrics.attempt(e.Kind, string(out.Class))
}

// ended turns the outcome of an attempt into the effect's next status.
func (s *Service) ended(ctx context.Context, e *store.ClaimedEffect, out deliver.Outcome) (fsm.ResultEvent, error) {
	r := fsm.ResultEvent{
		Effect: e.EffectID, Fence: e.Fence, Attempt: e.Attempt,
		Outcome: string(out.Class), Detail: out.Detail, HTTP: out.Status,
	}
	switch out.Class {
	case deliver.Success:
		r.Status, r.Result = fsm.EffectSucceeded, decodeAnswer(out.Body)
	case deliver.Permanent:
		r.Status = fsm.EffectDead
	case deliver.Unknown:
		r.Status = fsm.EffectUnknown
	default:
		return s.retryLater(ctx, e, out, r)
	}
	return r, nil
}

func (s *Service) retryLater(ctx context.Context, e *store.ClaimedEffect, out deliver.Outcome, r fsm.ResultEvent) (fsm.ResultEvent, error) {
	if e.Attempt >= e.Attempts {
		r.Status = fsm.EffectDead
		if e.UnknownBefore || unanswered(out) {
			r.Status = fsm.EffectUnknown
		}
		return r, nil
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return r, err
	}
	next := now.Add(deliver.Backoff(e.Attempt, e.First, e.Max, s.cfg.Jitter(), out.RetryAfter))
	r.Status, r.NextAt = fsm.EffectRetrying, &next
	return r, nil
}

// finish writes the end of an attempt: as an event where the instance must hear of
// it, else as a plain fenced write.
func (s *Service) finish(ctx context.Context, e *store.ClaimedEffect, r fsm.ResultEvent) error {
	d, err := s.planner.Definition(ctx, e.Definition, e.Version)
	if err != nil {
		return err
	}
	if !instanceHears(d.Effect(e.Name), e, r.Status) {
		return s.outbox.write(ctx, store.Finish{Instance: e.Instance, ResultEvent: r})
	}
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
