package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	gormsqlite "github.com/libtnb/sqlite"
)

// liteDriverConn is what a connection of the SQLite driver can do.
type liteDriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// liteConn ends the statements prepared on it before it ends itself. The pool closes a
// connection whose query was interrupted: a statement left on it would keep the file
// open, and may not be touched any more.
type liteConn struct {
	liteDriverConn
	cache *liteConns
}

// Close implements driver.Conn.
func (c *liteConn) Close() error { return errors.Join(c.cache.end(c), c.liteDriverConn.Close()) }

// liteConnector makes connections of one DSN.
type liteConnector struct {
	driver driver.Driver
	dsn    string
	cache  *liteConns
}

// Driver implements driver.Connector.
func (c *liteConnector) Driver() driver.Driver { return c.driver }

// Connect implements driver.Connector. The driver opens a file without a context.
func (c *liteConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	able, ok := conn.(liteDriverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the SQLite driver's %T lacks something", conn), conn.Close())
	}
	return &liteConn{able, c.cache}, nil
}

// open makes a pool of connections; none is made yet.
func (l *liteConns) open(dsn string) (*sql.DB, error) {
	named, err := sql.Open(gormsqlite.DriverName, dsn) // the way to the registered driver
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(&liteConnector{named.Driver(), dsn, l}), named.Close()
}
