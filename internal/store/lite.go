package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
)

// liteConns holds the statements prepared on each SQLite connection, so that a batch
// neither compiles SQL nor asks the pool for a second connection (field report B67).
type liteConns struct {
	mu       sync.Mutex
	prepared map[driver.Conn]map[string]*liteStatement
}

type liteStatement struct {
	driver.Stmt
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
}

func (l *liteConns) of(c driver.Conn) map[string]*liteStatement {
	l.mu.Lock()
	defer l.mu.Unlock()
	statements := l.prepared[c]
	if statements == nil {
		statements = map[string]*liteStatement{}
		l.prepared[c] = statements
	}
	return statements
}

// end ends the statements prepared on a connection.
func (l *liteConns) end(c driver.Conn) error {
	l.mu.Lock()
	statements := l.prepared[c]
	delete(l.prepared, c)
	l.mu.Unlock()
	var errs []error
	for _, st := range statements {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// liteTx is one transaction on one SQLite connection. Statements do not watch the
// caller's context: a batch is short and ends as a whole.
type liteTx struct {
	conn       driver.Conn
	statements map[string]*liteStatement
	named      []driver.NamedValue
}

// inWriter runs f in an immediate transaction on the writer; keep false rolls back.
func (s *Store) inWriter(ctx context.Context, f func(t *liteTx) (keep bool, err error)) error {
	return s.inLite(ctx, s.impl.write, "BEGIN IMMEDIATE", f)
}

// inReader runs f in a read transaction: all it reads is of one moment.
func (s *Store) inReader(ctx context.Context, f func(t *liteTx) error) error {
	return s.inLite(ctx, s.impl.read, "BEGIN DEFERRED", func(t *liteTx) (bool, error) { return true, f(t) })
}

func (s *Store) inLite(ctx context.Context, db *sql.DB, begin string, f func(t *liteTx) (bool, error)) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return conn.Raw(func(dc any) error {
		c, ok := dc.(driver.Conn)
		if !ok {
			return fmt.Errorf("the SQLite driver hands out %T", dc)
		}
		t := &liteTx{conn: c, statements: s.impl.lite.of(c)}
		if _, err := t.exec(begin); err != nil {
			return err
		}
		keep, err := f(t)
		if err == nil && keep {
			if _, err = t.exec("COMMIT"); err == nil {
				return nil
			}
		}
		return errors.Join(err, t.rollback())
	})
}

// rollback ends the transaction unless SQLite has ended it by itself (disk full …).
func (t *liteTx) rollback() error {
	if _, err := t.exec("ROLLBACK"); err != nil {
		if _, again := t.exec("BEGIN DEFERRED"); again != nil {
			return err
		}
		_, err = t.exec("ROLLBACK")
		return err
	}
	return nil
}

func (t *liteTx) statement(text string) (*liteStatement, error) {
	if st := t.statements[text]; st != nil {
		return st, nil
	}
	prepared, err := t.conn.Prepare(text)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", text, err)
	}
	st := &liteStatement{Stmt: prepared}
	var canExec, canQuery bool
	st.exec, canExec = prepared.(driver.StmtExecContext)
	st.query, canQuery = prepared.(driver.StmtQueryContext)
	if !canExec || !canQuery {
		return nil, errors.Join(fmt.Errorf("the SQLite driver's %T takes no context", prepared), prepared.Close())
	}
	t.statements[text] = st
	return st, nil
}

func (t *liteTx) bind(args []any) []driver.NamedValue {
	t.named = t.named[:0]
	for i, arg := range args {
		t.named = append(t.named, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return t.named
}

// exec runs a statement and tells how many rows it touched. Arguments are what
// database/sql calls driver values: int64, string, []byte, bool, nil.
func (t *liteTx) exec(text string, args ...any) (int64, error) {
	st, err := t.statement(text)
	if err != nil {
		return 0, err
	}
	result, err := st.exec.ExecContext(context.Background(), t.bind(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each runs a query and reads its rows.
func (t *liteTx) each(read func(c cells) error, text string, args ...any) (err error) {
	st, err := t.statement(text)
	if err != nil {
		return err
	}
	rows, err := st.query.QueryContext(context.Background(), t.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	c := &liteCells{values: make([]driver.Value, len(rows.Columns()))}
	for {
		if err := rows.Next(c.values); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		c.at = 0
		if err := read(c); err != nil {
			return err
		}
		if c.err != nil {
			return c.err
		}
	}
}

// run runs a rowset row by row.
func (t *liteTx) run(r *rowset) error {
	_, err := t.runCounting(r)
	return err
}

// runCounting is run; it tells how many rows were touched.
func (t *liteTx) runCounting(r *rowset) (total int64, err error) {
	width := len(r.of.elements)
	for i := range r.rows {
		n, err := t.exec(r.of.sqlite, r.values[i*width:(i+1)*width]...)
		if err != nil {
			return total, fmt.Errorf("%s: %w", r.of.name, err)
		}
		if r.of.exact && n != 1 {
			return total, fmt.Errorf("found %d of 1 %s", n, r.of.name)
		}
		total += n
	}
	return total, nil
}
