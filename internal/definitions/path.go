package definitions

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"vobo/internal/fault"
)

// Path is a data path such as applicant.name or signers[data.next]: names parted
// by dots, and expressions in brackets that give an index or a name.
type Path struct {
	Text string
	p    *compiledPath
}

type compiledPath struct{ segments []segment }

// segment is one step: a name, or with index an expression.
type segment struct {
	name   string
	index  *Expr
	offset int // of the segment in the path's text
}

func (p Path) segments() []segment {
	if p.p == nil {
		return nil
	}
	return p.p.segments
}

const maxPathSegments = 16

// compilePath reads a path and checks that sc's data schema declares it.
func compilePath(text string, sc *scope) (Path, []exprProblem) {
	segments, problems := parsePath(text, sc)
	if len(problems) > 0 {
		return Path{Text: text}, problems
	}
	p := Path{Text: text, p: &compiledPath{segments}}
	if sc.data == nil || sc.data.node == nil {
		return p, nil
	}
	for i := range segments {
		if _, declared := sc.data.node.walk(segments[:i+1]); declared {
			continue
		}
		problem := exprProblem{
			Offset: segments[i].offset, Code: "path", Severity: Error,
			Detail: fmt.Sprintf("%s is not declared in data.", clip(textUpTo(text, segments, i))),
		}
		if parent, _ := sc.data.node.walk(segments[:i]); parent != nil && segments[i].index == nil {
			problem.Hint = suggest(segments[i].name, parent.order)
		}
		return p, []exprProblem{problem}
	}
	return p, nil
}

func textUpTo(text string, segments []segment, i int) string {
	if i+1 < len(segments) {
		text = text[:segments[i+1].offset]
	}
	return strings.TrimRight(text, ".[")
}

func parsePath(text string, sc *scope) ([]segment, []exprProblem) {
	wrong := func(at int, hint, format string, args ...any) ([]segment, []exprProblem) {
		return nil, []exprProblem{{Offset: at, Code: "path", Severity: Error, Hint: hint, Detail: fmt.Sprintf(format, args...)}}
	}
	var segments []segment
	for i := 0; ; {
		from := i
		for i < len(text) && !strings.ContainsRune(".[]", rune(text[i])) {
			i++
		}
		name := text[from:i]
		if name == "" || strings.TrimSpace(name) != name || strings.ContainsAny(name, "\x00{}\"'") {
			return wrong(from, "such as applicant.name or signers[data.next]", "%s is no path.", clip(strconv.Quote(text)))
		}
		segments = append(segments, segment{name: name, offset: from})
		for i < len(text) && text[i] == '[' {
			end := closingBracket(text, i)
			if end < 0 {
				return wrong(i, "", "A [ has no ].")
			}
			e, problems := compileExpr(text[i+1:end], wantIndex, sc)
			if len(problems) > 0 {
				for j := range problems {
					problems[j].Offset += i + 1
				}
				return nil, problems
			}
			segments = append(segments, segment{index: e, offset: i})
			i = end + 1
		}
		if len(segments) > maxPathSegments {
			return wrong(i, "", "The path has more than %d parts.", maxPathSegments)
		}
		if i == len(text) {
			return segments, nil
		}
		if text[i] != '.' {
			return wrong(i, "", "%q is not expected here.", text[i])
		}
		i++
	}
}

// closingBracket finds the ] of the [ at i, past brackets and texts within; -1: none.
func closingBracket(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		case '"', '\'':
			if i = endOfText(text, i); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// endOfText finds the end of the quoted text that begins at i; -1: none.
func endOfText(text string, i int) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case quote:
			return i
		}
	}
	return -1
}

// key is a resolved step: a name, or an index into a list.
type key struct {
	name  string
	index int
	list  bool
}

func (s segment) resolve(env *Env) (key, error) {
	if s.index == nil {
		return key{name: s.name}, nil
	}
	v, err := s.index.Eval(env)
	if err != nil {
		return key{}, err
	}
	switch v := v.(type) {
	case string:
		return key{name: v}, nil
	case json.Number:
		i, err := strconv.Atoi(canonicalNumber(string(v)))
		if err == nil && i >= 0 {
			return key{index: i, list: true}, nil
		}
	}
	return key{}, fault.New(fault.GuardRejected, "[%s] gives %s, which is no index.", s.index.Text, shorten(valueWords(v), 40))
}

// Get returns the value at the path and whether it is there.
func (p Path) Get(root map[string]any, env *Env) (any, bool) {
	var at any = root
	for _, s := range p.segments() {
		k, err := s.resolve(env)
		if err != nil {
			return nil, false
		}
		var there bool
		if at, there = step(at, k); !there {
			return nil, false
		}
	}
	return at, p.p != nil
}

func step(at any, k key) (any, bool) {
	switch v := at.(type) {
	case map[string]any:
		if !k.list {
			next, there := v[k.name]
			return next, there
		}
	case []any:
		if k.list && k.index < len(v) {
			return v[k.index], true
		}
	}
	return nil, false
}

// Set puts v at the path, making objects on the way; an index may be that of an
// entry or the one after the last. Objects and lists on the way are copied, so
// that root may share them with other trees. Errors are of code guard-rejected.
func (p Path) Set(root map[string]any, v any, env *Env) error {
	keys, err := p.keys(env)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return fault.New(fault.GuardRejected, "There is no path %q.", p.Text)
	}
	changed, err := p.put(root[keys[0].name], keys[1:], v)
	if err != nil {
		return err
	}
	root[keys[0].name] = changed
	return nil
}

func (p Path) keys(env *Env) ([]key, error) {
	var keys []key
	for _, s := range p.segments() {
		k, err := s.resolve(env)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func (p Path) put(at any, keys []key, v any) (any, error) {
	if len(keys) == 0 {
		return v, nil
	}
	k := keys[0]
	if k.list {
		old, ok := at.([]any)
		if !ok && at != nil {
			return nil, fault.New(fault.GuardRejected, "%s cannot be set: there is no list.", p.Text)
		}
		if k.index > len(old) {
			return nil, fault.New(fault.GuardRejected, "%s cannot be set: the list has %d entries and the index is %d.", p.Text, len(old), k.index)
		}
		var below any
		if k.index < len(old) {
			below = old[k.index]
		}
		changed, err := p.put(below, keys[1:], v)
		if err != nil {
			return nil, err
		}
		entries := append(make([]any, 0, len(old)+1), old...)
		if k.index == len(old) {
			entries = append(entries, nil)
		}
		entries[k.index] = changed
		return entries, nil
	}
	old, ok := at.(map[string]any)
	if !ok && at != nil {
		return nil, fault.New(fault.GuardRejected, "%s cannot be set: what holds %s is no object.", p.Text, k.name)
	}
	changed, err := p.put(old[k.name], keys[1:], v)
	if err != nil {
		return nil, err
	}
	members := make(map[string]any, len(old)+1)
	for name, member := range old {
		members[name] = member
	}
	members[k.name] = changed
	return members, nil
}

// Unset removes what is at the path; an entry of a list leaves no gap. Objects and
// lists on the way are copied as in Set. What is not there is no error.
func (p Path) Unset(root map[string]any, env *Env) {
	keys, err := p.keys(env)
	if err != nil || len(keys) == 0 {
		return
	}
	if len(keys) == 1 {
		delete(root, keys[0].name)
		return
	}
	if changed, ok := cut(root[keys[0].name], keys[1:]); ok {
		root[keys[0].name] = changed
	}
}

// cut gives at without what is at keys; false where it is not there.
func cut(at any, keys []key) (any, bool) {
	below, there := step(at, keys[0])
	if !there {
		return nil, false
	}
	if len(keys) > 1 {
		if below, there = cut(below, keys[1:]); !there {
			return nil, false
		}
	}
	switch v := at.(type) {
	case []any:
		i := keys[0].index
		out := append(make([]any, 0, len(v)), v[:i]...)
		if len(keys) > 1 {
			out = append(out, below)
		}
		return append(out, v[i+1:]...), true
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = member
		}
		if out[keys[0].name] = below; len(keys) == 1 {
			delete(out, keys[0].name)
		}
		return out, true
	}
	return nil, false
}

// Pointer gives the RFC 6901 pointer of the path; it ends before an index that
// cannot be evaluated.
func (p Path) Pointer(env *Env) string {
	var out strings.Builder
	for _, s := range p.segments() {
		k, err := s.resolve(env)
		if err != nil {
			break
		}
		if k.list {
			k.name = strconv.Itoa(k.index)
		}
		out.WriteString("/" + escapePointer(k.name))
	}
	return out.String()
}
