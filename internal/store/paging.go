package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"vobo/internal/fault"
)

// Page sizes of every list.
const (
	defaultLimit = 50
	maxLimit     = 500
)

// longestText bounds what a filter looks for, in bytes.
const longestText = 1000

// sortColumn is one column of a list's order. The last one of a list is unique
// together with those before it, so that no row is skipped or repeated at an edge.
type sortColumn struct {
	name string // SQL expression
	kind valueKind
	desc bool
	null bool // may be NULL; NULL comes last
}

// valueKind says what a cursor keeps of a column.
type valueKind int

const (
	numberValue valueKind = iota // int64, in an integer column of 32 bits
	bigValue                     // int64, in a column of 64 bits
	textValue
	timeValue // time.Time, in the cursor as milliseconds
	idValue   // an instance's id
)

// listOrder is the order of a list; name tells its cursors from those of other lists.
type listOrder struct {
	name    string
	columns []sortColumn
}

// cursorShape is what an opaque cursor says inside: the list and order it is of, and
// the sort values of the last row seen, null for NULL.
type cursorShape struct {
	List  string             `json:"l"`
	After []*json.RawMessage `json:"a"`
}

func badCursor(cause error) error {
	return fault.Wrap(cause, fault.Malformed, "This cursor is not one of ours, or it belongs to another list. Begin again without a cursor.")
}

// pageLimit checks the size asked for.
func pageLimit(p Paging) (int, error) {
	switch {
	case p.Limit == 0:
		return defaultLimit, nil
	case p.Limit < 0 || p.Limit > maxLimit:
		return 0, fault.New(fault.Malformed, "The limit is %d; it must be from 1 to %d. Ask for fewer rows and follow the cursor.", p.Limit, maxLimit)
	}
	return p.Limit, nil
}

// clause gives ORDER BY's text.
func (o listOrder) clause() string {
	parts := make([]string, 0, len(o.columns))
	for _, c := range o.columns {
		direction := ""
		if c.desc {
			direction = " DESC"
		}
		if c.null {
			direction += " NULLS LAST"
		}
		parts = append(parts, c.name+direction)
	}
	return strings.Join(parts, ", ")
}

// encode makes the cursor of a row's sort values: int64, string, time.Time, or nil for NULL.
func (o listOrder) encode(values ...any) (string, error) {
	shape := cursorShape{List: o.name}
	for _, value := range values {
		if value == nil {
			shape.After = append(shape.After, nil)
			continue
		}
		if at, ok := value.(time.Time); ok {
			value = at.UnixMilli()
		}
		text, err := json.Marshal(value)
		if err != nil {
			return "", fault.Wrap(err, fault.Internal, "The list's cursor could not be made.")
		}
		raw := json.RawMessage(text)
		shape.After = append(shape.After, &raw)
	}
	text, err := json.Marshal(shape)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "The list's cursor could not be made.")
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

// decode reads a cursor back; anything that encode cannot have made for this list is refused.
func (o listOrder) decode(cursor string) ([]any, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return nil, badCursor(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var shape cursorShape
	if err := decoder.Decode(&shape); err != nil {
		return nil, badCursor(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, badCursor(err)
	}
	if shape.List != o.name || len(shape.After) != len(o.columns) {
		return nil, badCursor(nil)
	}
	values := make([]any, len(o.columns))
	for i, c := range o.columns {
		if values[i], err = c.value(shape.After[i]); err != nil {
			return nil, badCursor(err)
		}
	}
	return values, nil
}

// Cursors hold no time outside the years 1 to 9999, which both databases can compare.
const (
	earliestMilli = -62135596800000
	latestMilli   = 253402300799999
)

func (c sortColumn) value(raw *json.RawMessage) (any, error) {
	if raw == nil {
		if !c.null {
			return nil, fault.New(fault.Malformed, "no value for %s", c.name)
		}
		return nil, nil
	}
	switch c.kind {
	case textValue, idValue:
		var text string
		if err := json.Unmarshal(*raw, &text); err != nil {
			return nil, err
		}
		if c.kind == idValue && !isInstanceID(text) {
			return nil, fault.New(fault.Malformed, "%q is no id", text)
		}
		return text, checkText("cursor", text)
	case timeValue:
		var milli int64
		if err := json.Unmarshal(*raw, &milli); err != nil {
			return nil, err
		}
		if milli < earliestMilli || milli > latestMilli {
			return nil, fault.New(fault.Malformed, "time out of range")
		}
		return time.UnixMilli(milli).UTC(), nil
	default:
		var number int64
		err := json.Unmarshal(*raw, &number)
		if err == nil && c.kind == numberValue && !fitsColumn(number) {
			err = fault.New(fault.Malformed, "number out of range")
		}
		return number, err
	}
}

// fitsColumn tells whether an integer column can be compared with n: PostgreSQL refuses what
// has more than 32 bits, SQLite finds nothing.
func fitsColumn(n int64) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// after gives the condition for the rows behind the cursor, in the standard expanded
// form: (a > ?) OR (a = ? AND b > ?) …, with the first column's bound outside so that an index
// serves it. Empty for no cursor.
func (o listOrder) after(cursor string) (string, []any, error) {
	if cursor == "" {
		return "", nil, nil
	}
	values, err := o.decode(cursor)
	if err != nil {
		return "", nil, err
	}
	var alternatives []string
	var args []any
	var equal []string
	var equalArgs []any
	for i, c := range o.columns {
		if beyond, beyondArgs := c.beyond(values[i]); beyond != "" {
			alternatives = append(alternatives, strings.Join(append(append([]string(nil), equal...), beyond), " AND "))
			args = append(append(args, equalArgs...), beyondArgs...)
		}
		if values[i] == nil {
			equal = append(equal, c.name+" IS NULL")
			continue
		}
		equal = append(equal, c.name+" = ?")
		equalArgs = append(equalArgs, columnValue(values[i]))
	}
	condition := "((" + strings.Join(alternatives, ") OR (") + "))"
	if first := o.columns[0]; !first.null {
		bound := first.name + " >= ?"
		if first.desc {
			bound = first.name + " <= ?"
		}
		condition = bound + " AND " + condition
		args = append([]any{columnValue(values[0])}, args...)
	}
	return condition, args, nil
}

// beyond is the condition that a column lies after the value; "" where nothing can.
func (c sortColumn) beyond(value any) (string, []any) {
	if value == nil {
		return "", nil
	}
	comparison := c.name + " > ?"
	if c.desc {
		comparison = c.name + " < ?"
	}
	if c.null {
		comparison = "(" + comparison + " OR " + c.name + " IS NULL)"
	}
	return comparison, []any{columnValue(value)}
}

// checkText refuses what no database can look for alike: NUL, invalid UTF-8, overlong text.
func checkText(name string, values ...string) error {
	for _, value := range values {
		switch {
		case !utf8.ValidString(value):
			return fault.New(fault.Malformed, "%s is not valid UTF-8.", name)
		case strings.ContainsRune(value, 0):
			return fault.New(fault.Malformed, "%s contains a NUL character.", name)
		case len(value) > longestText:
			return fault.New(fault.Malformed, "%s is too long: %d bytes, at most %d are allowed.", name, len(value), longestText)
		}
	}
	return nil
}

// statement collects a SELECT's conditions.
type statement struct {
	where []string
	args  []any
}

func (q *statement) and(condition string, args ...any) {
	q.where = append(q.where, condition)
	q.args = append(q.args, args...)
}

// conditions is the text of WHERE, TRUE for none.
func (q *statement) conditions() string {
	if len(q.where) == 0 {
		return "TRUE"
	}
	return strings.Join(q.where, " AND ")
}

// paged adds the cursor's condition and gives "WHERE … ORDER BY … LIMIT …" with one row
// more than the page has, by which it is known whether there is a next one.
func (q *statement) paged(o listOrder, p Paging) (tail string, limit int, err error) {
	if limit, err = pageLimit(p); err != nil {
		return "", 0, err
	}
	condition, args, err := o.after(p.Cursor)
	if err != nil {
		return "", 0, err
	}
	if condition != "" {
		q.and(condition, args...)
	}
	tail = " WHERE " + q.conditions() + " ORDER BY " + o.clause() + " LIMIT ?"
	q.args = append(q.args, limit+1)
	return tail, limit, nil
}

// pageOf turns rows (one more than limit, if there are more) into a page; key gives a
// row's sort values, item what the caller gets.
func pageOf[R, T any](o listOrder, limit int, rows []R, key func(R) []any, item func(R) T) (Page[T], error) {
	page := Page[T]{Items: make([]T, 0, min(len(rows), limit))}
	if len(rows) > limit {
		rows = rows[:limit]
		next, err := o.encode(key(rows[limit-1])...)
		if err != nil {
			return Page[T]{}, err
		}
		page.Next = next
	}
	for _, row := range rows {
		page.Items = append(page.Items, item(row))
	}
	return page, nil
}

// itself is pageOf's item where a row is what the caller gets.
func itself[T any](row T) T { return row }
