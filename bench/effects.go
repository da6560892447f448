package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const callBody = `{"title":"Purchase order 4711"}`

// receiver answers every call at once and counts them.
type receiver struct {
	url    string
	server *http.Server
	got    atomic.Int64
}

func receive() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + l.Addr().String()}
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		r.got.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})}
	go r.server.Serve(l) //nolint:errcheck // ends with close
	return r, nil
}

func (r *receiver) close() { r.server.Close() } //nolint:errcheck // nothing is lost

// await waits until n calls have come.
func (r *receiver) await(ctx context.Context, n int64) error {
	for last, at := int64(-1), time.Now(); r.got.Load() < n; {
		if now := r.got.Load(); now != last {
			last, at = now, time.Now()
		}
		if ctx.Err() != nil || time.Since(at) > 2*time.Minute {
			return fmt.Errorf("%d of %d calls came", r.got.Load(), n)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// effects measures insert-and-work: 64 clients start instances whose entry queues one
// webhook, until the receiver has had them all; beside River, whose clients write the
// same rows (the floor's start) and insert one job in the same transaction, and whose
// workers make the same call. Then both drain what was queued before.
func effects(ctx context.Context, o options) error {
	const clients = 64
	theirs, err := riverEffects(ctx, o, clients)
	if err != nil {
		return err
	}
	ours, err := ourEffects(ctx, o, clients)
	if err != nil {
		return err
	}
	fmt.Printf("effects    c=%d %d, started over HTTP and delivered  vobo %6.0f/s  River, the same rows and a job %6.0f/s  ratio %.2f  (jobs alone %.0f/s)\n",
		clients, o.effects, ours.whole, theirs.whole, ours.whole/theirs.whole, theirs.alone)
	fmt.Printf("effects    drain of %d queued before  vobo %6.0f/s  River %6.0f/s  ratio %.2f\n", o.effects, ours.drain, theirs.drain, ours.drain/theirs.drain)
	return nil
}

// effectRates are effects per second: inserted and worked with the rows of a start,
// jobs alone, and worked only.
type effectRates struct{ whole, alone, drain float64 }

func ourEffects(ctx context.Context, o options, clients int) (rates effectRates, err error) {
	r, err := receive()
	if err != nil {
		return rates, err
	}
	defer r.close()
	s, err := serveCalls(ctx, o, r)
	if err != nil {
		return rates, err
	}
	defer s.stop()
	began := time.Now()
	if err := startCalls(s, clients, o.effects); err != nil {
		return rates, err
	}
	if err := r.await(ctx, int64(o.effects)); err != nil {
		return rates, err
	}
	rates.whole = float64(o.effects) / time.Since(began).Seconds()
	conn, err := pgx.Connect(ctx, s.dbURL)
	if err != nil {
		return rates, err
	}
	defer conn.Close(ctx) //nolint:errcheck // measured already
	if err := hold(ctx, conn); err != nil {
		return rates, err
	}
	if err := startCalls(s, clients, o.effects); err != nil {
		return rates, err
	}
	began = time.Now()
	if err := release(ctx, conn); err != nil {
		return rates, err
	}
	if err := r.await(ctx, 2*int64(o.effects)); err != nil {
		return rates, err
	}
	rates.drain = float64(o.effects) / time.Since(began).Seconds()
	return rates, nil
}

func serveCalls(ctx context.Context, o options, r *receiver) (*server, error) {
	return serve(ctx, o, "", "VOBO_ENV_RECEIVER="+r.url, "VOBO_WEBHOOK_ALLOW=127.0.0.0/8", "VOBO_DEFINITIONS=call.yaml")
}

// hold makes effects wait that are queued from now on; release lets them all go.
func hold(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `CREATE FUNCTION bench_hold() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN NEW.next_at := clock_timestamp() + interval ''1 day''; RETURN NEW; END';
		CREATE TRIGGER bench_hold BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION bench_hold()`)
	return err
}

func release(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "UPDATE effects SET next_at = clock_timestamp() WHERE status = 'waiting'")
	return err
}

func startCalls(s *server, clients, n int) error {
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for w := range clients {
		wg.Go(func() {
			for i := w; i < n; i += clients {
				if err := s.post("/v1/instances", `{"definition":"bench-call","data":`+callBody+`}`, true, http.StatusCreated, nil); err != nil {
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

// callJob is River's job: the same call.
type callJob struct {
	Title string `json:"title"`
}

// Kind implements river.JobArgs.
func (callJob) Kind() string { return "call" }

type callWorker struct {
	river.WorkerDefaults[callJob]
	url    string
	client *http.Client
}

// Work implements river.Worker.
func (w *callWorker) Work(ctx context.Context, _ *river.Job[callJob]) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/call", bytes.NewReader([]byte(callBody)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read to the end below
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("answered %d", res.StatusCode)
	}
	return nil
}

func riverEffects(ctx context.Context, o options, clients int) (rates effectRates, err error) {
	r, err := receive()
	if err != nil {
		return rates, err
	}
	defer r.close()
	pool, closeAll, err := riverPool(ctx, o, clients)
	if err != nil {
		return rates, err
	}
	defer closeAll()
	q, err := riverClient(pool, r)
	if err != nil {
		return rates, err
	}
	if err := q.Start(ctx); err != nil {
		return rates, err
	}
	for round, rate := range []*float64{&rates.whole, &rates.alone} {
		began := time.Now()
		if err := riverStarts(ctx, pool, q, clients, o.effects, round == 0); err != nil {
			return rates, err
		}
		if err := r.await(ctx, int64(round+1)*int64(o.effects)); err != nil {
			return rates, err
		}
		*rate = float64(o.effects) / time.Since(began).Seconds()
	}
	if err := q.Stop(ctx); err != nil {
		return rates, err
	}
	rates.drain, err = riverDrain(ctx, pool, r, o)
	return rates, err
}

// riverPool makes a database with the floor's tables and River's.
func riverPool(ctx context.Context, o options, clients int) (*pgxpool.Pool, func(), error) {
	database, drop, err := freshDatabase(ctx, o.database)
	if err != nil {
		return nil, nil, err
	}
	if err := floorSchema(ctx, database); err != nil {
		drop()
		return nil, nil, err
	}
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		drop()
		return nil, nil, err
	}
	cfg.MaxConns = int32(clients) + 16
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		drop()
		return nil, nil, err
	}
	closeAll := func() { pool.Close(); drop() }
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return pool, closeAll, nil
}

// riverClient works as fast as its settings let it: the usual pause between two fetches
// would be its limit here.
func riverClient(pool *pgxpool.Pool, r *receiver) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &callWorker{url: r.url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}})
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 200}},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 10 * time.Millisecond, Workers: workers,
	})
}

// riverStarts inserts jobs, one in a transaction of its own; rows says that the rows of a
// start go with it.
func riverStarts(ctx context.Context, pool *pgxpool.Pool, q *river.Client[pgx.Tx], clients, n int, rows bool) error {
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	one := func() error {
		if !rows {
			_, err := q.Insert(ctx, callJob{Title: "Purchase order 4711"}, nil)
			return err
		}
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx) //nolint:errcheck // after a commit there is nothing to roll back
		if _, err := tx.Exec(ctx, "SELECT bench_floor.start($1::uuid, $2::jsonb)", newID(), callBody); err != nil {
			return err
		}
		if _, err := q.InsertTx(ctx, tx, callJob{Title: "Purchase order 4711"}, nil); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	for w := range clients {
		wg.Go(func() {
			for i := w; i < n; i += clients {
				if err := one(); err != nil {
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

func riverDrain(ctx context.Context, pool *pgxpool.Pool, r *receiver, o options) (float64, error) {
	q, err := riverClient(pool, r)
	if err != nil {
		return 0, err
	}
	before := r.got.Load()
	jobs := make([]river.InsertManyParams, 0, o.effects)
	for range o.effects {
		jobs = append(jobs, river.InsertManyParams{Args: callJob{Title: "Purchase order 4711"}})
	}
	for part := range slices.Chunk(jobs, 1000) {
		if _, err := q.InsertMany(ctx, part); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	if err := q.Start(ctx); err != nil {
		return 0, err
	}
	if err := r.await(ctx, before+int64(o.effects)); err != nil {
		return 0, err
	}
	rate := float64(o.effects) / time.Since(began).Seconds()
	return rate, q.Stop(ctx)
}

// dispatch measures, with nothing else going on, from the commit that queued an effect
// (its row's time) to its first attempt.
func dispatch(ctx context.Context, o options) error {
	r, err := receive()
	if err != nil {
		return err
	}
	defer r.close()
	s, err := serveCalls(ctx, o, r)
	if err != nil {
		return err
	}
	defer s.stop()
	const n = 500
	for i := range n {
		if err := startCalls(s, 1, 1); err != nil {
			return err
		}
		if err := r.await(ctx, int64(i+1)); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	conn, err := pgx.Connect(ctx, s.dbURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // measured already
	var p50, p99 float64
	err = conn.QueryRow(ctx, `SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY ms), percentile_disc(0.99) WITHIN GROUP (ORDER BY ms)
		FROM (SELECT extract(epoch FROM a.at - e.queued_at) * 1000 AS ms FROM attempts a JOIN effects e USING (instance_id, seq, n)) d`).Scan(&p50, &p99)
	if err != nil {
		return err
	}
	fmt.Printf("dispatch   from the commit to the first attempt, idle, %d effects: p50 %.0f ms  p99 %.0f ms\n", n, p50, p99)
	return nil
}

// dead measures how 1,000 calls to a receiver that works fare beside 10,000 to as many
// hosts of which half refuse the connection and half never answer it.
func dead(ctx context.Context, o options) error {
	r, err := receive()
	if err != nil {
		return err
	}
	defer r.close()
	hole, closeHole, err := blackHole()
	if err != nil {
		return err
	}
	defer closeHole()
	s, err := serveCalls(ctx, o, r)
	if err != nil {
		return err
	}
	defer s.stop()
	conn, err := pgx.Connect(ctx, s.dbURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // measured already
	if err := hold(ctx, conn); err != nil {
		return err
	}
	if err := startCalls(s, 64, o.dead+o.good); err != nil {
		return err
	}
	if err := misdirect(ctx, conn, r.url, hole, o.dead); err != nil {
		return err
	}
	began := time.Now()
	if err := release(ctx, conn); err != nil {
		return err
	}
	if err := r.await(ctx, int64(o.good)); err != nil {
		return err
	}
	took := time.Since(began)
	var tried int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM effects WHERE attempts > 0 AND host <> $1", r.url[len("http://"):]).Scan(&tried); err != nil {
		return err
	}
	fmt.Printf("dead       %d good calls beside %d dead receivers: all delivered at the first attempt within %.1f s; by then %d of the dead had been tried\n",
		o.good, o.dead, took.Seconds(), tried)
	return nil
}

// misdirect points the first n effects at hosts of their own: odd ones at a closed port,
// even ones at the black hole.
func misdirect(ctx context.Context, conn *pgx.Conn, good string, hole int, n int) error {
	_, err := conn.Exec(ctx, `WITH chosen AS (SELECT instance_id, seq, n, row_number() OVER (ORDER BY queued_at) AS i FROM effects WHERE status = 'waiting' LIMIT $1),
		at AS (SELECT *, '127.' || (1 + i / 65025) || '.' || (i / 255 % 255) || '.' || (1 + i % 255) || ':' || CASE WHEN i % 2 = 0 THEN $2::int ELSE 1 END AS host FROM chosen)
		UPDATE effects e SET host = at.host, request = replace(e.request, $3, 'http://' || at.host)
		FROM at WHERE e.instance_id = at.instance_id AND e.seq = at.seq AND e.n = at.n`, n, hole, good)
	return err
}

// blackHole listens on every loopback address and lets no connection be made: its
// queue is full and nobody takes from it.
func blackHole() (port int, closeHole func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return 0, nil, err
	}
	var filling []net.Conn
	closeHole = func() {
		for _, c := range filling {
			c.Close() //nolint:errcheck // never used
		}
		if err := syscall.Close(fd); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{}); err != nil {
		return 0, closeHole, err
	}
	if err := syscall.Listen(fd, 0); err != nil {
		return 0, closeHole, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, closeHole, err
	}
	port = name.(*syscall.SockaddrInet4).Port
	for range 16 {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 100*time.Millisecond)
		if err != nil {
			return port, closeHole, nil // full
		}
		filling = append(filling, c)
	}
	return port, closeHole, fmt.Errorf("the black hole takes connections")
}
