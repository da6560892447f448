package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	gormsqlite "github.com/libtnb/sqlite"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"vobo/internal/fault"
)

const (
	dialectPostgres = "postgres"
	dialectSQLite   = "sqlite"

	defaultMaxConns    = 16
	minConns           = 2 // one of them is never held by a batch, which may need another to load a definition
	defaultLockTimeout = 5 * time.Second
	defaultPerHost     = 16
)

// storeImpl is what Open made.
type storeImpl struct {
	cfg     Config
	dialect string
	split   bool   // writes and commit go apart, so that a test may fail between them
	self    string // tells our own notifications from those of other replicas

	pool    *pgxpool.Pool // PostgreSQL: the one pool, also under gorm
	spare   sync.Pool     // *writes
	commits chan struct{} // PostgreSQL: a place for each batch that may hold a connection

	write *sql.DB    // SQLite: the one writer connection; PostgreSQL: the pool
	read  *sql.DB    // SQLite: the readers; PostgreSQL: the pool
	lite  *liteConns // SQLite: what is prepared, on readers and the writer

	gormWrite *gorm.DB
	gormRead  *gorm.DB
}

// Open connects and checks the settings; it does not migrate. fault malformed for a
// URL that is of no known kind, unavailable where the database does not answer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg.LockTimeout = cmp.Or(cfg.LockTimeout, defaultLockTimeout)
	cfg.PerHost = cmp.Or(cfg.PerHost, defaultPerHost)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Shift == nil {
		cfg.Shift = func() time.Duration { return 0 }
	}
	split := cfg.Fault != nil
	if cfg.Fault == nil {
		cfg.Fault = func(string) error { return nil }
	}
	s := &Store{impl: storeImpl{cfg: cfg, split: split, self: rand.Text()}}
	var err error
	switch {
	case strings.HasPrefix(cfg.URL, "postgres://"), strings.HasPrefix(cfg.URL, "postgresql://"):
		err = s.openPostgres(ctx)
	case strings.HasPrefix(cfg.URL, "sqlite:"):
		err = s.openSQLite(ctx)
	default:
		err = fault.New(fault.Malformed, "The database URL is of no known kind. Write sqlite:PATH or postgres://HOST/DATABASE.")
	}
	if err != nil {
		return nil, errors.Join(s.dbError(err), s.Close())
	}
	return s, nil
}

func (s *Store) openPostgres(ctx context.Context) error {
	i := &s.impl
	i.dialect = dialectPostgres
	cfg, err := pgxpool.ParseConfig(i.cfg.URL)
	if err != nil {
		return fault.New(fault.Malformed, "The database URL cannot be read. Write postgres://USER:PASSWORD@HOST/DATABASE.")
	}
	cfg.MaxConns = int32(max(cmp.Or(i.cfg.MaxConns, defaultMaxConns), minConns))
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	if i.cfg.DirectURL != "" {
		// A pooler hands each transaction another server connection, so nothing prepared
		// by name would be found again.
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		delete(cfg.ConnConfig.RuntimeParams, "timezone")
	}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		teachPacked(conn.TypeMap())
		return nil
	}
	if i.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	i.commits = make(chan struct{}, cfg.MaxConns-1)
	i.write = stdlib.OpenDBFromPool(i.pool)
	i.read = i.write
	if err := i.pool.Ping(ctx); err != nil {
		return err
	}
	i.gormWrite, err = gorm.Open(postgres.New(postgres.Config{Conn: i.write, WithoutReturning: true}), gormConfig())
	i.gormRead = i.gormWrite
	return err
}

func (s *Store) openSQLite(ctx context.Context) error {
	i := &s.impl
	i.dialect = dialectSQLite
	path, ok := SQLitePath(i.cfg.URL)
	if !ok || path == "" || strings.HasPrefix(path, ":memory:") {
		return fault.New(fault.Malformed, "The database URL names no file. Write sqlite:PATH.")
	}
	err := ownersFile(path)
	if err != nil {
		return err
	}
	i.lite = &liteConns{prepared: map[driver.Conn]map[string]*liteStatement{}}
	if i.write, err = i.lite.open(sqliteDSN(path, "_txlock=immediate")); err != nil {
		return err
	}
	i.write.SetMaxOpenConns(1)
	if err := i.write.PingContext(ctx); err != nil {
		return fault.Wrap(err, fault.Unavailable, "The database file %s cannot be opened. Check that its folder exists and may be written.", path)
	}
	if i.read, err = i.lite.open(sqliteDSN(path, "_txlock=deferred", "_pragma=query_only(1)")); err != nil {
		return err
	}
	readers := max(cmp.Or(i.cfg.MaxConns, defaultMaxConns)/2, 1)
	i.read.SetMaxOpenConns(readers)
	i.read.SetMaxIdleConns(readers)
	if i.gormWrite, err = gorm.Open(gormsqlite.New(gormsqlite.Config{Conn: i.write}), gormConfig()); err != nil {
		return err
	}
	i.gormRead, err = gorm.Open(gormsqlite.New(gormsqlite.Config{Conn: i.read}), gormConfig())
	return err
}

// ownersFile makes a file that is not there yet, for its owner alone: it holds people's
// data and sessions. SQLite gives what it keeps beside the file the same rights.
func ownersFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "The database file %s cannot be opened. Check that its folder exists and may be written.", path)
	}
	return nil
}

// SQLitePath is the file of a sqlite: URL; ok is false for any other URL.
func SQLitePath(databaseURL string) (path string, ok bool) {
	return strings.CutPrefix(databaseURL, "sqlite:")
}

// sqliteDSN names the file and the settings of one kind of connection; times are
// written as whole milliseconds.
func sqliteDSN(path string, more ...string) string {
	settings := append([]string{
		"_pragma=busy_timeout(10000)", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)",
		"_pragma=foreign_keys(1)", "_time_integer_format=unix_milli", "_timezone=UTC",
	}, more...)
	escaped := (&url.URL{Path: path}).EscapedPath()
	return "file:" + escaped + "?" + strings.Join(settings, "&")
}

func gormConfig() *gorm.Config {
	return &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true, PrepareStmt: false, TranslateError: true}
}

// Close ends all connections.
func (s *Store) Close() error {
	i := &s.impl
	var errs []error
	if i.write != nil {
		errs = append(errs, i.write.Close())
	}
	if i.read != nil && i.read != i.write {
		errs = append(errs, i.read.Close())
	}
	if i.pool != nil {
		i.pool.Close()
	}
	return errors.Join(errs...)
}

// Dialect is "postgres" or "sqlite".
func (s *Store) Dialect() string { return s.impl.dialect }

// reader is gorm on what may be read beside the writer.
func (s *Store) reader(ctx context.Context) *gorm.DB { return s.impl.gormRead.WithContext(ctx) }

// writer is gorm on what writes; on SQLite that is the one writer connection, so a
// transaction must not ask for it again.
func (s *Store) writer(ctx context.Context) *gorm.DB { return s.impl.gormWrite.WithContext(ctx) }

// Warnings names unsafe settings of the database (fsync, synchronous_commit, full_page_writes off …).
func (s *Store) Warnings(ctx context.Context) ([]string, error) {
	if s.impl.dialect == dialectSQLite {
		return s.sqliteWarnings(ctx)
	}
	var warnings []string
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := s.impl.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return nil, s.dbError(err)
		}
		if value == "off" {
			warnings = append(warnings, fmt.Sprintf("PostgreSQL has %s off: what was answered may be lost in a crash. Turn it on.", name))
		}
	}
	return warnings, nil
}

func (s *Store) sqliteWarnings(ctx context.Context) ([]string, error) {
	var mode string
	if err := s.impl.write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return nil, s.dbError(err)
	}
	if !strings.EqualFold(mode, "wal") {
		return []string{fmt.Sprintf("SQLite keeps its journal as %q instead of WAL: readers hold up writers. Put the file on a local disk.", mode)}, nil
	}
	return nil, nil
}

// Now is the database's clock (PostgreSQL) or the process's (SQLite), UTC, in milliseconds.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if s.impl.dialect == dialectSQLite {
		return s.processNow(), nil
	}
	var now time.Time
	if err := s.impl.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return time.Time{}, s.dbError(err)
	}
	return s.shifted(now), nil
}

// processNow is the clock of a SQLite store.
func (s *Store) processNow() time.Time { return s.shifted(s.impl.cfg.Clock()) }

// shifted makes a clock's reading a stored time.
func (s *Store) shifted(t time.Time) time.Time { return milliseconds(t.Add(s.impl.cfg.Shift())) }

// milliseconds cuts a time to what is stored.
func milliseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// direct connects beside a pooler, for LISTEN and migrations.
func (s *Store) direct() (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(cmp.Or(s.impl.cfg.DirectURL, s.impl.cfg.URL))
	if err != nil {
		return nil, fault.New(fault.Malformed, "The direct database URL cannot be read. Write postgres://USER:PASSWORD@HOST/DATABASE.")
	}
	return cfg, nil
}

// failpoint is where a test makes a statement fail; see FaultPoints.
func (s *Store) failpoint(name string) error { return s.impl.cfg.Fault(name) }
