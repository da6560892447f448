package client_test

import (
	"testing"
	"time"

	"vobo/client"
)

func TestARedriveSaysWhatToTryAgainAndCarriesItsKey(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(503, unavailable), answer(200, `{"matched":3,"retried":2,"skipped":1,"dry_run":false,"more":true,
		"items":[{"effect":"e-1","outcome":"retried"},{"effect":"e-2","outcome":"retried"},{"effect":"e-3","outcome":"skipped","detail":"It is succeeded."}]}`, "Idempotent-Replayed", "true"))
	done, err := c.RedriveEffects(t.Context(), client.RedriveRequest{
		Status: []string{"dead", "unknown"}, Definition: "supplier", Host: "core.example.com", Before: time.Date(2026, 12, 3, 10, 0, 0, 0, time.UTC), Limit: 100, Reason: "The core system is back.",
	})
	if err != nil {
		t.Fatal(err)
	}
	if done.Matched != 3 || done.Retried != 2 || done.Skipped != 1 || !done.More || len(done.Items) != 3 || done.Items[2].Detail == "" || !done.Replayed {
		t.Errorf("got %+v", done)
	}
	calls := s.all()
	want := `{"status":["dead","unknown"],"definition":"supplier","host":"core.example.com","before":"2026-12-03T10:00:00Z","limit":100,"reason":"The core system is back."}`
	if len(calls) != 2 || calls[0] != calls[1] || calls[0].key == "" || calls[0].path != "/flow/v1/effects/redrive" || calls[0].body != want {
		t.Errorf("calls %+v, want the body %s", calls, want)
	}
	if _, err := c.RedriveEffects(t.Context(), client.RedriveRequest{DryRun: true, Reason: "x", IdempotencyKey: "mine"}); err != nil {
		t.Fatal(err)
	}
	if last := s.all()[2]; last.key != "mine" || last.body != `{"dry_run":true,"reason":"x"}` {
		t.Errorf("sent %+v", last)
	}
}

func TestAnEffectIsReadWithItsRequestAndAnswers(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(200, `{"id":"i-1-2-1","instance_id":"i-1","name":"create_vendor","kind":"webhook","key":"k","status":"dead","reversible":true,"idempotent":true,
		"attempts":[{"n":1,"at":"2026-12-03T10:00:00.000Z","finished_at":"2026-12-03T10:00:01.250Z","outcome":"permanent","detail":"core answered 422.","status":422,"answer":"{\"error\":\"no tax id\"}"}],
		"correlation_id":"i-1","queued_at":"2026-12-03T09:59:59.000Z","reason":"core answered 422.","given_up":true,"to":"POST https://core.example.com/vendors","result":{"n":1.10},
		"request":{"method":"POST","url":"https://core.example.com/vendors","headers":[["X-Team","red"]],"credentials":"core","body":{"total":12345678901234567890.10}}}`),
		answer(200, `{"items":[]}`))
	e, err := c.Effect(t.Context(), "i-1-2-1")
	if err != nil {
		t.Fatal(err)
	}
	a := e.Attempts[0]
	if e.Reason == "" || e.Request == nil || string(e.Request.Body) != `{"total":12345678901234567890.10}` || e.Request.Headers[0] != [2]string{"X-Team", "red"} || string(e.Result) != `{"n":1.10}` {
		t.Errorf("effect %+v, request %+v", e, e.Request)
	}
	if !e.GivenUp || e.To != "POST https://core.example.com/vendors" {
		t.Errorf("given up %v, to %q", e.GivenUp, e.To)
	}
	if a.Status != 422 || a.Answer != `{"error":"no tax id"}` || a.FinishedAt == nil || a.FinishedAt.Sub(a.At) != 1250*time.Millisecond {
		t.Errorf("attempt %+v", a)
	}
	for range c.Effects(t.Context(), client.EffectQuery{
		Status: []string{"dead", "unknown"}, Kind: "webhook", Host: "a.example.com", Name: "n", Definition: "d", Before: time.Date(2026, 12, 3, 10, 0, 0, 0, time.UTC),
	}) {
		t.Error("an empty list has a row")
	}
	calls := s.all()
	want := "before=2026-12-03T10%3A00%3A00Z&definition=d&host=a.example.com&kind=webhook&name=n&status=dead%2Cunknown"
	if calls[0].path != "/flow/v1/effects/i-1-2-1" || calls[1].query != want {
		t.Errorf("calls %+v", calls)
	}
}

func TestChildrenCallsAndSinksAreReadAndASinkIsEnabled(t *testing.T) {
	t.Parallel()
	c, s := serve(t,
		answer(200, `{"items":[{"index":0,"id":"c-1","effect":"i-1-2-1","status":"ended","done_at":"2026-12-03T10:00:00.000Z"}],"next":"n"}`),
		answer(200, `{"items":[{"index":1,"effect":"i-1-2-1","status":"refused","detail":"The key is in use."}]}`),
		answer(200, `{"items":[{"id":"h-1","source":"esign","webhook_id":"w-1","event":"signed","status":"waiting","received_at":"2026-12-03T10:00:00.000Z","expires_at":"2026-12-10T10:00:00.000Z","input":{"n":1.10}}]}`),
		answer(200, `{"items":[{"name":"erp","host":"erp.example.com","enabled":false,"reason":"It answered 410.","disabled_at":"2026-12-03T10:00:00.000Z","waiting":7,"dead":0}]}`),
		answer(200, `{"name":"erp","host":"erp.example.com","enabled":true,"waiting":7,"dead":0}`))
	var children []*client.Child
	for k, err := range c.Children(t.Context(), "i-1", "i-1-2-1") {
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, k)
	}
	if len(children) != 2 || children[0].ID != "c-1" || children[0].DoneAt == nil || children[1].Status != "refused" || children[1].ID != "" || children[1].Detail == "" {
		t.Errorf("children %+v", children)
	}
	for h, err := range c.Calls(t.Context(), client.CallQuery{Status: "waiting", Source: "esign", Event: "signed", Instance: "i-1"}) {
		if err != nil || h.WebhookID != "w-1" || string(h.Input) != `{"n":1.10}` || h.ExpiresAt.Before(h.ReceivedAt) {
			t.Errorf("call %+v, %v", h, err)
		}
	}
	for sink, err := range c.Sinks(t.Context()) {
		if err != nil || sink.Enabled || sink.Reason == "" || sink.Waiting != 7 || sink.DisabledAt == nil {
			t.Errorf("sink %+v, %v", sink, err)
		}
	}
	sink, err := c.EnableSink(t.Context(), "erp", "It is back.")
	if err != nil || !sink.Enabled {
		t.Fatalf("%+v, %v", sink, err)
	}
	calls := s.all()
	for i, want := range []seen{
		{method: "GET", path: "/flow/v1/instances/i-1/children", query: "effect=i-1-2-1"},
		{method: "GET", path: "/flow/v1/instances/i-1/children", query: "cursor=n&effect=i-1-2-1"},
		{method: "GET", path: "/flow/v1/callbacks", query: "event=signed&instance_id=i-1&source=esign&status=waiting"},
		{method: "GET", path: "/flow/v1/sinks"},
		{method: "POST", path: "/flow/v1/sinks/erp/enable", body: `{"reason":"It is back."}`},
	} {
		if got := calls[i]; got.method != want.method || got.path != want.path || got.query != want.query || got.body != want.body {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
}

func TestAnInstanceSaysHowFarUndoingAndItsChildrenAre(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, answer(200, `{"id":"i-1","state":"vendor_setup","status":"cancelled","parent":"p-1",
		"compensation":{"items":[{"effect":"i-1-2-1","name":"create_vendor","undo":"close_vendor","status":"running"}],"not_undone":["welcome"],"done":false},
		"children":[{"effect":"i-1-2-2","name":"parts","total":3,"running":1,"ended":1,"bad":1}]}`))
	in, err := c.Instance(t.Context(), "i-1")
	if err != nil {
		t.Fatal(err)
	}
	if in.Parent != "p-1" || in.Compensation == nil || in.Compensation.Items[0].Undo != "close_vendor" || in.Compensation.NotUndone[0] != "welcome" || in.Compensation.Done {
		t.Errorf("instance %+v", in)
	}
	if len(in.Children) != 1 || in.Children[0] != (client.ChildCount{Effect: "i-1-2-2", Name: "parts", Total: 3, Running: 1, Ended: 1, Bad: 1}) {
		t.Errorf("children %+v", in.Children)
	}
}
