package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"vobo/internal/fault"
)

//go:embed migrations/*/*.sql
var migrationFiles embed.FS

// How long a process waits for another one that migrates: a try each second.
const (
	migrationLockEvery = 1
	migrationLockTries = 600

	sqliteMigrationEvery = 100 * time.Millisecond
	sqliteMigrationTries = 10
)

// Migrate brings the schema up; several at once wait for one. A schema newer than the
// binary is refused with fault conflict.
func (s *Store) Migrate(ctx context.Context) error {
	return s.withProvider(ctx, func(p *goose.Provider) error {
		if err := refuseNewer(ctx, p); err != nil {
			return err
		}
		if s.impl.dialect == dialectPostgres {
			_, err := p.Up(ctx)
			return err
		}
		return migrateSQLite(ctx, p)
	})
}

// migrateSQLite applies what is pending. SQLite has no lock that outlives a transaction:
// of several processes one applies a file and the others fail on it, so who fails
// waits a little and looks whether anything is still pending.
func migrateSQLite(ctx context.Context, p *goose.Provider) error {
	wait := time.NewTicker(sqliteMigrationEvery)
	defer wait.Stop()
	for try := 1; ; try++ {
		_, err := p.Up(ctx)
		if err == nil || try == sqliteMigrationTries {
			return err
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// MigrationStatus lists the migrations.
func (s *Store) MigrationStatus(ctx context.Context) (all []Migration, err error) {
	err = s.withProvider(ctx, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		if err != nil {
			return err
		}
		for _, st := range states {
			m := Migration{Version: st.Source.Version, Name: st.Source.Path}
			if st.State == goose.StateApplied {
				at := milliseconds(st.AppliedAt)
				m.AppliedAt = &at
			}
			all = append(all, m)
		}
		return nil
	})
	return all, err
}

// Ping answers nil when the database answers and its schema is that of this binary.
func (s *Store) Ping(ctx context.Context) error {
	var at sql.NullInt64
	err := s.impl.read.QueryRowContext(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&at)
	if err := s.dbError(err); err != nil {
		if fault.CodeOf(err) == fault.Unavailable {
			return err
		}
		return fault.Wrap(err, fault.Unavailable, "The database has no schema of Vobo yet. Run vobo migrate.")
	}
	newest, err := s.newestMigration()
	if err != nil {
		return err
	}
	switch {
	case at.Int64 < newest:
		return fault.New(fault.Unavailable, "The database's schema has version %d and this binary needs %d. Run vobo migrate.", at.Int64, newest)
	case at.Int64 > newest:
		return newerSchema(at.Int64, newest)
	}
	return nil
}

func (s *Store) newestMigration() (int64, error) {
	files, err := s.migrationFS()
	if err != nil {
		return 0, err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(names[len(names)-1])
}

func (s *Store) migrationFS() (fs.FS, error) {
	return fs.Sub(migrationFiles, "migrations/"+s.impl.dialect)
}

// withProvider runs f with goose on a connection of its own (PostgreSQL: beside a
// pooler, since the lock that lets one migrate belongs to the connection).
func (s *Store) withProvider(ctx context.Context, f func(*goose.Provider) error) (err error) {
	files, err := s.migrationFS()
	if err != nil {
		return err
	}
	db, dialect := s.impl.write, goose.DialectSQLite3
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger())}
	if s.impl.dialect == dialectPostgres {
		cfg, err := s.direct()
		if err != nil {
			return err
		}
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(migrationLockEvery, migrationLockTries))
		if err != nil {
			return err
		}
		own := stdlib.OpenDB(*cfg)
		defer func() { err = errors.Join(err, own.Close()) }()
		own.SetConnMaxIdleTime(time.Minute)
		db, dialect, options = own, goose.DialectPostgres, append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return s.dbError(err)
	}
	return s.dbError(f(p))
}

func refuseNewer(ctx context.Context, p *goose.Provider) error {
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > target {
		return newerSchema(current, target)
	}
	return nil
}

func newerSchema(found, known int64) error {
	return fault.New(fault.Conflict, "The database's schema has version %d, newer than this binary knows (%d). Use a newer vobo.", found, known)
}
