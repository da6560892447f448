package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// simple plans a process of one wait: a start opens a task for one system with a link
// and a deadline; "approve" ends it and queues a webhook; anything else is refused.
type simple struct {
	s          *Store
	definition definitions.Definition
	plan       func(job *Job) // nil: simpleStep

	mu      sync.Mutex
	planned int
}

func newSimple(s *Store) *simple {
	return &simple{s: s, definition: definitions.Definition{Name: "simple", Version: 1, Hash: "v1:simple"}}
}

func (p *simple) Definition(context.Context, string, int) (*definitions.Definition, error) {
	return &p.definition, nil
}

func (p *simple) Directory(ctx context.Context, version int64) (*fsm.Directory, error) {
	return fsm.NewDirectory(version, nil), nil
}

func (p *simple) Plan(_ context.Context, job *Job) {
	p.mu.Lock()
	p.planned++
	p.mu.Unlock()
	if p.plan != nil {
		p.plan(job)
		return
	}
	simpleStep(job)
}

func simpleStep(job *Job) {
	switch {
	case job.Event.Kind == fsm.KindStart:
		job.Step = startStep(job)
	case job.Snapshot.Instance.State != "review":
		job.Step = fsm.Step{Refusal: fault.New(fault.AlreadyDecided, "It was decided.")}
	case job.Event.Name == "approve":
		job.Step = approveStep(job)
	case job.Event.Name == "comment":
		job.Step = stayStep(job)
	default:
		job.Step = fsm.Step{Refusal: fault.New(fault.EventNotAllowedHere, "Not here.")}
	}
	for i := range job.Claims {
		if job.Claims[i].Kind == ClaimIdempotency {
			job.Claims[i].Answer = []byte("answer of " + job.Event.ID)
		}
	}
}

func startStep(job *Job) fsm.Step {
	ev, now := job.Event, job.Now
	due := now.Add(time.Hour)
	return fsm.Step{
		Instance: fsm.Instance{
			ID: ev.Instance, Definition: "simple", Version: 1, Hash: "v1:simple", State: "review", Wait: 1,
			Revision: 1, Status: fsm.Running, Requester: "system:bench", StartedBy: "", Labels: ev.Start.Labels,
			StartedAt: now, EnteredAt: now, LastEventAt: now, HeadHash: "v1:1", Data: ev.Start.Data,
		},
		DataChanged: true,
		Transition: fsm.Transition{
			Seq: 1, EventID: ev.ID, Kind: fsm.TStart, Event: "start", To: "review", At: now, DefinitionVersion: 1,
			Actor: fsm.Actor{Kind: fsm.ActorSystem, ID: "system:bench"}, Salt: []byte("0123456789abcdef"), Hash: "v1:1",
		},
		TasksOpened: []fsm.Task{{
			Seq: 1, N: 1, State: "review", Title: map[string]string{"": "Review"}, Priority: "normal", Status: "open",
			Facts: []fsm.Fact{{Path: "amount", Label: "Amount", Value: json.Number("12.50")}}, Digest: "d1",
			Owners: []string{"system:bench"}, DueAt: &due, CreatedAt: now,
		}},
		Assignees: []fsm.Assignee{{
			Seq: 1, N: 1, Wait: 1, Kind: fsm.AssigneeSystem, Ref: "system:bench", Lines: []string{"system:bench"},
			Events: []string{"approve", "reject"}, Nonce: ev.Seed[:16], Kid: "k1", JTIHash: tokenOf(ev.Instance), Digest: "d1", State: fsm.LinkLive,
		}},
		DeadlinesSet: []fsm.DeadlineRow{{Seq: 1, N: 1, Wait: 1, Rule: "review/0", Action: "fire", Event: "expire", DueAt: due, Anchor: now, Occurrence: 1}},
	}
}

func approveStep(job *Job) fsm.Step {
	v, now := job.Snapshot.Instance, job.Now
	seq := v.Revision + 1
	v.State, v.Wait, v.Revision, v.Status, v.LastEventAt, v.EnteredAt, v.FinishedAt = "done", seq, seq, fsm.Finished, now, now, &now
	step := fsm.Step{
		Instance: v,
		Transition: fsm.Transition{
			Seq: seq, EventID: job.Event.ID, Kind: fsm.TTransition, Event: job.Event.Name, From: "review", To: "done", Wait: 1,
			Actor: fsm.Actor{Kind: fsm.ActorSystem, ID: "system:bench"}, Token: fsm.EffectID{Seq: 1, N: 1}, At: now,
			DefinitionVersion: 1, Salt: []byte("0123456789abcdef"), Hash: "v1:2", PreviousHash: "v1:1",
		},
		TaskChanges:   []fsm.TaskChange{{Seq: 1, N: 1, Status: "done", ClosedAt: &now}},
		DeadlinesGone: []fsm.EffectID{{Seq: 1, N: 1}},
		Effects:       []fsm.QueuedEffect{webhook(seq, 1)},
		DropWait:      1,
		ReleaseKey:    v.Key != "",
	}
	if job.Snapshot.Token != nil {
		step.AssigneeChanges = []fsm.AssigneeChange{{Seq: 1, N: 1, Consumed: seq}}
	}
	return step
}

// stayStep is an act that leaves the wait open.
func stayStep(job *Job) fsm.Step {
	v, now := job.Snapshot.Instance, job.Now
	v.Revision++
	v.LastEventAt = now
	return fsm.Step{Instance: v, Transition: fsm.Transition{
		Seq: v.Revision, EventID: job.Event.ID, Kind: fsm.TStay, Event: job.Event.Name,
		From: "review", Wait: 1, Actor: fsm.Actor{Kind: fsm.ActorSystem, ID: "system:bench"}, At: now, DefinitionVersion: 1,
	}}
}

func webhook(seq, n int) fsm.QueuedEffect {
	return fsm.QueuedEffect{
		EffectID: fsm.EffectID{Seq: seq, N: n}, Name: "tell", Kind: "webhook", Idempotent: true, Priority: 5,
		Request:  json.RawMessage(`{"webhook":{"method":"POST","url":"https://Example.com/hook","has_body":false}}`),
		Attempts: 24, First: 5 * time.Second, Max: 6 * time.Hour,
	}
}

// tokenOf is the hash of the one link that simple makes for an instance.
func tokenOf(instance string) []byte {
	h := sha256.Sum256([]byte(instance))
	return h[:]
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// startJob starts a fresh instance.
func startJob(t testing.TB, claims ...Claim) *Job {
	t.Helper()
	id := newID(t)
	return &Job{Claims: claims, Event: &fsm.Event{ID: id, Instance: id, Kind: fsm.KindStart, Start: &fsm.StartEvent{
		Data: map[string]any{"amount": json.Number("12.50"), "title": "Purchase order 4711"},
	}}}
}

// raiseJob raises an event, by the instance's token.
func raiseJob(t testing.TB, instance, event string, claims ...Claim) *Job {
	t.Helper()
	return &Job{
		Claims: claims, TokenHash: tokenOf(instance),
		Event: &fsm.Event{ID: newID(t), Instance: instance, Kind: fsm.KindRaise, Name: event, Token: true},
	}
}

// commit runs one batch that must not fail as a whole.
func (p *simple) commit(t testing.TB, jobs ...*Job) {
	t.Helper()
	if err := p.s.Commit(t.Context(), jobs, p, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
}

// started commits a start and returns the instance's id.
func (p *simple) started(t testing.TB, claims ...Claim) string {
	t.Helper()
	job := startJob(t, claims...)
	p.commit(t, job)
	wantWritten(t, job)
	return job.Event.Instance
}

// wantWritten fails unless the job's step was planned and written.
func wantWritten(t testing.TB, job *Job) {
	t.Helper()
	if job.Err != nil || job.Lost != nil || job.Requeue || job.Step.Refusal != nil || job.Step.Transition.Seq == 0 {
		t.Fatalf("job of %s: err %v, lost %v, requeue %v, refusal %v", job.Event.Instance, job.Err, job.Lost, job.Requeue, job.Step.Refusal)
	}
}

// count counts the rows of a table.
func (b *bench) count(t testing.TB, table string) int {
	t.Helper()
	n, _, err := selectOne(b.reader(t.Context()), readCount, "SELECT count(*) FROM "+table)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// read reads an instance that must be there.
func (p *simple) read(t testing.TB, id string) *fsm.Snapshot {
	t.Helper()
	snap, err := p.s.Snapshot(t.Context(), id, p)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// look reads what is known of a link.
func (p *simple) look(t testing.TB, hash []byte) *fsm.Snapshot {
	t.Helper()
	snap, err := p.s.TokenLookup(t.Context(), hash, p)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func (p *simple) seqOf(t testing.TB, instance, event string) int {
	t.Helper()
	seq, err := p.s.EventSeq(t.Context(), instance, event)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// reopened is a second store on the same database, closed with the test.
func reopened(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
