package fsm

import (
	"slices"
	"strings"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// maxChoices is how many choices in a row one step may pass through.
const maxChoices = 20

// move leaves the present wait (where there is one) and enters m.to with all that
// goes with it; effects of the transition come first, then those of the entry.
func (p *planner) move(m *move, t *Transition) error {
	from := p.inst.State
	if from != "" {
		t.From, t.Wait = from, p.inst.Wait
		cancelled, err := p.leave(m.by)
		if err != nil {
			return err
		}
		t.DeadlinesCancelled = cancelled
	}
	if err := p.enter(m.to); err != nil {
		return err
	}
	t.To, t.Via = p.inst.State, p.path[:len(p.path)-1]
	if len(t.Via) == 0 {
		t.Via = nil
	}
	event := m.event
	if from == "" {
		from, event = "•", "start"
	}
	end, err := walk(from, event, p.path)
	if err != nil || end != p.inst.State {
		return broken("machine ended in %q instead of %q: %v", end, p.inst.State, err)
	}
	if err := p.queue(m.effects); err != nil {
		return err
	}
	if err := p.queue(p.state.Enter); err != nil {
		return err
	}
	return p.mailNewTasks("task")
}

// leave closes the present wait: tasks, deadlines, unsent mails, children. It returns
// the deadlines cancelled, for the history.
func (p *planner) leave(by closing) ([]string, error) {
	for i := range p.snap.Tasks {
		t := &p.snap.Tasks[i]
		if t.Seq == p.inst.Wait && t.Status == "open" {
			c := p.taskChange(t)
			c.Status, c.ClosedAt = string(by), &p.now
		}
	}
	cancelled := p.dropDeadlines(func(d *DeadlineRow) bool { return d.Wait == p.inst.Wait })
	p.step.DropWait = p.inst.Wait
	p.calm(func(a Attention) bool {
		return a.Reason == "no-owner" || a.Reason == "quorum-unreachable" || a.Reason == "deadline-failed"
	})
	p.rows = nil
	p.shown = nil
	return cancelled, p.stopChildren(by)
}

// enter goes to a state, through choices, to a wait or an end.
func (p *planner) enter(name string) error {
	p.path = p.path[:0]
	for {
		state := p.def.State(name)
		if state == nil {
			return broken("definition %s has no state %q", p.def.Name, name)
		}
		if len(p.path) > maxChoices {
			return fault.New(fault.LimitExceeded, "More than %d choices in a row: %s.", maxChoices, strings.Join(p.path, ", "))
		}
		p.path = append(p.path, name)
		next, err := p.arrive(state)
		if err != nil || next == "" {
			return err
		}
		name = next
	}
}

// arrive enters one state; next is where a choice leads on, "" at a wait or an end.
func (p *planner) arrive(state *definitions.State) (next string, err error) {
	switch state.Kind {
	case definitions.Choice:
		p.inst.State = state.Name
		next, err := p.choose(state)
		if err == nil && next == "" {
			err = fault.New(fault.GuardRejected, "No arm of the choice %s holds.", state.Name)
		}
		return next, err
	case definitions.Final:
		p.occupy(state)
		return "", p.finish()
	}
	p.occupy(state)
	owners, lines, err := p.resolveOwners()
	if err != nil {
		return "", err
	}
	if len(state.Choose) > 0 {
		votes := p.present().Votes
		p.env.Votes = nil
		next, err := p.choose(state)
		p.env.Votes = votes
		if err != nil || next != "" {
			p.rows, p.shown = nil, nil
			p.step.Assignees, p.assigneeN = nil, 0
			p.calm(func(a Attention) bool { return a.Reason == "no-owner" })
			return next, err
		}
	}
	return "", p.open(owners, lines)
}

func (p *planner) occupy(state *definitions.State) {
	p.state = state
	p.inst.State, p.inst.Wait, p.inst.EnteredAt = state.Name, p.seq, p.now
	p.shown = nil
}

// choose gives the target of the first arm that holds, "" where none does.
func (p *planner) choose(state *definitions.State) (string, error) {
	for _, arm := range state.Choose {
		if arm.When == nil {
			return arm.To, nil
		}
		holds, err := arm.When.Bool(p.present())
		if err != nil {
			return "", err
		}
		if holds {
			return arm.To, nil
		}
	}
	return "", nil
}

// finish ends the instance.
func (p *planner) finish() error {
	p.inst.Status, p.inst.FinishedAt = Finished, &p.now
	p.step.ReleaseKey = p.inst.Key != ""
	if p.state.Failed {
		p.attention("failed-end", p.state.Name, "It ended in "+p.state.Name+".")
	}
	p.dropDeadlines(func(*DeadlineRow) bool { return true })
	return nil
}

// resolveOwners makes the assignee rows of the wait just entered. lines are the
// owning principals as resolved.
func (p *planner) resolveOwners() (escalated bool, lines []string, err error) {
	lines, err = p.assign(p.state.Owner, "")
	if err != nil {
		return false, nil, err
	}
	if len(p.rows) > 0 {
		return false, lines, nil
	}
	p.attention("no-owner", p.state.Name, "Nobody owns the wait "+p.state.Name+".")
	for _, d := range p.state.Deadlines {
		if d.Action == definitions.ActionEscalate {
			more, err := p.assign(d.Principals, escalationPrefix)
			if err != nil {
				return false, nil, err
			}
			lines = append(lines, more...)
			break
		}
	}
	if len(p.rows) > 0 {
		return true, lines, nil
	}
	for _, n := range active(p.snap.Directory.Role("operator")) {
		if err := p.addRow(n, "role:operator"); err != nil {
			return false, nil, err
		}
	}
	return false, append(lines, "role:operator"), nil
}

// assign adds those whom the principals stand for to the wait's rows, with the
// lines that named them; it returns the lines.
func (p *planner) assign(principals []definitions.Principal, prefix string) ([]string, error) {
	var lines []string
	for _, principal := range principals {
		list, err := refs(principal, p.principalEnv(principal))
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			line := prefix + ref.String()
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
			people := p.expand(ref)
			linked := p.linked() + len(people)
			for _, n := range people {
				if err := p.addRow(n, line); err != nil {
					return nil, err
				}
			}
			if linked > linkBudget {
				p.unlink(line)
			}
		}
	}
	return lines, nil
}

// linked counts the live links of the wait.
func (p *planner) linked() int {
	n := 0
	for i := range p.rows {
		if p.rows[i].State == LinkLive && p.rows[i].Kind != AssigneeCallback {
			n++
		}
	}
	return n
}

// unlink takes the tokens of this step's new rows that only line named: too many
// for single links.
func (p *planner) unlink(line string) {
	for i := range p.step.Assignees {
		a := &p.step.Assignees[i]
		if len(a.Lines) == 1 && a.Lines[0] == line && a.Kind == AssigneePerson {
			a.State, a.Nonce = LinkNone, nil
			p.syncRow(a)
		}
	}
}

func (p *planner) syncRow(a *Assignee) {
	for i := range p.rows {
		if p.rows[i].Seq == a.Seq && p.rows[i].N == a.N {
			p.rows[i] = *a
		}
	}
}

// addRow makes an assignee of the wait, or adds the line to the one who is there.
// Somebody whom four eyes exclude from all that they could raise gets no row.
func (p *planner) addRow(n named, line string) error {
	for i := range p.rows {
		if p.rows[i].Ref == n.ref && p.rows[i].Kind != AssigneeCallback {
			return p.addLine(&p.rows[i], line)
		}
	}
	events, excluded, err := p.offeredTo(n)
	if err != nil || excluded {
		return err
	}
	p.newRow(Assignee{Kind: n.kind, Ref: n.ref, Lines: []string{line}, Events: events})
	return nil
}

func (p *planner) addLine(r *Assignee, line string) error {
	if slices.Contains(r.Lines, line) || r.Seq != p.seq {
		return nil
	}
	r.Lines = append(r.Lines, line)
	for i := range p.step.Assignees {
		if a := &p.step.Assignees[i]; a.N == r.N {
			a.Lines = r.Lines
		}
	}
	return nil
}

// newRow numbers and keeps a new assignee row; with events it gets a link.
func (p *planner) newRow(a Assignee) *Assignee {
	p.assigneeN++
	a.Seq, a.N, a.Wait = p.seq, p.assigneeN, p.inst.Wait
	if len(a.Events) > 0 && !a.Stood {
		a.State, a.Nonce = LinkLive, p.secret()
	}
	p.rows = append(p.rows, a)
	p.step.Assignees = append(p.step.Assignees, a)
	return &p.step.Assignees[len(p.step.Assignees)-1]
}

// offeredTo gives the events that a link of somebody allows: what they could raise
// here by `by` and `not`. excluded: there would be some, but for `not`.
func (p *planner) offeredTo(n named) (events []string, excluded bool, err error) {
	c := caller{Actor: Actor{Kind: ActorPerson, ID: n.id}, assumeOwner: true}
	if n.kind == AssigneeSystem {
		c.Kind = ActorSystem
	}
	task := p.task()
	for _, e := range p.state.Events {
		if task.Events != nil && !slices.Contains(task.Events, e.Name) {
			continue
		}
		for _, arm := range e.Arms {
			by, _, err := p.anyFits(&c, arm.By, e.Name)
			if err != nil {
				return nil, false, err
			}
			if !by {
				continue
			}
			not, _, err := p.anyFits(&c, arm.Not, e.Name)
			if err != nil {
				return nil, false, err
			}
			if not {
				excluded = true
				continue
			}
			events = append(events, e.Name)
			break
		}
	}
	return events, excluded && len(events) == 0, nil
}

// open sets up the wait just entered: task, links, deadlines.
func (p *planner) open(escalated bool, lines []string) error {
	asked := false
	for i := range p.rows {
		asked = asked || len(p.rows[i].Events) > 0
	}
	if err := p.waitDeadlines(escalated); err != nil {
		return err
	}
	p.wakeDeferred()
	if !asked {
		return nil
	}
	s, err := p.render()
	if err != nil {
		return err
	}
	for i := range p.step.Assignees {
		a := &p.step.Assignees[i]
		a.Digest = s.digest
		p.syncRow(a)
		if a.State == LinkLive && (idOf(a.Ref) == personOf(p.ev.Actor) || a.Ref == p.ev.Actor.ID) {
			p.step.Successor = EffectID{Seq: a.Seq, N: a.N}
		}
	}
	p.taskN++
	p.step.TasksOpened = append(p.step.TasksOpened, Task{
		Seq: p.seq, N: p.taskN, State: p.state.Name, Title: s.title,
		Instructions: s.instructions, Priority: s.priority, Status: "open", Facts: s.facts, Digest: s.digest,
		Owners: lines, DueAt: p.fatalAt(), CreatedAt: p.now,
	})
	return nil
}
