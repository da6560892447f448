package store

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

const partSource = `
name: part
version: 1
initial: review
states:
  review:
    owner: ["system:bench"]
    deadlines: [{after: P1D, fire: reject}]
    events:
      approve: {to: done, by: [owner]}
      reject: {to: refused, by: [owner, timer]}
  done: {final: true}
  refused: {final: failed}
`

// parent starts an instance with one start effect, leased as if its children were being started.
func (p *simple) parent(t testing.TB) (StartEffect, ClaimedEffect) {
	t.Helper()
	id := p.queue(t, startEffect())
	claimed := p.claim(t, 10)
	if len(claimed) != 1 || claimed[0].Instance != id {
		t.Fatalf("claimed %+v, want the start effect", claimed)
	}
	return StartEffect{Parent: id, EffectID: claimed[0].EffectID}, claimed[0]
}

func startEffect() fsm.QueuedEffect {
	e := webhook(1, 1)
	e.Name, e.Kind, e.Wait, e.Droppable, e.Request = "parts", "start", 1, true, []byte(`{"start":{"definition":"part","items":[{}]}}`)
	return e
}

// childPlan makes instances children of what their start event says.
func childPlan(t testing.TB) func(job *Job) {
	t.Helper()
	d, problems := definitions.Parse("part.yaml", []byte(partSource))
	if d == nil {
		t.Fatal(problems)
	}
	return func(job *Job) {
		simpleStep(job)
		job.Snapshot.Definition = d
		switch {
		case job.Event.Kind == fsm.KindStart:
			job.Step.Instance.Parent = job.Event.Start.Parent
		case job.Event.Name == "reject":
			job.Step = approveStep(job)
			job.Step.Instance.State = "refused"
		case job.Event.Kind == fsm.KindCancel:
			job.Step = approveStep(job)
			job.Step.Instance.Status = fsm.Cancelled
		}
		job.Step.Effects = nil
	}
}

// child starts the child of one place of the list.
func (p *simple) child(t testing.TB, of StartEffect, index int) string {
	t.Helper()
	job := childJob(t, of, index)
	p.commit(t, job)
	wantWritten(t, job)
	return job.Event.Instance
}

func childJob(t testing.TB, of StartEffect, index int) *Job {
	t.Helper()
	job := startJob(t)
	job.Event.Start.Parent = &fsm.ParentRef{Instance: of.Parent, Effect: of.EffectID, Index: index, Depth: 1}
	return job
}

// ends has a child end by an event, or cancelled by "".
func (p *simple) ends(t testing.TB, child, event string) {
	t.Helper()
	job := raiseJob(t, child, event)
	if event == "" {
		job = &Job{Event: &fsm.Event{ID: newID(t), Instance: child, Kind: fsm.KindCancel}}
	}
	p.commit(t, job)
	wantWritten(t, job)
}

// children lists what the parent's side knows, as "index status".
func (b *bench) children(t testing.TB, of StartEffect) string {
	t.Helper()
	page, err := b.Children(t.Context(), of.Parent, of.EffectID, Paging{})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, c := range page.Items {
		over := ""
		if c.DoneAt != nil {
			over = " over"
		}
		list = append(list, fmt.Sprintf("%d %s%s", c.Index, c.Status, over))
	}
	return strings.Join(list, ", ")
}

func TestAChildTellsItsParentsSideWhenItStartsAndWhenItIsOver(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, _ := p.parent(t)
		p.plan = childPlan(t)
		var ids []string
		for i := range 4 {
			ids = append(ids, p.child(t, of, i))
		}
		want := &fsm.ParentRef{Instance: of.Parent, Effect: of.EffectID, Index: 2, Depth: 1}
		if got := p.read(t, ids[2]).Instance.Parent; !reflect.DeepEqual(got, want) {
			t.Errorf("the child's parent is read as %+v, want %+v", got, want)
		}
		page, err := b.Instances(t.Context(), InstanceFilter{ID: ids[2]}, Paging{})
		if err != nil || len(page.Items) != 1 || !reflect.DeepEqual(page.Items[0].Parent, want) {
			t.Errorf("listed as %+v, %v", page.Items, err)
		}
		p.ends(t, ids[0], "approve")
		p.ends(t, ids[1], "reject")
		p.ends(t, ids[2], "")
		p.ends(t, ids[3], "comment")
		if got := b.children(t, of); got != "0 ended over, 1 failed over, 2 cancelled over, 3 running" {
			t.Errorf("children: %s", got)
		}
		if p.read(t, of.Parent).Instance.Revision != 1 {
			t.Error("a child's event wrote its parent")
		}
	})
}

func TestAChildThatWasRefusedIsStartedInItsPlaceLater(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		of, _ := p.parent(t)
		p.plan = childPlan(t)
		if err := b.RefuseChild(t.Context(), of, 0, "The key \x00is in use."); err != nil {
			t.Fatal(err)
		}
		started := p.child(t, of, 1)
		if err := b.RefuseChild(t.Context(), of, 1, "too late"); err != nil {
			t.Fatal(err)
		}
		if got := b.children(t, of); got != "0 refused over, 1 running" {
			t.Fatalf("children: %s", got)
		}
		p.child(t, of, 0)
		if got := b.children(t, of); got != "0 running, 1 running" {
			t.Errorf("children: %s", got)
		}
		if err := b.RefuseChild(t.Context(), of, 2, "no"); err != nil {
			t.Fatal(err)
		}
		places, err := b.StartedChildren(t.Context(), of)
		if err != nil || len(places) != 3 || places[1] != started || places[2] != "" {
			t.Errorf("places %v, %v", places, err)
		}
		if err := b.ForgetRefused(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		if got := b.children(t, of); got != "0 running, 1 running" {
			t.Errorf("children without the refused: %s", got)
		}
	})
}

func TestAStepThatEntersAWaitIsFoundByItsCorrelationsOnly(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		p.plan = func(job *Job) {
			simpleStep(job)
			job.Step.SetCorrelations = job.Event.Name != "comment"
			switch {
			case job.Event.Kind == fsm.KindStart:
				job.Step.Correlations = []fsm.Correlation{{Event: "signed", Hash: []byte("one")}, {Event: "refused", Hash: []byte("two")}}
			case job.Event.Name == "again":
				job.Step = stayStep(job)
				job.Step.SetCorrelations, job.Step.Correlations = true, []fsm.Correlation{{Event: "signed", Hash: []byte("three")}}
			}
		}
		found := func(hashes ...string) int {
			t.Helper()
			var list [][]byte
			for _, h := range hashes {
				list = append(list, []byte(h))
			}
			ids, err := b.WaitingFor(t.Context(), list, 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(ids)
		}
		id := p.started(t)
		other := p.started(t)
		if found("one") != 2 || found("one", "two") != 2 || found("four") != 0 || found() != 0 {
			t.Fatal("instances are not found by their correlations")
		}
		if ids, err := b.WaitingFor(t.Context(), [][]byte{[]byte("two"), []byte("one")}, 1); err != nil || len(ids) != 1 {
			t.Errorf("at most one: %v, %v", ids, err)
		}
		p.ends(t, id, "comment")
		if found("one") != 2 {
			t.Error("an event that says nothing of correlations changed them")
		}
		p.ends(t, id, "again")
		if found("one") != 1 || found("three") != 1 {
			t.Error("the correlations were not replaced")
		}
		p.ends(t, other, "approve")
		if found("one", "two") != 0 {
			t.Error("a wait that was left is still found")
		}
	})
}

func TestACallIsTakenInTheTransactionOfItsEvent(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.started(t)
		call := b.keep(t, "w1", []byte("h"))
		refused := raiseJob(t, id, "unknown")
		refused.Callback = call.ID
		p.commit(t, refused)
		if got := b.call(t, call.ID); got.Status != CallWaiting {
			t.Errorf("after a refusal the call is %s", got.Status)
		}
		taking := raiseJob(t, id, "approve", Claim{Kind: ClaimWebhookID, Scope: "esign", Key: "w1"})
		taking.Callback = call.ID
		p.commit(t, taking)
		wantWritten(t, taking)
		if got := b.call(t, call.ID); got.Status != CallTaken || got.Instance != id || got.Seq != 2 {
			t.Errorf("after its event the call is %+v", got)
		}
		if early, err := b.EarlyCalls(t.Context(), call.Hashes, 10); err != nil || len(early) != 0 || b.count(t, "callbacks_matches") != 0 {
			t.Errorf("a taken call is still found: %v, %v", early, err)
		}
		lost := raiseJob(t, p.started(t), "approve")
		lost.Callback = uuid.NewString()
		if err := b.Commit(t.Context(), []*Job{lost}, p, CommitOptions{}); err == nil {
			t.Error("a call that was never kept was taken")
		}
	})
}

// Also for one that a replica of another configuration does not know, or that is disabled.
func TestEveryHistoryRowIsQueuedForEverySinkOfThisProcess(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		b := &bench{Store: reopened(t, Config{URL: url, Sinks: []string{"audit", "lake", "new"}})}
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := newSimple(b.Store)
		if err := b.SyncSinks(t.Context(), []string{"audit", "lake", "new"}); err != nil {
			t.Fatal(err)
		}
		if err := b.SyncSinks(t.Context(), []string{"audit", "lake"}); err != nil {
			t.Fatal(err)
		}
		if err := b.DisableSink(t.Context(), "lake", "gone"); err != nil {
			t.Fatal(err)
		}
		id := p.started(t)
		p.ends(t, id, "approve")
		rows, err := selectRows(b.reader(t.Context()), func(row rowScanner, v *string) error {
			var sink string
			var seq int
			err := row.Scan(&sink, &seq)
			*v = fmt.Sprint(sink, " ", seq)
			return err
		}, "SELECT sink, seq FROM feed WHERE instance_id = ? ORDER BY sink, seq", id)
		if err != nil || fmt.Sprint(rows) != "[audit 1 audit 2 lake 1 lake 2 new 1 new 2]" {
			t.Errorf("queued %v, %v", rows, err)
		}
	})
}

func TestWhatTheOtherSideSaidIsKeptWithItsAttempt(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, webhook(1, 1), webhook(1, 1))
		claimed := p.claim(t, 10)
		plain := finishOf(claimed[0], fsm.EffectDead)
		plain.Answer, plain.Detail = "torn \xff and \x00 cut", "no \x00 no"
		p.finish(t, plain)
		heard := finishOf(claimed[1], fsm.EffectSucceeded)
		heard.Answer = "fine"
		p.plan = func(job *Job) {
			job.Step = stayStep(job)
			job.Step.Result = job.Event.Result
		}
		job := &Job{Event: &fsm.Event{ID: newID(t), Instance: id, Kind: fsm.KindEffectResult, Result: &heard.ResultEvent}}
		p.commit(t, job)
		wantWritten(t, job)
		page, err := b.Effects(t.Context(), EffectFilter{Instance: id}, Paging{})
		if err != nil || len(page.Items) != 2 {
			t.Fatal(page, err)
		}
		answers := map[int]Attempt{page.Items[0].N: page.Items[0].Attempts[0], page.Items[1].N: page.Items[1].Attempts[0]}
		first, second := answers[claimed[0].N], answers[claimed[1].N]
		if first.Answer != "torn \uFFFD and \uFFFD cut" || first.Detail != "no \uFFFD no" || second.Answer != "fine" || first.FinishedAt == nil || second.FinishedAt == nil {
			t.Errorf("answers %+v and %+v", first, second)
		}
	})
}

func TestWorkThatAPersonDoesByHandIsNeverDispatched(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		manual := webhook(1, 1)
		manual.Kind, manual.Status, manual.Request = "manual", fsm.EffectUnknown, []byte(`{"manual":{"name":"pay"}}`)
		id := p.queue(t, manual)
		b.pass(48 * time.Hour)
		if claimed := p.claim(t, 10); len(claimed) != 0 {
			t.Errorf("claimed %+v", claimed)
		}
		if lost, err := b.LostAttempts(t.Context(), 10); err != nil || len(lost) != 0 {
			t.Errorf("lost %+v, %v", lost, err)
		}
		if row := p.read(t, id).Effects[0]; row.Status != fsm.EffectUnknown {
			t.Errorf("it is %s", row.Status)
		}
	})
}

// guarantee R-03
func TestACutBeforeTheCommitLeavesNoTraceOfChildrenAndCalls(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		var cutAt string
		cut := fault.New(fault.Unavailable, "cut")
		b := &bench{Store: reopened(t, Config{URL: url, Fault: func(point string) error {
			if point == cutAt {
				return cut
			}
			return nil
		}})}
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := newSimple(b.Store)
		of, leased := p.parent(t)
		p.plan = childPlan(t)
		child := p.child(t, of, 0)
		call := b.keep(t, "w1", []byte("h"))
		starting, ending, taking := childJob(t, of, 1), raiseJob(t, child, "approve"), raiseJob(t, p.started(t), "approve")
		taking.Callback = call.ID
		for point, act := range map[string]func() error{
			PointChildStarted: func() error { return b.Commit(t.Context(), []*Job{starting}, p, CommitOptions{}) },
			PointChildEnded:   func() error { return b.Commit(t.Context(), []*Job{ending}, p, CommitOptions{}) },
			PointCallTaken:    func() error { return b.Commit(t.Context(), []*Job{taking}, p, CommitOptions{}) },
			PointPark:         func() error { _, err := b.ParkEffect(t.Context(), &leased, ""); return err },
			PointCallKept: func() error {
				_, err := b.KeepCall(t.Context(), &Call{ID: newID(t), Source: "esign", WebhookID: "w2", BodyHash: []byte{1}}, time.Hour, time.Second)
				return err
			},
		} {
			cutAt = point
			wantCode(t, act(), fault.Unavailable)
			if got := b.children(t, of); got != "0 running" || b.call(t, call.ID).Status != CallWaiting || b.count(t, "callbacks_early") != 1 {
				t.Errorf("%s left children %s, call %+v", point, got, b.call(t, call.ID))
			}
			if parked, err := b.ParkedEffect(t.Context(), of); err != nil || parked != nil {
				t.Errorf("%s left the effect parked: %v", point, err)
			}
		}
		cutAt = ""
		again := raiseJob(t, child, "approve")
		p.commit(t, again)
		wantWritten(t, again)
	})
}
