package approval

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"vobo/internal/store"
)

const (
	lease       = 60 * time.Second // longer than the longest attempt
	attemptFor  = lease - 5*time.Second
	claimWithin = 10 * time.Second // for one look at what is due
	notifyTopic = "effects"
	notifyEvery = 20 * time.Millisecond
	endsLinger  = 5 * time.Millisecond // ends of attempts wait this long for others to share their commit
	endsAtOnce  = 256                  // in one commit
	endsWaiting = 512                  // not yet written; beyond that nothing more is leased

	unsentReason = "The service that was sending stopped before it could record an answer."
)

// outbox sends what commits queued: leases, attempts, results. Each attempt is
// committed as started before it dials and as ended after.
type outbox struct {
	s        *Service
	lanes    *lanes
	feed     *feed
	woken    chan struct{} // capacity 1: something may be due
	told     chan struct{} // capacity 1: other replicas should look
	ended    chan ended    // ends of attempts that wait to be written together
	starting chan struct{} // a place for each child that is being started
	hungry   atomic.Bool   // more may be due than could be leased: look again as soon as something ends
	unended  atomic.Int64  // attempts whose outcome is known and not yet written

	mu      sync.Mutex
	running map[string]*flight // leased here
	closed  bool
	closing chan struct{} // closed when the stop begins

	flights sync.WaitGroup // attempts under way
	work    sync.WaitGroup
	cancel  context.CancelFunc
	ctx     context.Context // of attempts under way: ends when the stop's grace does
}

func newOutbox(s *Service) *outbox {
	o := &outbox{
		s: s, lanes: newLanes(s.cfg.Clock), woken: make(chan struct{}, 1), told: make(chan struct{}, 1),
		ended: make(chan ended, endsAtOnce), starting: make(chan struct{}, childrenAtOnce),
		running: map[string]*flight{}, closing: make(chan struct{}),
	}
	o.feed = newFeed(s)
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

// stop starts nothing new, waits for attempts under way until ctx ends, and gives
// back what was not started.
func (o *outbox) stop(ctx context.Context) error {
	o.mu.Lock()
	if !o.closed {
		o.closed = true
		close(o.closing)
	}
	o.mu.Unlock()
	o.feed.close()
	if err := o.giveBack(ctx, o.lanes.close()); err != nil {
		o.s.log.Warn("effects that were not sent could not be given back; they come again when their lease is over", "error", err)
	}
	free := make(chan struct{})
	go func() {
		o.flights.Wait()
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

// stopping tells whether the stop has begun.
func (o *outbox) stopping() bool {
	select {
	case <-o.closing:
		return true
	default:
		return false
	}
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

// DispatchOnce leases what is due, as far as there is room in the lanes, and sends it in
// the background. It returns how many effects it took.
func (s *Service) DispatchOnce(ctx context.Context) (int, error) {
	o := s.outbox
	room, slow := o.lanes.room()
	if room = min(room, endsWaiting-int(o.unended.Load())); room <= 0 {
		o.hungry.Store(true)
		return 0, nil
	}
	// A stop must not cut this short: a lease that nobody knows of lasts until it runs out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimWithin)
	defer cancel()
	o.hungry.Store(true) // what ends while this looks is not overlooked
	of, suspects := o.lanes.shares()
	began := s.mono()
	claimed, err := s.claim(ctx, room, of, suspects)
	full := len(claimed) >= room
	if rest := min(room-len(claimed), slow); err == nil && len(suspects) > 0 && rest > 0 {
		var more []store.ClaimedEffect
		more, err = s.claim(ctx, rest, of, nil)
		claimed = append(claimed, more...)
	}
	taken, back := 0, []*flight{}
	for _, e := range claimed {
		f := newFlight(e, began)
		switch begins, refused := o.take(f); {
		case refused:
			back = append(back, f)
			continue
		case begins:
			o.launch(f)
		}
		taken++
	}
	if !full && !o.lanes.crowded() {
		o.hungry.Store(false)
	}
	return taken, errors.Join(err, o.giveBack(ctx, back))
}

// claim leases what is due, host by host within its share, but nothing of those to avoid.
func (s *Service) claim(ctx context.Context, limit int, of map[string]int, avoid []string) ([]store.ClaimedEffect, error) {
	return s.store.ClaimEffects(ctx, limit, lease, store.Hosts{Usual: perHost, Of: of, Avoid: avoid})
}

func newFlight(e store.ClaimedEffect, claimed time.Time) *flight {
	f := &flight{ClaimedEffect: e, claimed: claimed}
	if e.Broken != "" {
		f.broken = errors.New(e.Broken)
		return f
	}
	f.frozen, f.broken = thaw(e.Request)
	switch {
	case f.broken != nil:
	case f.frozen.Email != nil, f.frozen.TaskMail != nil:
		f.host = store.MailHost
	case f.frozen.Webhook != nil:
		if u, err := url.Parse(f.frozen.Webhook.URL); err == nil { // else it is refused before it dials
			f.host = strings.ToLower(u.Host)
		}
	}
	return f
}

// take books a flight.
func (o *outbox) take(f *flight) (begins, refused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false, true
	}
	if begins, refused = o.lanes.admit(f); refused {
		return false, true
	}
	o.running[f.Key], f.booked = f, true
	if begins {
		o.flights.Add(1)
	}
	return begins, false
}

// launch sends a flight that has its places.
func (o *outbox) launch(f *flight) { o.work.Go(func() { o.fly(f) }) }

// giveBack makes leased effects that will not be sent here due again at once; no attempt
// is used up.
func (o *outbox) giveBack(ctx context.Context, back []*flight) error {
	if len(back) == 0 {
		return nil
	}
	rows := make([]store.ClaimedEffect, len(back))
	for i, f := range back {
		rows[i] = f.ClaimedEffect
	}
	err := o.s.store.ReleaseEffects(ctx, rows)
	for _, f := range back {
		o.landed(f)
	}
	return err
}

// landed forgets a flight whose end is written, or was given up.
func (o *outbox) landed(f *flight) {
	if !f.booked {
		return
	}
	o.mu.Lock()
	if o.running[f.Key] == f {
		delete(o.running, f.Key)
	}
	o.mu.Unlock()
	o.lanes.ended(f)
	if o.hungry.Load() {
		o.s.Wake()
	}
}

// now is the database's time, as far as it went on since the claim.
func (f *flight) now(mono time.Time) time.Time {
	return f.LeaseUntil.Add(-lease).Add(max(mono.Sub(f.claimed), 0)).Truncate(time.Millisecond)
}
