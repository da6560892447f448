package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"vobo/internal/fsm"
)

// toHost is a webhook to a host.
func toHost(host string) fsm.QueuedEffect {
	e := webhook(1, 1)
	e.Request = []byte(`{"webhook":{"method":"POST","url":"https://` + host + `/hook"}}`)
	return e
}

// claimFor leases what is due and counts it by host.
func (p *simple) claimFor(t testing.TB, limit int, hosts Hosts) ([]ClaimedEffect, map[string]int) {
	t.Helper()
	claimed, err := p.s.ClaimEffects(t.Context(), limit, time.Minute, hosts)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for i := range claimed {
		host, err := hostOf(&claimed[i].QueuedEffect)
		if err != nil {
			t.Fatal(err)
		}
		by[host]++
	}
	return claimed, by
}

// guarantee R-21
func TestRowsOfADeadHostHideNothingBehindThem(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		var dead, slow []fsm.QueuedEffect
		for range 100 {
			dead, slow = append(dead, toHost("dead.example")), append(slow, toHost("slow.example"))
		}
		p.queue(t, dead...)
		p.queue(t, slow...)
		b.pass(time.Second)
		p.queue(t, toHost("good.example"), toHost("good.example"), toHost("good.example"))
		_, by := p.claimFor(t, 8, Hosts{Usual: 2, Of: map[string]int{"good.example": 3}, Avoid: []string{"dead.example"}})
		if fmt.Sprint(by) != "map[good.example:3 slow.example:2]" {
			t.Errorf("claimed %v", by)
		}
		if _, by := p.claimFor(t, 8, Hosts{Usual: 2, Of: map[string]int{"good.example": 3}}); fmt.Sprint(by) != "map[dead.example:2]" {
			t.Errorf("then claimed %v", by)
		}
		if _, by := p.claimFor(t, 8, Hosts{Usual: 2}); len(by) != 0 {
			t.Errorf("beyond their shares claimed %v", by)
		}
		if _, by := p.claimFor(t, 4, Hosts{Usual: 9}); fmt.Sprint(by) != "map[dead.example:4]" {
			t.Errorf("with larger shares claimed %v, want the oldest", by)
		}
	})
}

func TestTheMailServerIsAHostLikeOthers(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		task, notice, start := mail(true), mail(true), startEffect()
		task.Kind, notice.Kind = "task-mail", "notice-mail"
		p.queue(t, mail(true), task, notice, start)
		if _, by := p.claimFor(t, 10, Hosts{Usual: 9, Avoid: []string{MailHost}}); fmt.Sprint(by) != "map[:1]" {
			t.Errorf("without mails claimed %v", by)
		}
		if _, by := p.claimFor(t, 10, Hosts{Usual: 9, Of: map[string]int{MailHost: 2}}); fmt.Sprint(by) != "map[mail::2]" {
			t.Errorf("with two mails at once claimed %v", by)
		}
		if _, by := p.claimFor(t, 10, Hosts{}); fmt.Sprint(by) != "map[mail::1]" {
			t.Errorf("without a bound claimed %v", by)
		}
	})
}

func TestAnExpiredLeaseOfAHostToAvoidStays(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		p.queue(t, toHost("dead.example"))
		p.claim(t, 1)
		b.pass(time.Hour)
		if _, by := p.claimFor(t, 1, Hosts{Usual: 1, Avoid: []string{"dead.example"}}); len(by) != 0 {
			t.Errorf("claimed %v", by)
		}
		if claimed, _ := p.claimFor(t, 1, Hosts{Usual: 1}); len(claimed) != 1 || claimed[0].Attempt != 2 || !claimed[0].UnknownBefore {
			t.Errorf("claimed %+v", claimed)
		}
	})
}

func TestWhatIsDueLaterIsNotClaimedBeforeLessUrgentWork(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		urgent, idle := webhook(1, 1), webhook(1, 1)
		urgent.Priority, idle.Priority = 0, 9
		p.queue(t, urgent, idle)
		f := finishOf(p.claim(t, 1)[0], fsm.EffectRetrying)
		f.NextAt = new(b.now(t).Add(time.Hour))
		p.finish(t, f)
		if claimed := p.claim(t, 2); len(claimed) != 1 || claimed[0].Priority != 9 {
			t.Errorf("claimed %+v", claimed)
		}
	})
}

func TestOneRowThatCannotBeReadIsGivenOutAsBroken(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		linked := mail(true)
		linked.Link = fsm.EffectID{Seq: 1, N: 1}
		id, other := p.queue(t, mail(true), mail(true), linked), p.queue(t, linked)
		b.write(t, "UPDATE effects SET input = '{' WHERE instance_id = ? AND n = 2", id)
		b.write(t, "UPDATE assignees SET lines = '[' WHERE instance_id = ?", other)
		claimed := p.claim(t, 10)
		broken := map[string]string{}
		for _, e := range claimed {
			if e.Broken != "" {
				broken[e.Key] = e.Broken
			}
			if n := p.finish(t, finishOf(e, fsm.EffectDead)); n != 1 {
				t.Errorf("%s could not be ended", e.Key)
			}
		}
		if len(claimed) != 4 || len(broken) != 2 || !strings.Contains(broken[id+"/1/2"], "cannot be read") || !strings.Contains(broken[other+"/1/1"], "link cannot be read") {
			t.Errorf("of %d claimed, broken are %v", len(claimed), broken)
		}
	})
}

func TestALeaseGivenBackUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, mail(true))
		f := finishOf(p.claim(t, 1)[0], fsm.EffectRetrying)
		f.NextAt, f.Outcome = new(b.now(t)), "retry"
		p.finish(t, f)
		claimed := p.claim(t, 1)
		if err := b.ReleaseEffects(t.Context(), claimed); err != nil {
			t.Fatal(err)
		}
		if row := p.read(t, id).Effects[0]; row.Status != fsm.EffectRetrying || row.Attempts != 1 {
			t.Errorf("given back: %+v", row)
		}
		again := p.claim(t, 1)
		if len(again) != 1 || again[0].Attempt != 2 || again[0].Fence != 3 || again[0].UnknownBefore {
			t.Errorf("claimed again: %+v", again)
		}
		if got := fmt.Sprint(b.attempts(t, id)); got != "[1 retry 2 started]" {
			t.Errorf("attempts %s", got)
		}
	})
}

// A started effect that is not idempotent may have gone out: it is never given back.
func TestAStartedAttemptOfANonIdempotentEffectIsNotGivenBack(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, mail(false))
		claimed := p.claim(t, 1)
		if ok, err := b.StartAttempt(t.Context(), &claimed[0]); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := b.ReleaseEffects(t.Context(), claimed); err != nil {
			t.Fatal(err)
		}
		if row := p.read(t, id).Effects[0]; row.Status != fsm.EffectRunning {
			t.Errorf("it is %s", row.Status)
		}
	})
}

func TestAnEndNamedTwiceIsWrittenOnce(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, webhook(1, 1))
		e := p.claim(t, 1)[0]
		if n := p.finish(t, finishOf(e, fsm.EffectSucceeded), finishOf(e, fsm.EffectDead)); n != 1 {
			t.Errorf("%d were ours", n)
		}
		if row := p.read(t, id).Effects[0]; row.Status != fsm.EffectSucceeded {
			t.Errorf("it is %s, want what was said first", row.Status)
		}
	})
}

// guarantee R-22: who is to be left out is looked up in a hash, not compared one by one
func TestDeadHostsAreLeftOutByAHashOnPostgreSQL(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{})
	tx, err := b.impl.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, statement := range []string{pgOutboxSettings, "PREPARE due AS " + pgDueEffects} {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN EXECUTE due(0, NULL, 256)")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); strings.Count(text, "hashed SubPlan") < 2 || strings.Contains(text, "ALL (") {
		t.Errorf("hosts are compared one by one:\n%s", text)
	}
}

func TestAClaimIsAskedToLeaveOutManyHostsAndWorksOn(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		var avoid []string
		for n := range 2 * mostAvoided {
			avoid = append(avoid, fmt.Sprintf("dead-%d.example", n))
		}
		p.queue(t, toHost(avoid[0]), toHost(avoid[mostAvoided-1]), toHost(avoid[mostAvoided]))
		b.pass(time.Second)
		p.queue(t, toHost("good.example"))
		if _, by := p.claimFor(t, 8, Hosts{Usual: 2, Avoid: avoid}); fmt.Sprint(by) != fmt.Sprintf("map[%s:1 good.example:1]", avoid[mostAvoided]) {
			t.Errorf("claimed %v", by)
		}
	})
}
