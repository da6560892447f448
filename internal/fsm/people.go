package fsm

import (
	"slices"
	"strings"

	"vobo/internal/definitions"
)

// escalationPrefix marks an owner line that came by escalation.
const escalationPrefix = "escalation "

// linkBudget is how many single links a wait gives out; larger groups are told
// without a token.
const linkBudget = 50

// named is one person or system that a principal stands for.
type named struct {
	ref    string // "user:ana@example.com", "system:bench", "email:x@y.z"
	kind   AssigneeKind
	id     string // as in Actor.ID
	person *Person
}

// personOf is the identity whose acts count: of a delegate, whom they stand for.
func personOf(a Actor) string {
	if a.For != "" {
		return a.For
	}
	return a.ID
}

// refOf gives the assignee ref of an actor.id.
func refOf(id string) string {
	if strings.HasPrefix(id, "system:") || strings.HasPrefix(id, "email:") {
		return id
	}
	return "user:" + id
}

func idOf(ref string) string { return strings.TrimPrefix(ref, "user:") }

// refs resolves a principal; one without templates is not evaluated.
func refs(principal definitions.Principal, env *definitions.Env) ([]definitions.Ref, error) {
	switch {
	case principal.Kind == definitions.KindDynamic:
		return principal.Resolve(env)
	case principal.Name == nil:
		return []definitions.Ref{{Kind: principal.Kind}}, nil
	case principal.Name.Static():
		return []definitions.Ref{{Kind: principal.Kind, Name: principal.Name.Text}}, nil
	}
	return principal.Resolve(env)
}

// expand gives the active people and systems that a resolved principal stands for.
func (p *planner) expand(ref definitions.Ref) []named {
	switch ref.Kind {
	case definitions.KindRequester:
		return p.single(p.inst.Requester)
	case definitions.KindUser:
		return p.single(ref.Name)
	case definitions.KindSystem:
		return p.single("system:" + ref.Name)
	case definitions.KindEmail:
		if ref.Name == "" {
			return nil
		}
		return p.single("email:" + ref.Name)
	case definitions.KindGroup:
		return active(p.snap.Directory.Group(ref.Name))
	case definitions.KindRole:
		return active(p.snap.Directory.Role(ref.Name))
	case definitions.KindOwner:
		var all []named
		for _, r := range p.rows {
			if r.Kind != AssigneeCallback && r.State != LinkRevoked {
				all = append(all, p.single(idOf(r.Ref))...)
			}
		}
		return distinct(all)
	}
	return nil
}

func (p *planner) single(id string) []named {
	switch {
	case id == "":
		return nil
	case strings.HasPrefix(id, "system:"):
		return []named{{ref: id, kind: AssigneeSystem, id: id}}
	case strings.HasPrefix(id, "email:"):
		address := strings.TrimPrefix(id, "email:")
		return []named{{ref: id, kind: AssigneeOutside, id: id, person: &Person{ID: id, Email: address, Active: true}}}
	}
	person := p.snap.Directory.Person(id)
	if person == nil {
		if !strings.Contains(id, "@") {
			return nil
		}
		person = &Person{ID: id, Email: id, Active: true}
	}
	if !person.Active {
		return nil
	}
	return []named{{ref: "user:" + id, kind: AssigneePerson, id: id, person: person}}
}

func active(people []*Person) []named {
	all := make([]named, 0, len(people))
	for _, person := range people {
		if person.Active {
			all = append(all, named{ref: "user:" + person.ID, kind: AssigneePerson, id: person.ID, person: person})
		}
	}
	return all
}

func distinct(all []named) []named {
	seen := make(map[string]bool, len(all))
	kept := all[:0]
	for _, n := range all {
		if !seen[n.ref] {
			seen[n.ref] = true
			kept = append(kept, n)
		}
	}
	return kept
}

// expandAll resolves principals to distinct people and systems, in order.
func (p *planner) expandAll(principals []definitions.Principal, env *definitions.Env) ([]named, error) {
	var all []named
	for _, principal := range principals {
		list, err := refs(principal, env)
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			all = append(all, p.expand(ref)...)
		}
	}
	return distinct(all), nil
}

// caller is an actor as principals see it.
type caller struct {
	Actor
	assumeOwner bool // what-if: as though they were an assignee
}

func (p *planner) inGroup(c *caller, group string) bool {
	return slices.Contains(c.Groups, group) || member(p.snap.Directory, c.ID, group) ||
		(c.For != "" && member(p.snap.Directory, c.For, group))
}

func member(d *Directory, id, group string) bool {
	person := d.Person(id)
	return person != nil && person.Active && slices.Contains(person.Groups, group)
}

func (p *planner) hasRole(c *caller, role string) bool {
	if slices.Contains(c.Roles, role) {
		return true
	}
	person := p.snap.Directory.Person(c.ID)
	return person != nil && person.Active && slices.Contains(person.Roles, role)
}

// is tells whether one of the caller's identities is id.
func (c *caller) is(id string) bool { return id != "" && (c.ID == id || c.For == id) }

// fits tells whether a resolved principal means the caller.
func (p *planner) fits(c *caller, ref definitions.Ref, event string) bool {
	human := c.Kind == ActorPerson || c.Kind == ActorSystem
	switch ref.Kind {
	case definitions.KindTimer:
		return c.Kind == ActorTimer
	case definitions.KindEffect:
		return c.Kind == ActorEffect
	case definitions.KindRequester:
		return human && (c.is(p.inst.Requester) || c.is(p.inst.StartedBy))
	case definitions.KindOwner:
		return human && (c.assumeOwner || p.owns(c))
	case definitions.KindUser:
		return c.Kind == ActorPerson && c.is(ref.Name)
	case definitions.KindEmail:
		return c.Kind == ActorPerson && (c.is("email:"+ref.Name) || c.is(ref.Name))
	case definitions.KindGroup:
		return human && p.inGroup(c, ref.Name)
	case definitions.KindRole:
		return human && p.hasRole(c, ref.Name)
	case definitions.KindSystem:
		return c.Kind == ActorSystem && c.ID == "system:"+ref.Name
	case definitions.KindDid:
		return human && p.did(c, ref.Name, event)
	}
	return false
}

// did tells whether the caller raised or voted EVENT or STATE.EVENT in this
// instance; votes on the same event in the present wait are not seen.
func (p *planner) did(c *caller, name, event string) bool {
	state, want, qualified := strings.Cut(name, ".")
	if !qualified {
		state, want = "", name
	}
	for i := range p.snap.Past {
		past := &p.snap.Past[i]
		if past.Event != want || (state != "" && past.From != state) {
			continue
		}
		if past.Kind == TVote && past.Wait == p.inst.Wait && past.Event == event {
			continue
		}
		if c.is(past.Actor.ID) || c.is(past.Actor.For) {
			return true
		}
	}
	return false
}

// anyFits tells whether one of the principals means the caller, and which.
func (p *planner) anyFits(c *caller, principals []definitions.Principal, event string) (bool, string, error) {
	for _, principal := range principals {
		list, err := refs(principal, p.principalEnv(principal))
		if err != nil {
			return false, "", err
		}
		for _, ref := range list {
			if p.fits(c, ref, event) {
				return true, principal.Text, nil
			}
		}
	}
	return false, "", nil
}

func (p *planner) principalEnv(principal definitions.Principal) *definitions.Env {
	if principal.Kind != definitions.KindDynamic && (principal.Name == nil || principal.Name.Static()) {
		return nil
	}
	return p.present()
}

// owns tells whether the caller is an assignee of the wait, or a present member of
// an owning group or role; a named member who has left no longer is.
func (p *planner) owns(c *caller) bool {
	for i := range p.rows {
		r := &p.rows[i]
		if r.Kind != AssigneeCallback && r.State != LinkRevoked && !r.Stood && c.is(idOf(r.Ref)) && p.stillNamed(r) {
			return true
		}
	}
	for _, line := range p.ownerLines() {
		kind, name, _ := strings.Cut(strings.TrimPrefix(line, escalationPrefix), ":")
		switch definitions.PrincipalKind(kind) {
		case definitions.KindGroup:
			if p.inGroup(c, name) {
				return true
			}
		case definitions.KindRole:
			if p.hasRole(c, name) {
				return true
			}
		}
	}
	return false
}

// ownerLines gives the owning principals of the present wait as resolved.
func (p *planner) ownerLines() []string {
	for i := range p.snap.Tasks {
		if t := &p.snap.Tasks[i]; t.Seq == p.inst.Wait {
			return t.Owners
		}
	}
	var lines []string
	for i := range p.rows {
		if p.rows[i].Kind == AssigneeCallback {
			continue
		}
		for _, l := range p.rows[i].Lines {
			if !slices.Contains(lines, l) {
				lines = append(lines, l)
			}
		}
	}
	if p.state == nil {
		return lines
	}
	for _, principal := range p.state.Owner {
		if principal.Name != nil && principal.Name.Static() && !slices.Contains(lines, principal.Text) {
			lines = append(lines, principal.Text)
		}
	}
	return lines
}

// stillNamed tells whether one of the lines that named the row's person still does:
// leavers of a group lose it at once, and so does everybody who is deactivated.
func (p *planner) stillNamed(r *Assignee) bool { return stillNamed(p.snap.Directory, r) }

func stillNamed(d *Directory, r *Assignee) bool {
	if r.Kind != AssigneePerson {
		return true
	}
	person := d.Person(idOf(r.Ref))
	if person == nil {
		return !strings.Contains(strings.Join(r.Lines, " "), "group:") && !strings.Contains(strings.Join(r.Lines, " "), "role:")
	}
	if !person.Active {
		return false
	}
	if len(r.Lines) == 0 {
		return true
	}
	for _, line := range r.Lines {
		kind, name, _ := strings.Cut(strings.TrimPrefix(line, escalationPrefix), ":")
		switch definitions.PrincipalKind(kind) {
		case definitions.KindGroup:
			if slices.Contains(person.Groups, name) {
				return true
			}
		case definitions.KindRole:
			if slices.Contains(person.Roles, name) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// address gives a person's mail address and whether there is one.
func address(person *Person) (string, bool) {
	switch {
	case person == nil:
		return "", false
	case person.Email != "":
		return person.Email, true
	case strings.Contains(person.ID, "@"):
		return person.ID, true
	}
	return "", false
}

// nameOf gives the name people know somebody by.
func nameOf(d *Directory, id string) string {
	if person := d.Person(id); person != nil && person.Name != "" {
		return person.Name
	}
	return strings.TrimPrefix(id, "email:")
}
