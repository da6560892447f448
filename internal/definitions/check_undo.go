package definitions

import (
	"slices"
	"strings"
)

// checkUndoes: an effect that has undone another names one that can be undone.
func (b *builder) checkUndoes() {
	var reported []string
	for _, e := range b.def.Effects {
		of := b.def.effects[e.Undoes]
		if of == nil {
			continue
		}
		at := b.at(e, "undoes")
		switch circle := b.undoesCircle(e); {
		case of == e:
			b.errorAt(at, "undoes", "", "An effect cannot undo itself.")
		case slices.Contains(reported, e.Name):
		case circle != nil:
			reported = append(reported, circle...)
			b.errorAt(at, "undoes", "", "The effects undo each other in a circle: %s.", strings.Join(circle, " → "))
		case !of.Reversible:
			b.errorAt(at, "undoes", "write reversible: true at "+of.Name, "undoes names %s, which is not reversible.", of.Name)
		}
	}
}

// undoesCircle follows undoes from an effect back to it; nil where it does not lead back.
func (b *builder) undoesCircle(e *Effect) []string {
	path := []string{e.Name}
	for of := b.def.effects[e.Undoes]; of != nil && len(path) <= len(b.def.Effects); of = b.def.effects[of.Undoes] {
		path = append(path, of.Name)
		if of == e {
			return path
		}
	}
	return nil
}

// checkCancels: what is queued when an instance is cancelled has no wait that a result
// or a call could belong to, and undoes nothing.
func (b *builder) checkCancels() {
	tidies := map[string]bool{}
	for _, name := range b.def.OnCancel {
		tidies[name] = true
	}
	for _, e := range b.def.Effects {
		for _, name := range e.OnCancel {
			tidies[name] = true
			if name == e.Name {
				b.errorAt(b.at(e, "on_cancel"), "on_cancel", "", "on_cancel of %s names itself.", e.Name)
			}
		}
	}
	const hint = "give it an effect of its own"
	for _, e := range b.def.Effects {
		if !tidies[e.Name] {
			continue
		}
		if e.Callback != nil {
			b.errorAt(b.at(e, "callback"), "on_cancel", hint, "%s is queued by on_cancel, after which nothing waits for a callback.", e.Name)
		}
		for _, o := range []struct {
			key  string
			fire bool
		}{
			{"on_success", e.OnSuccess != nil && e.OnSuccess.Fire != ""},
			{"on_failure", e.OnFailure != nil && e.OnFailure.Fire != ""},
			{"on_undeliverable", e.OnUndeliverable != ""},
		} {
			if o.fire {
				b.errorAt(b.at(e, o.key), "on_cancel", hint, "%s is queued by on_cancel, after which %s can raise nothing.", e.Name, o.key)
			}
		}
		if e.Undoes != "" {
			b.errorAt(b.at(e, "undoes"), "on_cancel", "write compensate: "+e.Name+" at "+e.Undoes, "%s is queued by on_cancel, which undoes nothing.", e.Name)
		}
		if len(e.OnCancel) > 0 && !slices.Contains(e.OnCancel, e.Name) {
			b.errorAt(b.at(e, "on_cancel"), "on_cancel", "name it in the on_cancel of the definition", "%s is queued by on_cancel itself, after which nothing is cancelled.", e.Name)
		}
		b.needsDetach(e, "when an instance is cancelled")
	}
}

// checkStarts: children that are not detached live and die with a wait.
func (b *builder) checkStarts(g *graph) {
	for _, e := range b.def.Effects {
		if b.compensates[e.Name] {
			b.needsDetach(e, "as compensation")
		}
		if g.ends[e.Name] && len(b.waitsThatQueue(g, e.Name)) == 0 {
			b.needsDetach(e, "in a final state")
		}
	}
}

func (b *builder) needsDetach(e *Effect, when string) {
	if e.Start != nil && !e.Start.Detach {
		b.errorAt(b.place[e], "start-without-wait", "write detach: true", "%s starts children %s, where nothing waits for them.", e.Name, when)
	}
}

// checkCorrelates: only calls of systems are found by what they carry.
func (b *builder) checkCorrelates() {
	for _, s := range b.def.States {
		for _, e := range s.Events {
			if len(e.Correlate) > 0 && !e.openToSystems() {
				b.errorAt(b.at(e, "correlate"), "correlate", `such as by: ["system:esign"]`, "correlate finds calls of systems, and no system may raise %s.", e.Name)
			}
		}
	}
}

// checkEscalations: mail that cannot be delivered asks somebody whom the wait names.
func (b *builder) checkEscalations(g *graph) {
	const hint = "add a deadline with escalate"
	for _, e := range b.def.Effects {
		if e.OnUndeliverable != escalateWord {
			continue
		}
		waits := b.waitsThatQueue(g, e.Name)
		if len(waits) == 0 && g.ends[e.Name] {
			b.errorAt(b.at(e, "on_undeliverable"), "escalates-to-nobody", "", "on_undeliverable escalates, but the effect %s is queued only by final states.", e.Name)
		}
		for _, s := range waits {
			if !s.escalates() {
				b.errorAt(b.at(e, "on_undeliverable"), "escalates-to-nobody", hint, "on_undeliverable escalates, but the state %s, which queues the effect %s, escalates to nobody.", s.Name, e.Name)
			}
		}
	}
	for _, s := range b.def.States {
		for _, t := range s.Tasks {
			b.checkTaskUndeliverable(s, t, hint)
		}
	}
}

func (b *builder) checkTaskUndeliverable(s *State, t *Task, hint string) {
	if t.OnUndeliverable == "" {
		return
	}
	at := b.at(t, "on_undeliverable")
	switch e := s.events[t.OnUndeliverable]; {
	case t.OnUndeliverable == escalateWord && s.escalates():
	case t.OnUndeliverable == escalateWord:
		b.errorAt(at, "escalates-to-nobody", hint, "on_undeliverable escalates, but the state %s escalates to nobody.", s.Name)
	case e == nil:
		b.errorAt(at, "effect-fires-nowhere", "", "on_undeliverable fires %s, which the state %s does not have.", t.OnUndeliverable, s.Name)
	case !e.openTo(KindEffect):
		b.errorAt(at, "not-by-effect", "add effect to its by", "on_undeliverable fires %s, which no effect may raise in the state %s.", e.Name, s.Name)
	}
}

// escalates tells whether a deadline of the wait itself asks further people.
func (s *State) escalates() bool {
	return slices.ContainsFunc(s.Deadlines, func(d *Deadline) bool { return d.Action == ActionEscalate })
}
