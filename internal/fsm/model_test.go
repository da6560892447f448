package fsm_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// model is a small second opinion on the language, written from its page: one
// instance, no history, no mails, no hashes. It asks the compiled definition for
// expressions and schemas, and nothing of package fsm but names of codes.
type model struct {
	def       *definitions.Definition
	dir       *fsm.Directory
	vars      map[string]string
	now       time.Time
	status    string // running, finished, cancelled
	state     *definitions.State
	seq, wait int
	started   time.Time
	entered   time.Time
	requester string
	data      map[string]any
	last      definitions.LastVars
	visits    map[string]int
	acts      []fact            // everything raised or voted
	asked     map[string]*asked // by person
	lines     []definitions.Ref // owning principals
	votes     map[string]fact   // standing, by person
	timers    []*timer          // live
	queued    []string          // declared effects queued by the last step
	changed   bool              // the last step changed what is shown
	bad       bool              // a text of the step cannot be evaluated
}

type fact struct {
	seq                  int
	person, event, state string
	input                any
	comment              string
	wait                 int
	vote, left, timer    bool
}

type asked struct {
	events []string
}

type timer struct {
	rule     *definitions.Deadline
	wait     int
	anchor   time.Time
	due      time.Time
	k        int
	deferred bool
}

// link is what a model must know of a mailed link.
type link struct {
	id     fsm.EffectID
	person string
	wait   int
	events []string
	used   *fact
	dead   fault.Code // superseded or replaced
}

// act is one event as a caller sends it.
type act struct {
	person, event, comment string
	input                  any
	documents              map[string]any
	assurance              fsm.Assurance
	link                   *link
}

func (m *model) env(a *act) *definitions.Env {
	e := &definitions.Env{
		Data: m.data, Vars: m.vars, Now: m.now, Zone: time.UTC, Visits: m.visits[m.name()], Votes: map[string][]definitions.VoteVars{},
		Instance: definitions.InstanceVars{ID: "0198-model", Definition: m.def.Name, State: m.name(), Requester: m.requester, Version: m.def.Version, StartedAt: m.started},
	}
	for _, v := range m.sortedVotes() {
		e.Votes[v.event] = append(e.Votes[v.event], definitions.VoteVars{Actor: m.who(v.person), Input: v.input, Comment: v.comment})
	}
	if a != nil {
		e.Input, e.Actor = a.input, m.who(a.person)
		e.Last = definitions.LastVars{Event: a.event, Actor: e.Actor, Comment: a.comment, Input: a.input, At: m.now}
	}
	return e
}

func (m *model) sortedVotes() []fact {
	var all []fact
	for _, v := range m.votes {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b fact) int { return a.seq - b.seq })
	return all
}

func (m *model) name() string {
	if m.state == nil {
		return ""
	}
	return m.state.Name
}

func (m *model) who(id string) definitions.ActorVars {
	v := definitions.ActorVars{ID: id}
	if p := m.dir.Person(id); p != nil {
		v.Name, v.Groups, v.Roles = p.Name, p.Groups, p.Roles
	}
	return v
}

// means tells whether a principal means somebody; as an owner where owner says so.
func (m *model) means(list []definitions.Principal, id, event string, owner bool, a *act) bool {
	for _, principal := range list {
		resolved, err := principal.Resolve(m.env(a))
		if err != nil {
			continue
		}
		for _, r := range resolved {
			p := m.dir.Person(id)
			human := id != "timer" && id != "effect"
			switch r.Kind {
			case definitions.KindTimer, definitions.KindEffect:
				if id == string(r.Kind) {
					return true
				}
			case definitions.KindRequester:
				if id == m.requester {
					return true
				}
			case definitions.KindOwner:
				if human && owner {
					return true
				}
			case definitions.KindGroup:
				if p != nil && slices.Contains(p.Groups, r.Name) {
					return true
				}
			case definitions.KindRole:
				if p != nil && slices.Contains(p.Roles, r.Name) {
					return true
				}
			case definitions.KindUser:
				if id == r.Name {
					return true
				}
			case definitions.KindEmail, definitions.KindSystem:
				if id == string(r.Kind)+":"+r.Name {
					return true
				}
			case definitions.KindDid:
				if human && m.did(id, r.Name, event) {
					return true
				}
			}
		}
	}
	return false
}

func (m *model) did(id, what, event string) bool {
	for _, f := range m.acts {
		if f.person == id && (what == f.event || what == f.state+"."+f.event) && !(f.vote && f.wait == m.wait && f.event == event) {
			return true
		}
	}
	return false
}

func (m *model) isOwner(id string) bool {
	if m.asked[id] != nil {
		return true
	}
	p := m.dir.Person(id)
	for _, r := range m.lines {
		if p != nil && (r.Kind == definitions.KindGroup && slices.Contains(p.Groups, r.Name) || r.Kind == definitions.KindRole && slices.Contains(p.Roles, r.Name)) {
			return true
		}
	}
	return false
}

// raise says what an event must come to: a code, or "" when it is accepted, which
// the model then carries out.
func (m *model) raise(a *act) fault.Code {
	if v, ok := m.votes[a.person]; ok && (a.link == nil || a.link.wait == m.wait) && v.event == a.event && equal(v.input, a.input) {
		return "replay"
	}
	if code := m.closed(a); code != "" {
		return code
	}
	event := m.state.Event(a.event)
	if a.link != nil && !slices.Contains(a.link.events, a.event) {
		return fault.EventNotAllowed
	}
	var arms []*definitions.Arm
	for _, arm := range event.Arms {
		if m.means(arm.By, a.person, a.event, m.isOwner(a.person), a) && !m.means(arm.Not, a.person, a.event, m.isOwner(a.person), a) {
			arms = append(arms, arm)
		}
	}
	if len(arms) == 0 {
		return fault.NotPermitted
	}
	if a.link != nil && a.link.dead == fault.ContentChanged {
		return fault.ContentChanged
	}
	if code := m.examine(event, a); code != "" {
		return code
	}
	arm := m.pick(arms, m.env(a))
	if arm == nil {
		return fault.GuardRejected
	}
	rank := map[string]int{"": 0, "link": 0, "code": 1, "session": 2, "step-up": 3}
	if event.Assurance != "" && !strings.HasPrefix(a.person, "system:") && rank[string(a.assurance)] < rank[event.Assurance] {
		return fault.AssuranceRequired
	}
	if event.Quorum != nil && !arm.Stay {
		return m.vote(event, arm, a)
	}
	return m.happen(event, arm, a, "")
}

func (m *model) closed(a *act) fault.Code {
	if a.link == nil {
		if m.status != "running" || m.state.Event(a.event) == nil {
			return fault.EventNotAllowedHere
		}
		if m.fatal() != nil {
			return fault.TokenExpired
		}
		return ""
	}
	l := a.link
	if l.used != nil {
		if l.used.event == a.event && equal(l.used.input, a.input) {
			return "replay"
		}
		return fault.AlreadyDecided
	}
	if l.wait != m.wait || m.status != "running" {
		for _, f := range m.acts {
			if f.wait == l.wait && f.left && f.person == a.person {
				if f.event == a.event && equal(f.input, a.input) {
					return "replay"
				}
				return fault.AlreadyDecided
			}
			if f.wait == l.wait && f.left && f.timer {
				return fault.TokenExpired
			}
		}
		return fault.AlreadyDecided
	}
	if m.fatal() != nil {
		return fault.TokenExpired
	}
	if l.dead == fault.TokenRevoked {
		return l.dead
	}
	return ""
}

func (m *model) examine(event *definitions.Event, a *act) fault.Code {
	schema := event.Form
	if event.Edit != nil {
		schema = m.def.Data.Subset(event.Edit)
	}
	if schema != nil && a.input == nil {
		a.input = map[string]any{}
	}
	switch {
	case schema == nil && a.input != nil && !strings.HasPrefix(a.person, "system:"), schema != nil && len(schema.Validate(a.input)) > 0:
		return fault.InvalidInput
	case event.Comment == definitions.CommentRequired && a.comment == "":
		return fault.InvalidInput
	}
	for _, d := range event.Documents {
		if _, given := a.documents[d.Name]; d.Required && !given {
			return fault.InvalidInput
		}
	}
	for name := range a.documents {
		if !slices.ContainsFunc(event.Documents, func(d definitions.DocumentRule) bool { return d.Name == name }) {
			return fault.InvalidInput
		}
	}
	return m.checked(event.Check, m.env(a))
}

func (m *model) checked(rules []definitions.Check, env *definitions.Env) fault.Code {
	for _, c := range rules {
		if ok, err := c.That.Bool(env); err != nil {
			return fault.GuardRejected
		} else if !ok {
			return fault.InvalidInput
		}
	}
	return ""
}

func (m *model) pick(arms []*definitions.Arm, env *definitions.Env) *definitions.Arm {
	for _, arm := range arms {
		if arm.When == nil {
			return arm
		}
		ok, err := arm.When.Bool(env)
		if err != nil {
			return nil
		}
		if ok {
			return arm
		}
	}
	return nil
}

// vote counts distinct people: by number, or matched to the lines' slots by trying.
func (m *model) vote(event *definitions.Event, arm *definitions.Arm, a *act) fault.Code {
	voters := []string{a.person}
	for _, v := range m.sortedVotes() {
		if v.event == a.event && v.person != a.person {
			voters = append(voters, v.person)
		}
	}
	need := event.Quorum.Number
	if len(event.Quorum.Lines) > 0 {
		var slots []definitions.Principal
		for _, l := range event.Quorum.Lines {
			for range l.Need {
				slots = append(slots, l.Principal)
			}
		}
		if m.fill(slots, voters, a) {
			return m.happen(event, arm, a, "")
		}
		return m.note(event, a)
	}
	base := 0
	for _, x := range m.asked {
		if slices.Contains(x.events, event.Name) {
			base++
		}
	}
	if event.Quorum.All {
		need = max(base, 1)
	}
	if event.Quorum.Percent > 0 {
		need = max((base*event.Quorum.Percent+99)/100, 1)
	}
	if len(voters) >= need {
		return m.happen(event, arm, a, "")
	}
	return m.note(event, a)
}

func (m *model) fill(slots []definitions.Principal, voters []string, a *act) bool {
	if len(slots) == 0 {
		return true
	}
	for i, v := range voters {
		if m.means(slots[:1], v, a.event, m.isOwner(v), a) && m.fill(slots[1:], slices.Delete(slices.Clone(voters), i, i+1), a) {
			return true
		}
	}
	return false
}

func (m *model) note(event *definitions.Event, a *act) fault.Code {
	m.seq++
	m.queued = nil
	f := fact{seq: m.seq, person: a.person, event: a.event, state: m.name(), input: a.input, comment: a.comment, wait: m.wait, vote: true}
	standing, voted := m.votes[a.person]
	m.votes[a.person] = f
	to, ok := m.choice(m.state, a)
	if !ok {
		m.seq--
		delete(m.votes, a.person)
		if voted {
			m.votes[a.person] = standing
		}
		return fault.GuardRejected
	}
	if to != "" {
		f.vote, f.left = false, true
		m.acts = append(m.acts, f)
		m.leave()
		m.arrive(to, nil, a)
	} else {
		m.acts = append(m.acts, f)
	}
	m.use(a, f)
	return ""
}

func (m *model) use(a *act, f fact) {
	if a.link != nil {
		a.link.used = &f
	}
}

func equal(a, b any) bool {
	if none(a) || none(b) {
		return none(a) && none(b)
	}
	return string(definitions.CanonicalJSON(a)) == string(definitions.CanonicalJSON(b))
}

func none(v any) bool {
	o, ok := v.(map[string]any)
	return v == nil || ok && len(o) == 0
}

func clone(v any) any {
	if v == nil {
		return nil
	}
	c, err := definitions.DecodeJSON(definitions.EncodeJSON(v))
	if err != nil {
		panic(err)
	}
	return c
}

// written gives the data after set, unset, edit and documents, or why not.
func (m *model) written(event *definitions.Event, set []definitions.Assign, unset []definitions.Path, env *definitions.Env, documents map[string]any) (map[string]any, fault.Code) {
	after, _ := clone(m.data).(map[string]any)
	for name, d := range documents {
		after[name] = clone(d)
	}
	if event != nil {
		in, _ := env.Input.(map[string]any)
		for _, path := range event.Edit {
			if v, ok := path.Get(in, env); !ok {
				path.Unset(after, env)
			} else if path.Set(after, v, env) != nil {
				return nil, fault.GuardRejected
			}
		}
	}
	for _, path := range unset {
		path.Unset(after, env)
	}
	for _, s := range set {
		v, err := s.Value.Eval(env)
		if err != nil || s.Path.Set(after, v, env) != nil {
			return nil, fault.GuardRejected
		}
	}
	if reflect.DeepEqual(m.data, after) {
		return m.data, ""
	}
	if len(m.def.Data.Validate(after)) > 0 {
		return nil, fault.InvalidInput
	}
	return after, m.checked(m.def.Check, &definitions.Env{Data: after, Now: m.now, Zone: time.UTC, Vars: m.vars, Instance: env.Instance, Visits: env.Visits})
}

// json of any value, for comparing.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
