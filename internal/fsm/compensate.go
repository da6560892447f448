package fsm

import (
	"slices"
	"strconv"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// The states of a compensation's items.
const (
	undoWaiting   = "waiting"
	undoBlocked   = "blocked"
	undoRunning   = "running"
	undoSucceeded = "succeeded"
	undoFailed    = "failed"
)

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
	p.leave(closeCancelled)
	t.DeadlinesCancelled = cancelled
	p.inst.Status, p.inst.FinishedAt = Cancelled, &p.now
	p.step.ReleaseKey = p.inst.Key != ""
	if err := p.compensate(); err != nil {
		return err
	}
	return p.record(t)
}

// compensate drops waiting effects and plans what is to be undone, newest first by
// (seq, n). Running ones are awaited; unknown ones block as an operator's task.
func (p *planner) compensate() error {
	c := &Compensation{Seq: p.seq, Items: []CompensationItem{}, NotUndone: []string{}}
	rows := slices.Clone(p.snap.Effects)
	slices.SortFunc(rows, func(a, b EffectRow) int {
		if a.Seq != b.Seq {
			return b.Seq - a.Seq
		}
		return b.N - a.N
	})
	undone := p.undoes(rows)
	once := map[string]bool{} // a mail has an effect for each recipient; it is undone once
	for i := range rows {
		row := &rows[i]
		effect := p.def.Effect(row.Name)
		if row.Undoes != (EffectID{}) || effect == nil || engineMail(row.Kind) {
			continue
		}
		if undo, ok := undone[row.EffectID]; ok {
			if undo.Status != undoSucceeded {
				c.Items = append(c.Items, undo)
			}
			continue
		}
		if key := strconv.Itoa(row.Seq) + "/" + row.Name; row.Status == EffectWaiting || !once[key] {
			once[key] = p.planUndo(c, row, effect)
		}
	}
	slices.Reverse(c.NotUndone)
	p.inst.Compensation = c
	return p.nextUndo()
}

func engineMail(kind string) bool { return kind == "task-mail" || kind == "notice-mail" }

// undoes gives the items of effects whose compensation has been queued before.
func (p *planner) undoes(rows []EffectRow) map[EffectID]CompensationItem {
	items := map[EffectID]CompensationItem{}
	for i := range rows {
		undo := &rows[i]
		if undo.Undoes == (EffectID{}) {
			continue
		}
		if _, newer := items[undo.Undoes]; newer {
			continue
		}
		item := CompensationItem{Effect: undo.Undoes, Undo: undo.Name, Queued: undo.EffectID, Status: undoRunning}
		switch undo.Status {
		case EffectSucceeded:
			item.Status = undoSucceeded
		case EffectDead:
			item.Status = undoFailed
		}
		if of := p.effectRow(undo.Undoes); of != nil {
			item.Name = of.Name
		}
		items[undo.Undoes] = item
	}
	return items
}

// planUndo drops, lists or plans one effect; it tells whether it may have happened.
func (p *planner) planUndo(c *Compensation, row *EffectRow, effect *definitions.Effect) bool {
	item := CompensationItem{Effect: row.EffectID, Name: row.Name, Undo: effect.Compensate}
	switch row.Status {
	case EffectWaiting:
		p.step.EffectChanges = append(p.step.EffectChanges, EffectChange{EffectID: row.EffectID, Status: EffectCancelled})
		return false
	case EffectCancelled, EffectDead:
		return false
	case EffectSucceeded:
		item.Status = undoWaiting
	default:
		item.Status = undoBlocked
	}
	switch {
	case undoable(effect):
		c.Items = append(c.Items, item)
	case item.Status == undoWaiting:
		c.NotUndone = append(c.NotUndone, row.Name)
		if effect.Compensate == "manual" {
			p.attention("manual-compensation", row.ref(), "Undo by hand: "+row.Name+".")
		}
	}
	return true
}

// undoable tells whether an effect undoes this one.
func undoable(effect *definitions.Effect) bool {
	return effect.Compensate != "" && effect.Compensate != "manual"
}

// ownCompensation is a copy of the plan that this step may change, or nil.
func (p *planner) ownCompensation() *Compensation {
	if p.inst.Compensation == nil {
		return nil
	}
	c := *p.inst.Compensation
	c.Items = slices.Clone(c.Items)
	c.NotUndone = slices.Clone(c.NotUndone)
	p.inst.Compensation = &c
	return &c
}

// nextUndo queues the first item that is not done, if nothing stands before it.
func (p *planner) nextUndo() error {
	c := p.inst.Compensation
	for i := range c.Items {
		item := &c.Items[i]
		switch item.Status {
		case undoSucceeded:
			continue
		case undoFailed:
			if p.gaveUp(item) {
				continue
			}
			return nil
		case undoWaiting:
			return p.queueUndo(item)
		}
		return nil
	}
	c.Done = true
	return nil
}

// gaveUp tells whether a person has given the failed compensation up: then nothing
// asks for attention any more.
func (p *planner) gaveUp(item *CompensationItem) bool {
	ref := item.Queued.ref()
	return !slices.ContainsFunc(p.inst.Attention, func(a Attention) bool { return a.Ref == ref && a.Reason == "dead-effect" })
}

func (p *planner) queueUndo(item *CompensationItem) error {
	undo := p.def.Effect(item.Undo)
	if undo == nil {
		return broken("definition %s has no effect %q", p.def.Name, item.Undo)
	}
	env := *p.present()
	if row := p.effectRow(item.Effect); row != nil {
		env.Undone = definitions.UndoneVars{Result: row.Result, Input: row.Input}
	}
	if r := p.ev.Result; r != nil {
		if r.Effect == item.Effect {
			env.Undone.Result = r.Result
		}
		if p.inst.Wait != p.seq {
			env.Last = p.entered().Last
		}
	}
	id, err := p.freeze(undo, &env, item.Effect)
	if err != nil {
		return err
	}
	item.Queued, item.Status = id, undoRunning
	return nil
}

// advanceCompensation takes an effect's outcome into the plan under way; it tells
// whether anything changed.
func (p *planner) advanceCompensation(row *EffectRow, r *ResultEvent) bool {
	if p.inst.Compensation == nil || p.inst.Compensation.Done || r.Status != EffectSucceeded && r.Status != EffectDead {
		return false
	}
	c := p.ownCompensation()
	changed := false
	for i := range c.Items {
		item := &c.Items[i]
		switch {
		case item.Queued == row.EffectID && r.Status == EffectSucceeded:
			item.Status, changed = undoSucceeded, true
		case item.Queued == row.EffectID:
			item.Status, changed = undoFailed, true
		case item.Effect == row.EffectID && item.Status == undoBlocked && r.Status == EffectSucceeded:
			item.Status, changed = undoWaiting, true
		case item.Effect == row.EffectID && item.Status == undoBlocked:
			c.Items = slices.Delete(c.Items, i, i+1)
			changed = true
		}
		if changed {
			break
		}
	}
	if !changed && row.Seq < c.Seq && row.Undoes == (EffectID{}) && r.Status == EffectSucceeded && !engineMail(row.Kind) {
		c.NotUndone = append(c.NotUndone, row.Name)
		changed = true
	}
	return changed
}
