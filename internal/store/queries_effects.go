package store

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"vobo/internal/fsm"
)

// EffectFilter searches effects; zero fields do not filter.
type EffectFilter struct {
	ID       string // <instance>-<seq>-<n>
	Instance string
	Status   []fsm.EffectStatus
	Kind     string
}

// EffectInfo is an effect with its attempts.
type EffectInfo struct {
	Instance string
	fsm.QueuedEffect
	Status        fsm.EffectStatus
	Result        any
	Attempts      []Attempt // oldest first; QueuedEffect.Attempts is how many are allowed
	NextAttemptAt *time.Time
	QueuedAt      time.Time
	DoneAt        *time.Time
}

// Attempt is one attempt of an effect.
type Attempt struct {
	N          int
	At         time.Time
	FinishedAt *time.Time
	Outcome    string // started | success | retry | unknown | permanent
	Detail     string
	HTTP       int
}

// itemID names a task, an effect or another row of an instance.
type itemID struct {
	instance string
	seq, n   int
}

var itemForm = regexp.MustCompile(`^(.{36})-([1-9][0-9]{0,8})-(0|[1-9][0-9]{0,8})$`)

// parseItemID reads <instance>-<seq>-<n> in the one form in which it is given out.
func parseItemID(text string) (itemID, bool) {
	parts := itemForm.FindStringSubmatch(text)
	if parts == nil {
		return itemID{}, false
	}
	id, ok := parseIdent(parts[1])
	seq, errSeq := strconv.Atoi(parts[2])
	n, errN := strconv.Atoi(parts[3])
	return itemID{id.text, seq, n}, ok && errSeq == nil && errN == nil
}

// item keeps one row of a table by its public id; what is no id names nothing.
func (q *statement) item(table, text string) {
	id, valid := parseItemID(text)
	if !valid {
		q.and("FALSE")
		return
	}
	q.and(fmt.Sprintf("%[1]s.instance_id = ? AND %[1]s.seq = ? AND %[1]s.n = ?", table), id.instance, id.seq, id.n)
}

var effectOrder = listOrder{name: "effects", columns: []sortColumn{
	{name: "effects.queued_at", kind: timeValue, desc: true},
	{name: "effects.instance_id", kind: idValue, desc: true},
	{name: "effects.seq", kind: numberValue, desc: true},
	{name: "effects.n", kind: numberValue, desc: true},
}}

const selectEffects = `SELECT instance_id, seq, n, name, kind, wait, droppable, idempotent, reversible, priority, request,
	allowed, first_ms, max_ms, input, undoes_seq, undoes_n, link_seq, link_n, status, result, next_at, queued_at, done_at
	FROM effects`

// readEffect reads a row of selectEffects: everything but the attempts.
func readEffect(row rowScanner, e *EffectInfo) error {
	var request string
	var first, longest int64
	err := row.Scan(&e.Instance, &e.Seq, &e.N, &e.Name, &e.Kind, &e.Wait, &e.Droppable, &e.Idempotent, &e.Reversible, &e.Priority,
		&request, &e.QueuedEffect.Attempts, &first, &longest, jsonColumn{&e.Input}, &e.Undoes.Seq, &e.Undoes.N,
		&e.Link.Seq, &e.Link.N, &e.Status, jsonColumn{&e.Result}, optionalTime{&e.NextAttemptAt},
		timeColumn{&e.QueuedAt}, optionalTime{&e.DoneAt})
	e.Request = []byte(request)
	e.First, e.Max = time.Duration(first)*time.Millisecond, time.Duration(longest)*time.Millisecond
	if e.Status != fsm.EffectWaiting && e.Status != fsm.EffectRetrying {
		e.NextAttemptAt = nil // of a running one it is the end of its lease
	}
	return err
}

// Effects lists, newest first.
func (s *Store) Effects(ctx context.Context, f EffectFilter, p Paging) (Page[EffectInfo], error) {
	query := &statement{}
	if err := checkText("The filter", f.Kind); err != nil {
		return Page[EffectInfo]{}, err
	}
	if f.ID != "" {
		query.item("effects", f.ID)
	}
	if f.Instance != "" {
		id, ok := parseIdent(f.Instance)
		if !ok {
			return Page[EffectInfo]{}, nil
		}
		query.and("effects.instance_id = ?", id.text)
	}
	if len(f.Status) > 0 {
		statuses := make([]string, 0, len(f.Status))
		for _, status := range f.Status {
			statuses = append(statuses, string(status))
		}
		if err := checkText("The status", statuses...); err != nil {
			return Page[EffectInfo]{}, err
		}
		query.and("effects.status IN ?", statuses)
	}
	if f.Kind != "" {
		query.and("effects.kind = ?", f.Kind)
	}
	return s.effects(ctx, query, p)
}

// Mailbox lists mails (email, task-mail, notice-mail effects), newest first, for the mailbox page.
func (s *Store) Mailbox(ctx context.Context, p Paging) (Page[EffectInfo], error) {
	query := &statement{}
	query.and("effects.kind IN ('email', 'task-mail', 'notice-mail')")
	return s.effects(ctx, query, p)
}

func (s *Store) effects(ctx context.Context, query *statement, p Paging) (Page[EffectInfo], error) {
	tail, limit, err := query.paged(effectOrder, p)
	if err != nil {
		return Page[EffectInfo]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readEffect, selectEffects+tail, query.args...)
	if err != nil {
		return Page[EffectInfo]{}, s.dbError(err)
	}
	page, err := pageOf(effectOrder, limit, rows,
		func(e EffectInfo) []any { return []any{e.QueuedAt, e.Instance, e.Seq, e.N} }, itself)
	if err != nil {
		return Page[EffectInfo]{}, err
	}
	return page, s.dbError(s.readAttempts(ctx, page.Items))
}

// readAttempts fills in the attempts.
func (s *Store) readAttempts(ctx context.Context, effects []EffectInfo) error {
	if len(effects) == 0 {
		return nil
	}
	type attemptRow struct {
		id itemID
		Attempt
	}
	attempts, err := selectRows(s.reader(ctx), func(row rowScanner, a *attemptRow) error {
		return row.Scan(&a.id.instance, &a.id.seq, &a.id.n, &a.N, timeColumn{&a.At}, optionalTime{&a.FinishedAt},
			&a.Outcome, &a.Detail, &a.HTTP)
	}, `SELECT instance_id, seq, n, attempt, at, finished_at, outcome, detail, http FROM attempts
		WHERE instance_id IN ? ORDER BY instance_id, seq, n, fence`,
		instancesOf(effects, func(e EffectInfo) string { return e.Instance }))
	if err != nil {
		return err
	}
	made := map[itemID][]Attempt{}
	for _, a := range attempts {
		made[a.id] = append(made[a.id], a.Attempt)
	}
	for i := range effects {
		effects[i].Attempts = made[itemID{effects[i].Instance, effects[i].Seq, effects[i].N}]
	}
	return nil
}
