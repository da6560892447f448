package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

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

	// An effect given back comes at once and its lease leaves no trace but the fence: an
	// attempt that the lease had started is none.
	releaseEffects = changeRows("effects", "instance_id uuid, seq int4, n int4, fence int8, at timestamptz",
		`attempts = t.attempts - CASE WHEN t.started THEN 1 ELSE 0 END,
		status = CASE WHEN t.attempts > CASE WHEN t.started THEN 1 ELSE 0 END THEN 'retrying' ELSE 'waiting' END,
		started = FALSE, lease_until = NULL, next_at = u.at`,
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.fence = u.fence AND t.status = 'running' AND (t.idempotent OR NOT t.started)", false)
	forgetAttempts = changeRows("attempts", "instance_id uuid, seq int4, n int4, fence int8", "",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.fence = u.fence AND t.finished_at IS NULL", false)
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

// finishSet is one statement for the ends of attempts whose rows are free: it locks,
// fences, writes effects and attempts, and tells which were still ours.
var finishSet = &multirow{
	name: "effects",
	postgres: `WITH ours AS (
			SELECT u.* FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::int8[], $5::text[], $6::text[], $7::timestamptz[],
				$8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::int4[], $13::text[])
				u(instance_id, seq, n, fence, status, result, next_at, done_at, at, outcome, detail, http, answer)
			JOIN effects t ON t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n
			WHERE t.fence = u.fence AND t.status = 'running' FOR UPDATE OF t SKIP LOCKED),
		done AS (
			UPDATE effects t SET status = u.status, result = u.result, next_at = u.next_at, done_at = u.done_at, lease_until = NULL, started = FALSE, given_up = FALSE
			FROM ours u WHERE t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n RETURNING t.instance_id, t.seq, t.n),
		told AS (
			UPDATE attempts t SET finished_at = u.at, outcome = u.outcome, detail = u.detail, http = u.http, answer = u.answer
			FROM ours u WHERE t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.fence = u.fence AND t.finished_at IS NULL)
		SELECT instance_id, seq, n FROM done`,
	elements: elementsOf([]string{"uuid", "int4", "int4", "int8", "text", "text", "timestamptz", "timestamptz", "timestamptz", "text", "text", "int4", "text"}),
}

// FinishAttempts writes results, fenced, each wholly or not at all; it returns how many were still ours.
func (s *Store) FinishAttempts(ctx context.Context, fs []Finish) (int, error) {
	if err := s.failpoint(PointFinish); err != nil {
		return 0, s.dbError(err)
	}
	all := make([]fenced, 0, len(fs))
	for i := range fs {
		if id, ok := parseIdent(fs[i].Instance); ok {
			all = append(all, fenced{id, fs[i].Effect, fs[i].Fence, i})
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	n, err := s.finish(ctx, fs, all, now)
	if err == nil && n > 0 {
		err = s.failpoint(PointFinishCommit)
	}
	return n, s.dbError(err)
}

func (s *Store) finish(ctx context.Context, fs []Finish, all []fenced, now time.Time) (int, error) {
	write := func(w *writes, f fenced) { w.result(f.instance, &fs[f.place].ResultEvent, now) }
	if s.impl.dialect == dialectSQLite || s.impl.split { // split: a test wants to fail between the writes and their commit
		return s.changeFenced(ctx, all, write)
	}
	sortFenced(all)
	all = slices.CompactFunc(all, func(x, y fenced) bool { return x.instance == y.instance && x.id == y.id && x.fence == y.fence })
	set := newRowset(finishSet, true)
	for _, f := range all {
		r := &fs[f.place].ResultEvent
		next, done := outlook(r.Status, r.NextAt, now)
		set.row().id(f.instance).num(f.id.Seq).num(f.id.N).long(f.fence).text(string(r.Status)).text(encodeTree(r.Result)).
			maybe(next).maybe(done).when(now).text(r.Outcome).text(storable(r.Detail)).num(r.HTTP).text(storable(r.Answer))
	}
	done := map[linkKey]bool{}
	if err := s.ask(ctx, reads(readOurs(done), finishSet.postgres, set.args()...)); err != nil {
		return 0, err
	}
	rest := slices.DeleteFunc(all, func(f fenced) bool { return done[linkKey{f.instance.raw, f.id}] })
	more, err := s.changeOneByOne(ctx, rest, write) // their rows are locked, or their leases lost
	return len(done) + more, err
}

// ReleaseEffects gives leases back whose effects were not sent (a stop, no place at the
// host): they are due at once, and no attempt is used up. A non-idempotent effect whose
// attempt has started stays as it is.
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
		if id, ok := parseIdent(es[i].Instance); ok && (!es[i].Started || es[i].Idempotent) {
			all = append(all, fenced{id, es[i].EffectID, es[i].Fence, i})
		}
	}
	_, err = s.changeFenced(ctx, all, func(w *writes, f fenced) {
		w.of(releaseEffects).id(f.instance).num(f.id.Seq).num(f.id.N).long(f.fence).when(now)
		if es[f.place].Started {
			w.of(forgetAttempts).id(f.instance).num(f.id.Seq).num(f.id.N).long(f.fence)
		}
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
	rest := slices.DeleteFunc(all, func(f fenced) bool { return done[linkKey{f.instance.raw, f.id}] })
	more, err := s.changeOneByOne(ctx, rest, write)
	return len(done) + more, err
}

// changeOneByOne waits for the rows that somebody else holds, holding nothing itself.
func (s *Store) changeOneByOne(ctx context.Context, all []fenced, write func(w *writes, f fenced)) (total int, err error) {
	for _, f := range all {
		done, err := s.changeFencedPostgres(ctx, lockEffects, []fenced{f}, write)
		if err != nil {
			return total, err
		}
		total += len(done)
	}
	return total, nil
}

// outboxOrder is the order of the statements of changeFenced.
var outboxOrder = []*multirow{finishEffects, finishAttempts, releaseEffects, forgetAttempts}

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
