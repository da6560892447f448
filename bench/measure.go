package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// load runs n workers for a while and returns what they did and how long each took.
func load(ctx context.Context, n int, during time.Duration, work func(worker int) error) (perSecond float64, took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed atomic.Pointer[error]
	)
	began := time.Now()
	for w := range n {
		wg.Go(func() {
			var mine []time.Duration
			for ctx.Err() == nil && failed.Load() == nil {
				at := time.Now()
				if err := work(w); err != nil {
					failed.CompareAndSwap(nil, &err)
					break
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return 0, nil, *e
	}
	slices.Sort(took)
	return float64(len(took)) / time.Since(began).Seconds(), took, nil
}

func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// prime keeps instances waiting so that the wait is real, as a ring of links.
func prime(s *server, n int) (*ring, error) {
	r := &ring{tokens: make([]string, n)}
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				_, token, err := s.startOne()
				if err != nil {
					errs <- err
					return
				}
				r.tokens[i] = token
			}
		})
	}
	wg.Wait()
	close(errs)
	return r, <-errs
}

// ring hands out the oldest link for the newest.
type ring struct {
	mu     sync.Mutex
	tokens []string
	at     int
}

func (r *ring) swap(token string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.tokens[r.at]
	r.tokens[r.at] = token
	r.at = (r.at + 1) % len(r.tokens)
	return old
}

// approvals measures one approval (start, decision by link) at 16 and 64 clients
// beside the floor, in turn: floor, service, floor.
func approvals(ctx context.Context, o options) error {
	for _, clients := range []int{16, 64} {
		before, err := floorApprovals(ctx, o, clients)
		if err != nil {
			return err
		}
		s, err := serve(ctx, o, "")
		if err != nil {
			return err
		}
		rate, took, err := s.approvals(ctx, o, clients)
		s.stop()
		if err != nil {
			return err
		}
		after, err := floorApprovals(ctx, o, clients)
		if err != nil {
			return err
		}
		floor := (before + after) / 2
		fmt.Printf("approvals  c=%-3d  vobo %6.0f/s  floor %6.0f/s (%0.0f, %0.0f)  ratio %.2f  p50 %.1f ms  p99 %.1f ms\n",
			clients, rate, floor, before, after, rate/floor, ms(percentile(took, .5)), ms(percentile(took, .99)))
		if o.floor != "" {
			if err := foreignFloor(ctx, o, clients, rate); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) approvals(ctx context.Context, o options, clients int) (float64, []time.Duration, error) {
	links, err := prime(s, o.waiting)
	if err != nil {
		return 0, nil, err
	}
	one := func(int) error {
		_, token, err := s.startOne()
		if err != nil {
			return err
		}
		return s.approve(links.swap(token))
	}
	if _, _, err := load(ctx, clients, 2*time.Second, one); err != nil { // warm
		return 0, nil, err
	}
	return load(ctx, clients, o.seconds, one)
}

// floorApprovals is the floor, one call per transaction, by this same process's clients.
func floorApprovals(ctx context.Context, o options, clients int) (float64, error) {
	rate, _, err := floorLoad(ctx, o, clients)
	return rate, err
}

func floorLoad(ctx context.Context, o options, clients int) (float64, []time.Duration, error) {
	database, drop, err := freshDatabase(ctx, o.database)
	if err != nil {
		return 0, nil, err
	}
	defer drop()
	if err := floorSchema(ctx, database); err != nil {
		return 0, nil, err
	}
	conns := make([]*pgx.Conn, clients)
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, database); err != nil {
			return 0, nil, err
		}
		defer conns[i].Close(context.Background()) //nolint:errcheck // measured already
	}
	const data = `{"title":"Purchase order 4711","amount":1234.56,"currency":"EUR","requester":"bob@example.test","department":"engineering","items":["laptop","dock","monitor"],"note":"urgent, please approve this week"}`
	one := func(w int) error {
		id := newID()
		if _, err := conns[w].Exec(ctx, "SELECT bench_floor.start($1::uuid, $2::jsonb)", id, data); err != nil {
			return err
		}
		_, err := conns[w].Exec(ctx, "SELECT bench_floor.decide(sha256($1::text::bytea), $2::jsonb)", id, `{"decision":"approve","comment":"ok"}`)
		return err
	}
	if _, _, err := load(ctx, clients, time.Second, one); err != nil {
		return 0, nil, err
	}
	return load(context.WithoutCancel(ctx), clients, o.seconds, one)
}

func floorSchema(ctx context.Context, database string) error {
	schema, err := os.ReadFile(filepath.Join("floor", "schema.sql"))
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is lost
	_, err = conn.Exec(ctx, string(schema))
	return err
}

// foreignFloor runs a floor script (DATABASE CLIENTS SECONDS; PG* in its environment)
// and prints its lines with our ratio to its one-call figure.
func foreignFloor(ctx context.Context, o options, clients int, rate float64) error {
	database, drop, err := freshDatabase(ctx, o.database)
	if err != nil {
		return err
	}
	defer drop()
	cfg, err := pgx.ParseConfig(database)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, o.floor, cfg.Database, fmt.Sprint(clients), fmt.Sprint(int(o.seconds.Seconds())))
	c.Env = append(os.Environ(), "PGHOST="+cfg.Host, fmt.Sprintf("PGPORT=%d", cfg.Port), "PGUSER="+cfg.User, "PGPASSWORD="+cfg.Password)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		fmt.Println("  floor script:", line)
		fields := strings.Fields(line)
		var perSecond float64
		if len(fields) > 2 && fields[0] == "func" {
			for _, f := range fields[1:] {
				if n, err := fmt.Sscan(f, &perSecond); n == 1 && err == nil {
					break
				}
			}
			fmt.Printf("  ratio to its one-call floor: %.2f\n", rate/perSecond)
		}
	}
	return nil
}

// latency measures what the service adds to one decision with one client.
func latency(ctx context.Context, o options) error {
	_, floor, err := floorLoad(ctx, o, 1)
	if err != nil {
		return err
	}
	s, err := serve(ctx, o, "")
	if err != nil {
		return err
	}
	defer s.stop()
	links, err := prime(s, o.waiting)
	if err != nil {
		return err
	}
	var decided []time.Duration
	_, _, err = load(ctx, 1, o.seconds, func(int) error {
		_, token, err := s.startOne()
		if err != nil {
			return err
		}
		at := time.Now()
		err = s.approve(links.swap(token))
		decided = append(decided, time.Since(at))
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(decided)
	// the floor's figure is of two transactions: a decision is about half of it
	fmt.Printf("latency    c=1    decision p50 %.2f ms  p99 %.2f ms  floor (half of start+decision) p50 %.2f ms  p99 %.2f ms\n",
		ms(percentile(decided, .5)), ms(percentile(decided, .99)), ms(percentile(floor, .5))/2, ms(percentile(floor, .99))/2)
	return nil
}
