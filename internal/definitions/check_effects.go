package definitions

import (
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// checkEffectEvents: events for effects and effects that fire them fit each other.
func (b *builder) checkEffectEvents(g *graph) {
	fired := map[string]bool{}
	inherited := map[string]*Event{}
	var order []string
	for _, s := range b.def.States {
		for _, e := range s.Events {
			if !e.openTo(KindEffect) {
				continue
			}
			found := slices.ContainsFunc(s.Tasks, func(t *Task) bool { return raises(t.OnUndeliverable, e.Name) })
			for name := range g.queued[s.Name] {
				found = found || b.def.effects[name].fires(e.Name)
			}
			switch {
			case e.Inherited:
				if inherited[e.Name] == nil {
					inherited[e.Name] = e
					order = append(order, e.Name)
				}
				fired[e.Name] = fired[e.Name] || found
			case !found:
				b.errorAt(b.place[e], "effect-event-not-fired", "add on_success or on_failure with fire: "+e.Name+" to an effect of this wait",
					"No effect that the state %s queues fires %s.", s.Name, e.Name)
			}
		}
	}
	for _, name := range order {
		if !fired[name] {
			b.errorAt(b.place[inherited[name]], "effect-event-not-fired", "", "No effect fires %s in any state that has it.", name)
		}
	}
	for _, e := range b.def.Effects {
		for _, o := range []struct {
			key     string
			outcome *Outcome
		}{{"on_success", e.OnSuccess}, {"on_failure", e.OnFailure}} {
			if o.outcome != nil {
				b.checkFire(g, e, o.key, o.outcome.Fire)
			}
		}
		if e.OnUndeliverable != escalateWord {
			b.checkFire(g, e, "on_undeliverable", e.OnUndeliverable)
		}
	}
	b.checkEscalations(g)
}

// fires tells whether a result of the effect raises the event. A nil effect is one
// whose own problems are reported.
func (e *Effect) fires(event string) bool {
	if e == nil {
		return true
	}
	return e.OnSuccess != nil && e.OnSuccess.Fire == event || e.OnFailure != nil && e.OnFailure.Fire == event ||
		raises(e.OnUndeliverable, event)
}

// raises tells whether an on_undeliverable raises the event.
func raises(undeliverable, event string) bool {
	return undeliverable == event && event != escalateWord
}

// checkFire: an event that the effect raises is there, and open to effects, in every
// wait that queues it.
func (b *builder) checkFire(g *graph, e *Effect, key, event string) {
	if !b.names.events[event] {
		return
	}
	at := b.at(e, key)
	waits := b.waitsThatQueue(g, e.Name)
	if len(waits) == 0 && g.ends[e.Name] {
		b.errorAt(at, "effect-fires-nowhere", "", "%s fires %s, but the effect %s is queued only by final states.", key, event, e.Name)
	}
	for _, s := range waits {
		switch t := s.events[event]; {
		case t == nil:
			b.errorAt(at, "effect-fires-nowhere", "", "%s fires %s, which the state %s does not have; it queues the effect %s.", key, event, s.Name, e.Name)
		case !t.openTo(KindEffect):
			b.errorAt(at, "not-by-effect", "add effect to its by", "%s fires %s, which no effect may raise in the state %s.", key, event, s.Name)
		}
	}
}

func (b *builder) waitsThatQueue(g *graph, effect string) []*State {
	var list []*State
	for _, s := range b.def.States {
		if g.queued[s.Name][effect] {
			list = append(list, s)
		}
	}
	return list
}

// checkCallbacks: the events of a callback belong to the wait that its token is for.
func (b *builder) checkCallbacks(g *graph) {
	for _, e := range b.def.Effects {
		if e.Callback == nil {
			continue
		}
		at := b.at(e, "callback")
		waits := b.waitsThatQueue(g, e.Name)
		if len(waits) == 0 && g.ends[e.Name] {
			b.errorAt(at, "callback-without-wait", "", "The effect %s has a callback, but nothing waits where it is queued.", e.Name)
		}
		for _, s := range waits {
			for _, name := range e.Callback.Events {
				t := s.events[name]
				if t == nil {
					b.errorAt(at, "callback-event", "", "callback names %s, which the state %s does not have; it queues the effect %s.", name, s.Name, e.Name)
				} else if !systemMay(t, e.Callback.As) {
					b.errorAt(at, "callback-event", `add "system:`+e.Callback.As+`" to its by`, "system:%s may not raise %s in the state %s.", e.Callback.As, name, s.Name)
				}
			}
		}
		b.checkCallbackURLs(e)
	}
}

// OpenToSystem tells whether a system of that name (without "system:") may raise the
// event, as far as the definition alone says; a principal that is computed may be it.
func (e *Event) OpenToSystem(system string) bool { return systemMay(e, system) }

func systemMay(e *Event, system string) bool {
	return slices.ContainsFunc(e.Arms, func(a *Arm) bool {
		return slices.ContainsFunc(a.By, func(p Principal) bool {
			return p.Kind == KindDynamic || p.Kind == KindSystem && (p.Text == "system:"+system || strings.Contains(p.Text, "{{"))
		})
	})
}

// checkCallbackURLs: callback.urls.EVENT is there for the callback's events only.
func (b *builder) checkCallbackURLs(e *Effect) {
	node := b.at(e, "body")
	if node == nil {
		return
	}
	eachText(node, func(n *yaml.Node) {
		for _, m := range callbackURL.FindAllStringSubmatchIndex(n.Value, -1) {
			name := n.Value[m[2]:m[3]]
			if !slices.Contains(e.Callback.Events, name) {
				line, column := b.position(n, m[2])
				b.report(line, column, Error, "callback-event", b.suggest(name, e.Callback.Events), "callback.urls.%s: the callback has no event %s.", name, name)
			}
		}
	})
}
