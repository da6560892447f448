package store

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

// aMillionWaits is a million correlated waits, 200,000 calls that wait, a start effect with
// 10,000 children, a feed of 20,000 rows and 100,000 effects.
var aMillionWaits = []string{
	`INSERT INTO correlations (instance_id, event, hash)
	SELECT CAST('01980000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS uuid), 'paid', sha256(CAST(CAST(n AS text) AS bytea)) FROM generate_series(1, 1000000) n`,
	`INSERT INTO callbacks_early (id, source, webhook_id, body_hash, event, input, comment, documents, definition, instance_key, status, detail, taken_seq,
		received_at, expires_at, look_at, looks)
	SELECT CAST('01980000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS uuid), 'bank', 'w' || n, '', 'paid', '', '', '', '', '',
		CASE WHEN n % 2 = 0 THEN 'waiting' ELSE 'taken' END, '', 0, timestamptz '2026-01-01' + n * interval '1 second',
		timestamptz '2026-01-08' + n * interval '1 second', CASE WHEN n % 2 = 0 THEN timestamptz '2026-01-02' + n * interval '1 second' END, 0
	FROM generate_series(1, 200000) n`,
	`INSERT INTO callbacks_matches (hash, received_at, id) SELECT sha256(CAST(CAST(looks AS text) AS bytea)), received_at, id FROM callbacks_early WHERE status = 'waiting'`,
	`INSERT INTO children (instance_id, seq, n, idx, child, status, detail, done_at, noted)
	SELECT CAST('01980000-0000-7000-8000-' || lpad(to_hex(n % 20), 12, '0') AS uuid), 1, 1, n,
		CAST('01980000-0000-7000-9000-' || lpad(to_hex(n), 12, '0') AS uuid), CASE WHEN n % 100 = 0 THEN 'running' ELSE 'ended' END, '',
		CASE WHEN n % 100 <> 0 THEN timestamptz '2026-01-01' + n * interval '1 second' END, n % 1000 <> 1 FROM generate_series(1, 200000) n`,
	`INSERT INTO claims (kind, key_hash, instance_id, seq, created_at)
	SELECT 2, sha256(CAST(instance_key AS bytea)), id, 1, started_at FROM instances`,
	`INSERT INTO transitions (instance_id, seq, event_id, kind, event, from_state, to_state, via, wait, actor_kind, actor_id, actor, assurance, comment,
		input, documents, changes, digest, pending_have, pending_need, token_seq, token_n, reason, deadlines_cancelled, at, definition_version, salt, hash, previous_hash)
	SELECT id, 1, id, 'start', '', '', '', '', 0, 'system', 's', '', '', '', '', '', '', '', 0, 0, 0, 0, '', '', started_at, 1, '', '', '' FROM instances`,
	`INSERT INTO sinks (name, reason) VALUES ('a', '')`,
	`INSERT INTO feed (instance_id, sink, seq, status, attempts, fence, detail, next_at, queued_at)
	SELECT CAST('01980000-0000-7000-8000-' || lpad(to_hex(n % 5000), 12, '0') AS uuid), 'a', n / 5000 + 1, 'waiting', 0, 0, '',
		timestamptz '2026-01-01' + n * interval '1 second', timestamptz '2026-01-01' FROM generate_series(1, 20000) n`,
	`INSERT INTO effects (instance_id, seq, n, name, kind, wait, droppable, idempotent, reversible, priority, host, request, allowed, first_ms, max_ms,
		input, undoes_seq, undoes_n, link_seq, link_n, status, result, attempts, fence, started, next_at, queued_at)
	SELECT CAST('01980000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS uuid), 1, 1, 'e' || n % 50, 'webhook', 1, TRUE, TRUE, FALSE, 5,
		'h' || n % 1000, '', 1, 1, 1, '', 0, 0, 0, 0,
		CASE WHEN n % 100 = 0 THEN 'dead' WHEN n % 100 = 1 THEN 'waiting' ELSE 'succeeded' END, '', 0, 0, FALSE,
		CASE WHEN n % 100 = 1 THEN timestamptz '2026-01-01' + n * interval '1 second' END, timestamptz '2026-01-01' + n * interval '1 second'
	FROM generate_series(1, 100000) n`,
}

var wholeBigTable = regexp.MustCompile(`Seq Scan on (correlations|callbacks_early|callbacks_matches|children|feed|effects|instances|claims|transitions)\b`)

// guarantee R-25, its EXPLAIN gate
func TestCallsChildrenTheFeedAndEffectsAreFoundByIndexOnPostgreSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Postgres(t))
	for _, statement := range append(manyRows, aMillionWaits...) {
		b.write(t, statement)
	}
	b.write(t, "ANALYZE")
	now := stamp(time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC))
	id, hash := "01980000-0000-7000-8000-000000000007", hashOf("7")
	of := []any{id, 1, 1}
	join := append(append(append(append(append([]any{}, append(of, 10)...), append(of, 10)...), append(of, 10)...), append(of, 10)...), append(of, 10)...)
	early, earlyArgs := earlyCalls([][]byte{hash, hashOf("8")}, 10)
	instances := []string{id, "01980000-0000-7000-8000-000000000008"}
	before := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	effects := func(f EffectFilter) (string, []any) {
		t.Helper()
		query, _, err := f.query()
		if err != nil {
			t.Fatal(err)
		}
		tail, _, err := query.paged(effectOrder, Paging{})
		if err != nil {
			t.Fatal(err)
		}
		return listEffects + tail, query.args
	}
	type query struct {
		text string
		args []any
	}
	queries := map[string]query{
		"instances by hash":  {waitingFor, []any{bytesList([][]byte{hash, hashOf("8")}), 20}},
		"holders of a key":   {heldKeys, []any{2, bytesList([][]byte{hash}), 10}},
		"calls by hash":      {early, earlyArgs},
		"calls to look at":   {selectCalls + callsToLookAt, []any{now, 10}},
		"join":               {joinOf, join},
		"live children":      {liveChildren, []any{id, 1, 10}},
		"completions":        {completions, []any{100}},
		"number of calls":    {callsWaiting, []any{callsCounted}},
		"heads of the feed":  {dueFeed, []any{"a", "a", now, 10, "a", now, 10, 10}},
		"taking of the feed": {takeFeed, []any{instances, "a", now}},
		"behind in the feed": {behindFeed, []any{now, instances, "a", 10}},
		"rows of the feed":   {claimedFeed, []any{instances, "a"}},
	}
	for name, f := range map[string]EffectFilter{
		"all effects":            {},
		"dead effects":           {Status: []fsm.EffectStatus{fsm.EffectDead}},
		"dead effects of a host": {Status: []fsm.EffectStatus{fsm.EffectDead, fsm.EffectUnknown}, Host: "h7", Before: &before},
		"dead effects by name":   {Status: []fsm.EffectStatus{fsm.EffectDead}, Name: "e7", Definition: "d"},
		"running effects":        {Status: []fsm.EffectStatus{fsm.EffectRunning}},
		"waiting effects":        {Status: []fsm.EffectStatus{fsm.EffectWaiting, fsm.EffectRetrying}, Host: "h7"},
		"effects before":         {Before: &before},
	} {
		text, args := effects(f)
		queries[name] = query{text, args}
	}
	for name, q := range queries {
		plan, err := selectRows(b.reader(t.Context()), func(row rowScanner, line *string) error { return row.Scan(line) }, "EXPLAIN "+q.text, q.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text := strings.Join(plan, "\n"); wholeBigTable.MatchString(text) {
			t.Errorf("%s reads a whole table:\n%s", name, text)
		}
	}
	wantOwnIndexes(t, b)
	wantFewRows(t, b, fmt.Sprintf("SELECT count(*) FROM (%s) x", waitingFor), []any{bytesList([][]byte{hash}), 10})
}

// wantFewRows fails unless a query, really run, touches few pages.
func wantFewRows(t *testing.T, b *bench, query string, args []any) {
	t.Helper()
	plan, err := selectRows(b.reader(t.Context()), func(row rowScanner, line *string) error { return row.Scan(line) },
		"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index Scan using correlations_hash") && !strings.Contains(text, "Index Only Scan using correlations_hash") {
		t.Errorf("a hash is not looked up in its index:\n%s", text)
	}
}

// wantOwnIndexes fails unless calls that are few among many have an index of their own.
func wantOwnIndexes(t *testing.T, b *bench) {
	t.Helper()
	for index, f := range map[string]CallFilter{
		"callbacks_early_untaken": {Status: CallRefused}, "callbacks_early_source": {Source: "seldom"}, "callbacks_early_event": {Event: "seldom"},
	} {
		query, found, err := f.query()
		if err != nil || !found {
			t.Fatal(err)
		}
		tail, _, err := query.paged(callOrder, Paging{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := selectRows(b.reader(t.Context()), func(row rowScanner, line *string) error { return row.Scan(line) },
			"EXPLAIN "+selectCalls+tail, query.args...)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, index) {
			t.Errorf("%+v are not looked for in %s:\n%s", f, index, text)
		}
	}
}
