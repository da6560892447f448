package approval

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// field report B05 (a)
func TestALateClickIsToldSoEachTimeAndLeavesAnAuditLine(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.start(b.as("rosa@example.com"), "duel", `{"title":"x"}`).ID
		link := b.link(id, "ana@example.com")
		b.pass(time.Hour + time.Second)
		_, first := b.decide(link, RoutePage, RaiseRequest{Event: "approve"})
		b.sweep()
		b.pass(time.Second)
		_, second := b.decide(link, RoutePage, RaiseRequest{Event: "approve"})
		wantCode(t, "a second late", first, fault.TokenExpired)
		wantCode(t, "two seconds late", second, fault.TokenExpired)
		lines, err := b.store.AuditLines(b.ctx, id, store.Paging{Limit: 10})
		if err != nil || len(lines.Items) != 2 {
			t.Fatalf("%d audit lines, %v", len(lines.Items), err)
		}
		for _, l := range lines.Items {
			if l.Actor != "ana@example.com" || l.Action != "decision-refused" || l.Detail["code"] != "token-expired" || l.Detail["event"] != "approve" {
				t.Errorf("the line says %+v", l)
			}
		}
		b.unchanged("late clicks", id, 2)
	})
}

// field report B11
func TestAWaitThatEndsEarlyLeavesNoAlarmArmed(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, b *bundle, id string){
		"approved": func(_ *testing.T, b *bundle, id string) {
			b.mustDecide(b.link(id, "ana@example.com"), RoutePage, RaiseRequest{Event: "approve"})
			b.raiseDocument(id)
		},
		"rejected": func(_ *testing.T, b *bundle, id string) {
			b.mustDecide(b.link(id, "ana@example.com"), RoutePage, RaiseRequest{Event: "reject", Comment: "no"})
		},
		"cancelled": func(t *testing.T, b *bundle, id string) {
			if _, err := b.svc.Cancel(b.ctx, admin, id, "over", Idempotency{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			eachDatabase(t, func(t *testing.T, b *bundle) {
				id := b.atApproval("eva@example.com")
				b.pass(10 * time.Minute)
				end(t, b, id)
				rows := len(b.history(id))
				mails := len(b.effects(id))
				var cancelled []string
				for _, h := range b.history(id)[2:] {
					cancelled = append(cancelled, h.DeadlinesCancelled...)
				}
				if len(cancelled) < 3 {
					t.Errorf("the history shows %v as cancelled", cancelled)
				}
				b.pass(10 * 24 * time.Hour)
				if n := b.sweep(); n != 0 {
					t.Errorf("%d deadlines fired afterwards", n)
				}
				if v := b.instance(id); len(v.Deadlines) != 0 || len(b.history(id)) != rows || len(b.effects(id)) != mails {
					t.Errorf("%d deadlines armed, %d new rows, %d new effects", len(v.Deadlines), len(b.history(id))-rows, len(b.effects(id))-mails)
				}
				for _, e := range b.effects(id) { // no task mail goes out after the end
					if e.Kind == "task-mail" && e.Status == fsm.EffectWaiting {
						t.Errorf("%s to %s is still to be sent", e.Name, e.To)
					}
				}
			})
		})
	}
}

func (b *bundle) raiseDocument(id string) {
	b.t.Helper()
	_, err := b.svc.Raise(b.ctx, b.as("rosa@example.com"), id, RaiseRequest{
		Event:     "document_received",
		Documents: map[string]any{"contract": documentTree()},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// field report B13
func TestAfterDownTimeThereIsOneCatchUpAndThenTheOldSchedule(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		rosa := b.as("rosa@example.com")
		daily := b.start(rosa, "daily", `{"title":"x"}`).ID
		due := b.start(rosa, "duel", `{"title":"x"}`).ID
		both := b.start(rosa, "review", `{"title":"x","amount":1}`).ID // reminder and expiry both fall into it
		first := b.instance(daily).Deadlines[0].DueAt
		b.pass(84 * time.Hour)
		b.sweep()
		b.sweep()
		if n := b.kind(daily, fsm.TReminder); n != 1 {
			t.Errorf("%d reminders after 3.5 days, want one catch-up", n)
		}
		next := b.instance(daily).Deadlines[0]
		if want := first.Add(3 * 24 * time.Hour); !next.DueAt.Equal(want) || next.DueAt.Before(b.now()) {
			t.Errorf("the next reminder is due at %s, want %s", next.DueAt, want)
		}
		if b.events(due, "expire") != 1 || b.instance(due).State != "expired" {
			t.Errorf("the overdue expiry: %v", b.states(due))
		}
		if b.kind(both, fsm.TReminder) != 0 || b.instance(both).State != "expired" {
			t.Errorf("due for both: %v", b.states(both))
		}
		b.pass(24 * time.Hour)
		b.sweep()
		if n := b.kind(daily, fsm.TReminder); n != 2 {
			t.Errorf("%d reminders a day later, want two", n)
		}
	})
}

func (b *bundle) kind(id string, kind fsm.TransitionKind) int {
	b.t.Helper()
	n := 0
	for _, h := range b.history(id) {
		if h.Kind == kind {
			n++
		}
	}
	return n
}

// field report B14, guarantee R-14
func TestEachOfManyDueDeadlinesFiresOnceThoughAReplicaStops(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		timers := size(1000, 5000)
		services := b.services(2)
		doomed, _, stop := b.process(nil, nil)
		ids := b.duels(timers)
		b.pass(2 * time.Hour)
		var fired atomic.Int64
		var wrong tally
		var sweepers sync.WaitGroup
		sweep := func(svc *Service, offset int, until func() bool) {
			for !until() {
				n, err := svc.SweepOnce(b.ctx, 200, offset)
				fired.Add(int64(n))
				if err != nil {
					wrong.add("sweep: %v", err)
					return
				}
			}
		}
		begun := b.now()
		sweepers.Go(func() { // goes in the middle
			sweep(doomed, 0, func() bool { return fired.Load() >= int64(timers)/3 })
			stop()
		})
		for i, svc := range services {
			sweepers.Go(func() { sweep(svc, 200*i, func() bool { return fired.Load() >= int64(timers) }) })
		}
		sweepers.Wait()
		took := b.now().Sub(begun)
		outcomes := b.outcomes(b.raw())
		for _, id := range ids {
			if o := outcomes[id]; o.state != "expired" || o.rows != 1 || o.effects != 1 {
				wrong.add("%s: %+v", id, o)
			}
		}
		if n := b.sweep(); n != 0 || fired.Load() != int64(timers) {
			wrong.add("%d fired in all, %d afterwards", fired.Load(), n)
		}
		t.Logf("%d deadlines in %s: %.0f/s", timers, took, float64(timers)/took.Seconds())
		wrong.check(t, "R-14 deadlines that fired twice or never", timers)
	})
}

// field report B41
func TestPublishingTheSameAgainTouchesNoTimer(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.review()
		b.pass(12 * time.Hour)
		db := b.raw()
		before := b.fingerprint(db)
		source := samples["review"]
		same := []string{
			source, "# another comment\n" + source + "\n\n", "title: Review\n" + replaced(source, "title: Review\n", ""),
			replaced(source, "title: Review\n", "title: 'Review'\n"),
		}
		for i, s := range same {
			res, err := b.svc.Publish(b.ctx, admin, "again.yaml", []byte(s))
			if err != nil || res.Created {
				t.Errorf("form %d: %+v, %v", i, res, err)
			}
		}
		_, err := b.svc.Publish(b.ctx, admin, "other.yaml", []byte(replaced(source, "P3D", "P4D")))
		wantCode(t, "the same number with other content", err, fault.VersionExists)
		if b.fingerprint(db) != before {
			t.Error("publishing the same again changed the database")
		}
		if v := b.instance(id); len(v.Deadlines) != 2 || v.Version != 1 {
			t.Errorf("%+v", v.Deadlines)
		}
	})
}

// field report B51
func TestPagesShowEachInstanceOnceWhileOthersArriveAndChange(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		ids := b.duels(120)
		for _, limit := range []int{7, 50} {
			var seen []string
			page := store.Paging{Limit: limit}
			for i := 0; ; i++ {
				got, err := b.svc.Instances(b.ctx, admin, store.InstanceFilter{}, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range got.Items {
					seen = append(seen, v.ID)
				}
				if got.Next == "" {
					break
				}
				page.Cursor = got.Next
				b.duels(1)
				if _, err := b.decide(b.link(ids[i], "ana@example.com"), RoutePage, RaiseRequest{Event: "approve"}); err != nil && fault.CodeOf(err) != fault.AlreadyDecided {
					t.Fatal(err)
				}
			}
			for _, id := range ids {
				n := 0
				for _, s := range seen {
					if s == id {
						n++
					}
				}
				if n != 1 {
					t.Errorf("by pages of %d one is seen %d times", limit, n)
				}
			}
		}
		for _, cursor := range []string{"x", "e30", "bm90IGEgY3Vyc29y"} {
			_, err := b.svc.Instances(b.ctx, admin, store.InstanceFilter{}, store.Paging{Limit: 7, Cursor: cursor})
			wantCode(t, "cursor "+cursor, err, fault.Malformed)
		}
		// The history, whose rows may share their time, page by page.
		id := b.review()
		for i := range 20 {
			b.mustDecide(b.callback(id), RouteCallback, RaiseRequest{Event: "pinged", Input: tree(t, fmt.Sprintf(`{"n":%d}`, i))})
		}
		var seqs []int
		page := store.Paging{Limit: 3}
		for {
			got, err := b.svc.History(b.ctx, admin, id, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range got.Items {
				seqs = append(seqs, h.Seq)
			}
			if page.Cursor = got.Next; page.Cursor == "" {
				break
			}
		}
		if len(seqs) != 21 || !slices.IsSorted(seqs) || seqs[20] != 21 {
			t.Errorf("the history by pages: %v", seqs)
		}
	})
}
