package fsm_test

import (
	"slices"
	"strings"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

const chain = `
name: chain
version: 1
title: Chain
initial: one
data: {type: object, properties: {a: {type: string, maxLength: 3}, b: {type: string}}}
events:
  stop: {to: stopped, by: [requester, effect], compensate: true, effects: [tell]}
states:
  one:
    owner: [requester]
    enter: [first, mail]
    deadlines: [{after: P9D, fire: late}]
    events: {next: {to: two, by: [requester, effect], effects: [second]}, late: {to: stopped, by: [timer]}}
  two:
    owner: [requester]
    enter: [third, fourth]
    deadlines: [{after: P9D, fire: late}]
    events: {done: {to: end, by: [requester]}, late: {to: stopped, by: [timer]}}
  end: {final: true}
  stopped: {final: failed}
effects:
  first:
    webhook: {url: "https://x.example/first"}
    idempotent: true
    reversible: true
    compensate: undo_first
    on_success: {set: {a: result.id}, fire: next}
    on_failure: {fire: stop}
  second:
    webhook: {url: "https://x.example/second"}
    idempotent: true
    reversible: true
    compensate: undo_second
  third: {webhook: {url: "https://x.example/third"}, idempotent: true, reversible: false, on_success: {set: {b: result.id}}}
  fourth: {webhook: {url: "https://x.example/fourth"}, idempotent: true, reversible: true, compensate: undo_second}
  mail: {email: {to: ["a@example.org", "b@example.org"], subject: "Hi", body: "."}, reversible: false}
  tell: {email: {to: [requester], subject: "Stopped", body: "."}, reversible: false}
  undo_first: {webhook: {url: "https://x.example/first/{{ undone.result.id }}/undo"}, idempotent: true, reversible: false}
  undo_second: {webhook: {url: "https://x.example/undo/{{ undone.result.id }}"}, idempotent: true, reversible: false}
`

func chainBundle(t *testing.T) *bundle {
	b := newBundle(t, parse(t, chain))
	b.start("rosa@example.com", `{}`)
	return b
}

func TestEffectsAreQueuedTransitionFirstThenEntryOnePerRecipient(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	var names []string
	for _, e := range b.w.Effects {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"first", "mail", "mail", "task"}) {
		t.Errorf("queued %v", names)
	}
	step := b.accepted(b.raise("rosa@example.com", "next"))
	names = nil
	for i, e := range step.Effects {
		names = append(names, e.Name)
		if e.Seq != 2 || e.N != i+1 || e.Wait != 2 {
			t.Errorf("%s has id %v of wait %d", e.Name, e.EffectID, e.Wait)
		}
	}
	if !slices.Equal(names, []string{"second", "third", "fourth", "task"}) {
		t.Errorf("queued %v", names)
	}
}

func TestAResultSetsAndFiresWhileItsWaitIsCurrent(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	step := b.accepted(b.outcome("first", fsm.EffectSucceeded, `{"id":"A"}`))
	b.state("two")
	if b.w.Instance.Data["a"] != "A" || step.Transition.Actor.ID != "effect:first" || step.Transition.Event != "next" || step.Result == nil {
		t.Errorf("%+v", step.Transition)
	}
}

func TestALateResultKeepsItsSetOnly(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	b.accepted(b.raise("rosa@example.com", "next"))
	step := b.accepted(b.outcome("first", fsm.EffectSucceeded, `{"id":"A"}`))
	b.state("two")
	if b.w.Instance.Data["a"] != "A" || step.Transition.Kind != fsm.TEffect || !strings.Contains(step.Transition.Reason, "late") {
		t.Errorf("%+v", step.Transition)
	}
}

func TestAResultThatIsRefusedLeavesTheEffectDoneAndAsksForAttention(t *testing.T) {
	t.Parallel()
	for _, result := range []string{`{"id":"too long"}`, `{}`, `{"id":7}`, `null`} {
		b := chainBundle(t)
		step := b.accepted(b.outcome("first", fsm.EffectSucceeded, result))
		b.state("one")
		if b.attention("result-refused") == nil || step.Result == nil || b.effect("first").Status != fsm.EffectSucceeded || b.w.Instance.Data["a"] != nil {
			t.Errorf("%s: attention %v, data %v", result, b.w.Instance.Attention, b.w.Instance.Data)
		}
		b.accepted(b.resolveWith("first", fsm.EffectSucceeded, `{"id":"B"}`))
		if b.attention("result-refused") != nil || b.w.Instance.Data["a"] != "B" {
			t.Errorf("%s, then corrected: attention %v, data %v", result, b.w.Instance.Attention, b.w.Instance.Data)
		}
	}
}

func TestAnOutcomeThatMeansNothingWritesNoHistory(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	for _, name := range []string{"mail", "task"} {
		step := b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{Effect: b.effect(name).EffectID, Status: fsm.EffectSucceeded}}, nil, b.now)
		if step.Refusal != nil || step.Transition.Seq != 0 || step.Result == nil || b.w.Instance.Revision != 1 {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

func TestFailureFiresOnDeadAndGiveUpNeverOnUnknown(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	b.accepted(b.outcome("first", fsm.EffectUnknown, ""))
	b.state("one")
	if b.attention("unknown-effect") == nil {
		t.Fatal("no attention")
	}
	id := b.effect("first").EffectID
	b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindRetryEffect, Actor: b.w.Person("olga@example.com"), Effect: &id}, nil, b.now))
	if b.attention("unknown-effect") != nil || b.effect("first").Status != fsm.EffectWaiting {
		t.Error("a retry does not start it anew")
	}
	b.refused(b.w.Fire(&fsm.Event{Kind: fsm.KindRetryEffect, Effect: &id}, nil, b.now), fault.Conflict)
	b.accepted(b.outcome("first", fsm.EffectUnknown, ""))
	giveUp := &fsm.Event{
		Kind: fsm.KindEffectResult, Actor: b.w.Person("olga@example.com"), Reason: "it is gone",
		Result: &fsm.ResultEvent{Effect: id, Status: fsm.EffectDead, Resolved: true},
	}
	step := b.accepted(b.w.Fire(giveUp, nil, b.now))
	b.state("stopped")
	if step.Transition.Actor.ID != "olga@example.com" || b.attention("unknown-effect") != nil {
		t.Errorf("%+v %v", step.Transition.Actor, b.w.Instance.Attention)
	}
	b.refused(b.w.Fire(giveUp, nil, b.now), fault.Conflict)
}

func TestItHappenedIsASuccessWithAResult(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	b.accepted(b.outcome("first", fsm.EffectUnknown, ""))
	b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Actor: b.w.Person("olga@example.com"), Result: &fsm.ResultEvent{
		Effect: b.effect("first").EffectID, Status: fsm.EffectSucceeded, Resolved: true, Result: tree(t, `{"id":"A"}`),
	}}, nil, b.now))
	b.state("two")
}

func TestCompensationUndoesTheNewestFirstOneAfterAnother(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	b.accepted(b.outcome("first", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("third", fsm.EffectSucceeded, `{"id":"C"}`))
	b.accepted(b.outcome("second", fsm.EffectSucceeded, `{"id":"B"}`)) // later than third, but before it by (seq, n)
	b.accepted(b.raise("rosa@example.com", "stop"))
	if b.effect("fourth").Status != fsm.EffectCancelled || b.effect("mail").Status != fsm.EffectCancelled {
		t.Error("waiting effects are not dropped")
	}
	if b.effect("tell").Status != fsm.EffectWaiting {
		t.Error("the transition's own effect is dropped")
	}
	c := b.w.Instance.Compensation
	if len(c.Items) != 2 || c.Items[0].Name != "second" || c.Items[1].Name != "first" || !slices.Equal(c.NotUndone, []string{"third"}) || c.Done {
		t.Fatalf("plan %+v", c)
	}
	if url := b.effect("undo_second").Frozen.Webhook.URL; url != "https://x.example/undo/B" {
		t.Errorf("undone at %s", url)
	}
	for _, e := range b.w.Effects {
		if e.Name == "undo_first" {
			t.Fatal("both are undone at once")
		}
	}
	b.accepted(b.outcome("undo_second", fsm.EffectDead, ""))
	if b.w.Instance.Compensation.Items[0].Status != "failed" || b.attention("dead-effect") == nil {
		t.Errorf("%+v", b.w.Instance.Compensation)
	}
	b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Actor: b.w.Person("olga@example.com"), Result: &fsm.ResultEvent{
		Effect: b.effect("undo_second").EffectID, Status: fsm.EffectSucceeded, Resolved: true,
	}}, nil, b.now))
	if url := b.effect("undo_first").Frozen.Webhook.URL; url != "https://x.example/first/A/undo" {
		t.Errorf("undone at %s", url)
	}
	last := b.accepted(b.outcome("undo_first", fsm.EffectSucceeded, ""))
	if !b.w.Instance.Compensation.Done || last.Transition.Kind != fsm.TCompensation {
		t.Errorf("%+v, %s", b.w.Instance.Compensation, last.Transition.Kind)
	}
	b.state("stopped")
}

func TestCancelAwaitsWhatRunsAndAnswersTheSamePlanAgain(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	b.accepted(b.raise("rosa@example.com", "next"))
	b.effect("first").Status = fsm.EffectRunning
	b.effect("second").Status = fsm.EffectUnknown
	cancel := &fsm.Event{Kind: fsm.KindCancel, Actor: b.w.Person("olga@example.com"), Reason: "mistake"}
	step := b.accepted(b.w.Fire(cancel, nil, b.now))
	if b.w.Instance.Status != fsm.Cancelled || b.w.Instance.State != "two" || len(b.w.Deadlines) != 0 || b.w.Tasks[1].Status != "cancelled" {
		t.Errorf("%+v", b.w.Instance)
	}
	c := b.w.Instance.Compensation
	if len(c.Items) != 2 || c.Items[0].Status != "blocked" || c.Items[1].Status != "blocked" || c.Done {
		t.Fatalf("%+v", c)
	}
	b.replayed(b.w.Fire(&fsm.Event{Kind: fsm.KindCancel, Actor: b.w.Person("olga@example.com")}, nil, b.now), step.Transition.Seq)
	b.accepted(b.outcome("first", fsm.EffectSucceeded, `{"id":"A"}`))
	if got := b.w.Instance.Compensation.Items[1].Status; got != "waiting" {
		t.Errorf("first is %s: it waits for the newer one", got)
	}
	b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Actor: b.w.Person("olga@example.com"), Result: &fsm.ResultEvent{
		Effect: b.effect("second").EffectID, Status: fsm.EffectDead, Resolved: true,
	}}, nil, b.now))
	b.accepted(b.outcome("undo_first", fsm.EffectSucceeded, ""))
	if !b.w.Instance.Compensation.Done || b.w.Instance.Data["a"] != nil {
		t.Errorf("%+v", b.w.Instance)
	}
	b.refused(b.raise("rosa@example.com", "done"), fault.EventNotAllowedHere)
	ended := newBundle(t, example(t, "agent-action.v1.yaml"))
	ended.start("ana@example.com", `{"agent":"a","tool":"t","arguments":{},"risk":"high","confidence":0.5}`)
	ended.accepted(ended.raise("ana@example.com", "withdraw"))
	ended.refused(ended.w.Fire(&fsm.Event{Kind: fsm.KindCancel, Actor: ended.w.Person("olga@example.com")}, nil, ended.now), fault.Conflict)
}

func TestAnInstanceNeedsNothingOfEffectsItDoesNotTouch(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	for _, c := range []struct {
		ev   *fsm.Event
		want fsm.EffectNeed
	}{
		{b.by("rosa@example.com", "next"), fsm.NeedNone},
		{b.by("rosa@example.com", "stop"), fsm.NeedAll},
		{&fsm.Event{Kind: fsm.KindCancel}, fsm.NeedAll},
		{&fsm.Event{Kind: fsm.KindStart}, fsm.NeedNone},
		{&fsm.Event{Kind: fsm.KindEffectResult}, fsm.NeedAll}, // its on_failure may compensate
	} {
		if got := fsm.NeedsEffects(b.w.Snapshot(&fsm.Event{Kind: fsm.KindStart}, nil), c.ev); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.ev.Kind, c.ev.Name, got, c.want)
		}
	}
}

func TestACallbackTokenRemembersWhatItWasAcceptedFor(t *testing.T) {
	t.Parallel()
	src := strings.Replace(chain, "first:\n    webhook: {url: \"https://x.example/first\"}", "first:\n    webhook: {url: \"https://x.example/first\", body: {u: \"{{ callback.urls.seen }}\"}}\n    callback: {events: [seen, next], as: \"system:crm\"}", 1)
	src = strings.Replace(src, "events: {next: {to: two, by: [requester, effect], ", "events: {seen: {to: stay, by: [\"system:crm\"], form: {type: object, properties: {id: {type: string}}}, set: {b: input.id}}, next: {to: two, by: [requester, effect, \"system:crm\"], ", 1)
	b := newBundle(t, parse(t, src))
	b.start("rosa@example.com", `{}`)
	hook := b.effect("first").Frozen
	if body := hook.Webhook.Body.(map[string]any); body["u"] != fsm.MarkerCallbackEvent("seen") {
		t.Errorf("body %v", body)
	}
	one := b.accepted(b.click(&hook.Callback, "system:crm", "seen", b.input(`{"id":"1"}`)))
	two := b.accepted(b.click(&hook.Callback, "system:crm", "seen", b.input(`{"id":"2"}`)))
	b.replayed(b.click(&hook.Callback, "system:crm", "seen", b.input(`{"id":"1"}`)), one.Transition.Seq)
	b.replayed(b.click(&hook.Callback, "system:crm", "seen", b.input(`{"id":"2"}`)), two.Transition.Seq)
	next := b.accepted(b.click(&hook.Callback, "system:crm", "next"))
	b.replayed(b.click(&hook.Callback, "system:crm", "next"), next.Transition.Seq)
	b.replayed(b.click(&hook.Callback, "system:crm", "seen", b.input(`{"id":"1"}`)), one.Transition.Seq)
	b.refused(b.click(&hook.Callback, "system:crm", "seen", b.input(`{"id":"3"}`)), fault.AlreadyDecided)
}
