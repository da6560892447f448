package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// The statuses of a call.
const (
	CallWaiting = "waiting" // for a wait that takes it
	CallTaken   = "taken"
	CallRefused = "refused" // the wait that it found does not take it; Detail says why
	CallExpired = "expired"
)

// Call is one call of a webhook source.
type Call struct {
	ID         string // UUIDv7
	Source     string
	WebhookID  string
	BodyHash   []byte // SHA-256 of the body
	Event      string
	Input      any
	Comment    string
	Documents  map[string]any
	Definition string // with Key: "" any
	Key        string // business key; "" : found by correlation only
	Status     string
	Detail     string
	Instance   string // that took it
	Seq        int    // of its history row
	ReceivedAt time.Time
	ExpiresAt  time.Time
	Looks      int
	Hashes     [][]byte // under which it is found while it waits, see fsm.CorrelationHash and KeyHash; read only where a method says so
}

// CallFilter searches calls; zero fields do not filter.
type CallFilter struct {
	ID, Source, Status, Event, Instance string
}

const selectCalls = `SELECT callbacks_early.id, source, webhook_id, body_hash, event, input, comment, documents, definition, instance_key,
	status, detail, COALESCE(CAST(taken_by AS text), ''), taken_seq, callbacks_early.received_at, expires_at, looks FROM callbacks_early`

// readCall reads a row of selectCalls: everything but the hashes.
func readCall(row rowScanner, c *Call) error {
	return row.Scan(&c.ID, &c.Source, &c.WebhookID, &c.BodyHash, &c.Event, jsonColumn{&c.Input}, &c.Comment, jsonColumn{&c.Documents},
		&c.Definition, &c.Key, &c.Status, &c.Detail, &c.Instance, &c.Seq, timeColumn{&c.ReceivedAt}, timeColumn{&c.ExpiresAt}, &c.Looks)
}

// KeepCall writes a call as waiting, for keep, to be looked at again at lookAgain from
// now; it fills in the call's times and status. Where the source has used the webhook id
// before, nothing is written and the first call is returned, with its hashes.
func (s *Store) KeepCall(ctx context.Context, c *Call, keep, lookAgain time.Duration) (first *Call, err error) {
	id, ok := parseIdent(c.ID)
	if !ok {
		return nil, fault.New(fault.Internal, "The call's id %q is no UUID.", c.ID)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	documents := ""
	if len(c.Documents) > 0 {
		documents = encodeTree(c.Documents)
	}
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		n, err := execute(tx, `INSERT INTO callbacks_early (id, source, webhook_id, body_hash, event, input, comment, documents, definition,
			instance_key, status, detail, taken_seq, received_at, expires_at, look_at, looks)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, ?, ?, ?, 0) ON CONFLICT (source, webhook_id) DO NOTHING`,
			id.text, c.Source, c.WebhookID, c.BodyHash, c.Event, encodeTree(c.Input), c.Comment, documents, c.Definition, c.Key,
			CallWaiting, stamp(now), stamp(now.Add(keep)), stamp(now.Add(lookAgain)))
		if err != nil {
			return err
		}
		if n == 0 {
			first, err = firstCall(tx, c.Source, c.WebhookID)
			return err
		}
		if err := addMatches(tx, id, now, c.Hashes); err != nil {
			return err
		}
		return s.failpoint(PointCallKept)
	})
	if err == nil && first == nil {
		err = s.dbError(s.failpoint(PointCallKeptCommit))
	}
	if err != nil || first != nil {
		return first, err
	}
	c.Status, c.ReceivedAt, c.ExpiresAt = CallWaiting, now, milliseconds(now.Add(keep))
	return nil, nil
}

// AddCallHashes lets a call be found under more hashes, in the place in the order in which
// it came; one that waits no longer stays as it is.
func (s *Store) AddCallHashes(ctx context.Context, id string, hashes [][]byte) error {
	call, ok := parseIdent(id)
	if !ok || len(hashes) == 0 {
		return nil
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		received, waits, err := selectOne(tx, func(row rowScanner, at *time.Time) error { return row.Scan(timeColumn{at}) },
			locked(tx, "SELECT received_at FROM callbacks_early WHERE id = ? AND status = 'waiting'", "FOR UPDATE"), call.text)
		if err != nil || !waits {
			return err
		}
		if err := addMatches(tx, call, received, hashes); err != nil {
			return err
		}
		return s.failpoint(PointCallHashes)
	})
}

func addMatches(tx *gorm.DB, call ident, received time.Time, hashes [][]byte) error {
	for _, hash := range distinct(hashes) {
		if _, err := execute(tx, "INSERT INTO callbacks_matches (hash, received_at, id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			hash, stamp(received), call.text); err != nil {
			return err
		}
	}
	return nil
}

func firstCall(tx *gorm.DB, source, webhookID string) (*Call, error) {
	call, found, err := selectOne(tx, readCall, selectCalls+" WHERE source = ? AND webhook_id = ?", source, webhookID)
	if err != nil {
		return nil, err
	}
	if !found { // pruned between the two statements
		return nil, fault.New(fault.Unavailable, "An old call with this id was being removed. Try again in a moment.")
	}
	calls := []Call{call}
	return &calls[0], readHashes(tx, calls)
}

func distinct(hashes [][]byte) [][]byte {
	sorted := slices.Clone(hashes)
	slices.SortFunc(sorted, slices.Compare)
	return slices.CompactFunc(sorted, slices.Equal)
}

// readHashes fills in under which hashes calls are found.
func readHashes(db *gorm.DB, calls []Call) error {
	if len(calls) == 0 {
		return nil
	}
	type match struct {
		id   string
		hash []byte
	}
	ids, at := make([]string, len(calls)), make(map[string]int, len(calls))
	for i := range calls {
		ids[i], at[calls[i].ID] = calls[i].ID, i
	}
	matches, err := selectRows(db, func(row rowScanner, m *match) error { return row.Scan(&m.id, &m.hash) },
		"SELECT id, hash FROM callbacks_matches WHERE id IN ? ORDER BY id, hash", ids)
	for _, m := range matches {
		c := &calls[at[m.id]]
		c.Hashes = append(c.Hashes, m.hash)
	}
	return err
}

// CorrelationPaths lists by which sets of input paths published definitions correlate an event.
func (s *Store) CorrelationPaths(ctx context.Context, event string) ([][]string, error) {
	sets, err := selectRows(s.reader(ctx), func(row rowScanner, paths *[]string) error { return row.Scan(jsonColumn{paths}) },
		"SELECT paths FROM correlation_shapes WHERE event = ? ORDER BY paths", event)
	return sets, s.dbError(err)
}

// AddCorrelationPaths notes them, when a definition is published; their order is of no account.
func (s *Store) AddCorrelationPaths(ctx context.Context, event string, paths []string) error {
	sorted := slices.Compact(slices.Sorted(slices.Values(paths)))
	if len(sorted) == 0 {
		return nil
	}
	_, err := execute(s.writer(ctx), "INSERT INTO correlation_shapes (event, paths) VALUES (?, ?) ON CONFLICT DO NOTHING", event, encodeList(sorted))
	return s.dbError(err)
}

const waitingFor = "SELECT instance_id FROM correlations WHERE hash IN ? LIMIT ?"

// WaitingFor lists instances whose open wait is found by one of the hashes, at most limit.
func (s *Store) WaitingFor(ctx context.Context, hashes [][]byte, limit int) ([]string, error) {
	hashes = distinct(hashes)
	if len(hashes) == 0 {
		return nil, nil
	}
	// A hash covers its event, so an instance has it once at most.
	ids, err := selectRows(s.reader(ctx), readText, waitingFor, bytesList(hashes), limit*len(hashes))
	if err != nil {
		return nil, s.dbError(err)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), limit)], nil
}

// bytesList is a list of bytes as one argument.
func bytesList(all [][]byte) []bytesArgument {
	list := make([]bytesArgument, len(all))
	for i, b := range all {
		list[i] = b
	}
	return list
}

const heldKeys = `SELECT i.id FROM claims c JOIN instances i ON i.id = c.instance_id
	WHERE c.kind = ? AND c.key_hash IN ? AND i.status IN ('running', 'suspended') ORDER BY i.id LIMIT ?`

// LiveByKey lists running and suspended instances with the business key ("" : of any
// definition). They are who holds the key.
func (s *Store) LiveByKey(ctx context.Context, definition, key string, limit int) ([]string, error) {
	if key == "" {
		return nil, nil
	}
	names := []string{definition}
	if definition == "" {
		var err error
		if names, err = selectRows(s.reader(ctx), readText, "SELECT DISTINCT name FROM definitions"); err != nil {
			return nil, s.dbError(err)
		}
	}
	hashes := make([]bytesArgument, len(names))
	for i, name := range names {
		claim := claimKeyOf(ClaimBusinessKey, name, key)
		hashes[i] = claim.hash[:]
	}
	if len(hashes) == 0 {
		return nil, nil
	}
	ids, err := selectRows(s.reader(ctx), readText, heldKeys, int(ClaimBusinessKey), hashes, limit)
	return ids, s.dbError(err)
}

// HashesOf lists the hashes under which an instance is found now: its correlations, and
// its business key while it lives, with its definition and without.
func (s *Store) HashesOf(ctx context.Context, instance string) ([][]byte, error) {
	id, ok := parseIdent(instance)
	if !ok {
		return nil, nil
	}
	db := s.reader(ctx)
	hashes, err := selectRows(db, func(row rowScanner, hash *[]byte) error { return row.Scan(hash) },
		"SELECT hash FROM correlations WHERE instance_id = ? ORDER BY event", id.text)
	if err != nil {
		return nil, s.dbError(err)
	}
	named, found, err := selectOne(db, func(row rowScanner, v *fsm.Instance) error { return row.Scan(&v.Definition, &v.Key) },
		"SELECT definition, instance_key FROM instances WHERE id = ? AND instance_key <> '' AND status IN ('running', 'suspended')", id.text)
	if found {
		hashes = append(hashes, fsm.KeyHash(named.Definition, named.Key), fsm.KeyHash("", named.Key))
	}
	return hashes, s.dbError(err)
}

const matchesOf = "SELECT id, received_at FROM (SELECT id, received_at FROM callbacks_matches WHERE hash = ? ORDER BY received_at, id LIMIT ?) m"

// EarlyCalls lists waiting calls that are found by one of the hashes, in the order in which they came.
func (s *Store) EarlyCalls(ctx context.Context, hashes [][]byte, limit int) ([]Call, error) {
	hashes = distinct(hashes)
	if len(hashes) == 0 {
		return nil, nil
	}
	query, args := earlyCalls(hashes, limit)
	calls, err := selectRows(s.reader(ctx), readCall, query, args...)
	return calls, s.dbError(err)
}

// earlyCalls reads from the matches of each hash no more than limit.
func earlyCalls(hashes [][]byte, limit int) (query string, args []any) {
	parts := make([]string, len(hashes))
	for i, hash := range hashes {
		parts[i] = matchesOf
		args = append(args, hash, limit)
	}
	return selectCalls + ` JOIN (` + strings.Join(parts, " UNION ") + `) found ON found.id = callbacks_early.id
		WHERE status = 'waiting' ORDER BY found.received_at, found.id LIMIT ?`, append(args, limit)
}

const callsToLookAt = " WHERE look_at IS NOT NULL AND look_at <= ? AND status = 'waiting' ORDER BY look_at LIMIT ?"

// CallsToLookAt lists waiting calls whose time to look again has come, with their hashes.
func (s *Store) CallsToLookAt(ctx context.Context, limit int) ([]Call, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	calls, err := selectRows(s.reader(ctx), readCall, selectCalls+callsToLookAt, stamp(now), limit)
	if err != nil {
		return nil, s.dbError(err)
	}
	return calls, s.dbError(readHashes(s.reader(ctx), calls))
}

// CallLooked says when to look at a waiting call again, and what was found.
func (s *Store) CallLooked(ctx context.Context, id, detail string, again time.Duration) error {
	call, ok := parseIdent(id)
	if !ok {
		return nil
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	_, err = execute(s.writer(ctx), "UPDATE callbacks_early SET detail = ?, look_at = ?, looks = looks + 1 WHERE id = ? AND status = 'waiting'",
		storable(detail), stamp(now.Add(again)), call.text)
	return s.dbError(err)
}

// RefuseCall ends a waiting call that the instance does not take; one that is not
// waiting stays as it is.
func (s *Store) RefuseCall(ctx context.Context, id, instance, detail string) error {
	call, ok := parseIdent(id)
	if !ok {
		return nil
	}
	by := any(nil)
	if of, ok := parseIdent(instance); ok {
		by = of.text
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		n, err := execute(tx, `UPDATE callbacks_early SET status = 'refused', detail = ?, taken_by = ?, look_at = NULL
			WHERE id = ? AND status = 'waiting'`, storable(detail), by, call.text)
		if err != nil || n == 0 {
			return err
		}
		_, err = execute(tx, "DELETE FROM callbacks_matches WHERE id = ?", call.text)
		return err
	})
}

// ExpireCalls ends waiting calls whose time is over; it returns how many.
func (s *Store) ExpireCalls(ctx context.Context, limit int) (int, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	expired := 0
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		ids, err := selectRows(tx, readText, locked(tx, `SELECT id FROM callbacks_early
			WHERE status = 'waiting' AND expires_at <= ? ORDER BY expires_at LIMIT ?`, "FOR UPDATE SKIP LOCKED"), stamp(now), limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := execute(tx, "UPDATE callbacks_early SET status = 'expired', look_at = NULL WHERE id IN ?", ids); err != nil {
			return err
		}
		_, err = execute(tx, "DELETE FROM callbacks_matches WHERE id IN ?", ids)
		expired = len(ids)
		return err
	})
	if err != nil {
		return 0, err
	}
	return expired, nil
}

var callOrder = listOrder{name: "callbacks", columns: []sortColumn{
	{name: "callbacks_early.received_at", kind: timeValue, desc: true}, {name: "callbacks_early.id", kind: idValue, desc: true},
}}

// query is the filter's conditions; found is false where nothing can match.
func (f CallFilter) query() (query *statement, found bool, err error) {
	query = &statement{}
	if err := checkText("The filter", f.Source, f.Status, f.Event); err != nil {
		return nil, false, err
	}
	for _, equal := range [][2]string{{"source", f.Source}, {"status", f.Status}, {"event", f.Event}} {
		if equal[1] != "" {
			query.and(equal[0]+" = ?", equal[1])
		}
	}
	if f.Status != "" && f.Status != CallTaken {
		query.and("status <> 'taken'") // what follows from it, so that the index is used
	}
	for _, equal := range [][2]string{{"callbacks_early.id", f.ID}, {"taken_by", f.Instance}} {
		if equal[1] == "" {
			continue
		}
		id, ok := parseIdent(equal[1])
		if !ok {
			return nil, false, nil
		}
		query.and(equal[0]+" = ?", id.text)
	}
	return query, true, nil
}

// Calls lists calls, newest first, without hashes.
func (s *Store) Calls(ctx context.Context, f CallFilter, p Paging) (Page[Call], error) {
	query, found, err := f.query()
	if err != nil || !found {
		return Page[Call]{}, err
	}
	tail, limit, err := query.paged(callOrder, p)
	if err != nil {
		return Page[Call]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readCall, selectCalls+tail, query.args...)
	if err != nil {
		return Page[Call]{}, s.dbError(err)
	}
	return pageOf(callOrder, limit, rows, func(c Call) []any { return []any{c.ReceivedAt, c.ID} }, itself)
}
