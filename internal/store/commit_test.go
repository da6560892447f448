package store

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func TestAStartAndADecisionLeaveTheirRows(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		snap := p.read(t, id)
		if snap.Instance.State != "review" || len(snap.Tasks) != 1 || len(snap.Assignees) != 1 || len(snap.Deadlines) != 1 || len(snap.Past) != 1 {
			t.Fatalf("after the start: %+v", snap)
		}
		want := startStep(&Job{Event: &fsm.Event{ID: id, Instance: id, Start: &fsm.StartEvent{Data: map[string]any{
			"amount": json.Number("12.50"),
			"title":  "Purchase order 4711",
		}}}, Now: snap.Instance.StartedAt})
		for name, pair := range map[string][2]any{
			"instance": {want.Instance, snap.Instance}, "tasks": {want.TasksOpened, snap.Tasks},
			"deadlines": {want.DeadlinesSet, snap.Deadlines}, "assignees": {want.Assignees, snap.Assignees},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s were written as\n%+v\nand read as\n%+v", name, pair[0], pair[1])
			}
		}

		decision := raiseJob(t, id, "approve")
		p.commit(t, decision)
		wantWritten(t, decision)
		snap = p.read(t, id)
		if snap.Instance.Status != fsm.Finished || snap.Instance.Revision != 2 || len(snap.Deadlines) != 0 || len(snap.Effects) != 1 || len(snap.Past) != 2 {
			t.Fatalf("after the decision: %+v", snap)
		}
		if seq := p.seqOf(t, id, decision.Event.ID); seq != 2 {
			t.Errorf("the decision's event is at %d, want 2", seq)
		}
		token := p.look(t, tokenOf(id))
		if token.Token == nil || token.Token.Consumed != 2 || token.Own == nil || token.Own.Seq != 2 || token.Left == nil || token.Left.Seq != 2 {
			t.Errorf("the used link is read as %+v, own %+v, left %+v", token.Token, token.Own, token.Left)
		}
	})
}

func TestDigitsComeBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		data := map[string]any{}
		for name, digits := range map[string]string{"a": "1.0", "b": "1e2", "c": "-0", "d": "12345678901234567890.123456789", "e": "0.10", "f": "1E+2"} {
			data[name] = json.Number(digits)
		}
		data["nested"] = []any{map[string]any{"x": json.Number("2.00")}, "ä\u2028<&>", nil, true}
		job := startJob(t)
		job.Event.Start.Data = data
		p.commit(t, job)
		wantWritten(t, job)
		snap := p.read(t, job.Event.Instance)
		if !reflect.DeepEqual(snap.Instance.Data, data) {
			t.Errorf("written %v, read %v", data, snap.Instance.Data)
		}
	})
}

func TestTimesAreWholeMillisecondsOfUTC(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		p.plan = func(job *Job) {
			simpleStep(job)
			job.Step.DeadlinesSet[0].DueAt = time.Date(1999, 5, 1, 12, 0, 0, 123_999_999, time.FixedZone("", 2*3600))
		}
		snap := p.read(t, p.started(t))
		if got, want := snap.Deadlines[0].DueAt, time.Date(1999, 5, 1, 10, 0, 0, 123_000_000, time.UTC); got != want {
			t.Errorf("due at %v, want %v", got, want)
		}
		if at := snap.Instance.StartedAt; at.Location() != time.UTC || at.Nanosecond()%1e6 != 0 {
			t.Errorf("started at %v, want whole milliseconds of UTC", at)
		}
	})
}

// guarantee D2, field report B44
func TestAClaimIsWonOnceAndItsLosersGetTheFirstAnswer(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		claim := func() Claim {
			return Claim{Kind: ClaimIdempotency, Scope: "system:a\nPOST /v1/instances", Key: "k", BodyHash: []byte{1}, Keep: time.Hour}
		}
		first, neighbour := startJob(t, claim()), startJob(t, claim())
		p.commit(t, first, neighbour)
		wantWritten(t, first)
		if !neighbour.Requeue {
			t.Fatalf("a neighbour with the same claim was not sent round again: %+v", neighbour)
		}
		second := startJob(t, claim())
		p.commit(t, second)
		if second.Lost == nil || second.Lost.Instance != first.Event.Instance || second.Lost.Seq != 1 ||
			string(second.Lost.Answer) != "answer of "+first.Event.ID || string(second.Lost.BodyHash) != "\x01" {
			t.Fatalf("the loser got %+v", second.Lost)
		}
		other := startJob(t, Claim{Kind: ClaimIdempotency, Scope: "system:b\nPOST /v1/instances", Key: "k"})
		p.commit(t, other)
		wantWritten(t, other)
		if n := b.count(t, "instances"); n != 2 {
			t.Errorf("%d instances, want 2", n)
		}
	})
}

func TestARaceForAClaimHasOneWinner(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		const racers = 16
		jobs, errs := make([]*Job, racers), make(chan error, racers)
		for i := range jobs {
			// each also claims something of its own, in another order
			jobs[i] = startJob(t, Claim{Kind: ClaimIdempotency, Scope: "own", Key: newID(t)}, Claim{Kind: ClaimBusinessKey, Scope: "simple", Key: "4711"})
			go func() { errs <- b.Commit(context.Background(), []*Job{jobs[i]}, p, CommitOptions{}) }()
		}
		won, lost := 0, 0
		for range jobs {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for _, job := range jobs {
			if job.Lost != nil && job.Lost.Kind == ClaimBusinessKey {
				lost++
			} else if job.Step.Transition.Seq == 1 {
				won++
			}
		}
		if won != 1 || lost != racers-1 || b.count(t, "instances") != 1 || b.count(t, "claims") != 2 {
			t.Errorf("%d won and %d lost, %d instances, %d claims; want 1, %d, 1, 2", won, lost, b.count(t, "instances"), b.count(t, "claims"), racers-1)
		}
	})
}

// field report B44: a refused call burns no key
func TestARefusedEventKeepsNoClaimAndWritesNothing(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		neighbour := startJob(t)
		refused := raiseJob(t, id, "no-such-event", Claim{Kind: ClaimIdempotency, Scope: "s", Key: "k"})
		p.commit(t, refused, neighbour)
		wantWritten(t, neighbour)
		if fault.CodeOf(refused.Step.Refusal) != fault.EventNotAllowedHere {
			t.Fatalf("refusal %v", refused.Step.Refusal)
		}
		if n := b.count(t, "claims"); n != 0 {
			t.Errorf("%d claims are left, want none", n)
		}
		alone := raiseJob(t, id, "no-such-event", Claim{Kind: ClaimIdempotency, Scope: "s", Key: "k"})
		p.commit(t, alone)
		again := raiseJob(t, id, "approve", Claim{Kind: ClaimIdempotency, Scope: "s", Key: "k"})
		p.commit(t, again)
		wantWritten(t, again)
	})
}

func TestABusinessKeyIsFreeAgainOnceReleased(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		p.plan = func(job *Job) {
			simpleStep(job)
			job.Step.Instance.Key = "4711"
		}
		key := Claim{Kind: ClaimBusinessKey, Scope: "simple", Key: "4711"}
		id := p.started(t, key)
		taken := startJob(t, key)
		p.commit(t, taken)
		if taken.Lost == nil || taken.Lost.Instance != id {
			t.Fatalf("a taken key was lost to %+v", taken.Lost)
		}
		p.commit(t, raiseJob(t, id, "approve"))
		p.started(t, key)
	})
}

func TestWhatIsNotThereIsNotFoundAndHurtsNoNeighbour(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		neighbour, missing, nonsense := startJob(t), raiseJob(t, newID(t), "approve"), raiseJob(t, "nonsense", "approve")
		p.commit(t, missing, neighbour, nonsense)
		wantWritten(t, neighbour)
		wantCode(t, missing.Err, fault.NotFound)
		wantCode(t, nonsense.Err, fault.NotFound)
		_, err := b.Snapshot(t.Context(), "nonsense", p)
		wantCode(t, err, fault.NotFound)
		_, err = b.TokenLookup(t.Context(), []byte("no such hash"), p)
		wantCode(t, err, fault.InvalidToken)
	})
}

func TestAStepThatSkipsARevisionIsNotWritten(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		p.plan = func(job *Job) {
			simpleStep(job)
			if job.Event.Kind == fsm.KindRaise {
				job.Step.Instance.Revision = 7
			}
		}
		bad, neighbour := raiseJob(t, id, "approve"), startJob(t)
		p.commit(t, bad, neighbour)
		wantWritten(t, neighbour)
		wantCode(t, bad.Err, fault.Internal)
		if snap := p.read(t, id); snap.Instance.Revision != 1 {
			t.Errorf("revision %d, want 1", snap.Instance.Revision)
		}
	})
}

// guarantee D1: the revision is checked by the write itself
func TestARevisionThatMovedUnderABatchFailsIt(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		p.plan = func(job *Job) {
			simpleStep(job)
			job.Step.Instance.ID = id
		}
		w := newWrites(b.Dialect() == dialectPostgres)
		job := raiseJob(t, id, "approve")
		job.Snapshot, job.Now = p.read(t, id), b.now(t)
		simpleStep(job)
		of, _ := parseIdent(id)
		if err := w.step(&entry{job: job, id: of, revision: 5}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.runSet(t.Context(), w.sets[updateInstances]); err == nil {
			t.Error("an update of revision 5 was taken by an instance at revision 1")
		}
		if snap := p.read(t, id); snap.Instance.Revision != 1 {
			t.Errorf("revision %d, want 1", snap.Instance.Revision)
		}
	})
}

func TestAFailedBatchLeavesNothing(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		before := map[string]int{}
		tables := []string{"instances", "instance_data", "transitions", "tasks", "task_owners", "assignees", "deadlines", "effects", "claims"}
		for _, table := range tables {
			before[table] = b.count(t, table)
		}
		good := startJob(t, Claim{Kind: ClaimIdempotency, Scope: "s", Key: "k"})
		twice := startJob(t)
		twice.Event.ID = id // the event id of the first start: unique in the history
		err := b.Commit(t.Context(), []*Job{good, raiseJob(t, id, "approve"), twice}, p, CommitOptions{})
		if err == nil {
			t.Fatal("an event id that is in the history already was taken")
		}
		for _, table := range tables {
			if n := b.count(t, table); n != before[table] {
				t.Errorf("%s has %d rows after the failed batch, had %d", table, n, before[table])
			}
		}
		p.commit(t, raiseJob(t, id, "approve")) // the connection is good again
	})
}

// guarantee: at each point of a batch either nothing or everything is there
func TestAFaultAtAnyPointLeavesAllOrNothing(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		cut := errors.New("cut")
		for _, point := range []string{PointBegin, PointLocked, PointRead, PointPlanned, PointWritten, PointCommitted} {
			cfg := b.impl.cfg
			armed := false
			cfg.Fault = func(at string) error {
				if armed && at == point {
					return cut
				}
				return nil
			}
			s := reopened(t, cfg)
			p := newSimple(s)
			id := p.started(t)
			armed = true
			job := raiseJob(t, id, "approve", Claim{Kind: ClaimIdempotency, Scope: "s", Key: point})
			if err := s.Commit(t.Context(), []*Job{job}, p, CommitOptions{}); !errors.Is(err, cut) {
				t.Fatalf("%s: got %v", point, err)
			}
			armed = false
			seq := p.seqOf(t, id, job.Event.ID)
			snap := p.read(t, id)
			if done := point == PointCommitted; done != (seq == 2) || done != (len(snap.Effects) == 1) || done != (snap.Instance.Revision == 2) {
				t.Errorf("%s: event at %d, revision %d, %d effects", point, seq, snap.Instance.Revision, len(snap.Effects))
			}
			again := raiseJob(t, id, "approve", Claim{Kind: ClaimIdempotency, Scope: "s", Key: point})
			p.commit(t, again)
			if point == PointCommitted {
				if again.Lost == nil || again.Lost.Seq != 2 {
					t.Errorf("%s: the retry got %+v, want the first answer", point, again.Lost)
				}
			} else {
				wantWritten(t, again)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAStandingVoteIsOneForEachPersonAndWait(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		fresh := func(n int, vote int) fsm.Assignee {
			return fsm.Assignee{Seq: 2, N: n, Wait: 1, Kind: fsm.AssigneePerson, Ref: "user:ana", State: fsm.LinkNone, Vote: vote}
		}
		step := func(assignees []fsm.Assignee, changes ...fsm.AssigneeChange) error {
			p.plan = func(job *Job) {
				job.Step = stayStep(job)
				job.Step.Assignees, job.Step.AssigneeChanges = assignees, changes
			}
			return b.Commit(t.Context(), []*Job{raiseJob(t, id, "comment")}, p, CommitOptions{})
		}
		if err := step([]fsm.Assignee{fresh(1, 2)}); err != nil {
			t.Fatal(err)
		}
		if err := step([]fsm.Assignee{fresh(2, 3)}); err == nil {
			t.Error("a second standing vote of one person was taken")
		}
		if err := step([]fsm.Assignee{fresh(2, 3)}, fsm.AssigneeChange{Seq: 2, N: 1, Vote: -1}); err != nil {
			t.Errorf("a changed vote was refused: %v", err)
		}
		snap := p.read(t, id)
		if len(snap.Votes) != 1 || snap.Votes[0].Seq != 3 {
			t.Errorf("standing votes: %+v, want the one of seq 3", snap.Votes)
		}
	})
}

func TestHowAWaitThatWasLeftEndedIsToldToWhoDecidesItsTask(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		act := func(id, actor string, kind fsm.TransitionKind, to string) {
			t.Helper()
			p.plan = func(job *Job) {
				job.Step = stayStep(job)
				tr := &job.Step.Transition
				tr.Kind, tr.To, tr.Wait, tr.Actor = kind, to, job.Snapshot.Instance.Wait, fsm.Actor{Kind: fsm.ActorPerson, ID: actor}
				if to != "" {
					job.Step.Instance.State, job.Step.Instance.Wait = to, tr.Seq
				}
			}
			p.commit(t, raiseJob(t, id, "comment"))
		}
		late := func(id, actor string) *fsm.Snapshot {
			t.Helper()
			job := raiseJob(t, id, "approve")
			job.TokenHash, job.Event.Token, job.Event.Wait, job.Event.Actor = nil, false, 1, fsm.Actor{Kind: fsm.ActorPerson, ID: actor}
			p.plan = func(job *Job) { job.Step = fsm.Step{Refusal: fault.New(fault.AlreadyDecided, "It was decided.")} }
			p.commit(t, job)
			return job.Snapshot
		}
		id := p.started(t)
		act(id, "ana", fsm.TVote, "")
		act(id, "ana", fsm.TVote, "")
		act(id, "bob", fsm.TTransition, "later")
		act(id, "ana", fsm.TVote, "")
		for actor, own := range map[string]int{"ana": 3, "bob": 4, "eve": 0} {
			snap := late(id, actor)
			if snap.Left == nil || snap.Left.Seq != 4 {
				t.Errorf("%s: left by %+v, want seq 4", actor, snap.Left)
			}
			if got := snap.Own; own == 0 && got != nil || own > 0 && (got == nil || got.Seq != own) {
				t.Errorf("%s: own %+v, want seq %d", actor, got, own)
			}
		}
	})
}

func TestACallbackTokenRemembersWhatItWasUsedFor(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		p.plan = func(job *Job) {
			simpleStep(job)
			if job.Event.Kind == fsm.KindStart {
				job.Step.Assignees[0].Kind = fsm.AssigneeCallback
			} else {
				job.Step.Transition.Token = fsm.EffectID{Seq: 1, N: 1}
				job.Step.Transition.Input = map[string]any{"at": json.Number("1.0")}
			}
		}
		id := p.started(t)
		p.commit(t, raiseJob(t, id, "comment"))
		again := raiseJob(t, id, "comment")
		p.commit(t, again)
		for _, snap := range []*fsm.Snapshot{again.Snapshot, p.look(t, tokenOf(id))} {
			if len(snap.Acts) == 0 || snap.Acts[0].Seq != 2 || snap.Left != nil || snap.Own != nil || snap.Acts[0].Input == nil {
				t.Errorf("acts %+v, left %+v, own %+v", snap.Acts, snap.Left, snap.Own)
			}
		}
	})
}

func TestAnOutcomeThatChangesNothingElseLeavesNoHistory(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, webhook(1, 1))
		f := finishOf(p.claim(t, 1)[0], fsm.EffectDead)
		p.plan = func(job *Job) { job.Step = fsm.Step{Result: job.Event.Result} }
		job := &Job{Event: &fsm.Event{ID: newID(t), Instance: id, Kind: fsm.KindEffectResult, Result: &f.ResultEvent}}
		p.commit(t, job)
		snap := p.read(t, id)
		if job.Err != nil || snap.Instance.Revision != 1 || len(snap.Past) != 1 || snap.Effects[0].Status != fsm.EffectDead {
			t.Errorf("%v: revision %d, history %d, effect %+v", job.Err, snap.Instance.Revision, len(snap.Past), snap.Effects[0])
		}
	})
}
