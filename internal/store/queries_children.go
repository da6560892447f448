package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// The statuses of a child as its parent's side sees it.
const (
	ChildRunning   = "running"
	ChildEnded     = "ended"  // in a final state that is not failed
	ChildFailed    = "failed" // in a failed one
	ChildCancelled = "cancelled"
	ChildRefused   = "refused" // could not be started; Detail says why
)

// StartEffect names the start effect that made children.
type StartEffect struct {
	Parent string
	fsm.EffectID
}

// Child is one child of a start effect.
type Child struct {
	Effect fsm.EffectID
	Name   string // the effect's
	Index  int
	ID     string // instance; "" where it was refused
	Status string
	Detail string
	DoneAt *time.Time
}

// Join tells how far the children of a start effect are. Well, Bad and Open are counted
// up to the limit asked for, so that it costs the same however many there are.
type Join struct{ Well, Bad, Open int }

// ChildResult is what became of one child, for the effect's result.
type ChildResult struct {
	Index  int
	ID     string
	Key    string
	State  string
	Status string
	Data   map[string]any
}

// Completion is a completion of a child that the parent's side has not looked at.
type Completion struct {
	StartEffect
	Index int
	mark  int // as read; see children.mark
}

// key is the effect's primary key, as arguments; ok is false for what names nothing.
func (of StartEffect) key() (args []any, ok bool) {
	id, ok := parseIdent(of.Parent)
	return []any{id.text, of.Seq, of.N}, ok && fitsColumn(int64(of.Seq)) && fitsColumn(int64(of.N))
}

const ofEffect = " instance_id = ? AND seq = ? AND n = ? "

// StartedChildren tells which places of the list have a child (its id) or were refused ("").
func (s *Store) StartedChildren(ctx context.Context, of StartEffect) (map[int]string, error) {
	key, ok := of.key()
	if !ok {
		return nil, nil
	}
	rows, err := selectRows(s.reader(ctx), readChild, selectChildren+" WHERE"+ofEffect, key...)
	if err != nil {
		return nil, s.dbError(err)
	}
	started := make(map[int]string, len(rows))
	for _, c := range rows {
		started[c.Index] = c.ID
	}
	return started, nil
}

const selectChildren = `SELECT children.seq, children.n, children.idx, COALESCE(CAST(children.child AS text), ''), children.status,
	children.detail, children.done_at, COALESCE((SELECT e.name FROM effects e WHERE e.instance_id = children.instance_id
		AND e.seq = children.seq AND e.n = children.n), '') FROM children`

func readChild(row rowScanner, c *Child) error {
	return row.Scan(&c.Effect.Seq, &c.Effect.N, &c.Index, &c.ID, &c.Status, &c.Detail, optionalTime{&c.DoneAt}, &c.Name)
}

// RefuseChild keeps that a child could not be started, as a completion. A place that has
// its child already keeps it.
func (s *Store) RefuseChild(ctx context.Context, of StartEffect, index int, detail string) error {
	key, ok := of.key()
	if !ok {
		return noInstance(of.Parent)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		_, err := execute(tx, `INSERT INTO children (instance_id, seq, n, idx, status, detail, done_at, noted)
			VALUES (?, ?, ?, ?, ?, ?, ?, FALSE) ON CONFLICT DO NOTHING`, append(key, index, ChildRefused, storable(detail), stamp(now))...)
		if err != nil {
			return err
		}
		return s.failpoint(PointRefuseChild)
	})
	if err == nil {
		err = s.dbError(s.failpoint(PointRefuseCommit))
	}
	return err
}

// ForgetRefused removes refused children, so that they are tried again.
func (s *Store) ForgetRefused(ctx context.Context, of StartEffect) error {
	key, ok := of.key()
	if !ok {
		return nil
	}
	_, err := execute(s.writer(ctx), "DELETE FROM children WHERE"+ofEffect+"AND status = 'refused'", key...)
	return s.dbError(err)
}

// stoppedStarts are the start effects whose children end with their wait: detached ones
// are not droppable.
const stoppedStarts = "e.instance_id = ? AND e.wait = ? AND e.kind = 'start' AND e.droppable"

const liveChildren = `SELECT c.child FROM effects e
	JOIN children c ON c.instance_id = e.instance_id AND c.seq = e.seq AND c.n = e.n AND c.status = 'running'
	WHERE ` + stoppedStarts + ` ORDER BY c.seq, c.n, c.idx LIMIT ?`

// LiveChildren lists running children of the start effects of one wait, at most limit.
func (s *Store) LiveChildren(ctx context.Context, parent string, wait, limit int) ([]string, error) {
	id, ok := parseIdent(parent)
	if !ok || !fitsColumn(int64(wait)) {
		return nil, nil
	}
	ids, err := selectRows(s.reader(ctx), readText, liveChildren, id.text, wait, limit)
	return ids, s.dbError(err)
}

func readText(row rowScanner, v *string) error { return row.Scan(v) }

func readLong(row rowScanner, v *int64) error { return row.Scan(v) }

// StartsUnderWay tells whether start effects of the wait are waiting, leased or between attempts.
func (s *Store) StartsUnderWay(ctx context.Context, parent string, wait int) (bool, error) {
	id, ok := parseIdent(parent)
	if !ok || !fitsColumn(int64(wait)) {
		return false, nil
	}
	n, _, err := selectOne(s.reader(ctx), readCount, `SELECT count(*) FROM effects e WHERE `+stoppedStarts+`
		AND (e.status IN ('waiting', 'retrying') OR e.status = 'running' AND e.lease_until IS NOT NULL)`, id.text, wait)
	return n > 0, s.dbError(err)
}

// countUpTo counts a start effect's children of some status; it stops at limit. The order
// is the index's, so that no other way looks cheaper.
const countUpTo = "(SELECT count(*) FROM (SELECT idx FROM children WHERE" + ofEffect + "AND status = '%s' ORDER BY idx LIMIT ?) c)"

var joinOf = fmt.Sprintf("SELECT "+countUpTo+", "+countUpTo+", "+countUpTo+", "+countUpTo+", "+countUpTo,
	ChildEnded, ChildFailed, ChildCancelled, ChildRefused, ChildRunning)

// JoinOf counts a start effect's children by what became of them, each up to limit.
func (s *Store) JoinOf(ctx context.Context, of StartEffect, limit int) (Join, error) {
	key, ok := of.key()
	if !ok {
		return Join{}, nil
	}
	var args []any
	for range 5 {
		args = append(append(args, key...), limit)
	}
	join, _, err := selectOne(s.reader(ctx), func(row rowScanner, j *Join) error {
		var failed, cancelled, refused int
		err := row.Scan(&j.Well, &failed, &cancelled, &refused, &j.Open)
		j.Bad = min(failed+cancelled+refused, limit)
		return err
	}, joinOf, args...)
	return join, s.dbError(err)
}

// ErrTooLarge is under the fault of ChildResults where the children's data is more than a
// result may hold.
var ErrTooLarge = errors.New("the children's data is larger than a result may be")

// The result of a start effect, which holds its children's data, has a most; childHead is
// what each of them takes beside its data.
const (
	mostChildData = 4 << 20
	childHead     = 128
)

const (
	fromChildren   = " FROM children c LEFT JOIN instances i ON i.id = c.child LEFT JOIN instance_data d ON d.instance_id = c.child"
	childrenSize   = "SELECT COALESCE(sum(octet_length(d.data)), 0) + count(c.child) * ?" + fromChildren
	childrenOfList = " WHERE c.instance_id = ? AND c.seq = ? AND c.n = ?"
)

// ChildResults reads what became of the children, in order: of those with one of the
// statuses, or of all where none is named. What a running child shows is its present
// state; a refused one has only its index and status. Fault limit-exceeded, before their
// data is read, where it comes to more than 4 MiB; it wraps ErrTooLarge.
func (s *Store) ChildResults(ctx context.Context, of StartEffect, statuses ...string) ([]ChildResult, error) {
	key, ok := of.key()
	if !ok {
		return nil, nil
	}
	which := childrenOfList
	if len(statuses) > 0 {
		which, key = which+" AND c.status IN ?", append(key, statuses)
	}
	size, _, err := selectOne(s.reader(ctx), readLong, childrenSize+which, append([]any{childHead}, key...)...)
	if err != nil {
		return nil, s.dbError(err)
	}
	if size > mostChildData {
		return nil, fault.Wrap(ErrTooLarge, fault.LimitExceeded, "The data of the children comes to %.1f MiB; a result may have at most %d MiB.",
			float64(size)/(1<<20), mostChildData>>20)
	}
	results, err := selectRows(s.reader(ctx), func(row rowScanner, r *ChildResult) error {
		return row.Scan(&r.Index, &r.ID, &r.Key, &r.State, &r.Status, jsonColumn{&r.Data})
	}, `SELECT c.idx, COALESCE(CAST(c.child AS text), ''), COALESCE(i.instance_key, ''), COALESCE(i.state, ''), c.status, COALESCE(d.data, '')`+
		fromChildren+which+" ORDER BY c.idx", key...)
	return results, s.dbError(err)
}

var childOrder = listOrder{name: "children", columns: []sortColumn{
	{name: "children.seq", kind: numberValue}, {name: "children.n", kind: numberValue}, {name: "children.idx", kind: numberValue},
}}

// Children lists the children of a start effect (zero EffectID: of all of the instance),
// in order, for pages.
func (s *Store) Children(ctx context.Context, parent string, effect fsm.EffectID, p Paging) (Page[Child], error) {
	id, ok := parseIdent(parent)
	if !ok {
		return Page[Child]{}, noInstance(parent)
	}
	query := &statement{}
	query.and("children.instance_id = ?", id.text)
	if effect != (fsm.EffectID{}) {
		query.and("children.seq = ? AND children.n = ?", effect.Seq, effect.N)
	}
	tail, limit, err := query.paged(childOrder, p)
	if err != nil {
		return Page[Child]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readChild, selectChildren+tail, query.args...)
	if err != nil {
		return Page[Child]{}, s.dbError(err)
	}
	return pageOf(childOrder, limit, rows, func(c Child) []any { return []any{c.Effect.Seq, c.Effect.N, c.Index} }, itself)
}

const completions = `SELECT instance_id, seq, n, idx, mark FROM children
	WHERE done_at IS NOT NULL AND NOT noted ORDER BY done_at LIMIT ?`

// Completions lists completions that nobody has looked at, oldest first.
func (s *Store) Completions(ctx context.Context, limit int) ([]Completion, error) {
	all, err := selectRows(s.reader(ctx), func(row rowScanner, c *Completion) error {
		return row.Scan(&c.Parent, &c.Seq, &c.N, &c.Index, &c.mark)
	}, completions, limit)
	return all, s.dbError(err)
}

var noteCompletions = changeInOrder("children", "instance_id uuid, seq int4, n int4, idx int4, mark int4", "noted = TRUE",
	"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.idx = u.idx AND t.mark = u.mark", childKey, false)

// NoteCompletions marks completions as looked at; one that has become news again since
// it was read stays to be looked at.
func (s *Store) NoteCompletions(ctx context.Context, all []Completion) error {
	r := newRowset(noteCompletions, s.impl.dialect == dialectPostgres)
	for _, c := range all {
		if id, ok := parseIdent(c.Parent); ok {
			r.row().id(id).num(c.Seq).num(c.N).num(c.Index).num(c.mark)
		}
	}
	if r.rows == 0 {
		return nil
	}
	_, err := s.runSet(ctx, r)
	return err
}

// lookAgain makes one completion of an effect news again.
var lookAgain = fmt.Sprintf("UPDATE children SET noted = FALSE, mark = mark + 1 WHERE"+ofEffect+
	"AND idx = COALESCE("+someOf+", "+someOf+", "+someOf+", "+someOf+")", ChildEnded, ChildFailed, ChildCancelled, ChildRefused)

const someOf = "(SELECT min(idx) FROM children WHERE" + ofEffect + "AND status = '%s')"

// ParkEffect ends the lease of a start effect whose children are started: it stays
// running, with no lease, and nothing looks at it but its children's completions, one
// of which (if there is any) becomes unnoted in the same transaction. False: the lease
// was lost. After it, ParkedEffect finds the effect.
//
// No completion falls between: whoever reads one and then asks ParkedEffect waits there
// for a parking under way, and one that came before it is seen by the second statement.
func (s *Store) ParkEffect(ctx context.Context, e *ClaimedEffect, detail string) (parked bool, err error) {
	of := StartEffect{e.Instance, e.EffectID}
	key, ok := of.key()
	if !ok {
		return false, noInstance(e.Instance)
	}
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		n, err := execute(tx, "UPDATE effects SET lease_until = NULL, next_at = NULL WHERE"+ofEffect+
			"AND kind = 'start' AND fence = ? AND status = 'running' AND lease_until IS NOT NULL", append(key, e.Fence)...)
		if err != nil || n == 0 {
			return err
		}
		if _, err := execute(tx, "UPDATE attempts SET detail = ? WHERE"+ofEffect+"AND fence = ?",
			append(append([]any{storable(detail)}, key...), e.Fence)...); err != nil {
			return err
		}
		var args []any
		for range 5 {
			args = append(args, key...)
		}
		if _, err := execute(tx, lookAgain, args...); err != nil {
			return err
		}
		parked = true
		return s.failpoint(PointPark)
	})
	if err == nil && parked {
		err = s.dbError(s.failpoint(PointParkCommit))
	}
	return parked && err == nil, err
}

// A row that is being parked does not look parked yet, so it is locked before it is judged.
const parkedEffect = `SELECT e.status = 'running' AND e.lease_until IS NULL, ` + claimedColumns + ` FROM effects e JOIN instances i ON i.id = e.instance_id
	WHERE e.instance_id = {id} AND e.seq = {seq} AND e.n = {n} AND e.kind = 'start'`

var (
	pgParked   = strings.NewReplacer("{id}", "$1::uuid", "{seq}", "$2::int4", "{n}", "$3::int4").Replace(parkedEffect) + " FOR SHARE OF e"
	liteParked = strings.NewReplacer("{id}", "?1", "{seq}", "?2", "{n}", "?3").Replace(parkedEffect)
)

// ParkedEffect reads a parked start effect with the fence of its last lease; nil where
// it is not parked (any more). It waits for a ParkEffect under way.
func (s *Store) ParkedEffect(ctx context.Context, of StartEffect) (parked *ClaimedEffect, err error) {
	id, ok := parseIdent(of.Parent)
	if !ok {
		return nil, nil
	}
	err = s.readOne(ctx, func(c cells) error {
		is := c.flag()
		e, _, err := claimedFrom(c)
		if is {
			parked = &e
		}
		return err
	}, pgParked, []any{id.raw, of.Seq, of.N}, liteParked, []any{id.text, int64(of.Seq), int64(of.N)})
	return parked, err
}
