package fsm_test

import (
	"slices"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// happen carries an event out: data, then leave or stay.
func (m *model) happen(event *definitions.Event, arm *definitions.Arm, a *act, system string) fault.Code {
	env := m.env(a)
	if a != nil && m.votes != nil && event.Quorum != nil {
		env.Votes[a.event] = append(env.Votes[a.event], definitions.VoteVars{Actor: m.who(a.person), Input: a.input, Comment: a.comment})
	}
	after, code := m.written(event, arm.Set, arm.Unset, env, a.documents)
	if code != "" {
		return code
	}
	return m.move(arm, after, a, system)
}

func (m *model) move(arm *definitions.Arm, after map[string]any, a *act, system string) fault.Code {
	before := *m
	before.visits, before.timers = map[string]int{}, nil
	for k, v := range m.visits {
		before.visits[k] = v
	}
	for _, t := range m.timers {
		c := *t
		before.timers = append(before.timers, &c)
	}
	old := m.data
	changed := text(old) != text(after)
	m.data = after
	to := arm.To
	if arm.Stay {
		to = ""
		if changed {
			var ok bool
			if to, ok = m.choice(m.state, a); !ok {
				m.data = old
				return fault.GuardRejected
			}
		}
	}
	m.seq++
	m.queued = nil
	f := fact{seq: m.seq, person: a.person, event: a.event, state: m.name(), input: a.input, comment: a.comment, wait: m.wait, left: to != "", timer: system == "timer"}
	if changed {
		m.reset(old, to != "")
	}
	if to == "" {
		if changed && m.shown(old) != m.shown(after) {
			m.votes, m.changed = map[string]fact{}, true
		}
		m.queue(arm.Effects, a)
	} else {
		m.leave()
		m.bad = !m.arrive(to, arm.Effects, a) || m.bad
	}
	if m.bad {
		*m = before
		return fault.GuardRejected
	}
	m.acts = append(m.acts, f)
	m.use(a, f)
	return ""
}

func (m *model) leave() {
	m.timers = slices.DeleteFunc(slices.Clone(m.timers), func(t *timer) bool { return t.wait == m.wait })
	m.votes, m.asked = map[string]fact{}, map[string]*asked{}
}

// choice gives the target of the first arm that holds; false where a guard fails.
func (m *model) choice(state *definitions.State, a *act) (string, bool) {
	env := m.env(a)
	env.Instance.State, env.Visits = state.Name, m.visits[state.Name]
	for _, arm := range state.Choose {
		if arm.When == nil {
			return arm.To, true
		}
		ok, err := arm.When.Bool(env)
		if err != nil {
			return "", false
		}
		if ok {
			return arm.To, true
		}
	}
	return "", true
}

func (m *model) arrive(to string, effects []string, a *act) bool {
	for hops := 0; hops < 25; hops++ {
		s := m.def.State(to)
		if s.Kind != definitions.Choice {
			m.visits[s.Name]++
		}
		var ok bool
		if to, ok = m.choice(s, a); !ok {
			return false
		}
		if to == "" {
			m.settle(s, effects, a)
			return s.Kind != definitions.Choice
		}
		if s.Kind != definitions.Choice {
			m.visits[s.Name]--
		}
	}
	return false
}

func (m *model) settle(s *definitions.State, effects []string, a *act) {
	m.state, m.wait, m.entered = s, m.seq, m.now
	m.votes, m.asked, m.lines = map[string]fact{}, map[string]*asked{}, nil
	m.last = m.env(a).Last
	if s.Kind == definitions.Final {
		m.status, m.timers = "finished", nil
	} else {
		escalated := m.ask(a)
		for _, d := range s.Deadlines {
			if escalated && d.Action == definitions.ActionEscalate {
				escalated = false
				continue
			}
			m.arm(d, m.wait, m.now, a)
		}
		for _, t := range m.timers {
			if t.deferred && s.Event(t.rule.Event) != nil {
				t.deferred = false
			}
		}
	}
	m.queue(effects, a)
	m.queue(s.Enter, a)
}

// ask finds the owners; with nobody, the first escalation, else operators.
func (m *model) ask(a *act) (escalated bool) {
	m.add(m.state.Owner, a)
	if len(m.asked) > 0 {
		return false
	}
	for _, d := range m.state.Deadlines {
		if d.Action == definitions.ActionEscalate {
			m.add(d.Principals, a)
			break
		}
	}
	if len(m.asked) > 0 {
		return true
	}
	operators, err := definitions.ParseRef("role:operator")
	if err != nil {
		panic(err)
	}
	m.addRef(operators, a)
	return false
}

func (m *model) add(principals []definitions.Principal, a *act) {
	for _, p := range principals {
		resolved, err := p.Resolve(m.env(a))
		if err != nil {
			continue
		}
		for _, r := range resolved {
			m.addRef(r, a)
		}
	}
}

func (m *model) addRef(r definitions.Ref, a *act) {
	m.lines = append(m.lines, r)
	switch r.Kind {
	case definitions.KindRequester:
		m.addPerson(m.requester, a)
	case definitions.KindUser:
		m.addPerson(r.Name, a)
	case definitions.KindEmail, definitions.KindSystem:
		m.addPerson(r.String(), a)
	case definitions.KindGroup, definitions.KindRole:
		for _, p := range m.dir.People() {
			if p.Active && (r.Kind == definitions.KindGroup && slices.Contains(p.Groups, r.Name) || r.Kind == definitions.KindRole && slices.Contains(p.Roles, r.Name)) {
				m.addPerson(p.ID, a)
			}
		}
	}
}

func (m *model) addPerson(id string, a *act) {
	if p := m.dir.Person(id); m.asked[id] != nil || p != nil && !p.Active || p == nil && !strings.ContainsAny(id, "@:") {
		return
	}
	x := &asked{}
	excluded := false
	for _, e := range m.state.Events {
		for _, arm := range e.Arms {
			if !m.means(arm.By, id, e.Name, true, a) {
				continue
			}
			if m.means(arm.Not, id, e.Name, true, a) {
				excluded = true
				continue
			}
			x.events = append(x.events, e.Name)
			break
		}
	}
	if len(x.events) > 0 || !excluded {
		m.asked[id] = x
	}
}

func (m *model) queue(effects []string, a *act) {
	for _, name := range effects {
		if w := m.def.Effect(name).When; w != nil {
			if ok, err := w.Bool(m.env(a)); err != nil || !ok {
				continue
			}
		}
		m.queued = append(m.queued, name)
		m.bad = m.bad || !m.frozen(m.def.Effect(name), a)
	}
}

// frozen tells whether an effect's texts can be evaluated.
func (m *model) frozen(effect *definitions.Effect, a *act) bool {
	env := m.env(a)
	var errs []error
	note := func(_ any, err error) { errs = append(errs, err) }
	if effect.Webhook != nil {
		note(effect.Webhook.URL.String(env, definitions.EscapeURL))
		if effect.Webhook.Body != nil {
			note(effect.Webhook.Body.Eval(env))
		}
	}
	if effect.Email != nil {
		note(effect.Email.Subject.In("", env))
		note(effect.Email.Body.In("", env))
	}
	if start := effect.Start; start != nil {
		entries := []any{nil}
		if start.ForEach != nil {
			list, err := start.ForEach.Eval(env)
			note(list, err)
			entries, _ = list.([]any)
		}
		for _, entry := range entries {
			env.Locals = map[string]any{start.As: entry}
			for _, set := range start.Data {
				note(set.Value.Eval(env))
			}
		}
	}
	if raise := effect.Raise; raise != nil {
		note(raise.Key.String(env, definitions.EscapeNone))
		if raise.Input != nil {
			note(raise.Input.Eval(env))
		}
	}
	return !slices.ContainsFunc(errs, func(err error) bool { return err != nil })
}

// shown is what a reviewer reads, for telling whether it changed.
func (m *model) shown(data map[string]any) string {
	if len(m.state.Tasks) == 0 {
		return text(data)
	}
	env := &definitions.Env{Data: data, Vars: m.vars, Now: m.entered, Zone: time.UTC, Last: m.last, Actor: m.last.Actor, Input: m.last.Input, Visits: m.visits[m.name()], Instance: m.env(nil).Instance}
	task := m.state.Tasks[0]
	var parts []any
	for _, t := range []definitions.Text{task.Title, task.Instructions} {
		s, err := t.In("", env)
		parts = append(parts, s, err == nil)
	}
	for _, e := range m.state.Events {
		for _, d := range e.Documents {
			parts = append(parts, data[d.Name])
		}
	}
	if task.Show == nil {
		return text(append(parts, data))
	}
	for _, path := range task.Show {
		v, _ := path.Get(data, env)
		parts = append(parts, v)
	}
	return text(parts)
}

// system raises a timer's or an effect's event.
func (m *model) system(event *definitions.Event, kind string, effects []string, result any) fault.Code {
	a := &act{person: kind, event: event.Name, input: result}
	var arms []*definitions.Arm
	for _, arm := range event.Arms {
		if m.means(arm.By, kind, event.Name, false, a) {
			arms = append(arms, arm)
		}
	}
	arm := m.pick(arms, m.env(a))
	if arm == nil {
		return fault.GuardRejected
	}
	with := *arm
	with.Effects = append(slices.Clone(arm.Effects), effects...)
	return m.happen(event, &with, a, kind)
}

// outcome is what an effect's result does to the instance; the effect itself counts
// as finished either way.
func (m *model) outcome(name string, wait int, ok bool, result any) {
	m.queued = nil
	effect := m.def.Effect(name)
	o := effect.OnSuccess
	if !ok {
		o = effect.OnFailure
		m.seq++ // attention is a row of the history
	}
	if o == nil || m.status != "running" {
		return
	}
	if !ok {
		m.seq--
	}
	trial := *m
	trial.timers = nil
	for _, t := range m.timers {
		c := *t
		trial.timers = append(trial.timers, &c)
	}
	trial.visits = map[string]int{}
	for k, v := range m.visits {
		trial.visits[k] = v
	}
	if trial.follow(o, name, wait, result) == "" {
		*m = trial
		return
	}
	m.seq++ // the refusal is attention
}

func (m *model) follow(o *definitions.Outcome, name string, wait int, result any) fault.Code {
	env := m.env(&act{person: "effect:" + name, event: name})
	env.Result = result
	if m.def.Effect(name).Start != nil {
		result = nil // a list of children is no input
	}
	after, code := m.written(nil, o.Set, nil, env, nil)
	if code != "" {
		return code
	}
	if event := m.state.Event(o.Fire); event != nil && wait == m.wait {
		old := m.data
		m.data = after
		if text(old) != text(after) {
			m.reset(old, true)
		}
		return m.system(event, "effect", nil, result)
	}
	if len(o.Set) == 0 {
		if o == m.def.Effect(name).OnFailure {
			m.seq++
		}
		return ""
	}
	return m.move(&definitions.Arm{Stay: true}, after, &act{person: "effect:" + name, event: name, input: result}, "effect")
}

func (m *model) cancel() {
	m.seq++
	m.status, m.timers, m.queued = "cancelled", nil, nil
}
