package store

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// Sink is an endpoint of the event feed.
type Sink struct {
	Name       string
	DisabledAt *time.Time
	Reason     string // why it is disabled
	Waiting    int
	Dead       int
	Oldest     *time.Time // when the oldest waiting row was queued
}

// FeedRow is a history row that this process delivers to a sink until LeaseUntil.
type FeedRow struct {
	Instance   string
	Sink       string
	Attempt    int // of this row, from 1
	Fence      int64
	LeaseUntil time.Time
	QueuedAt   time.Time
	Definition string
	Version    int
	Key        string // business key
	Transition fsm.Transition
}

// SyncSinks makes the sinks known that this process has in its configuration and marks the
// others as removed. While replicas of two configurations run, each undoes the other's mark
// with every Prune; what stays marked for a day loses its rows there.
func (s *Store) SyncSinks(ctx context.Context, names []string) error {
	if err := checkText("The sink's name", names...); err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		for _, name := range slices.Sorted(slices.Values(names)) {
			if _, err := execute(tx, `INSERT INTO sinks (name, reason) VALUES (?, '')
				ON CONFLICT (name) DO UPDATE SET removed_at = NULL WHERE sinks.removed_at IS NOT NULL`, name); err != nil {
				return err
			}
		}
		others, args := "removed_at IS NULL", []any{}
		if len(names) > 0 {
			others, args = others+" AND name NOT IN ?", []any{names}
		}
		gone, err := selectRows(tx, readText, locked(tx, "SELECT name FROM sinks WHERE "+others+" ORDER BY name", "FOR UPDATE"), args...)
		if err != nil || len(gone) == 0 {
			return err
		}
		_, err = execute(tx, "UPDATE sinks SET removed_at = ? WHERE name IN ?", stamp(now), gone)
		return err
	})
}

// ours limits sinks to those of this process's configuration, whatever others say of
// them, and adds those that nobody has removed.
func (s *Store) ours() (condition string, args []any) {
	if len(s.impl.cfg.Sinks) == 0 {
		return "removed_at IS NULL", nil
	}
	return "(removed_at IS NULL OR name IN ?)", []any{s.impl.cfg.Sinks}
}

const selectSinks = `SELECT name, disabled_at, reason,
	(SELECT count(*) FROM feed f WHERE f.sink = sinks.name AND f.status IN ('waiting', 'sending')),
	(SELECT count(*) FROM feed f WHERE f.sink = sinks.name AND f.status = 'dead'),
	(SELECT min(f.queued_at) FROM feed f WHERE f.sink = sinks.name AND f.status IN ('waiting', 'sending'))
	FROM sinks WHERE `

// Sinks lists the configured sinks: of this process, and those that no other has removed.
func (s *Store) Sinks(ctx context.Context) ([]Sink, error) {
	ours, args := s.ours()
	sinks, err := selectRows(s.reader(ctx), func(row rowScanner, v *Sink) error {
		return row.Scan(&v.Name, optionalTime{&v.DisabledAt}, &v.Reason, &v.Waiting, &v.Dead, optionalTime{&v.Oldest})
	}, selectSinks+ours+" ORDER BY name", args...)
	return sinks, s.dbError(err)
}

// DisableSink keeps a sink's rows until EnableSink; the first reason stays.
func (s *Store) DisableSink(ctx context.Context, name, reason string) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	ours, args := s.ours()
	_, err = execute(s.writer(ctx), "UPDATE sinks SET disabled_at = ?, reason = ? WHERE name = ? AND disabled_at IS NULL AND "+ours,
		append([]any{stamp(now), storable(reason), name}, args...)...)
	return s.dbError(err)
}

// EnableSink lets a sink's rows go on at once, dead ones with them; false: there is no such sink.
func (s *Store) EnableSink(ctx context.Context, name string) (known bool, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	ours, args := s.ours()
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		n, err := execute(tx, "UPDATE sinks SET disabled_at = NULL, reason = '' WHERE name = ? AND "+ours, append([]any{name}, args...)...)
		if err != nil || n == 0 {
			return err
		}
		known = true
		_, err = execute(tx, `UPDATE feed SET status = 'waiting', attempts = CASE WHEN status = 'dead' THEN 0 ELSE attempts END, next_at = ?
			WHERE sink = ? AND (status = 'dead' OR status = 'waiting' AND next_at > ?)`, stamp(now), name, stamp(now))
		return err
	})
	return known && err == nil, err
}

// Alert tells whether operators shall be told that value has grown above what they were
// told last, at most once within every; it notes that they were. A value that fell is
// noted without telling.
func (s *Store) Alert(ctx context.Context, name string, value int64, every time.Duration) (tell bool, before int64, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, 0, err
	}
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		// The row is there before it is locked, so that of two only one tells.
		if _, err := execute(tx, "INSERT INTO alerts (name, value, told_at) VALUES (?, 0, ?) ON CONFLICT DO NOTHING",
			name, stamp(time.UnixMilli(0))); err != nil {
			return err
		}
		type told struct {
			value int64
			at    time.Time
		}
		last, found, err := selectOne(tx, func(row rowScanner, v *told) error { return row.Scan(&v.value, timeColumn{&v.at}) },
			locked(tx, "SELECT value, told_at FROM alerts WHERE name = ?", "FOR UPDATE"), name)
		if err != nil {
			return err
		}
		if !found {
			return fault.New(fault.Unavailable, "The alert %s was being removed. Try again in a moment.", name)
		}
		before = last.value
		switch {
		case value < last.value:
			_, err = execute(tx, "UPDATE alerts SET value = ? WHERE name = ?", value, name)
		case value > last.value && !now.Before(last.at.Add(every)):
			tell = true
			_, err = execute(tx, "UPDATE alerts SET value = ?, told_at = ? WHERE name = ?", value, stamp(now), name)
		}
		return err
	})
	if err != nil {
		return false, 0, err
	}
	return tell, before, nil
}

// ForgetAlert undoes a telling that failed: the next Alert tells again.
func (s *Store) ForgetAlert(ctx context.Context, name string, before int64) error {
	_, err := execute(s.writer(ctx), "UPDATE alerts SET value = ?, told_at = ? WHERE name = ?", before, stamp(time.UnixMilli(0)), name)
	return s.dbError(err)
}
