package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
	"modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"vobo/internal/fault"
)

// SQLSTATE codes that matter by themselves (PostgreSQL manual, appendix A).
const (
	stateLockNotAvailable = "55P03"
	stateUndefinedTable   = "42P01"
)

// dbError gives an error of a driver its code: unavailable where the database cannot
// be reached, is busy or full, and the same call may succeed later. What has a code
// already, and what is a mistake of the program, stays as it is.
func (s *Store) dbError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if unavailable(err) {
		return fault.Wrap(err, fault.Unavailable, "The database did not answer. Try again in a moment.")
	}
	return err
}

func unavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return unavailableState(pg.Code)
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return unavailableSQLite(lite.Code())
	}
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF,
		driver.ErrBadConn, sql.ErrConnDone, net.ErrClosed, pgconn.ErrConnClosed, puddle.ErrClosedPool,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok || pgconn.SafeToRetry(err)
}

// unavailableState tells the SQLSTATEs after which the same transaction may succeed.
func unavailableState(state string) bool {
	switch state[:2] {
	case "08", "40", "53", "57", "58": // connection, rollback, resources, intervention, system
		return true
	}
	switch state {
	case stateLockNotAvailable, "25006", "25P03", "25P02": // lock timeout, read only (fail-over), idle too long, failed before
		return true
	}
	return false
}

func unavailableSQLite(code int) bool {
	switch code & 0xff {
	case sqlitecode.SQLITE_BUSY, sqlitecode.SQLITE_LOCKED, sqlitecode.SQLITE_FULL, sqlitecode.SQLITE_IOERR,
		sqlitecode.SQLITE_CANTOPEN, sqlitecode.SQLITE_NOMEM, sqlitecode.SQLITE_INTERRUPT, sqlitecode.SQLITE_READONLY:
		return true
	}
	return false
}

// stateOf is the SQLSTATE of a PostgreSQL error, "" for any other.
func stateOf(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}
