package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// pgReadOnly begins a transaction whose statements all see one moment.
const pgReadOnly = "begin isolation level repeatable read read only"

// EventSeq returns the seq of the history row with this event id, 0 for none.
func (s *Store) EventSeq(ctx context.Context, instance, eventID string) (int, error) {
	id, ok := parseIdent(instance)
	event, eventOK := parseIdent(eventID)
	if !ok || !eventOK {
		return 0, nil
	}
	seq := 0
	read := func(c cells) error { seq = c.num(); return c.failure() }
	const text = "SELECT seq FROM transitions WHERE event_id = "
	err := s.readOne(ctx, read, text+"$1::uuid AND instance_id = $2::uuid", []any{event.raw, id.raw},
		text+"?1 AND instance_id = ?2", []any{event.text, id.text})
	return seq, err
}

// readOne runs one query outside a batch.
func (s *Store) readOne(ctx context.Context, read func(cells) error, pg string, pgArgs []any, lite string, liteArgs []any) error {
	if s.impl.dialect == dialectSQLite {
		return s.dbError(s.inReader(ctx, func(t *liteTx) error { return t.each(read, lite, liteArgs...) }))
	}
	rows, err := s.impl.pool.Query(ctx, pg, pgArgs...)
	if err != nil {
		return s.dbError(err)
	}
	defer rows.Close()
	return s.dbError(eachRow(rows, read))
}

// TokenLookup reads, without a lock, what the token's page and replays need: the snapshot
// with Token, Own and Left set. fault.InvalidToken for an unknown hash.
func (s *Store) TokenLookup(ctx context.Context, jtiHash []byte, p Planner) (*fsm.Snapshot, error) {
	r := &reading{s: s, planner: p, pgBy: pgToken, liteBy: liteToken, pgKey: jtiHash, liteKey: jtiHash, token: jtiHash}
	if err := r.run(ctx); err != nil {
		return nil, s.dbError(err)
	}
	if !r.found || r.row == nil {
		return nil, fault.New(fault.InvalidToken, "This link is not valid.")
	}
	return r.snap, s.dbError(r.finish(ctx))
}

// Snapshot reads an instance without a lock, with everything (also Past, Effects). NotFound.
func (s *Store) Snapshot(ctx context.Context, instance string, p Planner) (*fsm.Snapshot, error) {
	id, ok := parseIdent(instance)
	if !ok {
		return nil, noInstance(instance)
	}
	r := &reading{s: s, planner: p, pgBy: pgOne, liteBy: liteOne, pgKey: id.raw, liteKey: id.text, whole: true}
	if err := r.run(ctx); err != nil {
		return nil, s.dbError(err)
	}
	if !r.found {
		return nil, noInstance(instance)
	}
	return r.snap, s.dbError(r.finish(ctx))
}

// reading is one lock-free read of an instance.
type reading struct {
	s              *Store
	planner        Planner
	pgBy, liteBy   naming
	pgKey, liteKey any
	token          []byte // hash of a presented token; nil: none
	whole          bool   // also history, effects and deliveries

	snap    *fsm.Snapshot
	found   bool
	row     *tokenRow
	version int64
}

func (r *reading) children() []liteChild {
	r.snap = &fsm.Snapshot{}
	to := into{func(ident) *fsm.Snapshot { return r.snap }}
	all := []liteChild{{instanceOf, r.readInstance}, {dataOf, to.data}, {tasksOf, to.task}, {deadlinesOf, to.deadline}, {votesOf, to.vote}}
	if r.whole {
		return append(all, liteChild{infosNowOf, to.info}, liteChild{pastOf, to.past}, liteChild{effectsOf, to.effect})
	}
	return append(all, liteChild{assigneesOf, to.assignee})
}

func (r *reading) readInstance(c cells) error {
	v, err := instanceFrom(c)
	if err != nil {
		return err
	}
	r.snap.Instance, r.found = v, true
	return nil
}

func (r *reading) readToken(c cells) error {
	id, row, err := assigneeFrom(c)
	if err == nil {
		r.row = &tokenRow{id, row}
	}
	return err
}

func (r *reading) readVersion(c cells) error {
	r.version = c.long()
	return c.failure()
}

const directoryVersion = "SELECT directory_version FROM meta"

func (r *reading) run(ctx context.Context) error {
	if r.s.impl.dialect == dialectSQLite {
		return r.s.inReader(ctx, func(t *liteTx) error {
			if err := t.each(r.readVersion, directoryVersion); err != nil {
				return err
			}
			if r.token != nil {
				if err := t.each(r.readToken, tokensBy+"= ?1", r.token); err != nil {
					return err
				}
			}
			return t.children(r.children(), r.liteBy, r.liteKey)
		})
	}
	q := &pgx.Batch{}
	queue := func(read func(cells) error, text string, args ...any) {
		q.Queue(text, args...).Query(func(rows pgx.Rows) error { return eachRow(rows, read) })
	}
	queue(r.readVersion, directoryVersion)
	if r.token != nil {
		queue(r.readToken, tokensBy+"= $1::bytea", r.token)
	}
	for _, child := range r.children() {
		queue(child.read, child.query.by(r.pgBy), r.pgKey)
	}
	return r.s.readOnly(ctx, q)
}

// readOnly runs queries in one round trip, all of one moment.
func (s *Store) readOnly(ctx context.Context, queries *pgx.Batch) (err error) {
	return s.impl.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		q := &pgx.Batch{}
		q.Queue(pgReadOnly)
		q.QueuedQueries = append(q.QueuedQueries, queries.QueuedQueries...)
		q.Queue("commit")
		if err := conn.SendBatch(ctx, q).Close(); err != nil {
			return errors.Join(err, rollback(conn))
		}
		return nil
	})
}

// finish adds definition and directory, and what only some snapshots need. History rows
// never change, so those up to the revision read may be read later.
func (r *reading) finish(ctx context.Context) (err error) {
	snap := r.snap
	if snap.Definition, err = r.planner.Definition(ctx, snap.Instance.Definition, snap.Instance.Version); err != nil {
		return err
	}
	if snap.Directory, err = r.planner.Directory(ctx, r.version); err != nil {
		return err
	}
	if r.row != nil {
		present(snap, r.row)
	}
	return r.history(ctx, snap.Definition.NeedsPast && !r.whole)
}

func (r *reading) history(ctx context.Context, wantPast bool) error {
	snap := r.snap
	closing, wantActs := closingOf(snap, nil)
	if !wantPast && !wantActs {
		return nil
	}
	past := into{func(ident) *fsm.Snapshot { return snap }}.pastUpTo(snap.Instance.Revision)
	if r.s.impl.dialect == dialectSQLite {
		return r.s.inReader(ctx, func(t *liteTx) error {
			if wantPast {
				if err := t.each(past, pastOf.by(liteOne), snap.Instance.ID); err != nil {
					return err
				}
			}
			if !wantActs {
				return nil
			}
			return t.acts(snap, closing)
		})
	}
	id, _ := parseIdent(snap.Instance.ID)
	q := &pgx.Batch{}
	if wantPast {
		q.Queue(pastOf.by(pgOne), id.raw).Query(func(rows pgx.Rows) error { return eachRow(rows, past) })
	}
	if wantActs {
		queueActs(q, id, snap, closing)
	}
	return r.s.readOnly(ctx, q)
}

// pastUpTo reads history rows that are not newer than the snapshot.
func (to into) pastUpTo(revision int) func(cells) error {
	return func(c cells) error {
		id, v, err := pastFrom(c)
		if snap := to.snapshot(id); err == nil && v.Seq <= revision {
			snap.Past = append(snap.Past, v)
		}
		return err
	}
}

// Assignees returns all rows of an instance, oldest first, for the instance page and to rebuild links.
func (s *Store) Assignees(ctx context.Context, instance string) (infos []AssigneeInfo, err error) {
	id, ok := parseIdent(instance)
	if !ok {
		return nil, nil
	}
	err = s.readOne(ctx, func(c cells) error {
		_, v, err := infoFrom(c)
		infos = append(infos, v)
		return err
	}, infosOf.by(pgOne), []any{id.raw}, infosOf.by(liteOne), []any{id.text})
	return infos, err
}

// TokenFetched records that a link was fetched (first and last time, count); it changes nothing else.
func (s *Store) TokenFetched(ctx context.Context, instance string, id fsm.EffectID) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.single(ctx, fetchedLink, instance, id, func(r *rowset) { r.when(now) })
}

var fetchedLink = changeRows("assignees", "instance_id uuid, seq int4, n int4, at timestamptz",
	"fetched_at = COALESCE(t.fetched_at, u.at), last_fetched_at = u.at, fetch_count = t.fetch_count + 1",
	"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", false)

// single runs a change of one row named by instance, seq and n; a row that is not there
// is none of this change's business.
func (s *Store) single(ctx context.Context, m *multirow, instance string, id fsm.EffectID, more func(r *rowset)) error {
	of, ok := parseIdent(instance)
	if !ok {
		return nil
	}
	r := newRowset(m, s.impl.dialect == dialectPostgres)
	r.row().id(of).num(id.Seq).num(id.N)
	more(r)
	_, err := s.runSet(ctx, r)
	return err
}

// runSet runs a rowset in a transaction of its own and tells how many rows it touched.
func (s *Store) runSet(ctx context.Context, r *rowset) (n int64, err error) {
	if s.impl.dialect == dialectPostgres {
		tag, err := s.impl.pool.Exec(ctx, r.of.postgres, r.args()...)
		return tag.RowsAffected(), s.dbError(err)
	}
	err = s.inWriter(ctx, func(t *liteTx) (bool, error) {
		n, err = t.runCounting(r)
		return true, err
	})
	return n, s.dbError(err)
}
