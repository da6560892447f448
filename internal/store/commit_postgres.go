package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

const (
	// pgBatchSettings hold for one batch: how long it waits for locks, that it does not
	// stay open should this process hang, and that plans made while tables were small
	// stay good when they have grown: always by index, never made anew. A table without a
	// fitting index (meta's one row) then looks dear enough for PostgreSQL to compile the
	// plan, which takes 9 ms: no JIT.
	pgBatchSettings = `SELECT set_config('lock_timeout', $1::text, true),
		set_config('idle_in_transaction_session_timeout', '30s', true), set_config('plan_cache_mode', 'force_generic_plan', true),
		set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
		set_config('jit', 'off', true)`

	pgClock = `SELECT clock_timestamp(), directory_version FROM meta`

	pgClaim = `INSERT INTO claims (kind, key_hash, instance_id, seq, body_hash, created_at, expires_at)
		SELECT u.kind, u.key_hash, u.instance_id, 0, u.body_hash, at.now,
			CASE WHEN u.keep_ms > 0 THEN at.now + u.keep_ms * interval '1 millisecond' END
		FROM unnest($1::int4[], $2::bytea[], $3::uuid[], $4::bytea[], $5::int8[]) u(kind, key_hash, instance_id, body_hash, keep_ms),
			(SELECT date_trunc('milliseconds', clock_timestamp()) + $6::int8 * interval '1 millisecond' AS now) at
		ON CONFLICT DO NOTHING RETURNING kind::int4, key_hash`

	pgHolders = `SELECT c.kind::int4, c.key_hash, c.instance_id, c.seq, c.body_hash, c.answer, c.created_at
		FROM unnest($1::int4[], $2::bytea[]) u(kind, key_hash) JOIN claims c ON c.kind = u.kind AND c.key_hash = u.key_hash`

	pgLock      = `SELECT ` + instanceColumns + ` FROM instances i WHERE i.id = ANY($1::uuid[]) ORDER BY i.id FOR UPDATE`
	pgLockOrNot = pgLock + ` SKIP LOCKED`
	pgThere     = `SELECT id FROM instances WHERE id = ANY($1::uuid[])`

	// The rows that may be planned on are locked too, so that the outbox does not take
	// them meanwhile; it skips what is locked and waits for nobody.
	pgEffects = `SELECT ` + effectColumns + `, e.status = 'running' FROM unnest($1::uuid[], $2::bool[], $3::int4[], $4::int4[]) u(instance_id, whole, seq, n)
		JOIN effects e ON e.instance_id = u.instance_id AND (u.whole OR e.seq = u.seq AND e.n = u.n)
		ORDER BY e.instance_id, e.seq, e.n FOR UPDATE OF e`
)

// rollbackWithin is how long a failed batch waits for the server to take its end.
const rollbackWithin = 2 * time.Second

// commitPostgres runs the batch in three round trips: begin, claims and locks; what the
// locks protect and the clock; writes and commit.
func (b *batch) commitPostgres(ctx context.Context) (err error) {
	i := &b.s.impl
	select {
	case i.commits <- struct{}{}:
		defer func() { <-i.commits }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := b.s.failpoint(PointBegin); err != nil {
		return err
	}
	conn, err := i.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	committed := false
	defer func() {
		if !committed {
			err = errors.Join(err, rollback(conn))
		}
	}()
	if err := b.lockPostgres(ctx, conn); err != nil {
		if b.wait && stateOf(err) == stateLockNotAvailable {
			b.allUnavailable(err)
			return nil
		}
		return err
	}
	if err := b.s.failpoint(PointLocked); err != nil {
		return err
	}
	if err := b.readPostgres(ctx, conn); err != nil {
		return err
	}
	if err := b.s.failpoint(PointRead); err != nil {
		return err
	}
	b.checkFences()
	planned, err := b.plan(ctx)
	if err != nil {
		return err
	}
	if err := b.s.failpoint(PointPlanned); err != nil {
		return err
	}
	w, release := b.collect(planned)
	defer release()
	if len(b.live()) == 0 { // the end of the transaction undoes the claims too
		return nil
	}
	if err := b.writePostgres(ctx, conn, w); err != nil {
		return err
	}
	committed = true
	return b.s.failpoint(PointCommitted)
}

// rollback ends a failed transaction; a connection that cannot be told is closed by the pool.
func rollback(conn *pgxpool.Conn) error {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin) // the caller's may have ended
	defer cancel()
	_, err := conn.Exec(ctx, "rollback")
	return err
}

func (b *batch) allUnavailable(cause error) {
	for _, e := range b.live() {
		e.leave(fault.Wrap(cause, fault.Unavailable, "Something else holds instance %s for long. Try again in a moment.", e.id.text))
	}
}

// lockPostgres makes the claims and takes the locks. Without anything to lock the clock
// is read here, after the claims, which may have waited.
func (b *batch) lockPostgres(ctx context.Context, conn *pgxpool.Conn) error {
	q := &pgx.Batch{}
	q.Queue("begin")
	q.Queue(pgBatchSettings, strconv.FormatInt(b.s.impl.cfg.LockTimeout.Milliseconds(), 10))
	if len(b.claims) > 0 {
		q.Queue(pgClaim, b.claimArgs()...).Query(func(rows pgx.Rows) error { return eachRow(rows, b.wonClaim) })
	}
	toLock := b.toLock()
	if len(toLock) == 0 {
		b.queueClock(q)
		return conn.SendBatch(ctx, q).Close()
	}
	lock := pgLockOrNot
	if b.wait {
		lock = pgLock
	}
	q.Queue(lock, packIDs(toLock)).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(c cells) error {
			v, err := instanceFrom(c)
			if err == nil {
				b.found(v)
			}
			return err
		})
	})
	return conn.SendBatch(ctx, q).Close()
}

func (b *batch) claimArgs() []any {
	kinds, hashes := &packed{element: oidInt}, &packed{element: oidBytes}
	ids, bodies, keep := &packed{element: oidUUID}, &packed{element: oidBytes}, &packed{element: oidLong}
	for _, h := range b.claims {
		kinds.num(int32(h.kind))
		hashes.bytes(h.hash[:])
		ids.bytes(h.entry.id.raw[:])
		if h.claim.BodyHash == nil {
			bodies.null()
		} else {
			bodies.bytes(h.claim.BodyHash)
		}
		keep.long(h.claim.Keep.Milliseconds())
	}
	return []any{kinds, hashes, ids, bodies, keep, b.s.impl.cfg.Shift().Milliseconds()}
}

func (b *batch) wonClaim(c cells) error {
	key, err := readClaimKey(c)
	if h := b.byClaim[key]; err == nil && h != nil {
		h.won = true
	}
	return err
}

func readClaimKey(c cells) (key claimKey, err error) {
	key.kind = ClaimKind(c.num())
	hash := c.blob()
	copy(key.hash[:], hash)
	return key, c.failure()
}

func (b *batch) queueClock(q *pgx.Batch) {
	q.Queue(pgClock).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(c cells) error {
			b.now, b.version = b.s.shifted(c.when()), c.long()
			return c.failure()
		})
	})
}

func packIDs(entries []*entry) *packed {
	ids := &packed{element: oidUUID}
	for _, e := range entries {
		ids.bytes(e.id.raw[:])
	}
	return ids
}

// readPostgres reads, in statements that begin after the locks are held, what they protect.
func (b *batch) readPostgres(ctx context.Context, conn *pgxpool.Conn) error {
	q := &pgx.Batch{}
	b.queueHolders(q)
	if len(b.toLock()) > 0 {
		b.prepare(ctx)
		b.queueThere(q)
		if live := b.readable(); len(live) > 0 {
			b.queueChildren(q, live)
		}
		b.queueClock(q)
	} else {
		b.prepare(ctx)
	}
	if q.Len() == 0 {
		return nil
	}
	if err := conn.SendBatch(ctx, q).Close(); err != nil {
		return err
	}
	return b.readActs(ctx, conn)
}

// readable are the live jobs whose instance is locked.
func (b *batch) readable() []*entry {
	var readable []*entry
	for _, e := range b.live() {
		if e.locked {
			readable = append(readable, e)
		}
	}
	return readable
}

// queueHolders asks who holds the claims that were lost.
func (b *batch) queueHolders(q *pgx.Batch) {
	lost := b.lost()
	if len(lost) == 0 {
		return
	}
	kinds, hashes := &packed{element: oidInt}, &packed{element: oidBytes}
	for _, h := range lost {
		kinds.num(int32(h.kind))
		hashes.bytes(h.hash[:])
	}
	q.Queue(pgHolders, kinds, hashes).Query(func(rows pgx.Rows) error {
		holders := map[claimKey]*ClaimRow{}
		if err := eachRow(rows, func(c cells) error { return readHolder(c, holders) }); err != nil {
			return err
		}
		b.loses(lost, holders)
		return nil
	})
}

func readHolder(c cells, holders map[claimKey]*ClaimRow) error {
	key, err := readClaimKey(c)
	if err != nil {
		return err
	}
	holders[key] = &ClaimRow{Kind: key.kind, Instance: c.id().text, Seq: c.num(), BodyHash: c.blob(), Answer: c.blob(), CreatedAt: c.when()}
	return c.failure()
}

// queueThere tells an instance that is locked elsewhere from one that does not exist.
func (b *batch) queueThere(q *pgx.Batch) {
	var missing []*entry
	for _, e := range b.toLock() {
		if !e.locked {
			missing = append(missing, e)
		}
	}
	if len(missing) == 0 {
		return
	}
	q.Queue(pgThere, packIDs(missing)).Query(func(rows pgx.Rows) error {
		there := map[[16]byte]bool{}
		if err := eachRow(rows, func(c cells) error { there[c.id().raw] = true; return c.failure() }); err != nil {
			return err
		}
		b.absent(missing, func(e *entry) bool { return there[e.id.raw] })
		return nil
	})
}

// absent ends the jobs whose instance could not be locked.
func (b *batch) absent(missing []*entry, there func(*entry) bool) {
	for _, e := range missing {
		switch {
		case e.out: // lost its claim meanwhile
		case there(e):
			e.requeue()
		default:
			e.leave(noInstance(e.id.text))
		}
	}
}

func (b *batch) queueChildren(q *pgx.Batch, live []*entry) {
	ids := packIDs(live)
	to := into{b.snapshotOf}
	for _, child := range []struct {
		query childQuery
		read  func(cells) error
	}{{dataOf, to.data}, {assigneesOf, to.assignee}, {tasksOf, to.task}, {deadlinesOf, to.deadline}, {votesOf, to.vote}} {
		q.Queue(child.query.by(pgAny), ids).Query(func(rows pgx.Rows) error { return eachRow(rows, child.read) })
	}
	tokens, past := &packed{element: oidBytes}, &packed{element: oidUUID}
	for _, e := range live {
		if e.job.TokenHash != nil {
			tokens.bytes(e.job.TokenHash)
		}
		if e.job.Snapshot.Definition.NeedsPast {
			past.bytes(e.id.raw[:])
		}
	}
	if tokens.n > 0 {
		q.Queue(tokensBy+"= ANY($1::bytea[])", tokens).Query(func(rows pgx.Rows) error { return eachRow(rows, b.foundToken) })
	}
	if past.n > 0 {
		q.Queue(pastOf.by(pgAny), past).Query(func(rows pgx.Rows) error { return eachRow(rows, to.past) })
	}
	b.queueEffects(q, live)
}

// snapshotOf is where children of an instance go; nil where it is not of this batch.
func (b *batch) snapshotOf(id ident) *fsm.Snapshot {
	if e := b.byID[id.raw]; e != nil {
		return e.job.Snapshot
	}
	return nil
}

// foundToken takes the row of a presented token, if it is of the instance it was
// presented for.
func (b *batch) foundToken(c cells) error {
	id, row, err := assigneeFrom(c)
	if e := b.byID[id.raw]; err == nil && e != nil && string(e.job.TokenHash) == string(row.JTIHash) {
		e.token = &tokenRow{id, row}
	}
	return err
}

func (b *batch) queueEffects(q *pgx.Batch, live []*entry) {
	ids, whole := &packed{element: oidUUID}, &packed{element: oidBool}
	seqs, ns := &packed{element: oidInt}, &packed{element: oidInt}
	for _, e := range live {
		if e.need == fsm.NeedNone {
			continue
		}
		about, _ := e.effect()
		ids.bytes(e.id.raw[:])
		whole.flag(e.need == fsm.NeedAll)
		seqs.num(int32(about.Seq))
		ns.num(int32(about.N))
	}
	if ids.n == 0 {
		return
	}
	q.Queue(pgEffects, ids, whole, seqs, ns).Query(func(rows pgx.Rows) error { return eachRow(rows, b.foundEffect) })
}

func (b *batch) foundEffect(c cells) error {
	id, row, fence, err := effectFrom(c)
	running := c.flag()
	e := b.byID[id.raw]
	if err != nil || e == nil {
		return err
	}
	e.job.Snapshot.Effects = append(e.job.Snapshot.Effects, row)
	if about, ok := e.effect(); ok && about == row.EffectID {
		e.fence, e.running = &fence, running
	}
	return c.failure()
}

// readActs tells how the waits that events are about ended, for those that did; history
// rows never change, so another statement reads no other truth.
func (b *batch) readActs(ctx context.Context, conn *pgxpool.Conn) error {
	q := &pgx.Batch{}
	for _, e := range b.readable() {
		snap := e.job.Snapshot
		if e.token != nil {
			present(snap, e.token)
		}
		if closing, ok := closingOf(snap, e.job.Event); ok {
			queueActs(q, e.id, snap, closing)
		}
	}
	if q.Len() == 0 {
		return nil
	}
	return conn.SendBatch(ctx, q).Close()
}

func queueActs(q *pgx.Batch, id ident, snap *fsm.Snapshot, of closing) {
	q.Queue(pgActs, id.raw, of.wait, of.consumed, of.token.Seq, of.token.N, of.actor).Query(func(rows pgx.Rows) error {
		defer of.finish(snap)
		return eachRow(rows, func(c cells) error { return of.read(c, snap) })
	})
}

// writePostgres sends every write and the commit at once; a failed statement leaves
// nothing to commit.
func (b *batch) writePostgres(ctx context.Context, conn *pgxpool.Conn, w *writes) error {
	q := &pgx.Batch{}
	for _, set := range w.ordered(batchOrder) {
		q.Queue(set.of.postgres, set.args()...)
	}
	if b.s.impl.split { // a test wants to fail between the two
		if err := errors.Join(conn.SendBatch(ctx, q).Close(), b.written(w)); err != nil {
			return err
		}
		q = &pgx.Batch{}
	}
	q.Queue("commit")
	return conn.SendBatch(ctx, q).Close()
}
