package store

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

// onPostgres runs a test about row locks, which SQLite does not have.
func onPostgres(t *testing.T, cfg Config) *bench {
	t.Helper()
	cfg.URL = testkit.Postgres(t)
	b := &bench{Store: reopened(t, cfg)}
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// hold locks an instance from outside until the returned function is called.
func (b *bench) hold(t *testing.T, instance string) (tx pgx.Tx, release func()) {
	t.Helper()
	tx, err := b.impl.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM instances WHERE id = $1 FOR UPDATE", instance); err != nil {
		t.Fatal(err)
	}
	return tx, func() {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// waiting waits until a statement of this database waits for a lock.
func (b *bench) waiting(t *testing.T) {
	t.Helper()
	testkit.WaitFor(t, "a batch that waits for a lock", func() bool {
		var n int
		err := b.impl.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

func TestAnInstanceLockedElsewhereStallsNoNeighbour(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{})
	p := newSimple(b.Store)
	locked, free := p.started(t), p.started(t)
	_, release := b.hold(t, locked)
	held, neighbour := raiseJob(t, locked, "approve", Claim{Kind: ClaimIdempotency, Scope: "s", Key: "k"}), raiseJob(t, free, "approve")
	p.commit(t, held, neighbour)
	if !held.Requeue {
		t.Errorf("the held one got %+v, want to be offered again", held)
	}
	wantWritten(t, neighbour)
	if n := b.count(t, "claims"); n != 0 {
		t.Errorf("%d claims of a job that is to come again", n)
	}
	release()
	again := raiseJob(t, locked, "approve", Claim{Kind: ClaimIdempotency, Scope: "s", Key: "k"})
	p.commit(t, again)
	wantWritten(t, again)
}

// guarantee R-13: what is planned on, and the time, are read after the lock wait
func TestABatchThatWaitedForALockSeesWhatItsHolderWrote(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{})
	p := newSimple(b.Store)
	id := p.started(t)
	tx, release := b.hold(t, id)
	before := b.now(t)

	job, done := raiseJob(t, id, "approve"), make(chan error, 1)
	go func() { done <- b.Commit(context.Background(), []*Job{job}, p, CommitOptions{Wait: true}) }()
	b.waiting(t)
	for _, statement := range []string{
		"UPDATE instances SET state = 'done', wait = 2, revision = 2 WHERE id = $1",
		"UPDATE assignees SET consumed = 2 WHERE instance_id = $1",
		"UPDATE instance_data SET data = '{\"fresh\":1}' WHERE instance_id = $1",
		"DELETE FROM deadlines WHERE instance_id = $1",
		`INSERT INTO transitions SELECT instance_id, 2, gen_random_uuid(), kind, 'reject', 'review', 'done', via, 1, actor_kind, actor_id, actor,
			assurance, comment, input, documents, changes, digest, 0, 0, 1, 1, reason, deadlines_cancelled, at, 1, salt, hash, hash
			FROM transitions WHERE instance_id = $1`,
	} {
		if _, err := tx.Exec(t.Context(), statement, id); err != nil {
			t.Fatal(err)
		}
	}
	var until time.Time
	if err := tx.QueryRow(t.Context(), "SELECT date_trunc('milliseconds', clock_timestamp())").Scan(&until); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	snap := job.Snapshot
	if snap.Instance.State != "done" || snap.Instance.Revision != 2 || snap.Token.Consumed != 2 || len(snap.Deadlines) != 0 ||
		snap.Instance.Data["fresh"] == nil || snap.Left == nil || snap.Own == nil || snap.Own.Seq != 2 {
		t.Errorf("planned on a stale snapshot: %+v, token %+v, own %+v", snap.Instance, snap.Token, snap.Own)
	}
	if job.Now.Before(until) || !job.Now.After(before) {
		t.Errorf("planned at %v, before the lock was given back at %v", job.Now, until)
	}
	wantCode(t, job.Step.Refusal, fault.AlreadyDecided)
}

func TestALockHeldForLongIsUnavailable(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{LockTimeout: 50 * time.Millisecond})
	p := newSimple(b.Store)
	id := p.started(t)
	_, release := b.hold(t, id)
	job := raiseJob(t, id, "approve")
	if err := b.Commit(t.Context(), []*Job{job}, p, CommitOptions{Wait: true}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, job.Err, fault.Unavailable)
	release()
	again := raiseJob(t, id, "approve")
	if err := b.Commit(t.Context(), []*Job{again}, p, CommitOptions{Wait: true}); err != nil {
		t.Fatal(err)
	}
	wantWritten(t, again)
}

// guarantee R-08
func TestOfTwoBatchesOnOneInstanceOneDecides(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		for range 20 {
			id := p.started(t)
			jobs, errs := []*Job{raiseJob(t, id, "approve"), raiseJob(t, id, "approve")}, make(chan error, 2)
			for _, job := range jobs {
				go func() { errs <- b.Commit(context.Background(), []*Job{job}, p, CommitOptions{Wait: true}) }()
			}
			for range jobs {
				if err := <-errs; err != nil {
					t.Fatal(err)
				}
			}
			won, refused := 0, 0
			for _, job := range jobs {
				if job.Step.Refusal != nil {
					refused++
				} else if job.Step.Transition.Seq == 2 {
					won++
				}
			}
			if snap := p.read(t, id); won != 1 || refused != 1 || len(snap.Past) != 2 || len(snap.Effects) != 1 {
				t.Fatalf("%d won, %d refused, history %d, effects %d", won, refused, len(snap.Past), len(snap.Effects))
			}
		}
	})
}

// The clock never runs backwards within an instance, whatever the database's does.
func TestAnInstancesTimeNeverRunsBackwards(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		b.pass(time.Hour)
		id := p.started(t)
		started := p.read(t, id).Instance.LastEventAt
		b.pass(-time.Hour)
		job := raiseJob(t, id, "comment")
		p.commit(t, job)
		if job.Now != started {
			t.Errorf("an hour back the event is at %v, want that of the last event, %v", job.Now, started)
		}
	})
}

// field report B67: batches that hold every connection but one can still load a definition
func TestBatchesNeverHoldEveryConnection(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		b := &bench{Store: reopened(t, Config{URL: url, MaxConns: 1})}
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := &loading{simple: newSimple(b.Store)}
		errs := make(chan error, 50)
		for range cap(errs) {
			job := startJob(t)
			go func() { errs <- b.Commit(context.Background(), []*Job{job}, p, CommitOptions{}) }()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		if n := b.count(t, "instances"); n != cap(errs) {
			t.Errorf("%d instances, want %d", n, cap(errs))
		}
	})
}

// loading reads from the database whenever it is asked, as a cold cache does.
type loading struct{ *simple }

func (p *loading) Directory(ctx context.Context, version int64) (*fsm.Directory, error) {
	return p.s.People(ctx)
}

// field report B66
func TestFiftyWritersOnSQLiteNeverMeetALockedDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.SQLite(t))
	p := newSimple(b.Store)
	reading, stop := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() { // one slow export, sweeps and an outbox beside them
		var err error
		for err == nil && reading.Err() == nil {
			if _, err = b.DueDeadlines(t.Context(), 100, 0); err == nil {
				_, err = b.ClaimEffects(t.Context(), 10, time.Minute)
			}
			if err == nil {
				_, _, err = selectOne(b.reader(t.Context()), readCount, "SELECT count(*) FROM transitions a, transitions b WHERE a.seq = b.seq")
			}
		}
		read <- err
	}()
	const writers, each = 50, 6
	errs := make(chan error, writers)
	for range writers {
		var ids []*Job
		for range each {
			ids = append(ids, startJob(t))
		}
		go func() { errs <- startAndApprove(t, b.Store, p, ids) }()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-read; err != nil {
		t.Errorf("beside the writers: %v", err)
	}
	if n, effects := b.count(t, "transitions"), b.count(t, "effects"); n != 2*writers*each || effects != writers*each {
		t.Errorf("%d transitions and %d effects, want %d and %d", n, effects, 2*writers*each, writers*each)
	}
}

func startAndApprove(t *testing.T, s *Store, p Planner, starts []*Job) error {
	for _, start := range starts {
		if err := s.Commit(t.Context(), []*Job{start}, p, CommitOptions{}); err != nil {
			return err
		}
		if err := s.Commit(t.Context(), []*Job{raiseJob(t, start.Event.Instance, "approve")}, p, CommitOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// Whoever reads a completion and then asks whether the effect is parked waits for the
// parking, which may not have seen the completion.
func TestAskingForAParkedEffectWaitsForTheParking(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{})
	p := newSimple(b.Store)
	of, leased := p.parent(t)
	tx, err := b.impl.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }() // where the test fails before its commit
	if _, err := tx.Exec(t.Context(), "UPDATE effects SET lease_until = NULL, next_at = NULL WHERE instance_id = $1", of.Parent); err != nil {
		t.Fatal(err)
	}
	asked := make(chan *ClaimedEffect, 1)
	go func() {
		e, err := b.ParkedEffect(context.Background(), of)
		if err != nil {
			t.Error(err)
		}
		asked <- e
	}()
	b.waiting(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := <-asked; e == nil || e.Fence != leased.Fence {
		t.Errorf("parked: %+v", e)
	}
}

func TestAnEndWaitsForARowThatIsLockedAndWritesTheOthersAtOnce(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{})
	p := newSimple(b.Store)
	id, other := p.queue(t, webhook(1, 1)), p.queue(t, webhook(1, 1))
	claimed := p.claim(t, 2)
	tx, err := b.impl.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }() // where the test fails before its commit
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM effects WHERE instance_id = $1 FOR UPDATE", id); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		n, err := b.FinishAttempts(context.Background(), []Finish{finishOf(claimed[0], fsm.EffectSucceeded), finishOf(claimed[1], fsm.EffectSucceeded)})
		if err != nil {
			t.Error(err)
		}
		done <- n
	}()
	b.waiting(t)
	if row := p.read(t, other).Effects[0]; row.Status != fsm.EffectSucceeded {
		t.Errorf("the neighbour is %s while a row is locked", row.Status)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-done; n != 2 || p.read(t, id).Effects[0].Status != fsm.EffectSucceeded {
		t.Errorf("%d were ours", n)
	}
}
