package store

import (
	"fmt"
	"strings"

	"vobo/internal/fsm"
)

// childQuery reads rows of instances; "{is}" stands for the way in which the
// instances are named.
type childQuery string

const (
	dataOf      childQuery = `SELECT d.instance_id, d.data FROM instance_data d WHERE d.instance_id {is}`
	assigneesOf childQuery = `SELECT ` + assigneeColumns + ` FROM instances i
		JOIN assignees a ON a.instance_id = i.id AND a.wait = i.wait WHERE i.id {is} ORDER BY a.instance_id, a.seq, a.n`
	tasksOf childQuery = `SELECT ` + taskColumns + ` FROM instances i
		JOIN tasks t ON t.instance_id = i.id AND t.seq = i.wait WHERE i.id {is} ORDER BY t.instance_id, t.seq, t.n`
	deadlinesOf childQuery = `SELECT ` + deadlineColumns + ` FROM deadlines d WHERE d.instance_id {is} ORDER BY d.instance_id, d.seq, d.n`
	votesOf     childQuery = `SELECT ` + pastColumns + ` FROM instances i
		JOIN assignees a ON a.instance_id = i.id AND a.wait = i.wait AND a.vote > 0
		JOIN transitions h ON h.instance_id = a.instance_id AND h.seq = a.vote WHERE i.id {is} ORDER BY h.instance_id, h.seq`
	pastOf     childQuery = `SELECT ` + pastColumns + ` FROM transitions h WHERE h.instance_id {is} ORDER BY h.instance_id, h.seq`
	effectsOf  childQuery = `SELECT ` + effectColumns + ` FROM effects e WHERE e.instance_id {is} ORDER BY e.instance_id, e.seq, e.n`
	instanceOf childQuery = `SELECT ` + instanceColumns + ` FROM instances i WHERE i.id {is}`
	infosOf    childQuery = `SELECT ` + infoColumns + ` FROM assignees a WHERE a.instance_id {is} ORDER BY a.instance_id, a.seq, a.n`
	infosNowOf childQuery = `SELECT ` + infoColumns + ` FROM instances i
		JOIN assignees a ON a.instance_id = i.id AND a.wait = i.wait WHERE i.id {is} ORDER BY a.instance_id, a.seq, a.n`
)

// infoColumns are assigneeColumns with what was seen of the link and how the newest
// mail about it fares.
const infoColumns = assigneeColumns + `, a.fetched_at, a.fetch_count, COALESCE((SELECT e.status FROM effects e
	WHERE e.instance_id = a.instance_id AND e.link_seq = a.seq AND e.link_n = a.n ORDER BY e.seq DESC, e.n DESC LIMIT 1), '')`

// naming says how a query names instances.
type naming string

const (
	pgAny     naming = "= ANY($1::uuid[])"
	pgOne     naming = "= $1::uuid"
	pgToken   naming = "= (SELECT instance_id FROM assignees WHERE jti_hash = $1::bytea)"
	liteOne   naming = "= ?1"
	liteToken naming = "= (SELECT instance_id FROM assignees WHERE jti_hash = ?1)"
)

var named = func() map[childQuery]map[naming]string {
	texts := map[childQuery]map[naming]string{}
	for _, q := range []childQuery{dataOf, assigneesOf, tasksOf, deadlinesOf, votesOf, pastOf, effectsOf, instanceOf, infosOf, infosNowOf} {
		texts[q] = map[naming]string{}
		for _, n := range []naming{pgAny, pgOne, pgToken, liteOne, liteToken} {
			texts[q][n] = strings.ReplaceAll(string(q), "{is}", string(n))
		}
	}
	return texts
}()

// by is the query's text.
func (q childQuery) by(n naming) string { return named[q][n] }

// tokenRow is the row of a presented token.
type tokenRow struct {
	instance ident
	row      fsm.Assignee
}

// tokensBy finds the rows of presented tokens.
const tokensBy = `SELECT ` + assigneeColumns + ` FROM assignees a WHERE a.jti_hash `

// closing asks how a wait ended: for a presented token, or for a task that somebody
// decides without one.
type closing struct {
	wait     int
	consumed int          // seq of the act that used the token up
	token    fsm.EffectID // callback token: all that was done with it is wanted
	ref      string       // whose token it is
	actor    string       // without a token: id of who decides
}

// closingOf is the question for an event; ok is false where the wait is the present one
// and nothing has happened to the token.
func closingOf(snap *fsm.Snapshot, ev *fsm.Event) (q closing, ok bool) {
	v, token := &snap.Instance, snap.Token
	switch {
	case token != nil:
		q = closing{wait: token.Wait, consumed: token.Consumed, ref: token.Ref}
		if token.Kind == fsm.AssigneeCallback {
			q.token = fsm.EffectID{Seq: token.Seq, N: token.N}
		}
		return q, token.Consumed > 0 || token.Wait != v.Wait || token.Kind == fsm.AssigneeCallback ||
			v.Status == fsm.Finished || v.Status == fsm.Cancelled
	case ev != nil && ev.Wait != 0:
		return closing{wait: ev.Wait, actor: ev.Actor.ID}, ev.Wait != v.Wait
	}
	return q, false
}

// The history rows that answer a closing: what left the wait, what used the token up or
// was done with it, and the votes of who decides. Parameters: instance, wait, consumed,
// seq, n, actor.
const (
	pgActs = `SELECT ` + pastColumns + `, h.token_seq, h.token_n FROM transitions h
		WHERE h.instance_id = $1::uuid AND h.seq >= $2::int4 AND (h.seq = $3::int4
		OR h.wait = $2::int4 AND (h.to_state <> '' OR h.kind = 'cancel' OR h.kind = 'vote' AND h.actor_id = $6::text)
		OR h.token_seq = $4::int4 AND h.token_n = $5::int4 AND $4::int4 > 0) ORDER BY h.seq`
	liteActs = `SELECT ` + pastColumns + `, h.token_seq, h.token_n FROM transitions h
		WHERE h.instance_id = ?1 AND h.seq >= ?2 AND (h.seq = ?3
		OR h.wait = ?2 AND (h.to_state <> '' OR h.kind = 'cancel' OR h.kind = 'vote' AND h.actor_id = ?6)
		OR h.token_seq = ?4 AND h.token_n = ?5 AND ?4 > 0) ORDER BY h.seq`
)

// read sorts one row into the snapshot.
func (q closing) read(c cells, snap *fsm.Snapshot) error {
	_, past, err := pastFrom(c)
	if err != nil {
		return err
	}
	by := fsm.EffectID{Seq: c.num(), N: c.num()}
	if q.consumed > 0 && past.Seq == q.consumed || past.Kind == fsm.TVote && past.Wait == q.wait && past.Actor.ID == q.actor {
		snap.Own = &past
	}
	if snap.Left == nil && past.Wait == q.wait && (past.To != "" || past.Kind == fsm.TCancel) {
		snap.Left = &past
	}
	if q.token.Seq > 0 && by == q.token {
		snap.Acts = append(snap.Acts, past)
	}
	return nil
}

// finish completes Own once all rows are read: who left the wait decided it.
func (q closing) finish(snap *fsm.Snapshot) {
	left := snap.Left
	switch {
	case left == nil || q.consumed > 0:
	case q.actor != "" && left.Actor.ID == q.actor, q.ref != "" && isRef(&left.Actor, q.ref):
		snap.Own = left
	}
}

// isRef tells whether an actor is the one that a ref names.
func isRef(a *fsm.Actor, ref string) bool {
	return a.ID == ref || a.Kind == fsm.ActorPerson && "user:"+a.ID == ref
}

// present makes Token point into Assignees; a token of another wait is appended there.
func present(snap *fsm.Snapshot, token *tokenRow) {
	for i := range snap.Assignees {
		if a := &snap.Assignees[i]; a.Seq == token.row.Seq && a.N == token.row.N {
			snap.Token = a
			return
		}
	}
	snap.Assignees = append(snap.Assignees, token.row)
	snap.Token = &snap.Assignees[len(snap.Assignees)-1]
}

// into reads a row's columns into the snapshot of the instance that it names.
type into struct {
	snapshot func(id ident) *fsm.Snapshot // nil: not wanted
}

func (to into) data(c cells) error {
	id, text := c.id(), c.text()
	if err := c.failure(); err != nil {
		return err
	}
	snap := to.snapshot(id)
	if snap == nil {
		return nil
	}
	tree, err := decodeTree(text)
	if err != nil {
		return err
	}
	data, ok := tree.(map[string]any)
	if !ok {
		return fmt.Errorf("the data of instance %s is %T, not an object", id.text, tree)
	}
	snap.Instance.Data = data
	return nil
}

func (to into) assignee(c cells) error {
	id, v, err := assigneeFrom(c)
	if snap := to.snapshot(id); err == nil && snap != nil {
		snap.Assignees = append(snap.Assignees, v)
	}
	return err
}

func (to into) info(c cells) error {
	id, v, err := infoFrom(c)
	if snap := to.snapshot(id); err == nil && snap != nil {
		snap.Assignees = append(snap.Assignees, v.Assignee)
	}
	return err
}

func (to into) task(c cells) error {
	id, v, err := taskFrom(c)
	if snap := to.snapshot(id); err == nil && snap != nil {
		snap.Tasks = append(snap.Tasks, v)
	}
	return err
}

func (to into) deadline(c cells) error {
	id, v, err := deadlineFrom(c)
	if snap := to.snapshot(id); err == nil && snap != nil {
		snap.Deadlines = append(snap.Deadlines, v)
	}
	return err
}

func (to into) vote(c cells) error {
	id, v, err := pastFrom(c)
	if snap := to.snapshot(id); err == nil && snap != nil {
		snap.Votes = append(snap.Votes, v)
	}
	return err
}

func (to into) past(c cells) error {
	id, v, err := pastFrom(c)
	if snap := to.snapshot(id); err == nil && snap != nil {
		snap.Past = append(snap.Past, v)
	}
	return err
}

func (to into) effect(c cells) error {
	id, v, _, err := effectFrom(c)
	if snap := to.snapshot(id); err == nil && snap != nil {
		snap.Effects = append(snap.Effects, v)
	}
	return err
}

func infoFrom(c cells) (instance ident, v AssigneeInfo, err error) {
	instance, v.Assignee, err = assigneeFrom(c)
	v.FetchedAt, v.FetchCount, v.Delivery = c.maybe(), c.num(), c.text()
	if err == nil {
		err = c.failure()
	}
	return instance, v, err
}
