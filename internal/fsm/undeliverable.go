package fsm

import (
	"vobo/internal/definitions"
)

// escalateWish is the value of `on_undeliverable` that takes the wait's next escalation
// at once; any other names an event.
const escalateWish = "escalate"

// undeliverable gives what `on_undeliverable` says about a mail that has become dead:
// "escalate", an event, or "". A mail about a task counts only once nobody whom the
// wait asks can be reached any more.
func (p *planner) undeliverable(effect *definitions.Effect, row *EffectRow) string {
	switch {
	case effect != nil && row.Kind == kindEmail:
		return effect.OnUndeliverable
	case row.Kind == kindTaskMail && p.current(row) && p.task().OnUndeliverable != "" && p.unreachable():
		return p.task().OnUndeliverable
	}
	return ""
}

// unreachable tells whether the newest mail to everybody whom the wait asks is dead.
// Systems are reached without mail.
func (p *planner) unreachable() bool {
	newest := map[string]EffectStatus{} // by ref
	for _, row := range p.effects() {
		if row.Kind != kindTaskMail || row.Wait != p.inst.Wait || row.Status == EffectCancelled {
			continue
		}
		ref := p.addressee(row.Link)
		if ref == "" && row.Status != EffectDead { // told without a link: whoever it is, they can be reached
			return false
		}
		newest[ref] = row.Status
	}
	for i := range p.rows {
		r := &p.rows[i]
		if r.Kind == AssigneeCallback || r.Stood || len(r.Events) == 0 || r.State == LinkRevoked || !p.stillNamed(r) {
			continue
		}
		status, mailed := newest[r.Ref]
		if r.Kind == AssigneeSystem || mailed && status != EffectDead {
			return false
		}
	}
	return true
}

// addressee is who a link of the present wait was made for; "" where there is none.
func (p *planner) addressee(link EffectID) string {
	for i := range p.rows {
		if r := &p.rows[i]; r.Seq == link.Seq && r.N == link.N {
			return r.Ref
		}
	}
	return ""
}

// nextEscalation is the first escalation of the present wait, as written, that has not
// happened and whose `when` holds, where the consequence asks for one; else nil.
func (p *planner) nextEscalation(row *EffectRow, c *consequence) *DeadlineRow {
	if !c.escalate || !p.current(row) {
		return nil
	}
	for _, rule := range p.state.Deadlines {
		if rule.Action != definitions.ActionEscalate {
			continue
		}
		for i := range p.deadlines {
			d := p.deadlines[i]
			if d.Rule != rule.ID || d.Wait != p.inst.Wait {
				continue
			}
			if rule.When != nil {
				if holds, err := rule.When.Bool(p.timerEnv()); err == nil && !holds {
					continue
				}
			}
			return &d
		}
	}
	return nil
}

// escalateNow takes an escalation before its time, because a mail cannot be delivered.
func (p *planner) escalateNow(row *EffectRow, c *consequence, due *DeadlineRow) error {
	rule := p.rule(due)
	if rule == nil {
		return broken("definition %s has no deadline %q", p.def.Name, due.Rule)
	}
	if err := p.apply(&move{set: c.Set}); err != nil {
		return err
	}
	if err := p.rescheduled(false); err != nil {
		return err
	}
	if err := p.reshow(); err != nil {
		return err
	}
	return p.escalate(due, rule, p.describe(due)+", at once: the mail "+row.Name+" cannot be delivered")
}
