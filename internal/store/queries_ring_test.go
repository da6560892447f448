package store

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func TestADatabaseTakesNoKeyRingButALaterFormOfItsOwn(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		key := func(kid, status, secret string) RingFingerprint {
			return RingFingerprint{Kid: kid, Status: status, SHA256: hashOf(secret)}
		}
		ring := func() []RingFingerprint { t.Helper(); ring, err := b.Ring(t.Context()); return must(t, ring, err) }
		if got := ring(); len(got) != 0 {
			t.Errorf("a fresh database knows %v", got)
		}
		wantCode(t, b.SetRing(t.Context(), nil), fault.Malformed)
		first := []RingFingerprint{key("k1", "active", "1")}
		wantCode(t, b.SetRing(t.Context(), first), "")
		wantCode(t, b.SetRing(t.Context(), first), "")
		rotated := []RingFingerprint{key("k1", "retired", "1"), key("k2", "active", "2")}
		wantCode(t, b.SetRing(t.Context(), rotated), "")
		for name, other := range map[string][]RingFingerprint{
			"a foreign ring":            {key("k9", "active", "9")},
			"another key of that name":  {key("k2", "active", "x")},
			"one known and one altered": {key("k1", "retired", "1"), key("k2", "active", "x")},
			"no keys":                   {},
		} {
			if code := fault.CodeOf(b.SetRing(t.Context(), other)); code != fault.Conflict && code != fault.Malformed {
				t.Errorf("%s: got %q", name, code)
			}
		}
		if got := ring(); !reflect.DeepEqual(got, rotated) {
			t.Errorf("got %v", got)
		}
	})
}

func TestCountsTellWhatIsOpenDueAndInTrouble(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		empty, err := b.Counts(t.Context())
		if err != nil || empty.OldestDue != nil || empty.OldestEffect != nil || empty.DueDeadlines != 0 {
			t.Errorf("an empty store counts %+v, %v", empty, err)
		}
		now := b.now(t)
		running := b.instance(t, fsm.Instance{Attention: []fsm.Attention{{Reason: "no-owner"}}})
		suspended := b.instance(t, fsm.Instance{Status: fsm.Suspended})
		b.instance(t, fsm.Instance{Status: fsm.Finished})
		for n, e := range []struct {
			kind   string
			status fsm.EffectStatus
		}{
			{"email", fsm.EffectWaiting},
			{"email", fsm.EffectDead},
			{"webhook", fsm.EffectDead},
			{"email", fsm.EffectSucceeded},
			{"manual", fsm.EffectUnknown},
			{"start", fsm.EffectRunning},
			{"webhook", fsm.EffectRunning},
		} {
			b.effect(t, running, n, e.kind, e.status, now.Add(-time.Duration(n)*time.Minute))
		}
		b.write(t, "UPDATE effects SET lease_until = ?, next_at = ? WHERE n = 6", stamp(now), stamp(now))
		b.keep(t, "w1")
		if err := b.RefuseCall(t.Context(), b.keep(t, "w2").ID, running, "no"); err != nil {
			t.Fatal(err)
		}
		deadline := func(instance string, n int, due time.Time) {
			t.Helper()
			b.write(t, `INSERT INTO deadlines (instance_id, seq, n, wait, rule, action, event, due_at, anchor, occurrence, failures, deferred, next_at)
				VALUES (?, 1, ?, 1, 'r', 'fire', 'expire', ?, ?, 1, 0, ?, ?)`, instance, n, stamp(due), stamp(due), false, stamp(due))
		}
		deadline(running, 1, now.Add(-time.Minute))
		deadline(running, 2, now.Add(-time.Hour))
		deadline(running, 3, now.Add(time.Hour))
		deadline(suspended, 1, now.Add(-2*time.Hour))
		got, err := b.Counts(t.Context())
		oldestDue, oldestEffect := now.Add(-time.Hour), now.Add(-6*time.Minute)
		want := Counts{
			InstancesByStatus: map[string]int{"running": 1, "suspended": 1},
			EffectsByStatus:   map[string]int{"waiting": 1, "dead": 2, "unknown": 1, "running": 2},
			DeadByKind:        map[string]int{"email": 1, "webhook": 1}, UnknownByKind: map[string]int{"manual": 1}, CallsWaiting: 1,
			Attention: 1, DueDeadlines: 2, OldestDue: &oldestDue, OldestEffect: &oldestEffect,
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
		if n, err := b.Incarnation(t.Context()); err != nil || n != 1 {
			t.Errorf("the incarnation is %d, %v", n, err)
		}
	})
}

func TestPruningRemovesWhatHasExpiredAndNothingElse(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		b.sync(t, ana())
		now := b.now(t)
		instance := b.instance(t, fsm.Instance{})
		for n, expires := range []*time.Time{nil, new(now.Add(time.Hour)), new(now.Add(-time.Hour)), new(now.Add(-time.Minute))} {
			b.write(t, `INSERT INTO claims (kind, key_hash, instance_id, seq, created_at, expires_at) VALUES (1, ?, ?, 1, ?, ?)`,
				hashOf(string(rune('a'+n))), instance, stamp(now), optionalStamp(expires))
		}
		for n, expires := range []time.Time{now.Add(time.Minute), now.Add(3 * time.Hour)} {
			hash := hashOf(string(rune('a' + n)))
			wantCode(t, b.CreateSession(t.Context(), Session{Hash: hash, Person: "ana@example.com", ExpiresAt: expires}), "")
			wantCode(t, b.CreateLoginLink(t.Context(), LoginLink{Hash: hash, Person: "ana@example.com", ExpiresAt: expires}), "")
		}
		b.audit(t, AuditLine{Action: "decision-refused", Token: hashOf("t")})
		prune := func(limit int) int { t.Helper(); n, err := b.Prune(t.Context(), limit); return must(t, n, err) }
		if n := prune(0); n != 0 {
			t.Errorf("a limit of 0 prunes %d", n)
		}
		if n := prune(1); n != 1 {
			t.Errorf("a limit of 1 prunes %d", n)
		}
		b.pass(30 * time.Minute)
		if n := prune(100); n != 3 {
			t.Errorf("half an hour later %d rows are pruned, not a claim, a session and a login link", n)
		}
		b.pass(90 * time.Minute)
		if n := prune(100); n != 1 {
			t.Errorf("two hours later %d rows are pruned, not a claim", n)
		}
		b.pass(31 * 24 * time.Hour)
		if n := prune(100); n != 3 {
			t.Errorf("a month later %d rows are pruned, not a session, a login link and a counter", n)
		}
		left, _, err := selectOne(b.reader(t.Context()), readCount, `SELECT count(*) FROM claims`)
		if err != nil || left != 1 {
			t.Errorf("%d claims are left, %v", left, err)
		}
	})
}

func TestPruningRemovesOldCallsAndWhatTheFeedCannotDeliver(t *testing.T) {
	t.Parallel()
	onFeeds(t, func(t *testing.T, b *bench, p *simple) {
		p.started(t)
		for _, row := range b.feed(t, 10, 10) {
			if row.Sink == "a" {
				b.retried(t, row, -1)
			}
		}
		waiting, over := b.keep(t, "w1", []byte("h")), b.keep(t, "w2", []byte("h"))
		if err := b.RefuseCall(t.Context(), over.ID, "", "no"); err != nil {
			t.Fatal(err)
		}
		once := raiseJob(t, p.started(t), "comment", Claim{Kind: ClaimEffect, Scope: "e", Key: "0"})
		p.commit(t, once)
		wantWritten(t, once)
		b.write(t, "DELETE FROM feed WHERE status <> 'dead'")
		prune := func() int { t.Helper(); n, err := b.Prune(t.Context(), 100); return must(t, n, err) }
		b.pass(30*24*time.Hour - time.Minute)
		if n := prune(); n != 0 {
			t.Errorf("too early %d rows are pruned", n)
		}
		b.pass(time.Hour)
		if n := prune(); n != 2 || b.count(t, "feed") != 0 || b.call(t, waiting.ID).Status != CallWaiting {
			t.Errorf("after 30 days %d rows are pruned, want a call and a dead row of the feed", n)
		}
		if b.count(t, "claims") != 1 {
			t.Error("what an effect did is no longer claimed")
		}
	})
}

func TestPruningGivesEveryTableItsShare(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		b.sync(t, ana())
		past := b.now(t).Add(-time.Hour)
		instance := b.instance(t, fsm.Instance{})
		for n := range 50 {
			hash := hashOf(fmt.Sprint(n))
			b.write(t, `INSERT INTO claims (kind, key_hash, instance_id, seq, created_at, expires_at) VALUES (1, ?, ?, 1, ?, ?)`, hash, instance, stamp(past), stamp(past))
			if n < 3 {
				wantCode(t, b.CreateLoginLink(t.Context(), LoginLink{Hash: hash, Person: "ana@example.com", ExpiresAt: past}), "")
			}
		}
		if n, err := b.Prune(t.Context(), 24); err != nil || n > 24 || b.count(t, "login_links") != 0 || b.count(t, "claims") == 0 {
			t.Errorf("of %d rows none is a login link, %v", n, err)
		}
		passes := 0
		for {
			n, err := b.Prune(t.Context(), 24)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			passes++
		}
		if b.count(t, "claims") != 0 || passes < 2 {
			t.Errorf("%d claims are left after %d passes", b.count(t, "claims"), passes)
		}
	})
}
