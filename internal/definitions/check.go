package definitions

import (
	"slices"
	"strings"
)

// check looks at the definition as a whole: what is an error across its parts.
func (b *builder) check() {
	for _, s := range b.def.States {
		for _, e := range s.Events {
			b.checkRefusable(e)
			b.checkQuorum(s, e)
			b.checkUnreachableEvent(s, e)
		}
		b.checkTasks(s)
	}
	b.checkNobody()
	if b.graphBroken {
		return
	}
	g := b.graph()
	b.checkReachable()
	b.checkChoiceCycles()
	b.checkTimers()
	b.checkEnds(g)
	b.checkEffectEvents(g)
	b.checkCallbacks(g)
	b.checkCorrelates()
	b.checkUndoes()
	b.checkCancels()
	b.checkStarts(g)
	b.uses(g)
}

// checkRefusable: what the timer or an effect raises must not be refused.
func (b *builder) checkRefusable(e *Event) {
	for _, kind := range []PrincipalKind{KindTimer, KindEffect} {
		if !e.openTo(kind) {
			continue
		}
		rules := map[string]bool{
			"form": e.Form != nil, "edit": len(e.Edit) > 0, "comment": e.Comment == CommentRequired,
			"documents": len(e.Documents) > 0, "check": len(e.Check) > 0, "quorum": e.Quorum != nil,
		}
		for _, key := range []string{"form", "edit", "comment", "documents", "check", "quorum"} {
			if rules[key] {
				b.errorAt(b.at(e, key), "refusable", "give people an event of their own",
					"%s is raised by %s and may not have %s: it could be refused.", e.Name, kind, key)
			}
		}
		var last *Arm
		for _, a := range e.Arms {
			if !a.openTo(kind) {
				continue
			}
			last = a
			if a.When != nil && a.When.refs().Input || slices.ContainsFunc(a.Set, readsInput) {
				b.errorAt(b.place[a], "refusable", "", "%s is raised by %s, which brings no input.", e.Name, kind)
			}
		}
		if last.When != nil {
			b.errorAt(b.at(last, "when"), "refusable", "add a last arm without when",
				"%s is raised by %s and its last arm has a when: it could be refused.", e.Name, kind)
		}
	}
}

func readsInput(a Assign) bool { return a.Value.Expr != nil && a.Value.Expr.refs().Input }

// people gives the owners of the wait, with those who may join by escalation.
func (b *builder) people(s *State) []Principal {
	list := slices.Clone(s.Owner)
	for _, d := range b.deadlinesOf(s) {
		if d.Action == ActionEscalate {
			list = append(list, d.Principals...)
		}
	}
	return list
}

// raisers gives who may take the arm, owners written out, without the excluded.
func (b *builder) raisers(s *State, a *Arm) []Principal {
	var list []Principal
	for _, p := range a.By {
		if p.Kind == KindOwner && !named(a.Not, string(KindOwner)) {
			list = append(list, b.people(s)...)
		} else if p.Kind != KindOwner {
			list = append(list, p)
		}
	}
	return slices.DeleteFunc(list, func(p Principal) bool { return named(a.Not, p.Text) })
}

func named(list []Principal, text string) bool {
	return slices.ContainsFunc(list, func(p Principal) bool { return p.Text == text })
}

// checkNobody: an event that nobody may raise; an inherited one in none of its waits.
func (b *builder) checkNobody() {
	inherited := map[string]bool{} // name → somebody may raise it somewhere
	var order []*Event
	for _, s := range b.def.States {
		for _, e := range s.Events {
			somebody := slices.ContainsFunc(e.Arms, func(a *Arm) bool { return len(a.By) == 0 || len(b.raisers(s, a)) > 0 })
			if len(s.Owner) == 0 {
				somebody = true // reported as a wait without owner
			}
			if e.Inherited {
				if _, seen := inherited[e.Name]; !seen {
					order = append(order, e)
				}
				inherited[e.Name] = inherited[e.Name] || somebody
			} else if !somebody {
				b.errorAt(b.place[e], "nobody", "look at by, not and the owner", "Nobody may raise %s in the state %s.", e.Name, s.Name)
			}
		}
	}
	for _, e := range order {
		if !inherited[e.Name] {
			b.errorAt(b.place[e], "nobody", "look at by, not and the owners", "Nobody may raise %s in any state.", e.Name)
		}
	}
}

// single: a principal that is one person at most.
func single(p Principal) bool {
	return p.Kind == KindRequester || p.Kind == KindUser || p.Kind == KindEmail || p.Kind == KindSystem
}

func (b *builder) checkQuorum(s *State, e *Event) {
	if e.Quorum == nil {
		return
	}
	var voters []Principal
	for _, a := range e.Arms {
		voters = append(voters, b.raisers(s, a)...)
	}
	at := b.at(e, "quorum")
	for _, line := range e.Quorum.Lines {
		text := line.Principal.Text
		switch {
		case text == string(KindOwner) && len(voters) > 0:
		case !named(voters, text):
			b.errorAt(at, "quorum-not-met", "name an owner, or somebody the wait escalates to",
				"The quorum of %s needs %s, who may not raise it in the state %s.", e.Name, text, s.Name)
		case single(line.Principal) && line.Need > 1:
			b.errorAt(at, "quorum-not-met", "", "The quorum of %s needs %d votes of %s, who is one person.", e.Name, line.Need, text)
		}
	}
	if e.Quorum.Number == 0 || len(voters) == 0 {
		return
	}
	people := map[string]bool{}
	for _, p := range voters {
		if !single(p) {
			return
		}
		people[p.Text] = true
	}
	if e.Quorum.Number > len(people) {
		b.errorAt(at, "quorum-not-met", "", "The quorum of %s needs %d people; %d may raise it in the state %s.", e.Name, e.Quorum.Number, len(people), s.Name)
	}
}

func (b *builder) checkUnreachableEvent(s *State, e *Event) {
	if e.Unreachable == "" {
		return
	}
	at := b.at(e, "unreachable")
	if e.Quorum == nil {
		b.errorAt(at, "misplaced", "", "unreachable goes with quorum only.")
	}
	if t := s.events[e.Unreachable]; t == nil {
		b.errorAt(at, "unknown-event", b.suggest(e.Unreachable, b.names.eventNames), "unreachable names the event %s, which the state %s does not have.", clip(e.Unreachable), s.Name)
	} else if !t.openTo(KindTimer) {
		b.errorAt(at, "not-by-timer", "add timer to its by", "unreachable raises %s as timer, which it does not allow.", t.Name)
	}
}

func (b *builder) checkTasks(s *State) {
	for _, t := range s.Tasks {
		for _, name := range t.Events {
			if s.events[name] == nil {
				b.errorAt(b.at(t, "events"), "unknown-event", b.suggest(name, b.names.eventNames), "A task offers the event %s, which the state %s does not have.", clip(name), s.Name)
			}
		}
	}
}

func (b *builder) checkReachable() {
	reached := map[string]bool{b.def.Initial: true}
	for queue := []string{b.def.Initial}; len(queue) > 0; queue = queue[1:] {
		for _, to := range b.def.states[queue[0]].next() {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	for _, s := range b.def.States {
		if !reached[s.Name] {
			b.errorAt(b.place[s], "unreachable-state", "", "Nothing leads to the state %s.", s.Name)
		}
	}
}

// checkChoiceCycles: choices that lead to each other for ever.
func (b *builder) checkChoiceCycles() {
	reported := map[string]bool{}
	for _, s := range b.def.States {
		if s.Kind != Choice || reported[s.Name] {
			continue
		}
		if path := b.choicePath(s.Name, s.Name, map[string]bool{}); path != nil {
			for _, name := range path {
				reported[name] = true
			}
			b.errorAt(b.place[s], "choice-cycle", "put a wait in between", "The choices go in a circle: %s.", strings.Join(path, " → "))
		}
	}
}

// choicePath finds a way over choices from one to the goal.
func (b *builder) choicePath(from, goal string, seen map[string]bool) []string {
	seen[from] = true
	for _, arm := range b.def.states[from].Choose {
		if arm.To == goal {
			return []string{from, goal}
		}
		if to := b.def.states[arm.To]; to.Kind == Choice && !seen[arm.To] {
			if rest := b.choicePath(arm.To, goal, seen); rest != nil {
				return append([]string{from}, rest...)
			}
		}
	}
	return nil
}
