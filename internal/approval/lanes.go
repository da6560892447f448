package approval

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	fastLane   = 64                     // attempts under way at once that have just begun
	slowLane   = 1_000                  // attempts under way at once that last longer
	slowAfter  = 250 * time.Millisecond // an attempt that lasts longer leaves the fast lane
	perHost    = 6                      // attempts under way at once to one host
	perMail    = 16                     // the same for the mail server
	aheadOf    = 192                    // leased at once of one host that answers promptly
	prompt     = 100 * time.Millisecond // what such a host takes
	queuedFor  = 25 * time.Second       // what waits longer for its place at a host is given back
	suspectFor = 30 * time.Second       // a host that did not answer comes after the others for so long
	hostsKept  = 4_096                  // hosts about which something is remembered
	avoided    = 500                    // suspect hosts that one claim leaves out
)

// flight is a leased effect on its way. What stands below lane is the lanes'.
type flight struct {
	store.ClaimedEffect
	frozen  *fsm.Frozen
	broken  error     // why its request cannot be read
	host    string    // "" : no receiver whose health matters to others
	claimed time.Time // by the process's clock
	booked  bool      // taken into the lanes

	lane  lane
	begun time.Time
}

type lane int

const (
	onGround lane = iota // not begun, or ended
	inFast
	inSlow
)

// host is what is known of one receiver.
type host struct {
	wire   int       // attempts under way
	leased int       // leased here and not yet ended in the database
	queue  []*flight // leased here, waiting for a place
	pace   time.Duration
	shy    time.Time // suspect until then
}

// lanes bounds the attempts under way: a few fast ones, many slow ones, and at each
// host its share. Nothing here does anything by itself.
type lanes struct {
	clock func() time.Time

	mu      sync.Mutex
	closed  bool
	fast    int
	slow    int
	overdue []*flight // should be in the slow lane, which was full
	hosts   map[string]*host
}

func newLanes(clock func() time.Time) *lanes {
	return &lanes{clock: clock, hosts: map[string]*host{}}
}

// room is how many more attempts may begin, and how many of them at suspect hosts.
func (l *lanes) room() (all, suspect int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, 0
	}
	all = max(fastLane-l.fast, 0)
	return all, min(all, max(slowLane-l.slow-l.fast, 0))
}

// share is how many effects of a host are leased at once.
func (h *host) share(name string) int {
	switch {
	case h.pace > 0 && h.pace < prompt:
		return aheadOf
	case name == store.MailHost:
		return perMail
	}
	return perHost
}

// shares tells the claim how much of each host it may take, and whom to leave out.
func (l *lanes) shares() (of map[string]int, suspects []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	of = map[string]int{store.MailHost: perMail}
	for name, h := range l.hosts {
		if n := h.share(name); n != perHost {
			of[name] = n
		}
		if h.shy.After(now) {
			suspects = append(suspects, name)
		}
	}
	// The latest first: those who have become so last stay so longest.
	slices.SortFunc(suspects, func(a, b string) int {
		return cmp.Or(l.hosts[b].shy.Compare(l.hosts[a].shy), cmp.Compare(a, b))
	})
	return of, suspects[:min(len(suspects), avoided)]
}

// crowded tells whether more of some host may be due than was leased.
func (l *lanes) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	for name, h := range l.hosts {
		if h.leased >= h.share(name) || h.shy.After(now) {
			return true
		}
	}
	return false
}

// admit takes a flight in: it begins now, or waits for a place at its host. refused:
// the service is stopping.
func (l *lanes) admit(f *flight) (begins, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, true
	}
	if f.host != "" {
		h := l.at(f.host)
		h.leased++
		if h.wire >= wireOf(f.host) {
			h.queue = append(h.queue, f)
			return false, false
		}
		h.wire++
	}
	l.begin(f)
	return true, false
}

func wireOf(name string) int {
	if name == store.MailHost {
		return perMail
	}
	return perHost
}

// at is what is known of a host. Where there are many, who has nothing under way is
// forgotten, and who is suspect or known to be prompt only if that is not enough.
func (l *lanes) at(name string) *host {
	h := l.hosts[name]
	if h != nil {
		return h
	}
	if len(l.hosts) >= hostsKept {
		now := l.clock()
		l.forget(func(o *host) bool { return !o.shy.After(now) && o.pace == 0 })
		if len(l.hosts) >= hostsKept {
			l.forget(func(o *host) bool { return !o.shy.After(now) })
		}
		if len(l.hosts) >= hostsKept {
			l.forget(func(*host) bool { return true })
		}
	}
	h = &host{}
	l.hosts[name] = h
	return h
}

// forget drops hosts that have nothing under way and that which chooses.
func (l *lanes) forget(which func(*host) bool) {
	for name, h := range l.hosts {
		if h.leased == 0 && which(h) {
			delete(l.hosts, name)
		}
	}
}

func (l *lanes) begin(f *flight) {
	l.fast++
	f.lane, f.begun = inFast, l.clock()
}

// overtime moves an attempt that lasts long into the slow lane; false where it has ended
// or there is no place.
func (l *lanes) overtime(f *flight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.lane != inFast {
		return false
	}
	if l.slow >= slowLane {
		l.overdue = append(l.overdue, f)
		return false
	}
	l.toSlow(f)
	return true
}

func (l *lanes) toSlow(f *flight) {
	f.lane = inSlow
	l.fast--
	l.slow++
}

// leave gives an attempt's places back as soon as its outcome is known. It returns who
// begins at the same host now, and who waited there for too long.
func (l *lanes) leave(f *flight, out *deliver.Outcome) (next *flight, stale []*flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f.lane {
	case inFast:
		l.fast--
	case inSlow:
		l.slow--
	}
	f.lane = onGround
	for l.slow < slowLane && len(l.overdue) > 0 {
		late := l.overdue[0]
		l.overdue = l.overdue[1:]
		if late.lane == inFast {
			l.toSlow(late)
		}
	}
	if f.host == "" {
		return nil, nil
	}
	h := l.at(f.host)
	h.judge(l.clock(), f, out)
	h.wire--
	for len(h.queue) > 0 && next == nil {
		first := h.queue[0]
		h.queue = h.queue[1:]
		if l.clock().Sub(first.claimed) > queuedFor {
			stale = append(stale, first)
			continue
		}
		next = first
		h.wire++
		l.begin(first)
	}
	return next, stale
}

// judge learns from an outcome. Only what did not answer at all makes a host suspect.
func (h *host) judge(now time.Time, f *flight, out *deliver.Outcome) {
	switch {
	case out == nil: // it never dialled
	case out.Answered:
		took := max(now.Sub(f.begun), time.Microsecond)
		if h.pace == 0 {
			h.pace = took
		}
		h.pace, h.shy = (3*h.pace+took)/4, time.Time{}
	case out.Class == deliver.Retry || out.Class == deliver.Unknown:
		h.pace, h.shy = 0, now.Add(suspectFor)
	}
}

// ended notes that a flight's end is in the database.
func (l *lanes) ended(f *flight) {
	if f.host == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at(f.host).leased--
}

// close lets nothing more begin and returns who waited for a place.
func (l *lanes) close() (waiting []*flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, h := range l.hosts {
		waiting = append(waiting, h.queue...)
		h.queue = nil
	}
	return waiting
}
