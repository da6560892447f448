package approval

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	batchSize     = 64
	queueCapacity = 20_000 // events waiting in this process; beyond that callers get 503
	slowLaneWidth = 8
	singleTries   = 4 // of one event after its batch failed
)

// ticket is one event's way through the committer.
type ticket struct {
	job  *store.Job
	ctx  context.Context
	done chan struct{}
	err  error // the service or its database is at fault
}

// committer shares commits between events (group commit). Per instance first come,
// first served and one in flight; a batch is made of the heads of ready instances.
// Under no load a batch is one event and waits for nobody.
type committer struct {
	store   *store.Store
	planner store.Planner
	log     *slog.Logger
	after   func([]*store.Job)    // told of every committed batch, after the commit
	usedUp  func(*store.Job) bool // tells that a job's link is used up: its answer needs no lock

	mu      sync.Mutex
	wake    *sync.Cond
	queues  map[string][]*ticket // by instance; the head may be in flight
	ready   []string             // instances whose head waits to be taken
	waiting int
	closed  bool

	slow    chan *ticket
	workers sync.WaitGroup
}

// errUsedUp ends an event whose link was used up while it waited for its turn.
var errUsedUp = errors.New("the link was used up meanwhile")

func newCommitter(st *store.Store, p store.Planner, log *slog.Logger, after func([]*store.Job), usedUp func(*store.Job) bool) *committer {
	c := &committer{
		store: st, planner: p, log: log, after: after, usedUp: usedUp,
		queues: map[string][]*ticket{}, slow: make(chan *ticket, queueCapacity),
	}
	c.wake = sync.NewCond(&c.mu)
	return c
}

// start runs the batch workers and the slow lane until stop.
func (c *committer) start() {
	batchers := min(4, max(1, runtime.GOMAXPROCS(0)/2)) // the database needs the other half
	if c.store.Dialect() == "sqlite" {
		batchers = 1 // one writer
	}
	for range batchers {
		c.workers.Go(c.runBatches)
	}
	for range slowLaneWidth {
		c.workers.Go(c.runSlowLane)
	}
}

// stop takes no new events, finishes those that wait and returns.
func (c *committer) stop() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.wake.Broadcast()
	for c.waiting > 0 {
		c.wake.Wait()
	}
	c.mu.Unlock()
	close(c.slow)
	c.workers.Wait()
}

// do offers one event and waits for its outcome in job. An error means that the
// outcome is not known or that the service could not serve; a refusal is in job.
func (c *committer) do(ctx context.Context, job *store.Job) error {
	t := &ticket{job: job, ctx: ctx, done: make(chan struct{})}
	if err := c.enqueue(t); err != nil {
		return err
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return tooLate(ctx)
	}
}

func tooLate(ctx context.Context) error {
	return fault.Wrap(ctx.Err(), fault.Unavailable, "The answer took too long. Ask again with the same Idempotency-Key or link: nothing happens twice.")
}

// see is do for who must know the end: once the commit of the event has begun, it is waited
// for beyond ctx. An event whose turn has not come when ctx ends is not committed.
func (c *committer) see(ctx context.Context, job *store.Job) error {
	t := &ticket{job: job, ctx: ctx, done: make(chan struct{})}
	if err := c.enqueue(t); err != nil {
		return err
	}
	<-t.done
	return t.err
}

func (c *committer) enqueue(t *ticket) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fault.New(fault.Unavailable, "The service is stopping. Try again in a moment.")
	}
	if c.waiting >= queueCapacity {
		e := fault.New(fault.Unavailable, "The service is overloaded. Try again in a moment.")
		e.RetryAfter = time.Second
		return e
	}
	id := t.job.Event.Instance
	c.queues[id] = append(c.queues[id], t)
	c.waiting++
	if len(c.queues[id]) == 1 {
		c.ready = append(c.ready, id)
		c.wake.Signal()
	}
	return nil
}

// take waits for ready instances and returns the heads of up to batchSize of them.
func (c *committer) take() []*ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.ready) == 0 {
		if c.closed && c.waiting == 0 {
			return nil
		}
		c.wake.Wait()
	}
	n := min(len(c.ready), batchSize)
	batch := make([]*ticket, n)
	for i, id := range c.ready[:n] {
		batch[i] = c.queues[id][0]
	}
	c.ready = append(c.ready[:0], c.ready[n:]...)
	return batch
}

// finish answers a ticket and makes its instance's next one ready.
func (c *committer) finish(t *ticket, err error) {
	t.err = err
	close(t.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	id := t.job.Event.Instance
	rest := c.queues[id][1:]
	c.waiting--
	if len(rest) == 0 {
		delete(c.queues, id)
	} else {
		c.queues[id] = rest
		c.ready = append(c.ready, id)
	}
	if c.closed {
		c.wake.Broadcast()
	} else if len(rest) > 0 {
		c.wake.Signal()
	}
}

func (c *committer) runBatches() {
	for {
		batch := c.take()
		if batch == nil {
			return
		}
		c.commit(batch)
	}
}

// commit runs one batch; what its instances' locks or claims hold up goes to the slow lane.
func (c *committer) commit(batch []*ticket) {
	live := batch[:0]
	for _, t := range batch {
		if t.ctx.Err() != nil { // nobody waits for the answer and nothing was written
			c.finish(t, tooLate(t.ctx))
			continue
		}
		if c.usedUp(t.job) {
			c.finish(t, errUsedUp)
			continue
		}
		live = append(live, t)
	}
	if len(live) == 0 {
		return
	}
	jobs := make([]*store.Job, len(live))
	for i, t := range live {
		jobs[i] = t.job
	}
	if err := c.store.Commit(context.Background(), jobs, c.planner, store.CommitOptions{}); err != nil {
		c.log.Warn("a batch failed; its events go one by one", "events", len(jobs), "error", err)
		for _, t := range live {
			c.slow <- t
		}
		return
	}
	c.after(jobs)
	for _, t := range live {
		if t.job.Requeue {
			c.slow <- t
			continue
		}
		c.finish(t, nil)
	}
}

func (c *committer) runSlowLane() {
	for t := range c.slow {
		if t.job.Requeue && c.usedUp(t.job) {
			c.finish(t, errUsedUp)
			continue
		}
		c.finish(t, c.commitAlone(t))
	}
}

// commitAlone commits one event whose batch failed or whose instance was locked
// elsewhere. A commit whose answer was lost is found by its event id, so that the
// first answer is the answer.
func (c *committer) commitAlone(t *ticket) error {
	job := t.job
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var last error
	for try := range singleTries {
		if !job.Requeue { // an attempt of unknown end came before
			seq, err := c.store.EventSeq(ctx, job.Event.Instance, job.Event.ID)
			if err != nil {
				last = err
				if !c.pause(ctx, try) {
					break
				}
				continue
			}
			if seq > 0 && job.Step.Transition.Seq == seq {
				c.after([]*store.Job{job})
				return nil
			}
		}
		if t.ctx.Err() != nil { // nobody waits for the answer and nothing was written
			return tooLate(t.ctx)
		}
		reset(job)
		last = c.store.Commit(ctx, []*store.Job{job}, c.planner, store.CommitOptions{Wait: true})
		if last == nil && !job.Requeue {
			c.after([]*store.Job{job})
			return nil
		}
		if !c.pause(ctx, try) {
			break
		}
	}
	if last == nil {
		last = errors.New("the instance stayed locked")
	}
	c.log.Error("an event could not be committed", "instance", job.Event.Instance, "event", job.Event.Name, "error", last)
	if fault.CodeOf(last) == fault.Unavailable {
		return last
	}
	return fault.Wrap(last, fault.Unavailable, "The database did not take the change. Try again in a moment with the same Idempotency-Key or link.")
}

// pause waits a little longer before each try; false when ctx ended.
func (c *committer) pause(ctx context.Context, try int) bool {
	t := time.NewTimer(time.Duration(5<<try) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reset clears what an earlier attempt filled in.
func reset(job *store.Job) {
	next := store.Job{Event: job.Event, Claims: job.Claims, TokenHash: job.TokenHash, Callback: job.Callback}
	if job.Event.Kind == fsm.KindStart && job.Snapshot != nil {
		next.Snapshot = &fsm.Snapshot{Definition: job.Snapshot.Definition}
	}
	*job = next
}
