package fsm

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// copyTree copies a JSON tree; nothing of the copy is shared with it but scalars.
func copyTree(v any) any {
	switch t := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(t))
		for k, e := range t {
			c[k] = copyTree(e)
		}
		return c
	case []any:
		c := make([]any, len(t))
		for i, e := range t {
			c[i] = copyTree(e)
		}
		return c
	}
	return v
}

// treeSize is about the length of a tree as JSON, in bytes.
func treeSize(v any) int {
	switch t := v.(type) {
	case map[string]any:
		n := 2
		for k, e := range t {
			n += len(k) + 4 + treeSize(e)
		}
		return n
	case []any:
		n := 2
		for _, e := range t {
			n += 1 + treeSize(e)
		}
		return n
	case string:
		return len(t) + 2
	case json.Number:
		return len(t)
	}
	return 5
}

// assignment is one data path with the value that it gets.
type assignment struct {
	path   definitions.Path
	value  any
	remove bool
}

// apply writes a move's documents, edited fields, `set` and `unset` to the data.
// All values see the data before; the result satisfies schema, checks and limits, or
// nothing has changed and the event is refused.
func (p *planner) apply(m *move) error {
	list, err := p.assignments(m)
	if err != nil || len(list) == 0 && len(p.ev.Documents) == 0 {
		return err
	}
	env := p.present()
	before := p.inst.Data
	after, _ := copyTree(before).(map[string]any)
	if after == nil {
		after = map[string]any{}
	}
	pointers := make([]string, 0, len(list))
	for _, rule := range m.documents {
		if document, given := p.ev.Documents[rule.Name]; given {
			after[rule.Name] = copyTree(document)
			p.changes = append(p.changes, Change{Pointer: "/" + rule.Name, Before: before[rule.Name], After: document})
		}
	}
	for _, a := range list {
		pointers = append(pointers, a.path.Pointer(env))
		if a.remove {
			a.path.Unset(after, env)
			continue
		}
		if err := a.path.Set(after, a.value, env); err != nil {
			return err
		}
	}
	for i, a := range list {
		was, _ := a.path.Get(before, env)
		is, _ := a.path.Get(after, env)
		if !reflect.DeepEqual(was, is) && !slices.Contains(pointers[:i], pointers[i]) {
			p.changes = append(p.changes, Change{Pointer: pointers[i], Before: was, After: is})
		}
	}
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return p.adopt(after)
}

func (p *planner) assignments(m *move) ([]assignment, error) {
	env := p.present()
	var list []assignment
	input, _ := p.ev.Input.(map[string]any)
	for _, path := range m.edit {
		value, given := path.Get(input, env)
		list = append(list, assignment{path: path, value: value, remove: !given})
	}
	for _, path := range m.unset {
		list = append(list, assignment{path: path, remove: true})
	}
	for i := range m.set {
		value, err := m.set[i].Value.Eval(env)
		if err != nil {
			return nil, err
		}
		list = append(list, assignment{path: m.set[i].Path, value: value})
	}
	return list, nil
}

// adopt checks data and makes them the instance's.
func (p *planner) adopt(data map[string]any) error {
	if p.def.Data != nil {
		if fields := p.def.Data.Validate(data); len(fields) > 0 {
			return invalid("The data do not fit.", fields...)
		}
	}
	if limit := p.def.Limits.DataBytes; limit > 0 {
		if size := treeSize(data); size > limit {
			return fault.New(fault.LimitExceeded, "The data of this instance would take %d bytes; its definition allows %d.", size, limit)
		}
	}
	if err := definitions.CheckJSON(data); err != nil { // what a value was put into may be deep already
		return fault.New(fault.LimitExceeded, "The data of this instance would break a limit. %s", fault.As(err).Message)
	}
	p.inst.Data, p.step.DataChanged = data, true
	p.shown = nil
	return p.check(p.def.Check, p.present())
}

// check runs rules with words for people.
func (p *planner) check(rules []definitions.Check, env *definitions.Env) error {
	var fields []fault.Field
	for i := range rules {
		holds, err := rules[i].That.Bool(env)
		if err != nil {
			return err
		}
		if holds {
			continue
		}
		say, err := rules[i].Say.In(p.ev.Locale, env)
		if err != nil {
			return err
		}
		if say == "" {
			say = "This is not allowed: " + rules[i].That.Text
		}
		fields = append(fields, fault.Field{Pointer: rules[i].At, Detail: say})
	}
	if len(fields) > 0 {
		return invalid(fields[0].Detail, fields...)
	}
	return nil
}

func invalid(message string, fields ...fault.Field) error {
	return fault.New(fault.InvalidInput, "%s", message).With(fields...)
}

// examine checks an event's input, comment and documents: 422 with every error at once.
func (p *planner) examine(e *definitions.Event) error {
	fields := p.inputFields(e)
	fields = append(fields, commentFields(e, p.ev.Comment)...)
	fields = append(fields, documentFields(e, p.ev.Documents)...)
	if len(fields) > 0 {
		return invalid("Something is missing or not in the right form.", fields...)
	}
	return p.check(e.Check, p.present())
}

func (p *planner) inputFields(e *definitions.Event) []fault.Field {
	schema := e.Form
	if schema == nil && len(e.Edit) > 0 {
		schema = p.def.Data.Subset(e.Edit)
	}
	if schema == nil {
		if p.ev.Actor.Kind == ActorPerson && !empty(p.ev.Input) {
			return []fault.Field{{Pointer: "", Detail: "This event takes no input."}}
		}
		return nil
	}
	if p.ev.Input == nil {
		ev := *p.ev
		ev.Input = map[string]any{}
		p.ev, p.env.Input = &ev, ev.Input
	}
	return schema.Validate(p.ev.Input)
}

func empty(input any) bool {
	m, ok := input.(map[string]any)
	return input == nil || ok && len(m) == 0
}

func commentFields(e *definitions.Event, comment string) []fault.Field {
	switch {
	case e.Comment == definitions.CommentRequired && blank(comment):
		return []fault.Field{{Pointer: "/comment", Detail: "Type a comment: this answer needs a reason."}}
	case e.Comment == definitions.CommentNone && comment != "":
		return []fault.Field{{Pointer: "/comment", Detail: "This answer takes no comment."}}
	}
	return nil
}

func blank(s string) bool {
	for _, r := range s {
		if r != ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\u00a0' && r != '\u200b' {
			return false
		}
	}
	return true
}

func documentFields(e *definitions.Event, given map[string]any) []fault.Field {
	var fields []fault.Field
	known := map[string]bool{}
	for _, rule := range e.Documents {
		known[rule.Name] = true
		document, ok := given[rule.Name]
		switch {
		case ok:
			fields = append(fields, documentFault("/documents/"+rule.Name, document)...)
		case rule.Required:
			fields = append(fields, fault.Field{Pointer: "/documents/" + rule.Name, Detail: "The document " + rule.Name + " is missing."})
		}
	}
	for _, name := range sortedKeys(given) {
		if !known[name] {
			fields = append(fields, fault.Field{Pointer: "/documents/" + name, Detail: "This answer takes no document " + strconv.Quote(name) + "."})
		}
	}
	return fields
}

var (
	sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)
	mediaType  = regexp.MustCompile(`^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(\s*;.*)?$`)
	uriText    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[^\s]+$`)
)

// documentFault checks a reference {name, media_type, size, sha256, uri}.
func documentFault(at string, document any) []fault.Field {
	d, ok := document.(map[string]any)
	if !ok {
		return []fault.Field{{Pointer: at, Detail: "Give the document as {name, media_type, size, sha256, uri}."}}
	}
	var fields []fault.Field
	bad := func(name, detail string) {
		fields = append(fields, fault.Field{Pointer: at + "/" + name, Detail: detail})
	}
	text := func(name string, fits func(string) bool, detail string) {
		if s, ok := d[name].(string); !ok || !fits(s) {
			bad(name, detail)
		}
	}
	text("name", func(s string) bool { return !blank(s) && len(s) <= 500 }, "Give the document's name.")
	text("media_type", mediaType.MatchString, "Give a media type such as application/pdf.")
	if n, ok := d["size"].(json.Number); !ok {
		bad("size", "Give the size in bytes.")
	} else if size, err := strconv.ParseInt(n.String(), 10, 64); err != nil || size < 0 {
		bad("size", "Give the size in bytes.")
	}
	text("sha256", sha256Text.MatchString, "Give the SHA-256 as 64 lower-case hexadecimal digits.")
	text("uri", uriText.MatchString, "Give the URI under which the document is kept.")
	for _, key := range sortedKeys(d) {
		switch key {
		case "name", "media_type", "size", "sha256", "uri":
		default:
			bad(key, "A document has no field "+strconv.Quote(key)+".")
		}
	}
	return fields
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
