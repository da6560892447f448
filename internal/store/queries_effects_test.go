package store

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"vobo/internal/fsm"
)

// effect writes an effect and returns its id; change is SQL that sets more columns.
func (b *bench) effect(t *testing.T, instance string, n int, kind string, status fsm.EffectStatus, queued time.Time) string {
	t.Helper()
	b.write(t, `INSERT INTO effects (instance_id, seq, n, name, kind, wait, droppable, idempotent, reversible, priority, host, request,
		allowed, first_ms, max_ms, input, undoes_seq, undoes_n, link_seq, link_n, status, result, attempts, fence, started, queued_at)
		VALUES (?, 2, ?, 'welcome', ?, 1, ?, ?, ?, 3, '', '{}', 24, 5000, 21600000, '', 0, 0, 0, 0, ?, '', 0, 0, ?, ?)`,
		instance, n, kind, true, true, false, string(status), false, stamp(queued))
	if status == fsm.EffectWaiting || status == fsm.EffectRetrying {
		b.write(t, "UPDATE effects SET next_at = queued_at WHERE instance_id = ? AND seq = 2 AND n = ?", instance, n)
	}
	return fmt.Sprintf("%s-2-%d", instance, n)
}

func (b *bench) findEffects(t *testing.T, f EffectFilter) []string {
	t.Helper()
	return effectIDs(walk(t, 1, func() {}, func(ctx context.Context, p Paging) (Page[EffectInfo], error) { return b.Effects(ctx, f, p) }))
}

func effectIDs(effects []EffectInfo) []string {
	ids := []string{}
	for _, e := range effects {
		ids = append(ids, fmt.Sprintf("%s-%d-%d", e.Instance, e.Seq, e.N))
	}
	return ids
}

func TestEffectsAreFoundByEveryFilterNewestFirst(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		one, other := b.instance(t, fsm.Instance{}), b.instance(t, fsm.Instance{Definition: "payment"})
		mail := b.effect(t, one, 1, "email", fsm.EffectSucceeded, base)
		hook := b.effect(t, one, 2, "webhook", fsm.EffectDead, base)
		task := b.effect(t, other, 1, "task-mail", fsm.EffectUnknown, base.Add(time.Minute))
		notice := b.effect(t, other, 2, "notice-mail", fsm.EffectWaiting, base.Add(-time.Minute))
		b.write(t, "UPDATE effects SET name = 'goodbye' WHERE kind = 'task-mail'")
		b.write(t, "UPDATE effects SET host = 'bank.example:8443' WHERE kind = 'webhook'")
		for name, c := range map[string]struct {
			filter EffectFilter
			want   []string
		}{
			"nothing":            {EffectFilter{}, []string{task, hook, mail, notice}},
			"id":                 {EffectFilter{ID: hook}, []string{hook}},
			"no id":              {EffectFilter{ID: "x"}, nil},
			"instance":           {EffectFilter{Instance: one}, []string{hook, mail}},
			"no instance":        {EffectFilter{Instance: "x"}, nil},
			"statuses":           {EffectFilter{Status: []fsm.EffectStatus{fsm.EffectDead, fsm.EffectUnknown}}, []string{task, hook}},
			"kind":               {EffectFilter{Kind: "webhook"}, []string{hook}},
			"instance and kind":  {EffectFilter{Instance: other, Kind: "webhook"}, nil},
			"a status not known": {EffectFilter{Status: []fsm.EffectStatus{"x"}}, nil},
			"open ones":          {EffectFilter{Status: []fsm.EffectStatus{fsm.EffectWaiting, fsm.EffectRunning, fsm.EffectDead}}, []string{hook, notice}},
			"ended and dead":     {EffectFilter{Status: []fsm.EffectStatus{fsm.EffectSucceeded, fsm.EffectDead}}, []string{hook, mail}},
			"name":               {EffectFilter{Name: "goodbye"}, []string{task}},
			"host":               {EffectFilter{Host: "Bank.example:8443"}, []string{hook}},
			"host and status":    {EffectFilter{Host: "bank.example:8443", Status: []fsm.EffectStatus{fsm.EffectUnknown}}, nil},
			"before":             {EffectFilter{Before: new(base)}, []string{notice}},
			"definition":         {EffectFilter{Definition: "payment"}, []string{task, notice}},
			"all together":       {EffectFilter{Definition: "payment", Name: "goodbye", Kind: "task-mail", Before: new(base.Add(time.Hour)), Status: []fsm.EffectStatus{fsm.EffectUnknown}}, []string{task}},
		} {
			wantIDs(t, name, b.findEffects(t, c.filter), c.want...)
		}
		wantIDs(t, "the mailbox", effectIDs(walk(t, 2, func() {}, b.Mailbox)), task, mail, notice)
	})
}

func TestAnEffectIsListedWithAllItsColumnsAndAttempts(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		id := b.instance(t, fsm.Instance{})
		b.effect(t, id, 1, "webhook", fsm.EffectRetrying, base)
		b.effect(t, id, 2, "webhook", fsm.EffectRunning, base.Add(-time.Minute))
		next, finished := base.Add(time.Hour), base.Add(time.Second)
		b.write(t, `UPDATE effects SET next_at = ?`, stamp(next))
		b.write(t, `UPDATE effects SET request = ?, input = ?, undoes_seq = 1, undoes_n = 2, link_seq = 3, link_n = 4, result = ?, done_at = ? WHERE n = 1`,
			`{"webhook": {"method":"POST"}}`, `{"a":1.0}`, `[1e2]`, stamp(next))
		for fence, at := range []time.Time{base, base.Add(time.Minute)} {
			b.write(t, `INSERT INTO attempts (instance_id, seq, n, fence, attempt, at, outcome, detail, http) VALUES (?, 2, 1, ?, ?, ?, 'started', '', 0)`,
				id, fence+9, fence+1, stamp(at))
		}
		b.write(t, `UPDATE attempts SET finished_at = ?, outcome = 'retry', detail = 'busy', http = 503 WHERE attempt = 1`, stamp(finished))
		want := EffectInfo{
			Instance: id,
			QueuedEffect: fsm.QueuedEffect{
				EffectID: fsm.EffectID{Seq: 2, N: 1}, Name: "welcome", Kind: "webhook", Wait: 1, Droppable: true, Idempotent: true, Priority: 3,
				Request: json.RawMessage(`{"webhook": {"method":"POST"}}`), Attempts: 24, First: 5 * time.Second, Max: 6 * time.Hour,
				Input: map[string]any{"a": json.Number("1.0")}, Undoes: fsm.EffectID{Seq: 1, N: 2}, Link: fsm.EffectID{Seq: 3, N: 4},
			},
			Status: fsm.EffectRetrying, Result: []any{json.Number("1e2")}, NextAttemptAt: &next, QueuedAt: base, DoneAt: &next,
			Attempts: []Attempt{
				{N: 1, At: base, FinishedAt: &finished, Outcome: "retry", Detail: "busy", HTTP: 503},
				{N: 2, At: base.Add(time.Minute), Outcome: "started"},
			},
		}
		page, err := b.Effects(t.Context(), EffectFilter{Instance: id}, Paging{})
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("got %+v, %v", page, err)
		}
		one, err := b.Effects(t.Context(), EffectFilter{ID: id + "-2-1"}, Paging{})
		if err != nil || len(one.Items) != 1 || !reflect.DeepEqual(one.Items[0], want) {
			t.Errorf("by its id got  %+v, %v\nwant %+v", one.Items, err, want)
		}
		want.Input, want.Result = nil, nil
		if !reflect.DeepEqual(page.Items[0], want) {
			t.Errorf("listed got  %+v\nwant %+v", page.Items[0], want)
		}
		if running := page.Items[1]; running.NextAttemptAt != nil || running.Attempts != nil {
			t.Errorf("the running one is %+v", running)
		}
	})
}

func TestAListLeavesLongRequestsWhereTheyAre(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		id := b.instance(t, fsm.Instance{})
		short, long := `{"x":"`+strings.Repeat("é", 32<<10-4)+`"}`, `{"x":"`+strings.Repeat("é", 32<<10-3)+`"}`
		if len(short) != listedRequest {
			t.Fatalf("%d bytes", len(short))
		}
		for n, request := range []string{short, long} {
			b.effect(t, id, n+1, "email", fsm.EffectDead, base)
			b.write(t, "UPDATE effects SET request = ?, result = ? WHERE n = ?", request, `{"big":1}`, n+1)
		}
		for name, list := range map[string]func() (Page[EffectInfo], error){
			"effects": func() (Page[EffectInfo], error) {
				return b.Effects(t.Context(), EffectFilter{Instance: id}, Paging{})
			},
			"mailbox": func() (Page[EffectInfo], error) { return b.Mailbox(t.Context(), Paging{}) },
		} {
			page, err := list()
			if err != nil || len(page.Items) != 2 {
				t.Fatal(page, err)
			}
			if e := page.Items[0]; e.N != 2 || !e.LeftOut || len(e.Request) != 0 || e.Result != nil {
				t.Errorf("%s: of the long one %d bytes are read, left out %v, result %v", name, len(e.Request), e.LeftOut, e.Result)
			}
			if e := page.Items[1]; e.LeftOut || string(e.Request) != short || e.Result != nil {
				t.Errorf("%s: of the short one %d bytes are read, left out %v", name, len(e.Request), e.LeftOut)
			}
		}
		whole, err := b.Effects(t.Context(), EffectFilter{ID: id + "-2-2"}, Paging{})
		if err != nil || len(whole.Items) != 1 || string(whole.Items[0].Request) != long || whole.Items[0].LeftOut || whole.Items[0].Result == nil {
			t.Errorf("by its id %d rows, %v", len(whole.Items), err)
		}
	})
}

func TestWhatAPersonGaveUpIsOverUntilItIsTriedAgain(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		id := p.queue(t, webhook(1, 1), webhook(1, 1))
		for _, e := range p.claim(t, 2) {
			p.finish(t, finishOf(e, fsm.EffectDead))
		}
		first := fsm.EffectID{Seq: 1, N: 1}
		stands := func(want bool) {
			t.Helper()
			row := p.read(t, id).Effects[0]
			page, err := b.Effects(t.Context(), EffectFilter{ID: id + "-1-1"}, Paging{})
			if err != nil || row.GivenUp != want || page.Items[0].GivenUp != want || row.Status != page.Items[0].Status {
				t.Errorf("given up: %+v and %+v, %v; want %v", row, page.Items, err, want)
			}
			open := 2
			if want {
				open = 1
			}
			counts, err := b.Counts(t.Context())
			if n := counts.EffectsByStatus["dead"]; err != nil || n != counts.DeadByKind["webhook"] || want && n != 1 {
				t.Errorf("%d are counted as dead, %v", n, err)
			}
			if listed, err := b.Effects(t.Context(), EffectFilter{Open: true}, Paging{}); err != nil || len(listed.Items) != open {
				t.Errorf("%d are open, %v; want %d", len(listed.Items), err, open)
			}
		}
		resolve := func(status fsm.EffectStatus) {
			t.Helper()
			p.plan = func(job *Job) { job.Step = stayStep(job); job.Step.Result = job.Event.Result }
			job := &Job{Event: &fsm.Event{ID: newID(t), Instance: id, Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{
				Effect: first, Status: status, Resolved: true, Outcome: "resolved",
			}}}
			p.commit(t, job)
			wantWritten(t, job)
		}
		stands(false)
		resolve(fsm.EffectDead)
		stands(true)
		candidates, err := b.RedriveCandidates(t.Context(), EffectFilter{Status: []fsm.EffectStatus{fsm.EffectDead}}, Paging{})
		if err != nil || len(candidates.Items) != 1 {
			t.Fatalf("candidates %+v, %v", candidates.Items, err)
		}
		if c := candidates.Items[0]; c.Instance != id || c.Effect.N != 2 || c.Kind != "webhook" || c.Status != fsm.EffectDead || c.Attempts != 1 || c.DoneAt == nil {
			t.Errorf("candidate %+v", c)
		}
		p.plan = func(job *Job) {
			job.Step = stayStep(job)
			job.Step.EffectChanges = []fsm.EffectChange{{EffectID: first, Status: fsm.EffectWaiting, Retry: true}}
		}
		retry := &Job{Event: &fsm.Event{ID: newID(t), Instance: id, Kind: fsm.KindRetryEffect, Effect: &first}}
		p.commit(t, retry)
		wantWritten(t, retry)
		stands(false)
		p.finish(t, finishOf(p.claim(t, 1)[0], fsm.EffectDead))
		stands(false)
		resolve(fsm.EffectDead)
		stands(true)
		resolve(fsm.EffectSucceeded)
		stands(false)
	})
}
