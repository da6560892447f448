package fsm

import (
	"slices"

	"vobo/internal/definitions"
)

// vote notes the caller's standing vote; with it the event happens if the quorum is
// complete.
func (p *planner) vote(event *definitions.Event, arm *definitions.Arm) error {
	voters := p.standing(event.Name)
	mine := Past{Seq: p.seq, Kind: TVote, Event: event.Name, Wait: p.inst.Wait, Actor: p.ev.Actor, Input: p.ev.Input, Comment: p.ev.Comment, At: p.now}
	voters = append(voters, mine)
	pending, err := p.count(event, voters)
	if err != nil {
		return err
	}
	p.castVote(mine)
	if pending.Have >= pending.Need {
		return p.act(event, arm, pending)
	}
	return p.noted(event, voters, pending)
}

// standing gives the standing votes on an event but the caller's own.
func (p *planner) standing(event string) []Past {
	var voters []Past
	for _, v := range p.snap.Votes {
		if v.Event == event && personOf(v.Actor) != personOf(p.ev.Actor) {
			voters = append(voters, v)
		}
	}
	return voters
}

// castVote puts the vote on the caller's newest row, in place of their older one,
// and where expressions see it.
func (p *planner) castVote(mine Past) {
	row := -1
	for i := range p.rows {
		if r := &p.rows[i]; r.Kind != AssigneeCallback && p.isCaller(r) {
			row = i
			if r.Vote > 0 {
				p.change(AssigneeChange{Seq: r.Seq, N: r.N, Vote: -1})
			}
		}
	}
	if row < 0 {
		kind := AssigneePerson
		if p.ev.Actor.Kind == ActorSystem {
			kind = AssigneeSystem
		}
		a := p.newRow(Assignee{Kind: kind, Ref: refOf(personOf(p.ev.Actor)), Events: []string{p.ev.Name}, Stood: true, Vote: p.seq})
		a.Digest = p.readDigest()
		p.syncRow(a)
	} else {
		p.change(AssigneeChange{Seq: p.rows[row].Seq, N: p.rows[row].N, Vote: p.seq})
	}
	votes := make(map[string][]definitions.VoteVars)
	for _, v := range append(slices.Clone(p.snap.Votes), mine) {
		if v.Seq == p.seq || personOf(v.Actor) != personOf(p.ev.Actor) {
			votes[v.Event] = append(votes[v.Event], definitions.VoteVars{Actor: actorVars(v.Actor), Input: v.Input, Comment: v.Comment})
		}
	}
	p.present()
	p.env.Votes = votes
}

// noted records a vote that does not complete the quorum. A `choose` inside the wait
// is looked at all the same.
func (p *planner) noted(event *definitions.Event, voters []Past, pending *Pending) error {
	t := Transition{Kind: TVote, Event: event.Name, Pending: pending, Digest: p.readDigest(), From: p.inst.State, Wait: p.inst.Wait}
	if p.ev.Token {
		t.Token = EffectID{Seq: p.snap.Token.Seq, N: p.snap.Token.N}
	}
	p.useToken(false)
	next, err := p.choose(p.state)
	if err != nil {
		return err
	}
	if next != "" {
		m := &move{kind: TTransition, event: event.Name, to: next, by: closeDone}
		t.Kind = m.kind
		if err := p.move(m, &t); err != nil {
			return err
		}
		return p.record(t)
	}
	end, err := walk(p.inst.State, event.Name, []string{p.inst.State})
	if err != nil || end != p.inst.State {
		return broken("machine left %q on a vote: %v", p.inst.State, err)
	}
	reachable, err := p.reachable(event, voters)
	if err != nil {
		return err
	}
	if !reachable {
		p.attention("quorum-unreachable", event.Name, "Not enough people are left for the quorum of "+event.Name+".")
	}
	return p.record(t)
}

// count tells how many slots of the quorum the voters fill, and how many there are.
func (p *planner) count(event *definitions.Event, voters []Past) (*Pending, error) {
	q := event.Quorum
	if len(q.Lines) > 0 {
		slots, err := p.slots(q)
		if err != nil {
			return nil, err
		}
		return &Pending{Have: p.match(slots, voters, event.Name), Need: len(slots)}, nil
	}
	need := p.needed(event)
	return &Pending{Have: min(len(voters), need), Need: need}, nil
}

// needed is how many people a quorum by number, all or per cent needs; percentages
// round up. The base is the assignees at entry who may raise the event.
func (p *planner) needed(event *definitions.Event) int {
	q := event.Quorum
	if q.Number > 0 {
		return q.Number
	}
	base := map[string]bool{}
	for i := range p.rows {
		if r := &p.rows[i]; r.Seq == p.inst.Wait && r.Kind != AssigneeCallback && wants(r, event) {
			base[r.Ref] = true
		}
	}
	need := len(base)
	if q.Percent > 0 {
		need = (len(base)*q.Percent + 99) / 100
	}
	return max(need, 1)
}

// slots gives one resolved principal for each slot of a quorum by lines.
func (p *planner) slots(q *definitions.Quorum) ([]definitions.Ref, error) {
	var slots []definitions.Ref
	for _, line := range q.Lines {
		list, err := refs(line.Principal, p.principalEnv(line.Principal))
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			for range line.Need {
				slots = append(slots, ref)
			}
		}
	}
	return slots, nil
}

// match is the most slots that distinct voters can fill (bipartite matching by
// augmenting paths).
func (p *planner) match(slots []definitions.Ref, voters []Past, event string) int {
	fills := make([][]int, len(voters))
	for v := range voters {
		c := caller{Actor: voters[v].Actor}
		for s, ref := range slots {
			if p.fits(&c, ref, event) {
				fills[v] = append(fills[v], s)
			}
		}
	}
	return maxMatching(fills, len(slots))
}

// maxMatching matches as many left nodes as possible to distinct right nodes.
func maxMatching(edges [][]int, right int) int {
	owner := make([]int, right)
	for i := range owner {
		owner[i] = -1
	}
	var augment func(v int, seen []bool) bool
	augment = func(v int, seen []bool) bool {
		for _, s := range edges[v] {
			if seen[s] {
				continue
			}
			seen[s] = true
			if owner[s] < 0 || augment(owner[s], seen) {
				owner[s] = v
				return true
			}
		}
		return false
	}
	n := 0
	for v := range edges {
		if augment(v, make([]bool, right)) {
			n++
		}
	}
	return n
}

// reachable tells whether the quorum can still be met: standing votes stand, and
// everybody else who was asked may still vote.
func (p *planner) reachable(event *definitions.Event, voters []Past) (bool, error) {
	if p.mayGrow() {
		return true, nil
	}
	have := map[string]bool{}
	for _, v := range p.snap.Votes {
		have[personOf(v.Actor)] = true
	}
	have[personOf(p.ev.Actor)] = true
	all := slices.Clone(voters)
	for i := range p.rows {
		r := &p.rows[i]
		id := idOf(r.Ref)
		if r.Kind == AssigneeCallback || have[id] || !wants(r, event) || !p.stillNamed(r) {
			continue
		}
		have[id] = true
		kind := ActorPerson
		if r.Kind == AssigneeSystem {
			kind = ActorSystem
		}
		all = append(all, Past{Actor: Actor{Kind: kind, ID: id}})
	}
	pending, err := p.count(event, all)
	if err != nil {
		return false, err
	}
	return pending.Have >= pending.Need, nil
}

// mayGrow tells whether an escalation may still bring more people into the wait.
func (p *planner) mayGrow() bool {
	for i := range p.deadlines {
		if p.deadlines[i].Action == "escalate" && p.deadlines[i].Wait == p.inst.Wait {
			return true
		}
	}
	return false
}

// openVotes counts assignees who may still vote on some event and have not.
func (p *planner) openVotes() int {
	if p.state == nil || p.state.Kind != definitions.Wait {
		return 0
	}
	voted, may := map[string]bool{}, map[string]bool{}
	for _, e := range p.state.Events {
		if e.Quorum == nil {
			continue
		}
		for i := range p.rows {
			r := &p.rows[i]
			if r.Kind == AssigneeCallback || r.Stood {
				continue
			}
			if r.Vote > 0 {
				voted[r.Ref] = true
			}
			if wants(r, e) {
				may[r.Ref] = true
			}
		}
	}
	n := 0
	for ref := range may {
		if !voted[ref] {
			n++
		}
	}
	return n
}
