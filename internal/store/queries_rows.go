package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// rowScanner is what a row's columns are read from.
type rowScanner interface{ Scan(into ...any) error }

// selectRows runs a SELECT (or a statement with RETURNING); `?` marks arguments, and a
// slice stands for a list. read gets each row's columns in the order that they are listed.
func selectRows[T any](db *gorm.DB, read func(row rowScanner, value *T) error, query string, args ...any) (values []T, err error) {
	rows, err := db.Raw(query, arguments(args)...).Rows()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var value T
		if err := read(rows, &value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// selectOne is selectRows for at most one row; found is false for none.
func selectOne[T any](db *gorm.DB, read func(row rowScanner, value *T) error, query string, args ...any) (value T, found bool, err error) {
	values, err := selectRows(db, read, query, args...)
	if err != nil || len(values) == 0 {
		return value, false, err
	}
	return values[0], true, nil
}

// execute runs a statement and tells how many rows it touched.
func execute(db *gorm.DB, statement string, args ...any) (int64, error) {
	done := db.Exec(statement, arguments(args)...)
	return done.RowsAffected, done.Error
}

// readCount reads a single number.
func readCount(row rowScanner, n *int) error { return row.Scan(n) }

// bytesArgument keeps gorm from taking bytes for a list of numbers.
type bytesArgument []byte

// Value implements driver.Valuer.
func (b bytesArgument) Value() (driver.Value, error) { return []byte(b), nil }

// arguments are a statement's arguments in a form that gorm leaves alone; nil bytes are NULL.
func arguments(args []any) []any {
	safe := make([]any, len(args))
	for i, arg := range args {
		if raw, ok := arg.([]byte); ok {
			arg = nil
			if raw != nil {
				arg = bytesArgument(raw)
			}
		}
		safe[i] = arg
	}
	return safe
}

// columnValue is a Go value as an argument.
func columnValue(value any) any {
	if at, ok := value.(time.Time); ok {
		return stamp(at)
	}
	return value
}

// timeArgument is a time as each dialect stores it: timestamptz on PostgreSQL, an
// integer of milliseconds on SQLite.
type timeArgument struct{ at *time.Time }

func stamp(at time.Time) timeArgument          { return timeArgument{&at} }
func optionalStamp(at *time.Time) timeArgument { return timeArgument{at} }

// GormValue implements gorm.Valuer.
func (a timeArgument) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	switch {
	case a.at == nil:
		return clause.Expr{SQL: "NULL"}
	case db.Name() == dialectSQLite:
		return clause.Expr{SQL: "?", Vars: []any{a.at.UnixMilli()}}
	}
	return clause.Expr{SQL: "?", Vars: []any{a.at.UTC().Truncate(time.Millisecond)}}
}

// optionalTime reads a time column of either dialect, in UTC; NULL is nil.
type optionalTime struct{ into **time.Time }

// Scan implements sql.Scanner.
func (c optionalTime) Scan(value any) error {
	var at time.Time
	switch value := value.(type) {
	case nil:
		*c.into = nil
		return nil
	case time.Time:
		at = value.UTC()
	case int64:
		at = time.UnixMilli(value).UTC()
	default:
		return fmt.Errorf("a time column holds a %T", value)
	}
	*c.into = &at
	return nil
}

// timeColumn is optionalTime for a column that is never NULL.
type timeColumn struct{ into *time.Time }

// Scan implements sql.Scanner.
func (c timeColumn) Scan(value any) error {
	var at *time.Time
	if err := (optionalTime{&at}).Scan(value); err != nil {
		return err
	}
	if at == nil {
		return errors.New("a time column that must not be NULL is")
	}
	*c.into = *at
	return nil
}

// jsonColumn reads a column of JSON text into a Go value, numbers as json.Number; an
// empty text (none) and NULL change nothing.
type jsonColumn struct{ into any }

// Scan implements sql.Scanner.
func (c jsonColumn) Scan(value any) error {
	var text sql.NullString
	if err := text.Scan(value); err != nil {
		return err
	}
	return decodeValue(text.String, c.into)
}

// inTransaction runs do in one writing transaction; an error, made for callers, means
// that nothing of it is written.
func (s *Store) inTransaction(ctx context.Context, do func(tx *gorm.DB) error) error {
	return s.dbError(s.writer(ctx).Transaction(do))
}

// locked adds a row lock to a SELECT inside a transaction. SQLite's has the whole file.
func locked(tx *gorm.DB, query, lock string) string {
	if tx.Name() == dialectSQLite {
		return query
	}
	return query + " " + lock
}
