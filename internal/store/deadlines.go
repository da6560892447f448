package store

import (
	"context"
	"time"

	"vobo/internal/fsm"
)

// DueDeadlines returns up to limit due deadlines of running instances, oldest first; offset spreads replicas.
func (s *Store) DueDeadlines(ctx context.Context, limit, offset int) (due []DueDeadline, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	err = s.readOne(ctx, func(c cells) error {
		d := DueDeadline{Instance: c.id().text}
		d.Ref.Seq, d.Ref.N, d.Ref.Occurrence, d.DueAt = c.num(), c.num(), c.num(), c.when()
		due = append(due, d)
		return c.failure()
	}, pgDue, []any{now, limit, offset}, liteDue, []any{now.UnixMilli(), int64(limit), int64(offset)})
	return due, err
}

const (
	dueColumns = `SELECT d.instance_id, d.seq, d.n, d.occurrence, d.due_at FROM deadlines d JOIN instances i ON i.id = d.instance_id `
	pgDue      = dueColumns + `WHERE d.next_at <= $1::timestamptz AND i.status = 'running' ORDER BY d.next_at, d.instance_id, d.seq, d.n LIMIT $2::int8 OFFSET $3::int8`
	liteDue    = dueColumns + `WHERE d.next_at <= ?1 AND i.status = 'running' ORDER BY d.next_at, d.instance_id, d.seq, d.n LIMIT ?2 OFFSET ?3`
)

// DeadlineFailed makes one deadline back off alone until the given time from now.
func (s *Store) DeadlineFailed(ctx context.Context, instance string, ref fsm.DeadlineRef, after time.Duration) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.single(ctx, failedDeadline, instance, fsm.EffectID{Seq: ref.Seq, N: ref.N}, func(r *rowset) {
		r.num(ref.Occurrence).when(now.Add(after))
	})
}

var failedDeadline = changeRows("deadlines", "instance_id uuid, seq int4, n int4, occurrence int4, next_at timestamptz",
	"failures = t.failures + 1, next_at = u.next_at",
	"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.occurrence = u.occurrence AND NOT t.deferred", false)
