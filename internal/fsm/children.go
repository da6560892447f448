package fsm

import (
	"slices"
	"strconv"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// Limits of children.
const (
	maxChildren      = 10_000   // of one start effect
	maxChildrenBytes = 16 << 20 // the data of them all
	maxDepth         = 16       // of children of children
)

// freezeStart evaluates the data of every child. Children of an undoing effect, and of
// an instance that has ended, are nobody's to wait for: they count as done when started.
func (p *planner) freezeStart(effect *definitions.Effect, env *definitions.Env, undoes EffectID) (EffectID, error) {
	s := effect.Start
	over := p.inst.Status == Finished || p.inst.Status == Cancelled
	start := &FrozenStart{
		Definition: s.Definition, Version: s.Version, Items: []map[string]any{}, Requester: p.inst.Requester, Depth: 1,
		Detach: s.Detach || over || undoes != (EffectID{}),
	}
	if p.inst.Parent != nil {
		start.Depth = p.inst.Parent.Depth + 1
	}
	if err := waitFor(start, s.WaitFor); err != nil {
		return EffectID{}, err
	}
	entries, err := childEntries(effect, env)
	if err != nil {
		return EffectID{}, err
	}
	with, size := *env, 0
	for _, entry := range entries {
		if s.As != "" {
			with.Locals = map[string]any{s.As: entry}
		}
		item, err := childData(s.Data, &with)
		if err != nil {
			return EffectID{}, err
		}
		if size += treeSize(item); size > maxChildrenBytes {
			return EffectID{}, fault.New(fault.LimitExceeded, "The data of the children of %s would take more than %d MiB.", effect.Name, maxChildrenBytes>>20)
		}
		start.Items = append(start.Items, item)
	}
	q := queued(effect, undoes)
	q.Droppable, q.Idempotent, q.Priority = !start.Detach, true, 6
	return p.enqueue(q, &Frozen{Start: start})
}

// waitFor puts `wait` into numbers.
func waitFor(start *FrozenStart, wait string) error {
	switch {
	case start.Detach:
	case wait == "all":
		start.All = true
	case wait == "any":
		start.Need = 1
	default:
		n, err := strconv.Atoi(wait)
		if err != nil || n < 1 {
			return broken("wait: %s of a start is not a number", wait)
		}
		start.Need = n
	}
	return nil
}

// childEntries gives the entries of `for_each`, or one that is nothing.
func childEntries(effect *definitions.Effect, env *definitions.Env) ([]any, error) {
	if effect.Start.ForEach == nil {
		return []any{nil}, nil
	}
	v, err := effect.Start.ForEach.Eval(env)
	if err != nil {
		return nil, err
	}
	entries, ok := v.([]any)
	if !ok {
		return nil, fault.New(fault.GuardRejected, "for_each of %s gives no list: %s.", effect.Name, effect.Start.ForEach.Text)
	}
	if len(entries) > maxChildren {
		return nil, fault.New(fault.LimitExceeded, "%s would start %d children; at most %d are allowed.", effect.Name, len(entries), maxChildren)
	}
	return entries, nil
}

func childData(set []definitions.Assign, env *definitions.Env) (map[string]any, error) {
	data := map[string]any{}
	for i := range set {
		value, err := set[i].Value.Eval(env)
		if err != nil {
			return nil, err
		}
		if err := set[i].Path.Set(data, value, env); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// freezeRaise evaluates an event for another instance; it comes as system:NAME with the
// name of the sender's definition.
func (p *planner) freezeRaise(effect *definitions.Effect, env *definitions.Env, undoes EffectID) (EffectID, error) {
	e := effect.Raise
	raise := &FrozenRaise{Definition: e.Definition, Event: e.Event, As: "system:" + p.def.Name}
	var err error
	if raise.Key, err = e.Key.String(env, definitions.EscapeNone); err != nil {
		return EffectID{}, err
	}
	if e.Input != nil {
		if raise.Input, err = e.Input.Eval(env); err != nil {
			return EffectID{}, err
		}
	}
	q := queued(effect, undoes)
	q.Idempotent = true
	return p.enqueue(q, &Frozen{Raise: raise})
}

// stopChildren queues the end of the children that the wait being left may have started.
func (p *planner) stopChildren(by closing) error {
	if p.state == nil || !p.state.StartsChildren || p.allEnded() {
		return nil
	}
	reason := "Its parent has left " + p.state.Name + "."
	if by == closeCancelled {
		reason = "Its parent was cancelled."
		if p.ev.Reason != "" {
			reason = "Its parent was cancelled: " + p.ev.Reason
		}
	}
	_, err := p.enqueue(QueuedEffect{
		Name: "stop children", Kind: kindStop, Idempotent: true, Priority: 2,
		Attempts: mailAttempts, First: time.Second, Max: mailMax,
	}, &Frozen{Stop: &FrozenStop{Wait: p.inst.Wait, Reason: reason}})
	return err
}

// allEnded tells whether this very step is the success of the only start effect that
// can have run in the wait, and that only once, with `wait: all`: no child lives then.
func (p *planner) allEnded() bool {
	r := p.ev.Result
	if r == nil || r.Status != EffectSucceeded || r.Resolved {
		return false
	}
	row := p.effectRow(r.Effect)
	if row == nil || row.Kind != kindStart || row.Wait != p.inst.Wait {
		return false
	}
	effect := p.def.Effect(row.Name)
	if effect == nil || effect.Start == nil || effect.Start.WaitFor != "all" {
		return false
	}
	for _, e := range p.def.Effects {
		if e.Start != nil && !e.Start.Detach && e != effect {
			return false
		}
	}
	return p.queuedOnEntryOnly(effect.Name)
}

// queuedOnEntryOnly tells whether an effect is queued at one place, which is passed once
// for each wait.
func (p *planner) queuedOnEntryOnly(name string) bool {
	places, again := 0, false
	count := func(list []string, repeats bool) {
		for _, n := range list {
			if n == name {
				places++
				again = again || repeats
			}
		}
	}
	for _, d := range p.def.Deadlines {
		count(d.Effects, true)
	}
	for _, s := range p.def.States {
		count(s.Enter, false)
		for _, d := range s.Deadlines {
			count(d.Effects, true)
		}
		for _, e := range s.Events {
			for _, arm := range e.Arms {
				count(arm.Effects, arm.Stay)
			}
		}
	}
	return places == 1 && !again && !slices.Contains(p.def.OnCancel, name)
}
