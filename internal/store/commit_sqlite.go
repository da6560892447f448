package store

import (
	"context"

	"vobo/internal/fsm"
)

const (
	liteClaim = `INSERT INTO claims (kind, key_hash, instance_id, seq, body_hash, created_at, expires_at)
		VALUES (?1, ?2, ?3, 0, ?4, ?5, CASE WHEN ?6 > 0 THEN ?5 + ?6 END) ON CONFLICT DO NOTHING`
	liteHolder = `SELECT kind, key_hash, instance_id, seq, body_hash, answer, created_at FROM claims WHERE kind = ?1 AND key_hash = ?2`

	liteEffects = `SELECT ` + effectColumns + `, e.status = 'running' FROM effects e
		WHERE e.instance_id = ?1 AND (?2 OR e.seq = ?3 AND e.n = ?4) ORDER BY e.seq, e.n`
)

// commitSQLite runs the batch in one immediate transaction: its lock is the whole
// file's, so everything is read after it and nothing is locked elsewhere.
func (b *batch) commitSQLite(ctx context.Context) error {
	if err := b.s.failpoint(PointBegin); err != nil {
		return err
	}
	err := b.s.inWriter(ctx, func(t *liteTx) (bool, error) {
		if err := b.readSQLite(ctx, t); err != nil {
			return false, err
		}
		b.checkFences()
		planned, err := b.plan(ctx)
		if err != nil {
			return false, err
		}
		if err := b.s.failpoint(PointPlanned); err != nil {
			return false, err
		}
		w, release := b.collect(planned)
		defer release()
		if len(b.live()) == 0 {
			return false, nil
		}
		for _, set := range w.ordered(batchOrder) {
			if err := t.run(set); err != nil {
				return false, err
			}
		}
		return true, b.written(w)
	})
	if err != nil || len(b.live()) == 0 {
		return err
	}
	return b.s.failpoint(PointCommitted)
}

func (b *batch) readSQLite(ctx context.Context, t *liteTx) error {
	b.now = b.s.processNow()
	if err := b.claimSQLite(t); err != nil {
		return err
	}
	toLock := b.toLock()
	for _, e := range toLock {
		if err := t.each(func(c cells) error {
			v, err := instanceFrom(c)
			if err == nil {
				b.found(v)
			}
			return err
		}, instanceOf.by(liteOne), e.id.text); err != nil {
			return err
		}
		if !e.locked {
			b.absent([]*entry{e}, func(*entry) bool { return false })
		}
	}
	if err := b.s.failpoint(PointLocked); err != nil {
		return err
	}
	if err := t.each(func(c cells) error { b.version = c.long(); return c.failure() }, "SELECT directory_version FROM meta"); err != nil {
		return err
	}
	b.prepare(ctx)
	for _, e := range b.readable() {
		if err := b.childrenSQLite(t, e); err != nil {
			return err
		}
	}
	return b.s.failpoint(PointRead)
}

func (b *batch) claimSQLite(t *liteTx) error {
	for _, h := range b.claims {
		n, err := t.exec(liteClaim, int64(h.kind), h.hash[:], h.entry.id.text, orNull(h.claim.BodyHash), b.now.UnixMilli(), h.claim.Keep.Milliseconds())
		if err != nil {
			return err
		}
		h.won = n == 1
	}
	lost := b.lost()
	holders := map[claimKey]*ClaimRow{}
	for _, h := range lost {
		if err := t.each(func(c cells) error { return readHolder(c, holders) }, liteHolder, int64(h.kind), h.hash[:]); err != nil {
			return err
		}
	}
	b.loses(lost, holders)
	return nil
}

// orNull is bytes as a driver value.
func orNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func (b *batch) childrenSQLite(t *liteTx, e *entry) error {
	to := into{b.snapshotOf}
	children := []liteChild{{dataOf, to.data}, {assigneesOf, to.assignee}, {tasksOf, to.task}, {deadlinesOf, to.deadline}, {votesOf, to.vote}}
	if e.definition().NeedsPast {
		children = append(children, liteChild{pastOf, to.past})
	}
	if err := t.children(children, liteOne, e.id.text); err != nil {
		return err
	}
	if e.need != fsm.NeedNone {
		about, _ := e.effect()
		if err := t.each(b.foundEffect, liteEffects, e.id.text, e.need == fsm.NeedAll, int64(about.Seq), int64(about.N)); err != nil {
			return err
		}
	}
	if e.job.TokenHash != nil {
		if err := t.each(b.foundToken, tokensBy+"= ?1", e.job.TokenHash); err != nil {
			return err
		}
	}
	if e.token != nil {
		present(e.job.Snapshot, e.token)
	}
	if closing, ok := closingOf(e.job.Snapshot, e.job.Event); ok {
		return t.acts(e.job.Snapshot, closing)
	}
	return nil
}

type liteChild struct {
	query childQuery
	read  func(cells) error
}

func (t *liteTx) children(children []liteChild, by naming, key any) error {
	for _, child := range children {
		if err := t.each(child.read, child.query.by(by), key); err != nil {
			return err
		}
	}
	return nil
}

// acts tells how a wait ended.
func (t *liteTx) acts(snap *fsm.Snapshot, of closing) error {
	defer of.finish(snap)
	return t.each(func(c cells) error { return of.read(c, snap) }, liteActs, snap.Instance.ID,
		int64(of.wait), int64(of.consumed), int64(of.token.Seq), int64(of.token.N), of.actor)
}
