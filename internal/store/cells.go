package store

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// cells reads the columns of one row from left to right, alike on both databases.
// After the first failure it gives zero values; failure tells it.
type cells interface {
	id() ident
	text() string
	num() int
	long() int64
	flag() bool
	when() time.Time
	maybe() *time.Time // NULL: nil
	blob() []byte      // NULL: nil
	failure() error
}

// eachRow reads all rows of a pgx result.
func eachRow(rows pgx.Rows, read func(c cells) error) error {
	c := &pgCells{}
	for rows.Next() {
		c.raw, c.at = rows.RawValues(), 0
		if c.fields == nil {
			for _, f := range rows.FieldDescriptions() {
				c.fields = append(c.fields, cellForm{f.DataTypeOID, f.Format})
			}
		}
		if err := read(c); err != nil {
			return err
		}
		if c.err != nil {
			return c.err
		}
	}
	return rows.Err()
}

type cellForm struct {
	oid    uint32
	format int16
}

// pgCells decodes PostgreSQL's wire values: text as text, all else in binary.
type pgCells struct {
	raw    [][]byte
	fields []cellForm
	at     int
	err    error
}

func (c *pgCells) next(oid uint32) []byte {
	i := c.at
	c.at++
	if c.err != nil {
		return nil
	}
	if i >= len(c.raw) {
		c.err = fmt.Errorf("column %d of %d was asked for", i, len(c.raw))
		return nil
	}
	form := c.fields[i]
	if form.oid != oid || (form.format != pgx.BinaryFormatCode && oid != oidText) {
		c.err = fmt.Errorf("column %d has type %d in format %d, wanted type %d", i, form.oid, form.format, oid)
		return nil
	}
	return c.raw[i]
}

// fixed is next for a value of a fixed length that is not NULL.
func (c *pgCells) fixed(oid uint32, length int) []byte {
	b := c.next(oid)
	if c.err == nil && len(b) != length {
		c.err = fmt.Errorf("column %d has %d bytes, wanted %d", c.at-1, len(b), length)
	}
	if c.err != nil {
		return make([]byte, length)
	}
	return b
}

func (c *pgCells) id() ident    { return identOf([16]byte(c.fixed(oidUUID, 16))) }
func (c *pgCells) text() string { return string(c.next(oidText)) }
func (c *pgCells) num() int     { return int(int32(binary.BigEndian.Uint32(c.fixed(oidInt, 4)))) }
func (c *pgCells) long() int64  { return int64(binary.BigEndian.Uint64(c.fixed(oidLong, 8))) }
func (c *pgCells) flag() bool   { return c.fixed(oidBool, 1)[0] == 1 }
func (c *pgCells) when() time.Time {
	return timestamp(c.fixed(oidTimestamp, 8))
}

func (c *pgCells) maybe() *time.Time {
	b := c.next(oidTimestamp)
	if c.err != nil || b == nil {
		return nil
	}
	t := timestamp(b)
	return &t
}

func (c *pgCells) blob() []byte {
	b := c.next(oidBytes)
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func (c *pgCells) failure() error { return c.err }

func timestamp(b []byte) time.Time {
	return milliseconds(time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + timestampEpoch))
}

// liteCells converts the SQLite driver's values.
type liteCells struct {
	values []driver.Value
	at     int
	err    error
}

func liteCell[T any](c *liteCells) (v T) {
	i := c.at
	c.at++
	if c.err != nil {
		return v
	}
	if i >= len(c.values) {
		c.err = fmt.Errorf("column %d of %d was asked for", i, len(c.values))
		return v
	}
	v, ok := c.values[i].(T)
	if !ok {
		c.err = fmt.Errorf("column %d holds %T, wanted %T", i, c.values[i], v)
	}
	return v
}

func (c *liteCells) null() bool { return c.err == nil && c.at < len(c.values) && c.values[c.at] == nil }

func (c *liteCells) id() ident {
	text := liteCell[string](c)
	id, ok := parseIdent(text)
	if !ok && c.err == nil {
		c.err = fmt.Errorf("column %d holds %q, wanted an id", c.at-1, text)
	}
	return id
}

func (c *liteCells) text() string    { return liteCell[string](c) }
func (c *liteCells) num() int        { return int(liteCell[int64](c)) }
func (c *liteCells) long() int64     { return liteCell[int64](c) }
func (c *liteCells) when() time.Time { return time.UnixMilli(liteCell[int64](c)).UTC() }

func (c *liteCells) flag() bool {
	if c.at < len(c.values) {
		if v, ok := c.values[c.at].(bool); ok { // the driver knows the declared type
			c.at++
			return v
		}
	}
	return liteCell[int64](c) != 0
}

func (c *liteCells) maybe() *time.Time {
	if c.null() {
		c.at++
		return nil
	}
	t := c.when()
	return &t
}

func (c *liteCells) blob() []byte {
	if c.null() {
		c.at++
		return nil
	}
	return liteCell[[]byte](c)
}

func (c *liteCells) failure() error { return c.err }
