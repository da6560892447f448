package testkit

import (
	"sync"
	"testing"
	"time"
)

// Patience is how long the waiting helpers wait for what should come; it is
// long because a loaded machine is slow, and costs nothing where things work.
const Patience = 30 * time.Second

// pollEvery is how often WaitFor looks.
const pollEvery = 10 * time.Millisecond

// WaitFor returns as soon as condition holds and fails the test when it does
// not within Patience; what says what was awaited.
func WaitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	WaitForWithin(t, Patience, what, condition)
}

// WaitForWithin is WaitFor with a limit of its own.
func WaitForWithin(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	if !eventually(limit, condition) {
		t.Fatalf("waited %s in vain for %s", limit, what)
	}
}

func eventually(limit time.Duration, condition func() bool) bool {
	tick, timeout := time.NewTicker(pollEvery), time.NewTimer(limit)
	defer tick.Stop()
	defer timeout.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-timeout.C:
			return condition()
		}
	}
	return true
}

// journal is an append-only list that can be waited for.
type journal[T any] struct {
	mu      sync.Mutex
	entries []T
	changed chan struct{} // closed at the next append
}

func (j *journal[T]) append(entry T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// snapshot returns the entries that match and a channel that is closed when
// there is a further one.
func (j *journal[T]) snapshot(match func(T) bool) ([]T, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	var found []T
	for _, entry := range j.entries {
		if match(entry) {
			found = append(found, entry)
		}
	}
	return found, j.changed
}

// waitFor returns the matching entries once there are n; ok is false when the
// limit passed with fewer.
func (j *journal[T]) waitFor(limit time.Duration, n int, match func(T) bool) (found []T, ok bool) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		found, changed := j.snapshot(match)
		if len(found) >= n {
			return found, true
		}
		select {
		case <-changed:
		case <-timeout.C:
			return found, false
		}
	}
}

// script is a queue of what to do next, with a lasting default.
type script[T any] struct {
	mu      sync.Mutex
	next    []T
	lasting T
}

func (s *script[T]) set(lasting T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasting, s.next = lasting, nil
}

func (s *script[T]) queue(next ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, next...)
}

func (s *script[T]) take() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) == 0 {
		return s.lasting
	}
	first := s.next[0]
	s.next = s.next[1:]
	return first
}
