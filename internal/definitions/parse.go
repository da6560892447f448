package definitions

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	yaml "go.yaml.in/yaml/v4"
)

// Limits of a definition beside its size.
const (
	maxStates  = 500
	maxEvents  = 5000 // arms of events, inherited ones counted per state
	maxEffects = 500
)

// Defaults of a definition.
const (
	defaultTransitions = 500
	defaultDataBytes   = 256 << 10
	maxDataBytes       = 16 << 20
	maxTransitions     = 100_000
)

// Parse reads, checks and compiles a definition; file is only for messages. All
// problems are reported at once, in the order of their places. With errors the
// definition is nil; warnings and keys that are not supported yet come along
// either way, also in Definition.Warnings. Parse never panics, and its work is
// bounded by the limits of a definition: 256 KiB, 32 levels, 500 states.
func Parse(file string, src []byte) (*Definition, Problems) {
	b := &builder{
		file: file, src: src,
		def:         &Definition{File: file, Source: src},
		place:       map[any]*yaml.Node{},
		wider:       map[string]*scope{},
		compensates: map[string]bool{},
	}
	if root := b.loadYAML(); root != nil {
		b.definition(root)
	}
	slices.SortStableFunc(b.problems, func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	if b.problems.HasErrors() {
		return nil, b.problems
	}
	b.def.Warnings = b.problems
	return b.def, b.problems
}

func (b *builder) definition(root *yaml.Node) {
	m := b.mapping(root, "the definition")
	if m == nil {
		return
	}
	b.tree, _ = tree(root).(map[string]any)
	b.collectNames(m)
	if !b.checkSize(m.node) {
		return
	}
	b.dataSchema(m)
	b.head(m)
	b.calendars(m.get("calendars"))
	b.effects(m.get("effects"))
	inherited := b.topEvents(m.get("events"))
	b.states(m.need("states"))
	b.topDeadlines(m.get("deadlines"))
	b.migrations(m.get("migrate"), m.key("migrate"))
	b.def.OnCancel = b.effectNames(m.get("on_cancel"), "on_cancel", b.def)
	m.done()
	b.inherit(inherited)
	b.check()
	b.lint()
	if b.problems.HasErrors() {
		return
	}
	b.def.Hash = hashTree(b.tree)
	slices.SortStableFunc(b.envUses, func(x, y envUse) int {
		return cmp.Or(cmp.Compare(x.line, y.line), cmp.Compare(x.column, y.column))
	})
	b.def.envUses = b.envUses
	slices.SortStableFunc(b.secretUses, func(x, y secretUse) int {
		return cmp.Or(cmp.Compare(x.line, y.line), cmp.Compare(x.column, y.column))
	})
	b.def.secrets = b.secretUses
}

// head reads the keys that describe the definition as a whole.
func (b *builder) head(m *mapping) {
	d := b.def
	d.Name, _ = b.name(m.need("name"), "A definition", definitionName)
	d.Version = b.integer(m.need("version"), "version", 1, 1<<31-1)
	d.Title = b.title(m.get("title"), "title")
	d.Initial = b.target(m.need("initial"), "initial")
	start := where{sc: b.scope("actor now")}
	d.Key = b.expr(m.get("key"), "key", wantAny, start)
	d.Check = b.checks(m.get("check"), where{sc: b.scope("actor now")})
	d.Requesters = b.principals(m.get("requesters"), audienceRequesters, start)
	if !m.has("requesters") {
		for _, role := range []string{"requester", "operator", "admin"} {
			d.Requesters = append(d.Requesters, b.fixedPrincipal(KindRole, role))
		}
	} else if n := m.values["requesters"]; n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		b.errorAt(n, "nobody", "", "Nobody may start an instance: requesters is empty.")
	}
	b.readers(m)
	b.limits(m.get("limits"))
	if n := m.get("retention"); n != nil {
		b.unsupported(m.key("retention"), "retention")
		if text, ok := b.text(n, "retention"); ok && b.checkDuration(n, "retention", text, durationRule{positive: true}) != nil {
			d.Retention = text
		}
	}
	for _, n := range b.list(m.get("search"), "search") {
		if p, ok := b.path(n, "search", "data.", where{sc: b.data}); ok {
			d.Search = append(d.Search, p)
		}
	}
}

func (b *builder) fixedPrincipal(kind PrincipalKind, name string) Principal {
	p := Principal{Kind: kind, Text: string(kind)}
	if name != "" {
		p.Text += ":" + name
		p.Name, _ = compileTemplate(name, b.data)
	}
	return p
}

func (b *builder) readers(m *mapping) {
	n := m.get("readers")
	if n == nil {
		b.def.Readers = []Principal{b.fixedPrincipal(KindRequester, "")}
		return
	}
	b.def.Readers = b.principals(n, audienceReaders, where{sc: b.data})
	if len(b.def.Readers) != 1 || b.def.Readers[0].Kind != KindRequester {
		b.unsupported(m.key("readers"), "A list of readers other than [requester]")
	}
	if len(b.def.Readers) == 0 {
		b.def.Readers = []Principal{b.fixedPrincipal(KindRequester, "")}
	}
}

var sizePattern = regexp.MustCompile(`^([1-9][0-9]{0,8})(B|KiB|MiB)$`)

func (b *builder) limits(n *yaml.Node) {
	b.def.Limits = Limits{Transitions: defaultTransitions, DataBytes: defaultDataBytes}
	m := b.mapping(n, "limits")
	if m == nil {
		return
	}
	if v := m.get("transitions"); v != nil {
		b.def.Limits.Transitions = b.integer(v, "transitions", 1, maxTransitions)
	}
	if v := m.get("data"); v != nil {
		b.def.Limits.DataBytes = b.size(v)
	}
	m.done()
}

func (b *builder) size(n *yaml.Node) int {
	if n.Kind == yaml.ScalarNode && scalarKind(n) == numberScalar {
		return b.integer(n, "data", 1, maxDataBytes)
	}
	parts := sizePattern.FindStringSubmatch(n.Value)
	if parts == nil {
		b.errorAt(n, "size", "", "data must be a size such as 256KiB.")
		return 0
	}
	size, err := strconv.Atoi(parts[1])
	if err != nil {
		b.errorAt(n, "size", "", "data must be a size such as 256KiB.")
		return 0
	}
	size *= map[string]int{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[parts[2]]
	if size > maxDataBytes {
		b.errorAt(n, "size", "", "data may be 16MiB at most.")
	}
	return size
}

// checkSize refuses what is too large to be compiled.
func (b *builder) checkSize(at *yaml.Node) bool {
	for _, limit := range []struct {
		what      string
		is, limit int
	}{
		{"states", len(b.names.states), maxStates},
		{"effects", len(b.names.effects), maxEffects},
		{"events", b.names.arms, maxEvents},
	} {
		if limit.is > limit.limit {
			b.errorAt(at, "too-large", "", "The definition has %d %s; %d are allowed.", limit.is, limit.what, limit.limit)
			return false
		}
	}
	return true
}

// collectNames reads the names of the file before anything is compiled.
func (b *builder) collectNames(m *mapping) {
	b.names = names{
		kinds: map[string]StateKind{}, hasEffect: map[string]bool{}, events: map[string]bool{},
		eventsOf: map[string]map[string]bool{}, topEvents: map[string]bool{},
	}
	eachKey(m.values["events"], func(name string, n *yaml.Node) {
		b.names.arms += armsOf(n)
		b.names.topEvents[name] = true
		b.addEvent(name)
	})
	eachKey(m.values["effects"], func(name string, _ *yaml.Node) {
		b.names.effects = append(b.names.effects, name)
		b.names.hasEffect[name] = true
	})
	eachKey(m.values["calendars"], func(name string, _ *yaml.Node) { b.names.calendars = append(b.names.calendars, name) })
	eachKey(m.values["states"], func(name string, state *yaml.Node) {
		b.names.states = append(b.names.states, name)
		b.names.kinds[name] = stateKind(state)
		own := map[string]bool{}
		eachKey(child(state, "events"), func(event string, n *yaml.Node) {
			b.names.arms += armsOf(n)
			if n.Value != "none" {
				own[event] = true
				b.addEvent(event)
			}
		})
		b.names.eventsOf[name] = own
	})
}

func armsOf(n *yaml.Node) int {
	if n.Kind == yaml.SequenceNode {
		return len(n.Content)
	}
	return 1
}

func (b *builder) addEvent(name string) {
	if !b.names.events[name] {
		b.names.events[name] = true
		b.names.eventNames = append(b.names.eventNames, name)
	}
}

func eachKey(n *yaml.Node, f func(key string, value *yaml.Node)) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i].Value, n.Content[i+1])
	}
}

// stateKind: a state with `final` is final, one with `choose` and neither owner
// nor events is a choice, anything else a wait.
func stateKind(n *yaml.Node) StateKind {
	switch {
	case child(n, "final") != nil:
		return Final
	case child(n, "choose") != nil && child(n, "owner") == nil && child(n, "events") == nil &&
		child(n, "deadlines") == nil && child(n, "task") == nil:
		return Choice
	}
	return Wait
}

// dataSchema compiles the schema of the instance's data.
func (b *builder) dataSchema(m *mapping) {
	n := m.get("data")
	b.data = newScope(nil)
	if n == nil {
		none := map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
		schema, problems := compileSchema(none)
		b.found(m.node, "", problems)
		b.def.Data = schema
	} else {
		b.def.Data = b.schema(n, "data", true)
	}
	b.data = newScope(b.def.Data).with("instance", "env").withCalendars(b.names.calendars).withEvents(b.names.eventNames)
}

// schema compiles a JSON Schema; object: it must be the schema of an object.
func (b *builder) schema(n *yaml.Node, what string, object bool) *Schema {
	if n.Kind != yaml.MappingNode {
		b.errorAt(n, "schema", "write {type: object, properties: {…}}", "%s must be a JSON Schema.", what)
		return nil
	}
	if t := child(n, "type"); object && (t == nil || t.Value != "object") {
		b.errorAt(n, "schema", "", "%s must be the schema of an object: it needs type: object.", what)
		return nil
	}
	schema, problems := compileSchemaNode(b.withoutReserved(n))
	b.found(n, fmt.Sprintf("%s: ", what), problems)
	if hasErrors(problems) {
		return nil
	}
	return schema
}

// withoutReserved copies a schema without the keys that are reserved for later.
func (b *builder) withoutReserved(n *yaml.Node) *yaml.Node {
	switch n.Kind {
	case yaml.SequenceNode:
		c := *n
		c.Content = make([]*yaml.Node, len(n.Content))
		for i, e := range n.Content {
			c.Content[i] = b.withoutReserved(e)
		}
		return &c
	case yaml.MappingNode:
		c := *n
		c.Content = nil
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch key.Value {
			case "visible_to":
				b.unsupported(key, "visible_to")
				continue
			case "properties", "patternProperties", "$defs", "dependentSchemas":
				value = b.withoutReservedBelow(value)
			case "enum", "const", "default", "examples", "required":
			default:
				value = b.withoutReserved(value)
			}
			c.Content = append(c.Content, key, value)
		}
		return &c
	}
	return n
}

// withoutReservedBelow does the same for a mapping whose keys are names.
func (b *builder) withoutReservedBelow(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return n
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, e := range n.Content {
		if i%2 == 1 {
			e = b.withoutReserved(e)
		}
		c.Content[i] = e
	}
	return &c
}

// target reads a state's name as the goal of something.
func (b *builder) target(n *yaml.Node, what string) string {
	if n == nil {
		b.graphBroken = true
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		b.graphBroken = true
		b.errorAt(n, "type", "", "%s must be the name of a state.", what)
		return ""
	}
	if _, ok := b.names.kinds[n.Value]; !ok {
		b.graphBroken = true
		b.errorAt(n, "unknown-state", b.suggest(n.Value, b.names.states), "%s names the state %s, which does not exist.", what, clip(n.Value))
		return ""
	}
	return n.Value
}
