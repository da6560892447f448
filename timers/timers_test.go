package timers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is work whose passes are counted, and where something is due until a pass takes it.
type world struct {
	mu    sync.Mutex
	ran   map[string][]time.Time
	due   map[string]int
	fail  map[string]error
	woken chan struct{}
	slow  time.Duration // a pass takes so long
	log   bytes.Buffer
}

func newWorld() *world {
	return &world{ran: map[string][]time.Time{}, due: map[string]int{}, fail: map[string]error{}, woken: make(chan struct{}, 1)}
}

// pass is one pass: it takes at most limit of what is due (0: all).
func (w *world) pass(name string, limit int) (int, error) {
	w.mu.Lock()
	w.ran[name] = append(w.ran[name], time.Now())
	err, n := w.fail[name], w.due[name]
	if limit > 0 {
		n = min(n, limit)
	}
	if err == nil {
		w.due[name] -= n
	}
	w.mu.Unlock()
	time.Sleep(w.slow)
	return n, err
}

func (w *world) passes() passes {
	plain := func(name string) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return w.pass(name, 0) }
	}
	batched := func(name string) func(context.Context, int) (int, error) {
		return func(_ context.Context, limit int) (int, error) { return w.pass(name, limit) }
	}
	return passes{
		sweep:    func(_ context.Context, limit, _ int) (int, error) { return w.pass("sweep", limit) },
		dispatch: plain("dispatch"), feed: plain("feed"), join: batched("join"), calls: batched("calls"),
		restore: plain("recover"), prune: batched("prune"),
		alert: func(context.Context) error { _, err := w.pass("alert", 0); return err }, woken: w.woken,
	}
}

func (w *world) start(t *testing.T, reload ...Reload) *Timers {
	t.Helper()
	running, err := start(w.passes(), Config{SweepEvery: 200 * time.Millisecond, Reload: reload, Log: slog.New(slog.NewTextHandler(&lockedWriter{w: w}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return running
}

type lockedWriter struct{ w *world }

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(b)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) times(name string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Time(nil), w.ran[name]...)
}

func (w *world) left(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.due[name]
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// wake is what a commit does.
func (w *world) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func TestEveryLoopLooksAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		reloads := 0
		running := w.start(t, Reload{Name: "key ring", Do: func() error { reloads++; return nil }})
		time.Sleep(time.Hour + time.Second)
		running.Stop()
		for name, want := range map[string]int{"dispatch": 3600, "feed": 3600, "join": 3600, "calls": 720, "recover": 720, "alert": 60, "prune": 6, "sweep": 5 * 3600} {
			if n := len(w.times(name)); n < want-want/50-1 || n > want*2+want/50+2 {
				t.Errorf("%s ran %d times within an hour, want about %d", name, n, want)
			}
		}
		if reloads < 1190 || reloads > 1201 {
			t.Errorf("files were looked at %d times within an hour, want 1200", reloads)
		}
	})
}

// What was due while nobody looked is found by the next look, however many ticks were missed.
func TestAMissedTickLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.slow = 7 * time.Second // ticks come while a pass runs
		running := w.start(t)
		time.Sleep(10 * time.Second)
		w.set(func() {
			w.slow = 0
			for name, n := range map[string]int{"sweep": 3*sweepBatch + 1, "dispatch": 5, "join": 3*joinBatch + 1, "calls": 2 * callBatch, "feed": 9} {
				w.due[name] = n
			}
		})
		time.Sleep(20 * time.Second)
		for _, name := range []string{"sweep", "dispatch", "join", "calls", "feed"} {
			if n := w.left(name); n > 0 {
				t.Errorf("%s: %d are still due", name, n)
			}
		}
		running.Stop()
	})
}

// A pass of the pruning takes a share of each table, so that less than a whole batch is no end.
func TestPruningGoesOnUntilAPassFindsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		shares := []int{pruneBatch, 7, 1, 0}
		do := w.passes()
		do.prune = func(_ context.Context, limit int) (int, error) {
			if _, err := w.pass("prune", limit); err != nil || len(shares) == 0 {
				return 0, err
			}
			n := shares[0]
			shares = shares[1:]
			return n, nil
		}
		running, err := start(do, Config{SweepEvery: time.Minute, Log: slog.New(slog.NewTextHandler(&lockedWriter{w: w}, nil))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Minute) // synctest's clock
		running.Stop()
		if n := len(w.times("prune")); n != 4 {
			t.Errorf("%d passes within eleven minutes, want 4", n)
		}
	})
}

func TestAFailingPassIsReportedAndTheLoopGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		loops := []string{"sweep", "dispatch", "feed", "join", "calls", "recover", "alert", "prune"}
		for _, name := range loops {
			w.fail[name], w.due[name] = errors.New("the database is away from "+name), 1
		}
		running := w.start(t)
		time.Sleep(11 * time.Minute)
		w.set(func() { clear(w.fail) })
		time.Sleep(11 * time.Minute)
		running.Stop()
		for _, name := range loops {
			if !strings.Contains(w.logged(), "the database is away from "+name) {
				t.Errorf("%s: its failure is not in the log", name)
			}
			if n := w.left(name); n > 0 {
				t.Errorf("%s did not go on after its failure", name)
			}
		}
	})
}

func TestACommitStartsItsEffectsAtOnceAndOnlyManyShareAPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		running := w.start(t)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		for range wakeBurst / 2 { // a few after one another, as a process that goes on by its own effects
			before := len(w.times("dispatch"))
			w.wake()
			synctest.Wait()
			if len(w.times("dispatch")) != before+1 || len(w.times("feed")) == 0 {
				t.Error("a wake started no pass at once")
			}
		}
		time.Sleep(5 * time.Second)
		before := len(w.times("dispatch"))
		for range 5_000 { // commits of one second, 5 ones a millisecond
			w.wake()
			synctest.Wait()
			time.Sleep(200 * time.Microsecond)
		}
		if n := len(w.times("dispatch")) - before; n > 125 || n < 90 {
			t.Errorf("5,000 wakes within a second started %d passes, want about 100", n)
		}
		running.Stop()
	})
}

func TestStopWaitsForWhatRunsAndBeginsNothingNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.slow = 10 * time.Second
		running := w.start(t)
		time.Sleep(1100 * time.Millisecond) // the first passes are under way
		began := time.Now()
		running.Stop()
		if took := time.Since(began); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("Stop came back after %s, while a pass of 10 s ran", took)
		}
		ran := len(w.times("dispatch"))
		w.wake()
		time.Sleep(time.Hour)
		if n := len(w.times("dispatch")); n != ran || ran == 0 {
			t.Errorf("%d passes before Stop, %d after", ran, n)
		}
	})
}

// A file that broke is told once; it does not fill the log until somebody mends it.
func TestAFileThatCannotBeReadIsToldOnceAndItsMendingToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var wrong error
		var mu sync.Mutex
		set := func(err error) { mu.Lock(); defer mu.Unlock(); wrong = err }
		running := w.start(t, Reload{Name: "webhook secrets", Do: func() error { mu.Lock(); defer mu.Unlock(); return wrong }}, Reload{Name: "key ring", Do: func() error { return nil }})
		for _, err := range []error{nil, errors.New("line 3: no such word"), errors.New("line 4: no such word"), nil} {
			set(err)
			time.Sleep(time.Minute)
		}
		running.Stop()
		text := w.logged()
		for what, want := range map[string]int{"webhook secrets could not be read again": 2, "line 3": 1, "line 4": 1, "webhook secrets can be read again": 1, "key ring": 0} {
			if n := strings.Count(text, what); n != want {
				t.Errorf("%q is in the log %d times, want %d:\n%s", what, n, want, text)
			}
		}
	})
}

func TestASweepWithoutAPaceIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := start(newWorld().passes(), Config{}); err == nil || !strings.Contains(err.Error(), "VOBO_SWEEP_EVERY") {
		t.Errorf("got %v", err)
	}
}
