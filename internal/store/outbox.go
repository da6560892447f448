package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"vobo/internal/fsm"
)

const (
	// claimedRest: an attempt that was begun under an earlier lease and never ended is
	// one whose end is not known. The first lease has none before it.
	claimedRest = `, e.fence, e.attempts, e.started, e.lease_until, e.queued_at, i.definition, i.version,
		e.fence > 1 AND EXISTS (SELECT 1 FROM attempts b WHERE b.instance_id = e.instance_id AND b.seq = e.seq AND b.n = e.n
			AND (b.outcome IN ('unknown', 'unanswered') OR b.outcome = 'started' AND b.fence < e.fence))`
	claimedColumns = queuedColumns + claimedRest

	lostEffects = `SELECT ` + claimedColumns + ` FROM effects e JOIN instances i ON i.id = e.instance_id
		WHERE e.lease_until <= {now} AND e.status = 'running' AND e.started AND NOT e.idempotent
		ORDER BY e.lease_until, e.instance_id, e.seq, e.n LIMIT {limit}`
)

// AttemptUnanswered is the outcome of an attempt that went out, got no answer and may be
// repeated: where the attempts are used up, the effect's outcome is unknown.
const AttemptUnanswered = "unanswered"

// The outcomes of attempts that the store writes by itself.
const (
	attemptStarted = "started"
	attemptUnknown = "unknown" // the lease ended without a word of it
)

func claimedFrom(c cells) (e ClaimedEffect, id ident, err error) {
	var input string
	id, e.QueuedEffect, input = queuedFrom(c)
	e.Instance, e.Key = id.text, fmt.Sprintf("%s/%d/%d", id.text, e.Seq, e.N)
	e.Fence, e.Attempt, e.Started = c.long(), c.num(), c.flag()
	if until := c.maybe(); until != nil {
		e.LeaseUntil = *until
	}
	e.QueuedAt, e.Definition, e.Version, e.UnknownBefore = c.when(), c.text(), c.num(), c.flag()
	if !e.Started {
		e.Attempt++ // the one that StartAttempt will start
	}
	if err := c.failure(); err != nil {
		return e, id, err
	}
	if e.Input, err = decodeTree(input); err != nil {
		e.Broken = "The effect's row cannot be read: " + err.Error()
	}
	return e, id, nil
}

// linkKey names an assignee row of an instance.
type linkKey struct {
	instance [16]byte
	id       fsm.EffectID
}

// linkRow is the row behind a link, or why it cannot be read.
type linkRow struct {
	info   *AssigneeInfo
	broken string
}

// attach gives claimed effects the rows behind their links.
func attach(claimed []ClaimedEffect, links map[linkKey]linkRow) {
	for i := range claimed {
		if id, ok := parseIdent(claimed[i].Instance); ok {
			link := links[linkKey{id.raw, claimed[i].QueuedEffect.Link}]
			claimed[i].Link = link.info
			if link.broken != "" {
				claimed[i].Broken = link.broken
			}
		}
	}
}

func readLink(links map[linkKey]linkRow) func(c cells) error {
	return func(c cells) error {
		id, v, err := infoFrom(c)
		row := linkRow{info: &v}
		if err != nil {
			row = linkRow{broken: "The row of the effect's link cannot be read: " + err.Error()}
		}
		links[linkKey{id.raw, fsm.EffectID{Seq: v.Seq, N: v.N}}] = row
		return c.failure()
	}
}

func readClaimed(claimed *[]ClaimedEffect) func(c cells) error {
	return func(c cells) error {
		e, _, err := claimedFrom(c)
		*claimed = append(*claimed, e)
		return err
	}
}

var pgLost = timed(lostEffects, "$1::timestamptz", "", "$2::int8")

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
