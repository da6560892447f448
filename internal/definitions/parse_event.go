package definitions

import (
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// topEvent is an event of every wait, or of those that in and except leave.
type topEvent struct {
	event  *Event
	in     map[string]bool // nil: all waits
	except map[string]bool
}

func (b *builder) topEvents(n *yaml.Node) []topEvent {
	m := b.mapping(n, "events")
	if m == nil {
		return nil
	}
	var list []topEvent
	for _, key := range m.keys {
		name, ok := b.name(key, "An event", partName)
		value := m.get(key.Value)
		if !ok || value == nil {
			b.graphBroken = true
			continue
		}
		e, scope := b.event(name, key, value, true)
		scope.event = e
		if e != nil {
			list = append(list, scope)
		}
	}
	return list
}

func (b *builder) ownEvents(s *State, n *yaml.Node) []*Event {
	m := b.mapping(n, "events")
	if m == nil {
		return nil
	}
	var list []*Event
	for _, key := range m.keys {
		name, ok := b.name(key, "An event", partName)
		value := m.get(key.Value)
		if !ok || value == nil {
			b.graphBroken = true
			continue
		}
		if value.Kind == yaml.ScalarNode && value.Value == "none" {
			if !b.names.topEvents[name] {
				b.errorAt(key, "unknown-event", b.suggest(name, b.names.eventNames), "%s: none takes away an inherited event, and there is none of that name.", name)
			}
			s.events[name] = nil
			continue
		}
		if e, _ := b.event(name, key, value, false); e != nil {
			list = append(list, e)
			s.events[name] = e
		}
	}
	return list
}

// event compiles a transition or a list of arms.
func (b *builder) event(name string, key, n *yaml.Node, top bool) (*Event, topEvent) {
	e := &Event{Name: name}
	b.put(e, "", key)
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	var limits topEvent
	var maps []*mapping
	for _, c := range nodes {
		if m := b.mapping(c, "the event "+name); m != nil {
			maps = append(maps, m)
		}
	}
	if len(maps) != len(nodes) || len(maps) == 0 {
		b.graphBroken = true
		if len(nodes) == 0 {
			b.errorAt(n, "empty", "", "The event %s has no arms.", name)
		}
		return nil, limits
	}
	first := maps[0]
	if top {
		limits.in = b.waitNames(first, "in")
		limits.except = b.waitNames(first, "except")
		if first.has("in") && first.has("except") {
			b.errorAt(first.key("except"), "contradiction", "", "in and except do not go together.")
		}
	}
	by := b.armBy(e, first)
	sc := b.eventRules(e, first, by)
	arm := (*Arm)(nil)
	for i, m := range maps {
		if i > 0 {
			m.misplaced("it belongs to the whole event, so write it in the first arm", "title", "quorum", "unreachable",
				"assurance", "check", "form", "edit", "comment", "documents", "correlate", "in", "except")
		}
		arm = b.arm(e, arm, m, sc, by)
		e.Arms = append(e.Arms, arm)
		m.done()
	}
	return e, limits
}

// armBy compiles `by` of the first arm ahead of the rest: it decides about input.
func (b *builder) armBy(e *Event, m *mapping) []Principal {
	n := m.get("by")
	if n == nil && !m.has("by") {
		b.errorAt(b.place[e], "missing", "say who may raise it: by: [owner]", "The event %s needs by.", e.Name)
	}
	list := b.principals(n, audienceBy, b.waitText())
	if n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		b.errorAt(n, "nobody", "", "Nobody may raise %s: by is empty.", e.Name)
	}
	return list
}

func (b *builder) waitNames(m *mapping, key string) map[string]bool {
	n := m.get(key)
	if n == nil {
		return nil
	}
	set := map[string]bool{}
	for _, c := range b.list(n, key) {
		if kind, ok := b.names.kinds[c.Value]; !ok {
			b.errorAt(c, "unknown-state", b.suggest(c.Value, b.names.states), "%s names the state %s, which does not exist.", key, clip(c.Value))
		} else if kind != Wait {
			b.errorAt(c, "not-a-wait", "", "%s names %s, where nothing waits.", key, c.Value)
		} else {
			set[c.Value] = true
		}
	}
	return set
}

// eventRules reads what belongs to the event as a whole and gives its scope.
func (b *builder) eventRules(e *Event, m *mapping, by []Principal) *scope {
	e.Title = b.title(m.get("title"), "the title of an event")
	sc := b.scope(ruleNames)
	if n := m.get("edit"); n != nil {
		b.unsupported(m.key("edit"), "edit")
		for _, c := range b.list(n, "edit") {
			if p, ok := b.setPath(c, "edit", where{sc: b.data}); ok {
				e.Edit = append(e.Edit, p)
			}
		}
		if m.has("form") {
			b.errorAt(m.key("form"), "contradiction", "", "edit makes the form by itself; form may not stand beside it.")
		}
		if b.def.Data != nil && len(e.Edit) > 0 {
			sc = sc.withInput(b.def.Data.Subset(e.Edit))
		}
	}
	if n := m.get("form"); n != nil {
		if e.Form = b.schema(n, "form", true); e.Form != nil {
			sc = sc.withInput(e.Form)
		} else {
			sc = sc.withInput(nil) // its errors are reported; do not report every use
		}
	} else if !m.has("edit") && b.systemMayRaise(by) {
		sc = sc.withInput(nil)
	}
	w := where{sc: sc, past: true}
	e.Check = b.checks(m.get("check"), w)
	e.Comment = map[string]CommentRule{"optional": CommentOptional, "required": CommentRequired, "none": CommentNone}[b.oneOf(m.get("comment"), "comment", "optional", "required", "none")]
	b.documents(e, m.get("documents"))
	b.correlate(e, m.get("correlate"))
	if n := m.get("assurance"); n != nil {
		if e.Assurance = b.oneOf(n, "assurance", "link", "code", "session", "step-up"); e.Assurance != "link" {
			b.unsupported(m.key("assurance"), "assurance: "+e.Assurance)
		}
	}
	if n := m.get("quorum"); n != nil {
		b.put(e, "quorum", n)
		e.Quorum = b.quorum(n)
	}
	if n := m.get("unreachable"); n != nil {
		b.unsupported(m.key("unreachable"), "unreachable")
		b.put(e, "unreachable", n)
		e.Unreachable = n.Value
	}
	for _, key := range []string{"form", "edit", "comment", "documents", "check", "quorum", "correlate"} {
		if m.has(key) {
			b.put(e, key, m.key(key))
		}
	}
	return sc
}

func (b *builder) systemMayRaise(by []Principal) bool {
	return slices.ContainsFunc(by, func(p Principal) bool { return p.Kind == KindSystem || p.Kind == KindDynamic })
}

// arm compiles one arm; what it leaves out, but for when and to, comes from before.
func (b *builder) arm(e *Event, before *Arm, m *mapping, sc *scope, by []Principal) *Arm {
	a := &Arm{}
	if before != nil {
		*a = *before
		a.When, a.To, a.Stay = nil, "", false
	}
	b.put(a, "", m.node)
	w := where{sc: sc, past: true}
	if n := m.get("when"); n != nil {
		a.When = b.expr(n, "when", wantBool, w)
		b.put(a, "when", n)
		b.constantGuard(n, a.When)
	}
	if n := m.need("to"); n != nil {
		b.put(a, "to", n)
		if a.Stay = n.Kind == yaml.ScalarNode && n.Value == "stay"; !a.Stay {
			a.To = b.target(n, "to")
		}
	} else {
		b.graphBroken = true
	}
	if before == nil {
		a.By = by
		b.put(a, "by", m.values["by"])
	} else if n := m.get("by"); n != nil {
		a.By = b.principals(n, audienceBy, b.waitText())
		b.put(a, "by", n)
		if len(n.Content) == 0 {
			b.errorAt(n, "nobody", "", "Nobody may take this arm: by is empty.")
		}
	} else if n := b.at(before, "by"); n != nil {
		b.put(a, "by", n)
	}
	if n := m.get("not"); n != nil {
		a.Not = b.principals(n, audienceNot, b.waitText())
	}
	if n := m.get("set"); n != nil {
		a.Set = b.assigns(n, "set", w, sc)
		b.put(a, "set", n)
	} else if n := b.place[spot{before, "set"}]; before != nil && n != nil {
		b.put(a, "set", n)
	}
	if n := m.get("unset"); n != nil {
		a.Unset = nil
		for _, c := range b.list(n, "unset") {
			if p, ok := b.setPath(c, "unset", w); ok {
				a.Unset = append(a.Unset, p)
			}
		}
	}
	if n := m.get("effects"); n != nil {
		a.Effects = b.effectNames(n, "effects", a)
	}
	if n := m.get("compensate"); n != nil {
		a.Compensate = b.boolean(n, "compensate")
	}
	return a
}

func (b *builder) documents(e *Event, n *yaml.Node) {
	m := b.mapping(n, "documents")
	if m == nil {
		return
	}
	for _, key := range m.keys {
		name, ok := b.name(key, "A document", partName)
		rule := b.oneOf(m.get(key.Value), "documents."+key.Value, "required", "optional")
		if !ok {
			continue
		}
		if b.def.Data != nil && !b.declared(name) {
			b.errorAt(key, "not-declared", "declare "+name+": {type: object} under data.properties", "The document %s is stored at data.%s, which is not declared.", name, name)
			continue
		}
		e.Documents = append(e.Documents, DocumentRule{Name: name, Required: rule == "required"})
	}
}

func (b *builder) correlate(e *Event, n *yaml.Node) {
	m := b.mapping(n, "correlate")
	if m == nil {
		return
	}
	for _, key := range m.keys {
		data, ok := b.path(key, "correlate", "data.", where{sc: b.data})
		at := m.get(key.Value)
		input, fine := b.path(at, "correlate", "input.", where{sc: newScope(nil)})
		switch {
		case !ok || !fine:
		case slices.ContainsFunc(input.segments(), func(s segment) bool { return s.index != nil }):
			b.errorAt(at, "path", "such as input.order.id", "correlate takes names parted by dots from the input, not %s.", clip(at.Value))
		case slices.ContainsFunc(e.Correlate, func(c Correlation) bool { return c.Input.Text == input.Text }):
			b.errorAt(at, "duplicate", "", "correlate names %s twice.", at.Value)
		default:
			e.Correlate = append(e.Correlate, Correlation{Data: data, Input: input})
		}
	}
	if len(m.keys) == 0 {
		b.errorAt(n, "empty", "write {data.order.id: input.order}", "correlate is empty.")
	}
}

func (b *builder) quorum(n *yaml.Node) *Quorum {
	switch {
	case n.Kind == yaml.MappingNode:
		return b.quorumLines(n)
	case n.Kind != yaml.ScalarNode:
	case scalarKind(n) == numberScalar:
		return &Quorum{Number: b.integer(n, "quorum", 1, 1000)}
	case n.Value == "all":
		b.unsupported(n, "quorum: all")
		return &Quorum{All: true}
	default:
		text, isPercent := strings.CutSuffix(n.Value, "%")
		percent, err := strconv.Atoi(text)
		if isPercent && err == nil && percent >= 1 && percent <= 100 {
			b.unsupported(n, "A quorum by percentage")
			return &Quorum{Percent: percent}
		}
	}
	b.errorAt(n, "quorum", "", `quorum must be a number, all, a percentage such as "60%%", or {principal: number}.`)
	return nil
}

func (b *builder) quorumLines(n *yaml.Node) *Quorum {
	m := b.mapping(n, "quorum")
	q := &Quorum{}
	for _, key := range m.keys {
		p, ok := b.principal(key, audienceQuorum, b.waitText())
		need := b.integer(m.get(key.Value), "quorum of "+key.Value, 1, 1000)
		if !ok || need == 0 {
			continue
		}
		line := QuorumLine{Principal: p, Need: need}
		q.Lines = append(q.Lines, line)
	}
	if len(m.keys) == 0 {
		b.errorAt(n, "empty", "", "quorum has no lines.")
	}
	return q
}
