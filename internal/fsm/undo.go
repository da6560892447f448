package fsm

import (
	"slices"

	"vobo/internal/definitions"
)

// deed is one thing done outside, or that may have been done: an effect, or of a mail
// to several people all of its effects.
type deed struct {
	id     EffectID // of the newest row with the deed's status
	ids    []EffectID
	first  EffectID
	effect *definitions.Effect
	status EffectStatus // succeeded; running: it may yet turn out to have happened; dead: it did not
}

// effects gives the rows as they are with the event at hand, those that this step
// queues too, by (seq, n): the outcome at hand and what is tried again now count.
func (p *planner) effects() []EffectRow {
	rows := slices.Clone(p.snap.Effects)
	for i := range rows {
		row := &rows[i]
		if r := p.ev.Result; r != nil && r.Effect == row.EffectID {
			row.Status, row.GivenUp = r.Status, r.Resolved && r.Status == EffectDead
			if r.Status == EffectSucceeded {
				row.Result = r.Result
			}
		}
		for _, c := range p.step.EffectChanges {
			if c.EffectID == row.EffectID {
				row.Status, row.GivenUp = c.Status, false
			}
		}
	}
	for i := range p.step.Effects {
		q := &p.step.Effects[i]
		row := EffectRow{EffectID: q.EffectID, Name: q.Name, Kind: q.Kind, Wait: q.Wait, Status: q.Status, Undoes: q.Undoes, Link: q.Link}
		if row.Status == "" {
			row.Status = EffectWaiting
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b EffectRow) int { return compareIDs(a.EffectID, b.EffectID) })
	return rows
}

func compareIDs(a, b EffectID) int {
	if a.Seq != b.Seq {
		return a.Seq - b.Seq
	}
	return a.N - b.N
}

// undoPlan makes the plan of the compensation that transition seq asked for, from the
// effects as they are: what happened before seq, newest first, and how far undoing it
// is. It is made anew after every outcome, so that what is known late counts too.
func (p *planner) undoPlan(seq int) (*Compensation, error) {
	c := &Compensation{Seq: seq, Items: []CompensationItem{}, NotUndone: []string{}}
	rows := p.effects()
	deeds := p.deeds(rows, seq)
	undone := undoneBy(deeds, rows, func(s EffectStatus) bool { return s == EffectSucceeded })
	perhaps := undoneBy(deeds, rows, func(s EffectStatus) bool { return s == EffectSucceeded || s == EffectRunning })
	for i := len(deeds) - 1; i >= 0; i-- {
		d := &deeds[i]
		item, begun := p.begun(d, rows)
		switch {
		case begun && item.Status == undoSucceeded && item.Queued.Seq < seq && !p.planned(seq, item.Effect): // by an earlier compensation
			continue
		case begun:
		case d.status == EffectDead || undone.deeds[i] || undone.by[i] && d.effect.Compensate == "":
			continue
		case d.effect.Compensate == "":
			// What is under way is listed until it turns out not to have happened; a
			// success of it alone need not be heard.
			if d.status == EffectSucceeded || d.effect.Undoes == "" {
				c.NotUndone = append(c.NotUndone, d.effect.Name)
			}
			continue
		case d.status == EffectSucceeded && !perhaps.deeds[i]:
			item.Status = undoWaiting
		default:
			item.Status = undoBlocked
		}
		if item.Status == undoSkipped {
			c.NotUndone = append(c.NotUndone, d.effect.Name)
		}
		c.Items = append(c.Items, item)
	}
	slices.Reverse(c.NotUndone)
	return c, nil
}

// planned tells whether the plan that transition seq asked for has an item of the effect.
func (p *planner) planned(seq int, id EffectID) bool {
	c := p.inst.Compensation
	return c != nil && c.Seq == seq && slices.ContainsFunc(c.Items, func(i CompensationItem) bool { return i.Effect == id })
}

// deeds gives what was done before transition seq, oldest first. Start effects are not
// awaited: their children are stopped with the wait.
func (p *planner) deeds(rows []EffectRow, seq int) []deed {
	var all []deed
	for i := range rows {
		row := &rows[i]
		if row.Seq >= seq || row.Undoes != (EffectID{}) || !p.declared(row) {
			continue
		}
		status := EffectRunning
		switch {
		case row.Status == EffectSucceeded:
			status = EffectSucceeded
		case row.Status == EffectCancelled || row.Status == EffectDead || row.Kind == kindStart:
			status = EffectDead
		}
		effect := p.def.Effect(row.Name)
		if n := len(all) - 1; n >= 0 && row.Kind == kindEmail && all[n].effect == effect && all[n].first.Seq == row.Seq {
			all[n].join(row.EffectID, status)
			continue
		}
		all = append(all, deed{id: row.EffectID, ids: []EffectID{row.EffectID}, first: row.EffectID, effect: effect, status: status})
	}
	return all
}

// join adds one more recipient's mail: not known yet counts before succeeded, and that
// before dead.
func (d *deed) join(id EffectID, status EffectStatus) {
	rank := map[EffectStatus]int{EffectDead: 0, EffectSucceeded: 1, EffectRunning: 2}
	d.ids = append(d.ids, id)
	if rank[status] >= rank[d.status] {
		d.id, d.status = id, status
	}
}

// undone tells, by their places in a list of deeds, which were undone by a forward
// effect, and which did that.
type undone struct{ deeds, by map[int]bool }

// undoneBy lets every deed of an effect with `undoes` whose status counts undo the
// newest success before it that neither another one nor a compensation has undone.
func undoneBy(deeds []deed, rows []EffectRow, counts func(EffectStatus) bool) undone {
	u := undone{deeds: map[int]bool{}, by: map[int]bool{}}
	for i := range deeds {
		by := &deeds[i]
		if by.effect.Undoes == "" || !counts(by.status) {
			continue
		}
		for k := i - 1; k >= 0; k-- {
			d := &deeds[k]
			if d.effect.Name != by.effect.Undoes || d.status != EffectSucceeded || u.deeds[k] || compensatedBefore(d, rows, by.first.Seq) {
				continue
			}
			u.deeds[k], u.by[i] = true, true
			break
		}
	}
	return u
}

// compensatedBefore tells whether undoing the deed was begun by transition seq or before it.
func compensatedBefore(d *deed, rows []EffectRow, seq int) bool {
	return slices.ContainsFunc(rows, func(r EffectRow) bool {
		return r.Undoes != (EffectID{}) && slices.Contains(d.ids, r.Undoes) && r.Seq <= seq
	})
}

// begun gives the item of a deed, and whether an effect that undoes it was queued
// already; then its status is told by that (of a mail to several people: by all).
func (p *planner) begun(d *deed, rows []EffectRow) (CompensationItem, bool) {
	item := CompensationItem{Effect: d.id, Name: d.effect.Name, Undo: d.effect.Compensate}
	seen := map[string]bool{}
	for i := range rows {
		row := &rows[i]
		if row.Undoes == (EffectID{}) || !slices.Contains(d.ids, row.Undoes) {
			continue
		}
		if item.Queued == (EffectID{}) {
			item.Effect, item.Queued = row.Undoes, row.EffectID
		}
		seen[p.undoStatus(row)] = true
	}
	for _, status := range []string{undoFailed, undoRunning, undoUnknown, undoSucceeded, undoSkipped} {
		if seen[status] {
			item.Status = status
			return item, true
		}
	}
	return item, false
}

// undoStatus is how far an effect that undoes something is.
func (p *planner) undoStatus(row *EffectRow) string {
	switch row.Status {
	case EffectSucceeded:
		return undoSucceeded
	case EffectUnknown:
		if row.Kind == kindManual {
			return undoRunning
		}
		return undoUnknown
	case EffectDead, EffectCancelled:
		if row.GivenUp {
			return undoSkipped
		}
		return undoFailed
	}
	return undoRunning
}
