package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver of the SQLite floor
)

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// deadlines measures how many due deadlines fire in a second, decided one by one,
// beside the floor's set-based sweep in batches of 500.
func deadlines(ctx context.Context, o options) error {
	floor, err := floorSweep(ctx, o)
	if err != nil {
		return err
	}
	s, err := serve(ctx, o, "", "VOBO_SWEEP_EVERY=100ms")
	if err != nil {
		return err
	}
	defer s.stop()
	if err := fillWaiting(s, o.due); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.dbURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // measured already
	began := time.Now()
	if _, err := conn.Exec(ctx, "UPDATE deadlines SET due_at = clock_timestamp() - interval '1 second', next_at = clock_timestamp() - interval '1 second'"); err != nil {
		return err
	}
	left, last := o.due, time.Now()
	for left > 0 {
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM deadlines").Scan(&left); err != nil {
			return err
		}
		if time.Since(last) > 10*time.Minute {
			return fmt.Errorf("%d deadlines are still due", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
	rate := float64(o.due) / time.Since(began).Seconds()
	fmt.Printf("deadlines  %d due  vobo %6.0f/s  floor's sweep %6.0f/s  ratio %.2f\n", o.due, rate, floor, rate/floor)
	return nil
}

func floorSweep(ctx context.Context, o options) (float64, error) {
	database, drop, err := freshDatabase(ctx, o.database)
	if err != nil {
		return 0, err
	}
	defer drop()
	if err := floorSchema(ctx, database); err != nil {
		return 0, err
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // measured already
	if _, err := conn.Exec(ctx, `INSERT INTO bench_floor.instances (id, definition, state, revision, data)
		SELECT gen_random_uuid(), 'purchase', 'waiting', 1, '{"title":"Purchase order 4711"}' FROM generate_series(1, $1)`, o.due); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, `INSERT INTO bench_floor.deadlines SELECT id, 'expire', now() - interval '1 second' FROM bench_floor.instances`); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, "ANALYZE"); err != nil {
		return 0, err
	}
	began := time.Now()
	for n := 1; n > 0; {
		if err := conn.QueryRow(ctx, "SELECT bench_floor.sweep(500)").Scan(&n); err != nil {
			return 0, err
		}
	}
	return float64(o.due) / time.Since(began).Seconds(), nil
}

// fillWaiting starts n instances and leaves them waiting.
func fillWaiting(s *server, n int) error {
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				if _, _, err := s.startOne(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// waiting measures disk per waiting instance and the server's memory with many of them.
func waiting(ctx context.Context, o options) error {
	s, err := serve(ctx, o, "")
	if err != nil {
		return err
	}
	defer s.stop()
	conn, err := pgx.Connect(ctx, s.dbURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // measured already
	size := func() (bytes int64, err error) {
		if _, err = conn.Exec(ctx, "VACUUM FULL"); err == nil {
			err = conn.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes)
		}
		return bytes, err
	}
	empty, err := size()
	if err != nil {
		return err
	}
	if err := fillWaiting(s, o.many); err != nil {
		return err
	}
	full, err := size()
	if err != nil {
		return err
	}
	with, without, err := restartedMemory(ctx, o, s)
	if err != nil {
		return err
	}
	fmt.Printf("waiting    %d instances  disk %.2f KB each  server's memory after a restart: %.1f MiB with them, %.1f MiB with none\n",
		o.many, float64(full-empty)/float64(o.many)/1024, with, without)
	return nil
}

// restartedMemory is the resident memory of a server that has just started and idled
// for three sweeps, on the full database and on an empty one.
func restartedMemory(ctx context.Context, o options, s *server) (with, without float64, err error) {
	for i, database := range []string{s.dbURL, ""} {
		other, err := serveAgain(ctx, o, s, database)
		if err != nil {
			return 0, 0, err
		}
		time.Sleep(4 * time.Second)
		mib, err := other.residentMiB()
		other.stop()
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			with = mib
		} else {
			without = mib
		}
	}
	return with, without, nil
}

// serveAgain starts another server: on the same database with the same ring, or on a fresh one.
func serveAgain(ctx context.Context, o options, s *server, database string) (*server, error) {
	if database == "" {
		return serve(ctx, o, "")
	}
	ring, err := os.ReadFile(filepath.Join(s.dir, "keys"))
	if err != nil {
		return nil, err
	}
	copied := filepath.Join(s.dir, "keys2")
	if err := os.WriteFile(copied, ring, 0o600); err != nil {
		return nil, err
	}
	return serveNamed(ctx, o, database, copied)
}

// coldStart measures from the start of the process to its first approval, on SQLite.
func coldStart(ctx context.Context, o options) error {
	best, first := time.Hour, time.Duration(0)
	for i := range 5 {
		dir, err := os.MkdirTemp("", "vobo-cold-")
		if err != nil {
			return err
		}
		took, err := coldOnce(ctx, o, dir)
		if rerr := os.RemoveAll(dir); err == nil {
			err = rerr
		}
		if err != nil {
			return err
		}
		if i == 0 {
			first = took
		}
		best = min(best, took)
	}
	fmt.Printf("cold       start of the process to the first approval, SQLite: %.0f ms at best of 5, %.0f ms the first time\n", ms(best), ms(first))
	return nil
}

func coldOnce(ctx context.Context, o options, dir string) (time.Duration, error) {
	database := "sqlite:" + filepath.Join(dir, "vobo.db")
	s, err := serve(ctx, o, database) // migrations and the key are not what is measured
	if err != nil {
		return 0, err
	}
	key := s.key
	ring, err := os.ReadFile(filepath.Join(s.dir, "keys"))
	if err != nil {
		return 0, err
	}
	s.stop()
	copied := filepath.Join(dir, "keys")
	if err := os.WriteFile(copied, ring, 0o600); err != nil {
		return 0, err
	}
	began := time.Now()
	s, err = serveNamed(ctx, o, database, copied)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	s.key = key
	_, token, err := s.startOne()
	if err != nil {
		return 0, err
	}
	err = s.approve(token)
	return time.Since(began), err
}

// sqliteApprovals measures approvals on SQLite beside one-writer transactions of the same driver.
func sqliteApprovals(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "vobo-lite-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	floor, err := sqliteFloor(ctx, o, filepath.Join(dir, "floor.db"))
	if err != nil {
		return err
	}
	s, err := serve(ctx, o, "sqlite:"+filepath.Join(dir, "vobo.db"))
	if err != nil {
		return err
	}
	defer s.stop()
	rate, took, err := s.approvals(ctx, o, 64)
	if err != nil {
		return err
	}
	fmt.Printf("sqlite     c=64   vobo %6.0f approvals/s  one-writer transactions %6.0f/s  ratio %.2f  p50 %.1f ms  p99 %.1f ms\n",
		rate, floor, rate/floor, ms(percentile(took, .5)), ms(percentile(took, .99)))
	return nil
}

// sqliteFloor is how many small transactions one writer commits, synchronous=FULL.
func sqliteFloor(ctx context.Context, o options, path string) (float64, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous(FULL)")
	if err != nil {
		return 0, err
	}
	defer db.Close() //nolint:errcheck // measured already
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE t (id TEXT PRIMARY KEY, state TEXT, data TEXT)"); err != nil {
		return 0, err
	}
	rate, _, err := load(ctx, 1, o.seconds, func(int) error {
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		if err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO t VALUES (?, 'waiting', '{\"title\":\"Purchase order 4711\"}')", newID()); err != nil {
			return err
		}
		return tx.Commit()
	})
	return rate, err
}
