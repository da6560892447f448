package approval

import (
	"context"
	"errors"
	"slices"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// overseers read every instance.
var overseers = []string{"operator", "admin", "auditor", "viewer"}

// oversees tells whether a caller reads every instance: by the person's own roles also
// where a key acts on their behalf.
func oversees(c Caller) bool {
	return slices.ContainsFunc(c.Roles, func(role string) bool { return slices.Contains(overseers, role) })
}

func operatorOnly(c Caller, what string) error {
	if c.HasRole("operator", "admin") {
		return nil
	}
	return fault.New(fault.Forbidden, "Only operators may %s.", what)
}

func adminOnly(c Caller, what string) error {
	if c.HasRole("admin", "operator") {
		return nil
	}
	return fault.New(fault.Forbidden, "Only operators and admins may %s.", what)
}

// mayStart checks the definition's `requesters` for the one in whose name it starts.
func (s *Service) mayStart(ctx context.Context, c Caller, d *definitions.Definition, requester string) error {
	groups, roles := c.Groups, c.Roles
	if requester != c.ID { // the route is allowed by the key, `requesters` by the person
		dir, err := s.directory(ctx)
		if err != nil {
			return err
		}
		p := dir.Person(requester)
		if p == nil || !p.Active {
			return fault.New(fault.InvalidInput, "The requester is not somebody we know.").With(
				fault.Field{Pointer: "/requester", Detail: "Name an active person of the directory."})
		}
		groups, roles = p.Groups, p.Roles
	}
	env := &definitions.Env{Vars: s.cfg.Vars}
	for _, p := range d.Requesters {
		refs, err := p.Resolve(env)
		if err != nil {
			return err
		}
		for _, r := range refs {
			if refIs(r, requester, groups, roles) {
				return nil
			}
		}
	}
	return fault.New(fault.Forbidden, "%s may be started by %s only.", d.Name, principalTexts(d.Requesters))
}

// refIs tells whether a resolved principal names this actor.
func refIs(r definitions.Ref, id string, groups, roles []string) bool {
	switch r.Kind {
	case definitions.KindUser:
		return r.Name == id
	case definitions.KindSystem:
		return "system:"+r.Name == id
	case definitions.KindGroup:
		return slices.Contains(groups, r.Name)
	case definitions.KindRole:
		return slices.Contains(roles, r.Name)
	}
	return false
}

// callerRef is the caller as assignees name them.
func callerRef(id string, kind fsm.ActorKind) string {
	if kind == fsm.ActorPerson {
		return "user:" + id
	}
	return id
}

// ownerRefs are the owner lines that take a caller in by group or role.
func ownerRefs(c Caller) []string {
	refs := make([]string, 0, len(c.Groups)+len(c.Roles))
	for _, g := range c.Groups {
		refs = append(refs, "group:"+g)
	}
	for _, r := range c.Roles {
		refs = append(refs, "role:"+r)
	}
	return refs
}

// readable returns an instance that the caller may read; anything else is not-found,
// so that ids tell nothing.
func (s *Service) readable(ctx context.Context, c Caller, id string) (*fsm.Snapshot, error) {
	snap, err := s.store.Snapshot(ctx, id, s.planner)
	if err != nil {
		return nil, err
	}
	snap.Vars, snap.Zone = s.cfg.Vars, s.cfg.Zone
	if ok, err := s.mayRead(ctx, c, snap); err != nil {
		return nil, err
	} else if !ok {
		return nil, fault.New(fault.NotFound, "There is no such instance, or it is not yours to read.")
	}
	return snap, nil
}

// UnreadableOr gives the fault of a request that is ill-formed (err), or not-found where the
// caller may not read the instance it is about, which comes first.
func (s *Service) UnreadableOr(ctx context.Context, c Caller, id string, err error) error {
	if _, unreadable := s.readable(ctx, c, id); unreadable != nil {
		return unreadable
	}
	return err
}

// mayRead tells whether a caller may read an instance: overseers, the requester, past and
// present owners, who acted in it, and who may raise an event of the present wait.
func (s *Service) mayRead(ctx context.Context, c Caller, snap *fsm.Snapshot) (bool, error) {
	in := &snap.Instance
	if oversees(c) || in.Requester == c.ID || in.StartedBy == c.ID {
		return true, nil
	}
	mine := callerRef(c.ID, c.Kind)
	if slices.ContainsFunc(snap.Assignees, func(a fsm.Assignee) bool { return a.Ref == mine }) ||
		slices.ContainsFunc(snap.Past, func(p fsm.Past) bool { return p.Actor.ID == c.ID }) {
		return true, nil
	}
	for _, t := range snap.Tasks {
		for _, o := range ownerRefs(c) {
			if slices.Contains(t.Owners, o) {
				return true, nil
			}
		}
	}
	page, err := s.store.Instances(ctx, store.InstanceFilter{ID: in.ID, ReadableBy: readerOf(c)}, store.Paging{Limit: 1})
	if err != nil || len(page.Items) > 0 {
		return err == nil, err
	}
	now, err := s.store.Now(ctx)
	return err == nil && len(s.offered(snap, actorFor(c), "", now)) > 0, err
}

// readerOf narrows lists to what a caller may read; nil for overseers.
func readerOf(c Caller) *store.Reader {
	if oversees(c) {
		return nil
	}
	return &store.Reader{ID: c.ID, Refs: append(ownerRefs(c), callerRef(c.ID, c.Kind))}
}

// hideInstance keeps the id of an instance from a caller who may not read it.
func (s *Service) hideInstance(ctx context.Context, c Caller, err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Instance == "" {
		return err
	}
	if _, rerr := s.readable(ctx, c, e.Instance); rerr == nil {
		return err
	}
	return fault.New(e.Code, "There is a live instance with this key already.")
}

// directoryFor is how long an edge may look at people as they were. Decisions check
// the directory's version under the lock; a deactivation ends sessions by itself.
const directoryFor = time.Second

// directory is the directory for questions outside a lock.
func (s *Service) directory(ctx context.Context) (*fsm.Directory, error) {
	p := s.planner
	p.mu.RLock()
	d, read := p.edgeDir, p.edgeRead
	p.mu.RUnlock()
	if d != nil && s.elapsed(read) < directoryFor {
		return d, nil
	}
	d, err := s.store.People(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.edgeDir, p.edgeRead = d, s.mono()
	p.mu.Unlock()
	return d, nil
}

func principalTexts(ps []definitions.Principal) string {
	text := ""
	for i, p := range ps {
		switch {
		case i > 0 && i == len(ps)-1:
			text += " or "
		case i > 0:
			text += ", "
		}
		text += p.Text
	}
	return text
}
