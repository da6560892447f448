package definitions

import (
	yaml "go.yaml.in/yaml/v4"
)

// ruleNames are what guards, checks, set, deadlines and choices of a wait may read
// beside data, instance and env.
const ruleNames = "last visits now actor votes open_votes"

// waitText is for texts of a wait: neither the time nor votes, since what people were
// shown must not change by itself.
func (b *builder) waitText() where {
	return where{sc: b.scope("last visits"), past: true}
}

// waitRule is for rules of a wait: deadlines and choices.
func (b *builder) waitRule() where {
	return where{sc: b.scope(ruleNames), past: true}
}

func (b *builder) states(n *yaml.Node) {
	b.def.states = map[string]*State{}
	m := b.mapping(n, "states")
	if m == nil {
		b.graphBroken = true
		return
	}
	if len(m.keys) == 0 {
		b.graphBroken = true
		b.errorAt(n, "empty", "", "A definition has at least one state.")
	}
	for _, key := range m.keys {
		name, ok := b.name(key, "A state", partName)
		if !ok {
			b.graphBroken = true
		}
		if s := b.state(name, key, m.get(key.Value)); s != nil {
			b.def.States = append(b.def.States, s)
			b.def.states[name] = s
		}
	}
}

func (b *builder) state(name string, key, n *yaml.Node) *State {
	m := b.mapping(n, "the state "+key.Value)
	if m == nil {
		b.graphBroken = true
		return nil
	}
	s := &State{Name: name, Kind: stateKind(n), events: map[string]*Event{}}
	b.put(s, "", key)
	s.Title = b.title(m.get("title"), "the title of a state")
	if m.has("shown_as") {
		m.get("shown_as")
		b.unsupported(m.key("shown_as"), "shown_as")
	}
	switch s.Kind {
	case Final:
		b.finalState(s, m)
	case Choice:
		b.choiceState(s, m)
	case Wait:
		b.waitState(s, m)
	}
	m.done()
	return s
}

// misplaced reports keys that belong to another kind of state.
func (m *mapping) misplaced(why string, keys ...string) {
	for _, key := range keys {
		if m.has(key) {
			m.asked = append(m.asked, key)
			m.b.errorAt(m.key(key), "misplaced", "", "%s has no %s: %s.", m.what, key, why)
		}
	}
}

func (b *builder) finalState(s *State, m *mapping) {
	n := m.get("final")
	switch {
	case n == nil:
	case n.Kind == yaml.ScalarNode && n.Value == "failed":
		s.Failed = true
	case n.Kind != yaml.ScalarNode || n.Value != "true" || !isPlain(n):
		b.errorAt(n, "value", "leave it out where the state is not final", "final must be true or failed.")
	}
	s.Enter = b.effectNames(m.get("enter"), "enter", s)
	m.misplaced("it is final, nothing waits there", "owner", "task", "events", "deadlines", "choose")
}

func (b *builder) choiceState(s *State, m *mapping) {
	s.Choose = b.choose(s, m.get("choose"))
	m.misplaced("it is passed through at once, so put effects on the states that it leads to", "enter")
}

func (b *builder) waitState(s *State, m *mapping) {
	s.Owner = b.principals(m.get("owner"), audienceOwner, b.waitText())
	if len(s.Owner) == 0 && (!m.has("owner") || m.values["owner"].Kind == yaml.SequenceNode && len(m.values["owner"].Content) == 0) {
		b.errorAt(b.place[s], "wait-without-owner", "say who is responsible: owner: [requester]", "The state %s waits and has no owner.", s.Name)
	}
	b.put(s, "owner", m.values["owner"])
	s.Tasks = b.tasks(m.get("task"), m.key("task"))
	s.Enter = b.effectNames(m.get("enter"), "enter", s)
	if n := m.get("choose"); n != nil {
		b.put(s, "choose", m.key("choose"))
		s.Choose = b.choose(s, n)
	}
	s.Events = b.ownEvents(s, m.get("events"))
	for i, n := range b.list(m.get("deadlines"), "deadlines") {
		if d := b.deadline(n, b.deadlineID(s.Name, i), false); d != nil {
			s.Deadlines = append(s.Deadlines, d)
		}
	}
}

// effectNames reads a list of effects that exist.
func (b *builder) effectNames(n *yaml.Node, what string, of any) []string {
	if n == nil {
		return nil
	}
	b.put(of, what, n)
	var list []string
	for _, c := range b.list(n, what) {
		if c.Kind != yaml.ScalarNode || !b.names.hasEffect[c.Value] {
			b.errorAt(c, "unknown-effect", b.suggest(c.Value, b.names.effects), "%s names the effect %s, which does not exist.", what, clip(c.Value))
			continue
		}
		list = append(list, c.Value)
	}
	return list
}

func (b *builder) choose(s *State, n *yaml.Node) []ChooseArm {
	if n == nil {
		return nil
	}
	nodes := b.list(n, "choose")
	if len(nodes) == 0 && n.Kind == yaml.SequenceNode {
		b.errorAt(n, "empty", "", "choose has no arms.")
	}
	var arms []ChooseArm
	for i, c := range nodes {
		m := b.mapping(c, "an arm of choose")
		if m == nil {
			b.graphBroken = true
			continue
		}
		arm := ChooseArm{When: b.expr(m.get("when"), "when", wantBool, b.waitRule())}
		arm.To = b.target(m.need("to"), "to")
		m.done()
		last := i == len(nodes)-1
		switch {
		case m.has("when") && last && s.Kind == Choice:
			b.errorAt(m.key("when"), "choice-not-total", "leave out when in the last arm", "The choice %s is not total: its last arm has a when.", s.Name)
		case !m.has("when") && !last:
			b.errorAt(c, "arm-never-reached", "only the last arm may have no when", "The arms after this one are never taken.")
		case !m.has("when") && s.Kind == Wait:
			b.errorAt(c, "wait-never-waits", "give the arm a when, or make the state a choice", "The state %s never waits: this arm always holds.", s.Name)
		}
		b.constantGuard(m.values["when"], arm.When)
		if arm.To != "" {
			arms = append(arms, arm)
		}
	}
	return arms
}

func (b *builder) constantGuard(n *yaml.Node, e *Expr) {
	if e == nil {
		return
	}
	if v, ok := e.constant(); ok {
		b.warnAt(n, "constant-guard", "", "This when is always %v.", v)
	}
}

// tasks reads what is put before reviewers; one empty task where none is written.
func (b *builder) tasks(n, key *yaml.Node) []*Task {
	if n == nil {
		return []*Task{{}}
	}
	if n.Kind != yaml.SequenceNode {
		return []*Task{b.task(n, false)}
	}
	b.unsupported(key, "A list of tasks")
	if len(n.Content) == 0 {
		b.errorAt(n, "empty", "leave task out", "The list of tasks is empty.")
	}
	var list []*Task
	for _, c := range n.Content {
		list = append(list, b.task(c, true))
	}
	return list
}

func (b *builder) task(n *yaml.Node, listed bool) *Task {
	t := &Task{}
	b.put(t, "", n)
	m := b.mapping(n, "a task")
	if m == nil {
		return t
	}
	if listed {
		if p, ok := b.principal(orEmpty(m.need("for")), audienceFor, b.waitText()); ok {
			t.For = &p
		}
		if events := m.get("events"); events != nil {
			b.put(t, "events", events)
			for _, c := range b.list(events, "events") {
				t.Events = append(t.Events, c.Value)
			}
		}
	} else {
		m.misplaced("only the tasks of a list have it", "for", "events")
	}
	t.Title = b.words(m.get("title"), "title", b.waitText())
	t.Instructions = b.words(m.get("instructions"), "instructions", b.waitText())
	for _, c := range b.list(m.get("show"), "show") {
		if p, ok := b.path(c, "show", "data.", where{sc: b.data}); ok {
			t.Show = append(t.Show, p)
		}
	}
	if p := m.get("priority"); p != nil {
		t.Priority = b.template(p, "priority", b.waitText())
		if t.Priority != nil && !hasTemplate(t.Priority) {
			b.oneOf(p, "priority", "normal", "low", "high", "urgent")
		}
	}
	t.OnUndeliverable = b.undeliverable(t, m)
	m.done()
	return t
}
