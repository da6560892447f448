package definitions

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"vobo/internal/fault"
)

const (
	maxJSONDepth  = 64  // levels of arrays and objects
	maxJSONNumber = 400 // characters of one number
)

// DecodeJSON reads one JSON value as a tree with json.Number. Duplicate keys, NUL
// characters, invalid UTF-8, lone surrogates, numbers out of range (1e400, 1e-400),
// more than 64 levels and trailing bytes are *fault.Error of code malformed with
// the position. See RFC 8259 and, for what is refused, RFC 7493 (I-JSON).
func DecodeJSON(b []byte) (any, error) {
	r := jsonReader{s: string(b)}
	if !utf8.ValidString(r.s) {
		return nil, r.fail(firstInvalidUTF8(r.s), "a character is not valid UTF-8")
	}
	r.space()
	if r.i == len(r.s) {
		return nil, r.fail(r.i, "there is no value")
	}
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	r.space()
	if r.i < len(r.s) {
		return nil, r.fail(r.i, "there is something after the value")
	}
	return v, nil
}

type jsonReader struct {
	s string
	i int
}

func (r *jsonReader) fail(at int, format string, args ...any) error {
	before := r.s[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fault.New(fault.Malformed, "This is not valid JSON at line %d, column %d: %s.", line, column, fmt.Sprintf(format, args...))
}

func firstInvalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
	}
	return len(s)
}

func (r *jsonReader) space() {
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return
		}
	}
}

func (r *jsonReader) value(depth int) (any, error) {
	if r.i == len(r.s) {
		return nil, r.fail(r.i, "it ends too early")
	}
	switch c := r.s[r.i]; {
	case c == '{':
		return r.object(depth + 1)
	case c == '[':
		return r.array(depth + 1)
	case c == '"':
		return r.text()
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(r.s[r.i:], word) {
			r.i += len(word)
			switch word {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
			return nil, nil
		}
	}
	return nil, r.unexpected()
}

func (r *jsonReader) unexpected() error {
	if r.i >= len(r.s) {
		return r.fail(len(r.s), "it ends too early")
	}
	c, _ := utf8.DecodeRuneInString(r.s[r.i:])
	return r.fail(r.i, "%q is not expected here", c)
}

func (r *jsonReader) object(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, r.fail(r.i, "there are more than %d levels", maxJSONDepth)
	}
	r.i++
	m := make(map[string]any)
	r.space()
	if r.i < len(r.s) && r.s[r.i] == '}' {
		r.i++
		return m, nil
	}
	for {
		r.space()
		at := r.i
		if r.i == len(r.s) || r.s[r.i] != '"' {
			return nil, r.unexpected()
		}
		key, err := r.text()
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice {
			return nil, r.fail(at, "the key %q stands twice", shorten(key, 40))
		}
		r.space()
		if r.i == len(r.s) || r.s[r.i] != ':' {
			return nil, r.unexpected()
		}
		r.i++
		r.space()
		if m[key], err = r.value(depth); err != nil {
			return nil, err
		}
		if more, err := r.next('}'); !more {
			return m, err
		}
	}
}

func (r *jsonReader) array(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, r.fail(r.i, "there are more than %d levels", maxJSONDepth)
	}
	r.i++
	l := []any{}
	r.space()
	if r.i < len(r.s) && r.s[r.i] == ']' {
		r.i++
		return l, nil
	}
	for {
		r.space()
		v, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
		if more, err := r.next(']'); !more {
			return l, err
		}
	}
}

// next reads the comma before another member (true) or the closing bracket (false).
func (r *jsonReader) next(closing byte) (more bool, err error) {
	r.space()
	if r.i < len(r.s) {
		switch r.s[r.i] {
		case ',':
			r.i++
			return true, nil
		case closing:
			r.i++
			return false, nil
		}
	}
	return false, r.unexpected()
}

func (r *jsonReader) text() (string, error) {
	r.i++
	from := r.i
	for r.i < len(r.s) {
		switch c := r.s[r.i]; {
		case c == '"':
			r.i++
			return r.s[from : r.i-1], nil
		case c == '\\':
			return r.escapedText(from)
		case c < ' ':
			return "", r.fail(r.i, "a control character stands in a text; write it as an escape")
		}
		r.i++
	}
	return "", r.fail(len(r.s), "a text has no end")
}

func (r *jsonReader) escapedText(from int) (string, error) {
	b := append(make([]byte, 0, len(r.s[from:r.i])+32), r.s[from:r.i]...)
	for r.i < len(r.s) {
		c := r.s[r.i]
		switch {
		case c == '"':
			r.i++
			return string(b), nil
		case c < ' ':
			return "", r.fail(r.i, "a control character stands in a text; write it as an escape")
		case c != '\\':
			b = append(b, c)
			r.i++
		default:
			var err error
			if b, err = r.escape(b); err != nil {
				return "", err
			}
		}
	}
	return "", r.fail(len(r.s), "a text has no end")
}

// escape reads one escape and appends what it stands for.
func (r *jsonReader) escape(b []byte) ([]byte, error) {
	at := r.i
	if at+1 >= len(r.s) {
		return nil, r.fail(len(r.s), "a text has no end")
	}
	kind := r.s[at+1]
	r.i += 2
	if i := strings.IndexByte(`"\/bfnrt`, kind); i >= 0 {
		return append(b, "\"\\/\b\f\n\r\t"[i]), nil
	}
	if kind != 'u' {
		return nil, r.fail(at, "there is no such escape")
	}
	unit, ok := r.hex4()
	switch {
	case !ok:
		return nil, r.fail(at, `\u needs four hexadecimal digits`)
	case unit == 0:
		return nil, r.fail(at, "the character NUL is not allowed")
	case !utf16.IsSurrogate(unit):
		return utf8.AppendRune(b, unit), nil
	}
	if strings.HasPrefix(r.s[r.i:], `\u`) {
		r.i += 2
		if low, ok := r.hex4(); ok {
			if pair := utf16.DecodeRune(unit, low); pair != utf8.RuneError {
				return utf8.AppendRune(b, pair), nil
			}
		}
	}
	return nil, r.fail(at, "half of a surrogate pair is missing")
}

func (r *jsonReader) hex4() (rune, bool) {
	if r.i+4 > len(r.s) {
		return 0, false
	}
	var u rune
	for _, c := range []byte(r.s[r.i : r.i+4]) {
		d := strings.IndexByte(hexDigits, c|0x20)
		if c >= '0' && c <= '9' {
			d = int(c - '0')
		}
		if d < 0 || c < '0' {
			return 0, false
		}
		u = u<<4 | rune(d)
	}
	r.i += 4
	return u, true
}

func (r *jsonReader) digits() int {
	from := r.i
	for r.i < len(r.s) && r.s[r.i] >= '0' && r.s[r.i] <= '9' {
		r.i++
	}
	return r.i - from
}

func (r *jsonReader) number() (any, error) {
	from := r.i
	if r.s[r.i] == '-' {
		r.i++
	}
	leading := r.i
	n := r.digits()
	if n == 0 || n > 1 && r.s[leading] == '0' {
		return nil, r.fail(from, "a number is not written right")
	}
	plain := true
	if r.i < len(r.s) && r.s[r.i] == '.' {
		r.i++
		if r.digits() == 0 {
			return nil, r.fail(from, "a number is not written right")
		}
	}
	if r.i < len(r.s) && r.s[r.i]|0x20 == 'e' {
		plain = false
		r.i++
		if r.i < len(r.s) && (r.s[r.i] == '+' || r.s[r.i] == '-') {
			r.i++
		}
		if r.digits() == 0 {
			return nil, r.fail(from, "a number is not written right")
		}
	}
	text := r.s[from:r.i]
	if (!plain || len(text) > 300) && !numberInRange(text) {
		return nil, r.fail(from, "the number %s is out of range", shorten(text, 24))
	}
	return json.Number(text), nil
}

// numberInRange tells whether a number is neither too large nor too close to zero
// for a double, so that every part of the product can hold it.
func numberInRange(text string) bool {
	if len(text) > maxJSONNumber {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return false
	}
	mantissa := text
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa = text[:at]
	}
	return f != 0 || !strings.ContainsAny(mantissa, "123456789")
}

// shorten cuts s after n bytes at a character's edge and shows that it did.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
