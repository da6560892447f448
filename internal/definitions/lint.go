package definitions

import (
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// lint gives the warnings: what may be right, and often is not.
func (b *builder) lint() {
	b.warnQuorumInput()
	b.warnOwnerByRequester()
	if b.graphBroken {
		return
	}
	g := b.graph()
	b.warnUnused()
	b.warnFailingEnds(g)
}

// warnQuorumInput: under a quorum only the last vote's input is stored.
func (b *builder) warnQuorumInput() {
	for _, s := range b.def.States {
		for _, e := range s.Events {
			for _, a := range e.Arms {
				if e.Quorum != nil && slices.ContainsFunc(a.Set, readsInput) {
					b.warnAt(b.at(a, "set"), "set-under-quorum", "votes."+e.Name+" has the others", "set of %s takes the input of the vote that completes the quorum only.", e.Name)
				}
			}
		}
	}
}

// warnOwnerByRequester: the requester's own data names who decides.
func (b *builder) warnOwnerByRequester() {
	written := map[string]bool{}
	for _, e := range b.def.Effects {
		if e.OnSuccess != nil {
			for _, a := range e.OnSuccess.Set {
				written[topField(a.Path.Text)] = true
			}
		}
	}
	for _, s := range b.def.States {
		for _, p := range s.Owner {
			if p.Name == nil || !strings.Contains(p.Text, "{{") {
				continue
			}
			for _, field := range p.Name.refs().Data {
				if !written[field] {
					b.warnAt(b.at(s, "owner"), "owner-by-requester", "", "The owner of %s is named by data.%s, which the requester gives.", s.Name, field)
				}
			}
		}
	}
}

func topField(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

func (b *builder) warnUnused() {
	used := map[string]bool{}
	mark := func(names []string) {
		for _, n := range names {
			used[n] = true
		}
	}
	for _, s := range b.def.States {
		mark(s.Enter)
		for _, e := range s.Events {
			for _, a := range e.Arms {
				mark(a.Effects)
			}
		}
		for _, d := range s.Deadlines {
			mark(d.Effects)
			b.noteLateTexts(d.Effects)
		}
	}
	for _, d := range b.def.Deadlines {
		mark(d.Effects)
		b.noteLateTexts(d.Effects)
	}
	for _, e := range b.def.Effects {
		mark(e.OnCancel)
		b.noteLateTexts(e.OnCancel)
	}
	mark(b.def.OnCancel)
	b.noteLateTexts(b.def.OnCancel)
	b.noteLateTexts(slices.Collect(maps.Keys(b.compensates)))
	for _, e := range b.def.Effects {
		if !used[e.Name] && !b.compensates[e.Name] {
			b.warnAt(b.place[e], "unused-effect", "", "Nothing uses the effect %s.", e.Name)
		}
	}
}

// warnFailingEnds: what can be undone is left done at an end that failed.
func (b *builder) warnFailingEnds(g *graph) {
	done := map[string]map[string]bool{}
	for _, s := range b.def.States {
		done[s.Name] = map[string]bool{}
		for name := range g.queued[s.Name] {
			if e := b.def.effects[name]; e != nil && e.Reversible && e.Compensate != "" {
				done[s.Name][name] = true
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, s := range b.def.States {
			for _, to := range s.next() {
				for name := range done[s.Name] {
					if !done[to][name] {
						done[to][name], changed = true, true
					}
				}
			}
		}
	}
	for _, s := range b.def.States {
		for _, e := range s.Events {
			for _, a := range e.Arms {
				if !a.Stay && !a.Compensate {
					b.warnFailingEnd(g, b.at(a, "to"), "add compensate: true", a.To, done[s.Name])
				}
			}
		}
		if s.Kind == Wait {
			for _, arm := range s.Choose {
				b.warnFailingEnd(g, b.at(s, "choose"), "lead to it by an event with compensate: true", arm.To, done[s.Name])
			}
		}
	}
}

func (b *builder) warnFailingEnd(g *graph, at *yaml.Node, hint, target string, done map[string]bool) {
	if len(done) == 0 {
		return
	}
	for _, to := range g.goals[target] {
		if s := b.def.states[to]; s != nil && s.Kind == Final && s.Failed {
			names := strings.Join(slices.Sorted(maps.Keys(done)), ", ")
			b.warnAt(at, "not-compensated", hint, "The failed end %s leaves done what could be undone: %s.", to, names)
			return
		}
	}
}
