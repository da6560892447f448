package definitions

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// builder holds what one run of Parse knows. It is used by one goroutine and
// thrown away.
type builder struct {
	file     string
	src      []byte
	lines    []string
	problems Problems
	full     bool // maxProblems is reached

	def   *Definition
	names names
	data  *scope // data, instance, env: what every expression may use
	wider map[string]*scope
	tree  map[string]any

	place map[any]*yaml.Node
	// graphBroken: a state, an event or a target is not understood, so what
	// depends on the whole graph is not looked at.
	graphBroken bool
	envUses     []envUse
	secretUses  []secretUse
	compensates map[string]bool // effects that run as compensation of another
}

// names are all names of the file, known before anything is compiled.
type names struct {
	states     []string
	kinds      map[string]StateKind
	effects    []string
	hasEffect  map[string]bool
	calendars  []string
	events     map[string]bool            // of the whole file
	eventsOf   map[string]map[string]bool // by state, without inherited ones
	topEvents  map[string]bool
	eventNames []string
	arms       int // of all events, at most
}

type envUse struct {
	name         string
	line, column int
}

// spot names a key of something for the table of places.
type spot struct {
	of  any
	key string
}

const maxProblems = 200

func (b *builder) report(line, column int, severity Severity, code, hint, format string, args ...any) {
	if b.full {
		return
	}
	detail := fmt.Sprintf(format, args...)
	if rest, ok := strings.CutPrefix(detail, "the "); ok {
		detail = "The " + rest
	}
	p := Problem{File: b.file, Line: line, Column: column, Severity: severity, Code: code, Detail: detail, Hint: hint}
	if slices.Contains(b.problems, p) {
		return
	}
	b.problems = append(b.problems, p)
	if len(b.problems) >= maxProblems {
		b.full = true
		b.problems = append(b.problems, Problem{
			File: b.file, Line: line, Column: column, Severity: Error, Code: "too-many-problems",
			Detail: fmt.Sprintf("There are more than %d problems; the rest is not shown.", maxProblems),
		})
	}
}

func (b *builder) errorAt(n *yaml.Node, code, hint, format string, args ...any) {
	line, column := 1, 1
	if n != nil {
		line, column = max(n.Line, 1), max(n.Column, 1)
	}
	b.report(line, column, Error, code, hint, format, args...)
}

func (b *builder) warnAt(n *yaml.Node, code, hint, format string, args ...any) {
	b.report(n.Line, n.Column, Warning, code, hint, format, args...)
}

// unsupported says that a key's meaning comes with a later version of the product.
func (b *builder) unsupported(n *yaml.Node, what string) {
	b.report(n.Line, n.Column, NotSupported, "not-supported", "", "%s is not supported yet.", what)
}

// at is the place of something, or of one of its keys.
func (b *builder) at(of any, key string) *yaml.Node {
	if key != "" {
		if n := b.place[spot{of, key}]; n != nil {
			return n
		}
	}
	return b.place[of]
}

func (b *builder) put(of any, key string, n *yaml.Node) {
	if key == "" {
		b.place[of] = n
	} else {
		b.place[spot{of, key}] = n
	}
}

// mapping reads the keys of a YAML mapping; what nobody asks for is unknown.
type mapping struct {
	b      *builder
	node   *yaml.Node
	what   string
	values map[string]*yaml.Node
	keys   []*yaml.Node
	asked  []string
}

// mapping gives the keys of n, or nil and a problem where it is no mapping.
func (b *builder) mapping(n *yaml.Node, what string) *mapping {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		b.errorAt(n, "type", "", "%s must be a mapping: {key: value}.", what)
		return nil
	}
	m := &mapping{b: b, node: n, what: what, values: make(map[string]*yaml.Node, len(n.Content)/2)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if m.values[key.Value] == nil {
			m.values[key.Value] = n.Content[i+1]
			m.keys = append(m.keys, key)
		}
	}
	return m
}

// get gives the value of a key, or nil where it is not there or empty.
func (m *mapping) get(key string) *yaml.Node {
	m.asked = append(m.asked, key)
	v := m.values[key]
	if v != nil && v.Kind == yaml.ScalarNode && scalarKind(v) == nullScalar {
		m.b.errorAt(v, "empty", "write a value or leave the key out", "%s of %s is empty.", key, m.what)
		return nil
	}
	return v
}

// has tells whether the key is written, without asking for it.
func (m *mapping) has(key string) bool { return m.values[key] != nil }

// key is the node of the key itself.
func (m *mapping) key(name string) *yaml.Node {
	for _, k := range m.keys {
		if k.Value == name {
			return k
		}
	}
	return m.node
}

func (m *mapping) need(key string) *yaml.Node {
	if !m.has(key) {
		m.asked = append(m.asked, key)
		m.b.errorAt(m.node, "missing", "", "%s needs %s.", m.what, key)
		return nil
	}
	return m.get(key)
}

// done reports the keys that nobody asked for.
func (m *mapping) done() {
	for _, k := range m.keys {
		if !slices.Contains(m.asked, k.Value) {
			m.b.errorAt(k, "unknown-key", m.b.suggest(k.Value, m.asked), "%s has no key %s.", m.what, clip(k.Value))
		}
	}
}

func (b *builder) list(n *yaml.Node, what string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		b.errorAt(n, "type", "write it in brackets: [ … ]", "%s must be a list.", what)
		return nil
	}
	return n.Content
}

// text reads a scalar that is text; ok is false with a problem reported.
func (b *builder) text(n *yaml.Node, what string) (string, bool) {
	if n == nil {
		return "", false
	}
	if n.Kind != yaml.ScalarNode {
		b.errorAt(n, "type", "", "%s must be a text.", what)
		return "", false
	}
	switch scalarKind(n) {
	case textScalar:
		return n.Value, true
	case oddScalar: // reported already
		return "", false
	}
	b.errorAt(n, "type", "put it in quotes", "%s must be a text, not %s.", what, n.Value)
	return "", false
}

func (b *builder) boolean(n *yaml.Node, what string) bool {
	if n == nil {
		return false
	}
	if n.Kind != yaml.ScalarNode || scalarKind(n) != boolScalar {
		b.errorAt(n, "type", "", "%s must be true or false.", what)
		return false
	}
	return n.Value == "true"
}

// integer reads a whole number of [low, high]; 0 with a problem reported.
func (b *builder) integer(n *yaml.Node, what string, low, high int) int {
	if n == nil {
		return 0
	}
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || scalarKind(n) != numberScalar || err != nil || v < low || v > high {
		b.errorAt(n, "type", "", "%s must be a whole number from %d to %d.", what, low, high)
		return 0
	}
	return v
}

// oneOf reads one of a few words; the first with a problem reported.
func (b *builder) oneOf(n *yaml.Node, what string, words ...string) string {
	if n == nil {
		return words[0]
	}
	if n.Kind == yaml.ScalarNode && slices.Contains(words, n.Value) {
		return n.Value
	}
	b.errorAt(n, "value", b.suggest(n.Value, words), "%s must be one of: %s.", what, strings.Join(words, ", "))
	return words[0]
}

var (
	definitionName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	partName       = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
)

// name reads a name of a state, event, effect, calendar or document, exactly as written.
func (b *builder) name(n *yaml.Node, what string, pattern *regexp.Regexp) (string, bool) {
	if n == nil {
		return "", false
	}
	if n.Kind != yaml.ScalarNode {
		b.errorAt(n, "name", "", "%s must be a name.", what)
		return "", false
	}
	hint := "a small letter, then small letters, digits and _; at most 63"
	switch pattern {
	case definitionName:
		hint = "a small letter, then small letters, digits and -; at most 63"
	case secretName:
		hint = "a letter, then letters, digits, _ and -; at most 63"
	}
	if !pattern.MatchString(n.Value) {
		b.errorAt(n, "name", hint, "%s may not be called %s.", what, clip(n.Value))
		return "", false
	}
	switch n.Value {
	case "true", "false", "null", "stay", "none":
		b.errorAt(n, "name", "take another name", "%s may not be called %s: the word means something in this language.", what, n.Value)
		return "", false
	}
	return n.Value, true
}

// suggest gives a hint with the nearest candidate, or "" where none is near or
// nothing more is reported.
func (b *builder) suggest(word string, candidates []string) string {
	if b.full {
		return ""
	}
	return suggest(word, candidates)
}

// suggest gives a hint with the nearest candidate, or "".
func suggest(word string, candidates []string) string {
	best, bestDistance := "", 3
	if len(word) < 4 {
		bestDistance = 2
	}
	if len(word) > 63 || len(candidates) > maxStates {
		return ""
	}
	for _, c := range candidates {
		if d := distance(word, c); d > 0 && d < bestDistance && d < len(c) {
			best, bestDistance = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// distance is the optimal string alignment distance of two short texts, in bytes.
func distance(a, b string) int {
	if len(a)-len(b) > 3 || len(b)-len(a) > 3 {
		return 4
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
