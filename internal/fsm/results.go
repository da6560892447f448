package fsm

import (
	"fmt"
	"slices"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

func (id EffectID) ref() string { return fmt.Sprintf("%d-%d", id.Seq, id.N) }

func (p *planner) effectRow(id EffectID) *EffectRow {
	for i := range p.snap.Effects {
		if p.snap.Effects[i].EffectID == id {
			return &p.snap.Effects[i]
		}
	}
	return nil
}

// result plans the outcome of an effect: what it sets, what it fires, what is told
// to operators. An outcome that means nothing to the instance is only finished.
func (p *planner) result() error {
	r := p.ev.Result
	if r == nil {
		return broken("an effect's outcome without its result")
	}
	row := p.effectRow(r.Effect)
	if row == nil {
		return broken("effect %s is not in the snapshot", r.Effect.ref())
	}
	if r.Resolved && row.Status != EffectUnknown && row.Status != EffectDead {
		return fault.New(fault.Conflict, "The effect is %s: there is nothing to resolve.", row.Status)
	}
	if r.Resolved && r.Status == EffectDead && row.Status == EffectDead && !p.asksFor(row) {
		return fault.New(fault.Conflict, "The effect has been given up already.")
	}
	p.step.Result = r
	p.effectActor(row)
	effect := p.def.Effect(row.Name)
	noted := p.noteOutcome(row, r)
	if p.advanceCompensation(row, r) {
		noted = true
		if err := p.nextUndo(); err != nil {
			return err
		}
	}
	outcome := outcomeOf(effect, row, r)
	if outcome == nil || row.Undoes != (EffectID{}) && len(outcome.Set) == 0 {
		return p.finishResult(row, noted)
	}
	return p.followUp(row, outcome, noted)
}

// asksFor tells whether the effect's end still wants a person.
func (p *planner) asksFor(row *EffectRow) bool {
	ref := row.ref()
	return slices.ContainsFunc(p.inst.Attention, func(a Attention) bool { return a.Reason == "dead-effect" && a.Ref == ref })
}

// effectActor makes the event the effect's, unless a person resolves it.
func (p *planner) effectActor(row *EffectRow) {
	ev := *p.ev
	ev.Name = row.Name
	if !ev.Result.Resolved && ev.Kind == KindEffectResult {
		ev.Actor, ev.Assurance = Actor{Kind: ActorEffect, ID: "effect:" + row.Name}, ByEngine
	}
	p.ev = &ev
	p.seeResult(ev.Result)
}

func (p *planner) seeResult(r *ResultEvent) {
	p.answer, p.httpCode = r.Result, r.HTTP
	p.env.Instance.ID = "" // the environment is made anew
}

// noteOutcome raises and removes attentions.
func (p *planner) noteOutcome(row *EffectRow, r *ResultEvent) bool {
	ref := row.ref()
	about := func(a Attention) bool {
		return a.Ref == ref && (a.Reason == "dead-effect" || a.Reason == "unknown-effect")
	}
	switch {
	case r.Status == EffectSucceeded || r.Resolved:
		return p.calm(about)
	case r.Status == EffectDead:
		p.attention("dead-effect", ref, row.Name+": "+r.Detail)
		return true
	case r.Status == EffectUnknown:
		p.attention("unknown-effect", ref, row.Name+": "+r.Detail)
		return true
	}
	return false
}

// outcomeOf gives what the definition says about this outcome, or nil.
func outcomeOf(effect *definitions.Effect, row *EffectRow, r *ResultEvent) *definitions.Outcome {
	switch {
	case effect == nil:
		return nil
	case r.Status == EffectSucceeded:
		return effect.OnSuccess
	case r.Status == EffectDead && row.Status != EffectDead:
		return effect.OnFailure
	}
	return nil
}

// finishResult ends with a history row where something changed but the effect.
func (p *planner) finishResult(row *EffectRow, noted bool) error {
	if !noted && !p.ev.Result.Resolved {
		return nil
	}
	kind := TEffect
	if row.Undoes != (EffectID{}) {
		kind = TCompensation
	}
	return p.record(Transition{
		Kind: kind, Event: row.Name, From: p.inst.State, Wait: p.inst.Wait, Input: p.ev.Result.Result,
		Reason: reasonOf(p.ev, string(p.ev.Result.Status)+" "+p.ev.Result.Detail),
	})
}

func reasonOf(ev *Event, otherwise string) string {
	if ev.Reason != "" {
		return ev.Reason
	}
	return otherwise
}

// followUp applies `set`, then fires where the wait that queued the effect is still
// the present one. What schema, `set` or the event refuses leaves the effect as it
// is and raises attention: the call is never repeated for that.
func (p *planner) followUp(row *EffectRow, outcome *definitions.Outcome, noted bool) error {
	lives := p.inst.Status == Running || p.inst.Status == Suspended
	event := p.fired(row, outcome)
	if !lives || event == nil && len(outcome.Set) == 0 {
		return p.finishResult(row, noted)
	}
	trial := p.fork()
	err := trial.applyOutcome(row, outcome, event)
	if err == nil {
		*p = *trial
		p.inst = &p.step.Instance
		return nil
	}
	if fault.CodeOf(err) == fault.Internal {
		return err
	}
	p.attention("result-refused", row.ref(), row.Name+": "+fault.As(err).Message)
	return p.finishResult(row, true)
}

// fired is the event that the outcome raises now, or nil: of a compensating or a
// late effect none.
func (p *planner) fired(row *EffectRow, outcome *definitions.Outcome) *definitions.Event {
	if outcome.Fire == "" || row.Undoes != (EffectID{}) || row.Wait != p.inst.Wait || p.inst.Status != Running {
		return nil
	}
	return p.state.Event(outcome.Fire)
}

func (p *planner) applyOutcome(row *EffectRow, outcome *definitions.Outcome, event *definitions.Event) error {
	if event != nil {
		ev := *p.ev
		ev.Name, ev.Input = event.Name, ev.Result.Result
		p.ev = &ev
		if err := p.apply(&move{set: outcome.Set}); err != nil {
			return err
		}
		return p.raiseSystem(event, nil)
	}
	m := &move{kind: TEffect, event: row.Name, set: outcome.Set, by: closeDone}
	t := Transition{Event: row.Name, Input: p.ev.Result.Result}
	if row.Wait != p.inst.Wait {
		t.Reason = "late: the wait that asked for it is over"
	}
	return p.carryOut(m, &t)
}

// fork copies the planner, so that a refused outcome leaves no trace.
func (p *planner) fork() *planner {
	c := *p
	c.inst = &c.step.Instance
	c.rows = append([]Assignee(nil), p.rows...)
	c.deadlines = append([]DeadlineRow(nil), p.deadlines...)
	return &c
}

// retryEffect lets an operator try a dead or unknown effect again.
func (p *planner) retryEffect() error {
	if p.ev.Effect == nil {
		return broken("a retry without its effect")
	}
	row := p.effectRow(*p.ev.Effect)
	if row == nil {
		return fault.New(fault.NotFound, "There is no such effect.")
	}
	if row.Status != EffectDead && row.Status != EffectUnknown {
		return fault.New(fault.Conflict, "The effect is %s: only a dead or unknown one can be tried again.", row.Status)
	}
	ref := row.ref()
	p.calm(func(a Attention) bool {
		return a.Ref == ref && (a.Reason == "dead-effect" || a.Reason == "unknown-effect")
	})
	p.step.EffectChanges = append(p.step.EffectChanges, EffectChange{EffectID: row.EffectID, Status: EffectWaiting, Retry: true})
	if c := p.ownCompensation(); c != nil {
		for i := range c.Items {
			if c.Items[i].Queued == row.EffectID {
				c.Items[i].Status = "running"
			}
		}
	}
	return p.record(Transition{Kind: TOperator, Event: row.Name, From: p.inst.State, Wait: p.inst.Wait, Reason: reasonOf(p.ev, "try again: "+row.Name)})
}
