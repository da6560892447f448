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
	if r.Resolved && row.Status != EffectUnknown && row.Status != EffectDead && !p.corrects(row, r) {
		return fault.New(fault.Conflict, "The effect is %s: there is nothing to resolve.", row.Status)
	}
	if r.Resolved && r.Status == EffectDead && row.Status == EffectDead && row.GivenUp {
		return fault.New(fault.Conflict, "The effect has been given up already.")
	}
	p.step.Result = r
	p.effectActor(row)
	effect := p.def.Effect(row.Name)
	noted := p.noteOutcome(row, r)
	advanced, err := p.advanceCompensation()
	if err != nil {
		return err
	}
	noted = noted || advanced
	outcome := p.outcomeOf(effect, row, r)
	if outcome == nil || row.Undoes != (EffectID{}) && len(outcome.Set) == 0 {
		return p.finishResult(row, noted)
	}
	return p.followUp(row, outcome, noted)
}

// corrects tells whether a person gives another result for one that was refused.
func (p *planner) corrects(row *EffectRow, r *ResultEvent) bool {
	ref := row.ref()
	return row.Status == EffectSucceeded && r.Status == EffectSucceeded &&
		slices.ContainsFunc(p.inst.Attention, func(a Attention) bool { return a.Reason == "result-refused" && a.Ref == ref })
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
		return a.Ref == ref && (a.Reason == "dead-effect" || a.Reason == "unknown-effect" || a.Reason == "manual-compensation" ||
			a.Reason == "result-refused")
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

// consequence is what an outcome leads to. At most one of fire and escalate is set.
type consequence struct {
	definitions.Outcome
	escalate bool
}

// outcomeOf gives what the definition says about this outcome, or nil: on_success,
// on_failure, and for a mail that cannot be delivered on_undeliverable; an event of
// on_failure goes before that.
func (p *planner) outcomeOf(effect *definitions.Effect, row *EffectRow, r *ResultEvent) *consequence {
	var said *definitions.Outcome
	switch {
	case r.Status == EffectDead && row.Status != EffectDead:
		if effect != nil {
			said = effect.OnFailure
		}
	case r.Status == EffectSucceeded && effect != nil && effect.OnSuccess != nil:
		return &consequence{Outcome: *effect.OnSuccess}
	default:
		return nil
	}
	c := &consequence{}
	if said != nil {
		c.Outcome = *said
	}
	if wish := p.undeliverable(effect, row); wish == escalateWish {
		c.escalate = c.Fire == ""
	} else if c.Fire == "" {
		c.Fire = wish
	}
	if c.Fire == "" && len(c.Set) == 0 && !c.escalate {
		return nil
	}
	return c
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
		Kind: kind, Event: row.Name, From: p.inst.State, Wait: p.inst.Wait, Input: inputOf(row, p.ev.Result),
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
func (p *planner) followUp(row *EffectRow, c *consequence, noted bool) error {
	lives := p.inst.Status == Running || p.inst.Status == Suspended
	event := p.fired(row, c)
	escalation := p.nextEscalation(row, c)
	if !lives || event == nil && escalation == nil && len(c.Set) == 0 {
		return p.finishResult(row, noted)
	}
	trial := p.fork()
	err := trial.applyOutcome(row, c, event, escalation)
	if err == nil {
		p.adoptFork(trial)
		return nil
	}
	if fault.CodeOf(err) == fault.Internal {
		return err
	}
	p.attention("result-refused", row.ref(), row.Name+": "+fault.As(err).Message)
	return p.finishResult(row, true)
}

// current tells whether an outcome still belongs to the present wait: that of a
// compensating or a late effect does not.
func (p *planner) current(row *EffectRow) bool {
	return row.Undoes == (EffectID{}) && row.Wait == p.inst.Wait && p.inst.Status == Running
}

// fired is the event that the outcome raises now, or nil.
func (p *planner) fired(row *EffectRow, c *consequence) *definitions.Event {
	if c.Fire == "" || !p.current(row) {
		return nil
	}
	return p.state.Event(c.Fire)
}

func (p *planner) applyOutcome(row *EffectRow, c *consequence, event *definitions.Event, escalation *DeadlineRow) error {
	input := inputOf(row, p.ev.Result)
	switch {
	case event != nil:
		ev := *p.ev
		ev.Name, ev.Input = event.Name, input
		p.ev = &ev
		if err := p.apply(&move{set: c.Set}); err != nil {
			return err
		}
		return p.raiseSystem(event, nil)
	case escalation != nil:
		return p.escalateNow(row, c, escalation)
	}
	m := &move{kind: TEffect, event: row.Name, set: c.Set, by: closeDone}
	t := Transition{Event: row.Name, Input: input}
	if row.Wait != p.inst.Wait {
		t.Reason = "late: the wait that asked for it is over"
	}
	return p.carryOut(m, &t)
}

// inputOf is what the history keeps of an answer. The list of a start effect's children
// is not repeated there: it stands with the effect.
func inputOf(row *EffectRow, r *ResultEvent) any {
	if row.Kind == kindStart {
		return nil
	}
	return r.Result
}

// fork copies the planner, so that a refused outcome leaves no trace.
func (p *planner) fork() *planner {
	c := *p
	c.inst = &c.step.Instance
	c.rows = append([]Assignee(nil), p.rows...)
	c.deadlines = append([]DeadlineRow(nil), p.deadlines...)
	return &c
}

// adoptFork takes over what a fork has planned.
func (p *planner) adoptFork(c *planner) {
	*p = *c
	p.inst = &p.step.Instance
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
	if row.Kind == kindManual {
		return fault.New(fault.Conflict, "This is work of a person: do it and say that it happened, or give it up.")
	}
	if row.Status != EffectDead && row.Status != EffectUnknown {
		return fault.New(fault.Conflict, "The effect is %s: only a dead or unknown one can be tried again.", row.Status)
	}
	ref := row.ref()
	p.calm(func(a Attention) bool {
		return a.Ref == ref && (a.Reason == "dead-effect" || a.Reason == "unknown-effect")
	})
	p.step.EffectChanges = append(p.step.EffectChanges, EffectChange{EffectID: row.EffectID, Status: EffectWaiting, Retry: true})
	if _, err := p.advanceCompensation(); err != nil {
		return err
	}
	return p.record(Transition{Kind: TOperator, Event: row.Name, From: p.inst.State, Wait: p.inst.Wait, Reason: reasonOf(p.ev, "try again: "+row.Name)})
}
