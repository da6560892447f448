package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// onFeeds runs a test on stores that feed the sinks a and b.
func onFeeds(t *testing.T, test func(t *testing.T, b *bench, p *simple)) {
	t.Helper()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		b := &bench{}
		b.Store = reopened(t, Config{URL: url, Sinks: []string{"a", "b"}, Shift: func() time.Duration { return time.Duration(b.shift.Load()) }})
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.SyncSinks(t.Context(), []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		test(t, b, newSimple(b.Store))
	})
}

func (b *bench) feed(t testing.TB, limit, perSink int) []FeedRow {
	t.Helper()
	rows, err := b.ClaimFeed(t.Context(), limit, perSink, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// ofSink are the rows of a sink as "seq".
func ofSink(rows []FeedRow, sink string) string {
	seqs := []int{}
	for _, r := range rows {
		if r.Sink == sink {
			seqs = append(seqs, r.Transition.Seq)
		}
	}
	return fmt.Sprint(seqs)
}

func (b *bench) delivered(t testing.TB, rows ...FeedRow) {
	t.Helper()
	if err := b.FeedDelivered(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) retried(t testing.TB, r FeedRow, wait time.Duration) {
	t.Helper()
	if err := b.FeedRetry(t.Context(), &r, wait, "busy"); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) sinks(t testing.TB) map[string]Sink {
	t.Helper()
	list, err := b.Sinks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sinks := map[string]Sink{}
	for _, s := range list {
		sinks[s.Name] = s
	}
	return sinks
}

func TestTheFeedOfAnInstanceIsDeliveredInOrder(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		id := p.started(t)
		p.ends(t, id, "comment")
		p.ends(t, id, "approve")
		first := b.feed(t, 10, 10)
		if len(first) != 2 || ofSink(first, "a") != "[1]" || ofSink(first, "b") != "[1]" {
			t.Fatalf("first %+v, want the first history row for each sink", first)
		}
		row := first[0]
		if row.Instance != id || row.Attempt != 1 || row.Fence != 1 || row.Definition != "simple" || row.Version != 1 ||
			row.Transition.Event != "start" || row.Transition.Hash != "v1:1" || row.LeaseUntil.Before(b.now(t)) || row.QueuedAt.IsZero() {
			t.Errorf("row %+v", row)
		}
		if more := b.feed(t, 10, 10); len(more) != 0 {
			t.Errorf("while the first is under way: %+v", more)
		}
		b.retried(t, first[1], time.Minute)
		b.delivered(t, first[0])
		second := b.feed(t, 10, 10)
		if len(second) != 1 || second[0].Sink != "a" || second[0].Transition.Seq != 2 {
			t.Fatalf("after one delivery: %+v, want the second row of its sink", second)
		}
		b.delivered(t, second...)
		if third := b.feed(t, 10, 10); ofSink(third, "a") != "[3]" || len(third) != 1 {
			t.Errorf("third %+v", third)
		}
		b.pass(time.Minute)
		late := b.feed(t, 10, 10)
		if ofSink(late, "b") != "[1]" || late[len(late)-1].Attempt != 2 {
			t.Errorf("after the wait: %+v", late)
		}
	})
}

func TestADeadRowLetsItsSuccessorsGoOn(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		id := p.started(t)
		p.ends(t, id, "approve")
		first := b.feed(t, 10, 10)
		if more := b.feed(t, 10, 10); len(more) != 0 {
			t.Fatal(more)
		}
		b.retried(t, first[0], -1)
		b.retried(t, first[0], 0) // its lease is over
		second := b.feed(t, 10, 10)
		if len(second) != 1 || second[0].Transition.Seq != 2 || second[0].Sink != first[0].Sink {
			t.Fatalf("after a dead row: %+v", second)
		}
		b.delivered(t, second...)
		if s := b.sinks(t)[first[0].Sink]; s.Dead != 1 || s.Waiting != 0 || s.Oldest != nil {
			t.Errorf("the sink is %+v", s)
		}
		if ok, err := b.EnableSink(t.Context(), first[0].Sink); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if again := b.feed(t, 10, 10); len(again) != 1 || again[0].Transition.Seq != 1 || again[0].Attempt != 1 {
			t.Errorf("after enabling: %+v", again)
		}
	})
}

func TestADisabledSinkKeepsItsRowsForLater(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		p.started(t)
		row := b.feed(t, 10, 10)[0]
		for _, reason := range []string{"It answered 410.", "It answered 404."} {
			if err := b.DisableSink(t.Context(), row.Sink, reason); err != nil {
				t.Fatal(err)
			}
		}
		b.retried(t, row, time.Hour)
		id := p.started(t)
		if more := b.feed(t, 10, 10); ofSink(more, row.Sink) != "[]" || len(more) != 1 {
			t.Errorf("claimed %+v, want only the enabled sink's", more)
		}
		s := b.sinks(t)[row.Sink]
		if s.DisabledAt == nil || s.Reason != "It answered 410." || s.Waiting != 2 || !s.Oldest.Equal(row.QueuedAt) {
			t.Errorf("the sink is %+v", s)
		}
		if ok, err := b.EnableSink(t.Context(), "x"); err != nil || ok {
			t.Errorf("an unknown sink: %v, %v", ok, err)
		}
		if ok, err := b.EnableSink(t.Context(), row.Sink); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if rows := b.feed(t, 10, 10); len(rows) != 2 || rows[0].Sink != row.Sink || rows[1].Sink != row.Sink {
			t.Errorf("after enabling: %+v, want both rows at once (of %s)", rows, id)
		}
		if s := b.sinks(t)[row.Sink]; s.DisabledAt != nil || s.Reason != "" {
			t.Errorf("the sink is %+v", s)
		}
	})
}

func TestALostLeaseOfTheFeedEndsNothing(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		p.started(t)
		old := b.feed(t, 1, 1)[0]
		b.pass(time.Hour)
		var fresh FeedRow
		for _, r := range b.feed(t, 10, 10) {
			if r.Sink == old.Sink {
				fresh = r
			}
		}
		if fresh.Fence != 2 || fresh.Attempt != 2 {
			t.Fatalf("taken over: %+v", fresh)
		}
		b.delivered(t, old)
		b.retried(t, old, -1)
		if s := b.sinks(t)[old.Sink]; s.Waiting != 1 || s.Dead != 0 {
			t.Errorf("the old lease ended the row: %+v", s)
		}
		b.delivered(t, fresh)
		if s := b.sinks(t)[old.Sink]; s.Waiting != 0 {
			t.Errorf("delivered: %+v", s)
		}
	})
}

// guarantee R-21
func TestASinkAndAnInstanceTakeNoMoreThanTheirShareOfTheFeed(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		busy := p.started(t)
		for range 50 {
			p.ends(t, busy, "comment")
		}
		others := map[string]bool{busy: true}
		for range 3 {
			others[p.started(t)] = true
		}
		rows := b.feed(t, 100, 4) // in spite of fifty rows of one instance before them
		seen := map[string]bool{}
		for _, r := range rows {
			if r.Sink == "a" {
				seen[r.Instance] = true
			}
		}
		if len(rows) != 8 || len(seen) != len(others) {
			t.Errorf("claimed %d rows, %d instances of one sink; want each of four for both sinks", len(rows), len(seen))
		}
		p.started(t)
		if more := b.feed(t, 100, 4); len(more) != 0 {
			t.Errorf("%d more than four of a sink are under way", len(more))
		}
		b.delivered(t, rows...)
		if more := b.feed(t, 3, 4); len(more) != 3 || ofSink(more, "a") == "[]" || ofSink(more, "b") == "[]" {
			t.Errorf("of three places: %+v", more)
		}
	})
}

func TestManyWorkersDeliverEveryRowOfTheFeedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		const instances, comments = 4, 8
		var ids []string
		for range instances {
			ids = append(ids, p.started(t))
		}
		var mu sync.Mutex
		seen := map[string][]int{}
		left := 2 * instances * (comments + 1)
		errs := make(chan error, 5)
		for range cap(errs) - 1 {
			go func() {
				for {
					rows, err := b.ClaimFeed(context.Background(), 3, 3, time.Minute)
					if err == nil {
						mu.Lock()
						for _, r := range rows {
							seen[r.Instance+r.Sink] = append(seen[r.Instance+r.Sink], r.Transition.Seq)
						}
						left -= len(rows)
						mu.Unlock()
						err = b.FeedDelivered(context.Background(), rows)
					}
					mu.Lock()
					done := left <= 0
					mu.Unlock()
					if err != nil || done {
						errs <- err
						return
					}
				}
			}()
		}
		go func() {
			for range comments {
				for _, id := range ids {
					job := raiseJob(t, id, "comment")
					if err := b.Commit(context.Background(), []*Job{job}, p, CommitOptions{}); err != nil {
						errs <- err
						return
					}
				}
			}
			errs <- nil
		}()
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for of, seqs := range seen {
			for i, seq := range seqs {
				if seq != i+1 {
					t.Fatalf("%s was delivered as %v", of, seqs)
				}
			}
			if len(seqs) != comments+1 {
				t.Errorf("%s: %d rows", of, len(seqs))
			}
		}
		if n := b.count(t, "feed"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// While a new configuration is rolled out, a replica of the old one starts again.
func TestASinkThatAnotherReplicaDoesNotKnowLosesNothing(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		p.started(t)
		if err := b.DisableSink(t.Context(), "b", "It answered 410."); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.SyncSinks(t.Context(), []string{"a"}); err != nil {
				t.Fatal(err)
			}
			b.pass(23 * time.Hour)
			p.started(t)
			if n, err := b.Prune(t.Context(), 100); err != nil || n != 0 {
				t.Errorf("%d rows are pruned, %v", n, err)
			}
		}
		if s := b.sinks(t)["b"]; s.Waiting != 3 || s.Reason != "It answered 410." {
			t.Errorf("the sink is %+v", s)
		}
		if err := b.SyncSinks(t.Context(), []string{"a"}); err != nil {
			t.Fatal(err)
		}
		if ok, err := b.EnableSink(t.Context(), "b"); err != nil || !ok {
			t.Errorf("a sink of this replica cannot be enabled: %v, %v", ok, err)
		}
		if rows := b.feed(t, 10, 10); ofSink(rows, "b") != "[1 1 1]" {
			t.Errorf("claimed %+v", rows)
		}
	})
}

func TestASinkThatNobodyHasAnyMoreIsForgottenAfterADay(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		p.started(t)
		if err := b.DisableSink(t.Context(), "b", "gone"); err != nil {
			t.Fatal(err)
		}
		cfg := b.impl.cfg
		cfg.Sinks = []string{"a"}
		b.Store = reopened(t, cfg)
		prune := func() int { t.Helper(); n, err := b.Prune(t.Context(), 100); return must(t, n, err) }
		if n := prune(); n != 0 || b.count(t, "feed") != 2 {
			t.Errorf("at once %d rows are pruned", n)
		}
		if sinks := b.sinks(t); len(sinks) != 1 || sinks["a"].Waiting != 1 {
			t.Errorf("sinks %+v", sinks)
		}
		if ok, err := b.EnableSink(t.Context(), "b"); err != nil || ok {
			t.Errorf("a removed sink was enabled: %v", err)
		}
		b.pass(25 * time.Hour)
		if n := prune(); n != 2 || b.count(t, "feed") != 1 || b.count(t, "sinks") != 1 {
			t.Errorf("after a day %d rows are pruned, want the row of the feed and the sink", n)
		}
		if err := b.SyncSinks(t.Context(), []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		if s := b.sinks(t)["b"]; s.DisabledAt != nil || s.Waiting != 0 {
			t.Errorf("the sink that came back is %+v", s)
		}
	})
}

func TestAFaultInTheFeedLosesNoRow(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		cutAt := ""
		b := &bench{}
		b.Store = reopened(t, Config{URL: url, Sinks: []string{"a"}, Fault: func(point string) error {
			if point == cutAt {
				return context.DeadlineExceeded
			}
			return nil
		}})
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.SyncSinks(t.Context(), []string{"a"}); err != nil {
			t.Fatal(err)
		}
		newSimple(b.Store).started(t)
		cutAt = PointFeedClaim
		if _, err := b.ClaimFeed(t.Context(), 1, 1, time.Minute); err == nil {
			t.Error("the claim was not cut")
		}
		cutAt = ""
		rows := b.feed(t, 1, 1)
		if len(rows) != 1 || rows[0].Attempt != 1 {
			t.Fatalf("after the cut: %+v", rows)
		}
		cutAt = PointFeedFinish
		if err := b.FeedDelivered(t.Context(), rows); err == nil || b.count(t, "feed") != 1 {
			t.Errorf("a cut delivery: %v", err)
		}
		cutAt = PointFeedFinishCommit
		if err := b.FeedDelivered(t.Context(), rows); err == nil || b.count(t, "feed") != 0 {
			t.Errorf("a delivery whose answer is lost: %v", err)
		}
		cutAt = ""
		b.delivered(t, rows...) // told again, it changes nothing
	})
}

func TestOperatorsAreToldOnceThatANumberHasGrown(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		alert := func(value int64) (bool, int64) {
			t.Helper()
			tell, before, err := b.Alert(t.Context(), "dead", value, 15*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return tell, before
		}
		want := func(value int64, tell bool, before int64) {
			t.Helper()
			if got, was := alert(value); got != tell || was != before {
				t.Errorf("%d: told %v, before %d; want %v, %d", value, got, was, tell, before)
			}
		}
		want(0, false, 0)
		want(3, true, 0)
		want(3, false, 3)
		want(5, false, 3) // too soon
		b.pass(15 * time.Minute)
		want(5, true, 3)
		want(1, false, 5)
		b.pass(15 * time.Minute)
		want(2, true, 1)
		if err := b.ForgetAlert(t.Context(), "dead", 1); err != nil {
			t.Fatal(err)
		}
		want(2, true, 1)
		tells := make(chan bool, 8)
		b.pass(15 * time.Minute)
		for range cap(tells) {
			go func() {
				tell, _, err := b.Alert(context.Background(), "dead", 9, 15*time.Minute)
				if err != nil {
					t.Error(err)
				}
				tells <- tell
			}()
		}
		told := 0
		for range cap(tells) {
			if <-tells {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%d of eight told it", told)
		}
	})
}
