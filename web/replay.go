package web

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"vobo/internal/definitions"
)

// sameInput tells whether a form repeats the input that was recorded: by it a second
// press of the button gets its first answer though the form is no longer offered.
// Values are compared as they are typed: 5, 5.0 and "5" are the same.
func sameInput(values url.Values, recorded any) bool {
	typed, kept := map[string]string{}, map[string]string{}
	for key, v := range values {
		rest, ok := strings.CutPrefix(key, "input.")
		if !ok {
			continue
		}
		rest, _, _ = strings.Cut(rest, "@")
		text := strings.ReplaceAll(strings.Join(v, "\n"), "\r\n", "\n")
		if tree, err := definitions.DecodeJSON([]byte(text)); err == nil && isTree(tree) {
			flatten(tree, rest, typed)
			continue
		}
		typed[rest] = comparison(text)
	}
	flatten(recorded, "", kept)
	blank := func(_, v string) bool { return v == "" }
	maps.DeleteFunc(typed, blank)
	maps.DeleteFunc(kept, blank)
	return maps.Equal(typed, kept)
}

func isTree(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// comparison is the form in which two values are equal to a reader.
func comparison(text string) string {
	text = strings.TrimSpace(text)
	if n, ok := parseNumber(text); ok {
		return string(definitions.CanonicalJSON(n))
	}
	return text
}

// flatten lists the leaves by their path; a list of plain values is one leaf.
func flatten(v any, at string, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			flatten(child, strings.TrimPrefix(at+"."+key, "."), into)
		}
	case []any:
		if slices.ContainsFunc(v, isTree) {
			for i, child := range v {
				flatten(child, at+"."+strconv.Itoa(i), into)
			}
			return
		}
		texts := make([]string, len(v))
		for i, e := range v {
			texts[i] = comparison(scalarText(e))
		}
		into[at] = strings.Join(texts, "\n")
	default:
		into[at] = comparison(scalarText(v))
	}
}
