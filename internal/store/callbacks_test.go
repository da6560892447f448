package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

// keep keeps a call of the source esign that must be new.
func (b *bench) keep(t testing.TB, webhookID string, hashes ...[]byte) *Call {
	t.Helper()
	c := &Call{
		ID: newID(t), Source: "esign", WebhookID: webhookID, BodyHash: []byte{1, 2}, Event: "signed", Input: map[string]any{"n": json.Number("1.0")},
		Comment: "ok", Documents: map[string]any{"deed": "x"}, Definition: "simple", Key: "K-1", Hashes: hashes,
	}
	first, err := b.KeepCall(t.Context(), c, time.Hour, 10*time.Second)
	if err != nil || first != nil {
		t.Fatalf("first %+v, %v", first, err)
	}
	return c
}

// call reads a call that must be there.
func (b *bench) call(t testing.TB, id string) Call {
	t.Helper()
	page, err := b.Calls(t.Context(), CallFilter{ID: id}, Paging{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("call %s: %+v, %v", id, page.Items, err)
	}
	return page.Items[0]
}

func (b *bench) early(t testing.TB, limit int, hashes ...string) []string {
	t.Helper()
	var list [][]byte
	for _, h := range hashes {
		list = append(list, []byte(h))
	}
	calls, err := b.EarlyCalls(t.Context(), list, limit)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, c := range calls {
		ids = append(ids, c.WebhookID)
	}
	return ids
}

func TestAWebhookIDIsKeptOnce(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		kept := b.keep(t, "w1", []byte("b"), []byte("a"), []byte("a"))
		again := &Call{ID: newID(t), Source: "esign", WebhookID: "w1", BodyHash: []byte{9}, Event: "other", Hashes: [][]byte{[]byte("c")}}
		first, err := b.KeepCall(t.Context(), again, time.Hour, time.Second)
		if err != nil || first == nil {
			t.Fatal(first, err)
		}
		want := *kept
		want.Hashes = [][]byte{[]byte("a"), []byte("b")}
		if !reflect.DeepEqual(*first, want) {
			t.Errorf("the first call is\n%+v\nwant\n%+v", *first, want)
		}
		if ids := b.early(t, 10, "c"); len(ids) != 0 {
			t.Error("the replay's hashes were written")
		}
		other := &Call{ID: newID(t), Source: "bank", WebhookID: "w1", BodyHash: []byte{1}}
		if first, err := b.KeepCall(t.Context(), other, time.Hour, time.Second); err != nil || first != nil {
			t.Errorf("another source's id: %+v, %v", first, err)
		}
	})
}

func TestOfManyThatBringOneCallOneKeepsIt(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		type outcome struct {
			first *Call
			err   error
		}
		outcomes := make(chan outcome, 8)
		for range cap(outcomes) {
			c := &Call{ID: newID(t), Source: "esign", WebhookID: "w", BodyHash: []byte{1}, Hashes: [][]byte{[]byte("h")}}
			go func() {
				first, err := b.KeepCall(context.Background(), c, time.Hour, time.Second)
				outcomes <- outcome{first, err}
			}()
		}
		kept := 0
		for range cap(outcomes) {
			o := <-outcomes
			if o.err != nil {
				t.Error(o.err)
			}
			if o.first == nil {
				kept++
			} else if len(o.first.Hashes) != 1 {
				t.Errorf("the first was read without its hashes: %+v", o.first)
			}
		}
		if kept != 1 || b.count(t, "callbacks_early") != 1 || b.count(t, "callbacks_matches") != 1 {
			t.Errorf("%d kept the call", kept)
		}
	})
}

func TestEarlyCallsComeInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		for i := range 5 {
			hash := []string{"a", "b"}[i%2]
			b.keep(t, fmt.Sprint("w", i), []byte(hash), []byte("all"))
			b.pass(time.Second)
		}
		for _, c := range []struct {
			limit  int
			hashes []string
			want   string
		}{
			{10, []string{"all"}, "[w0 w1 w2 w3 w4]"},
			{10, []string{"b", "a", "all"}, "[w0 w1 w2 w3 w4]"},
			{3, []string{"b", "a"}, "[w0 w1 w2]"},
			{10, []string{"b"}, "[w1 w3]"},
			{10, []string{"x"}, "[]"},
			{10, nil, "[]"},
		} {
			if got := fmt.Sprint(b.early(t, c.limit, c.hashes...)); got != c.want {
				t.Errorf("up to %d by %v: %s, want %s", c.limit, c.hashes, got, c.want)
			}
		}
	})
}

func TestAWaitingCallIsLookedAtUntilItIsRefusedOrItsTimeIsOver(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		look := func() []Call {
			t.Helper()
			calls, err := b.CallsToLookAt(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			return calls
		}
		one, two := b.keep(t, "w1", []byte("h")), b.keep(t, "w2", []byte("h"))
		if calls := look(); len(calls) != 0 {
			t.Errorf("looked at before its time: %+v", calls)
		}
		b.pass(10 * time.Second)
		calls := look()
		if len(calls) != 2 || !reflect.DeepEqual(calls[0].Hashes, one.Hashes) {
			t.Fatalf("to look at: %+v", calls)
		}
		if err := b.CallLooked(t.Context(), one.ID, "3 instances wait for it", time.Minute); err != nil {
			t.Fatal(err)
		}
		if calls := look(); len(calls) != 1 || calls[0].ID != two.ID {
			t.Errorf("after a look: %+v", calls)
		}
		if got := b.call(t, one.ID); got.Looks != 1 || got.Detail != "3 instances wait for it" || got.Status != CallWaiting {
			t.Errorf("after a look: %+v", got)
		}
		instance := newID(t)
		for range 2 {
			if err := b.RefuseCall(t.Context(), two.ID, instance, "not allowed"); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.call(t, two.ID); got.Status != CallRefused || got.Instance != instance || got.Detail != "not allowed" {
			t.Errorf("refused: %+v", got)
		}
		if ids := b.early(t, 10, "h"); fmt.Sprint(ids) != "[w1]" {
			t.Errorf("found %v", ids)
		}
		if n, err := b.ExpireCalls(t.Context(), 10); err != nil || n != 0 {
			t.Errorf("expired %d, %v", n, err)
		}
		b.pass(time.Hour)
		if n, err := b.ExpireCalls(t.Context(), 10); err != nil || n != 1 {
			t.Errorf("expired %d, %v; want one", n, err)
		}
		if got := b.call(t, one.ID); got.Status != CallExpired || len(b.early(t, 10, "h")) != 0 || len(look()) != 0 || b.count(t, "callbacks_matches") != 0 {
			t.Errorf("expired: %+v", got)
		}
	})
}

func TestCallsAreFoundByEveryFilterNewestFirst(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		instance := newID(t)
		one := b.keep(t, "w1")
		b.pass(time.Second)
		two := b.keep(t, "w2")
		if err := b.RefuseCall(t.Context(), one.ID, instance, "no"); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Second)
		three := &Call{ID: newID(t), Source: "bank", WebhookID: "w1", BodyHash: []byte{1}, Event: "paid"}
		if _, err := b.KeepCall(t.Context(), three, time.Hour, time.Second); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			filter CallFilter
			want   []string
		}{
			"all":          {CallFilter{}, []string{three.ID, two.ID, one.ID}},
			"id":           {CallFilter{ID: two.ID}, []string{two.ID}},
			"no id":        {CallFilter{ID: "x"}, nil},
			"source":       {CallFilter{Source: "esign"}, []string{two.ID, one.ID}},
			"status":       {CallFilter{Status: CallWaiting}, []string{three.ID, two.ID}},
			"event":        {CallFilter{Event: "paid"}, []string{three.ID}},
			"instance":     {CallFilter{Instance: instance}, []string{one.ID}},
			"no instance":  {CallFilter{Instance: "x"}, nil},
			"all together": {CallFilter{Source: "esign", Status: CallRefused, Event: "signed"}, []string{one.ID}},
		} {
			ids := []string{}
			for _, call := range walk(t, 1, func() {}, func(ctx context.Context, p Paging) (Page[Call], error) { return b.Calls(ctx, c.filter, p) }) {
				ids = append(ids, call.ID)
			}
			wantIDs(t, name, ids, c.want...)
		}
	})
}

func TestTheShapesOfCorrelationsAreNotedOnce(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		for _, paths := range [][]string{{"order.id"}, {"b", "a"}, {"a", "b"}, nil} {
			if err := b.AddCorrelationPaths(t.Context(), "paid", paths); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.CorrelationPaths(t.Context(), "paid")
		if want := [][]string{{"a", "b"}, {"order.id"}}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v", got, err)
		}
		if none, err := b.CorrelationPaths(t.Context(), "signed"); err != nil || len(none) != 0 {
			t.Errorf("of another event: %v, %v", none, err)
		}
	})
}

func TestALiveInstanceIsFoundByItsBusinessKey(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		p.plan = func(job *Job) {
			simpleStep(job)
			if job.Event.Kind == fsm.KindStart {
				job.Step.Instance.Key = "K-1"
			}
		}
		b.write(t, `INSERT INTO definitions (name, version, hash, title, source, published_at, published_by) VALUES ('simple', 1, 'h', '', ?, ?, '')`,
			[]byte{}, stamp(base))
		id := p.started(t, Claim{Kind: ClaimBusinessKey, Scope: "simple", Key: "K-1"})
		find := func(definition, key string) string {
			t.Helper()
			ids, err := b.LiveByKey(t.Context(), definition, key, 2)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(ids)
		}
		found := "[" + id + "]"
		if find("simple", "K-1") != found || find("", "K-1") != found || find("other", "K-1") != "[]" || find("", "K-2") != "[]" || find("simple", "") != "[]" {
			t.Error("the holder of a key is not found")
		}
		hashes, err := b.HashesOf(t.Context(), id)
		if want := [][]byte{fsm.KeyHash("simple", "K-1"), fsm.KeyHash("", "K-1")}; err != nil || !reflect.DeepEqual(hashes, want) {
			t.Errorf("hashes %v, %v", hashes, err)
		}
		p.ends(t, id, "approve")
		hashes, err = b.HashesOf(t.Context(), id)
		if find("simple", "K-1") != "[]" || find("", "K-1") != "[]" || err != nil || len(hashes) != 0 {
			t.Errorf("a finished instance is found by its key: %v, %v", hashes, err)
		}
	})
}

func TestAWaitingCallIsFoundUnderHashesThatCameLater(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		early := b.keep(t, "w1", []byte("a"))
		b.pass(time.Second)
		b.keep(t, "w2", []byte("b"))
		for range 2 {
			if err := b.AddCallHashes(t.Context(), early.ID, [][]byte{[]byte("b"), []byte("a"), []byte("b")}); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(b.early(t, 10, "b")); got != "[w1 w2]" {
			t.Errorf("under the later hash: %s", got)
		}
		if err := b.RefuseCall(t.Context(), early.ID, "", "no"); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{early.ID, newID(t), "x"} {
			if err := b.AddCallHashes(t.Context(), id, [][]byte{[]byte("c")}); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if got := fmt.Sprint(b.early(t, 10, "a", "b", "c")); got != "[w2]" || b.count(t, "callbacks_matches") != 1 {
			t.Errorf("a refused call is found: %s", got)
		}
	})
}

func TestACrashWhileACallIsKeptLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		at := ""
		b := &bench{Store: reopened(t, Config{URL: url, Fault: func(point string) error {
			if point == at {
				return cut
			}
			return nil
		}})}
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, point := range []string{PointCallKept, PointCallKeptCommit} {
			at = point
			call := func() *Call {
				return &Call{ID: newID(t), Source: "esign", WebhookID: point, BodyHash: []byte{1}, Hashes: [][]byte{[]byte(point)}}
			}
			if first, err := b.KeepCall(t.Context(), call(), time.Hour, time.Second); !errors.Is(err, cut) || first != nil {
				t.Errorf("%s: %+v, %v", point, first, err)
			}
			at = ""
			first, err := b.KeepCall(t.Context(), call(), time.Hour, time.Second)
			if err != nil || (first != nil) != (point == PointCallKeptCommit) {
				t.Errorf("%s, again: %+v, %v", point, first, err)
			}
			if got := fmt.Sprint(b.early(t, 10, point)); got != "["+point+"]" {
				t.Errorf("%s: kept %s", point, got)
			}
		}
		kept := b.keep(t, "w")
		at = PointCallHashes
		if err := b.AddCallHashes(t.Context(), kept.ID, [][]byte{[]byte("h")}); !errors.Is(err, cut) || len(b.early(t, 10, "h")) != 0 {
			t.Errorf("cut hashes: %v", err)
		}
	})
}

func TestWaitingCallsAreCountedUpToALimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Postgres(t))
	b.write(t, `INSERT INTO callbacks_early (id, source, webhook_id, body_hash, event, input, comment, documents, definition, instance_key, status, detail,
		taken_seq, received_at, expires_at, looks) SELECT gen_random_uuid(), 's', n, '', '', '', '', '', '', '', CASE WHEN n > 3 THEN 'waiting' ELSE 'taken' END, '', 0,
		now(), now(), 0 FROM generate_series(1, 10010) n`)
	for _, want := range []int{callsCounted, 7} {
		if want == 7 {
			b.write(t, "DELETE FROM callbacks_early WHERE CAST(webhook_id AS int) > 10")
		}
		if counts, err := b.Counts(t.Context()); err != nil || counts.CallsWaiting != want {
			t.Errorf("%d are counted, %v; want %d", counts.CallsWaiting, err, want)
		}
	}
}
