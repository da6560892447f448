package fsm

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// DecideClosed answers an event of a person or system whose answer no longer depends
// on the lock: a replay, a decision already taken, a link that is dead, a wait that
// is over. nil: it is open and Plan must decide under the lock. Plan calls it first,
// so this is the one place of the first rows of "Decisions by token"; a caller may
// ask it before taking the lock with what it has read (Token, Own, Acts, Left,
// Instance, Deadlines, Directory, Definition, Votes).
func DecideClosed(snap *Snapshot, ev *Event, now time.Time) *Step {
	if ev.Kind != KindRaise {
		return nil
	}
	p := newPlanner(snap, ev, now)
	if seq := p.replayed(); seq > 0 {
		return &Step{Replay: seq}
	}
	if err := p.closed(); err != nil {
		step := refused(err)
		return &step
	}
	return nil
}

// replayed gives the seq of the act that already recorded this very decision, or 0.
func (p *planner) replayed() int {
	ev, token := p.ev, p.snap.Token
	if own := p.snap.Own; own != nil && p.same(own) {
		if ev.Token || p.otherWait() || !p.knows(ev.Name) {
			return own.Seq
		}
	}
	if ev.Token && token == nil {
		return 0
	}
	if ev.Token {
		for i := range p.snap.Acts {
			if p.same(&p.snap.Acts[i]) {
				return p.snap.Acts[i].Seq
			}
		}
		if token.Wait != p.inst.Wait || token.Kind == AssigneeCallback {
			return 0
		}
	} else if p.otherWait() {
		return 0
	}
	for i := range p.snap.Votes {
		v := &p.snap.Votes[i]
		if personOf(v.Actor) == personOf(ev.Actor) && p.same(v) {
			return v.Seq
		}
	}
	return 0
}

// same tells whether an act is this event with this input.
func (p *planner) same(past *Past) bool {
	return past.Event == p.ev.Name && sameInput(past.Input, p.ev.Input)
}

func sameInput(a, b any) bool {
	if empty(a) || empty(b) {
		return empty(a) && empty(b)
	}
	return bytes.Equal(definitions.CanonicalJSON(a), definitions.CanonicalJSON(b))
}

// otherWait tells whether a task of an earlier wait is decided without a token.
func (p *planner) otherWait() bool { return p.ev.Wait != 0 && p.ev.Wait != p.inst.Wait }

func (p *planner) knows(event string) bool {
	return p.state != nil && p.state.Event(event) != nil
}

// closed refuses what came too late, in the order of the contract.
func (p *planner) closed() error {
	if p.ev.Token {
		if p.snap.Token == nil {
			return fault.New(fault.InvalidToken, "This link is not valid.")
		}
		if err := p.tokenClosed(p.snap.Token); err != nil {
			return err
		}
		return p.suspended()
	}
	if p.otherWait() {
		if p.snap.Own != nil {
			return p.alreadyDecided(p.snap.Own)
		}
		if err := p.left(); err != nil {
			return err
		}
		return p.noLonger()
	}
	if p.ev.IfRevision != 0 && p.ev.IfRevision != p.inst.Revision {
		return fault.New(fault.RevisionMismatch, "The instance is at revision %d, not %d: read it again.", p.inst.Revision, p.ev.IfRevision)
	}
	if p.inst.Status != Running && p.inst.Status != Suspended || !p.knows(p.ev.Name) {
		return p.notHere()
	}
	if err := p.expired(); err != nil {
		return err
	}
	return p.suspended()
}

func (p *planner) tokenClosed(token *Assignee) error {
	if token.Consumed > 0 || p.snap.Own != nil {
		return p.alreadyDecided(p.snap.Own)
	}
	if token.State == LinkRevoked || !stillNamed(p.snap.Directory, token) {
		return fault.New(fault.TokenRevoked, "This link was for %s and has stopped working.%s",
			nameOf(p.snap.Directory, idOf(token.Ref)), p.whomToAsk())
	}
	if token.Wait != p.inst.Wait || p.inst.Status == Finished || p.inst.Status == Cancelled {
		if err := p.left(); err != nil {
			return err
		}
		return p.noLonger()
	}
	if err := p.expired(); err != nil {
		return err
	}
	if token.State == LinkSuperseded {
		return fault.New(fault.TokenRevoked, "A reminder brought you a newer link: use the one in the newest mail.")
	}
	return nil
}

func (p *planner) suspended() error {
	if p.inst.Status == Suspended {
		return fault.New(fault.Suspended, "This is suspended for now: try again when it goes on.")
	}
	return nil
}

// alreadyDecided says who decided what, and when.
func (p *planner) alreadyDecided(past *Past) error {
	if past == nil {
		return fault.New(fault.AlreadyDecided, "This link has been used already.")
	}
	err := fault.New(fault.AlreadyDecided, "%s raised %q on %s. Your answer was not needed.",
		p.displayName(past.Actor), p.eventLabel(past), when(past.At, p.zone))
	if personOf(past.Actor) == personOf(p.ev.Actor) {
		err.Message = "You raised \"" + p.eventLabel(past) + "\" on " + when(past.At, p.zone) + ": this is recorded."
	}
	err.Winner = &fault.Winner{Event: past.Event, Actor: p.displayName(past.Actor), At: past.At}
	if past.Kind == TCancel {
		err.Message = p.displayName(past.Actor) + " cancelled this on " + when(past.At, p.zone) + "."
		err.Winner.Event = "cancel"
	}
	return err
}

// left refuses where the wait was left: by somebody (409) or by time (410).
func (p *planner) left() error {
	past := p.snap.Left
	switch {
	case past == nil:
		return nil
	case past.Actor.Kind == ActorTimer:
		return fault.New(fault.TokenExpired, "This ended on %s, before an answer came.%s", when(past.At, p.zone), p.whomToAsk())
	}
	return p.alreadyDecided(past)
}

func (p *planner) noLonger() error {
	return fault.New(fault.AlreadyDecided, "This is no longer waiting for an answer.")
}

// expired refuses people's events from the wait's fatal deadline on, swept or not.
func (p *planner) expired() error {
	if d := p.dueFatal(); d != nil {
		return fault.New(fault.TokenExpired, "The time to answer ended on %s.%s", when(d.DueAt, p.zone), p.whomToAsk())
	}
	return nil
}

func (p *planner) notHere() error {
	if p.state == nil {
		return broken("state %q is not in the definition", p.inst.State)
	}
	label := p.state.Label(p.ev.Locale)
	var names []string
	for _, e := range p.state.Events {
		if forHumans(e) {
			names = append(names, e.Name)
		}
	}
	switch {
	case p.inst.Status == Cancelled:
		return fault.New(fault.EventNotAllowedHere, "This was cancelled: nothing more can happen to it.")
	case len(names) == 0:
		return fault.New(fault.EventNotAllowedHere, "It is in %s (%s): no event can be raised there.", p.inst.State, label)
	}
	return fault.New(fault.EventNotAllowedHere, "It is in %s (%s), which does not know %q. Its events are: %s.",
		p.inst.State, label, p.ev.Name, strings.Join(names, ", "))
}

func (p *planner) displayName(a Actor) string {
	if a.Name != "" {
		return a.Name
	}
	return nameOf(p.snap.Directory, a.ID)
}

func (p *planner) eventLabel(past *Past) string {
	if state := p.def.State(past.From); state != nil {
		if e := state.Event(past.Event); e != nil {
			return e.Label(p.ev.Locale)
		}
	}
	return past.Event
}

func (p *planner) whomToAsk() string {
	if strings.HasPrefix(p.inst.Requester, "system:") || p.inst.Requester == "" {
		return ""
	}
	return " Ask " + nameOf(p.snap.Directory, p.inst.Requester) + "."
}

func when(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2 January 2006 at 15:04 MST")
}

// raise plans a person's or a system's event.
func (p *planner) raise() error {
	if seq := p.replayed(); seq > 0 {
		p.step.Replay = seq
		return errReplay
	}
	if err := p.closed(); err != nil {
		return err
	}
	if token := p.snap.Token; p.ev.Token && !slices.Contains(token.Events, p.ev.Name) {
		return fault.New(fault.EventNotAllowed, "This link does not allow %q.", p.ev.Name)
	}
	event := p.state.Event(p.ev.Name)
	if event == nil {
		return fault.New(fault.EventNotAllowed, "This link does not allow %q.", p.ev.Name)
	}
	if err := p.matches(event); err != nil {
		return err
	}
	return p.decide(event)
}

// decide runs the checks from permission on, and carries the event out.
func (p *planner) decide(event *definitions.Event) error {
	arms, err := p.permitted(event)
	if err != nil {
		return err
	}
	if err := p.unchanged(); err != nil {
		return err
	}
	if err := p.examine(event); err != nil {
		return err
	}
	arm, err := p.pick(event, arms)
	if err != nil {
		return err
	}
	if err := p.sure(event); err != nil {
		return err
	}
	if event.Quorum != nil && !arm.Stay {
		return p.vote(event, arm)
	}
	return p.act(event, arm, nil)
}

// permitted gives the arms that are for this caller; none is 403 with the rule that
// stands against it.
func (p *planner) permitted(event *definitions.Event) ([]*definitions.Arm, error) {
	c := caller{Actor: p.ev.Actor}
	if person := p.snap.Directory.Person(c.ID); c.Kind == ActorPerson && person != nil && !person.Active {
		return nil, fault.New(fault.NotPermitted, "%s is deactivated.", nameOf(p.snap.Directory, c.ID))
	}
	var arms []*definitions.Arm
	against, wanted := "", []string{}
	for _, arm := range event.Arms {
		by, _, err := p.anyFits(&c, arm.By, event.Name)
		if err != nil {
			return nil, err
		}
		if !by {
			for _, principal := range arm.By {
				if !slices.Contains(wanted, principal.Text) {
					wanted = append(wanted, principal.Text)
				}
			}
			continue
		}
		not, rule, err := p.anyFits(&c, arm.Not, event.Name)
		if err != nil {
			return nil, err
		}
		if not {
			against = rule
			continue
		}
		arms = append(arms, arm)
	}
	switch {
	case len(arms) > 0:
		return arms, nil
	case against != "":
		return nil, fault.New(fault.NotPermitted, "You may not raise %q here: it is not for %s.", event.Name, against)
	}
	return nil, fault.New(fault.NotPermitted, "You may not raise %q here: it is for %s.", event.Name, strings.Join(wanted, ", "))
}

// unchanged refuses where what was read is not what is shown now.
func (p *planner) unchanged() error {
	changed := func() error {
		return fault.New(fault.ContentChanged, "What you read has changed since: read it again and then decide.")
	}
	read := p.ev.Digest
	if p.ev.Token {
		if p.snap.Token.Kind == AssigneeCallback {
			return nil
		}
		if p.snap.Token.State == LinkReplaced {
			return changed()
		}
		if read == "" {
			read = p.snap.Token.Digest
		}
	}
	if read == "" {
		return nil
	}
	for i := range p.snap.Tasks {
		if t := &p.snap.Tasks[i]; t.Seq == p.inst.Wait && t.Digest == read {
			return nil
		}
	}
	return changed()
}

// pick takes the first arm whose guard holds.
func (p *planner) pick(event *definitions.Event, arms []*definitions.Arm) (*definitions.Arm, error) {
	for _, arm := range arms {
		if arm.When == nil {
			return arm, nil
		}
		holds, err := arm.When.Bool(p.present())
		if err != nil {
			return nil, err
		}
		if holds {
			return arm, nil
		}
	}
	rules := make([]string, 0, len(arms))
	for _, arm := range arms {
		rules = append(rules, arm.When.Text)
	}
	return nil, fault.New(fault.GuardRejected, "%q is not possible now: %s does not hold.", event.Name, strings.Join(rules, ", nor "))
}

var assuranceRank = map[Assurance]int{Impersonated: 0, ByLink: 1, ByCode: 2, BySession: 3, ByStepUp: 4, ByKey: 4, ByCallback: 4, ByEngine: 4}

// sure refuses where it is not sure enough who decides.
func (p *planner) sure(event *definitions.Event) error {
	if event.Assurance == "" || assuranceRank[p.ev.Assurance] >= assuranceRank[Assurance(event.Assurance)] {
		return nil
	}
	return fault.New(fault.AssuranceRequired, "This answer needs more than %s: log in with %s first.", p.ev.Assurance, event.Assurance)
}

// act carries an event out: set, then leave or stay.
func (p *planner) act(event *definitions.Event, arm *definitions.Arm, pending *Pending) error {
	m := &move{
		kind: TTransition, event: event.Name, set: arm.Set, unset: arm.Unset, edit: event.Edit,
		documents: event.Documents, effects: arm.Effects, to: arm.To, compensate: arm.Compensate, by: closeDone,
	}
	if p.ev.Actor.Kind == ActorTimer {
		m.by = closeExpired
	}
	t := Transition{Event: event.Name, Pending: pending, Digest: p.readDigest()}
	if p.ev.Token {
		t.Token = EffectID{Seq: p.snap.Token.Seq, N: p.snap.Token.N}
	}
	return p.carryOut(m, &t)
}

// carryOut applies a move's data, then leaves (also where a `choose` inside the wait
// now holds) or stays, compensates, and records.
func (p *planner) carryOut(m *move, t *Transition) error {
	if err := p.apply(m); err != nil {
		return err
	}
	if m.to == "" && (p.step.DataChanged || t.Pending != nil) {
		next, err := p.choose(p.state)
		if err != nil {
			return err
		}
		m.to = next
	}
	if err := p.rescheduled(m.to != ""); err != nil {
		return err
	}
	t.Kind = m.kind
	if m.to == "" {
		if err := p.stay(m, t); err != nil {
			return err
		}
	} else {
		p.useToken(true)
		if err := p.move(m, t); err != nil {
			return err
		}
	}
	if m.compensate {
		if err := p.compensate(); err != nil {
			return err
		}
	}
	return p.record(*t)
}

// readDigest is what the decider read.
func (p *planner) readDigest() string {
	if p.ev.Digest == "" && p.ev.Token && p.snap.Token != nil {
		return p.snap.Token.Digest
	}
	return p.ev.Digest
}

// useToken uses the presented link up; a callback token only where the wait is left.
func (p *planner) useToken(leaving bool) {
	if p.ev.Token && (leaving || p.snap.Token.Kind != AssigneeCallback) {
		p.change(AssigneeChange{Seq: p.snap.Token.Seq, N: p.snap.Token.N, Consumed: p.seq})
	}
}
