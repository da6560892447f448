package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"vobo/internal/fsm"
)

// EffectFilter searches effects; zero fields do not filter.
type EffectFilter struct {
	ID         string // <instance>-<seq>-<n>
	Instance   string
	Status     []fsm.EffectStatus
	Kind       string
	Name       string
	Host       string     // of a webhook
	Before     *time.Time // queued before
	Definition string
	Open       bool // not given up
}

// EffectInfo is an effect with its attempts.
type EffectInfo struct {
	Instance string
	fsm.QueuedEffect
	Status        fsm.EffectStatus
	GivenUp       bool      // dead, and a person said that it stays so
	LeftOut       bool      // the request is longer than a list carries: it is empty here
	Result        any       // nil in lists
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
	Outcome    string // started | success | retry | unanswered | unknown | permanent
	Detail     string
	HTTP       int
	Answer     string // the beginning of what the other side said
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

// listedRequest is the longest request, in bytes, that a list carries.
const listedRequest = 64 << 10

// Lists leave long requests, and all inputs and results, where they are: none of them may
// be read for each of hundreds of rows.
var (
	listEffects = selectEffects("CASE WHEN "+listed+" THEN request ELSE '' END, NOT ("+listed+")", "''", "''")
	wholeEffect = selectEffects("request, FALSE", "input", "result")
	listed      = fmt.Sprintf("octet_length(request) <= %d", listedRequest)
)

func selectEffects(request, input, result string) string {
	return `SELECT instance_id, seq, n, name, kind, wait, droppable, idempotent, reversible, priority, ` + request + `,
	allowed, first_ms, max_ms, ` + input + `, undoes_seq, undoes_n, link_seq, link_n, status, given_up, ` + result + `, next_at, queued_at, done_at
	FROM effects`
}

// readEffect reads a row of listEffects or wholeEffect: everything but the attempts.
func readEffect(row rowScanner, e *EffectInfo) error {
	var request string
	var first, longest int64
	err := row.Scan(&e.Instance, &e.Seq, &e.N, &e.Name, &e.Kind, &e.Wait, &e.Droppable, &e.Idempotent, &e.Reversible, &e.Priority,
		&request, &e.LeftOut, &e.QueuedEffect.Attempts, &first, &longest, jsonColumn{&e.Input}, &e.Undoes.Seq, &e.Undoes.N,
		&e.Link.Seq, &e.Link.N, &e.Status, &e.GivenUp, jsonColumn{&e.Result}, optionalTime{&e.NextAttemptAt},
		timeColumn{&e.QueuedAt}, optionalTime{&e.DoneAt})
	e.Request = []byte(request)
	e.First, e.Max = time.Duration(first)*time.Millisecond, time.Duration(longest)*time.Millisecond
	if e.Status != fsm.EffectWaiting && e.Status != fsm.EffectRetrying {
		e.NextAttemptAt = nil // of a running one it is the end of its lease
	}
	return err
}

// Effects lists, newest first: without inputs and results, and long requests left out (LeftOut). The
// one that is named by EffectFilter.ID is read whole.
func (s *Store) Effects(ctx context.Context, f EffectFilter, p Paging) (Page[EffectInfo], error) {
	query, found, err := f.query()
	if err != nil || !found {
		return Page[EffectInfo]{}, err
	}
	if f.ID != "" {
		return s.effects(ctx, wholeEffect, query, p)
	}
	return s.effects(ctx, listEffects, query, p)
}

// RedriveCandidate is what a redrive must know of an effect.
type RedriveCandidate struct {
	Instance string
	Effect   fsm.EffectID
	Kind     string
	Status   fsm.EffectStatus
	Attempts int // made so far
	DoneAt   *time.Time
}

const selectCandidates = `SELECT instance_id, seq, n, kind, status, done_at, queued_at, (SELECT count(*) FROM attempts a
	WHERE a.instance_id = effects.instance_id AND a.seq = effects.seq AND a.n = effects.n) FROM effects`

// RedriveCandidates lists effects that nobody has given up, newest first, with no more
// than a redrive needs.
func (s *Store) RedriveCandidates(ctx context.Context, f EffectFilter, p Paging) (Page[RedriveCandidate], error) {
	f.Open = true
	query, found, err := f.query()
	if err != nil || !found {
		return Page[RedriveCandidate]{}, err
	}
	tail, limit, err := query.paged(effectOrder, p)
	if err != nil {
		return Page[RedriveCandidate]{}, err
	}
	type row struct {
		RedriveCandidate
		queuedAt time.Time
	}
	rows, err := selectRows(s.reader(ctx), func(r rowScanner, c *row) error {
		return r.Scan(&c.Instance, &c.Effect.Seq, &c.Effect.N, &c.Kind, &c.Status, optionalTime{&c.DoneAt}, timeColumn{&c.queuedAt}, &c.Attempts)
	}, selectCandidates+tail, query.args...)
	if err != nil {
		return Page[RedriveCandidate]{}, s.dbError(err)
	}
	return pageOf(effectOrder, limit, rows, func(c row) []any { return []any{c.queuedAt, c.Instance, c.Effect.Seq, c.Effect.N} },
		func(c row) RedriveCandidate { return c.RedriveCandidate })
}

// query is the filter's conditions; found is false where nothing can match.
func (f EffectFilter) query() (query *statement, found bool, err error) {
	query = &statement{}
	if err := checkText("The filter", f.Kind, f.Name, f.Host, f.Definition); err != nil {
		return nil, false, err
	}
	if f.ID != "" {
		query.item("effects", f.ID)
	}
	if f.Instance != "" {
		id, ok := parseIdent(f.Instance)
		if !ok {
			return nil, false, nil
		}
		query.and("effects.instance_id = ?", id.text)
	}
	if len(f.Status) > 0 {
		statuses := make([]string, 0, len(f.Status))
		for _, status := range f.Status {
			statuses = append(statuses, string(status))
		}
		if err := checkText("The status", statuses...); err != nil {
			return nil, false, err
		}
		query.and("effects.status IN ?", statuses)
		query.andHeldBy(f.Status)
	}
	for _, equal := range [][2]string{{"kind", f.Kind}, {"name", f.Name}, {"host", strings.ToLower(f.Host)}} {
		if equal[1] != "" {
			query.and("effects."+equal[0]+" = ?", equal[1])
		}
	}
	if f.Open {
		query.and("NOT effects.given_up")
	}
	if f.Before != nil {
		query.and("effects.queued_at < ?", stamp(*f.Before))
	}
	if f.Definition != "" {
		query.and("EXISTS (SELECT 1 FROM instances i WHERE i.id = effects.instance_id AND i.definition = ?)", f.Definition)
	}
	return query, true, nil
}

// heldBy says by which index rows of a status that is not over are held.
var heldBy = map[fsm.EffectStatus]string{
	fsm.EffectWaiting:  "effects.lease_until IS NULL AND effects.next_at IS NOT NULL",
	fsm.EffectRetrying: "effects.lease_until IS NULL AND effects.next_at IS NOT NULL",
	fsm.EffectRunning:  "effects.lease_until IS NOT NULL OR effects.status = 'running' AND effects.lease_until IS NULL",
	fsm.EffectDead:     "effects.status IN ('dead', 'unknown')",
	fsm.EffectUnknown:  "effects.status IN ('dead', 'unknown')",
}

// andHeldBy adds what follows from the statuses, so that the indexes are used.
func (q *statement) andHeldBy(statuses []fsm.EffectStatus) {
	var held []string
	for _, status := range statuses {
		condition, partial := heldBy[status]
		if !partial {
			return
		}
		if !slices.Contains(held, condition) {
			held = append(held, condition)
		}
	}
	q.and("(" + strings.Join(held, " OR ") + ")")
}

// Mailbox lists mails (email, task-mail, notice-mail effects), newest first, as Effects does.
func (s *Store) Mailbox(ctx context.Context, p Paging) (Page[EffectInfo], error) {
	query := &statement{}
	query.and("effects.kind IN ('email', 'task-mail', 'notice-mail')")
	return s.effects(ctx, listEffects, query, p)
}

func (s *Store) effects(ctx context.Context, selected string, query *statement, p Paging) (Page[EffectInfo], error) {
	tail, limit, err := query.paged(effectOrder, p)
	if err != nil {
		return Page[EffectInfo]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readEffect, selected+tail, query.args...)
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
			&a.Outcome, &a.Detail, &a.HTTP, &a.Answer)
	}, `SELECT instance_id, seq, n, attempt, at, finished_at, outcome, detail, http, answer FROM attempts
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
