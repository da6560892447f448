package store

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

func TestOfFourThatMigrateAtOnceOneAppliesAndAllSucceed(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		errs := make(chan error, 4)
		for range cap(errs) {
			s := reopened(t, Config{URL: url})
			go func() { errs <- s.Migrate(t.Context()) }()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		s := reopened(t, Config{URL: url})
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		all, err := s.MigrationStatus(t.Context())
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		for _, m := range all {
			if m.AppliedAt == nil {
				t.Errorf("%s is not applied", m.Name)
			}
		}
	})
}

func TestASchemaThatIsMissingOldOrNewerIsTold(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		b := &bench{Store: reopened(t, Config{URL: url})}
		wantCode(t, b.Ping(t.Context()), fault.Unavailable)
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.write(t, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
		wantCode(t, b.Migrate(t.Context()), fault.Conflict)
		wantCode(t, b.Ping(t.Context()), fault.Conflict)
	})
}

func TestAURLThatNamesNoDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "mysql://x", "sqlite:", "sqlite::memory:", "postgres://[bad"} {
		_, err := Open(t.Context(), Config{URL: url})
		wantCode(t, err, fault.Malformed)
	}
	_, err := Open(t.Context(), Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "no such folder", "vobo.db")})
	wantCode(t, err, fault.Unavailable)
	_, err = Open(t.Context(), Config{URL: "postgres://vobo@127.0.0.1:1/vobo?connect_timeout=1"})
	wantCode(t, err, fault.Unavailable)
}

func TestAPathMayHaveAnyCharacters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "what? 100% #1.db")
	b := newBench(t, "sqlite:"+path)
	p := newSimple(b.Store)
	p.read(t, p.started(t))
	if got, err := filepath.Glob(filepath.Join(filepath.Dir(path), "what*.db")); err != nil || len(got) != 1 || got[0] != path {
		t.Errorf("files %v, %v", got, err)
	}
}

// guarantee R-30
func TestASecondServerOnOneFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vobo.db")
	release, err := LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockFile(path)
	wantCode(t, err, fault.Conflict)
	newBench(t, "sqlite:"+path) // other commands work beside it
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

func TestUnsafeSettingsAreNamed(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		s := reopened(t, Config{URL: url})
		warnings, err := s.Warnings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fsyncOff := false
		if s.Dialect() == dialectPostgres {
			var value string
			if err := s.impl.pool.QueryRow(t.Context(), "SHOW fsync").Scan(&value); err != nil {
				t.Fatal(err)
			}
			fsyncOff = value == "off"
		}
		if fsyncOff != (len(warnings) > 0) {
			t.Errorf("warnings %q with fsync off: %v", warnings, fsyncOff)
		}
	})
}

func TestABehindAPoolerStoreWorksWithoutNamedStatements(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	b := &bench{Store: reopened(t, Config{URL: url, DirectURL: url})}
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := newSimple(b.Store)
	for range 3 {
		id := p.started(t)
		job := raiseJob(t, id, "approve")
		p.commit(t, job)
		wantWritten(t, job)
	}
	named, _, err := selectOne(b.reader(t.Context()), readCount, "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
	if err != nil || named != 0 {
		t.Errorf("%d named statements on a pooled connection, %v", named, err)
	}
}

func TestOtherReplicasAreWokenAndOnlyThey(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	one, two := reopened(t, Config{URL: url}), reopened(t, Config{URL: url})
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	topics := map[*Store]chan string{one: make(chan string, 10), two: make(chan string, 10)}
	for s, c := range topics {
		wait.Go(func() {
			if err := s.Wake(ctx, func(topic string) { c <- topic }); err != nil {
				t.Error(err)
			}
		})
		if first := <-c; first != "" {
			t.Errorf("once it listens a replica hears %q, want nothing in particular", first)
		}
	}
	for _, s := range []*Store{one, two} {
		if err := s.Notify(t.Context(), "effects of "+s.impl.self); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-topics[two]; got != "effects of "+one.impl.self {
		t.Errorf("two heard %q", got)
	}
	if got := <-topics[one]; got != "effects of "+two.impl.self {
		t.Errorf("one heard %q, want only what the other told", got)
	}
	stop()
	wait.Wait()
}

func TestADueDeadlineIsOfferedUntilItIsGone(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		first := p.started(t)
		b.pass(time.Minute)
		second := p.started(t)
		due := func() (ids []string) {
			t.Helper()
			list, err := b.DueDeadlines(t.Context(), 10, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list {
				ids = append(ids, d.Instance)
			}
			return ids
		}
		if ids := due(); len(ids) != 0 {
			t.Fatalf("due too early: %v", ids)
		}
		b.pass(time.Hour)
		if ids := due(); len(ids) != 2 || ids[0] != first || ids[1] != second {
			t.Fatalf("due: %v, want %s and %s", ids, first, second)
		}
		if err := b.DeadlineFailed(t.Context(), first, fsm.DeadlineRef{Seq: 1, N: 1, Occurrence: 1}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := b.DeadlineFailed(t.Context(), second, fsm.DeadlineRef{Seq: 1, N: 1, Occurrence: 7}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if ids := due(); len(ids) != 1 || ids[0] != second {
			t.Errorf("due after a failure: %v, want only %s", ids, second)
		}
		b.pass(time.Minute)
		if ids := due(); len(ids) != 2 {
			t.Errorf("due after the pause: %v", ids)
		}
		if n := p.read(t, first).Deadlines[0].Failures; n != 1 {
			t.Errorf("%d failures, want 1", n)
		}
		b.write(t, "UPDATE instances SET status = 'suspended' WHERE id = ?", first)
		p.commit(t, raiseJob(t, second, "approve"))
		if ids := due(); len(ids) != 0 {
			t.Errorf("due of a suspended and of a finished instance: %v", ids)
		}
	})
}

func TestFetchesOfALinkAreCounted(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		first := b.now(t)
		for range 2 {
			if err := b.TokenFetched(t.Context(), id, fsm.EffectID{Seq: 1, N: 1}); err != nil {
				t.Fatal(err)
			}
			b.pass(time.Minute)
		}
		infos, err := b.Assignees(t.Context(), id)
		if err != nil || len(infos) != 1 || infos[0].FetchCount != 2 || infos[0].FetchedAt == nil || infos[0].FetchedAt.Sub(first) > 50*time.Second {
			t.Errorf("%+v, %v", infos, err)
		}
		if snap := p.read(t, id); snap.Instance.Revision != 1 {
			t.Error("a fetch moved the instance")
		}
	})
}
