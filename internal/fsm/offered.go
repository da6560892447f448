package fsm

import (
	"regexp"
	"slices"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// Offered is one event that somebody may raise in the present wait.
type Offered struct {
	Event     string
	Label     string
	Form      *definitions.Schema // nil: no form
	Edit      bool                // the form is that of data fields, filled with their present values
	Values    map[string]any      // present values of an Edit form
	Comment   definitions.CommentRule
	Documents []definitions.DocumentRule
	Assurance string   // least; "" : link
	Quorum    *Pending // how far a quorum is; nil: none
	Voted     bool     // the actor's standing vote is on this event
	Blocked   string   // why it is shown greyed: a guard that reads neither input nor now does not hold; "" : it may be raised
	To        []string // where it may lead; "" : stays
}

// OfferedEvents gives the events of the present wait that the actor may raise by
// `by` and `not`, in the definition's order. Nothing where the instance does not run.
func OfferedEvents(snap *Snapshot, actor Actor, locale string, now time.Time) ([]Offered, error) {
	p := newPlanner(snap, &Event{Kind: KindRaise, Actor: actor, Locale: locale}, now)
	if p.state == nil || p.state.Kind != definitions.Wait || p.inst.Status != Running && p.inst.Status != Suspended {
		return nil, nil
	}
	var all []Offered
	for _, e := range p.state.Events {
		arms, err := p.permitted(e)
		if fault.CodeOf(err) == fault.NotPermitted {
			continue
		}
		if err != nil {
			return nil, err
		}
		o, err := p.offer(e, arms, locale)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (p *planner) offer(e *definitions.Event, arms []*definitions.Arm, locale string) (Offered, error) {
	o := Offered{Event: e.Name, Label: e.Label(locale), Form: e.Form, Comment: e.Comment, Documents: e.Documents, Assurance: e.Assurance}
	if o.Form == nil && len(e.Edit) > 0 {
		o.Form, o.Edit, o.Values = p.def.Data.Subset(e.Edit), true, map[string]any{}
		for _, path := range e.Edit {
			if v, ok := path.Get(p.inst.Data, p.present()); ok {
				if err := path.Set(o.Values, v, p.present()); err != nil {
					return o, err
				}
			}
		}
	}
	for _, arm := range arms {
		if !slices.Contains(o.To, arm.To) {
			o.To = append(o.To, arm.To)
		}
	}
	o.Blocked = p.greyed(e, arms)
	if e.Quorum == nil {
		return o, nil
	}
	voters := p.standing(e.Name)
	for _, v := range p.snap.Votes {
		if v.Event == e.Name && personOf(v.Actor) == personOf(p.ev.Actor) {
			o.Voted = true
			voters = append(voters, v)
		}
	}
	var err error
	o.Quorum, err = p.count(e, voters)
	return o, err
}

// variable finds guards that may read what is typed or the time; a word within a
// quoted text counts too, which only leaves the event open to be tried.
var variable = regexp.MustCompile(`\b(input|now)\b`)

// greyed gives the reason why none of the arms can hold whatever is typed and
// whenever; "" where one may.
func (p *planner) greyed(e *definitions.Event, arms []*definitions.Arm) string {
	for _, arm := range arms {
		if arm.When == nil || variable.MatchString(arm.When.Text) {
			return ""
		}
		if holds, err := arm.When.Bool(p.present()); err == nil && holds {
			return ""
		}
	}
	_, err := p.pick(e, arms)
	if err == nil {
		return ""
	}
	return fault.As(err).Message
}
