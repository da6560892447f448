package fsm

import (
	"strings"

	"vobo/internal/fault"
)

// start plans the first event of an instance.
func (p *planner) start() error {
	s := p.ev.Start
	if s == nil {
		return broken("a start without its data")
	}
	p.seq = 1
	requester, by := s.Requester, s.StartedBy
	if requester == "" {
		requester = p.ev.Actor.ID
	}
	if by == requester {
		by = ""
	}
	id := p.inst.ID
	if id == "" {
		id = p.ev.Instance
	}
	*p.inst = Instance{
		ID: id, Definition: p.def.Name, Version: p.def.Version, Hash: p.def.Hash, Status: Running,
		Requester: requester, StartedBy: by, Labels: s.Labels, StartedAt: p.now, EnteredAt: p.now, Parent: s.Parent,
	}
	p.rows, p.deadlines = nil, nil
	if err := p.mayStart(); err != nil {
		return err
	}
	if err := p.adopt(WithDefaults(p.def, s.Data)); err != nil {
		return err
	}
	if p.def.Key != nil {
		key, err := keyOf(p.def, p.present())
		if err != nil {
			return err
		}
		p.inst.Key, p.env.Instance.Key = key, key
	}
	p.changes = []Change{{Pointer: "", After: p.inst.Data}}
	if err := p.wholeDeadlines(); err != nil {
		return err
	}
	t := Transition{Kind: TStart}
	if err := p.move(&move{kind: TStart, to: p.def.Initial}, &t); err != nil {
		return err
	}
	return p.record(t)
}

// mayStart checks `requesters` for who calls and for whom it is. A child is started by
// its parent's definition, whoever may start others.
func (p *planner) mayStart() error {
	if parent := p.inst.Parent; parent != nil {
		if parent.Depth > maxDepth {
			return fault.New(fault.LimitExceeded, "Children may start children %d deep, and this would be the next.", maxDepth)
		}
		return nil
	}
	callers := []caller{{Actor: p.ev.Actor}}
	if id := p.inst.Requester; id != p.ev.Actor.ID && !strings.HasPrefix(id, "system:") {
		person := p.snap.Directory.Person(id)
		if person != nil && !person.Active {
			return fault.New(fault.NotPermitted, "%s is deactivated and cannot ask for anything.", nameOf(p.snap.Directory, id))
		}
		callers = append(callers, caller{Actor: Actor{Kind: ActorPerson, ID: id}})
	}
	for i := range callers {
		ok, _, err := p.anyFits(&callers[i], p.def.Requesters, "")
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
	}
	texts := make([]string, len(p.def.Requesters))
	for i, r := range p.def.Requesters {
		texts[i] = r.Text
	}
	return fault.New(fault.NotPermitted, "Only %s may start %s.", strings.Join(texts, ", "), p.def.Name)
}
