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

const selectTransitions = `SELECT seq, event_id, kind, event, from_state, to_state, via, wait, actor, assurance, comment,
	input, documents, changes, digest, pending_have, pending_need, token_seq, token_n, reason, deadlines_cancelled,
	at, definition_version, salt, hash, previous_hash FROM transitions`

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
