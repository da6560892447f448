package approval

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	lookersWidth  = 4
	lookersKept   = 10_000 // instances to look at
	lookersBatch  = 32
	lookersHashes = 200 // in one question
	lookersWithin = 30 * time.Second
)

// lookout looks, in the background, for calls that came before the waits that steps have
// just begun. What it has no room for, and what a crash takes with it, is found by
// LookForCalls.
type lookout struct {
	s *Service

	mu      sync.Mutex
	wake    *sync.Cond
	pending map[string][][]byte // hashes under which a call may have come, by instance
	closed  bool

	work   sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

func newLookout(s *Service) *lookout {
	l := &lookout{s: s, pending: map[string][][]byte{}}
	l.wake = sync.NewCond(&l.mu)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// add has an instance looked at soon, under these hashes too. It never waits.
func (l *lookout) add(instance string, hashes [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, pending := l.pending[instance]
	if l.closed || !pending && len(l.pending) >= lookersKept {
		return
	}
	for _, hash := range hashes {
		if !slices.ContainsFunc(known, func(h []byte) bool { return bytes.Equal(h, hash) }) {
			known = append(known, hash)
		}
	}
	l.pending[instance] = known
	l.wake.Signal()
}

func (l *lookout) start() {
	for range lookersWidth {
		l.work.Go(func() {
			for batch := l.take(); batch != nil; batch = l.take() {
				l.lookAt(batch)
			}
		})
	}
}

// stop looks at what is pending until ctx ends; nothing is added any more.
func (l *lookout) stop(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.wake.Broadcast()
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		l.cancel()
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	clear(l.pending)
	l.mu.Unlock()
	l.cancel()
	<-done
	return ctx.Err()
}

// take waits for instances to look at; nil at the end.
func (l *lookout) take() map[string][][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) == 0 {
		if l.closed {
			return nil
		}
		l.wake.Wait()
	}
	batch := map[string][][]byte{}
	for instance, hashes := range l.pending {
		batch[instance] = hashes
		delete(l.pending, instance)
		if len(batch) == lookersBatch {
			break
		}
	}
	return batch
}

// lookAt asks once for all instances of a batch whether any call came before its wait:
// mostly none did.
func (l *lookout) lookAt(batch map[string][][]byte) {
	ctx, cancel := context.WithTimeout(l.ctx, lookersWithin)
	defer cancel()
	var all [][]byte
	for _, hashes := range batch {
		all = append(all, hashes...)
	}
	if !l.anyCall(ctx, all) {
		return
	}
	for instance := range batch {
		if _, err := l.s.takeAll(ctx, instance, nil, nil); err != nil {
			l.s.log.Warn("calls that came before a wait could not be given to it; they are looked at again", "instance", instance, "error", err)
		}
	}
}

// anyCall tells whether a waiting call is found by one of the hashes; true where that is
// not known.
func (l *lookout) anyCall(ctx context.Context, hashes [][]byte) bool {
	for some := range slices.Chunk(hashes, lookersHashes) {
		if early, err := l.s.store.EarlyCalls(ctx, some, 1); err != nil || len(early) > 0 {
			return true
		}
	}
	return false
}
