package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// parent starts a part for each region and tells a stock about it.
const parent = `
name: parent
version: 1
title: Parent
initial: fetching
data:
  type: object
  properties:
    month: {type: string}
    limit: {type: number}
    regions: {type: array, items: {type: object, additionalProperties: true}}
    parts: {}
events:
  withdraw: {to: gone, by: [requester]}
states:
  fetching:
    owner: [requester]
    enter: [fetch]
    deadlines: [{after: P9D, fire: late}]
    events:
      fetched: {to: reading, by: [effect]}
      late: {to: gone, by: [timer, effect]}
      add: {to: stay, by: [requester], set: {month: "'13'"}}
  reading:
    owner: [requester]
    deadlines: [{after: P9D, fire: late}]
    events: {late: {to: gone, by: [timer]}, again: {to: fetching, by: [requester]}, tell: {to: stay, by: [requester], effects: [tell]}}
  gone: {final: true}
effects:
  fetch:
    start: {definition: part, for_each: data.regions, as: region, data: {region.name: region.name, month: data.month, half: data.limit / 2.0, kind: 3}, wait: all}
    on_success: {fire: fetched, set: {parts: result}}
    on_failure: {fire: late}
  tell:
    event: {definition: stock, key: "m-{{ data.month }}", event: counted, input: {n: "{{ data.limit }}", to: "{{ input.x }}"}}
`

const parentData = `{"month":"12","limit":5.0,"regions":[{"name":"north"},{"name":"south"}]}`

func parentBundle(t *testing.T, replace ...string) *bundle {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(parent, replace[i]) {
			t.Fatalf("%q is not there", replace[i])
		}
	}
	return newBundle(t, parse(t, strings.NewReplacer(replace...).Replace(parent)))
}

func TestAStartIsFrozenWithTheDataOfEveryChild(t *testing.T) {
	t.Parallel()
	for wait, want := range map[string]fsm.FrozenStart{
		"wait: all":    {All: true},
		"wait: any":    {Need: 1},
		"wait: 2":      {Need: 2},
		"detach: true": {Detach: true},
	} {
		b := parentBundle(t, "wait: all", wait)
		b.start("rosa@example.com", parentData)
		e := b.effect("fetch")
		got := e.Frozen.Start
		want.Definition, want.Requester, want.Depth = "part", "rosa@example.com", 1
		items := definitions.EncodeJSON([]any{got.Items[0], got.Items[1]})
		if string(items) != `[{"half":2.5,"kind":3,"month":"12","region":{"name":"north"}},{"half":2.5,"kind":3,"month":"12","region":{"name":"south"}}]` {
			t.Errorf("items %s", items)
		}
		if got.All != want.All || got.Need != want.Need || got.Detach != want.Detach || got.Requester != want.Requester || got.Depth != want.Depth || got.Definition != want.Definition {
			t.Errorf("%s: %+v", wait, got)
		}
		if !e.Idempotent || e.Droppable == want.Detach || e.Kind != "start" {
			t.Errorf("%s: queued as %+v", wait, e.QueuedEffect)
		}
	}
}

func TestAListOfNothingStartsNobodyAndATooLongOneIsRefused(t *testing.T) {
	t.Parallel()
	b := parentBundle(t)
	b.start("rosa@example.com", `{"month":"12","limit":5.0,"regions":[]}`)
	if got := b.effect("fetch"); got.Frozen.Start.Items == nil || len(got.Frozen.Start.Items) != 0 {
		t.Errorf("%s", got.Request)
	}
	many := func(n int) string {
		return fmt.Sprintf(`{"month":"12","limit":5.0,"regions":[%s]}`, strings.Repeat(`{"name":"n"},`, n-1)+`{"name":"n"}`)
	}
	b = parentBundle(t)
	b.start("rosa@example.com", many(10000))
	if n := len(b.effect("fetch").Frozen.Start.Items); n != 10000 {
		t.Errorf("%d children", n)
	}
	b = parentBundle(t)
	b.refused(b.w.Fire(b.startEvent("rosa@example.com", many(10001)), nil, b.now), fault.LimitExceeded)
	b = parentBundle(t)
	b.refused(b.w.Fire(b.startEvent("rosa@example.com", `{"month":"12","limit":5.0,"regions":[{"nome":"x"}]}`), nil, b.now), fault.GuardRejected)
}

func TestTheDataOfAllChildrenTogetherAreBounded(t *testing.T) {
	t.Parallel()
	b := parentBundle(t, "kind: 3", "kind: data.month")
	data := fmt.Sprintf(`{"month":%q,"limit":5.0,"regions":[%s]}`, strings.Repeat("x", 10000), strings.Repeat(`{"name":"n"},`, 999)+`{"name":"n"}`)
	b.refused(b.w.Fire(b.startEvent("rosa@example.com", data), nil, b.now), fault.LimitExceeded)
}

func TestAChildKnowsItsParentAndNobodyAsksWhoMayStartIt(t *testing.T) {
	t.Parallel()
	b := parentBundle(t, "initial: fetching", "initial: fetching\nrequesters: [\"group:nobody\"]")
	ref := &fsm.ParentRef{Instance: "0198-parent", Effect: fsm.EffectID{Seq: 2, N: 1}, Index: 7, Depth: 3}
	ev := b.startEvent("rosa@example.com", parentData)
	b.refused(b.w.Fire(ev, nil, b.now), fault.NotPermitted)
	ev.Actor, ev.Assurance, ev.Start.Parent = fsm.Actor{Kind: fsm.ActorEffect, ID: "effect:fetch"}, fsm.ByEngine, ref
	step := b.accepted(b.w.Fire(ev, nil, b.now))
	if b.w.Instance.Parent != ref || b.w.Instance.Requester != "rosa@example.com" || step.Transition.Actor.ID != "effect:fetch" {
		t.Errorf("%+v", b.w.Instance)
	}
	if depth := b.effect("fetch").Frozen.Start.Depth; depth != 4 {
		t.Errorf("its own children are %d deep", depth)
	}
	deep := parentBundle(t)
	ev = deep.startEvent("rosa@example.com", parentData)
	ev.Start.Parent = &fsm.ParentRef{Instance: "0198-parent", Depth: 16}
	deep.accepted(deep.w.Plan(ev, nil, deep.now))
	ev.Start.Parent.Depth = 17
	deep.refused(deep.w.Fire(ev, nil, deep.now), fault.LimitExceeded)
}

func TestLeavingAWaitStopsItsChildren(t *testing.T) {
	t.Parallel()
	b := parentBundle(t)
	b.start("rosa@example.com", parentData)
	wait := b.w.Instance.Wait
	step := b.accepted(b.raise("rosa@example.com", "withdraw"))
	stop := b.effect("stop children")
	if stop.Kind != "stop" || stop.Frozen.Stop.Wait != wait || stop.Wait != wait || !stop.Idempotent || stop.Droppable {
		t.Errorf("%+v %s", stop.QueuedEffect, stop.Request)
	}
	if b.effect("fetch").Status != fsm.EffectCancelled || step.DropWait != wait {
		t.Error("what was not started yet is still going to be")
	}
	for _, leave := range []func(*bundle) fsm.Step{
		func(b *bundle) fsm.Step { return b.cancel() },
		func(b *bundle) fsm.Step { b.pass(9 * 24 * 3600e9); return fsm.Step{} },
		func(b *bundle) fsm.Step { return b.outcome("fetch", fsm.EffectDead, "") },
	} {
		b := parentBundle(t)
		b.start("rosa@example.com", parentData)
		b.accepted(leave(b))
		if b.queued("stop children") != 1 {
			t.Errorf("in %s %d stops", b.w.Instance.State, b.queued("stop children"))
		}
	}
	b = parentBundle(t)
	b.start("rosa@example.com", parentData)
	b.accepted(b.cancel())
	if reason := b.effect("stop children").Frozen.Stop.Reason; reason != "Its parent was cancelled: a mistake" {
		t.Errorf("reason %q", reason)
	}
	b = parentBundle(t, "wait: all", "detach: true")
	b.start("rosa@example.com", parentData)
	b.accepted(b.raise("rosa@example.com", "withdraw"))
	if b.queued("stop children") != 0 || b.effect("fetch").Status != fsm.EffectWaiting {
		t.Error("detached children are stopped")
	}
}

func TestNobodyIsStoppedWhereAllHaveEnded(t *testing.T) {
	t.Parallel()
	list := `[{"id":"1","key":"","state":"done","data":{"n":1}},{"id":"2","key":"","state":"done","data":{"n":2}}]`
	for _, c := range []struct {
		replace []string
		stops   int
	}{
		{nil, 0},
		{[]string{"wait: all", "wait: 2"}, 1},
		{[]string{"month: \"'13'\"}}", "month: \"'13'\"}, effects: [fetch]}"}, 1},
	} {
		b := parentBundle(t, c.replace...)
		b.start("rosa@example.com", parentData)
		step := b.accepted(b.outcome("fetch", fsm.EffectSucceeded, list))
		b.state("reading")
		if b.queued("stop children") != c.stops {
			t.Errorf("%v: %d stops", c.replace, b.queued("stop children"))
		}
		if got := string(definitions.EncodeJSON(b.w.Instance.Data["parts"])); got != list2(t, list) {
			t.Errorf("parts are %s", got)
		}
		if step.Transition.Input != nil {
			t.Error("the list stands in the history once more")
		}
	}
}

func list2(t *testing.T, text string) string { return string(definitions.EncodeJSON(tree(t, text))) }

func TestALateResultOfChildrenIsKeptAndFiresNothing(t *testing.T) {
	t.Parallel()
	b := parentBundle(t, "wait: all", "detach: true")
	b.start("rosa@example.com", parentData)
	b.accepted(b.outcome("fetch", fsm.EffectSucceeded, `[]`))
	b.state("reading")
	b.accepted(b.raise("rosa@example.com", "again"))
	first := &b.w.Effects[0]
	first.Status = fsm.EffectRunning
	step := b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{
		Effect: first.EffectID, Status: fsm.EffectSucceeded, Result: tree(t, `[{"id":"1"}]`),
	}}, nil, b.now))
	b.state("fetching")
	if !strings.Contains(step.Transition.Reason, "late") || text(b.w.Instance.Data["parts"]) != `[{"id":"1"}]` {
		t.Errorf("%+v, data %v", step.Transition, b.w.Instance.Data)
	}
}

func TestADeadStartFiresItsFailureAndCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	b := parentBundle(t, "on_failure: {fire: late}", "on_failure: {set: {month: \"'14'\"}}", "by: [timer, effect]", "by: [timer]")
	b.start("rosa@example.com", parentData)
	b.accepted(b.outcome("fetch", fsm.EffectDead, ""))
	if b.attention("dead-effect") == nil || b.w.Instance.Data["month"] != "14" {
		t.Errorf("%v", b.w.Instance.Attention)
	}
	b.accepted(b.again("fetch"))
	b.accepted(b.outcome("fetch", fsm.EffectSucceeded, `[]`))
	b.state("reading")
	if b.attention("dead-effect") != nil {
		t.Error("attention stays")
	}
}

func TestCompensationDoesNotAwaitChildrenButUndoesWhatTheyDid(t *testing.T) {
	t.Parallel()
	undo := []string{
		"    on_failure: {fire: late}\n", "    on_failure: {fire: late}\n    reversible: true\n    compensate: unfetch\n",
		"effects:\n", "effects:\n  unfetch: {start: {definition: unpart, for_each: undone.result, as: part, data: {id: part.id}, detach: true}}\n",
	}
	b := parentBundle(t, undo...)
	b.start("rosa@example.com", parentData)
	b.effect("fetch").Status = fsm.EffectRunning
	b.accepted(b.cancel())
	b.planned("; done")
	b = parentBundle(t, undo...)
	b.w.Definition.Effect("unfetch").Start.Detach = false // which publishing refuses; nobody could wait for them
	b.start("rosa@example.com", parentData)
	b.accepted(b.outcome("fetch", fsm.EffectSucceeded, `[{"id":"1"},{"id":"2"}]`))
	b.accepted(b.cancel())
	b.planned("fetch running")
	start := b.effect("unfetch").Frozen.Start
	if len(start.Items) != 2 || start.Items[1]["id"] != "2" || !start.Detach || b.effect("unfetch").Droppable {
		t.Errorf("%+v", start)
	}
	b.accepted(b.outcome("unfetch", fsm.EffectSucceeded, `[]`))
	b.planned("fetch succeeded; done")
}

func TestAnEventForAnotherInstanceIsFrozenAsTheSystemOfItsDefinition(t *testing.T) {
	t.Parallel()
	b := parentBundle(t)
	b.start("rosa@example.com", parentData)
	b.accepted(b.outcome("fetch", fsm.EffectSucceeded, `[]`))
	b.accepted(b.raise("rosa@example.com", "tell"))
	e := b.effect("tell")
	r := e.Frozen.Raise
	if r.Definition != "stock" || r.Key != "m-12" || r.Event != "counted" || r.As != "system:parent" || e.Kind != "event" || !e.Idempotent || e.Droppable {
		t.Errorf("%+v", r)
	}
	if got := string(definitions.EncodeJSON(r.Input)); got != `{"n":5.0,"to":null}` && got != `{"n":5,"to":null}` {
		t.Errorf("input %s", got)
	}
}

func TestAnEventOfAnotherInstanceIsOneOfASystem(t *testing.T) {
	t.Parallel()
	b := parentBundle(t, "withdraw: {to: gone, by: [requester]}", "withdraw: {to: gone, by: [\"system:stock\"]}")
	b.start("rosa@example.com", parentData)
	ev := b.by("system:other", "withdraw")
	ev.Actor.Via = "instance:0198-other"
	b.refused(b.w.Fire(ev, nil, b.now), fault.NotPermitted)
	ev = b.by("system:stock", "withdraw")
	ev.Actor.Via = "instance:0198-other"
	step := b.accepted(b.w.Fire(ev, nil, b.now))
	if step.Transition.Actor.Via != "instance:0198-other" {
		t.Errorf("%+v", step.Transition.Actor)
	}
}

func TestExplainNamesTheChildrenThatAreAwaited(t *testing.T) {
	t.Parallel()
	for wait, want := range map[string]int{"wait: all": 0, "wait: any": 1, "wait: 2": 2, "detach: true": -1} {
		b := parentBundle(t, "wait: all", wait)
		b.start("rosa@example.com", parentData)
		x, err := fsm.Explain(b.w.Snapshot(&fsm.Event{Kind: fsm.KindCancel}, nil), b.now)
		if err != nil {
			t.Fatal(err)
		}
		if want < 0 {
			if len(x.Children) > 0 {
				t.Errorf("%s: %+v", wait, x.Children)
			}
			continue
		}
		if len(x.Children) != 1 || x.Children[0].Need != want || x.Children[0].Name != "fetch" || x.Children[0].Effect != b.effect("fetch").EffectID {
			t.Errorf("%s: %+v", wait, x.Children)
		}
	}
}
