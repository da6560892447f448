package store

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
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
		one, other := b.instance(t, fsm.Instance{}), b.instance(t, fsm.Instance{})
		mail := b.effect(t, one, 1, "email", fsm.EffectSucceeded, base)
		hook := b.effect(t, one, 2, "webhook", fsm.EffectDead, base)
		task := b.effect(t, other, 1, "task-mail", fsm.EffectUnknown, base.Add(time.Minute))
		notice := b.effect(t, other, 2, "notice-mail", fsm.EffectWaiting, base.Add(-time.Minute))
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
		if !reflect.DeepEqual(page.Items[0], want) {
			t.Errorf("got  %+v\nwant %+v", page.Items[0], want)
		}
		if running := page.Items[1]; running.NextAttemptAt != nil || running.Attempts != nil {
			t.Errorf("the running one is %+v", running)
		}
	})
}
