package fsm

import (
	"slices"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// deadline plans a due deadline. Everything is looked at again here, under the lock:
// a row that is gone, moved or not due is refused (conflict) and nothing is written.
// A fatal deadline that is due with it wins, and the rest is dropped with the wait.
func (p *planner) deadline() error {
	row := p.rowOf(p.ev.Deadline)
	if row == nil || row.Occurrence != p.ev.Deadline.Occurrence || row.DueAt.After(p.now) || row.Deferred || p.inst.Status != Running {
		return fault.New(fault.Conflict, "The deadline is not due any more.")
	}
	p.timer()
	if fatal := p.dueFatal(); fatal != nil {
		row = fatal
	}
	due := *row
	rule := p.rule(&due)
	if rule == nil {
		return broken("definition %s has no deadline %q", p.def.Name, due.Rule)
	}
	if rule.When != nil {
		holds, err := rule.When.Bool(p.timerEnv())
		if err != nil {
			return err
		}
		if !holds {
			return p.idle(&due, rule, "its condition does not hold")
		}
	}
	switch rule.Action {
	case definitions.ActionFire:
		return p.fire(&due, rule)
	case definitions.ActionEscalate:
		return p.escalate(&due, rule, p.describe(&due))
	case definitions.ActionTell:
		return p.tell(&due, rule)
	}
	return p.remind(&due, rule)
}

func (p *planner) rowOf(ref *DeadlineRef) *DeadlineRow {
	if ref == nil {
		return nil
	}
	for i := range p.deadlines {
		if p.deadlines[i].Seq == ref.Seq && p.deadlines[i].N == ref.N {
			return &p.deadlines[i]
		}
	}
	return nil
}

// timer makes the event the timer's, whoever offered it.
func (p *planner) timer() {
	ev := *p.ev
	if ev.Actor.Kind == "" || ev.Actor.Kind == ActorTimer {
		ev.Actor, ev.Assurance = timerActor, ByEngine
	}
	p.ev = &ev
}

// fire raises the deadline's event, or defers it where the wait does not know it.
func (p *planner) fire(row *DeadlineRow, rule *definitions.Deadline) error {
	event := p.state.Event(row.Event)
	if event == nil {
		deferred := *row
		deferred.Deferred = true
		p.changeDeadline(deferred)
		return p.record(Transition{
			Kind: TStay, Event: row.Event, From: p.inst.State, Wait: p.inst.Wait,
			Reason: "deferred: " + p.inst.State + " does not know " + row.Event,
		})
	}
	ev := *p.ev
	ev.Name = row.Event
	p.ev = &ev
	if err := p.advance(row, rule); err != nil {
		return err
	}
	p.skipDue()
	return p.raiseSystem(event, rule.Effects)
}

// raiseSystem raises a timer's or an effect's event: the first arm for it that holds.
func (p *planner) raiseSystem(event *definitions.Event, effects []string) error {
	kind := definitions.KindTimer
	if p.ev.Result != nil {
		kind = definitions.KindEffect
	}
	var arms []*definitions.Arm
	for _, arm := range event.Arms {
		if slices.ContainsFunc(arm.By, func(by definitions.Principal) bool { return by.Kind == kind }) {
			arms = append(arms, arm)
		}
	}
	if len(arms) == 0 {
		return fault.New(fault.NotPermitted, "%q of %s is not for the %s.", event.Name, p.inst.State, kind)
	}
	arm, err := p.pick(event, arms)
	if err != nil {
		return err
	}
	if len(effects) > 0 {
		with := *arm
		with.Effects = append(slices.Clone(arm.Effects), effects...)
		arm = &with
	}
	return p.act(event, arm, nil)
}

// skipDue drops what else of the whole instance is due with a firing: it goes on to
// its next occurrence.
func (p *planner) skipDue() {
	for _, row := range slices.Clone(p.deadlines) {
		if row.Wait != 0 || row.Action == "fire" || row.DueAt.After(p.now) {
			continue
		}
		if rule := p.rule(&row); rule != nil {
			if err := p.advance(&row, rule); err != nil {
				p.attention("deadline-failed", row.Rule, fault.As(err).Message)
			}
		}
	}
}

// advance sets the row to its first occurrence in the future, counted from the
// anchor, or deletes it. However many were missed, they give one.
func (p *planner) advance(row *DeadlineRow, rule *definitions.Deadline) error {
	s, err := p.scheduleOf(rule, row.Anchor, p.entered())
	if err != nil {
		return err
	}
	next := 0
	if s != nil {
		s.anchor = row.Anchor
		next = s.after(row.Occurrence, p.now)
	}
	if next == 0 {
		p.dropDeadlines(func(d *DeadlineRow) bool { return d.Seq == row.Seq && d.N == row.N })
		return nil
	}
	moved := *row
	moved.Occurrence, moved.DueAt, moved.Failures = next, s.due(next), 0
	p.changeDeadline(moved)
	return nil
}

// idle passes over an occurrence and says why.
func (p *planner) idle(row *DeadlineRow, rule *definitions.Deadline, why string) error {
	if err := p.advance(row, rule); err != nil {
		return err
	}
	return p.record(Transition{
		Kind: transitionKind(rule.Action), Event: row.Event, From: p.inst.State, Wait: p.inst.Wait,
		Reason: p.describe(row) + ": " + why,
	})
}

func transitionKind(a definitions.Action) TransitionKind {
	switch a {
	case definitions.ActionRemind:
		return TReminder
	case definitions.ActionEscalate:
		return TEscalation
	case definitions.ActionTell:
		return TTold
	}
	return TStay
}

// remind mails a fresh link to those who have not voted; their older link dies.
func (p *planner) remind(row *DeadlineRow, rule *definitions.Deadline) error {
	if err := p.advance(row, rule); err != nil {
		return err
	}
	if p.openTask() != nil {
		if err := p.remindAll(row.Occurrence, rule.Times); err != nil {
			return err
		}
	}
	if err := p.queue(rule.Effects); err != nil {
		return err
	}
	return p.record(Transition{Kind: TReminder, From: p.inst.State, Wait: p.inst.Wait, Reason: p.describe(row)})
}

func (p *planner) remindAll(k, n int) error {
	s, err := p.render()
	if err != nil {
		return err
	}
	acted := map[string]bool{}
	for i := range p.rows {
		if p.rows[i].Vote > 0 {
			acted[p.rows[i].Ref] = true
		}
	}
	for _, r := range slices.Clone(p.rows) {
		if r.Kind != AssigneePerson && r.Kind != AssigneeOutside || acted[r.Ref] || r.Stood || len(r.Events) == 0 || !p.stillNamed(&r) {
			continue
		}
		if r.State == LinkLive && r.Consumed == 0 {
			p.change(AssigneeChange{Seq: r.Seq, N: r.N, State: LinkSuperseded})
		} else if r.State != LinkNone {
			continue
		}
		if err := p.refresh(&r, s, "reminder", k, n); err != nil {
			return err
		}
	}
	return nil
}

// escalate adds owners and tells both them and those who were asked before. reason is
// for the history.
func (p *planner) escalate(row *DeadlineRow, rule *definitions.Deadline, reason string) error {
	if err := p.advance(row, rule); err != nil {
		return err
	}
	before := slices.Clone(p.rows)
	p.present()
	lines, err := p.assign(rule.Principals, escalationPrefix)
	if err != nil {
		return err
	}
	task := p.openTask()
	added := p.step.Assignees
	if task != nil {
		owners := slices.Clone(task.Owners)
		for _, l := range lines {
			if !slices.Contains(owners, l) {
				owners = append(owners, l)
			}
		}
		p.taskChange(task).Owners = owners
		for i := range added {
			added[i].Digest = task.Digest
			p.syncRow(&added[i])
		}
		if err := p.mailNewTasks("escalated"); err != nil {
			return err
		}
		if len(added) > 0 && !p.ownersUnreachable() {
			if err := p.tellOwners(before); err != nil {
				return err
			}
		}
	} else if err := p.openLate(lines); err != nil {
		return err
	}
	if len(added) == 0 && len(before) == 0 {
		p.attention("no-owner", p.state.Name, "The escalation to "+p.describe(row)[len("escalate "):]+" found nobody.")
	}
	if err := p.queue(rule.Effects); err != nil {
		return err
	}
	return p.record(Transition{Kind: TEscalation, From: p.inst.State, Wait: p.inst.Wait, Reason: reason})
}

// ownersUnreachable tells whether the escalation came because no mail reaches those who
// were asked: another one would not either.
func (p *planner) ownersUnreachable() bool {
	if p.ev.Result == nil {
		return false
	}
	row := p.effectRow(p.ev.Result.Effect)
	return row != nil && row.Kind == kindTaskMail
}

// openLate opens the wait's task when an escalation brings the first people who can
// do something.
func (p *planner) openLate(lines []string) error {
	asked := slices.ContainsFunc(p.step.Assignees, func(a Assignee) bool { return len(a.Events) > 0 })
	if !asked {
		return nil
	}
	s, err := p.render()
	if err != nil {
		return err
	}
	for i := range p.step.Assignees {
		p.step.Assignees[i].Digest = s.digest
		p.syncRow(&p.step.Assignees[i])
	}
	p.taskN++
	p.step.TasksOpened = append(p.step.TasksOpened, Task{
		Seq: p.inst.Wait, N: p.taskN, State: p.state.Name, Title: s.title,
		Instructions: s.instructions, Priority: s.priority, Status: "open", Facts: s.facts, Digest: s.digest,
		Owners: append(p.ownerLines(), lines...), DueAt: p.fatalAt(), CreatedAt: p.now,
	})
	return p.mailNewTasks("escalated")
}

// tellOwners tells those who were asked before that others have been asked too.
func (p *planner) tellOwners(before []Assignee) error {
	told := map[string]bool{}
	for i := range before {
		r := &before[i]
		if told[r.Ref] || r.Kind != AssigneePerson && r.Kind != AssigneeOutside || !p.stillNamed(r) {
			continue
		}
		told[r.Ref] = true
		without := Assignee{Kind: r.Kind, Ref: r.Ref, Lines: r.Lines}
		if err := p.mailTask(&without, "told", 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// tell mails principals about the wait; they become no owners.
func (p *planner) tell(row *DeadlineRow, rule *definitions.Deadline) error {
	if err := p.advance(row, rule); err != nil {
		return err
	}
	people, err := p.expandAll(rule.Principals, p.present())
	if err != nil {
		return err
	}
	for _, n := range people {
		if err := p.mailTask(&Assignee{Kind: n.kind, Ref: n.ref}, "told", 0, 0); err != nil {
			return err
		}
	}
	if err := p.queue(rule.Effects); err != nil {
		return err
	}
	return p.record(Transition{Kind: TTold, From: p.inst.State, Wait: p.inst.Wait, Reason: p.describe(row)})
}

// raiseAgain raises the timer or effect event that last failed, for an operator.
func (p *planner) raiseAgain() error {
	if p.inst.Status != Running {
		return fault.New(fault.Conflict, "The instance is %s.", p.inst.Status)
	}
	p.calm(func(a Attention) bool { return a.Reason == "quarantine" || a.Reason == "deadline-failed" })
	if p.ev.Deadline != nil {
		return p.deadline()
	}
	if p.ev.Result != nil {
		return p.result()
	}
	if p.ev.Name == "" {
		return fault.New(fault.Conflict, "No event of a timer or an effect has failed here: there is nothing to raise again.")
	}
	event := p.state.Event(p.ev.Name)
	if event == nil {
		return p.notHere()
	}
	for _, arm := range event.Arms {
		for _, by := range arm.By {
			if by.Kind == definitions.KindTimer || by.Kind == definitions.KindEffect {
				picked, err := p.pick(event, []*definitions.Arm{arm})
				if err != nil {
					return err
				}
				return p.act(event, picked, nil)
			}
		}
	}
	return fault.New(fault.NotPermitted, "%q is not an event of a timer or an effect.", event.Name)
}
