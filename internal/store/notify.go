package store

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	notifyChannel  = "vobo"
	wakeRetryFirst = 100 * time.Millisecond
	wakeRetryMax   = 5 * time.Second
)

// Notify tells other replicas, coalesced by the caller.
func (s *Store) Notify(ctx context.Context, topic string) error {
	if s.impl.dialect == dialectSQLite {
		return nil
	}
	_, err := s.impl.pool.Exec(ctx, "SELECT pg_notify($1::text, $2::text)", notifyChannel, s.impl.self+" "+topic)
	return s.dbError(err)
}

// Wake calls f whenever another replica committed effects or nearer deadlines, until ctx ends.
// PostgreSQL: LISTEN on a connection of its own, made again when it breaks; f("") is called
// after each time, since something may have been missed. SQLite: never.
// It returns nil when ctx ends, and an error only where the direct URL cannot be read.
func (s *Store) Wake(ctx context.Context, f func(topic string)) error {
	if s.impl.dialect == dialectSQLite {
		<-ctx.Done()
		return nil
	}
	cfg, err := s.direct()
	if err != nil {
		return err
	}
	pause := wakeRetryFirst
	for ctx.Err() == nil {
		if s.listen(ctx, cfg, f) {
			pause = wakeRetryFirst
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, wakeRetryMax)
	}
	return nil
}

// listen serves one connection until it breaks or ctx ends; it tells whether it ever
// listened.
func (s *Store) listen(ctx context.Context, cfg *pgx.ConnConfig, f func(topic string)) bool {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false
	}
	defer func() { conn.PgConn().Close(ctx) }() //nolint:errcheck // it is broken or no longer wanted
	if _, err := conn.Exec(ctx, "listen "+notifyChannel); err != nil {
		return false
	}
	f("")
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		if from, topic, _ := strings.Cut(n.Payload, " "); from != s.impl.self {
			f(topic)
		}
	}
}
