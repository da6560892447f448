package definitions

import (
	"regexp"
	"slices"
	"strings"
)

// checkTimers: deadlines and the events that they fire fit each other.
func (b *builder) checkTimers() {
	fired := map[string]bool{} // inherited events that some wait's deadline fires
	timed := map[string]*Event{}
	var order []string
	for _, s := range b.def.States {
		if s.Kind != Wait {
			continue
		}
		fires := map[string]bool{}
		for _, d := range b.deadlinesOf(s) {
			if d.Action == ActionFire {
				fires[d.Event] = true
			}
		}
		for _, e := range s.Events {
			if e.Unreachable != "" {
				fires[e.Unreachable] = true
			}
		}
		for _, d := range s.Deadlines {
			b.checkOwnFire(s, d)
		}
		for _, e := range s.Events {
			switch {
			case !e.openTo(KindTimer):
			case e.Inherited:
				if timed[e.Name] == nil {
					timed[e.Name] = e
					order = append(order, e.Name)
				}
				fired[e.Name] = fired[e.Name] || fires[e.Name]
			case !fires[e.Name]:
				b.errorAt(b.place[e], "timer-without-deadline", "add a deadline with fire: "+e.Name, "No deadline of the state %s fires %s.", s.Name, e.Name)
			}
		}
	}
	for _, name := range order {
		if !fired[name] {
			b.errorAt(b.place[timed[name]], "timer-without-deadline", "add a deadline with fire: "+name, "No deadline fires %s in any state that has it.", name)
		}
	}
	for _, d := range b.def.Deadlines {
		b.checkTopFire(d)
	}
}

func (b *builder) checkOwnFire(s *State, d *Deadline) {
	if d.Action != ActionFire {
		return
	}
	at := b.at(d, "fire")
	switch e := s.events[d.Event]; {
	case e == nil:
		b.errorAt(at, "deadline-without-event", "add "+d.Event+": {to: …, by: [timer]}", "fire names the event %s, which the state %s does not have.", d.Event, s.Name)
	case !e.openTo(KindTimer):
		b.errorAt(at, "not-by-timer", "add timer to its by", "The event %s of the state %s may not be raised by the timer.", d.Event, s.Name)
	}
}

func (b *builder) checkTopFire(d *Deadline) {
	if d.Action != ActionFire {
		return
	}
	var with, without []string
	for _, s := range b.def.States {
		if s.Kind != Wait || !d.applies(s.Name) {
			continue
		}
		if e := s.events[d.Event]; e != nil && e.openTo(KindTimer) {
			with = append(with, s.Name)
		} else {
			without = append(without, s.Name)
		}
	}
	switch at := b.at(d, "fire"); {
	case len(with) == 0:
		b.errorAt(at, "deadline-without-event", "", "fire names the event %s, which no state of this deadline allows the timer to raise.", d.Event)
	case len(without) > 0:
		b.warnAt(at, "deadline-waits", "", "In the state %s there is no %s for the timer: a deadline due there waits for the next state that has it.", strings.Join(without, ", "), d.Event)
	}
}

// endings finds the states from which deadlines alone lead to a final state.
type endings struct {
	b    *builder
	g    *graph
	ends map[string]bool
}

// checkEnds: nothing waits for ever. A wait ends if a certain deadline of the whole
// instance (which re-entering does not restart) leads to an end, or if it has a
// certain deadline and all that leave it lead to an end.
func (b *builder) checkEnds(g *graph) {
	x := &endings{b: b, g: g, ends: map[string]bool{}}
	for _, s := range b.def.States {
		x.ends[s.Name] = s.Kind == Final
	}
	for changed := true; changed; {
		changed = false
		for _, s := range b.def.States {
			if !x.ends[s.Name] && x.endsNow(s) {
				x.ends[s.Name], changed = true, true
			}
		}
	}
	for _, s := range b.def.States {
		if s.Kind != Wait || x.ends[s.Name] {
			continue
		}
		if !slices.ContainsFunc(b.deadlinesOf(s), func(d *Deadline) bool { return x.leaves(s, d) && b.certain(d) }) {
			hint := "add a deadline that fires an event which leaves it"
			if slices.ContainsFunc(b.deadlinesOf(s), func(d *Deadline) bool { return x.leaves(s, d) }) {
				hint = "its deadlines may not come: they have a when, or an at of a field that may be absent"
			}
			b.errorAt(b.place[s], "wait-without-end", hint, "The state %s may wait for ever: no deadline is sure to end it.", s.Name)
			continue
		}
		b.errorAt(b.place[s], "waits-for-ever", "", "Deadlines alone never lead from the state %s to a final state: %s.", s.Name, x.path(s))
	}
}

func (x *endings) endsNow(s *State) bool {
	if s.Kind == Choice {
		return x.allEnd(x.g.goals[s.Name])
	}
	certain, all := false, true
	for _, d := range x.b.deadlinesOf(s) {
		if !x.leaves(s, d) {
			continue
		}
		ends := x.allEnd(x.goals(s, d))
		if ends && x.b.certain(d) && strings.HasPrefix(d.ID, "/") {
			return true
		}
		certain = certain || x.b.certain(d)
		all = all && ends
	}
	return certain && all
}

func (x *endings) allEnd(names []string) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !x.ends[n] })
}

// goals gives the waits and final states to which the deadline's event may lead.
func (x *endings) goals(s *State, d *Deadline) []string {
	e := s.events[d.Event]
	if d.Action != ActionFire || e == nil {
		return nil
	}
	var list []string
	for _, a := range e.Arms {
		if a.openTo(KindTimer) && !a.Stay {
			list = append(list, x.g.goals[a.To]...)
		}
	}
	return list
}

// leaves tells whether the deadline takes the instance out of this wait, or into a
// new one of the same state.
func (x *endings) leaves(s *State, d *Deadline) bool { return len(x.goals(s, d)) > 0 }

// path walks along deadlines from a state that does not end until it repeats.
func (x *endings) path(s *State) string {
	names := []string{s.Name}
	for {
		next := ""
		for _, d := range x.b.deadlinesOf(s) {
			for _, to := range x.goals(s, d) {
				if next == "" && !x.ends[to] {
					next = to
				}
			}
		}
		if next == "" {
			return strings.Join(names, " → ") + ", which no deadline is sure to end"
		}
		repeated := slices.Contains(names, next)
		names = append(names, next)
		if repeated {
			return strings.Join(names, " → ")
		}
		s = x.b.def.states[next]
	}
}

var dataPath = regexp.MustCompile(`\bdata((?:\.[A-Za-z_][A-Za-z0-9_]*)+)(\s*\()?`)

// certain tells whether the deadline is sure to come: no when, and not at a field
// that may be absent.
func (b *builder) certain(d *Deadline) bool {
	if d.When != nil {
		return false
	}
	if d.At == nil {
		return true
	}
	for _, m := range dataPath.FindAllStringSubmatch(d.At.Text, -1) {
		path := strings.Split(m[1][1:], ".")
		if m[2] != "" { // the last name is a function's
			path = path[:len(path)-1]
		}
		if !b.required(path) {
			return false
		}
	}
	for _, field := range d.At.refs().Data {
		if !b.required([]string{field}) {
			return false
		}
	}
	return true
}

// required tells whether the schema makes sure that the path is there.
func (b *builder) required(path []string) bool {
	schema, _ := b.tree["data"].(map[string]any)
	for _, part := range path {
		list, _ := schema["required"].([]any)
		properties, _ := schema["properties"].(map[string]any)
		next, _ := properties[part].(map[string]any)
		_, hasDefault := next["default"]
		if !hasDefault && !slices.Contains(list, any(part)) {
			return false
		}
		schema = next
	}
	return true
}
