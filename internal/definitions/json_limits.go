package definitions

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"vobo/internal/fault"
)

// CheckJSON tells whether a tree keeps what DecodeJSON promises: at most 64 levels,
// numbers in range, texts that are UTF-8 without NUL. It is for trees that were put
// together from something else (a form's fields, computed values); what breaks these
// rules could be stored but not be read again. The error is a *fault.Error of code
// malformed that names the place.
func CheckJSON(v any) error {
	if at, detail := brokenJSON(v, 0); detail != "" {
		if len(at) > 200 {
			at = shorten(at, 200)
		}
		return fault.New(fault.Malformed, "This cannot be taken at %q: %s.", at, detail)
	}
	return nil
}

// brokenJSON finds the first place (an RFC 6901 pointer) that breaks a rule; detail is "" where none does.
func brokenJSON(v any, depth int) (at, detail string) {
	switch v := v.(type) {
	case string:
		return "", brokenText(v)
	case json.Number:
		if text := v.String(); len(text) > 300 || strings.ContainsAny(text, "eE") {
			if !numberInRange(text) {
				return "", "the number is out of range"
			}
		}
	case map[string]any:
		if depth == maxJSONDepth {
			return "", "there are more than 64 levels"
		}
		for key, child := range v {
			if detail := brokenText(key); detail != "" {
				return "", "in a name, " + detail
			}
			if at, detail := brokenJSON(child, depth+1); detail != "" {
				return "/" + key + at, detail
			}
		}
	case []any:
		if depth == maxJSONDepth {
			return "", "there are more than 64 levels"
		}
		for _, child := range v {
			if at, detail := brokenJSON(child, depth+1); detail != "" {
				return "/…" + at, detail
			}
		}
	}
	return "", ""
}

func brokenText(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "a character is not valid UTF-8"
	case strings.IndexByte(s, 0) >= 0:
		return "the character NUL is not allowed"
	}
	return ""
}
