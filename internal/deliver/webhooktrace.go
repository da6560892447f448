package deliver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// phase is a part of an attempt, with a limit and words of its own.
type phase int

const (
	connecting phase = iota // the look-up of the name, and TCP
	shaking                 // the TLS handshake
	writing                 // the request
	waiting                 // for the whole header of the answer
	reading                 // the body of the answer
)

// phaseLimits bounds the phases of one attempt, and the whole; fetch is the whole of a fetch.
type phaseLimits struct{ dial, handshake, write, header, body, total, fetch time.Duration }

var (
	defaultLimits = phaseLimits{dial: 5 * time.Second, handshake: 5 * time.Second, write: 10 * time.Second, header: 15 * time.Second, body: 10 * time.Second, total: 20 * time.Second, fetch: 30 * time.Second}
	errTotal      = errors.New("the attempt as a whole took too long")
)

func (l phaseLimits) of(p phase) time.Duration {
	return [...]time.Duration{connecting: l.dial, shaking: l.handshake, writing: l.write, waiting: l.header, reading: l.body}[p]
}

// slowError is a phase that took too long.
type slowError struct {
	at    phase
	limit time.Duration
}

func (e *slowError) Error() string { return "deliver: " + e.words() }

func (e *slowError) words() string {
	return fmt.Sprintf([...]string{
		connecting: "connecting took longer than %s",
		shaking:    "the TLS handshake took longer than %s",
		writing:    "sending the request took longer than %s",
		waiting:    "no answer began within %s",
		reading:    "the answer was not complete within %s",
	}[e.at], e.limit)
}

// trace knows how far a request came, and ends it when a phase lasts too long. The
// transport may still write when it has already failed, so its fields are atomic or
// guarded.
type trace struct {
	conn   atomic.Pointer[countedConn]
	before atomic.Int64
	reused atomic.Bool

	limits phaseLimits
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	at     phase
	timer  *time.Timer
	ended  bool
}

func (t *trace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if c, ok := info.Conn.(*countedConn); ok {
				t.before.Store(c.written.Load())
				t.reused.Store(info.Reused)
				t.conn.Store(c)
			}
			t.enter(writing)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				t.enter(waiting)
			}
		},
	}
}

// enter begins a phase, unless a later one has begun: an answer may come before the
// request is written.
func (t *trace) enter(p phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || p <= t.at {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	slow := &slowError{p, t.limits.of(p)}
	t.at = p
	t.timer = time.AfterFunc(slow.limit, func() { t.cancel(slow) })
}

// end stops the watch.
func (t *trace) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// tooSlow tells which phase took too long, nil if err has another cause.
func (t *trace) tooSlow(ctx context.Context, err error) *slowError {
	cause := context.Cause(ctx)
	if slow, ok := errors.AsType[*slowError](errors.Join(cause, err)); ok {
		return slow
	}
	if !errors.Is(cause, errTotal) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &slowError{t.at, t.limits.total}
}

// wrote tells whether a byte of the request may have left.
func (t *trace) wrote() bool {
	c := t.conn.Load()
	return c != nil && c.written.Load() > t.before.Load()
}

// countedConn counts what a request writes, above TLS. A write counts from its begin,
// since a request may be given up while it lasts, unless it ends with nothing written.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	if err != nil && n == 0 {
		c.written.Add(-int64(len(b)))
	}
	return n, err
}
