package web

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// decision is the form by which one event is chosen: on a link's page, in the
// inbox, on the instance page. No event is ever chosen beforehand.
type decision struct {
	Action       string // where the form goes
	Heading      string // key of the question
	Hidden       []hiddenField
	Digest       string
	Choices      []choice
	Summary      []mistake
	Notice       string // a refusal as a whole
	ChoiceError  string
	Comment      string
	CommentShown bool
	CommentHint  string
	CommentError string
	Person       approval.ActorView
	Link         bool // shown to whoever holds a link: "not you?"
}

type hiddenField struct{ Name, Value string }

// mistake is one line of the error summary; Target is the id of its field.
type mistake struct{ Target, Text string }

// choice is one event with its fields.
type choice struct {
	approval.OfferedEvent
	ID       string
	Chosen   bool
	Controls []*control
	Papers   []paper
}

// paper is a document that goes with an event, by reference.
type paper struct {
	Need       approval.DocumentNeed
	Prefix     string // document.NAME
	ID         string
	Label      string
	Name, URI  string
	Error      string
	URIPointer string
}

// asked is what a form is made from and read by.
type asked struct {
	events []approval.OfferedEvent
	zone   *time.Location
	say    language
}

// suffixOf keeps the fields of two events apart where both have one of the same name.
func (a asked) suffixOf(event string) string {
	seen := map[string]bool{}
	for _, e := range a.events {
		for _, field := range e.Fields {
			if e.Name != event {
				seen[field.Name] = true
			}
		}
	}
	for _, e := range a.events {
		if e.Name != event {
			continue
		}
		for _, field := range e.Fields {
			if seen[field.Name] {
				return "@" + event
			}
		}
	}
	return ""
}

func (a asked) reader(values url.Values, event string) *formReader {
	suffix := a.suffixOf(event)
	if suffix == "" || values == nil {
		return &formReader{values: values, zone: a.zone, suffix: suffix, say: a.say}
	}
	own := maps.Clone(values)
	for key, v := range values {
		if strings.HasPrefix(key, "input.") && !strings.Contains(key, "@") && !own.Has(key+suffix) {
			own[key+suffix] = v
		}
	}
	return &formReader{values: own, zone: a.zone, suffix: suffix, say: a.say}
}

// form describes the form; values is what was posted, nil at first, and problem why
// it comes back, nil at first.
func (a asked) form(values url.Values, problem *fault.Error) decision {
	d := decision{Heading: "decide.heading", Comment: values.Get("comment")}
	var errs []fault.Field
	if problem != nil {
		errs = problem.Fields
	}
	var needed []string
	for _, e := range a.events {
		reader := a.reader(values, e.Name)
		c := choice{OfferedEvent: e, ID: controlID("event-" + e.Name), Chosen: e.Name == values.Get("event") && len(values["event"]) == 1}
		mine := errs
		if values != nil && !c.Chosen {
			mine = nil
		}
		c.Controls = reader.controls(e.Fields, "input", "", mine)
		for _, need := range e.Documents {
			c.Papers = append(c.Papers, a.paper(need, values, mine))
		}
		d.CommentShown = d.CommentShown || e.Comment != "none"
		if e.Comment == "required" {
			needed = append(needed, e.Title)
		}
		d.Choices = append(d.Choices, c)
	}
	if len(needed) > 0 && len(needed) == len(a.events) {
		d.CommentHint = a.say.text("decide.comment.all")
	} else if len(needed) > 0 {
		d.CommentHint = a.say.text("decide.comment.some", strings.Join(needed, ", "))
	}
	if problem != nil {
		d.explain(problem)
	}
	return d
}

func (a asked) paper(need approval.DocumentNeed, values url.Values, errs []fault.Field) paper {
	prefix := "document." + need.Name
	p := paper{Need: need, Prefix: prefix, ID: controlID(prefix), Label: inWords(need.Name), Name: values.Get(prefix + ".name"), URI: values.Get(prefix + ".uri"), URIPointer: "/documents/" + need.Name}
	for _, e := range errs {
		if rest, ok := strings.CutPrefix(e.Pointer, p.URIPointer); ok && (rest == "" || rest[0] == '/') {
			p.Error = e.Detail
		}
	}
	return p
}

// explain puts a refusal into the summary, each line with the field it belongs to.
func (d *decision) explain(problem *fault.Error) {
	targets := map[string]string{}
	for _, c := range d.Choices {
		if c.Chosen {
			collectTargets(c.Controls, targets)
			for _, p := range c.Papers {
				targets[p.URIPointer] = p.ID + "-uri"
			}
		}
	}
	for _, e := range problem.Fields {
		switch e.Pointer {
		case "/event":
			d.ChoiceError = e.Detail
			if len(d.Choices) > 0 {
				d.Summary = append(d.Summary, mistake{Target: d.Choices[0].ID, Text: e.Detail})
				continue
			}
		case "/comment":
			d.CommentError = e.Detail
			d.Summary = append(d.Summary, mistake{Target: "comment", Text: e.Detail})
			continue
		}
		d.Summary = append(d.Summary, mistake{Target: nearest(targets, strings.TrimPrefix(e.Pointer, "/input")), Text: e.Detail})
	}
	if len(d.Summary) == 0 {
		d.Notice = problem.Message
	}
}

func collectTargets(controls []*control, targets map[string]string) {
	for _, c := range controls {
		targets[c.Pointer] = c.ID
		collectTargets(c.Controls, targets)
		for _, r := range c.Rows {
			collectTargets(r.Controls, targets)
		}
	}
}

// nearest finds the field of a pointer, or of what holds it.
func nearest(targets map[string]string, pointer string) string {
	for strings.HasPrefix(pointer, "/") {
		if id, ok := targets[pointer]; ok {
			return id
		}
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
	return ""
}

// read turns a posted form into a request. The fields of events that were not chosen
// do not count. mistakes are what cannot be read or is missing, in the form's order.
func (a asked) read(values url.Values) (req approval.RaiseRequest, mistakes []fault.Field) {
	req = approval.RaiseRequest{Digest: values.Get("digest"), Comment: tidyComment(values.Get("comment"))}
	if len(values["event"]) != 1 || values.Get("event") == "" {
		key := "decide.none"
		if len(values["event"]) > 1 {
			key = "decide.several"
		}
		return req, []fault.Field{{Pointer: "/event", Detail: a.say.text(key)}}
	}
	req.Event = values.Get("event")
	for i := range a.events {
		if e := &a.events[i]; e.Name == req.Event {
			mistakes = a.readEvent(&req, e, values)
		}
	}
	extra := a.unknown(values)
	if tree, ok := req.Input.(map[string]any); ok || len(extra) > 0 {
		if tree == nil {
			tree = map[string]any{}
		}
		for _, key := range extra {
			if strings.Count(key, ".") > longestPath {
				continue // foreign says so
			}
			putPath(tree, strings.Split(strings.TrimPrefix(key, "input."), "."), values.Get(key))
		}
		req.Input = tree
	}
	return req, append(mistakes, a.foreign(values)...)
}

func (a asked) readEvent(req *approval.RaiseRequest, e *approval.OfferedEvent, values url.Values) []fault.Field {
	reader := a.reader(values, e.Name)
	if len(e.Form) > 0 || len(e.Fields) > 0 {
		tree := reader.object(e.Fields, "input", "")
		reader.missing(e.Fields, tree, "")
		req.Input = tree
	}
	if e.Comment == "required" && req.Comment == "" {
		reader.fail("/comment", "decide.comment.missing", e.Title)
	}
	for _, need := range e.Documents {
		reader.document(req, need)
	}
	return reader.errs
}

// missing names the required fields that were left empty.
func (f *formReader) missing(fields []definitions.FormField, tree map[string]any, pointer string) {
	for i := range fields {
		field, at := &fields[i], pointer+"/"+escapePointer(fields[i].Name)
		v, there := tree[field.Name]
		if !there {
			if field.Required {
				label := field.Title
				if label == "" {
					label = inWords(field.Name)
				}
				f.fail(at, "form.required", label)
			}
			continue
		}
		if object, ok := v.(map[string]any); ok {
			f.missing(field.Fields, object, at)
		}
		if list, ok := v.([]any); ok && field.Items != nil {
			for n, entry := range list {
				if object, ok := entry.(map[string]any); ok {
					f.missing(field.Items.Fields, object, at+"/"+strconv.Itoa(n))
				}
			}
		}
	}
}

// document reads a reference: a name and the address where the document lies.
func (f *formReader) document(req *approval.RaiseRequest, need approval.DocumentNeed) {
	name, uri := strings.TrimSpace(f.values.Get("document."+need.Name+".name")), strings.TrimSpace(f.values.Get("document."+need.Name+".uri"))
	pointer := "/documents/" + need.Name
	if name == "" && uri == "" {
		if need.Required {
			f.fail(pointer, "form.document.missing", inWords(need.Name))
		}
		return
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		f.fail(pointer, "form.document.link")
		return
	}
	if name == "" {
		if name = path.Base(u.Path); name == "/" || name == "." {
			name = u.Host
		}
	}
	if req.Documents == nil {
		req.Documents = map[string]any{}
	}
	req.Documents[need.Name] = map[string]any{"name": name, "uri": uri}
}

// unknown lists the input fields posted that no offered event has: the schema judges them.
func (a asked) unknown(values url.Values) []string {
	var extra []string
	for key := range values {
		rest, ok := strings.CutPrefix(key, "input.")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, "@")
		if !slices.ContainsFunc(a.events, func(e approval.OfferedEvent) bool { return knows(e.Fields, name) }) {
			extra = append(extra, key)
		}
	}
	slices.Sort(extra)
	return extra
}

// knows tells whether fields have a field of that path: a.b in a group, a.3.b in a repeatable one.
func knows(fields []definitions.FormField, path string) bool {
	for i := range fields {
		field := &fields[i]
		rest, below := strings.CutPrefix(path, field.Name+".")
		switch kind := kindOf(field); {
		case path == field.Name:
			return true
		case !below:
		case kind == "group" && knows(field.Fields, rest):
			return true
		case kind == "rows":
			index, inner, _ := strings.Cut(rest, ".")
			if _, err := strconv.Atoi(index); err == nil && knows(field.Items.Fields, inner) {
				return true
			}
		}
	}
	return false
}

// longestPath bounds the path of a field: no form of ours goes deeper, and what is deeper
// could not be read again.
const longestPath = 32

// formOwn are the fields of every form of ours.
var formOwn = []string{"event", "comment", "digest", "csrf", "once", "add", "remove", "folder", "q", "reason", "outcome", "result", "key"}

// foreign refuses fields that no form of ours has.
func (a asked) foreign(values url.Values) (errs []fault.Field) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		known := contains(formOwn, key) || strings.HasPrefix(key, "input.") || strings.HasPrefix(key, "document.")
		if !known || strings.Count(key, ".") > longestPath {
			errs = append(errs, fault.Field{Pointer: "/" + escapePointer(key), Detail: a.say.text("form.unknown", plainText(shortName(key)))})
		}
	}
	return errs
}

// shortName cuts a field's name that a message repeats.
func shortName(name string) string {
	if runes := []rune(name); len(runes) > 80 {
		return string(runes[:80]) + "…"
	}
	return name
}

func putPath(tree map[string]any, parts []string, value string) {
	for len(parts) > 1 {
		next, ok := tree[parts[0]].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[parts[0]] = next
		}
		tree, parts = next, parts[1:]
	}
	tree[parts[0]] = value
}

func tidyComment(typed string) string {
	return strings.TrimSpace(strings.ReplaceAll(typed, "\r\n", "\n"))
}

// editsRows tells whether "add" or "remove" was pressed, and takes a removed row out.
func editsRows(values url.Values) bool {
	target := values.Get("remove")
	if target == "" {
		return values.Get("add") != ""
	}
	name, suffix, _ := strings.Cut(target, "@")
	if suffix != "" {
		suffix = "@" + suffix
	}
	at := strings.LastIndexByte(name, '.')
	gone, err := strconv.Atoi(name[at+1:])
	if at < 0 || err != nil || gone < 0 {
		return true
	}
	base := name[:at+1]
	moved := url.Values{}
	for key, v := range values {
		rest, ok := strings.CutPrefix(key, base)
		if !ok || !strings.HasSuffix(rest, suffix) {
			continue
		}
		index, tail, has := strings.Cut(strings.TrimSuffix(rest, suffix), ".")
		n, err := strconv.Atoi(index)
		if err != nil || n < gone {
			continue
		}
		delete(values, key)
		if n > gone && has {
			moved[base+strconv.Itoa(n-1)+"."+tail+suffix] = v
		}
	}
	maps.Copy(values, moved)
	return true
}
