package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// control is one field of a form as it is shown. Its name is input.PATH, its
// pointer the RFC 6901 pointer into the input, by which errors find it.
type control struct {
	Kind        string // text, number, long, choice, select, many, date, time, lines, json, group, rows
	Name        string
	ID          string
	Pointer     string
	Label       string
	Description string
	Hint        string
	Required    bool
	Value       string
	Type        string // of a text field: text, email, url
	Options     []option
	Controls    []*control // group
	Rows        []row
	Error       string
	More        int // rows: number of the row that "add" would make
}

// option is one answer to choose from.
type option struct {
	Value, Label string
	Chosen       bool
}

// row is one entry of a repeatable group.
type row struct {
	Number   int // from 1
	Index    int
	Controls []*control
}

// RowName is the name by which the row of an index is removed.
func (c *control) RowName(index int) string {
	name, suffix, has := strings.Cut(c.Name, "@")
	if has {
		suffix = "@" + suffix
	}
	return name + "." + strconv.Itoa(index) + suffix
}

// maxRows bounds what one form may hold; a longer list is for the API.
const maxRows = 200

// formReader reads one posted form, or fills one anew.
type formReader struct {
	values url.Values // nil: nothing posted yet, defaults stand
	zone   *time.Location
	suffix string // "@EVENT" where another event of the page has a field of the same name
	say    language
	errs   []fault.Field // what was typed and cannot be read
}

func (f *formReader) get(name string) string {
	return strings.ReplaceAll(f.values.Get(name+f.suffix), "\r\n", "\n")
}

func (f *formReader) fail(pointer, key string, args ...any) {
	f.errs = append(f.errs, fault.Field{Pointer: pointer, Detail: f.say.text(key, args...)})
}

// kindOf says how a field is put before people.
func kindOf(field *definitions.FormField) string {
	switch {
	case len(field.Enum) > 5:
		return "select"
	case len(field.Enum) > 0, field.Type == "boolean":
		return "choice"
	case field.Type == "object" && len(field.Fields) > 0:
		return "group"
	case field.Type == "array" && field.Items != nil:
		return arrayKind(field.Items)
	case field.Type == "number" || field.Type == "integer":
		return "number"
	case field.Type == "string":
		return stringKind(field)
	}
	return "json"
}

func arrayKind(item *definitions.FormField) string {
	switch kind := kindOf(item); {
	case len(item.Enum) > 0:
		return "many"
	case kind == "group":
		return "rows"
	case kind == "text" || kind == "long" || kind == "number" || kind == "date":
		return "lines"
	}
	return "json"
}

func stringKind(field *definitions.FormField) string {
	switch {
	case field.Format == "date":
		return "date"
	case field.Format == "date-time":
		return "time"
	case field.MaxLength > 200 || field.MinLength > 80 || strings.Contains(scalarText(field.Default), "\n"):
		return "long"
	}
	return "text"
}

// controls describes fields under a name ("input") and pointer ("").
func (f *formReader) controls(fields []definitions.FormField, name, pointer string, errs []fault.Field) []*control {
	list := make([]*control, 0, len(fields))
	for i := range fields {
		field := &fields[i]
		list = append(list, f.control(field, name+"."+field.Name, pointer+"/"+escapePointer(field.Name), errs))
	}
	return list
}

func (f *formReader) control(field *definitions.FormField, name, pointer string, errs []fault.Field) *control {
	c := &control{
		Kind: kindOf(field), Name: name + f.suffix, ID: controlID(name + f.suffix), Pointer: pointer, Label: field.Title,
		Description: field.Description, Required: field.Required, Error: errorAt(errs, pointer), Type: "text",
	}
	if c.Label == "" {
		c.Label = inWords(field.Name)
	}
	c.Hint = f.hint(field, c.Kind)
	if !f.fillList(c, field, name, pointer, errs) {
		f.fillScalar(c, field, name)
	}
	return c
}

func (f *formReader) fillList(c *control, field *definitions.FormField, name, pointer string, errs []fault.Field) bool {
	switch c.Kind {
	case "group":
		c.Controls = f.controls(field.Fields, name, pointer, errs)
	case "rows":
		f.rows(c, field, name, pointer, errs)
	case "many":
		chosen := f.values[name+f.suffix]
		if f.values == nil {
			for _, v := range asList(field.Default) {
				chosen = append(chosen, scalarText(v))
			}
		}
		for _, v := range field.Items.Enum {
			text := scalarText(v)
			c.Options = append(c.Options, option{Value: text, Label: inWords(text), Chosen: contains(chosen, text)})
		}
	default:
		return false
	}
	return true
}

func (f *formReader) fillScalar(c *control, field *definitions.FormField, name string) {
	c.Value = f.get(name)
	if f.values == nil {
		c.Value = f.defaultText(c.Kind, field)
	}
	switch field.Format {
	case "email":
		c.Type = "email"
	case "uri":
		c.Type = "url"
	}
	if c.Kind != "choice" && c.Kind != "select" {
		return
	}
	if field.Type == "boolean" && len(field.Enum) == 0 {
		c.Options = []option{{Value: "true", Label: f.say.text("yes")}, {Value: "false", Label: f.say.text("no")}}
	}
	for _, v := range field.Enum {
		c.Options = append(c.Options, option{Value: scalarText(v), Label: inWords(scalarText(v))})
	}
	for i := range c.Options {
		c.Options[i].Chosen = c.Options[i].Value == c.Value && c.Value != ""
	}
}

func (f *formReader) defaultText(kind string, field *definitions.FormField) string {
	switch {
	case field.Default == nil:
		return ""
	case kind == "json":
		return indentJSON(field.Default)
	case kind == "lines":
		var texts []string
		for _, v := range asList(field.Default) {
			texts = append(texts, scalarText(v))
		}
		return strings.Join(texts, "\n")
	case kind == "time":
		if t, err := time.Parse(time.RFC3339, scalarText(field.Default)); err == nil {
			return t.In(f.zone).Format("2006-01-02T15:04")
		}
	}
	return scalarText(field.Default)
}

// rows shows as many entries as were posted (or stand as default), at least one,
// and one more when "add" was pressed.
func (f *formReader) rows(c *control, field *definitions.FormField, name, pointer string, errs []fault.Field) {
	defaults := asList(field.Default)
	count := max(len(defaults), 1)
	if f.values != nil {
		count = max(f.rowCount(name), 1)
		if f.values.Get("add") == name+f.suffix {
			count = min(count+1, maxRows)
		}
	}
	for i := range count {
		inner := *f
		fields := field.Items.Fields
		if f.values == nil && i < len(defaults) {
			fields = withDefaults(fields, defaults[i])
		}
		at := strconv.Itoa(i)
		c.Rows = append(c.Rows, row{Number: i + 1, Index: i, Controls: inner.controls(fields, name+"."+at, pointer+"/"+at, errs)})
	}
	c.More = count + 1
}

// rowCount is one more than the highest index posted.
func (f *formReader) rowCount(name string) (count int) {
	for key := range f.values {
		rest, ok := strings.CutPrefix(key, name+".")
		if !ok {
			continue
		}
		index, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(index); err == nil && n >= 0 && n < maxRows {
			count = max(count, n+1)
		}
	}
	return count
}

func withDefaults(fields []definitions.FormField, value any) []definitions.FormField {
	object, _ := value.(map[string]any)
	filled := make([]definitions.FormField, len(fields))
	for i, field := range fields {
		if v, ok := object[field.Name]; ok {
			field.Default = v
		}
		filled[i] = field
	}
	return filled
}

func (f *formReader) hint(field *definitions.FormField, kind string) string {
	switch kind {
	case "number":
		return f.rangeHint(field)
	case "lines":
		return f.say.text("form.lines")
	case "json":
		return f.say.text("form.json")
	case "time":
		return f.say.text("form.zone", zoneName(f.zone))
	case "long", "text":
		if field.MaxLength > 0 {
			return f.say.text("form.atmost", field.MaxLength)
		}
	}
	return ""
}

func (f *formReader) rangeHint(field *definitions.FormField) string {
	key := "form.number."
	if field.Type == "integer" {
		key = "form.integer."
	}
	switch lowest, highest := field.Minimum, field.Maximum; {
	case lowest != "" && highest != "":
		return f.say.text(key+"between", lowest.String(), highest.String())
	case lowest != "":
		return f.say.text(key+"from", lowest.String())
	case highest != "":
		return f.say.text(key+"to", highest.String())
	}
	return f.say.text(strings.TrimSuffix(key, "."))
}

// inWords turns a name into words: "tax_id" is "Tax id".
func inWords(name string) string {
	words := strings.TrimSpace(strings.NewReplacer("_", " ", "-", " ").Replace(name))
	if words == "" {
		return name
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

func scalarText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case []any, map[string]any:
		return string(definitions.EncodeJSON(v))
	}
	return fmt.Sprint(v)
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func contains(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

func indentJSON(v any) string {
	text, err := json.MarshalIndent(json.RawMessage(definitions.EncodeJSON(v)), "", "  ")
	if err != nil {
		return string(definitions.EncodeJSON(v))
	}
	return string(text)
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// controlID makes an id that a link in the error summary can name.
func controlID(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
}

// errorAt finds the words for a pointer. Some callers of Validate begin pointers at "/input".
func errorAt(errs []fault.Field, pointer string) string {
	for _, e := range errs {
		if e.Pointer == pointer || e.Pointer == "/input"+pointer {
			return e.Detail
		}
	}
	return ""
}
