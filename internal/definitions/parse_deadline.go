package definitions

import (
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

func (b *builder) deadlineID(state string, i int) string { return state + "/" + strconv.Itoa(i) }

func (b *builder) topDeadlines(n *yaml.Node) {
	for i, c := range b.list(n, "deadlines") {
		if d := b.deadline(c, b.deadlineID("", i), true); d != nil {
			b.def.Deadlines = append(b.def.Deadlines, d)
		}
	}
}

// deadline compiles a rule of time; top: of the whole instance.
func (b *builder) deadline(n *yaml.Node, id string, top bool) *Deadline {
	m := b.mapping(n, "a deadline")
	if m == nil {
		b.graphBroken = true
		return nil
	}
	d := &Deadline{ID: id, Times: 1}
	b.put(d, "", n)
	w := b.waitRule()
	if in := m.get("in"); in != nil {
		if !top {
			m.misplaced("only a deadline of the whole instance has it", "in")
		} else {
			b.unsupported(m.key("in"), "in of a deadline")
			b.put(d, "in", in)
			for _, c := range in.Content {
				if _, ok := b.names.kinds[c.Value]; ok {
					d.In = append(d.In, c.Value)
				}
			}
			b.waitNames(m, "in")
		}
	}
	b.deadlineTime(d, m, w)
	d.When = b.expr(m.get("when"), "when", wantBool, w)
	b.constantGuard(m.values["when"], d.When)
	d.Effects = b.effectNames(m.get("effects"), "effects", d)
	b.deadlineRepeat(d, m, w)
	b.deadlineAction(d, m)
	m.done()
	return d
}

func (b *builder) deadlineTime(d *Deadline, m *mapping, w where) {
	time := b.waitText()
	d.After = b.duration(m.get("after"), "after", durationRule{}, time)
	if n := m.get("at"); n != nil {
		d.At = b.expr(n, "at", wantAny, time)
		b.put(d, "at", n)
	}
	if m.has("after") == m.has("at") {
		b.errorAt(m.node, "deadline", "", "A deadline has either after or at.")
	}
	d.Offset = b.duration(m.get("offset"), "offset", durationRule{negative: true}, time)
	if m.has("offset") && !m.has("at") {
		b.errorAt(m.key("offset"), "misplaced", "", "offset goes with at only.")
	}
	if n := m.get("calendar"); n != nil {
		b.unsupported(m.key("calendar"), "Working time (calendar)")
		if !slices.Contains(b.names.calendars, n.Value) {
			b.errorAt(n, "unknown-calendar", b.suggest(n.Value, b.names.calendars), "There is no calendar %s.", clip(n.Value))
		}
		d.Calendar = n.Value
	}
}

func (b *builder) deadlineRepeat(d *Deadline, m *mapping, w where) {
	d.Every = b.duration(m.get("every"), "every", durationRule{positive: true}, w)
	if m.has("every") {
		d.Times = 0
	}
	if n := m.get("times"); n != nil {
		d.Times = b.integer(n, "times", 1, 1000)
		if !m.has("every") {
			b.errorAt(m.key("times"), "misplaced", "say how often: every: P1D", "times goes with every only.")
		}
	}
}

func (b *builder) deadlineAction(d *Deadline, m *mapping) {
	actions := 0
	if n := m.get("remind"); n != nil {
		actions++
		d.Action = ActionRemind
		b.oneOf(n, "remind", "owner")
	}
	if n := m.get("escalate"); n != nil {
		actions++
		d.Action, d.Principals = ActionEscalate, b.principals(n, audienceEscalate, b.waitText())
		b.nobody(n, "escalate")
	}
	if n := m.get("tell"); n != nil {
		actions++
		d.Action, d.Principals = ActionTell, b.principals(n, audienceTell, b.waitText())
		b.nobody(n, "tell")
	}
	if n := m.get("fire"); n != nil {
		actions++
		d.Action, d.Event = ActionFire, n.Value
		b.put(d, "fire", n)
		if !b.names.events[n.Value] {
			b.graphBroken = true
			b.errorAt(n, "unknown-event", b.suggest(n.Value, b.names.eventNames), "fire names the event %s, which does not exist.", clip(n.Value))
		}
	}
	if actions != 1 {
		b.graphBroken = true
		b.errorAt(m.node, "deadline", "", "A deadline does exactly one thing: remind, escalate, tell or fire.")
	}
}

func (b *builder) nobody(n *yaml.Node, what string) {
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		b.errorAt(n, "nobody", "", "%s names nobody.", what)
	}
}

func hasTemplate(t *Template) bool { return strings.Contains(t.Text, "{{") }

// orEmpty gives a node that stands for nothing written, for readers that need one.
func orEmpty(n *yaml.Node) *yaml.Node {
	if n == nil {
		return &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	}
	return n
}
