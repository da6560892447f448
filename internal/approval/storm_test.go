package approval

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/store"
)

// storm makes one in twenty of all passages of a point of the store fail, half of them
// before something was written and half after: a lost answer.
type storm struct {
	mu   sync.Mutex
	rand *rand.Rand
	on   bool
	hits map[string]int
}

func (s *storm) fail(point string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on || s.rand.Float64() >= 0.05 {
		return nil
	}
	s.hits[point]++
	return errCrash
}

func (s *storm) blow(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
}

// guarantee R-06: one in twenty calls to the database fails or loses its answer, while
// clients start and decide and the outbox sends. Whoever asks again gets the first
// answer, never a conflict; nothing is half done or done twice.
func TestFaultsAtEveryPointConvergeWhenClientsAskAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		n := size(250, 10_000)
		b.need("duel")
		weather := &storm{rand: rand.New(rand.NewPCG(6, 6)), hits: map[string]int{}}
		faulty, _, stop := b.process(nil, weather.fail)
		defer stop()
		weather.blow(true)
		done := make(chan struct{})
		var sending sync.WaitGroup
		sending.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := faulty.DispatchOnce(b.ctx); err != nil && !errors.Is(err, errCrash) {
					t.Errorf("dispatch: %v", err)
					return
				}
			}
		})
		ids := make([]string, n)
		var wrong tally
		var again atomic.Int64
		each(n, 16, func(i int) { ids[i] = b.stormyApproval(faulty, i, &again, &wrong) })
		close(done)
		sending.Wait()
		weather.blow(false)
		b.settle(t)
		for _, id := range ids {
			if rows, tells := b.history(id), b.named(id, "tell_approved"); len(rows) != 2 || tells != 1 {
				wrong.add("%s: %d rows, %d effects", id, len(rows), tells)
			}
		}
		reached := 0
		for _, point := range store.FaultPoints {
			if weather.hits[point] > 0 {
				reached++
			}
		}
		if reached < 8 {
			t.Errorf("faults at %d points: the test does not test", reached)
		}
		t.Logf("%d approvals, %d calls made again, faults at %d points", n, again.Load(), reached)
		wrong.check(t, "R-06 approvals lost, doubled or refused after a fault", n)
	})
}

// stormyApproval starts an instance and decides it, asking again for as long as the
// service says that it may be asked again.
func (b *bundle) stormyApproval(faulty *Service, i int, again *atomic.Int64, wrong *tally) (id string) {
	key := fmt.Sprintf("storm-%d", i)
	r := StartRequest{Definition: "duel", Data: map[string]any{"title": key}, Idem: idem(key, "POST /v1/instances", key)}
	err := untilTaken(again, func() error {
		res, err := faulty.Start(b.ctx, b.as("rosa@example.com"), r)
		if err == nil {
			id = res.View.ID
		}
		return err
	})
	if err != nil {
		wrong.add("start %d: %v", i, err)
		return ""
	}
	link := b.link(id, "ana@example.com")
	var first string
	for range 2 {
		err = untilTaken(again, func() error {
			res, err := faulty.DecideByToken(b.ctx, link, RoutePage, RaiseRequest{Event: "approve"}, Caller{})
			if err != nil {
				return err
			}
			if first != "" && (res.Transition.Hash != first || !res.Replayed) {
				wrong.add("decision %d: the second answer is another one", i)
			}
			first = res.Transition.Hash
			return nil
		})
		if err != nil {
			wrong.add("decision %d: %v", i, err)
		}
	}
	return id
}

// untilTaken repeats what failed in a way that may be repeated.
func untilTaken(again *atomic.Int64, call func() error) (err error) {
	for range 50 {
		if err = call(); err == nil || fault.CodeOf(err) != fault.Unavailable && fault.CodeOf(err) != fault.InProgress && !errors.Is(err, errCrash) {
			return err
		}
		again.Add(1)
	}
	return err
}
