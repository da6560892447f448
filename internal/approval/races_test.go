package approval

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"vobo/internal/fault"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// tally counts violations from many goroutines and keeps the first few in words.
type tally struct {
	mu    sync.Mutex
	n     int
	words []string
}

func (v *tally) add(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n++; v.n <= 5 {
		v.words = append(v.words, fmt.Sprintf(format, args...))
	}
}

func (v *tally) check(t *testing.T, what string, rounds int) {
	t.Helper()
	if v.n > 0 {
		t.Errorf("%s: %d violations in %d rounds, such as %q", what, v.n, rounds, v.words)
		return
	}
	bound(t, what, rounds)
}

// duels starts n duels that wait for Ana and Bea.
func (b *bundle) duels(n int) []string {
	b.t.Helper()
	b.need("duel")
	rosa := b.as("rosa@example.com")
	ids := make([]string, n)
	var wrong tally
	each(n, 32, func(i int) {
		res, err := b.svc.Start(b.ctx, rosa, StartRequest{Definition: "duel", Data: map[string]any{"title": fmt.Sprint(i)}})
		if err != nil {
			wrong.add("%v", err)
			return
		}
		ids[i] = res.View.ID
	})
	if wrong.n > 0 {
		b.t.Fatalf("%d of %d starts failed: %q", wrong.n, n, wrong.words)
	}
	return ids
}

// links are the links of Ana and Bea in each instance.
func (b *bundle) links(ids []string) (ana, bea []string) {
	b.t.Helper()
	for _, id := range ids {
		ana, bea = append(ana, b.link(id, "ana@example.com")), append(bea, b.link(id, "bea@example.com"))
	}
	return ana, bea
}

// outcome is what the database says of an instance, read beside the service.
type outcome struct {
	state         string
	rows, effects int
}

// outcomes reads how instances ended: their state, their history rows and the effects
// that are no task mails.
func (b *bundle) outcomes(db *sql.DB) map[string]outcome {
	b.t.Helper()
	all := map[string]outcome{}
	rows, err := db.QueryContext(b.ctx, `SELECT CAST(i.id AS text), i.state,
		(SELECT count(*) FROM transitions h WHERE h.instance_id = i.id AND h.seq > 1),
		(SELECT count(*) FROM effects e WHERE e.instance_id = i.id AND e.kind = 'email') FROM instances i`)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		var id string
		var o outcome
		if err := rows.Scan(&id, &o.state, &o.rows, &o.effects); err != nil {
			b.t.Fatal(err)
		}
		all[id] = o
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// guarantee R-07, field report B03 (a)
func TestOfManyPostsOfOneTokenOneDecidesAndAllOthersGetItsAnswer(t *testing.T) {
	t.Parallel()
	const posts = 64
	eachDatabase(t, func(t *testing.T, b *bundle) {
		tokens := size(500, 10_000)
		services := b.services(3)
		ids := b.duels(tokens)
		ana, _ := b.links(ids)
		var wrong tally
		each(tokens, 4, func(i int) {
			answers := make([]string, posts)
			var winners atomic.Int32
			together(posts, func(p int) {
				route := routes[p%len(routes)]
				res, err := services[p%len(services)].DecideByToken(b.ctx, ana[i], route, RaiseRequest{Event: "approve"}, Caller{})
				switch {
				case err != nil:
					wrong.add("post %d: %v", p, err)
				case !res.Replayed:
					winners.Add(1)
					res.Replayed = true
				}
				answers[p] = string(Render(res))
			})
			if n := winners.Load(); n != 1 {
				wrong.add("%d winners", n)
			}
			for _, a := range answers {
				if a != answers[0] {
					wrong.add("an answer %s beside %s", a, answers[0])
					break
				}
			}
		})
		for id, o := range b.outcomes(b.raw()) {
			if o.state != "approved" || o.rows != 1 || o.effects != 1 {
				wrong.add("%s: %+v", id, o)
			}
		}
		wrong.check(t, "R-07 tokens with not one winner and 63 replays", tokens)
	})
}

// guarantee R-08, field report B03 (b)
func TestOfTwoOppositeDecisionsExactlyOneWins(t *testing.T) {
	t.Parallel()
	pairs := size(1000, 10_000)
	eachDatabase(t, func(t *testing.T, b *bundle) {
		services := b.services(3)
		ids := b.duels(pairs)
		ana, bea := b.links(ids)
		var wrong tally
		won := make([]string, pairs)
		each(pairs, 8, func(i int) {
			var errs [2]error
			together(2, func(p int) {
				svc := services[(i+p)%len(services)]
				p = (i + p) % 2 // who is called last often runs first
				if p == 0 {
					_, errs[p] = svc.DecideByToken(b.ctx, ana[i], RoutePage, RaiseRequest{Event: "approve"}, Caller{})
				} else {
					_, errs[p] = svc.DecideByToken(b.ctx, bea[i], RouteCallback, RaiseRequest{Event: "reject"}, Caller{})
				}
			})
			names, events := []string{"Ana", "Bea"}, []string{"approve", "reject"}
			for p := range 2 {
				if errs[p] != nil {
					continue
				}
				won[i] += map[int]string{0: "approved", 1: "rejected"}[p]
				f := fault.As(errs[1-p])
				if f == nil || f.Code != fault.AlreadyDecided || f.Winner == nil || f.Winner.Actor != names[p] || f.Winner.Event != events[p] {
					wrong.add("the loser is told %v", errs[1-p])
				}
			}
		})
		approved := 0
		outcomes := b.outcomes(b.raw())
		for i, id := range ids {
			o := outcomes[id]
			if o.state != won[i] || o.rows != 1 || o.effects != 1 {
				wrong.add("%s: answered %q, stored %+v", id, won[i], o)
			}
			if o.state == "approved" {
				approved++
			}
		}
		t.Logf("%d approved, %d rejected", approved, pairs-approved)
		wrong.check(t, "R-08 pairs with both, none or another's effects", pairs)
	})
}

// guarantee R-12, field report B05 (b)
func TestAClickAtTheInstantOfTheDeadlineIsAcceptedOrExpiredNeverBoth(t *testing.T) {
	t.Parallel()
	const batch = 100
	rounds := size(1000, 10_000)
	eachDatabase(t, func(t *testing.T, b *bundle) {
		services := b.services(3)
		for len(services) < 3 {
			services = append(services, b.svc)
		}
		var wrong tally
		var approved, expired int
		db := b.raw()
		lead := 30 * time.Millisecond // before the deadline, so that both sides have their chance on this machine
		for range rounds / batch {
			ids := b.duels(batch)
			ana, _ := b.links(ids)
			due := make([]time.Time, batch)
			for i, id := range ids {
				due[i] = b.instance(id).Deadlines[0].DueAt.Time
			}
			first := due[0]
			for _, d := range due {
				if d.Before(first) {
					first = d
				}
			}
			b.pass(first.Sub(b.now()) - lead - 40*time.Millisecond)
			a, e := b.race(ids, ana, due, lead, services, db, &wrong)
			approved, expired = approved+a, expired+e
			lead = max(0, lead+time.Duration(e-a)*400*time.Microsecond)
		}
		t.Logf("%d approved, %d expired", approved, expired)
		if least := rounds / 20; approved < least || expired < least {
			t.Errorf("%d approved and %d expired: each side has to win at least %d for the race to be one", approved, expired, least)
		}
		wrong.check(t, "R-12 instances with both, none or the wrong side of the deadline", rounds)
	})
}

// race lets clicks and sweepers meet around each instance's deadline and checks who won.
func (b *bundle) race(ids, links []string, due []time.Time, lead time.Duration, services []*Service, db *sql.DB, wrong *tally) (approved, expired int) {
	b.t.Helper()
	sweeping, stop := context.WithCancel(b.ctx)
	var sweepers sync.WaitGroup
	for i, svc := range services {
		sweepers.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for ; sweeping.Err() == nil; <-tick.C {
				if _, err := svc.SweepOnce(b.ctx, 200, i); err != nil {
					wrong.add("sweep: %v", err)
					return
				}
			}
		})
	}
	errs := make([]error, len(ids))
	together(len(ids), func(i int) {
		at := due[i].Add(time.Duration(rand.IntN(40)-20)*time.Millisecond - lead)
		wait := time.NewTimer(at.Sub(b.now()))
		<-wait.C
		_, errs[i] = services[i%len(services)].DecideByToken(b.ctx, links[i], routes[i%2], RaiseRequest{Event: "approve"}, Caller{})
	})
	testkit.WaitFor(b.t, "all instances to end", func() bool {
		open := 0
		if err := db.QueryRowContext(b.ctx, "SELECT count(*) FROM instances WHERE status = 'running'").Scan(&open); err != nil {
			b.t.Fatal(err)
		}
		return open == 0
	})
	stop()
	sweepers.Wait()
	outcomes := b.outcomes(db)
	for i, id := range ids {
		o := outcomes[id]
		at := b.history(id)[1].At.Time
		switch {
		case o.rows != 1 || o.effects != 1:
			wrong.add("%s: %+v", id, o)
		case o.state == "approved" && errs[i] == nil && at.Before(due[i]):
			approved++
		case o.state == "expired" && fault.CodeOf(errs[i]) == fault.TokenExpired && !at.Before(due[i]):
			expired++
		default:
			wrong.add("%s is %s at %s, due %s, the click was told %v", id, o.state, at, due[i], errs[i])
		}
	}
	return approved, expired
}

// guarantee R-13
func TestAnApprovalThatWaitedForTheLockAcrossTheDeadlineIsRefused(t *testing.T) {
	t.Parallel()
	const rounds, batch, tries = 200, slowLaneWidth, 100
	b := newBundle(t, testkit.Postgres(t))
	conn, err := pgx.Connect(b.ctx, b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the database is dropped next
	var wrong tally
	tested, lead := 0, 300*time.Millisecond
	for range tries {
		ids := b.duels(batch)
		ana, _ := b.links(ids)
		b.write("UPDATE deadlines SET due_at = (SELECT max(due_at) FROM deadlines), next_at = NULL")
		due := b.instance(ids[0]).Deadlines[0].DueAt.Time
		inTime, errs := b.overtake(t, conn, ids, ana, due, lead)
		if !inTime { // the machine was too slow for all of them to wait before and until after
			lead = min(2*lead, 2*time.Second)
			continue
		}
		for i, err := range errs {
			if fault.CodeOf(err) != fault.TokenExpired {
				wrong.add("%s: %v", ids[i], err)
			}
			if v := b.instance(ids[i]); v.State != "open" || v.Revision != 1 {
				wrong.add("%s is in %s at %d", ids[i], v.State, v.Revision)
			}
		}
		if tested += batch; tested >= rounds || wrong.n > 0 {
			break
		}
	}
	if tested < rounds && wrong.n == 0 {
		t.Fatalf("only %d of %d approvals came to wait for the lock before the deadline", tested, rounds)
	}
	wrong.check(t, "R-13 approvals accepted after the deadline", tested)
}

// overtake holds the locks of instances while approvals come to wait for them and the
// deadline passes. inTime tells whether all of them were waiting before it did.
func (b *bundle) overtake(t *testing.T, conn *pgx.Conn, ids, links []string, due time.Time, lead time.Duration) (inTime bool, errs []error) {
	t.Helper()
	tx, err := conn.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(b.ctx, "SELECT 1 FROM instances WHERE id = ANY($1) FOR UPDATE", ids); err != nil {
		t.Fatal(err)
	}
	b.pass(due.Sub(b.now()) - lead)
	errs = make([]error, len(ids))
	var approvals sync.WaitGroup
	var gone atomic.Int32 // without an answer: the lock's own time limit was over
	for i := range ids {
		approvals.Go(func() {
			_, errs[i] = b.decide(links[i], RoutePage, RaiseRequest{Event: "approve"})
			gone.Add(1)
		})
	}
	db := b.raw()
	testkit.WaitFor(t, "the approvals to wait for the lock", func() bool {
		var n int
		if err := db.QueryRowContext(b.ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		inTime = n == len(ids)
		return inTime || gone.Load() > 0
	})
	inTime = inTime && b.now().Before(due)
	b.until(due)
	inTime = inTime && gone.Load() == 0
	if err := tx.Commit(b.ctx); err != nil {
		t.Fatal(err)
	}
	approvals.Wait()
	return inTime, errs
}

// guarantee R-30
func TestOneSQLiteFileHasOneServer(t *testing.T) {
	t.Parallel()
	const tries = 50
	path, _ := store.SQLitePath(testkit.SQLite(t))
	release, err := store.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range tries {
		_, err := store.LockFile(path)
		if f := wantCode(t, "a second server", err, fault.Conflict); f.Message == "" {
			t.Fatal("it is not told why")
		}
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := store.LockFile(path)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	bound(t, "R-30 second servers let in", tries)
}
