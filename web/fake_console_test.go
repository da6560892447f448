package web

import (
	"context"
	"slices"
	"time"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// console is what the fake service answers to the pages of operators.
type console struct {
	calls    []approval.CallView
	children []approval.ChildView
	sinks    []approval.SinkView
	redrive  approval.RedriveRequest // the last that was no dry run
	paging   store.Paging            // the last of a list of effects
}

// overseen refuses as the service does those who do not oversee.
func overseen(c approval.Caller) error {
	if !c.HasRole("operator", "admin", "auditor", "viewer") {
		return fault.New(fault.Forbidden, "Only those who oversee may read this.")
	}
	return nil
}

func operated(c approval.Caller) error {
	if !c.HasRole("operator", "admin") {
		return fault.New(fault.Forbidden, "Only operators may do this.")
	}
	return nil
}

func (f *fakeService) Effects(_ context.Context, c approval.Caller, filter store.EffectFilter, p store.Paging) (store.Page[approval.EffectView], error) {
	if filter.Instance == "" {
		if err := overseen(c); err != nil {
			return store.Page[approval.EffectView]{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Limit == 0 {
		f.paging = p
	}
	page := store.Page[approval.EffectView]{Items: f.fitting(filter)}
	if p.Limit > 0 && len(page.Items) > p.Limit {
		page.Items, page.Next = page.Items[:p.Limit], "more"
	}
	return page, nil
}

func (f *fakeService) fitting(filter store.EffectFilter) (all []approval.EffectView) {
	for _, e := range f.effects {
		fits := (len(filter.Status) == 0 || slices.Contains(filter.Status, e.Status)) && (filter.Name == "" || filter.Name == e.Name) &&
			(filter.Kind == "" || filter.Kind == e.Kind) && (filter.Host == "" || filter.Host == "sign.example.com") && (filter.Instance == "" || filter.Instance == e.InstanceID)
		if fits && (!filter.Open || !e.GivenUp) && (filter.Before == nil || e.QueuedAt.Before(*filter.Before)) {
			all = append(all, e)
		}
	}
	return all
}

func (f *fakeService) EffectCounts(_ context.Context, c approval.Caller) (map[fsm.EffectStatus]int, error) {
	counts := map[fsm.EffectStatus]int{}
	for _, e := range f.effects {
		if !e.GivenUp {
			counts[e.Status]++
		}
	}
	return counts, overseen(c)
}

func (f *fakeService) Effect(_ context.Context, c approval.Caller, id string) (*approval.EffectView, error) {
	for _, e := range f.effects {
		if e.ID == id {
			if overseen(c) != nil {
				e.Request, e.Attempts = nil, slices.Clone(e.Attempts)
				for i := range e.Attempts {
					e.Attempts[i].Answer = ""
				}
			}
			return &e, nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no such effect, or it is not yours to read.")
}

func (f *fakeService) RetryEffect(_ context.Context, c approval.Caller, id, reason string, _ approval.Idempotency) (*approval.EffectView, error) {
	if err := operated(c); err != nil {
		return nil, err
	}
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.note("retry %s: %s", id, reason)
	return &approval.EffectView{}, nil
}

func (f *fakeService) ResolveEffect(_ context.Context, c approval.Caller, id string, r approval.ResolveRequest, _ approval.Idempotency) (*approval.EffectView, error) {
	if err := operated(c); err != nil {
		return nil, err
	}
	f.solved = r
	f.note("resolve %s %s: %s", id, r.Outcome, r.Reason)
	return &approval.EffectView{}, nil
}

func (f *fakeService) Redrive(_ context.Context, c approval.Caller, r approval.RedriveRequest, _ approval.Idempotency) (*approval.RedriveResult, error) {
	if err := operated(c); err != nil {
		return nil, err
	}
	if f.refuse != nil && !r.DryRun {
		return nil, f.refuse
	}
	items := f.fitting(store.EffectFilter{Status: r.Status, Name: r.Name, Kind: r.Kind, Host: r.Host, Instance: r.Instance, Before: r.Before, Open: true})
	out := &approval.RedriveResult{Matched: len(items), DryRun: r.DryRun}
	for i, e := range items {
		item := approval.RedriveItem{Effect: e.ID, Outcome: "would-retry"}
		switch {
		case r.DryRun:
		case i == 0 && len(items) > 1:
			item.Outcome, item.Detail = "skipped", "It is done meanwhile."
			out.Skipped++
		default:
			item.Outcome = "retried"
			out.Retried++
		}
		out.Items = append(out.Items, item)
	}
	if !r.DryRun {
		f.redrive = r
		f.note("redrive %d: %s", out.Retried, r.Reason)
	}
	return out, nil
}

func (f *fakeService) Calls(_ context.Context, c approval.Caller, filter store.CallFilter, p store.Paging) (page store.Page[approval.CallView], err error) {
	if err := overseen(c); err != nil {
		return page, err
	}
	for _, call := range f.calls {
		if (filter.Status == "" || filter.Status == call.Status) && (filter.Source == "" || filter.Source == call.Source) && (filter.Event == "" || filter.Event == call.Event) {
			page.Items = append(page.Items, call)
		}
	}
	if p.Cursor == "" && p.Limit == 0 && len(page.Items) > 0 {
		page.Next = "older"
	}
	return page, nil
}

func (f *fakeService) Children(_ context.Context, _ approval.Caller, instance, effect string, _ store.Paging) (page store.Page[approval.ChildView], err error) {
	if instance != f.view.ID {
		return page, fault.New(fault.NotFound, "There is no request of this name, or you may not read it.")
	}
	for _, child := range f.children {
		if effect == "" || effect == child.Effect {
			page.Items = append(page.Items, child)
		}
	}
	return page, nil
}

func (f *fakeService) Sinks(_ context.Context, c approval.Caller) ([]approval.SinkView, error) {
	return f.sinks, overseen(c)
}

func (f *fakeService) EnableSink(_ context.Context, c approval.Caller, name, reason string) (*approval.SinkView, error) {
	if err := operated(c); err != nil {
		return nil, err
	}
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.note("enable %s: %s", name, reason)
	return &approval.SinkView{Name: name, Enabled: true}, nil
}

// the ids of the samples' effects.
const (
	effectUnknown  = sampleID + "-4-1"
	effectDone     = sampleID + "-1-1"
	effectDead     = sampleID + "-5-1"
	effectRetrying = sampleID + "-5-2"
	effectManual   = sampleID + "-6-1"
	effectUndo     = sampleID + "-6-2"
	effectAccount  = sampleID + "-2-1"
)

func sampleEffects() []approval.EffectView {
	ago := func(minutes int) approval.Time { return approval.Time{Time: sampleNow.Add(-minutesOf(minutes))} }
	at := func(minutes int) *approval.Time { t := ago(minutes); return &t }
	later := func(minutes int, d time.Duration) *approval.Time {
		t := approval.Time{Time: ago(minutes).Add(d)}
		return &t
	}
	return []approval.EffectView{
		{
			ID: effectManual, InstanceID: sampleID, Name: "undo order_badge", Kind: "manual", Key: "k", Status: fsm.EffectUnknown, Undoes: sampleID + "-2-2", QueuedAt: ago(4), CorrelationID: sampleID + "/6/1", Attempts: []approval.AttemptView{},
		},
		{
			ID: effectUndo, InstanceID: sampleID, Name: "close_account", Kind: "webhook", Status: fsm.EffectDead, Undoes: effectAccount, Idempotent: true, QueuedAt: ago(3), FinishedAt: at(2), CorrelationID: sampleID + "/6/2", To: "POST https://core.example.com/accounts/4711/close",
			Reason: "core.example.com answered 409 Conflict.", Attempts: []approval.AttemptView{{N: 1, At: ago(3), FinishedAt: at(2), Outcome: "permanent", Detail: "core.example.com answered 409 Conflict.", Status: 409, Answer: `{"error":"the account has a balance"}`}},
		},
		{
			ID: effectDead, InstanceID: sampleID, Name: "create_account", Kind: "webhook", Status: fsm.EffectDead, Idempotent: true, Reversible: true, QueuedAt: ago(1500), FinishedAt: at(90), CorrelationID: sampleID + "/5/1", To: "POST https://core.example.com/accounts",
			Reason: "core.example.com answered 422 Unprocessable Entity.",
			Attempts: []approval.AttemptView{
				{N: 1, At: ago(1500), FinishedAt: at(1500), Outcome: "retry", Detail: "No connection to core.example.com: connection refused."},
				{N: 2, At: ago(900), FinishedAt: later(900, 340*time.Millisecond), Outcome: "retry", Detail: "core.example.com answered 503 Service Unavailable.", Status: 503, Answer: "upstream is down"},
				{N: 3, At: ago(90), FinishedAt: later(90, 2540*time.Millisecond), Outcome: "permanent", Detail: "core.example.com answered 422 Unprocessable Entity.", Status: 422, Answer: `{"errors":[{"field":"tax_id","problem":"is not valid in ES"}]}`},
			},
			Request: &approval.RequestView{Method: "POST", URL: "https://core.example.com/accounts", Credentials: "core", Headers: [][2]string{{"Content-Type", "application/json"}, {"X-Region", "north"}}, Body: []byte(`{"name":"Talleres Núñez S.L.","tax_id":"B-77120041","yearly":1250000,"notify":"[callback link]"}`)},
		},
		{
			ID: effectRetrying, InstanceID: sampleID, Name: "tell_partner", Kind: "webhook", Status: fsm.EffectRetrying, QueuedAt: ago(40), NextAttemptAt: at(-12), To: "POST https://partner.example.com/hooks", CorrelationID: sampleID + "/5/2",
			Attempts: []approval.AttemptView{{N: 1, At: ago(40), Outcome: "retry", Detail: "partner.example.com answered 429 Too Many Requests.", Status: 429}},
		},
		{
			ID: effectUnknown, InstanceID: sampleID, Name: "ask_signature", Kind: "webhook", Status: fsm.EffectUnknown, QueuedAt: ago(11), FinishedAt: at(10), To: "POST https://sign.example.com/envelopes", CorrelationID: sampleID + "/4/1",
			Reason:   "The request went out to sign.example.com and got no answer: timeout.",
			Attempts: []approval.AttemptView{{N: 1, At: ago(10), FinishedAt: at(10), Outcome: "unknown", Detail: "no answer after 20 s"}},
			Request:  &approval.RequestView{Method: "POST", URL: "https://sign.example.com/envelopes", Body: []byte(`{"signer":"alta@talleres.example"}`)},
		},
		{ID: effectAccount, InstanceID: sampleID, Name: "open_account", Kind: "webhook", Status: fsm.EffectSucceeded, Reversible: true, Idempotent: true, QueuedAt: ago(1600), FinishedAt: at(1600), To: "POST https://core.example.com/accounts", Result: []byte(`{"id":9007199254740993}`), Attempts: []approval.AttemptView{{N: 1, At: ago(1600), FinishedAt: at(1600), Outcome: "success", Status: 201}}},
		{ID: sampleID + "-2-2", InstanceID: sampleID, Name: "order_badge", Kind: "webhook", Status: fsm.EffectSucceeded, Reversible: true, QueuedAt: ago(1600), To: "POST https://badges.example.com/orders", Result: []byte(`{"badge":"N-118"}`)},
		{ID: effectDone, InstanceID: sampleID, Name: "task-mail", Kind: "task-mail", Status: fsm.EffectSucceeded, To: "luis@example.com", Reversible: true},
	}
}

func sampleConsole() console {
	ago := func(minutes int) approval.Time { return approval.Time{Time: sampleNow.Add(-minutesOf(minutes))} }
	at := func(minutes int) *approval.Time { t := ago(minutes); return &t }
	return console{
		calls: []approval.CallView{
			{ID: "c-1", Source: "esign", WebhookID: "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", Event: "signed", Key: "B-77120041", Status: "waiting", Detail: "No request waits for it yet.", ReceivedAt: ago(12), ExpiresAt: ago(-10068), Input: map[string]any{"envelope": "E-118", "signer": "alta@talleres.example"}},
			{ID: "c-2", Source: "esign", WebhookID: "msg_2", Event: "declined", Status: "refused", Detail: "The comment is missing: “declined” needs one.", InstanceID: sampleID, ReceivedAt: ago(40), ExpiresAt: ago(0)},
			{ID: "c-3", Source: "bank", WebhookID: "msg_3", Event: "paid", Definition: "invoice", Key: "2026-118", Status: "taken", InstanceID: sampleID, Seq: 4, ReceivedAt: ago(90), ExpiresAt: ago(0)},
			{ID: "c-4", Source: "bank", WebhookID: "msg_4", Event: "paid", Status: "expired", ReceivedAt: ago(12000), ExpiresAt: ago(1000)},
		},
		children: []approval.ChildView{
			{Index: 0, ID: "0198c0de-7a11-7000-8000-0000000000c1", Effect: sampleID + "-3-1", Status: "ended", DoneAt: at(50)},
			{Index: 1, ID: "0198c0de-7a11-7000-8000-0000000000c2", Effect: sampleID + "-3-1", Status: "running"},
			{Index: 2, ID: "0198c0de-7a11-7000-8000-0000000000c3", Effect: sampleID + "-3-1", Status: "failed", DoneAt: at(20)},
			{Index: 3, ID: "0198c0de-7a11-7000-8000-0000000000c4", Effect: sampleID + "-3-2", Status: "cancelled", DoneAt: at(20)},
			{Index: 4, Effect: sampleID + "-3-2", Status: "refused", Detail: "There is a live request for the key north.", DoneAt: at(55)},
		},
		sinks: []approval.SinkView{
			{Name: "warehouse", Host: "events.example.com", Enabled: true, Waiting: 3, Oldest: at(1)},
			{Name: "audit", Host: "audit.example.com", Enabled: false, Reason: "audit.example.com answered 410 Gone.", DisabledAt: at(300), Waiting: 1184, Dead: 12, Oldest: at(300)},
		},
	}
}
