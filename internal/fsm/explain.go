package fsm

import (
	"slices"
	"time"

	"vobo/internal/definitions"
)

// Explanation says why an instance stands where it does.
type Explanation struct {
	State     string
	Label     string
	Status    Status
	Since     time.Time
	WaitsFor  []WaitsFor
	Events    []ExplainedEvent
	Deadlines []ExplainedDeadline // in the order of their times
	Attention []Attention

	// Correlations are the events that calls without a token find this wait by.
	Correlations []ExplainedCorrelation
	// Children are the start effects of the wait whose outcome is open, where
	// Snapshot.Effects are loaded.
	Children []ExplainedChildren
}

// ExplainedCorrelation says what a call for the event must carry.
type ExplainedCorrelation struct {
	Event   string
	Pairs   []ExplainedPair
	Matched bool // false: some value is absent, so that no call can find the wait
}

// ExplainedPair is one equality: the call's input at Input must be Value, which stands
// at Data; both paths without data. and input.
type ExplainedPair struct {
	Data, Input string
	Value       any // nil: absent
}

// ExplainedChildren is a start effect that is not decided.
type ExplainedChildren struct {
	Effect EffectID
	Name   string
	Need   int // how many must end well; 0: all
	Status EffectStatus
}

// WaitsFor is one person or system that is asked, and by which rule.
type WaitsFor struct {
	Ref   string   // "user:ana@example.com"
	Name  string   // as people know them
	Lines []string // owner lines that named them
	Voted string   // event of their standing vote; "" : none
	Gone  bool     // named once, but has left the group or is deactivated
}

// ExplainedEvent is one event of the present wait.
type ExplainedEvent struct {
	Event   string
	Label   string
	By, Not []string // as written, of all arms
	Who     []string // refs of asked people who may raise it
	Blocked string   // guard that stands against it now; "" : none
	Quorum  *Pending
	Missing []string // quorum by lines: those with unfilled slots
}

// ExplainedDeadline is what will happen, and when.
type ExplainedDeadline struct {
	Action     string // "remind owner", "fire expire"
	DueAt      time.Time
	Occurrence int
	Times      int // 0: no end
	Deferred   bool
}

// Explain says for whom an instance waits and by which rule, which votes are still
// missing, who may raise each event and what blocks it, and what happens next by time.
func Explain(snap *Snapshot, now time.Time) (Explanation, error) {
	p := newPlanner(snap, &Event{Kind: KindRaise}, now)
	x := Explanation{State: p.inst.State, Status: p.inst.Status, Since: p.inst.EnteredAt, Attention: p.inst.Attention}
	if p.state == nil {
		return x, broken("state %q is not in the definition", p.inst.State)
	}
	x.Label = p.state.Label("")
	for i := range p.deadlines {
		d := &p.deadlines[i]
		times := 0
		if rule := p.rule(d); rule != nil {
			times = rule.Times
		}
		x.Deadlines = append(x.Deadlines, ExplainedDeadline{Action: p.describe(d), DueAt: d.DueAt, Occurrence: d.Occurrence, Times: times, Deferred: d.Deferred})
	}
	slices.SortStableFunc(x.Deadlines, func(a, b ExplainedDeadline) int { return a.DueAt.Compare(b.DueAt) })
	if p.state.Kind != definitions.Wait || p.inst.Status == Cancelled {
		return x, nil
	}
	x.WaitsFor = p.waitsFor()
	for _, e := range p.state.Events {
		ex, err := p.explainEvent(e)
		if err != nil {
			return x, err
		}
		x.Events = append(x.Events, ex)
	}
	x.Correlations, x.Children = p.explainCorrelations(), p.explainChildren()
	return x, nil
}

func (p *planner) explainCorrelations() []ExplainedCorrelation {
	var all []ExplainedCorrelation
	for _, e := range p.state.Events {
		pairs := p.pairs(e, p.inst.Data)
		if len(pairs) == 0 {
			continue
		}
		c := ExplainedCorrelation{Event: e.Name, Matched: true}
		for i, pair := range pairs {
			c.Pairs = append(c.Pairs, ExplainedPair{Data: e.Correlate[i].Data.Text, Input: pair.Input, Value: pair.Value})
			c.Matched = c.Matched && pair.Value != nil
		}
		all = append(all, c)
	}
	return all
}

func (p *planner) explainChildren() []ExplainedChildren {
	var all []ExplainedChildren
	for _, row := range p.effects() {
		effect := p.def.Effect(row.Name)
		open := row.Status == EffectWaiting || row.Status == EffectRunning || row.Status == EffectRetrying
		if row.Kind != kindStart || row.Wait != p.inst.Wait || !open || effect == nil || effect.Start == nil || effect.Start.Detach {
			continue
		}
		need := &FrozenStart{}
		if err := waitFor(need, effect.Start.WaitFor); err != nil {
			continue // what the definition cannot say needs no explanation
		}
		all = append(all, ExplainedChildren{Effect: row.EffectID, Name: row.Name, Need: need.Need, Status: row.Status})
	}
	return all
}

func (p *planner) waitsFor() []WaitsFor {
	var list []WaitsFor
	for i := range p.rows {
		r := &p.rows[i]
		if r.Kind == AssigneeCallback && r.Consumed > 0 {
			continue
		}
		if !slices.ContainsFunc(list, func(w WaitsFor) bool { return w.Ref == r.Ref }) {
			list = append(list, WaitsFor{Ref: r.Ref, Name: nameOf(p.snap.Directory, idOf(r.Ref)), Lines: r.Lines, Gone: !p.stillNamed(r)})
		}
	}
	for _, v := range p.snap.Votes {
		for i := range list {
			if idOf(list[i].Ref) == personOf(v.Actor) {
				list[i].Voted = v.Event
			}
		}
	}
	return list
}

func (p *planner) explainEvent(e *definitions.Event) (ExplainedEvent, error) {
	x := ExplainedEvent{Event: e.Name, Label: e.Label("")}
	for _, arm := range e.Arms {
		for _, by := range arm.By {
			if !slices.Contains(x.By, by.Text) {
				x.By = append(x.By, by.Text)
			}
		}
		for _, not := range arm.Not {
			if !slices.Contains(x.Not, not.Text) {
				x.Not = append(x.Not, not.Text)
			}
		}
	}
	for i := range p.rows {
		r := &p.rows[i]
		if !slices.Contains(x.Who, r.Ref) && wants(r, e) && p.stillNamed(r) {
			x.Who = append(x.Who, r.Ref)
		}
	}
	x.Blocked = p.greyed(e, e.Arms)
	if e.Quorum == nil {
		return x, nil
	}
	var voters []Past
	for _, v := range p.snap.Votes {
		if v.Event == e.Name {
			voters = append(voters, v)
		}
	}
	var err error
	if x.Quorum, err = p.count(e, voters); err != nil {
		return x, err
	}
	x.Missing, err = p.missing(e, voters, x.Quorum.Have)
	return x, err
}

// missing names the lines of a quorum that one more of their people would fill.
func (p *planner) missing(e *definitions.Event, voters []Past, have int) ([]string, error) {
	if len(e.Quorum.Lines) == 0 {
		return nil, nil
	}
	slots, err := p.slots(e.Quorum)
	if err != nil {
		return nil, err
	}
	var lines []string
	for s, ref := range slots {
		rest := slices.Delete(slices.Clone(slots), s, s+1)
		if p.match(rest, voters, e.Name) == have && !slices.Contains(lines, ref.String()) {
			lines = append(lines, ref.String())
		}
	}
	return lines, nil
}
