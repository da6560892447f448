package fsm_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/simulate"
)

// How many random sequences all definitions get together.
const (
	allSequences   = 20000
	shortSequences = 1600
	fixedSeed      = "7" // so that coverage is the same in every run; -rapid.seed explores
)

// fullRun tells whether every cell must be covered.
var fullRun bool

func TestMain(m *testing.M) {
	flag.Parse()
	n := allSequences
	if testing.Short() {
		n = shortSequences
	}
	defaults := map[string]string{"rapid.checks": fmt.Sprint(n/len(subjects) + 1), "rapid.seed": fixedSeed}
	flag.Visit(func(f *flag.Flag) { delete(defaults, f.Name) })
	for name, value := range defaults {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	fullRun = len(defaults) == 2 && !testing.Short()
	os.Exit(m.Run())
}

// crowd is people p1 to p8; every group has three of them.
func crowd(def string) []fsm.Person {
	groups := map[string]bool{}
	for _, g := range regexp.MustCompile(`group:([a-z-]+[a-z])`).FindAllStringSubmatch(def, -1) {
		groups[g[1]] = true
	}
	for _, g := range []string{"owners-web", "owners-db", "cc-1000"} {
		groups[g] = true
	}
	all := make([]fsm.Person, 8)
	for i := range all {
		all[i] = fsm.Person{ID: fmt.Sprintf("p%d@example.com", i+1), Active: true}
	}
	for i, g := range slices.Sorted(maps.Keys(groups)) {
		for k := range 3 {
			p := &all[(i+k*2)%8]
			p.Groups = append(p.Groups, g)
		}
	}
	all[0].Roles = []string{"requester"}
	all[6].Roles, all[7].Roles = []string{"operator"}, []string{"operator", "requester"}
	return all
}

// cells counts which (state, event) pairs an accepted event has happened in.
type cells struct {
	sync.Mutex
	seen map[string]int
}

func TestPlanAgreesWithTheModel(t *testing.T) { // guarantee R-11
	t.Parallel()
	for i := range subjects {
		s := &subjects[i]
		t.Run(strings.TrimSuffix(s.file, ".yaml"), func(t *testing.T) {
			t.Parallel()
			text := s.src
			if text == "" {
				src, err := os.ReadFile(filepath.Join("..", "definitions", "testdata", s.file))
				if err != nil {
					t.Fatal(err)
				}
				text = string(src)
			}
			for _, r := range s.strip {
				text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
			}
			def := parse(t, text)
			covered := &cells{seen: map[string]int{}}
			directory := fsm.NewDirectory(1, crowd(text))
			rapid.Check(t, func(rt *rapid.T) {
				r := &run{rt: rt, s: s, def: def, covered: covered, dir: directory}
				r.sequence()
			})
			covered.report(t, def)
		})
	}
}

func (c *cells) add(cell string) {
	c.Lock()
	defer c.Unlock()
	c.seen[cell]++
}

func (c *cells) report(t *testing.T, def *definitions.Definition) {
	total := 0
	var missing []string
	for _, s := range def.States {
		for _, e := range s.Events {
			total++
			if c.seen[s.Name+"."+e.Name] == 0 {
				missing = append(missing, s.Name+"."+e.Name)
			}
		}
	}
	t.Logf("%d of %d (state, event) cells", total-len(missing), total)
	if len(missing) > 0 && fullRun {
		t.Errorf("no accepted event in: %s", strings.Join(missing, ", "))
	}
}

// run is one random sequence on Plan and on the model side by side.
type run struct {
	rt      *rapid.T
	s       *subject
	def     *definitions.Definition
	dir     *fsm.Directory
	covered *cells
	w       *simulate.World
	m       *model
	links   []*link
	trace   []string
	now     time.Time
	stuck   bool
	target  [2]string      // state and event that the sequence tries to reach
	steps   map[string]int // how many moves from a state to the target's
	effects int            // how many had been queued before the present step
}

func (r *run) sequence() {
	vars := map[string]string{}
	for _, n := range []string{"CORE", "ESIGN", "DATA", "ORG", "ERP", "HR", "IDP", "BADGE", "SCREEN", "IAM", "PAYROLL"} {
		vars[n+"_URL"] = "https://x.example"
	}
	r.now = monday
	r.w = &simulate.World{Definition: r.def, Directory: r.dir, Zone: time.UTC, Vars: vars}
	r.m = &model{def: r.def, dir: r.dir, vars: vars, now: r.now, status: "running", started: r.now, visits: map[string]int{}, requester: "p1@example.com"}
	r.aim()
	r.start()
	defer r.verify()
	for range rapid.IntRange(4, 30).Draw(r.rt, "length") {
		if r.stuck {
			return
		}
		if r.m.status != "running" {
			r.person()
			return
		}
		if e := r.toward(); e != nil && rapid.IntRange(0, 2).Draw(r.rt, "toward the target") > 0 {
			r.pursue(e)
			continue
		}
		switch rapid.IntRange(0, 12).Draw(r.rt, "kind") {
		case 0, 1:
			r.time()
		case 2, 3, 4:
			r.effect()
		case 6:
			r.again()
		case 5:
			if rapid.IntRange(0, 11).Draw(r.rt, "cancel") == 0 {
				r.cancel()
				continue
			}
			r.person()
		default:
			r.person()
		}
	}
}

func (r *run) start() {
	data, err := definitions.DecodeJSON([]byte(rapid.SampledFrom(r.s.starts).Draw(r.rt, "data")))
	if err != nil {
		r.rt.Fatal(err)
	}
	ev := &fsm.Event{
		Kind: fsm.KindStart, Instance: "0198-model", Actor: fsm.Actor{Kind: fsm.ActorSystem, ID: "system:hris", Groups: []string{"hr", "onboarding", "incident-managers"}, Roles: []string{"requester"}},
		Start: &fsm.StartEvent{Data: data.(map[string]any), Requester: "p1@example.com", StartedBy: "p1@example.com"},
	}
	step := r.w.Fire(ev, nil, r.now)
	if step.Refusal != nil {
		r.rt.Fatalf("start refused: %v", step.Refusal)
	}
	m := r.m
	m.data = fsm.WithDefaults(r.def, data.(map[string]any))
	m.seq = 1
	a := &act{person: ev.Actor.ID}
	for _, d := range r.def.Deadlines {
		m.arm(d, 0, r.now, a)
	}
	m.arrive(r.def.Initial, nil, a)
	m.acts = append(m.acts, fact{seq: 1, person: ev.Actor.ID, event: "", wait: 0})
	r.same("start", "")
}

// person raises a random event, mostly one that the wait knows, by session or link.
func (r *run) person() {
	events := r.events()
	name := rapid.SampledFrom(events).Draw(r.rt, "event")
	for range 2 {
		if e := r.m.state.Event(name); e != nil && r.ends(e) {
			name = rapid.SampledFrom(events).Draw(r.rt, "another event")
		}
	}
	r.someone(name)
}

// someone raises an event as somebody who mostly may.
func (r *run) someone(name string) {
	a := &act{assurance: fsm.BySession, event: name}
	people := []string{"system:esign", "system:mailer", "system:writer", "system:vendor-desk", "p1@example.com"}
	for _, p := range r.dir.People() {
		people = append(people, p.ID)
	}
	event := r.m.state.Event(a.event)
	if event != nil && rapid.IntRange(0, 4).Draw(r.rt, "one who may") > 0 {
		may := slices.DeleteFunc(append(slices.Sorted(maps.Keys(r.m.asked)), people...), func(id string) bool {
			return !r.m.means(event.Arms[0].By, id, a.event, r.m.isOwner(id), a)
		})
		if len(may) > 0 {
			people = may
		}
	}
	a.person = rapid.SampledFrom(people).Draw(r.rt, "person")
	if rapid.IntRange(0, 3).Draw(r.rt, "comment") > 0 {
		a.comment = "because"
	}
	if event != nil {
		r.fillIn(a, event)
	}
	if rapid.IntRange(0, 3).Draw(r.rt, "stepped up") == 0 {
		a.assurance = fsm.ByStepUp
	}
	if rapid.IntRange(0, 2).Draw(r.rt, "by link") == 0 {
		a.link = r.pickLink(a)
	}
	r.raise(a)
}

func (r *run) ends(e *definitions.Event) bool {
	to := r.def.State(e.Arms[0].To)
	return to != nil && to.Kind == definitions.Final
}

// again is an operator who raises a timer's or an effect's event by hand.
func (r *run) again() {
	var events []*definitions.Event
	for _, e := range r.m.state.Events {
		if bySystem(e) {
			events = append(events, e)
		}
	}
	if len(events) == 0 || rapid.IntRange(0, 2).Draw(r.rt, "by hand") > 0 {
		r.time()
		return
	}
	r.byHand(rapid.SampledFrom(events).Draw(r.rt, "event by hand"))
}

func (r *run) byHand(event *definitions.Event) {
	cell := r.m.name() + "." + event.Name
	step := r.w.Fire(&fsm.Event{Kind: fsm.KindRaiseAgain, Actor: r.w.Person("p7@example.com"), Name: event.Name}, nil, r.now)
	a := &act{person: "p7@example.com", event: event.Name}
	want := fault.GuardRejected
	if arm := r.m.pick(event.Arms[:1], r.m.env(a)); arm != nil {
		want = r.m.happen(event, arm, a, "")
	}
	got := fault.Code("")
	if step.Refusal != nil {
		got = step.Refusal.Code
	} else {
		r.covered.add(cell)
	}
	if got != want {
		r.rt.Fatalf("%s\n%s by hand: plan %v, model %q", strings.Join(r.trace, "\n"), cell, step.Refusal, want)
	}
	r.same("by hand "+event.Name, got)
}

func (r *run) events() []string {
	var names []string
	for _, s := range r.def.States {
		for _, e := range s.Events {
			if s == r.m.state {
				names = append(names, e.Name)
			}
		}
	}
	for range 3 {
		for id := range r.m.asked {
			names = append(names, r.m.asked[id].events...)
		}
	}
	slices.Sort(names)
	return append(names, "nothing", "approve", "withdraw")
}

// pickLink takes one of the person's links of any wait.
func (r *run) pickLink(a *act) *link {
	var own []*link
	for _, l := range r.links {
		if l.person == a.person {
			own = append(own, l)
		}
	}
	if len(own) == 0 {
		return nil
	}
	a.assurance = fsm.ByLink
	if l := own[len(own)-1]; rapid.Bool().Draw(r.rt, "newest") {
		return l
	}
	return rapid.SampledFrom(own).Draw(r.rt, "link")
}

func (r *run) raise(a *act) {
	actor := r.w.Person(a.person)
	ev := &fsm.Event{Kind: fsm.KindRaise, Actor: actor, Assurance: a.assurance, Name: a.event, Input: a.input, Comment: a.comment, Documents: a.documents}
	if actor.Kind == fsm.ActorSystem {
		ev.Assurance = fsm.ByKey
	}
	var token *fsm.EffectID
	if a.link != nil {
		ev.Token, token = true, &a.link.id
	}
	cell := r.m.name() + "." + a.event
	step := r.w.Fire(ev, token, r.now)
	want := r.m.raise(a)
	got := fault.Code("")
	switch {
	case step.Replay > 0:
		got = "replay"
	case step.Refusal != nil:
		got = step.Refusal.Code
	default:
		r.covered.add(cell)
	}
	what := fmt.Sprintf("%s raises %s (input %s, comment %q, link %v)", a.person, a.event, text(a.input), a.comment, token)
	if got != want {
		r.rt.Fatalf("%s\n%s in %s: plan says %q (%v), model %q", strings.Join(r.trace, "\n"), what, cell, got, step.Refusal, want)
	}
	r.same(what, got)
}

// time lets it pass to the next deadline or some hours, sweeping or not.
func (r *run) time() {
	next := r.w.Next()
	to := r.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(r.rt, "hours")) * time.Hour)
	if next != nil && rapid.IntRange(0, 3).Draw(r.rt, "to the deadline") > 0 {
		to = next.DueAt
	}
	if to.After(r.now) {
		r.now = to
	}
	r.m.now = r.now
	if rapid.IntRange(0, 4).Draw(r.rt, "unswept") == 0 {
		return
	}
	for d := r.w.Next(); d != nil && !d.DueAt.After(r.now); d = r.w.Next() {
		at := slices.IndexFunc(r.m.timers, func(t *timer) bool { return t.rule.ID == d.Rule && t.k == d.Occurrence && t.due.Equal(d.DueAt) })
		if at < 0 {
			r.rt.Fatalf("%s\nthe model does not know %s/%d due %s", strings.Join(r.trace, "\n"), d.Rule, d.Occurrence, d.DueAt)
		}
		cell := r.m.name() + "." + r.m.timers[at].rule.Event
		if f := r.m.fatal(); f != nil {
			cell = r.m.name() + "." + f.rule.Event
		}
		r.m.links(r, d)
		step := r.w.Fire(simulate.Due(d), nil, r.now)
		code := r.m.sweep(r.m.timers[at])
		if step.Refusal != nil && step.Refusal.Code == code {
			r.stuck = true // quarantined: whoever mends it is not part of this
			return
		}
		if step.Refusal != nil || code != "" {
			r.rt.Fatalf("%s\ndeadline %s: plan %v, model %q", strings.Join(r.trace, "\n"), d.Rule, step.Refusal, code)
		}
		r.covered.add(cell)
		r.same("deadline "+d.Rule, "")
		if r.m.status != "running" {
			return
		}
	}
}

// links notes which links a reminder replaces.
func (m *model) links(r *run, d *fsm.DeadlineRow) {
	if d.Action != "remind" || m.fatal() != nil {
		return
	}
	rule := r.m.timers[slices.IndexFunc(r.m.timers, func(t *timer) bool { return t.rule.ID == d.Rule })].rule
	if !m.holds(rule) {
		return
	}
	for _, l := range r.links {
		if _, voted := m.votes[l.person]; l.wait == m.wait && l.used == nil && l.dead == "" && !voted && !strings.HasPrefix(l.person, "system:") {
			l.dead = fault.TokenRevoked
		}
	}
}

func (r *run) effect() {
	var open []*simulate.Effect
	for i := range r.w.Effects {
		e := &r.w.Effects[i]
		if r.def.Effect(e.Name) != nil && e.Status == fsm.EffectWaiting && e.Undoes == (fsm.EffectID{}) && r.w.Instance.Compensation == nil {
			open = append(open, e)
		}
	}
	if len(open) == 0 {
		r.person()
		return
	}
	e := rapid.SampledFrom(open).Draw(r.rt, "effect")
	ok := rapid.IntRange(0, 3).Draw(r.rt, "succeeds") > 0
	ev := &fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{Effect: e.EffectID, Status: fsm.EffectDead}}
	if ok {
		ev.Result.Status = fsm.EffectSucceeded
		if results := r.s.results[e.Name]; len(results) > 0 {
			result, err := definitions.DecodeJSON([]byte(rapid.SampledFrom(results).Draw(r.rt, "result")))
			if err != nil {
				r.rt.Fatal(err)
			}
			ev.Result.Result = result
		}
	}
	name, wait := e.Name, e.Wait
	cell := r.m.name()
	effect := r.def.Effect(name)
	o := effect.OnSuccess
	if !ok {
		o = effect.OnFailure
	}
	before := r.m.wait
	step := r.w.Fire(ev, nil, r.now)
	if step.Refusal != nil {
		r.rt.Fatalf("result of %s refused: %v", name, step.Refusal)
	}
	r.m.outcome(name, wait, ok, ev.Result.Result)
	if o != nil && o.Fire != "" && r.m.wait != before {
		r.covered.add(cell + "." + o.Fire)
	}
	r.same(fmt.Sprintf("effect %s of wait %d: %v %s", name, wait, ok, text(ev.Result.Result)), "")
}

func (r *run) cancel() {
	step := r.w.Fire(&fsm.Event{Kind: fsm.KindCancel, Actor: r.w.Person("p7@example.com")}, nil, r.now)
	if step.Refusal != nil {
		r.rt.Fatalf("cancel refused: %v", step.Refusal)
	}
	r.m.cancel()
	r.same("cancel", "")
}
