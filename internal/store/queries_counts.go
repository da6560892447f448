package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// Counts are for metrics and the console. What is over for good (finished and cancelled
// instances, succeeded and cancelled effects) only grows and is not counted.
type Counts struct {
	InstancesByStatus map[string]int // running, suspended
	EffectsByStatus   map[string]int // waiting, running, retrying, dead, unknown
	Attention         int
	DueDeadlines      int        // of running instances
	OldestDue         *time.Time // when the oldest of them was due
	OldestEffect      *time.Time // when the oldest effect that is waiting, running or retrying was queued
}

// Counts reads them.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return Counts{}, err
	}
	counts, err := readCounts(s.reader(ctx), now)
	return counts, s.dbError(err)
}

func readCounts(db *gorm.DB, now time.Time) (counts Counts, err error) {
	counts.InstancesByStatus, err = countByStatus(db, `SELECT status, count(*) FROM instances
		WHERE status IN ('running', 'suspended') GROUP BY status`)
	if err != nil {
		return Counts{}, err
	}
	counts.EffectsByStatus, err = countByStatus(db, `SELECT status, count(*) FROM effects
		WHERE status NOT IN ('succeeded', 'cancelled') GROUP BY status`)
	if err != nil {
		return Counts{}, err
	}
	counts.Attention, _, err = selectOne(db, readCount, `SELECT count(*) FROM instances WHERE attention`)
	if err != nil {
		return Counts{}, err
	}
	due, _, err := selectOne(db, func(row rowScanner, c *Counts) error { return row.Scan(&c.DueDeadlines, optionalTime{&c.OldestDue}) },
		`SELECT count(*), min(deadlines.due_at) FROM deadlines JOIN instances ON instances.id = deadlines.instance_id
		WHERE deadlines.next_at <= ? AND instances.status = 'running'`, stamp(now))
	if err != nil {
		return Counts{}, err
	}
	counts.DueDeadlines, counts.OldestDue = due.DueDeadlines, due.OldestDue
	counts.OldestEffect, _, err = selectOne(db, func(row rowScanner, at **time.Time) error { return row.Scan(optionalTime{at}) },
		`SELECT min(queued_at) FROM effects WHERE status NOT IN ('succeeded', 'cancelled') AND status IN ('waiting', 'running', 'retrying')`)
	return counts, err
}

func countByStatus(db *gorm.DB, query string) (map[string]int, error) {
	type statusCount struct {
		status string
		n      int
	}
	rows, err := selectRows(db, func(row rowScanner, c *statusCount) error { return row.Scan(&c.status, &c.n) }, query)
	counts := map[string]int{}
	for _, row := range rows {
		counts[row.status] = row.n
	}
	return counts, err
}

// Incarnation is raised after a restore; part of every token.
func (s *Store) Incarnation(ctx context.Context) (int64, error) {
	incarnation, _, err := selectOne(s.reader(ctx), func(row rowScanner, v *int64) error { return row.Scan(v) },
		`SELECT incarnation FROM meta WHERE id = 1`)
	return incarnation, s.dbError(err)
}

// refusalsKept is how long the counters of refusals are kept after their hour began.
const refusalsKept = 30 * 24 * time.Hour

// Prune removes expired claims, sessions and login links, and old counters of refusals, up
// to limit rows in all; it returns how many.
func (s *Store) Prune(ctx context.Context, limit int) (int, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	pruned := 0
	for _, expired := range []struct {
		table, key, condition string
		before                time.Time
	}{
		{"claims", "kind, key_hash", "expires_at <= ?", now},
		{"sessions", "hash", "expires_at <= ?", now},
		{"login_links", "hash", "expires_at <= ?", now},
		{"audit_refusals", "token, hour", "hour <= ?", now.Add(-refusalsKept)},
	} {
		if pruned >= limit {
			break
		}
		db := s.writer(ctx)
		rows := locked(db, "SELECT "+expired.key+" FROM "+expired.table+" WHERE "+expired.condition+" LIMIT ?", "FOR UPDATE SKIP LOCKED")
		n, err := execute(db, "DELETE FROM "+expired.table+" WHERE ("+expired.key+") IN ("+rows+")", stamp(expired.before), limit-pruned)
		if err != nil {
			return pruned, s.dbError(err)
		}
		pruned += int(n)
	}
	return pruned, nil
}
