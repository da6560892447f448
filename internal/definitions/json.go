package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// EncodeJSON writes a tree with sorted keys, numbers as they are, no HTML escaping, no trailing newline.
// A value that is not of a tree (see Env) is written as encoding/json writes it;
// one that encoding/json refuses too is a mistake of the program and panics.
func EncodeJSON(v any) []byte { return appendJSON(make([]byte, 0, 256), v, false) }

// CanonicalJSON is EncodeJSON with exact decimal numbers in one form (1.0, 1e0 and 1 are the same).
// The form of a number is a plain decimal without exponent, without leading or
// trailing zeros and without a minus at zero.
func CanonicalJSON(v any) []byte { return appendJSON(make([]byte, 0, 256), v, true) }

// CloneJSON copies a tree, so that a change of one does not show in the other.
func CloneJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = CloneJSON(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = CloneJSON(e)
		}
		return l
	}
	return v
}

func appendJSON(b []byte, v any, canonical bool) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return appendJSONString(b, v)
	case json.Number:
		return appendJSONNumber(b, string(v), canonical)
	case map[string]any:
		return appendJSONObject(b, v, canonical)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, e, canonical)
		}
		return append(b, ']')
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("definitions: %T is not of a JSON tree: %v", v, err))
	}
	return append(b, text...)
}

func appendJSONObject(b []byte, m map[string]any, canonical bool) []byte {
	var few [16]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONString(b, k)
		b = append(b, ':')
		b = appendJSON(b, m[k], canonical)
	}
	return append(b, '}')
}

func appendJSONNumber(b []byte, n string, canonical bool) []byte {
	if n == "" {
		n = "0"
	}
	if canonical {
		n = canonicalNumber(n)
	}
	return append(b, n...)
}

const hexDigits = "0123456789abcdef"

func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += size
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// maxPlainDigits bounds a number written without exponent; DecodeJSON lets
// nothing in that needs more.
const maxPlainDigits = 1000

// canonicalNumber gives the one form of an exact decimal number.
func canonicalNumber(n string) string {
	sign, digits, scale, ok := splitNumber(n)
	if !ok {
		return n
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0"
	}
	for scale > 0 && strings.HasSuffix(digits, "0") {
		digits, scale = digits[:len(digits)-1], scale-1
	}
	if text, fits := placePoint(digits, scale); fits {
		return sign + text
	}
	trimmed := strings.TrimRight(digits, "0")
	return sign + trimmed + "e" + strconv.Itoa(len(digits)-len(trimmed)-scale)
}

// plainNumber gives the number without exponent, its digits otherwise as written.
func plainNumber(n string) string {
	if !strings.ContainsAny(n, "eE") {
		return n
	}
	return canonicalNumber(n)
}

// splitNumber takes a JSON number apart: value = sign digits · 10^-scale.
func splitNumber(n string) (sign, digits string, scale int, ok bool) {
	if strings.HasPrefix(n, "-") {
		sign, n = "-", n[1:]
	}
	mantissa, exponent := n, 0
	if at := strings.IndexAny(n, "eE"); at >= 0 {
		e, err := strconv.Atoi(n[at+1:])
		if err != nil || e > 1<<30 || e < -1<<30 {
			return "", "", 0, false
		}
		mantissa, exponent = n[:at], e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return sign, whole + fraction, len(fraction) - exponent, true
}

func placePoint(digits string, scale int) (string, bool) {
	switch {
	case scale > maxPlainDigits || scale < -maxPlainDigits:
		return "", false
	case scale <= 0:
		return digits + strings.Repeat("0", -scale), true
	case scale >= len(digits):
		return "0." + strings.Repeat("0", scale-len(digits)) + digits, true
	}
	return digits[:len(digits)-scale] + "." + digits[len(digits)-scale:], true
}

// plainFloat is the shortest plain decimal that reads back as f.
func plainFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
