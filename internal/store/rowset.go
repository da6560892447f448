package store

import (
	"strings"
	"time"
)

// multirow is one statement that takes any number of rows: on PostgreSQL each column
// is an array and the statement runs once, on SQLite it runs once for each row.
type multirow struct {
	name     string
	postgres string
	sqlite   string
	elements []uint32
	// exact statements must find every row they are given (PostgreSQL: its last
	// parameter is their number; see vobo_expect).
	exact bool
}

// elementOf are the column types of statement specifications.
var elementOf = map[string]uint32{
	"uuid": oidUUID, "text": oidText, "int4": oidInt, "int8": oidLong,
	"bool": oidBool, "timestamptz": oidTimestamp, "bytea": oidBytes,
}

// parseColumns reads "instance_id uuid, seq int4, …".
func parseColumns(spec string) (names, types []string) {
	for _, column := range strings.Split(spec, ",") {
		name, kind, _ := strings.Cut(strings.TrimSpace(column), " ")
		names, types = append(names, name), append(types, kind)
	}
	return names, types
}

// unnested is "unnest($1::uuid[], $2::int4[], …)".
func unnested(types []string) string {
	var b strings.Builder
	b.WriteString("unnest(")
	for i, kind := range types {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(placeholder(i + 1))
		b.WriteString("::" + kind + "[]")
	}
	return b.String() + ")"
}

func elementsOf(types []string) []uint32 {
	elements := make([]uint32, len(types))
	for i, kind := range types {
		elements[i] = elementOf[kind]
	}
	return elements
}

// insertRows inserts rows into a table; tail is what follows (ON CONFLICT …).
func insertRows(table, spec, tail string) *multirow {
	names, types := parseColumns(spec)
	into := "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") "
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ")
	return &multirow{
		name:     table,
		postgres: into + "SELECT * FROM " + unnested(types) + " " + tail,
		sqlite:   into + "VALUES (" + marks + ") " + tail,
		elements: elementsOf(types),
	}
}

// changeRows is an UPDATE or DELETE by rows u of the columns in spec. set and where are
// written with u.COLUMN for what is given and t.COLUMN for what is stored.
func changeRows(table, spec, set, where string, exact bool) *multirow {
	return changeInOrder(table, spec, set, where, "", exact)
}

// changeInOrder is changeRows for rows of several instances that two replicas may change
// at once: PostgreSQL locks them in one order, so that neither waits in a circle.
func changeInOrder(table, spec, set, where, order string, exact bool) *multirow {
	names, types := parseColumns(spec)
	m := &multirow{name: table, elements: elementsOf(types), exact: exact}
	given := unnested(types) + " u(" + strings.Join(names, ", ") + ")"
	var with []string
	if order != "" {
		with = append(with, "ours AS (SELECT u.* FROM "+given+" JOIN "+table+" t ON "+where+" ORDER BY "+order+" FOR UPDATE OF t)")
		given = "ours u"
	}
	if set == "" {
		m.postgres = "DELETE FROM " + table + " t USING " + given + " WHERE " + where
		m.sqlite = "DELETE FROM " + table + " AS t WHERE " + where
	} else {
		m.postgres = "UPDATE " + table + " t SET " + set + " FROM " + given + " WHERE " + where
		m.sqlite = "UPDATE " + table + " AS t SET " + set + " WHERE " + where
	}
	if exact {
		with = append(with, "done AS ("+m.postgres+" RETURNING 1)")
		m.postgres = "SELECT vobo_expect(count(*), " + placeholder(len(names)+1) + "::int8, '" + table + "') FROM done"
	}
	if len(with) > 0 {
		m.postgres = "WITH " + strings.Join(with, ", ") + " " + m.postgres
	}
	m.sqlite = numbered(m.sqlite, names)
	return m
}

// numbered turns u.COLUMN into SQLite's ?N.
func numbered(text string, names []string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "u.")
		if i < 0 {
			return b.String() + text
		}
		end := i + 2
		for end < len(text) && (text[end] == '_' || text[end] >= 'a' && text[end] <= 'z') {
			end++
		}
		b.WriteString(text[:i])
		b.WriteString(numberOf(text[i+2:end], names))
		text = text[end:]
	}
}

func numberOf(name string, names []string) string {
	for i, n := range names {
		if n == name {
			return "?" + placeholder(i + 1)[1:]
		}
	}
	panic("store: a statement uses the unknown column u." + name)
}

func placeholder(n int) string {
	if n < 10 {
		return "$" + string(rune('0'+n))
	}
	return "$" + string(rune('0'+n/10)) + string(rune('0'+n%10))
}

// rowset is the rows of one multirow statement in the making. A row is started with
// row and filled column by column, in the order of the specification.
type rowset struct {
	of      *multirow
	arrays  bool // PostgreSQL
	columns []packed
	values  []any // SQLite: row after row
	at      int
	rows    int
}

func newRowset(of *multirow, arrays bool) *rowset {
	r := &rowset{of: of, arrays: arrays}
	if arrays {
		r.columns = make([]packed, len(of.elements))
		for i, element := range of.elements {
			r.columns[i].element = element
		}
	}
	return r
}

// reset forgets the rows and keeps the buffers.
func (r *rowset) reset() {
	for i := range r.columns {
		r.columns[i].reset()
	}
	clear(r.values)
	r.values, r.rows = r.values[:0], 0
}

// row starts the next row.
func (r *rowset) row() *rowset {
	r.at = 0
	r.rows++
	return r
}

func (r *rowset) next() *packed {
	p := &r.columns[r.at]
	r.at++
	return p
}

func (r *rowset) id(v ident) *rowset {
	if r.arrays {
		r.next().bytes(v.raw[:])
	} else {
		r.values = append(r.values, v.text)
	}
	return r
}

func (r *rowset) text(v string) *rowset {
	if r.arrays {
		r.next().text(v)
	} else {
		r.values = append(r.values, v)
	}
	return r
}

// textOrNull is text, NULL where given is false.
func (r *rowset) textOrNull(v string, given bool) *rowset {
	switch {
	case given:
		return r.text(v)
	case r.arrays:
		r.next().null()
	default:
		r.values = append(r.values, nil)
	}
	return r
}

func (r *rowset) num(v int) *rowset {
	if r.arrays {
		r.next().num(int32(v))
	} else {
		r.values = append(r.values, int64(v))
	}
	return r
}

func (r *rowset) long(v int64) *rowset {
	if r.arrays {
		r.next().long(v)
	} else {
		r.values = append(r.values, v)
	}
	return r
}

func (r *rowset) flag(v bool) *rowset {
	if r.arrays {
		r.next().flag(v)
	} else {
		r.values = append(r.values, v)
	}
	return r
}

func (r *rowset) when(v time.Time) *rowset {
	if r.arrays {
		r.next().when(v)
	} else {
		r.values = append(r.values, v.UnixMilli())
	}
	return r
}

// maybe is a time, NULL for nil.
func (r *rowset) maybe(v *time.Time) *rowset {
	switch {
	case v != nil:
		return r.when(*v)
	case r.arrays:
		r.next().null()
	default:
		r.values = append(r.values, nil)
	}
	return r
}

// blob is bytes, NULL for nil.
func (r *rowset) blob(v []byte) *rowset {
	switch {
	case r.arrays && v == nil:
		r.next().null()
	case r.arrays:
		r.next().bytes(v)
	case v == nil:
		r.values = append(r.values, nil)
	default:
		r.values = append(r.values, v)
	}
	return r
}

// args are the parameters of the PostgreSQL statement.
func (r *rowset) args() []any {
	args := make([]any, len(r.columns), len(r.columns)+1)
	for i := range r.columns {
		args[i] = &r.columns[i]
	}
	if r.of.exact {
		args = append(args, int64(r.rows))
	}
	return args
}
