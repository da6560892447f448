package store

import (
	"database/sql"
	"fmt"
	"strings"

	"vobo/internal/fsm"
)

// childKey is the order in which rows of children are locked.
const childKey = "t.instance_id, t.seq, t.n, t.idx"

// What a batch writes beside an instance's own rows: the completion that its parent's
// side looks at, what calls find it by, the call that it took, and what the event feed
// delivers.
var (
	insertChildren = insertRows("children", `instance_id uuid, seq int4, n int4, idx int4, child uuid, status text, detail text,
		done_at timestamptz, noted bool`,
		`ON CONFLICT (instance_id, seq, n, idx) DO UPDATE SET child = excluded.child, status = excluded.status,
		detail = excluded.detail, done_at = excluded.done_at, noted = FALSE, mark = children.mark + 1 WHERE children.status = 'refused'`)
	endChildren = changeInOrder("children", "instance_id uuid, seq int4, n int4, idx int4, child uuid, status text, at timestamptz",
		"status = u.status, done_at = u.at, noted = FALSE, mark = t.mark + 1",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.idx = u.idx AND t.child = u.child", childKey, true)

	forgetCorrelations = changeRows("correlations", "instance_id uuid", "", "t.instance_id = u.instance_id", false)
	insertCorrelations = insertRows("correlations", "instance_id uuid, event text, hash bytea", "")

	// A call that was taken was taken, whatever its row said meanwhile.
	takeCalls = changeRows("callbacks_early", "id uuid, instance uuid, seq int4",
		"status = 'taken', detail = '', taken_by = u.instance, taken_seq = u.seq, look_at = NULL", "t.id = u.id", true)
	forgetMatches = changeRows("callbacks_matches", "id uuid", "", "t.id = u.id", false)

	insertFeed = &multirow{
		name: "feed",
		postgres: feedInto + `SELECT u.instance_id, u.sink, u.seq, 'waiting', 0, 0, '', u.at, u.at
			FROM unnest($1::uuid[], $2::text[], $3::int4[], $4::timestamptz[]) u(instance_id, sink, seq, at)`,
		sqlite:   feedInto + `SELECT ?1, ?2, ?3, 'waiting', 0, 0, '', ?4, ?4`,
		elements: elementsOf([]string{"uuid", "text", "int4", "timestamptz"}),
	}
)

const feedInto = `INSERT INTO feed (instance_id, sink, seq, status, attempts, fence, detail, next_at, queued_at) `

// across writes what a step means to others than its instance.
func (w *writes) across(e *entry) error {
	step, now := &e.job.Step, e.job.Now
	if err := w.child(e); err != nil {
		return err
	}
	if step.SetCorrelations {
		if !e.start() {
			w.of(forgetCorrelations).id(e.id)
		}
		for _, c := range step.Correlations {
			w.of(insertCorrelations).id(e.id).text(c.Event).blob(c.Hash)
		}
	}
	if e.job.Callback != "" {
		call, ok := parseIdent(e.job.Callback)
		if !ok {
			return fmt.Errorf("the call id %q is no UUID", e.job.Callback)
		}
		w.of(takeCalls).id(call).id(e.id).num(step.Transition.Seq)
		w.of(forgetMatches).id(call)
	}
	for _, sink := range w.sinks {
		w.of(insertFeed).id(e.id).text(sink).num(step.Transition.Seq).when(now)
	}
	return nil
}

// child writes the row by which the parent's side knows of a child: when it starts and
// when it is over.
func (w *writes) child(e *entry) error {
	v := &e.job.Step.Instance
	if v.Parent == nil {
		return nil
	}
	parent, ok := parseIdent(v.Parent.Instance)
	if !ok {
		return fmt.Errorf("the parent's id %q is no UUID", v.Parent.Instance)
	}
	over := v.Status == fsm.Finished || v.Status == fsm.Cancelled
	at := v.Parent.Effect
	if e.start() {
		row := w.of(insertChildren).id(parent).num(at.Seq).num(at.N).num(v.Parent.Index).id(e.id).text(childStatus(e, v)).text("")
		if over {
			row.when(e.job.Now)
		} else {
			row.maybe(nil)
		}
		row.flag(false)
		return nil
	}
	before := e.job.Snapshot.Instance.Status
	if over && before != fsm.Finished && before != fsm.Cancelled {
		w.of(endChildren).id(parent).num(at.Seq).num(at.N).num(v.Parent.Index).id(e.id).text(childStatus(e, v)).when(e.job.Now)
	}
	return nil
}

func childStatus(e *entry, v *fsm.Instance) string {
	switch v.Status {
	case fsm.Cancelled:
		return ChildCancelled
	case fsm.Finished:
		if d := e.definition(); d != nil {
			if s := d.State(v.State); s != nil && s.Failed {
				return ChildFailed
			}
		}
		return ChildEnded
	}
	return ChildRunning
}

// encodeParent writes "INSTANCE SEQ N INDEX DEPTH"; nobody's child is "".
func encodeParent(p *fsm.ParentRef) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d %d %d", p.Instance, p.Effect.Seq, p.Effect.N, p.Index, p.Depth)
}

// decodeParent reads what encodeParent wrote.
func decodeParent(text string) (*fsm.ParentRef, error) {
	if text == "" {
		return nil, nil
	}
	p := &fsm.ParentRef{}
	if _, err := fmt.Sscanf(text, "%s %d %d %d %d", &p.Instance, &p.Effect.Seq, &p.Effect.N, &p.Index, &p.Depth); err != nil {
		return nil, fmt.Errorf("the parent %q cannot be read: %w", text, err)
	}
	return p, nil
}

// parentColumn reads a parent column.
type parentColumn struct{ into **fsm.ParentRef }

// Scan implements sql.Scanner.
func (c parentColumn) Scan(value any) (err error) {
	var text sql.NullString
	if err = text.Scan(value); err != nil {
		return err
	}
	*c.into, err = decodeParent(text.String)
	return err
}

// storable makes what another side said fit for a text column: no NUL, no torn characters.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
