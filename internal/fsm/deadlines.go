package fsm

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// maxOccurrences bounds how far occurrences are looked for.
const maxOccurrences = 1 << 30

// schedule is a deadline's rule with its texts evaluated: occurrence k is due at
// first + (k-1)·every from the anchor, counted each time from the anchor.
type schedule struct {
	anchor       time.Time
	first, every period
	repeats      bool
	times        int // 0: no end
	zone         *time.Location
}

func (s *schedule) due(k int) time.Time {
	return s.first.plus(s.every.times(k-1)).from(s.anchor, s.zone)
}

// after gives the first occurrence behind k that is later than now; 0 where there is none.
func (s *schedule) after(k int, now time.Time) int {
	if !s.repeats || !s.due(k+1).After(s.due(k)) {
		return 0
	}
	last := maxOccurrences
	if s.times > 0 {
		last = s.times
	}
	if k >= last {
		return 0
	}
	lo, hi := k+1, k+1
	for hi < last && !s.due(hi).After(now) {
		lo, hi = hi, min(k+2*(hi-k), last)
	}
	if !s.due(hi).After(now) {
		return 0
	}
	return lo + sort.Search(hi-lo, func(i int) bool { return s.due(lo + i).After(now) })
}

// scheduleOf evaluates a rule; nil where its `at` names an absent field.
func (p *planner) scheduleOf(d *definitions.Deadline, anchor time.Time, env *definitions.Env) (*schedule, error) {
	s := &schedule{anchor: anchor, zone: p.zone, times: d.Times}
	var err error
	if d.At != nil {
		at, err := p.at(d, env)
		if err != nil || at == nil {
			return nil, err
		}
		s.anchor = *at
		if d.Offset != nil {
			if s.first, err = periodOf(d.Offset, env); err != nil {
				return nil, err
			}
		}
	} else if s.first, err = periodOf(d.After, env); err != nil {
		return nil, err
	}
	if d.Every != nil {
		s.repeats = true
		if s.every, err = periodOf(d.Every, env); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func periodOf(t *definitions.Template, env *definitions.Env) (period, error) {
	if t.Static() {
		return parsePeriod(t.Text)
	}
	text, err := t.String(env, definitions.EscapeNone)
	if err != nil {
		return period{}, err
	}
	return parsePeriod(text)
}

// at reads the deadline's own time: RFC 3339, or a date, which is its day's start.
func (p *planner) at(d *definitions.Deadline, env *definitions.Env) (*time.Time, error) {
	v, err := d.At.Eval(env)
	if err != nil {
		if fault.CodeOf(err) == fault.GuardRejected && strings.Contains(fault.As(err).Message, "not set") {
			return nil, nil
		}
		return nil, err
	}
	text, ok := v.(string)
	if v == nil || ok && text == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); ok && err == nil {
		t = t.UTC().Truncate(time.Millisecond)
		return &t, nil
	}
	if t, err := startOfDay(text, p.zone); ok && err == nil {
		return &t, nil
	}
	return nil, fault.New(fault.GuardRejected, "The deadline %s is at %v, which is not a time or a date.", d.ID, v)
}

// wholeDeadlines sets the deadlines of the whole instance.
func (p *planner) wholeDeadlines() error {
	for _, d := range p.def.Deadlines {
		if len(d.In) > 0 {
			continue
		}
		if err := p.setDeadline(d, 0, p.inst.StartedAt); err != nil {
			return err
		}
	}
	return nil
}

// waitDeadlines sets those of the wait just entered; the first escalation is left
// out where an empty owner has taken it already.
func (p *planner) waitDeadlines(escalated bool) error {
	for _, d := range p.state.Deadlines {
		if escalated && d.Action == definitions.ActionEscalate {
			escalated = false
			continue
		}
		if err := p.setDeadline(d, p.inst.Wait, p.inst.EnteredAt); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) setDeadline(d *definitions.Deadline, wait int, anchor time.Time) error {
	s, err := p.scheduleOf(d, anchor, p.present())
	if err != nil || s == nil {
		return err
	}
	due := s.due(1)
	if due.Year() > 9999 {
		return fault.New(fault.GuardRejected, "The deadline %s would be due in the year %d.", d.ID, due.Year())
	}
	p.deadlineN++
	row := DeadlineRow{
		Seq: p.seq, N: p.deadlineN, Wait: wait, Rule: d.ID, Action: actionName(d.Action), Event: d.Event,
		DueAt: due, Anchor: s.anchor, Occurrence: 1,
	}
	p.step.DeadlinesSet = append(p.step.DeadlinesSet, row)
	p.deadlines = append(p.deadlines[:len(p.deadlines):len(p.deadlines)], row)
	return nil
}

func actionName(a definitions.Action) string {
	switch a {
	case definitions.ActionRemind:
		return "remind"
	case definitions.ActionEscalate:
		return "escalate"
	case definitions.ActionTell:
		return "tell"
	}
	return "fire"
}

// rule finds the definition's deadline of a row, or nil.
func (p *planner) rule(row *DeadlineRow) *definitions.Deadline {
	state, index, ok := strings.Cut(row.Rule, "/")
	i, err := strconv.Atoi(index)
	if !ok || err != nil || i < 0 {
		return nil
	}
	list := p.def.Deadlines
	if state != "" {
		s := p.def.State(state)
		if s == nil {
			return nil
		}
		list = s.Deadlines
	}
	if i >= len(list) {
		return nil
	}
	return list[i]
}

// dropDeadlines deletes rows and names them for the history.
func (p *planner) dropDeadlines(match func(*DeadlineRow) bool) []string {
	var cancelled []string
	kept := make([]DeadlineRow, 0, len(p.deadlines))
	for i := range p.deadlines {
		d := p.deadlines[i]
		if !match(&d) {
			kept = append(kept, d)
			continue
		}
		if d.Seq == p.seq {
			p.unset(d)
			continue
		}
		p.step.DeadlinesGone = append(p.step.DeadlinesGone, EffectID{Seq: d.Seq, N: d.N})
		p.step.DeadlineChanges = without(p.step.DeadlineChanges, d)
		cancelled = append(cancelled, p.describe(&d)+", due "+stamp(d.DueAt))
	}
	p.deadlines = kept
	return cancelled
}

func (p *planner) unset(d DeadlineRow) { p.step.DeadlinesSet = without(p.step.DeadlinesSet, d) }

func without(rows []DeadlineRow, d DeadlineRow) []DeadlineRow {
	var kept []DeadlineRow
	for _, r := range rows {
		if r.Seq != d.Seq || r.N != d.N {
			kept = append(kept, r)
		}
	}
	return kept
}

// describe puts a deadline's action into words: "remind owner", "fire expire".
func (p *planner) describe(row *DeadlineRow) string {
	if row.Action == "fire" {
		return "fire " + row.Event
	}
	d := p.rule(row)
	if d == nil || d.Action == definitions.ActionRemind {
		return row.Action + " owner"
	}
	texts := make([]string, len(d.Principals))
	for i, principal := range d.Principals {
		texts[i] = principal.Text
	}
	return row.Action + " " + strings.Join(texts, ", ")
}

// changeDeadline keeps a changed row.
func (p *planner) changeDeadline(row DeadlineRow) {
	for i := range p.deadlines {
		if p.deadlines[i].Seq == row.Seq && p.deadlines[i].N == row.N {
			rows := append([]DeadlineRow(nil), p.deadlines...)
			rows[i] = row
			p.deadlines = rows
		}
	}
	if row.Seq == p.seq {
		p.step.DeadlinesSet = append(without(p.step.DeadlinesSet, row), row)
		return
	}
	p.step.DeadlineChanges = append(without(p.step.DeadlineChanges, row), row)
}

// wakeDeferred lets deadlines that were due in a wait without their event be swept
// again where the wait just entered knows it.
func (p *planner) wakeDeferred() {
	for _, row := range p.deadlines {
		if row.Deferred && p.state.Event(row.Event) != nil {
			row.Deferred = false
			p.changeDeadline(row)
		}
	}
}

// rescheduled recomputes the `at` deadlines whose time a change of data has moved;
// those of the wait only where it is not about to be left.
func (p *planner) rescheduled(leaving bool) error {
	if !p.step.DataChanged || p.inst.Status != Running {
		return nil
	}
	rules := make([]*definitions.Deadline, 0, 4)
	for _, d := range p.def.Deadlines {
		if len(d.In) == 0 {
			rules = append(rules, d)
		}
	}
	if !leaving {
		rules = append(rules, p.state.Deadlines...)
	}
	for _, d := range rules {
		if d.At == nil {
			continue
		}
		if err := p.reschedule(d); err != nil {
			return err
		}
	}
	if !leaving {
		p.dueChanged()
	}
	return nil
}

func (p *planner) reschedule(d *definitions.Deadline) error {
	env := *p.present()
	env.Data = p.snap.Instance.Data
	was, err := p.at(d, &env)
	if err != nil {
		was = nil // it was no time before; the event may have mended it
	}
	s, err := p.scheduleOf(d, p.inst.EnteredAt, p.present())
	if err != nil || s == nil && was == nil || s != nil && was != nil && s.anchor.Equal(*was) {
		return err
	}
	for _, row := range p.deadlines {
		if row.Rule != d.ID {
			continue
		}
		if s == nil {
			p.dropDeadlines(func(r *DeadlineRow) bool { return r.Seq == row.Seq && r.N == row.N })
			return nil
		}
		row.Anchor, row.DueAt, row.Failures, row.Deferred = s.anchor, s.due(row.Occurrence), 0, false
		p.changeDeadline(row)
		return nil
	}
	wait := p.inst.Wait
	if strings.HasPrefix(d.ID, "/") {
		wait = 0
	}
	if s == nil {
		return nil
	}
	return p.setDeadline(d, wait, p.inst.EnteredAt)
}

// dueChanged keeps the open task's time right after deadlines have moved.
func (p *planner) dueChanged() {
	task := p.openTask()
	if task == nil {
		return
	}
	due := p.fatalAt()
	if due != nil && (task.DueAt == nil || !task.DueAt.Equal(*due)) {
		p.taskChange(task).DueAt = due
	}
}

// taskChange gives the step's change of a task, made where there is none yet.
func (p *planner) taskChange(task *Task) *TaskChange {
	for i := range p.step.TaskChanges {
		if c := &p.step.TaskChanges[i]; c.Seq == task.Seq && c.N == task.N {
			return c
		}
	}
	p.step.TaskChanges = append(p.step.TaskChanges, TaskChange{Seq: task.Seq, N: task.N})
	return &p.step.TaskChanges[len(p.step.TaskChanges)-1]
}

// ends tells whether a `fire` row leaves the present wait.
func (p *planner) ends(row *DeadlineRow) bool {
	if row.Action != "fire" || p.state == nil || row.Wait != 0 && row.Wait != p.inst.Wait {
		return false
	}
	event := p.state.Event(row.Event)
	if event == nil {
		return false
	}
	for _, arm := range event.Arms {
		if !arm.Stay {
			return true
		}
	}
	return false
}

// fatalAt is when the present wait ends by itself, as things stand; nil: never.
func (p *planner) fatalAt() *time.Time {
	var at *time.Time
	for i := range p.deadlines {
		if d := &p.deadlines[i]; p.ends(d) && (at == nil || d.DueAt.Before(*at)) {
			due := d.DueAt
			at = &due
		}
	}
	return at
}

// dueFatal is the earliest due `fire` that leaves the wait and whose `when` holds,
// or nil. A `when` that fails counts as holding: firing it will say so.
func (p *planner) dueFatal() *DeadlineRow {
	var fatal *DeadlineRow
	for i := range p.deadlines {
		d := &p.deadlines[i]
		if d.DueAt.After(p.now) || !p.ends(d) || fatal != nil && !d.DueAt.Before(fatal.DueAt) {
			continue
		}
		if rule := p.rule(d); rule != nil && rule.When != nil {
			if holds, err := rule.When.Bool(p.timerEnv()); err == nil && !holds {
				continue
			}
		}
		fatal = d
	}
	return fatal
}

// timerEnv is what a deadline's `when` sees: nothing of the event at hand.
func (p *planner) timerEnv() *definitions.Env {
	env := p.entered()
	env.Actor, env.Input, env.Now = actorVars(timerActor), nil, p.now
	env.Votes, env.OpenVotes = p.votes(), p.openVotes()
	return env
}

var timerActor = Actor{Kind: ActorTimer, ID: "timer"}
