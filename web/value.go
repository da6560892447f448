package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// Shown values are cut where they would push what is below off the screen; the rest
// is one press away.
const (
	longText  = 280
	longList  = 8
	deepest   = 4
	manyCells = 6
)

// numberHTML keeps every digit and sets groups of three apart without adding characters.
func numberHTML(n any) template.HTML {
	text := plainText(scalarText(n))
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "−", text[1:]
	}
	whole, fraction, point := strings.Cut(text, ".")
	var b strings.Builder
	b.WriteString(`<span class="num">` + sign)
	if len(whole) < 5 || !onlyDigits(whole) {
		b.WriteString(template.HTMLEscapeString(whole))
	} else {
		first := (len(whole)-1)%3 + 1
		b.WriteString(whole[:first])
		for i := first; i < len(whole); i += 3 {
			b.WriteString(`<span class="grp">` + whole[i:i+3] + `</span>`)
		}
	}
	if point {
		b.WriteString("." + template.HTMLEscapeString(fraction))
	}
	b.WriteString("</span>")
	return template.HTML(b.String())
}

// Value shows a JSON tree.
func (v *view) Value(tree any) template.HTML {
	var b strings.Builder
	v.write(&b, tree, 0)
	return template.HTML(b.String())
}

// Raw shows JSON text as Value does.
func (v *view) Raw(raw json.RawMessage) (template.HTML, error) {
	if len(raw) == 0 {
		return "", nil
	}
	tree, err := definitions.DecodeJSON(raw)
	if err != nil {
		return "", err
	}
	return v.Value(tree), nil
}

func (v *view) write(b *strings.Builder, tree any, depth int) {
	switch tree := tree.(type) {
	case nil:
		b.WriteString(`<span class="none">` + template.HTMLEscapeString(v.Text("value.none")) + `</span>`)
	case bool:
		key := "no"
		if tree {
			key = "yes"
		}
		b.WriteString(template.HTMLEscapeString(v.Text(key)))
	case string:
		v.writeText(b, tree)
	case map[string]any:
		v.writeObject(b, tree, depth)
	case []any:
		v.writeList(b, tree, depth)
	default:
		b.WriteString(string(numberHTML(tree)))
	}
}

var instant = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$`)

func (v *view) writeText(b *strings.Builder, text string) {
	if instant.MatchString(text) {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			b.WriteString(string(v.clock.element(t, v.clock.full(t))))
			return
		}
	}
	if text == "" {
		v.write(b, nil, 0)
		return
	}
	head, cut := shorten(text)
	if !cut {
		b.WriteString(`<span class="text">` + string(userText(text)) + `</span>`)
		return
	}
	v.fold(b, `<span class="text">`+string(userText(head))+` …</span>`, v.Text("value.all", utf8.RuneCountInString(text)),
		`<span class="text">`+string(userText(text))+`</span>`)
}

// shorten keeps the beginning of a long text, at most six lines of it.
func shorten(text string) (head string, cut bool) {
	end, count := 0, 0
	for at, r := range text {
		if r == '\n' {
			count++
		}
		if count == 6 || utf8.RuneCountInString(text[:at]) >= longText {
			return strings.TrimSpace(text[:at]), true
		}
		if end = at + utf8.RuneLen(r); end > 4*longText*6 {
			return text[:at], true
		}
	}
	return text, false
}

func (v *view) fold(b *strings.Builder, head, summary, whole string) {
	b.WriteString(head + `<details class="more"><summary>` + template.HTMLEscapeString(summary) + `</summary>` + whole + `</details>`)
}

func (v *view) writeObject(b *strings.Builder, object map[string]any, depth int) {
	if len(object) == 0 {
		v.write(b, nil, depth)
		return
	}
	if v.writeDocument(b, object) {
		return
	}
	if depth >= deepest {
		b.WriteString("<code>" + string(userText(string(definitions.EncodeJSON(object)))) + "</code>")
		return
	}
	b.WriteString(`<dl class="nested">`)
	for _, key := range sortedKeys(object) {
		b.WriteString("<div><dt>" + string(userText(inWords(key))) + "</dt><dd>")
		v.write(b, object[key], depth+1)
		b.WriteString("</dd></div>")
	}
	b.WriteString("</dl>")
}

// writeDocument shows a reference to a document: its name, its size, and the host it lies on.
func (v *view) writeDocument(b *strings.Builder, object map[string]any) bool {
	name, named := object["name"].(string)
	address, placed := object["uri"].(string)
	if !named || !placed {
		return false
	}
	b.WriteString(`<span class="document">` + string(icon("document")))
	u, err := url.Parse(address)
	if err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		b.WriteString(`<a href="` + template.HTMLEscapeString(u.String()) + `" rel="noopener noreferrer nofollow" target="_blank">` + string(userText(name)) + `</a><span class="hint"><span>` + string(v.mustT("document.at", u.Host)) + `</span>`)
	} else {
		b.WriteString(string(userText(name)) + ` <code>` + string(userText(address)) + `</code><span class="hint">`)
	}
	for _, key := range []string{"media_type", "size", "sha256"} {
		if text := scalarText(object[key]); text != "" {
			b.WriteString(`<span>` + string(v.mustT("document."+key, text)) + `</span> `)
		}
	}
	b.WriteString(`</span></span>`)
	return true
}

func (v *view) mustT(key string, args ...any) template.HTML {
	text, err := v.T(key, args...)
	if err != nil {
		return userText(key)
	}
	return text
}

func (v *view) writeList(b *strings.Builder, list []any, depth int) {
	if len(list) == 0 {
		v.write(b, nil, depth)
		return
	}
	if depth >= deepest {
		b.WriteString("<code>" + string(userText(string(definitions.EncodeJSON(list)))) + "</code>")
		return
	}
	part := func(list []any) string {
		var part strings.Builder
		if columns := columnsOf(list); columns != nil {
			v.writeTable(&part, list, columns, depth)
			return part.String()
		}
		part.WriteString(`<ul class="values">`)
		for _, entry := range list {
			part.WriteString("<li>")
			v.write(&part, entry, depth+1)
			part.WriteString("</li>")
		}
		part.WriteString("</ul>")
		return part.String()
	}
	if len(list) <= longList {
		b.WriteString(part(list))
		return
	}
	v.fold(b, part(list[:longList]), v.Text("value.rest", len(list)-longList), part(list[longList:]))
}

// columnsOf gives the columns of a list of like objects; nil where it is none.
func columnsOf(list []any) []string {
	seen := map[string]bool{}
	for _, entry := range list {
		object, ok := entry.(map[string]any)
		if !ok {
			return nil
		}
		for key := range object {
			seen[key] = true
		}
	}
	columns := make([]string, 0, len(seen))
	for key := range seen {
		columns = append(columns, key)
	}
	slices.Sort(columns)
	if len(columns) == 0 || len(columns) > manyCells {
		return nil
	}
	return columns
}

func (v *view) writeTable(b *strings.Builder, list []any, columns []string, depth int) {
	b.WriteString(`<div class="scroll"><table><thead><tr>`)
	for _, column := range columns {
		b.WriteString(`<th scope="col">` + string(userText(inWords(column))) + `</th>`)
	}
	b.WriteString("</tr></thead><tbody>")
	for _, entry := range list {
		b.WriteString("<tr>")
		object, _ := entry.(map[string]any)
		for _, column := range columns {
			b.WriteString("<td>")
			if value, ok := object[column]; ok {
				v.write(b, value, depth+1)
			}
			b.WriteString("</td>")
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table></div>")
}

// Facts makes facts of an object's fields, for data that has no labels of its own.
func factsOf(raw json.RawMessage) ([]fsm.Fact, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	tree, err := definitions.DecodeJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("data of an instance: %w", err)
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return []fsm.Fact{{Label: "Value", Value: tree}}, nil
	}
	facts := make([]fsm.Fact, 0, len(object))
	for _, key := range sortedKeys(object) {
		facts = append(facts, fsm.Fact{Path: key, Label: inWords(key), Value: object[key]})
	}
	return facts, nil
}

func sortedKeys(object map[string]any) []string {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
