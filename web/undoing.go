package web

import (
	"slices"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// undoItem is one thing to undo, as the instance page shows it.
type undoItem struct {
	approval.CompensationItemView
	By   string // id of the effect that undoes it, "" while there is none
	Here bool   // undoing stands at this one
}

// Manual tells that a person undoes it by hand.
func (i undoItem) Manual() bool { return i.Undo == "manual" }

// Words is the key of its state's words.
func (i undoItem) Words() string {
	if i.Manual() && i.person() {
		return "undo.manual"
	}
	switch i.Status {
	case "waiting", "blocked", "running", "succeeded", "failed", "unknown", "skipped":
		return "undo." + i.Status
	}
	return "undo.other"
}

// person tells that it waits for somebody's word, where it is its turn.
func (i undoItem) person() bool {
	return i.Status == "failed" || i.Status == "unknown" || i.Manual() && i.Status == "running"
}

// Icon goes with the words.
func (i undoItem) Icon() string {
	switch {
	case i.Status == "succeeded":
		return "tick"
	case i.person() || i.Status == "blocked":
		return "alert"
	case i.Status == "skipped":
		return "cross"
	}
	return "clock"
}

// Colour is the class of an effect's status that looks alike.
func (i undoItem) Colour() string {
	switch i.Icon() {
	case "tick":
		return "succeeded"
	case "alert":
		if i.Status == "failed" {
			return "dead"
		}
		return "unknown"
	}
	return "waiting"
}

// At is the effect that its page is about: the undoing one, else the one to undo.
func (i undoItem) At() string {
	if i.By != "" {
		return i.By
	}
	return i.Effect
}

// undoing is how far compensation is.
type undoing struct {
	Items     []undoItem
	NotUndone []string
	Done      bool
	Stands    *undoItem // the item that the rest waits for; nil: none
}

// Sentence is the key of the words that say where it stands and who must act.
func (u *undoing) Sentence() string {
	switch {
	case u.Done && len(u.NotUndone) > 0:
		return "undoing.over"
	case u.Done && len(u.Items) == 0:
		return "undoing.nothing"
	case u.Done || u.Stands == nil:
		return "undoing.done"
	case u.Stands.Manual() && u.Stands.person():
		return "undoing.manual"
	case u.Stands.person() || u.Stands.Status == "blocked":
		return "undoing." + u.Stands.Status
	}
	return "undoing.goes"
}

// Urgent tells that a person must act before it goes on.
func (u *undoing) Urgent() bool {
	return u.Stands != nil && (u.Stands.person() || u.Stands.Status == "blocked")
}

// undoingOf joins a compensation with the effects that carry it out.
func undoingOf(c *approval.CompensationView, effects []approval.EffectView) *undoing {
	if c == nil {
		return nil
	}
	by := map[string]string{}
	for _, e := range effects {
		if e.Undoes != "" && by[e.Undoes] == "" {
			by[e.Undoes] = e.ID
		}
	}
	u := &undoing{NotUndone: c.NotUndone, Done: c.Done}
	for _, item := range c.Items {
		u.Items = append(u.Items, undoItem{CompensationItemView: item, By: by[item.Effect]})
	}
	for i := range u.Items {
		if at := &u.Items[i]; at.Status != "succeeded" && at.Status != "skipped" && !c.Done {
			at.Here, u.Stands = true, at
			break
		}
	}
	return u
}

// undoStep is one line of what a cancel would do.
type undoStep struct {
	Name, Undo string
	Words      string // key
}

// undoPlan is what a cancel would do, newest first.
type undoPlan struct {
	Undo   []undoStep
	Stays  []string // cannot be undone
	Drops  []string // not sent yet
	Awaits []string // under way or unknown: undone once it is known that they happened
	Tidies []string // on_cancel
	Stops  int      // children that run
}

// Nothing tells that a cancel touches nothing outside.
func (p *undoPlan) Nothing() bool {
	return len(p.Undo)+len(p.Stays)+len(p.Drops)+len(p.Awaits)+len(p.Tidies)+p.Stops == 0
}

// undoPlanOf reads the plan off the definition and the effects, which come newest first.
func undoPlanOf(in *approval.InstanceView, def *definitions.Definition, effects []approval.EffectView) *undoPlan {
	p := &undoPlan{}
	undone, once := map[string]bool{}, map[string]bool{}
	for _, e := range effects {
		undone[e.Undoes] = undone[e.Undoes] || e.Status == fsm.EffectSucceeded
	}
	for _, e := range effects {
		key := string(e.Status) + " " + e.Name
		if e.Undoes != "" || undone[e.ID] || def == nil || def.Effect(e.Name) == nil || e.Kind == "email" && once[key] {
			continue
		}
		once[key] = true
		p.add(&e, def.Effect(e.Name))
	}
	for _, c := range in.Children {
		p.Stops += c.Running
	}
	if def != nil {
		p.Tidies = append(slices.Clone(def.OnCancel), p.Tidies...)
	}
	p.Tidies = eachOnce(p.Tidies)
	return p
}

func eachOnce(names []string) (once []string) {
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

func (p *undoPlan) add(e *approval.EffectView, effect *definitions.Effect) {
	if e.Status != fsm.EffectCancelled && e.Status != fsm.EffectDead && e.Status != fsm.EffectWaiting {
		p.Tidies = append(p.Tidies, effect.OnCancel...)
	}
	switch e.Status {
	case fsm.EffectWaiting:
		p.Drops = append(p.Drops, e.Name)
	case fsm.EffectCancelled, fsm.EffectDead:
	case fsm.EffectSucceeded:
		switch effect.Compensate {
		case "":
			p.Stays = append(p.Stays, e.Name)
		case "manual":
			p.Undo = append(p.Undo, undoStep{Name: e.Name, Words: "confirm.undo.manual"})
		default:
			p.Undo = append(p.Undo, undoStep{Name: e.Name, Undo: effect.Compensate, Words: "confirm.undo.by"})
		}
	default:
		if effect.Compensate != "" {
			p.Awaits = append(p.Awaits, e.Name)
		} else if e.Kind != "start" {
			p.Stays = append(p.Stays, e.Name)
		}
	}
}
