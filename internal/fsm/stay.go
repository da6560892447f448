package fsm

import "vobo/internal/definitions"

// stay keeps the wait: data and effects only. The caller's own link is replaced by a
// successor; a change of what is shown voids votes and replaces every link.
func (p *planner) stay(m *move, t *Transition) error {
	t.From, t.Wait = p.inst.State, p.inst.Wait
	if m.kind == TTransition {
		t.Kind = TStay
	}
	end, err := walk(p.inst.State, max(m.event, string(t.Kind)), []string{p.inst.State})
	if err != nil || end != p.inst.State {
		return broken("machine left %q on a stay: %v", p.inst.State, err)
	}
	if err := p.reshow(); err != nil {
		return err
	}
	if m.kind == TTransition {
		if err := p.succeed(); err != nil {
			return err
		}
	}
	return p.queue(m.effects)
}

// reshow renders the open task again after a change of data. A new digest voids
// votes, replaces links and tells everybody else who was asked.
func (p *planner) reshow() error {
	task := p.openTask()
	if task == nil || !p.step.DataChanged {
		return nil
	}
	s, err := p.render()
	if err != nil || s.digest == task.Digest {
		return err
	}
	c := p.taskChange(task)
	c.Title, c.Instructions, c.Facts, c.Digest = s.title, s.instructions, s.facts, s.digest
	rows := append([]Assignee(nil), p.rows...)
	told := map[string]bool{}
	for _, r := range rows {
		if r.Kind == AssigneeCallback || r.State == LinkRevoked || r.State == LinkReplaced || r.State == LinkSuperseded {
			continue
		}
		change := AssigneeChange{Seq: r.Seq, N: r.N}
		if r.State == LinkLive {
			change.State = LinkReplaced
		}
		if r.Vote > 0 {
			change.Vote = -1
		}
		if change != (AssigneeChange{Seq: r.Seq, N: r.N}) {
			p.change(change)
		}
		if told[r.Ref] || p.isCaller(&r) || r.Stood {
			continue
		}
		told[r.Ref] = true
		if err := p.refresh(&r, s, "changed", 0, 0); err != nil {
			return err
		}
	}
	p.env.Votes = nil
	return nil
}

// refresh makes a fresh link for the person of a row and mails it.
func (p *planner) refresh(r *Assignee, s *shown, kind string, k, n int) error {
	a := Assignee{Task: r.Task, Kind: r.Kind, Ref: r.Ref, Lines: r.Lines, Events: r.Events, Digest: s.digest}
	if r.State == LinkNone {
		return p.mailTask(r, kind, k, n)
	}
	return p.mailTask(p.newRow(a), kind, k, n)
}

// succeed uses up the caller's own link and gives them the next one.
func (p *planner) succeed() error {
	own := p.ownRow()
	if own == nil || own.Events == nil || !p.ev.Token && p.ev.Actor.Kind != ActorSystem && own.State != LinkReplaced {
		if own != nil && own.State == LinkLive {
			p.step.Successor = EffectID{Seq: own.Seq, N: own.N}
		}
		return nil
	}
	s, err := p.render()
	if err != nil {
		return err
	}
	p.useToken(false)
	if !p.ev.Token && own.State == LinkLive {
		p.change(AssigneeChange{Seq: own.Seq, N: own.N, Consumed: p.seq})
	}
	next := p.newRow(Assignee{Task: own.Task, Kind: own.Kind, Ref: own.Ref, Lines: own.Lines, Events: own.Events, Digest: s.digest})
	p.step.Successor = EffectID{Seq: next.Seq, N: next.N}
	return nil
}

func (p *planner) isCaller(r *Assignee) bool {
	return idOf(r.Ref) == personOf(p.ev.Actor)
}

// ownRow is a copy of the caller's newest row in the present wait, or nil; by a link,
// that link's row.
func (p *planner) ownRow() *Assignee {
	var own *Assignee
	for i := range p.rows {
		r := &p.rows[i]
		if r.Kind == AssigneeCallback {
			continue
		}
		if p.ev.Token && p.snap.Token.Kind != AssigneeCallback && r.Seq == p.snap.Token.Seq && r.N == p.snap.Token.N {
			c := *r
			return &c
		}
		if p.isCaller(r) && !p.ev.Token {
			own = r
		}
	}
	if own == nil {
		return nil
	}
	c := *own
	return &c
}

func (p *planner) openTask() *Task {
	for i := range p.snap.Tasks {
		if t := &p.snap.Tasks[i]; t.Seq == p.inst.Wait && t.Status == "open" {
			return t
		}
	}
	return nil
}

// wants tells whether the row's person could still be asked for this event.
func wants(r *Assignee, event *definitions.Event) bool {
	for _, e := range r.Events {
		if e == event.Name {
			return true
		}
	}
	return false
}
