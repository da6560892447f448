package fsm

import (
	"slices"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// The states of a compensation's items.
const (
	undoWaiting   = "waiting"
	undoBlocked   = "blocked"
	undoRunning   = "running"
	undoUnknown   = "unknown"
	undoSucceeded = "succeeded"
	undoFailed    = "failed"
	undoSkipped   = "skipped"
)

// byHand is what `compensate` says where a person undoes.
const byHand = "manual"

// cancel ends the instance where it stands and compensates what has been done. A
// second one answers the first.
func (p *planner) cancel() error {
	if p.inst.Status == Cancelled {
		if p.inst.Compensation == nil {
			return fault.New(fault.Conflict, "It is cancelled already.")
		}
		p.step.Replay = p.inst.Compensation.Seq
		return errReplay
	}
	if p.inst.Status == Finished {
		return fault.New(fault.Conflict, "It has ended in %s and cannot be cancelled any more.", p.inst.State)
	}
	t := Transition{Kind: TCancel, From: p.inst.State, Wait: p.inst.Wait}
	cancelled := p.dropDeadlines(func(*DeadlineRow) bool { return true })
	if _, err := p.leave(closeCancelled); err != nil {
		return err
	}
	t.DeadlinesCancelled = cancelled
	p.inst.Status, p.inst.FinishedAt = Cancelled, &p.now
	p.step.ReleaseKey = p.inst.Key != ""
	if err := p.compensate(); err != nil {
		return err
	}
	if err := p.tidy(); err != nil {
		return err
	}
	return p.record(t)
}

// tidy queues what `on_cancel` names, each once: the definition's own list, then that
// of every effect that went out, in the order in which they did. What cannot be queued
// does not stand in the way of a cancel: operators are told.
func (p *planner) tidy() error {
	names := slices.Clone(p.def.OnCancel)
	for _, row := range p.effects() {
		effect := p.def.Effect(row.Name)
		if effect == nil || row.Undoes != (EffectID{}) || row.Seq >= p.seq || !wentOut(row.Status) {
			continue
		}
		names = append(names, effect.OnCancel...)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		trial := p.fork()
		switch err := trial.queue([]string{name}); {
		case err == nil:
			p.adoptFork(trial)
		case fault.CodeOf(err) == fault.Internal:
			return err
		default:
			p.attention("tidying-failed", name, name+": "+fault.As(err).Message)
		}
	}
	return nil
}

// wentOut tells whether an effect has reached, or may have reached, the outside.
func wentOut(s EffectStatus) bool {
	return s == EffectSucceeded || s == EffectRunning || s == EffectRetrying || s == EffectUnknown
}

// compensate drops waiting effects and plans what is to be undone, newest first by
// (seq, n). Running ones are awaited; unknown ones block as an operator's task.
func (p *planner) compensate() error {
	for _, row := range p.effects() {
		if row.Status == EffectWaiting && row.Seq < p.seq && row.Undoes == (EffectID{}) && p.declared(&row) {
			p.step.EffectChanges = append(p.step.EffectChanges, EffectChange{EffectID: row.EffectID, Status: EffectCancelled})
		}
	}
	c, err := p.undoPlan(p.seq)
	if err != nil {
		return err
	}
	p.inst.Compensation = c
	return p.nextUndo()
}

// declared tells whether a row is of an effect that the definition declares, and not
// of the engine's own.
func (p *planner) declared(row *EffectRow) bool {
	return row.Kind != kindTaskMail && row.Kind != kindNotice && p.def.Effect(row.Name) != nil
}

// advanceCompensation makes the plan under way anew from the effects as they are with
// the event at hand, and goes on with it; it tells whether anything changed.
func (p *planner) advanceCompensation() (bool, error) {
	before := p.inst.Compensation
	if before == nil {
		return false, nil
	}
	c, err := p.undoPlan(before.Seq)
	if err != nil {
		return false, err
	}
	p.inst.Compensation = c
	if err := p.nextUndo(); err != nil {
		return false, err
	}
	if slices.Equal(before.Items, c.Items) && slices.Equal(before.NotUndone, c.NotUndone) && before.Done == c.Done {
		p.inst.Compensation = before
		return false, nil
	}
	return true, nil
}

// nextUndo queues the first item that is not done, if nothing stands before it.
func (p *planner) nextUndo() error {
	c := p.inst.Compensation
	for i := range c.Items {
		switch item := &c.Items[i]; item.Status {
		case undoSucceeded, undoSkipped:
			continue
		case undoWaiting:
			return p.queueUndo(item)
		}
		return nil
	}
	c.Done = true
	return nil
}

// queueUndo queues the effect that undoes an item. One whose request cannot be made
// becomes work of a person: it is never skipped, and it holds up what comes after it.
func (p *planner) queueUndo(item *CompensationItem) error {
	if item.Undo == byHand {
		return p.undoByHand(item, "Undo by hand: "+item.Name+".")
	}
	undo := p.def.Effect(item.Undo)
	if undo == nil {
		return broken("definition %s has no effect %q", p.def.Name, item.Undo)
	}
	env := *p.present()
	for _, row := range p.effects() {
		if row.EffectID == item.Effect {
			env.Undone = definitions.UndoneVars{Result: row.Result, Input: row.Input}
		}
	}
	if p.ev.Result != nil && p.inst.Wait != p.seq {
		env.Last = p.entered().Last
	}
	trial := p.fork()
	id, err := trial.freeze(undo, &env, item.Effect)
	if err == nil {
		p.adoptFork(trial)
		item.Queued, item.Status = id, undoRunning
		return nil
	}
	if fault.CodeOf(err) == fault.Internal {
		return err
	}
	return p.undoByHand(item, "Undo by hand: "+item.Name+", because "+item.Undo+" cannot be made: "+fault.As(err).Message)
}

// undoByHand asks a person to undo an item and to say so.
func (p *planner) undoByHand(item *CompensationItem, detail string) error {
	id, err := p.enqueue(QueuedEffect{
		Name: "undo " + item.Name, Kind: kindManual, Attempts: 1, First: mailFirst, Max: mailMax,
		Undoes: item.Effect, Status: EffectUnknown,
	}, &Frozen{Manual: &FrozenManual{Name: item.Name, Of: item.Effect}})
	if err != nil {
		return err
	}
	p.attention("manual-compensation", id.ref(), detail)
	item.Queued, item.Status = id, undoRunning
	return nil
}
