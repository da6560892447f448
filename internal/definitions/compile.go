package definitions

import (
	"slices"
)

// inherit puts the events of the top level into the waits that have them: all that
// in and except leave, unless the wait has its own of the name or says NAME: none.
func (b *builder) inherit(top []topEvent) {
	arms := 0
	for _, s := range b.def.States {
		if s.Kind != Wait {
			continue
		}
		for _, t := range top {
			if t.in != nil && !t.in[s.Name] || t.except[s.Name] {
				continue
			}
			if _, written := s.events[t.event.Name]; written {
				continue
			}
			e := *t.event
			e.Inherited = true
			s.Events = append(s.Events, &e)
			s.events[e.Name] = &e
			b.put(&e, "", b.place[t.event])
			for _, key := range []string{"form", "edit", "comment", "documents", "check", "quorum", "unreachable", "correlate"} {
				if n := b.place[spot{t.event, key}]; n != nil {
					b.put(&e, key, n)
				}
			}
		}
		for name, e := range s.events {
			if e == nil {
				delete(s.events, name)
			}
		}
		for _, e := range s.Events {
			arms += len(e.Arms)
		}
	}
	if arms > maxEvents {
		b.graphBroken = true
		b.errorAt(nil, "too-large", "", "The definition has %d ways for events to go; %d are allowed.", arms, maxEvents)
	}
}

// applies tells whether a top-level deadline counts in the state.
func (d *Deadline) applies(state string) bool {
	return len(d.In) == 0 || slices.Contains(d.In, state)
}

// deadlinesOf gives the deadlines that may be due in the wait: its own, then those
// of the whole instance.
func (b *builder) deadlinesOf(s *State) []*Deadline {
	list := slices.Clone(s.Deadlines)
	for _, d := range b.def.Deadlines {
		if d.applies(s.Name) {
			list = append(list, d)
		}
	}
	return list
}

// openTo tells whether an arm may be taken by the timer or by an effect.
func (a *Arm) openTo(kind PrincipalKind) bool {
	return slices.ContainsFunc(a.By, func(p Principal) bool { return p.Kind == kind })
}

func (e *Event) openTo(kind PrincipalKind) bool {
	return slices.ContainsFunc(e.Arms, func(a *Arm) bool { return a.openTo(kind) })
}

// graph is what the checks ask of the whole definition.
type graph struct {
	b     *builder
	goals map[string][]string // state → itself, and where its choose leads: waits and finals
	// queued: effects whose results belong to the wait; by name.
	queued map[string]map[string]bool
	// ends: effects queued by entering final states.
	ends map[string]bool
}

func (b *builder) graph() *graph {
	g := &graph{b: b, goals: map[string][]string{}, queued: map[string]map[string]bool{}, ends: map[string]bool{}}
	for _, s := range b.def.States {
		g.goals[s.Name] = g.goalsOf(s.Name, map[string]bool{})
	}
	for _, s := range b.def.States {
		g.queue(s.Name, s.Enter)
		for _, e := range s.Events {
			for _, a := range e.Arms {
				for _, to := range g.after(s, a) {
					g.queue(to, a.Effects)
				}
			}
		}
		if s.Kind == Wait {
			for _, d := range b.deadlinesOf(s) {
				g.queue(s.Name, d.Effects)
			}
		}
	}
	return g
}

func (g *graph) queue(state string, effects []string) {
	s := g.b.def.states[state]
	if s == nil {
		return
	}
	for _, name := range effects {
		if s.Kind == Final {
			g.ends[name] = true
			continue
		}
		if g.queued[state] == nil {
			g.queued[state] = map[string]bool{}
		}
		g.queued[state][name] = true
	}
}

// after gives where the arm, taken in s, may leave the instance. A stay may make an arm
// of the wait's own choose hold.
func (g *graph) after(s *State, a *Arm) []string {
	if a.Stay {
		return g.goals[s.Name]
	}
	return g.goals[a.To]
}

// goalsOf follows choices to the waits and final states that they may lead to; a wait
// with choose may itself be passed through.
func (g *graph) goalsOf(name string, seen map[string]bool) []string {
	s := g.b.def.states[name]
	if s == nil || seen[name] {
		return nil
	}
	seen[name] = true
	var list []string
	if s.Kind != Choice {
		list = append(list, name)
	}
	for _, arm := range s.Choose {
		list = append(list, g.goalsOf(arm.To, seen)...)
	}
	return list
}

// next gives the states that one step leads to, choices not followed.
func (s *State) next() []string {
	var list []string
	for _, arm := range s.Choose {
		list = append(list, arm.To)
	}
	for _, e := range s.Events {
		for _, a := range e.Arms {
			if !a.Stay {
				list = append(list, a.To)
			}
		}
	}
	return list
}
