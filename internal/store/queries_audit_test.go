package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
)

func (b *bench) audit(t *testing.T, l AuditLine) {
	t.Helper()
	if err := b.Audit(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) auditLines(t *testing.T, size int, instance string) []AuditLine {
	t.Helper()
	return walk(t, size, func() {}, func(ctx context.Context, p Paging) (Page[AuditLine], error) { return b.AuditLines(ctx, instance, p) })
}

func TestAnAuditLineComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		from := b.now(t)
		b.audit(t, AuditLine{Actor: "system:erp", Action: "key-created", Detail: map[string]any{"n": 1.5, "name": "<a>"}})
		b.audit(t, AuditLine{Actor: "ana@example.com", Action: "decision-refused", Instance: someID, Token: hashOf("t")})
		lines := b.auditLines(t, 1, "")
		if len(lines) != 2 {
			t.Fatalf("got %+v", lines)
		}
		first := lines[0]
		if first.Actor != "system:erp" || first.Action != "key-created" || first.Detail["n"] != json.Number("1.5") || first.Detail["name"] != "<a>" ||
			first.Token != nil || first.At.Before(from) {
			t.Errorf("got %+v", first)
		}
		if only := b.auditLines(t, 5, someID); len(only) != 1 || string(only[0].Token) != string(hashOf("t")) {
			t.Errorf("got %+v", only)
		}
	})
}

func TestRefusalsBeyondTwentyPerTokenAndHourAreOnlyCounted(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		b.pass(b.now(t).Truncate(time.Hour).Add(time.Hour).Sub(b.now(t))) // the whole hour lies before us
		var group sync.WaitGroup
		for n := range 50 {
			group.Go(func() {
				if err := b.Audit(t.Context(), AuditLine{Actor: fmt.Sprint(n), Action: "decision-refused", Token: hashOf("loud")}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := len(b.auditLines(t, 500, "")); n != 20 {
			t.Errorf("%d lines are written for 50 refusals", n)
		}
		counted, _, err := selectOne(b.reader(t.Context()), readCount, `SELECT n FROM audit_refusals WHERE token = ?`, hashOf("loud"))
		if err != nil || counted != 50 {
			t.Errorf("%d are counted, %v", counted, err)
		}
		b.audit(t, AuditLine{Action: "decision-refused", Token: hashOf("other")})
		b.audit(t, AuditLine{Action: "key-created"})
		if n := len(b.auditLines(t, 500, "")); n != 22 {
			t.Errorf("another token and a line without one: %d lines", n)
		}
		b.pass(time.Hour)
		b.audit(t, AuditLine{Action: "decision-refused", Token: hashOf("loud")})
		if n := len(b.auditLines(t, 500, "")); n != 23 {
			t.Errorf("an hour later: %d lines", n)
		}
	})
}

// field report B51
func TestAuditLinesOfOneTransactionAreEachSeenOnceAtEveryPageSize(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		err := b.writer(t.Context()).Transaction(func(tx *gorm.DB) error {
			for n := range 250 {
				mustExecute(t, tx, `INSERT INTO audit (at, actor, action, instance_id, detail) VALUES (?, ?, 'x', '', '{}')`, stamp(base), fmt.Sprint(n))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 7, 100} {
			added := 0
			lines := walk(t, size, func() {
				if added < 5 {
					added++
					b.audit(t, AuditLine{Actor: "new", Action: "y"})
				}
			}, func(ctx context.Context, p Paging) (Page[AuditLine], error) { return b.AuditLines(ctx, "", p) })
			seen := 0
			for n, line := range lines {
				if line.Actor == "new" {
					continue
				}
				if seen++; line.Actor != fmt.Sprint(n) {
					t.Errorf("pages of %d: line %d is %q", size, n, line.Actor)
				}
			}
			if seen != 250 {
				t.Errorf("pages of %d: %d of 250 are seen", size, seen)
			}
		}
	})
}
