package store

import (
	"regexp"
	"strings"
	"testing"

	"vobo/internal/testkit"
)

// manyRows is 20,000 waiting instances, one open task each: 200 people are asked 100 times
// each, and 10 groups own 2,000 each.
var manyRows = []string{
	`INSERT INTO instances (id, definition, version, hash, state, wait, revision, status, instance_key, requester, started_by, labels,
		started_at, entered_at, last_event_at, head_hash, attention, attention_reasons, compensation)
	SELECT CAST('01980000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS uuid), 'd' || n % 20, 1, 'v1:x', 'review', 1, 1, 'running', 'K-' || n,
		'r' || n % 500, '', '', timestamptz '2026-01-01' + n * interval '1 minute', timestamptz '2026-01-01' + n * interval '1 minute',
		timestamptz '2026-01-01', 'h', n % 1000 = 0, '', '' FROM generate_series(1, 20000) n`,
	`INSERT INTO instance_data (instance_id, data, search) SELECT id, '{}', lower(instance_key) FROM instances`,
	`INSERT INTO instance_labels (instance_id, name, value) SELECT id, 'region', 'v' || substr(definition, 2) FROM instances`,
	`INSERT INTO tasks (instance_id, seq, n, state, title, instructions, priority, status, facts, digest, owners, due_at, created_at, claimed_by, search)
	SELECT id, 1, 1, 'review', '', '', 'normal', 'open', '', '', '', started_at + interval '3 days', started_at, '', lower(instance_key) FROM instances`,
	`INSERT INTO task_owners (instance_id, seq, n, ref, owner, named, open)
	SELECT id, 1, 1, 'user:' || substr(instance_key, 3)::int % 200, FALSE, TRUE, TRUE FROM instances`,
	`INSERT INTO task_owners (instance_id, seq, n, ref, owner, named, open)
	SELECT id, 1, 1, 'group:' || substr(instance_key, 3)::int % 10, TRUE, FALSE, TRUE FROM instances`,
}

// guarantee R-25, its EXPLAIN gate
func TestTheInboxAndTheListsOfInstancesReadIndexesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Postgres(t))
	for _, statement := range manyRows {
		b.write(t, statement)
	}
	b.write(t, "ANALYZE")
	yes, key := true, "K-77"
	task := func(f TaskFilter, selected string) (string, []any) {
		t.Helper()
		query, err := f.query()
		if err != nil {
			t.Fatal(err)
		}
		if selected != selectTasks {
			return selected + " WHERE " + query.conditions(), query.args
		}
		tail, _, err := query.paged(taskOrders[f.Sort].listOrder, Paging{})
		if err != nil {
			t.Fatal(err)
		}
		return selected + tail, query.args
	}
	instance := func(f InstanceFilter) (string, []any) {
		t.Helper()
		query, err := f.query()
		if err != nil {
			t.Fatal(err)
		}
		tail, _, err := query.paged(instanceOrders[f.Sort], Paging{})
		if err != nil {
			t.Fatal(err)
		}
		return selectInstances + tail, query.args
	}
	inbox := TaskFilter{Person: "user:7", Groups: []string{"group:3"}}
	for name, of := range map[string]func() (string, []any){
		"inbox":              func() (string, []any) { return task(inbox, selectTasks) },
		"inbox by name":      func() (string, []any) { return task(TaskFilter{Person: "user:7", Mine: true}, selectTasks) },
		"inbox by priority":  func() (string, []any) { return task(TaskFilter{Person: "user:7", Sort: "priority"}, selectTasks) },
		"the inbox's number": func() (string, []any) { return task(TaskFilter{Person: "user:7"}, "SELECT count(*)"+fromTasks) },
		"all open tasks":     func() (string, []any) { return task(TaskFilter{Status: "open"}, selectTasks) },
		"instances":          func() (string, []any) { return instance(InstanceFilter{}) },
		"oldest entered":     func() (string, []any) { return instance(InstanceFilter{Sort: "-entered_at"}) },
		"of a definition":    func() (string, []any) { return instance(InstanceFilter{Definition: "d7"}) },
		"of a key":           func() (string, []any) { return instance(InstanceFilter{Key: &key}) },
		"with attention":     func() (string, []any) { return instance(InstanceFilter{Attention: &yes}) },
		"of a label":         func() (string, []any) { return instance(InstanceFilter{Label: [2]string{"region", "v7"}}) },
		"of a reader": func() (string, []any) {
			return instance(InstanceFilter{ReadableBy: &Reader{ID: "r7", Refs: []string{"user:7", "group:3"}}})
		},
	} {
		query, args := of()
		plan, err := selectRows(b.reader(t.Context()), func(row rowScanner, line *string) error { return row.Scan(line) }, "EXPLAIN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); wholeTable.MatchString(text) {
			t.Errorf("%s reads a whole table:\n%s", name, text)
		}
	}
	wantCursorInIndex(t, b)
}

var wholeTable = regexp.MustCompile(`Seq Scan on (tasks|instances|task_owners)\b`)

// wantCursorInIndex fails unless the next page's rows are looked for from the cursor on.
func wantCursorInIndex(t *testing.T, b *bench) {
	t.Helper()
	first, err := b.Instances(t.Context(), InstanceFilter{}, Paging{})
	if err != nil {
		t.Fatal(err)
	}
	query := &statement{}
	tail, _, err := query.paged(instanceOrders[""], Paging{Cursor: first.Next})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := selectRows(b.reader(t.Context()), func(row rowScanner, line *string) error { return row.Scan(line) },
		"EXPLAIN "+selectInstances+tail, query.args...)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index Cond: (started_at <=") {
		t.Errorf("the cursor is no bound of the index:\n%s", text)
	}
}
