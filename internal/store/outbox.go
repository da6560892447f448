package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"vobo/internal/fsm"
)

// overscan is how many due rows are looked at for each that is wanted, so that the rows
// of one busy host do not hide those of others.
const overscan = 4

const (
	// A due row is waiting, between attempts, or leased with the lease run out; the last
	// comes again only where a second copy does no harm or nothing was sent.
	dueEffects = `SELECT e.instance_id, e.seq, e.n, e.host FROM effects e
		WHERE e.next_at IS NOT NULL AND e.next_at <= {now} AND (e.status <> 'running' OR e.idempotent OR NOT e.started)
		ORDER BY e.priority, e.next_at LIMIT {limit}`

	busyHosts = `SELECT e.host, count(*) FROM effects e WHERE e.lease_until > {now} AND e.host <> '' GROUP BY e.host`

	// takeEffect leases one row if it is still due. An idempotent effect's attempt starts with the lease.
	takeSet = `status = 'running', fence = t.fence + 1, attempts = t.attempts + CASE WHEN t.idempotent THEN 1 ELSE 0 END,
		started = t.idempotent, lease_until = {lease}, next_at = {lease}`
	takeWhere = `t.next_at <= {now} AND (t.status <> 'running' OR t.idempotent OR NOT t.started)`

	claimedRest = `, e.fence, e.attempts, e.started, e.lease_until, e.queued_at, i.definition, i.version,
		EXISTS (SELECT 1 FROM attempts b WHERE b.instance_id = e.instance_id AND b.seq = e.seq AND b.n = e.n
			AND (b.outcome = 'unknown' OR b.outcome = 'started' AND b.fence < e.fence))`
	claimedColumns = queuedColumns + claimedRest

	lostEffects = `SELECT ` + claimedColumns + ` FROM effects e JOIN instances i ON i.id = e.instance_id
		WHERE e.lease_until <= {now} AND e.status = 'running' AND e.started AND NOT e.idempotent
		ORDER BY e.lease_until, e.instance_id, e.seq, e.n LIMIT {limit}`
)

// The outcomes of attempts that the store writes by itself.
const (
	attemptStarted = "started"
	attemptUnknown = "unknown" // the lease ended without a word of it
)

// dueRow names a due effect.
type dueRow struct {
	instance ident
	id       fsm.EffectID
	host     string
}

// ClaimEffects leases up to limit due effects (priority, then age; SKIP LOCKED), at most perHost
// running of one host. Idempotent ones are committed as started in the same statement.
// Rows whose lease ran out are taken again if idempotent or not started.
func (s *Store) ClaimEffects(ctx context.Context, limit int, lease time.Duration) (claimed []ClaimedEffect, err error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := s.failpoint(PointClaim); err != nil {
		return nil, s.dbError(err)
	}
	if s.impl.dialect == dialectSQLite {
		claimed, err = s.claimSQLite(ctx, limit, lease)
	} else {
		claimed, err = s.claimPostgres(ctx, limit, lease)
	}
	if err == nil && len(claimed) > 0 {
		err = s.failpoint(PointClaimCommitted)
	}
	if err != nil {
		return nil, s.dbError(err)
	}
	return claimed, nil
}

// choose keeps each host within its share and the whole within limit.
func (s *Store) choose(due []dueRow, busy map[string]int, limit int) []dueRow {
	chosen := due[:0]
	for _, d := range due {
		if len(chosen) == limit {
			break
		}
		if d.host != "" {
			if busy[d.host] >= s.impl.cfg.PerHost {
				continue
			}
			busy[d.host]++
		}
		chosen = append(chosen, d)
	}
	return chosen
}

func readDue(due *[]dueRow) func(c cells) error {
	return func(c cells) error {
		*due = append(*due, dueRow{instance: c.id(), id: fsm.EffectID{Seq: c.num(), N: c.num()}, host: c.text()})
		return c.failure()
	}
}

func readBusy(busy map[string]int) func(c cells) error {
	return func(c cells) error { busy[c.text()] = int(c.long()); return c.failure() }
}

func claimedFrom(c cells) (e ClaimedEffect, id ident, err error) {
	id, e.QueuedEffect, err = queuedFrom(c)
	if err != nil {
		return e, id, err
	}
	e.Instance, e.Key = id.text, fmt.Sprintf("%s/%d/%d", id.text, e.Seq, e.N)
	e.Fence, e.Attempt, e.Started = c.long(), c.num(), c.flag()
	e.LeaseUntil, e.QueuedAt, e.Definition, e.Version, e.UnknownBefore = c.when(), c.when(), c.text(), c.num(), c.flag()
	if !e.Started {
		e.Attempt++ // the one that StartAttempt will start
	}
	return e, id, c.failure()
}

// linkKey names an assignee row of an instance.
type linkKey struct {
	instance [16]byte
	id       fsm.EffectID
}

// attach gives claimed effects the rows behind their links.
func attach(claimed []ClaimedEffect, links map[linkKey]*AssigneeInfo) {
	for i := range claimed {
		if id, ok := parseIdent(claimed[i].Instance); ok {
			claimed[i].Link = links[linkKey{id.raw, claimed[i].QueuedEffect.Link}]
		}
	}
}

func readLink(links map[linkKey]*AssigneeInfo) func(c cells) error {
	return func(c cells) error {
		id, v, err := infoFrom(c)
		links[linkKey{id.raw, fsm.EffectID{Seq: v.Seq, N: v.N}}] = &v
		return err
	}
}

var (
	pgDueEffects = timed(dueEffects, "$1::timestamptz", "", "$2::int8")
	pgBusyHosts  = timed(busyHosts, "$1::timestamptz", "", "")
	// The inner statement takes the locks that are free; who is locked is being taken or
	// decided on elsewhere.
	pgTakeEffects = timed(`WITH mine AS (
			SELECT t.instance_id, t.seq, t.n FROM unnest($1::uuid[], $2::int4[], $3::int4[]) u(instance_id, seq, n)
			JOIN effects t ON t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n
			WHERE `+takeWhere+` FOR UPDATE OF t SKIP LOCKED),
		taken AS (
			UPDATE effects t SET `+takeSet+` FROM mine
			WHERE t.instance_id = mine.instance_id AND t.seq = mine.seq AND t.n = mine.n RETURNING t.*),
		begun AS (
			INSERT INTO attempts (instance_id, seq, n, fence, attempt, at, outcome, detail, http)
			SELECT instance_id, seq, n, fence, attempts, $4::timestamptz, 'started', '', 0 FROM taken WHERE started),
		left_over AS (
			UPDATE attempts b SET outcome = 'unknown', finished_at = $4::timestamptz FROM taken
			WHERE b.instance_id = taken.instance_id AND b.seq = taken.seq AND b.n = taken.n AND b.finished_at IS NULL)
		SELECT `+claimedColumns+` FROM taken e JOIN instances i ON i.id = e.instance_id
		ORDER BY e.priority, e.queued_at, e.instance_id, e.seq, e.n`, "$4::timestamptz", "$5::timestamptz", "")
	pgLinks = `SELECT ` + infoColumns + ` FROM unnest($1::uuid[], $2::int4[], $3::int4[]) u(instance_id, seq, n)
		JOIN assignees a ON a.instance_id = u.instance_id AND a.seq = u.seq AND a.n = u.n`
	pgLost = timed(lostEffects, "$1::timestamptz", "", "$2::int8")
)

func (s *Store) claimPostgres(ctx context.Context, limit int, lease time.Duration) (claimed []ClaimedEffect, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var due []dueRow
	busy := map[string]int{}
	q := &pgx.Batch{}
	q.Queue(pgBusyHosts, now).Query(func(rows pgx.Rows) error { return eachRow(rows, readBusy(busy)) })
	q.Queue(pgDueEffects, now, limit*overscan).Query(func(rows pgx.Rows) error { return eachRow(rows, readDue(&due)) })
	if err := s.impl.pool.SendBatch(ctx, q).Close(); err != nil {
		return nil, err
	}
	chosen := s.choose(due, busy, limit)
	if len(chosen) == 0 {
		return nil, nil
	}
	ids, seqs, ns := &packed{element: oidUUID}, &packed{element: oidInt}, &packed{element: oidInt}
	for _, d := range chosen {
		ids.bytes(d.instance.raw[:])
		seqs.num(int32(d.id.Seq))
		ns.num(int32(d.id.N))
	}
	rows, err := s.impl.pool.Query(ctx, pgTakeEffects, ids, seqs, ns, now, now.Add(lease))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if err := eachRow(rows, readClaimed(&claimed)); err != nil {
		return nil, err
	}
	return claimed, s.linksPostgres(ctx, claimed)
}

func readClaimed(claimed *[]ClaimedEffect) func(c cells) error {
	return func(c cells) error {
		e, _, err := claimedFrom(c)
		*claimed = append(*claimed, e)
		return err
	}
}

func (s *Store) linksPostgres(ctx context.Context, claimed []ClaimedEffect) error {
	ids, seqs, ns := &packed{element: oidUUID}, &packed{element: oidInt}, &packed{element: oidInt}
	for i := range claimed {
		link := claimed[i].QueuedEffect.Link
		if id, ok := parseIdent(claimed[i].Instance); ok && link != (fsm.EffectID{}) {
			ids.bytes(id.raw[:])
			seqs.num(int32(link.Seq))
			ns.num(int32(link.N))
		}
	}
	if ids.n == 0 {
		return nil
	}
	rows, err := s.impl.pool.Query(ctx, pgLinks, ids, seqs, ns)
	if err != nil {
		return err
	}
	defer rows.Close()
	links := map[linkKey]*AssigneeInfo{}
	if err := eachRow(rows, readLink(links)); err != nil {
		return err
	}
	attach(claimed, links)
	return nil
}

// LostAttempts returns non-idempotent effects whose lease ran out after their attempt had started: unknown.
func (s *Store) LostAttempts(ctx context.Context, limit int) (lost []ClaimedEffect, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	err = s.readOne(ctx, readClaimed(&lost), pgLost, []any{now, limit}, liteLost, []any{now.UnixMilli(), int64(limit)})
	return lost, err
}

// beginAttempt commits a start if the lease is still the caller's and the effect was not
// cancelled meanwhile.
var (
	beginSet = changeRows("effects", "instance_id uuid, seq int4, n int4, fence int8, lease timestamptz", "started = true, attempts = t.attempts + 1, lease_until = u.lease, next_at = u.lease",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.fence = u.fence AND t.status = 'running' AND NOT t.started", false)
)

// StartAttempt commits the start of an attempt just before dialling; false: the lease was lost.
// The lease goes on as it was; a claim is started within it or not at all.
func (s *Store) StartAttempt(ctx context.Context, e *ClaimedEffect) (bool, error) {
	if e.Started {
		return true, nil
	}
	id, ok := parseIdent(e.Instance)
	if !ok {
		return false, noInstance(e.Instance)
	}
	if err := s.failpoint(PointStart); err != nil {
		return false, s.dbError(err)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	if !now.Before(e.LeaseUntil) {
		return false, nil
	}
	arrays := s.impl.dialect == dialectPostgres
	begin, attempt := newRowset(beginSet, arrays), newRowset(insertAttempts, arrays)
	begin.row().id(id).num(e.Seq).num(e.N).long(e.Fence).when(e.LeaseUntil)
	attempt.row().id(id).num(e.Seq).num(e.N).long(e.Fence).num(e.Attempt).when(now).maybe(nil).text(attemptStarted).text("").num(0)
	ours, err := s.guarded(ctx, begin, attempt)
	if err == nil && ours {
		err = s.failpoint(PointStartCommitted)
	}
	if err != nil {
		return false, s.dbError(err)
	}
	e.Started = ours
	return ours, nil
}

// guarded runs then only where first touched its row, both in one transaction.
func (s *Store) guarded(ctx context.Context, first, then *rowset) (ours bool, err error) {
	if s.impl.dialect == dialectSQLite {
		err = s.inWriter(ctx, func(t *liteTx) (bool, error) {
			n, err := t.runCounting(first)
			ours = n == 1
			if err != nil || !ours {
				return false, err
			}
			return true, t.run(then)
		})
		return ours && err == nil, err
	}
	err = s.inPostgres(ctx, func(tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, first.of.postgres, first.args()...)
		ours = tag.RowsAffected() == 1
		if err != nil || !ours {
			return false, err
		}
		_, err = tx.Exec(ctx, then.of.postgres, then.args()...)
		return true, err
	})
	return ours && err == nil, err
}

// inPostgres runs f in a transaction; keep false rolls back.
func (s *Store) inPostgres(ctx context.Context, f func(tx pgx.Tx) (keep bool, err error)) error {
	return s.impl.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		keep, err := f(tx)
		if err == nil && keep {
			err = tx.Commit(ctx)
		}
		if err != nil || !keep {
			return errors.Join(err, rollback(conn))
		}
		return nil
	})
}
