package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

// bench is a migrated store whose clock a test moves, and rows written straight into it.
type bench struct {
	*Store
	shift atomic.Int64 // nanoseconds
	ids   int
}

// onEachDatabase runs a test on a fresh store of every kind of database.
func onEachDatabase(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	testkit.EachDatabase(t, func(t *testing.T, url string) { test(t, newBench(t, url)) })
}

func newBench(t *testing.T, url string) *bench {
	t.Helper()
	b := &bench{}
	s, err := Open(t.Context(), Config{URL: url, Shift: func() time.Duration { return time.Duration(b.shift.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// pass moves the store's clock forward.
func (b *bench) pass(d time.Duration) { b.shift.Add(int64(d)) }

func (b *bench) now(t *testing.T) time.Time {
	t.Helper()
	now, err := b.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// id makes an instance's id; later ones sort behind.
func (b *bench) id() string {
	b.ids++
	return fmt.Sprintf("01980000-0000-7000-8000-%012x", b.ids)
}

// write runs a statement that must not fail.
func (b *bench) write(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := execute(b.writer(t.Context()), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// base is the time that rows written by tests count from.
var base = time.Date(2026, 12, 3, 10, 0, 0, 0, time.UTC)

// instance writes an instance; zero fields get something plain. It returns its id.
func (b *bench) instance(t *testing.T, i fsm.Instance, search ...string) string {
	t.Helper()
	return insertInstance(t, b.writer(t.Context()), b, i, search...)
}

func insertInstance(t *testing.T, db *gorm.DB, b *bench, i fsm.Instance, search ...string) string {
	t.Helper()
	i.ID = orElse(i.ID, b.id())
	i.Definition, i.State = orElse(i.Definition, "onboarding"), orElse(i.State, "review")
	i.Status, i.Requester = fsm.Status(orElse(string(i.Status), "running")), orElse(i.Requester, "rosa@example.com")
	if i.Version == 0 {
		i.Version = 1
	}
	if i.StartedAt.IsZero() {
		i.StartedAt = base
	}
	if i.EnteredAt.IsZero() {
		i.EnteredAt = i.StartedAt
	}
	mustExecute(t, db, `INSERT INTO instances (id, definition, version, hash, state, wait, revision, status, instance_key, requester,
		started_by, labels, started_at, entered_at, last_event_at, head_hash, attention, attention_reasons, compensation)
		VALUES (?, ?, ?, 'v1:x', ?, 1, 1, ?, ?, ?, ?, ?, ?, ?, ?, 'h', ?, ?, '')`,
		i.ID, i.Definition, i.Version, i.State, string(i.Status), i.Key, i.Requester, i.StartedBy, asJSON(t, i.Labels),
		stamp(i.StartedAt), stamp(i.EnteredAt), stamp(i.EnteredAt), len(i.Attention) > 0, asJSON(t, i.Attention))
	mustExecute(t, db, `INSERT INTO instance_data (instance_id, data, search) VALUES (?, '{}', ?)`,
		i.ID, foldSearch(append([]string{i.Key, i.ID}, search...)...))
	for name, value := range i.Labels {
		mustExecute(t, db, `INSERT INTO instance_labels (instance_id, name, value) VALUES (?, ?, ?)`, i.ID, name, value)
	}
	return i.ID
}

func mustExecute(t *testing.T, db *gorm.DB, statement string, args ...any) {
	t.Helper()
	if _, err := execute(db, statement, args...); err != nil {
		t.Fatal(err)
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := encodeValue(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantCode fails the test unless err has the code.
func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func must[T any](t *testing.T, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// walk reads a list to its end in pages of a size; between pages it calls meanwhile.
func walk[T any](t *testing.T, size int, meanwhile func(), list func(ctx context.Context, p Paging) (Page[T], error)) []T {
	t.Helper()
	var all []T
	p := Paging{Limit: size}
	for {
		page, err := list(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > size {
			t.Fatalf("a page of %d has %d rows", size, len(page.Items))
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		p.Cursor = page.Next
		meanwhile()
	}
}

func idsOf(instances []fsm.Instance) []string {
	ids := []string{}
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	return ids
}
