package store

import (
	"fmt"
	"strings"
	"testing"
)

// Whatever the tables hold when a connection first plans a batch's statements, the plans
// go by index: they are kept while the tables grow.
func TestEveryStatementOfABatchGoesByIndex(t *testing.T) {
	t.Parallel()
	b := onPostgres(t, Config{})
	texts := map[string]string{
		"claim": pgClaim, "holders": pgHolders, "lock": pgLock, "lock or not": pgLockOrNot, "there": pgThere,
		"effects": pgEffects, "tokens": tokensBy + "= ANY($1::bytea[])", "acts": pgActs, "take": pgTakeEffects, "links": pgLinks,
		"due": pgDueEffects, "busy": pgBusyHosts, "finish": finishSet.postgres, "parked": pgParked,
	}
	for _, m := range []*multirow{deliverFeed, retryFeed, promoteFeed, noteCompletions, releaseEffects, forgetAttempts} {
		texts["outside a batch: "+m.postgres] = m.postgres
	}
	for _, m := range batchOrder {
		texts[m.name+" "+m.postgres[:20]] = m.postgres
	}
	for _, q := range []childQuery{dataOf, assigneesOf, tasksOf, deadlinesOf, votesOf, pastOf} {
		texts[string(q)] = q.by(pgAny)
	}
	tx, err := b.impl.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tx.Exec(t.Context(), pgBatchSettings, "5000"); err != nil {
		t.Fatal(err)
	}
	i := 0
	for name, text := range texts {
		i++
		statement := fmt.Sprintf("planned_%d", i)
		if _, err := tx.Exec(t.Context(), "PREPARE "+statement+" AS "+text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var n int
		if err := tx.QueryRow(t.Context(), "SELECT array_length(parameter_types, 1) FROM pg_prepared_statements WHERE name = $1", statement).Scan(&n); err != nil {
			t.Fatal(err)
		}
		parameters := strings.TrimSuffix(strings.Repeat("NULL, ", n), ", ")
		rows, err := tx.Query(t.Context(), "EXPLAIN EXECUTE "+statement+"("+parameters+")")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan []string
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if whole := strings.Join(plan, "\n"); strings.Contains(whole, "Seq Scan") || strings.Contains(whole, "Hash Join") || strings.Contains(whole, "Merge Join") {
			t.Errorf("%s\n%s", text, whole)
		}
	}
}
