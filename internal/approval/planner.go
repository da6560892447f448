package approval

import (
	"context"
	"crypto/rand"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// planner gives a batch what it needs from above the store: compiled definitions,
// the directory, the plan itself and the seals of new links.
type planner struct {
	s *Service

	mu     sync.RWMutex
	defs   map[defKey]*definitions.Definition
	newest map[string]newestEntry
	dir    *fsm.Directory // of a locked read

	edgeDir  *fsm.Directory // of questions outside a lock, see directoryFor
	edgeRead time.Time
}

type defKey struct {
	name    string
	version int
}

type newestEntry struct {
	version int
	read    time.Time
}

// newestFor is how long a replica may start instances on the version it last saw as the newest.
const newestFor = 200 * time.Millisecond

// Definition returns a published version, compiled once; version 0 is the newest.
func (p *planner) Definition(ctx context.Context, name string, version int) (*definitions.Definition, error) {
	if version == 0 {
		return p.newestDefinition(ctx, name)
	}
	p.mu.RLock()
	d := p.defs[defKey{name, version}]
	p.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	row, err := p.s.store.Definition(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return p.compile(row)
}

func (p *planner) newestDefinition(ctx context.Context, name string) (*definitions.Definition, error) {
	p.mu.RLock()
	e, ok := p.newest[name]
	d := p.defs[defKey{name, e.version}]
	p.mu.RUnlock()
	if ok && d != nil && p.s.elapsed(e.read) < newestFor {
		return d, nil
	}
	row, err := p.s.store.Definition(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	d, err = p.compile(row)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.newest[name] = newestEntry{row.Version, p.s.mono()}
	p.mu.Unlock()
	return d, nil
}

func (p *planner) compile(row store.DefinitionRow) (*definitions.Definition, error) {
	k := defKey{row.Name, row.Version}
	p.mu.RLock()
	d := p.defs[k]
	p.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	d, problems := definitions.Parse(row.Name, row.Source)
	if d == nil {
		return nil, fault.Wrap(&DefinitionError{problems}, fault.Internal, "The published definition %s version %d cannot be read by this version of Vobo.", row.Name, row.Version)
	}
	p.mu.Lock()
	p.defs[k] = d
	p.mu.Unlock()
	return d, nil
}

// forget makes the next start look for the newest version again.
func (p *planner) forget(name string) {
	p.mu.Lock()
	delete(p.newest, name)
	p.mu.Unlock()
}

// drop forgets a deleted version.
func (p *planner) drop(name string, version int) {
	p.mu.Lock()
	delete(p.newest, name)
	delete(p.defs, defKey{name, version})
	p.mu.Unlock()
}

// Directory returns people and groups of at least that version.
func (p *planner) Directory(ctx context.Context, version int64) (*fsm.Directory, error) {
	p.mu.RLock()
	d := p.dir
	p.mu.RUnlock()
	if d != nil && d.Version >= version {
		return d, nil
	}
	d, err := p.s.store.People(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.dir = d
	p.mu.Unlock()
	return d, nil
}

// Plan decides one event of a batch under its instance's lock.
func (p *planner) Plan(_ context.Context, job *store.Job) {
	snap, ev := job.Snapshot, job.Event
	snap.Vars, snap.Zone = p.s.cfg.Vars, p.s.cfg.Zone
	if ev.Token && snap.Token != nil {
		actAsHolder(snap, ev)
	}
	step := fsm.Plan(snap, ev, job.Now)
	if step.Instance.Key != "" && ev.Kind == fsm.KindStart && !claimsKey(job, step.Instance.Key) {
		step = fsm.Step{Refusal: fault.New(fault.Internal, "The business key was not claimed before the start.")}
	}
	if step.Refusal == nil && step.Replay == 0 {
		if err := p.seal(step.Assignees); err != nil {
			step = fsm.Step{Refusal: fault.As(err)}
		} else {
			keepAnswer(p.s, job, &step)
		}
	}
	job.Step = step
}

func claimsKey(job *store.Job, key string) bool {
	return slices.ContainsFunc(job.Claims, func(c store.Claim) bool {
		return c.Kind == store.ClaimBusinessKey && c.Key == key
	})
}

// seal derives what is stored of each new link: never the secret, only its hash.
func (p *planner) seal(rows []fsm.Assignee) error {
	ring := p.s.cfg.Ring.Ring()
	for i := range rows {
		if rows[i].Nonce == nil {
			continue
		}
		kid, hash, err := ring.Seal(rows[i].Nonce)
		if err != nil {
			return err
		}
		rows[i].Kid, rows[i].JTIHash = kid, hash[:]
	}
	return nil
}

// actAsHolder makes the holder of the presented token the actor.
func actAsHolder(snap *fsm.Snapshot, ev *fsm.Event) {
	row := snap.Token
	ev.Assurance = fsm.ByLink
	if row.Kind == fsm.AssigneeCallback {
		ev.Assurance = fsm.ByCallback
	}
	ev.Actor = actorOf(row.Ref, snap.Directory)
}

// actorOf is the actor that a resolved principal stands for.
func actorOf(ref string, dir *fsm.Directory) fsm.Actor {
	r, err := definitions.ParseRef(ref)
	if err != nil {
		return fsm.Actor{Kind: fsm.ActorSystem, ID: ref}
	}
	switch r.Kind {
	case definitions.KindUser:
		return personActor(r.Name, dir)
	case definitions.KindEmail:
		return fsm.Actor{Kind: fsm.ActorPerson, ID: ref, Name: r.Name}
	default:
		return fsm.Actor{Kind: fsm.ActorSystem, ID: ref}
	}
}

func personActor(id string, dir *fsm.Directory) fsm.Actor {
	a := fsm.Actor{Kind: fsm.ActorPerson, ID: id}
	if p := dir.Person(id); p != nil {
		a.Name, a.Groups, a.Roles = p.Name, p.Groups, p.Roles
	}
	return a
}

// newEvent makes an event with its id and seed, both from outside Plan.
func (s *Service) newEvent(kind fsm.EventKind, instance string) (*fsm.Event, error) {
	ev := &fsm.Event{Kind: kind, Instance: instance}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	ev.ID = id.String()
	random := s.cfg.Rand
	if random == nil {
		random = rand.Reader
	}
	_, err = io.ReadFull(random, ev.Seed[:])
	return ev, err
}
