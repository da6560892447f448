package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// The points at which Config.Fault is asked; an error there stands for a crash or a
// lost answer at that point.
const (
	PointBegin     = "commit.begin"     // nothing is sent yet
	PointLocked    = "commit.locked"    // claims are made, instances locked
	PointRead      = "commit.read"      // children and clock are read
	PointPlanned   = "commit.planned"   // nothing is written yet
	PointWritten   = "commit.written"   // written, not committed
	PointCommitted = "commit.committed" // committed, not answered

	PointClaim          = "outbox.claim"           // nothing is sent yet
	PointClaimCommitted = "outbox.claim-committed" // leases are committed, not answered
	PointStart          = "outbox.start"
	PointStartCommitted = "outbox.start-committed"
	PointFinish         = "outbox.finish"
	PointFinishWritten  = "outbox.finish-written"
	PointFinishCommit   = "outbox.finish-committed"
	PointRelease        = "outbox.release"

	// Written, not committed, like PointWritten; asked only where there is such a row.
	PointChildStarted = "commit.child-started"
	PointChildEnded   = "commit.child-ended"
	PointCallTaken    = "commit.call-taken"

	// Outside batches: written, not committed; and committed, not answered.
	PointCallKept         = "calls.kept"
	PointCallKeptCommit   = "calls.kept-committed"
	PointCallHashes       = "calls.hashes"
	PointFeedClaim        = "feed.claim"
	PointFeedFinish       = "feed.finish"
	PointFeedFinishCommit = "feed.finish-committed"
	PointPark             = "children.park"
	PointParkCommit       = "children.park-committed"
	PointRefuseChild      = "children.refuse"
	PointRefuseCommit     = "children.refuse-committed"
)

// FaultPoints are all of them, in the order in which they are passed.
var FaultPoints = []string{
	PointBegin, PointLocked, PointRead, PointPlanned, PointWritten, PointCommitted,
	PointClaim, PointClaimCommitted, PointStart, PointStartCommitted,
	PointFinish, PointFinishWritten, PointFinishCommit, PointRelease,
	PointChildStarted, PointChildEnded, PointCallTaken, PointCallKept, PointCallKeptCommit, PointCallHashes,
	PointFeedClaim, PointFeedFinish, PointFeedFinishCommit, PointPark, PointParkCommit, PointRefuseChild, PointRefuseCommit,
}

// written asks the points that a batch passes between its writes and its commit.
func (b *batch) written(w *writes) error {
	err := b.s.failpoint(PointWritten)
	for _, at := range []struct {
		of    *multirow
		point string
	}{{insertChildren, PointChildStarted}, {endChildren, PointChildEnded}, {takeCalls, PointCallTaken}} {
		if set := w.sets[at.of]; err == nil && set != nil && set.rows > 0 {
			err = b.s.failpoint(at.point)
		}
	}
	return err
}

// Commit runs one batch in one transaction: claims, lock, read and clock, plan,
// write, commit. Jobs are of different instances. An error means that nothing of the batch
// is known to be written: offer the jobs again one by one (EventSeq tells what a lost commit answer did).
func (s *Store) Commit(ctx context.Context, jobs []*Job, p Planner, o CommitOptions) error {
	b := newBatch(s, jobs, p, o)
	if len(b.live()) == 0 {
		return nil
	}
	if s.impl.dialect == dialectPostgres {
		return s.dbError(b.commitPostgres(ctx))
	}
	return s.dbError(b.commitSQLite(ctx))
}

// entry is a job on its way through a batch.
type entry struct {
	job      *Job
	id       ident
	out      bool // has its outcome, nothing of it is written
	locked   bool
	revision int // as read
	need     fsm.EffectNeed
	token    *tokenRow
	fence    *int64 // of the effect whose result this is, as read
	running  bool   // that effect is running
}

func (e *entry) start() bool { return e.job.Event.Kind == fsm.KindStart }

// leave gives the job its outcome.
func (e *entry) leave(err error) {
	e.out, e.job.Err = true, err
}

func (e *entry) requeue() { e.out, e.job.Requeue = true, true }

func (e *entry) definition() *definitions.Definition { return e.job.Snapshot.Definition }

// effect is the one that the event is about; ok is false for none.
func (e *entry) effect() (fsm.EffectID, bool) {
	switch ev := e.job.Event; {
	case ev.Result != nil:
		return ev.Result.Effect, true
	case ev.Effect != nil:
		return *ev.Effect, true
	}
	return fsm.EffectID{}, false
}

// claimKey names a claim.
type claimKey struct {
	kind ClaimKind
	hash [sha256.Size]byte
}

// claimKeyOf covers scope and key, so that neither can be made to look like the other.
func claimKeyOf(kind ClaimKind, scope, key string) claimKey {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(scope)))
	return claimKey{kind, sha256.Sum256(append(append(b, scope...), key...))}
}

// heldClaim is a claim that a job offers.
type heldClaim struct {
	claimKey
	entry *entry
	claim *Claim
	order int // among the job's claims
	won   bool
}

type batch struct {
	s       *Store
	planner Planner
	wait    bool
	entries []*entry
	byID    map[[16]byte]*entry
	claims  []*heldClaim // in one order for all batches, so that none waits in a circle
	byClaim map[claimKey]*heldClaim
	now     time.Time
	version int64 // of the directory
}

func newBatch(s *Store, jobs []*Job, p Planner, o CommitOptions) *batch {
	b := &batch{s: s, planner: p, wait: o.Wait, byID: make(map[[16]byte]*entry, len(jobs)), byClaim: map[claimKey]*heldClaim{}}
	for _, job := range jobs {
		e := &entry{job: job}
		b.entries = append(b.entries, e)
		id, ok := parseIdent(job.Event.Instance)
		if !ok {
			e.leave(noInstance(job.Event.Instance))
			continue
		}
		e.id = id
		if b.byID[id.raw] != nil || !b.offer(e) {
			e.requeue()
			continue
		}
		b.byID[id.raw] = e
	}
	slices.SortFunc(b.claims, func(x, y *heldClaim) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), slices.Compare(x.hash[:], y.hash[:]))
	})
	return b
}

// offer notes a job's claims; false where a neighbour offers one of them already.
func (b *batch) offer(e *entry) bool {
	held := make([]*heldClaim, len(e.job.Claims))
	for i := range e.job.Claims {
		c := &e.job.Claims[i]
		held[i] = &heldClaim{claimKey: claimKeyOf(c.Kind, c.Scope, c.Key), entry: e, claim: c, order: i}
		if b.byClaim[held[i].claimKey] != nil {
			return false
		}
	}
	for _, h := range held {
		b.byClaim[h.claimKey] = h
	}
	b.claims = append(b.claims, held...)
	return true
}

// live are the jobs without an outcome.
func (b *batch) live() []*entry {
	live := make([]*entry, 0, len(b.entries))
	for _, e := range b.entries {
		if !e.out {
			live = append(live, e)
		}
	}
	return live
}

// toLock are the instances to lock: those of all live jobs but starts.
func (b *batch) toLock() []*entry {
	return slices.DeleteFunc(b.live(), func(e *entry) bool { return e.start() })
}

// lost are the claims that somebody else holds, in the order of their jobs' claims.
func (b *batch) lost() []*heldClaim {
	var lost []*heldClaim
	for _, h := range b.claims {
		if !h.won && !h.entry.out {
			lost = append(lost, h)
		}
	}
	return lost
}

// loses gives jobs the rows of those who hold their claims. A claim given back in the
// meantime makes its job come again.
func (b *batch) loses(lost []*heldClaim, rows map[claimKey]*ClaimRow) {
	slices.SortStableFunc(lost, func(x, y *heldClaim) int { return cmp.Compare(x.order, y.order) })
	for _, h := range lost {
		if h.entry.out {
			continue
		}
		if row := rows[h.claimKey]; row != nil {
			h.entry.job.Lost, h.entry.out = row, true
		} else {
			h.entry.requeue()
		}
	}
}

// found takes a locked instance.
func (b *batch) found(v fsm.Instance) {
	id, _ := parseIdent(v.ID)
	if e := b.byID[id.raw]; e != nil {
		e.locked, e.revision = true, v.Revision
		e.job.Snapshot = &fsm.Snapshot{Instance: v}
	}
}

// prepare loads what is needed to read on: definitions, and which effects to load.
func (b *batch) prepare(ctx context.Context) {
	for _, e := range b.live() {
		if e.start() {
			snap := e.job.Snapshot
			if snap == nil {
				snap = &fsm.Snapshot{}
			}
			snap.Instance = fsm.Instance{ID: e.id.text}
			e.job.Snapshot = snap
			continue
		}
		if !e.locked {
			continue
		}
		snap := e.job.Snapshot
		d, err := b.planner.Definition(ctx, snap.Instance.Definition, snap.Instance.Version)
		if err != nil {
			e.leave(err)
			continue
		}
		snap.Definition = d
		e.need = fsm.NeedsEffects(snap, e.job.Event)
		if _, about := e.effect(); about && e.need == fsm.NeedNone {
			e.need = fsm.NeedOne
		}
	}
}

// checkFences ends the jobs whose effect is gone or is somebody else's by now.
func (b *batch) checkFences() {
	for _, e := range b.live() {
		r := e.job.Event.Result
		if r == nil {
			continue
		}
		switch {
		case e.fence == nil:
			e.leave(fault.New(fault.NotFound, "There is no effect %s-%d-%d.", e.id.text, r.Effect.Seq, r.Effect.N))
		case !r.Resolved && (*e.fence != r.Fence || !e.running):
			e.leave(fault.New(fault.Conflict, "This attempt is no longer the current one of effect %s-%d-%d.", e.id.text, r.Effect.Seq, r.Effect.N))
		}
	}
}

// plan has every live job decided; planned are those that write.
func (b *batch) plan(ctx context.Context) (planned []*entry, err error) {
	directory, err := b.planner.Directory(ctx, b.version)
	if err != nil {
		return nil, err
	}
	for _, e := range b.live() {
		job := e.job
		job.Snapshot.Directory = directory
		job.Now = b.now
		if last := job.Snapshot.Instance.LastEventAt; last.After(b.now) {
			job.Now = last
		}
		b.planner.Plan(ctx, job)
		switch {
		case job.Step.Refusal != nil || job.Step.Replay > 0:
			e.out = true
		case job.Step.Result != nil && job.Step.Transition.Seq == 0: // only the effect hears of its outcome
			planned = append(planned, e)
		case job.Step.Instance.ID != e.id.text || job.Step.Instance.Revision != e.revision+1 || job.Step.Transition.Seq != e.revision+1:
			e.leave(fmt.Errorf("the step of event %s does not follow revision %d of instance %s", job.Event.ID, e.revision, e.id.text))
		default:
			planned = append(planned, e)
		}
	}
	return planned, nil
}

// collect turns the planned steps into rows. A step that cannot be written ends its job
// and leaves its neighbours alone.
// The rows go back to the store's spare buffers with release, once they are sent.
func (b *batch) collect(planned []*entry) (w *writes, release func()) {
	spare := &b.s.impl.spare
	w, ok := spare.Get().(*writes)
	if !ok {
		w = newWrites(b.s.impl.dialect == dialectPostgres)
		w.sinks = b.s.impl.cfg.Sinks
	}
	for {
		w.reset()
		broken := false
		for _, e := range planned {
			if e.out {
				continue
			}
			if err := w.step(e); err != nil {
				e.leave(fmt.Errorf("the step of event %s cannot be written: %w", e.job.Event.ID, err))
				broken = true
			}
		}
		if !broken {
			b.settle(w)
			return w, func() { spare.Put(w) }
		}
	}
}

// settle completes the claims of what is written and gives back those of what is not.
func (b *batch) settle(w *writes) {
	for _, h := range b.claims {
		switch {
		case !h.won:
		case h.entry.out, h.kind == ClaimBusinessKey && h.entry.job.Step.ReleaseKey:
			w.of(forgetClaims).num(int(h.kind)).blob(h.hash[:]).id(h.entry.id)
		default:
			w.of(settleClaims).num(int(h.kind)).blob(h.hash[:]).num(h.entry.job.Step.Transition.Seq).blob(h.claim.Answer)
		}
	}
	for _, e := range b.entries {
		if v := &e.job.Step.Instance; !e.out && !e.start() && e.job.Step.ReleaseKey && v.Key != "" {
			key := claimKeyOf(ClaimBusinessKey, v.Definition, v.Key)
			w.of(forgetClaims).num(int(key.kind)).blob(key.hash[:]).id(e.id)
		}
	}
}
