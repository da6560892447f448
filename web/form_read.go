package web

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// object reads fields into a JSON tree; what was left empty is absent. A value that
// does not read as its type stays the text that was typed, so that the schema
// refuses it in its turn; f.errs holds the better words for it.
func (f *formReader) object(fields []definitions.FormField, name, pointer string) map[string]any {
	tree := map[string]any{}
	for i := range fields {
		field := &fields[i]
		if v, ok := f.value(field, name+"."+field.Name, pointer+"/"+escapePointer(field.Name)); ok {
			tree[field.Name] = v
		}
	}
	return tree
}

func (f *formReader) value(field *definitions.FormField, name, pointer string) (any, bool) {
	switch kindOf(field) {
	case "group":
		tree := f.object(field.Fields, name, pointer)
		return tree, len(tree) > 0 || field.Required
	case "rows":
		return f.list(field, name, pointer)
	case "many":
		var list []any
		for _, typed := range f.values[name+f.suffix] {
			list = append(list, enumValue(field.Items.Enum, typed))
		}
		return list, len(list) > 0
	case "lines":
		return f.lines(field, name, pointer)
	}
	typed := f.get(name)
	if strings.TrimSpace(typed) == "" {
		return nil, false
	}
	return f.scalar(field, typed, pointer), true
}

// scalar reads one value.
func (f *formReader) scalar(field *definitions.FormField, typed, pointer string) any {
	switch kindOf(field) {
	case "choice", "select":
		if len(field.Enum) > 0 {
			return enumValue(field.Enum, typed)
		}
		if typed == "true" || typed == "false" {
			return typed == "true"
		}
		f.fail(pointer, "form.bad.choice")
	case "number":
		return f.number(field, typed, pointer)
	case "date":
		return strings.TrimSpace(typed)
	case "time":
		return f.time(strings.TrimSpace(typed), pointer)
	case "json":
		return f.json(field, typed, pointer)
	}
	return typed
}

func (f *formReader) number(field *definitions.FormField, typed, pointer string) any {
	n, ok := parseNumber(typed)
	if !ok {
		key := "form.bad.number"
		if strings.Count(typed, ",") == 1 {
			key = "form.bad.comma"
		}
		f.fail(pointer, key, strings.TrimSpace(typed))
		return typed
	}
	if field.Type == "integer" && strings.ContainsAny(n.String(), ".eE") {
		whole, ok := wholeNumber(n.String())
		if !ok {
			f.fail(pointer, "form.bad.integer", strings.TrimSpace(typed))
		}
		return whole
	}
	return n
}

// wholeNumber takes ".00" away; what is not whole stays as it is.
func wholeNumber(text string) (json.Number, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if strings.ContainsAny(text, "eE") || strings.Trim(fraction, "0") != "" {
		return json.Number(text), false
	}
	return json.Number(whole), true
}

// time reads what a browser sends ("2026-12-03T18:00", the reader's zone) or RFC 3339.
func (f *formReader) time(typed, pointer string) any {
	if _, err := time.Parse(time.RFC3339, typed); err == nil {
		return typed
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, typed, f.zone); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	f.fail(pointer, "form.bad.time")
	return typed
}

// json reads a JSON value. Where any value may stand, plain words are a string.
func (f *formReader) json(field *definitions.FormField, typed, pointer string) any {
	v, err := definitions.DecodeJSON([]byte(typed))
	if err == nil {
		return v
	}
	if field.Type != "" || strings.ContainsAny(strings.TrimSpace(typed)[:1], `{["`) {
		f.fail(pointer, "form.bad.json", fault.As(err).Message)
	}
	return typed
}

// lines reads one value per line.
func (f *formReader) lines(field *definitions.FormField, name, pointer string) (any, bool) {
	list := []any{}
	for _, line := range strings.Split(f.get(name), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, f.scalar(field.Items, line, pointer+"/"+strconv.Itoa(len(list))))
		}
	}
	return list, len(list) > 0
}

// list reads the rows; one in which nothing was typed does not count.
func (f *formReader) list(field *definitions.FormField, name, pointer string) (any, bool) {
	list := []any{}
	for i := range f.rowCount(name) {
		at := "." + strconv.Itoa(i)
		if entry := f.object(field.Items.Fields, name+at, pointer+"/"+strconv.Itoa(len(list))); len(entry) > 0 {
			list = append(list, entry)
		}
	}
	return list, len(list) > 0
}

func enumValue(enum []any, typed string) any {
	for _, v := range enum {
		if scalarText(v) == typed {
			return v
		}
	}
	return typed
}
