package definitions

import (
	"slices"
	"strings"
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
			b.noteLateTexts(d)
		}
	}
	for _, d := range b.def.Deadlines {
		mark(d.Effects)
		b.noteLateTexts(d)
	}
	for _, e := range b.def.Effects {
		if !used[e.Name] && !b.compensates[e.Name] {
			b.warnAt(b.place[e], "unused-effect", "", "Nothing uses the effect %s.", e.Name)
		}
	}
}

// noteLateTexts: an effect of a deadline reads `last` of the transition that entered
// the wait, which is history by then.
func (b *builder) noteLateTexts(d *Deadline) {
	for _, name := range d.Effects {
		if e := b.def.effects[name]; e != nil && e.readsLast() {
			b.def.NeedsPast = true
		}
	}
}

func (e *Effect) readsLast() bool {
	last := e.When != nil && e.When.refs().Last
	look := func(t *Template) { last = last || t != nil && hasTemplate(t) && t.refs().Last }
	if e.Email != nil {
		for _, t := range e.Email.Subject.ByLocale {
			look(t)
		}
		for _, t := range e.Email.Body.ByLocale {
			look(t)
		}
		for _, p := range slices.Concat(e.Email.To, e.Email.Cc) {
			look(p.Name)
		}
	}
	if e.Webhook != nil {
		look(e.Webhook.URL)
		for _, h := range e.Webhook.Headers {
			look(h.Value)
		}
		last = last || e.Webhook.Body != nil && e.Webhook.Body.refs().Last
	}
	return last
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
				b.warnFailingEnd(g, a, done[s.Name])
			}
		}
	}
}

func (b *builder) warnFailingEnd(g *graph, a *Arm, done map[string]bool) {
	if a.Stay || a.Compensate || len(done) == 0 {
		return
	}
	for _, to := range g.goals[a.To] {
		if s := b.def.states[to]; s != nil && s.Kind == Final && s.Failed {
			var names []string
			for name := range done {
				names = append(names, name)
			}
			slices.Sort(names)
			b.warnAt(b.at(a, "to"), "not-compensated", "add compensate: true", "The failed end %s leaves done what could be undone: %s.", to, strings.Join(names, ", "))
			return
		}
	}
}
