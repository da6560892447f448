package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// planner holds one event while it is planned. Its working copies start from the
// snapshot, which is never changed.
type planner struct {
	snap  *Snapshot
	def   *definitions.Definition
	ev    *Event
	now   time.Time
	zone  *time.Location
	seq   int
	state *definitions.State // present state, nil before a start
	inst  *Instance          // &step.Instance
	step  Step

	rows      []Assignee    // of the present wait, with what this step changed
	deadlines []DeadlineRow // live, with what this step changed
	changes   []Change
	env       definitions.Env
	answer    any // `result` of an effect's outcome
	httpCode  int // `response.status`
	path      []string

	assigneeN, taskN, deadlineN, effectN, secrets int
	shown                                         *shown // the open task as rendered, cached for one state of data
}

func newPlanner(snap *Snapshot, ev *Event, now time.Time) *planner {
	p := &planner{snap: snap, def: snap.Definition, ev: ev, now: now.UTC().Truncate(time.Millisecond), zone: snap.Zone}
	if p.zone == nil {
		p.zone = time.UTC
	}
	p.step.Instance = snap.Instance
	p.inst = &p.step.Instance
	p.seq = snap.Instance.Revision + 1
	p.rows = rowsOfWait(snap)
	p.deadlines = snap.Deadlines
	if ev.Kind != KindStart {
		p.state = p.def.State(p.inst.State)
	}
	return p
}

// rowsOfWait gives the assignees of the present wait without a token's row of another.
func rowsOfWait(snap *Snapshot) []Assignee {
	rows := make([]Assignee, 0, len(snap.Assignees)+2)
	for _, a := range snap.Assignees {
		if a.Wait == snap.Instance.Wait {
			rows = append(rows, a)
		}
	}
	return rows
}

// secret derives 16 bytes from the event's seed; each call gives others.
func (p *planner) secret() []byte {
	var b [40]byte
	copy(b[:], p.ev.Seed[:])
	p.secrets++
	binary.BigEndian.PutUint64(b[32:], uint64(p.secrets))
	sum := sha256.Sum256(b[:])
	return sum[:16:16]
}

// present is the environment of the present event: what `set`, guards, checks and
// effects see.
func (p *planner) present() *definitions.Env {
	e := &p.env
	if e.Instance.ID == "" {
		e.Input = p.ev.Input
		e.Actor = actorVars(p.ev.Actor)
		e.Last = definitions.LastVars{Event: p.ev.Name, Actor: e.Actor, Comment: p.ev.Comment, Input: p.ev.Input, At: p.now}
		e.Vars, e.Zone, e.Now = p.snap.Vars, p.zone, p.now
		e.Instance = p.instanceVars()
		e.Votes = p.votes()
		e.Result, e.Status = p.answer, p.httpCode
	}
	e.Data = p.inst.Data
	e.Instance.State = p.inst.State
	e.OpenVotes = p.openVotes()
	e.Visits = p.visits(p.inst.State)
	return e
}

// entered is the environment of the wait's own texts: as it was entered, but with
// the present data. It gives the same text however often it is asked.
func (p *planner) entered() *definitions.Env {
	e := &definitions.Env{Data: p.inst.Data, Vars: p.snap.Vars, Zone: p.zone, Now: p.inst.EnteredAt, Instance: p.instanceVars(), Visits: p.visits(p.inst.State)}
	if p.inst.Wait == p.seq {
		present := p.present()
		e.Last, e.Actor, e.Input = present.Last, present.Actor, present.Input
		return e
	}
	for i := range p.snap.Past {
		if past := &p.snap.Past[i]; past.Seq == p.inst.Wait {
			e.Actor, e.Input = actorVars(past.Actor), past.Input
			e.Last = definitions.LastVars{Event: past.Event, Actor: e.Actor, Comment: past.Comment, Input: past.Input, At: past.At}
		}
	}
	return e
}

func (p *planner) instanceVars() definitions.InstanceVars {
	return definitions.InstanceVars{
		ID: p.inst.ID, Definition: p.inst.Definition, State: p.inst.State, Key: p.inst.Key,
		Requester: p.inst.Requester, Version: p.inst.Version, StartedAt: p.inst.StartedAt,
	}
}

func actorVars(a Actor) definitions.ActorVars {
	return definitions.ActorVars{ID: a.ID, Name: a.Name, Groups: a.Groups, Roles: a.Roles}
}

// visits counts how often the state was entered, this step's entry with it.
func (p *planner) visits(state string) int {
	n := 0
	for i := range p.snap.Past {
		if p.snap.Past[i].To == state {
			n++
		}
	}
	if p.inst.Wait == p.seq && p.inst.State == state {
		n++
	}
	return n
}

func (p *planner) votes() map[string][]definitions.VoteVars {
	if len(p.snap.Votes) == 0 {
		return nil
	}
	votes := make(map[string][]definitions.VoteVars)
	for i := range p.snap.Votes {
		v := &p.snap.Votes[i]
		votes[v.Event] = append(votes[v.Event], definitions.VoteVars{Actor: actorVars(v.Actor), Input: v.Input, Comment: v.Comment})
	}
	return votes
}

// change notes a change of an assignee's row, here and in the step.
func (p *planner) change(c AssigneeChange) {
	for i := range p.rows {
		r := &p.rows[i]
		if r.Seq != c.Seq || r.N != c.N {
			continue
		}
		if c.State != "" {
			r.State = c.State
		}
		if c.Consumed != 0 {
			r.Consumed = c.Consumed
		}
		if c.Vote != 0 {
			r.Vote = max(c.Vote, 0)
		}
	}
	for i := range p.step.AssigneeChanges {
		o := &p.step.AssigneeChanges[i]
		if o.Seq != c.Seq || o.N != c.N {
			continue
		}
		if c.State != "" {
			o.State = c.State
		}
		if c.Consumed != 0 {
			o.Consumed = c.Consumed
		}
		if c.Vote != 0 {
			o.Vote = c.Vote
		}
		return
	}
	p.step.AssigneeChanges = append(p.step.AssigneeChanges, c)
}

// attention raises an attention; (reason, ref) is there once.
func (p *planner) attention(reason, ref, detail string) {
	for _, a := range p.inst.Attention {
		if a.Reason == reason && a.Ref == ref {
			return
		}
	}
	list := make([]Attention, 0, len(p.inst.Attention)+1)
	list = append(list, p.inst.Attention...)
	p.inst.Attention = append(list, Attention{Reason: reason, Ref: ref, Detail: detail, Since: p.now})
}

// calm removes attentions.
func (p *planner) calm(match func(Attention) bool) bool {
	kept := make([]Attention, 0, len(p.inst.Attention))
	for _, a := range p.inst.Attention {
		if !match(a) {
			kept = append(kept, a)
		}
	}
	changed := len(kept) != len(p.inst.Attention)
	if changed {
		p.inst.Attention = kept
	}
	return changed
}

// endsMatters tells whether the event is beyond the limit of transitions: a cancel, what
// raises attention, and what an instance that is over or compensates still hears of its
// effects. Those are bounded by what was done before.
func (p *planner) endsMatters() bool {
	switch p.ev.Kind {
	case KindCancel, KindQuarantine:
		return true
	case KindEffectResult, KindRetryEffect:
		before := &p.snap.Instance
		return before.Compensation != nil || before.Status == Cancelled || before.Status == Finished
	}
	return false
}

// record writes the history row and seals the chain; it comes last.
func (p *planner) record(t Transition) error {
	if p.seq > p.def.Limits.Transitions && p.def.Limits.Transitions > 0 && !p.endsMatters() {
		return fault.New(fault.LimitExceeded, "This instance has had %d transitions, the most that its definition allows.", p.def.Limits.Transitions)
	}
	t.Seq, t.EventID, t.At, t.DefinitionVersion = p.seq, p.ev.ID, p.now, p.def.Version
	t.Actor, t.Assurance = p.ev.Actor, p.ev.Assurance
	if t.Comment == "" {
		t.Comment = p.ev.Comment
	}
	if t.Reason == "" {
		t.Reason = p.ev.Reason
	}
	if t.Input == nil {
		t.Input = p.ev.Input
	}
	t.Documents = p.ev.Documents
	t.Changes = p.changes
	t.Salt, t.PreviousHash = p.secret(), p.snap.Instance.HeadHash
	t.Hash = HashTransition(&t)
	p.correlations()
	p.inst.Revision, p.inst.LastEventAt, p.inst.HeadHash = p.seq, p.now, t.Hash
	p.step.Transition = t
	return nil
}
