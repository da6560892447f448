package store

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"vobo/internal/fsm"
)

// A change of several effects that belong to several instances locks its rows in two
// passes: first what is free, then the rest one by one, holding nothing else. So it
// never waits in a circle with a batch of decisions.
var (
	lockEffects = `SELECT t.instance_id, t.seq, t.n FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::int8[]) u(instance_id, seq, n, fence)
		JOIN effects t ON t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n
		WHERE t.fence = u.fence AND t.status = 'running' FOR UPDATE OF t`
	lockFreeEffects = lockEffects + ` SKIP LOCKED`

	liteOurs = `SELECT instance_id, seq, n FROM effects WHERE instance_id = ?1 AND seq = ?2 AND n = ?3 AND fence = ?4 AND status = 'running'`

	// An effect given back comes at once and its lease leaves no trace but the fence.
	releaseEffects = changeRows("effects", "instance_id uuid, seq int4, n int4, fence int8, at timestamptz",
		"status = CASE WHEN t.attempts > 0 THEN 'retrying' ELSE 'waiting' END, lease_until = NULL, next_at = u.at",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.fence = u.fence AND t.status = 'running' AND NOT t.started", false)
)

// fenced names an effect under one lease.
type fenced struct {
	instance ident
	id       fsm.EffectID
	fence    int64
	place    int // in the caller's list
}

func sortFenced(all []fenced) {
	slices.SortFunc(all, func(a, b fenced) int {
		return cmp.Or(slices.Compare(a.instance.raw[:], b.instance.raw[:]), cmp.Compare(a.id.Seq, b.id.Seq), cmp.Compare(a.id.N, b.id.N))
	})
}

// FinishAttempts writes results, fenced, in one transaction; it returns how many were still ours.
func (s *Store) FinishAttempts(ctx context.Context, fs []Finish) (int, error) {
	if err := s.failpoint(PointFinish); err != nil {
		return 0, s.dbError(err)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	all := make([]fenced, 0, len(fs))
	for i := range fs {
		if id, ok := parseIdent(fs[i].Instance); ok {
			all = append(all, fenced{id, fs[i].Effect, fs[i].Fence, i})
		}
	}
	n, err := s.changeFenced(ctx, all, func(w *writes, f fenced) { w.result(f.instance, &fs[f.place].ResultEvent, now) })
	if err == nil && n > 0 {
		err = s.failpoint(PointFinishCommit)
	}
	return n, s.dbError(err)
}

// ReleaseEffects gives leases back unstarted (graceful stop).
func (s *Store) ReleaseEffects(ctx context.Context, es []ClaimedEffect) error {
	if err := s.failpoint(PointRelease); err != nil {
		return s.dbError(err)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	all := make([]fenced, 0, len(es))
	for i := range es {
		if id, ok := parseIdent(es[i].Instance); ok && !es[i].Started {
			all = append(all, fenced{id, es[i].EffectID, es[i].Fence, i})
		}
	}
	_, err = s.changeFenced(ctx, all, func(w *writes, f fenced) {
		w.of(releaseEffects).id(f.instance).num(f.id.Seq).num(f.id.N).long(f.fence).when(now)
	})
	return s.dbError(err)
}

// changeFenced writes for each effect whose lease is still the caller's and tells for how many.
func (s *Store) changeFenced(ctx context.Context, all []fenced, write func(w *writes, f fenced)) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	sortFenced(all)
	if s.impl.dialect == dialectSQLite {
		return s.changeFencedSQLite(ctx, all, write)
	}
	done, err := s.changeFencedPostgres(ctx, lockFreeEffects, all, write)
	if err != nil {
		return 0, err
	}
	total := len(done)
	for _, f := range all {
		if done[linkKey{f.instance.raw, f.id}] {
			continue
		}
		more, err := s.changeFencedPostgres(ctx, lockEffects, []fenced{f}, write)
		if err != nil {
			return total, err
		}
		total += len(more)
	}
	return total, nil
}

// outboxOrder is the order of the statements of changeFenced.
var outboxOrder = []*multirow{finishEffects, finishAttempts, releaseEffects}

func (s *Store) changeFencedPostgres(ctx context.Context, lock string, all []fenced, write func(w *writes, f fenced)) (map[linkKey]bool, error) {
	done := map[linkKey]bool{}
	err := s.inPostgres(ctx, func(tx pgx.Tx) (bool, error) {
		ids, seqs, ns, fences := &packed{element: oidUUID}, &packed{element: oidInt}, &packed{element: oidInt}, &packed{element: oidLong}
		for _, f := range all {
			ids.bytes(f.instance.raw[:])
			seqs.num(int32(f.id.Seq))
			ns.num(int32(f.id.N))
			fences.long(f.fence)
		}
		rows, err := tx.Query(ctx, lock, ids, seqs, ns, fences)
		if err != nil {
			return false, err
		}
		defer rows.Close()
		if err := eachRow(rows, readOurs(done)); err != nil || len(done) == 0 {
			return false, err
		}
		w := newWrites(true)
		writeOurs(w, all, done, write)
		q := &pgx.Batch{}
		for _, set := range w.ordered(outboxOrder) {
			q.Queue(set.of.postgres, set.args()...)
		}
		return true, errors.Join(tx.SendBatch(ctx, q).Close(), s.failpoint(PointFinishWritten))
	})
	return done, err
}

func readOurs(ours map[linkKey]bool) func(c cells) error {
	return func(c cells) error {
		ours[linkKey{c.id().raw, fsm.EffectID{Seq: c.num(), N: c.num()}}] = true
		return c.failure()
	}
}

// writeOurs writes once for each effect that is still ours, even if it is named twice.
func writeOurs(w *writes, all []fenced, ours map[linkKey]bool, write func(w *writes, f fenced)) {
	written := map[linkKey]bool{}
	for _, f := range all {
		key := linkKey{f.instance.raw, f.id}
		if ours[key] && !written[key] {
			written[key] = true
			write(w, f)
		}
	}
}

func (s *Store) changeFencedSQLite(ctx context.Context, all []fenced, write func(w *writes, f fenced)) (int, error) {
	ours := map[linkKey]bool{}
	err := s.inWriter(ctx, func(t *liteTx) (bool, error) {
		for _, f := range all {
			if err := t.each(readOurs(ours), liteOurs, f.instance.text, int64(f.id.Seq), int64(f.id.N), f.fence); err != nil {
				return false, err
			}
		}
		if len(ours) == 0 {
			return false, nil
		}
		w := newWrites(false)
		writeOurs(w, all, ours, write)
		for _, set := range w.ordered(outboxOrder) {
			if err := t.run(set); err != nil {
				return false, err
			}
		}
		return true, s.failpoint(PointFinishWritten)
	})
	if err != nil {
		return 0, err
	}
	return len(ours), nil
}
