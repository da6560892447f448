package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fsm"
)

// Counts are for metrics and the console. What is over for good (finished and cancelled
// instances, succeeded and cancelled effects) only grows and is not counted.
type Counts struct {
	InstancesByStatus map[string]int // running, suspended
	EffectsByStatus   map[string]int // waiting, running, retrying, dead, unknown; given-up ones are over
	DeadByKind        map[string]int // dead effects
	UnknownByKind     map[string]int // unknown effects
	CallsWaiting      int            // calls of webhook sources that wait for their wait, counted up to 10,001
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
	if err := counts.readEffects(db); err != nil {
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
	counts.CallsWaiting, _, err = selectOne(db, readCount, callsWaiting, callsCounted)
	return counts, err
}

// callsCounted is where the count of waiting calls ends.
const callsCounted = 10_001

const callsWaiting = "SELECT count(*) FROM (SELECT 1 FROM callbacks_early WHERE status = 'waiting' LIMIT ?) w"

// Effects that are not over, nor given up, each by the index that holds it.
const openEffects = `SELECT status, kind, queued_at FROM effects WHERE lease_until IS NULL AND next_at IS NOT NULL
	UNION ALL SELECT status, kind, queued_at FROM effects WHERE lease_until IS NOT NULL
	UNION ALL SELECT status, kind, queued_at FROM effects WHERE status = 'running' AND lease_until IS NULL AND next_at IS NULL
	UNION ALL SELECT status, kind, queued_at FROM effects WHERE status IN ('dead', 'unknown') AND NOT given_up`

func (counts *Counts) readEffects(db *gorm.DB) error {
	type group struct {
		status, kind string
		n            int
		oldest       *time.Time
	}
	groups, err := selectRows(db, func(row rowScanner, g *group) error {
		return row.Scan(&g.status, &g.kind, &g.n, optionalTime{&g.oldest})
	}, `SELECT status, kind, count(*), min(queued_at) FROM (`+openEffects+`) e GROUP BY status, kind`)
	counts.EffectsByStatus, counts.DeadByKind, counts.UnknownByKind = map[string]int{}, map[string]int{}, map[string]int{}
	for _, g := range groups {
		counts.EffectsByStatus[g.status] += g.n
		switch fsm.EffectStatus(g.status) {
		case fsm.EffectDead:
			counts.DeadByKind[g.kind] += g.n
		case fsm.EffectUnknown:
			counts.UnknownByKind[g.kind] += g.n
		default:
			if counts.OldestEffect == nil || g.oldest.Before(*counts.OldestEffect) {
				counts.OldestEffect = g.oldest
			}
		}
	}
	return err
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

// How long Prune keeps what is over: calls after they came (the replay store), and dead
// rows of the feed after they were queued.
const (
	callsKept    = 30 * 24 * time.Hour
	deadFeedKept = 30 * 24 * time.Hour
)

// sinksKept is how long a sink's rows outlive its removal from all configurations.
const sinksKept = 24 * time.Hour

// expiring are the tables that Prune clears, each row by its primary key.
var expiring = []struct {
	table, key, condition string
	age                   time.Duration
}{
	{"claims", "kind, key_hash", "expires_at <= ?", 0},
	{"sessions", "hash", "expires_at <= ?", 0},
	{"login_links", "hash", "expires_at <= ?", 0},
	{"audit_refusals", "token, hour", "hour <= ?", refusalsKept},
	{"callbacks_early", "id", "status <> 'waiting' AND received_at <= ?", callsKept},
	{"feed", "instance_id, sink, seq", "status = 'dead' AND queued_at <= ?", deadFeedKept},
	{"feed", "instance_id, sink, seq", "sink IN (SELECT name FROM sinks WHERE removed_at <= ?)", sinksKept},
	{"sinks", "name", "removed_at <= ? AND NOT EXISTS (SELECT 1 FROM feed WHERE feed.sink = sinks.name)", sinksKept},
}

// Prune removes expired claims, sessions and login links, old counters of refusals, old calls
// that wait no more, old dead rows of the feed and, a day after nobody had them configured
// any more, sinks with all their rows: up to limit rows in all, of which each table has its
// share. It returns how many; call it again until it finds nothing. What an effect did to
// another instance stays claimed for ever.
func (s *Store) Prune(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	if err := s.SyncSinks(ctx, s.impl.cfg.Sinks); err != nil {
		return 0, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	share, pruned := max(limit/len(expiring), 1), 0
	for _, e := range expiring {
		n, err := s.prune(ctx, e.table, e.key, e.condition, now.Add(-e.age), min(share, limit-pruned))
		if err != nil {
			return pruned, err
		}
		pruned += n
	}
	return pruned, nil
}

func (s *Store) prune(ctx context.Context, table, key, condition string, before time.Time, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	db := s.writer(ctx)
	rows := locked(db, "SELECT "+key+" FROM "+table+" WHERE "+condition+" LIMIT ?", "FOR UPDATE SKIP LOCKED")
	n, err := execute(db, "DELETE FROM "+table+" WHERE ("+key+") IN ("+rows+")", stamp(before), limit)
	return int(n), s.dbError(err)
}
