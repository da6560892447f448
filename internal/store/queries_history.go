package store

import (
	"context"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

var historyOrder = listOrder{name: "history", columns: []sortColumn{{name: "seq", kind: numberValue}}}

// History lists transitions by seq. NotFound for an instance that is not there.
func (s *Store) History(ctx context.Context, instance string, p Paging) (Page[fsm.Transition], error) {
	id, ok := parseIdent(instance)
	if !ok {
		return Page[fsm.Transition]{}, noInstance(instance)
	}
	var query statement
	query.and("instance_id = ?", id.text)
	tail, limit, err := query.paged(historyOrder, p)
	if err != nil {
		return Page[fsm.Transition]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readTransition, selectTransitions+tail, query.args...)
	if err != nil {
		return Page[fsm.Transition]{}, s.dbError(err)
	}
	if len(rows) == 0 && p.Cursor == "" {
		return Page[fsm.Transition]{}, noInstance(instance)
	}
	return pageOf(historyOrder, limit, rows,
		func(t fsm.Transition) []any { return []any{t.Seq} }, itself)
}

// TransitionAt returns one row. NotFound.
func (s *Store) TransitionAt(ctx context.Context, instance string, seq int) (fsm.Transition, error) {
	id, ok := parseIdent(instance)
	if !ok {
		return fsm.Transition{}, noInstance(instance)
	}
	row, found, err := selectOne(s.reader(ctx), readTransition, selectTransitions+" WHERE instance_id = ? AND seq = ?", id.text, seq)
	switch {
	case err != nil:
		return fsm.Transition{}, s.dbError(err)
	case !found:
		return fsm.Transition{}, fault.New(fault.NotFound, "The history of %s has no row %d.", instance, seq)
	}
	return row, nil
}

const transitionColumns = `h.seq, h.event_id, h.kind, h.event, h.from_state, h.to_state, h.via, h.wait, h.actor, h.assurance,
	h.comment, h.input, h.documents, h.changes, h.digest, h.pending_have, h.pending_need, h.token_seq, h.token_n, h.reason,
	h.deadlines_cancelled, h.at, h.definition_version, h.salt, h.hash, h.previous_hash`

const selectTransitions = `SELECT ` + transitionColumns + ` FROM transitions h`

// readTransition reads a row of selectTransitions.
func readTransition(row rowScanner, t *fsm.Transition) error {
	var pending fsm.Pending
	err := row.Scan(&t.Seq, &t.EventID, &t.Kind, &t.Event, &t.From, &t.To, jsonColumn{&t.Via}, &t.Wait, jsonColumn{&t.Actor},
		&t.Assurance, &t.Comment, jsonColumn{&t.Input}, jsonColumn{&t.Documents}, jsonColumn{&t.Changes}, &t.Digest,
		&pending.Have, &pending.Need, &t.Token.Seq, &t.Token.N, &t.Reason, jsonColumn{&t.DeadlinesCancelled},
		timeColumn{&t.At}, &t.DefinitionVersion, &t.Salt, &t.Hash, &t.PreviousHash)
	if pending != (fsm.Pending{}) {
		t.Pending = &pending
	}
	return err
}
