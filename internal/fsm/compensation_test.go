package fsm_test

import (
	"strings"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// deeds is a definition of effects that are undone, in the order e1, e2, e3.
const deeds = `
name: deeds
version: 1
title: Deeds
initial: one
data: {type: object, properties: {a: {type: string}}}
events:
  stop: {to: stopped, by: [requester, timer, effect], compensate: true}
  next: {to: two, by: [requester]}
states:
  one: {owner: [requester], enter: [e1, e2, e3], deadlines: [{after: P9D, fire: stop}]}
  two: {owner: [requester], enter: [f], deadlines: [{after: P9D, fire: stop}]}
  stopped: {final: failed}
effects:
  e1: {webhook: {url: "https://x.example/1"}, idempotent: true, reversible: true, compensate: c1}
  e2: {webhook: {url: "https://x.example/2"}, idempotent: true, reversible: true, compensate: c2}
  e3: {webhook: {url: "https://x.example/3"}, idempotent: true, reversible: true, compensate: c3, on_failure: {fire: stop}}
  c1: {webhook: {url: "https://x.example/1/{{ undone.result.id }}"}, idempotent: true, reversible: false}
  c2: {webhook: {url: "https://x.example/2/{{ undone.result.id }}"}, idempotent: true, reversible: false}
  c3: {webhook: {url: "https://x.example/3/{{ undone.result.id }}"}, idempotent: true, reversible: false}
  f: {email: {to: ["a@example.org"], subject: S, body: B}, reversible: false, on_failure: {fire: stop}}
`

// deedsBundle starts deeds with texts replaced in pairs.
func deedsBundle(t *testing.T, replace ...string) *bundle {
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(deeds, replace[i]) {
			t.Fatalf("%q is not there", replace[i])
		}
	}
	b := newBundle(t, parse(t, strings.NewReplacer(replace...).Replace(deeds)))
	b.start("rosa@example.com", `{}`)
	return b
}

func TestTheCompensationsOfAFailureRunNewestFirstEachOnce(t *testing.T) { // field report B33
	t.Parallel()
	b := deedsBundle(t)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
	b.accepted(b.outcome("e3", fsm.EffectDead, ""))
	b.state("stopped")
	b.planned("e2 running, e1 waiting")
	for range 2 {
		b.accepted(b.outcome("c2", fsm.EffectRetrying, ""))
		b.planned("e2 running, e1 waiting")
	}
	if b.queued("c1") != 0 || b.queued("c3") != 0 {
		t.Fatal("c1 does not wait for c2, or what never happened is undone")
	}
	b.accepted(b.outcome("c2", fsm.EffectSucceeded, ""))
	b.planned("e2 succeeded, e1 running")
	b.accepted(b.outcome("c1", fsm.EffectSucceeded, ""))
	b.planned("e2 succeeded, e1 succeeded; done")
	if b.queued("c1") != 1 || b.queued("c2") != 1 {
		t.Errorf("c2 ran %d times and c1 %d times", b.queued("c2"), b.queued("c1"))
	}
	if url := b.effect("c1").Frozen.Webhook.URL; url != "https://x.example/1/A" {
		t.Errorf("c1 calls %s", url)
	}
}

func TestAFailingCompensationIsShownAndResumedWhereItStopped(t *testing.T) { // field report B33, variant
	t.Parallel()
	b := deedsBundle(t)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
	b.accepted(b.outcome("e3", fsm.EffectDead, ""))
	b.accepted(b.outcome("c2", fsm.EffectDead, ""))
	b.planned("e2 failed, e1 waiting")
	if a := b.attention("dead-effect"); a == nil || b.queued("c1") != 0 {
		t.Fatalf("attention %v, c1 queued %d times", b.w.Instance.Attention, b.queued("c1"))
	}
	b.accepted(b.again("c2"))
	b.planned("e2 running, e1 waiting")
	b.accepted(b.outcome("c2", fsm.EffectDead, ""))
	b.planned("e2 failed, e1 waiting")
	b.accepted(b.again("c2"))
	b.accepted(b.outcome("c2", fsm.EffectSucceeded, ""))
	b.planned("e2 succeeded, e1 running")
	b.accepted(b.outcome("c1", fsm.EffectSucceeded, ""))
	b.planned("e2 succeeded, e1 succeeded; done")
	if b.queued("c1") != 1 || b.queued("c2") != 1 {
		t.Errorf("c2 was queued %d times and c1 %d times", b.queued("c2"), b.queued("c1"))
	}
}

func TestACompensationThatIsGivenUpIsNamedAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	for _, end := range []fsm.EffectStatus{fsm.EffectDead, fsm.EffectUnknown} {
		b := deedsBundle(t)
		b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
		b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
		b.accepted(b.outcome("e3", fsm.EffectDead, ""))
		b.accepted(b.outcome("c2", end, ""))
		if b.queued("c1") != 0 {
			t.Fatalf("%s: the rest goes on before a person has said anything", end)
		}
		b.accepted(b.resolve("c2", fsm.EffectDead))
		b.planned("e2 skipped, e1 running; not undone e2")
		b.refused(b.resolve("c2", fsm.EffectDead), fault.Conflict)
		b.accepted(b.outcome("c1", fsm.EffectSucceeded, ""))
		b.planned("e2 skipped, e1 succeeded; not undone e2; done")
		b.accepted(b.resolve("c2", fsm.EffectSucceeded)) // it was done after all
		b.planned("e2 succeeded, e1 succeeded; done")
	}
}

func TestAnUnknownCompensationWaitsForAPerson(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
	b.accepted(b.outcome("e3", fsm.EffectDead, ""))
	b.accepted(b.outcome("c2", fsm.EffectUnknown, ""))
	b.planned("e2 unknown, e1 waiting")
	if b.attention("unknown-effect") == nil {
		t.Error("nobody is told")
	}
	b.accepted(b.resolve("c2", fsm.EffectSucceeded))
	b.planned("e2 succeeded, e1 running")
}

func TestASuccessThatArrivesAfterTheCancelIsUndone(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t)
	b.effect("e2").Status = fsm.EffectRunning
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	step := b.accepted(b.cancel())
	b.planned("e2 blocked, e1 waiting")
	if b.effect("e3").Status != fsm.EffectCancelled {
		t.Error("what waits is not dropped")
	}
	b.replayed(b.cancel(), step.Transition.Seq)
	b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
	b.planned("e2 running, e1 waiting")
	if url := b.effect("c2").Frozen.Webhook.URL; url != "https://x.example/2/B" {
		t.Errorf("c2 calls %s", url)
	}
	b.replayed(b.cancel(), step.Transition.Seq)
}

func TestAnUnknownEffectBlocksUntilItsOutcomeIsKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status fsm.EffectStatus
		want   string
	}{{fsm.EffectSucceeded, "e2 running, e1 waiting"}, {fsm.EffectDead, "e1 running"}} {
		b := deedsBundle(t)
		b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
		b.accepted(b.outcome("e2", fsm.EffectUnknown, ""))
		b.accepted(b.cancel())
		b.planned("e2 blocked, e1 waiting")
		b.accepted(b.resolve("e2", c.status))
		b.planned(c.want)
	}
}

func TestWhatIsTriedAgainAfterTheCancelIsUndoneToo(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, "c3, on_failure: {fire: stop}", "c3")
	b.accepted(b.outcome("e3", fsm.EffectDead, ""))
	b.accepted(b.cancel())
	b.planned("; done")
	b.accepted(b.again("e3"))
	b.planned("e3 blocked")
	b.accepted(b.outcome("e3", fsm.EffectSucceeded, `{"id":"C"}`))
	b.planned("e3 running")
	b.accepted(b.outcome("c3", fsm.EffectSucceeded, ""))
	b.planned("e3 succeeded; done")
}

func TestWhatIsUnderWayAndCannotBeUndoneIsListedUnlessItFails(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t)
	b.accepted(b.raise("rosa@example.com", "next"))
	b.effect("f").Status = fsm.EffectRunning
	for _, name := range []string{"e1", "e2", "e3"} {
		b.effect(name).Status = fsm.EffectDead
	}
	b.accepted(b.cancel())
	b.planned("; not undone f; done")
	b.accepted(b.outcome("f", fsm.EffectUnknown, ""))
	b.planned("; not undone f; done")
	b.accepted(b.resolve("f", fsm.EffectDead))
	b.planned("; done")
}

func TestAnEffectThatItsOwnFailureCompensatesIsNotAwaited(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e2", fsm.EffectDead, ""))
	b.accepted(b.outcome("e3", fsm.EffectDead, ""))
	b.planned("e1 running")
}

func TestASuccessThatLeadsToCompensationIsUndoneItself(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, "on_failure: {fire: stop}", "on_success: {fire: stop}")
	b.accepted(b.outcome("e3", fsm.EffectSucceeded, `{"id":"C"}`))
	b.planned("e3 running")
	if url := b.effect("c3").Frozen.Webhook.URL; url != "https://x.example/3/C" {
		t.Errorf("c3 calls %s", url)
	}
}

func TestACompensationWhoseRequestCannotBeMadeIsWorkOfAPerson(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, "https://x.example/2/{{ undone.result.id }}", "https://x.example/2/{{ undone.result.id + 1 }}")
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
	b.accepted(b.cancel())
	b.planned("e2 running, e1 waiting")
	a := b.attention("manual-compensation")
	if a == nil || !strings.Contains(a.Detail, "c2 cannot be made") || b.effect("undo e2").Kind != "manual" {
		t.Fatalf("attention %v", b.w.Instance.Attention)
	}
	b.accepted(b.resolve("undo e2", fsm.EffectSucceeded))
	b.planned("e2 succeeded, e1 running")
}

func TestManualCompensationKeepsItsPlaceAndIsResolvedByAPerson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status fsm.EffectStatus
		want   string
	}{{fsm.EffectSucceeded, "e2 succeeded, e1 running"}, {fsm.EffectDead, "e2 skipped, e1 running; not undone e2"}} {
		b := deedsBundle(t, "compensate: c2", "compensate: manual", "/2/{{ undone.result.id }}", "/2/undo")
		b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
		b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
		b.accepted(b.cancel())
		b.planned("e2 running, e1 waiting")
		e := b.effect("undo e2")
		a := b.attention("manual-compensation")
		if e.Kind != "manual" || e.Status != fsm.EffectUnknown || e.Frozen.Manual == nil || e.Frozen.Manual.Of != b.effect("e2").EffectID ||
			a == nil || a.Ref != idText(e.EffectID) {
			t.Fatalf("effect %+v, attention %v", e, b.w.Instance.Attention)
		}
		if err := b.refused(b.again("undo e2"), fault.Conflict); !strings.Contains(err.Message, "work of a person") {
			t.Errorf("it says %q", err.Message)
		}
		b.accepted(b.resolve("undo e2", c.status))
		b.planned(c.want)
		if b.attention("manual-compensation") != nil {
			t.Error("a person is still asked")
		}
	}
}

func TestWhatAForwardEffectHasUndoneIsNotUndoneAgain(t *testing.T) {
	t.Parallel()
	undoing := []string{"compensate: c3, on_failure: {fire: stop}", "compensate: c3, undoes: e1"}
	plain := []string{"reversible: true, compensate: c3, on_failure: {fire: stop}", "reversible: false, undoes: e1", "/3/{{ undone.result.id }}", "/3/undo"}
	for _, c := range []struct {
		name    string
		replace []string
		e3      fsm.EffectStatus
		want    string
	}{
		{"it succeeded and cannot be undone", plain, fsm.EffectSucceeded, "e2 running"},
		{"it succeeded and can be undone", undoing, fsm.EffectSucceeded, "e3 running, e2 waiting"},
		{"it waits", plain, fsm.EffectWaiting, "e2 running, e1 waiting"},
		{"it is dead", plain, fsm.EffectDead, "e2 running, e1 waiting"},
		{"it runs", plain, fsm.EffectRunning, "e2 running, e1 blocked"},
		{"it is unknown", plain, fsm.EffectUnknown, "e2 running, e1 blocked"},
		{"it runs and can be undone", undoing, fsm.EffectRunning, "e3 blocked, e2 waiting, e1 blocked"},
	} {
		b := deedsBundle(t, c.replace...)
		b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
		b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
		b.effect("e3").Status = c.e3
		b.accepted(b.cancel())
		if got := b.plan(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	b := deedsBundle(t, plain...)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e3", fsm.EffectUnknown, ""))
	b.accepted(b.cancel())
	b.planned("e1 blocked")
	b.accepted(b.resolve("e3", fsm.EffectDead))
	b.planned("e1 running")
	b = deedsBundle(t, plain...)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e3", fsm.EffectUnknown, ""))
	b.accepted(b.cancel())
	b.accepted(b.resolve("e3", fsm.EffectSucceeded))
	b.planned("; done")
}

func TestOneUndoingEffectUndoesTheNewestOnly(t *testing.T) {
	t.Parallel()
	src := strings.NewReplacer(
		"enter: [e1, e2, e3]", "enter: [e1]", "next: {to: two, by: [requester]}", "next: {to: one, by: [requester]}\n  take: {to: stay, by: [requester], effects: [e3, e2]}\n  on: {to: two, by: [requester]}",
		"/3/{{ undone.result.id }}", "/3/undo", "reversible: true, compensate: c3, on_failure: {fire: stop}", "reversible: false, undoes: e1",
	).Replace(deeds)
	b := newBundle(t, parse(t, src))
	b.start("rosa@example.com", `{}`)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"old"}`))
	b.accepted(b.raise("rosa@example.com", "next"))
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"new"}`))
	b.accepted(b.raise("rosa@example.com", "take")) // e2 waits and is dropped
	b.accepted(b.outcome("e3", fsm.EffectSucceeded, ""))
	b.accepted(b.cancel())
	b.planned("e1 running")
	if url := b.effect("c1").Frozen.Webhook.URL; url != "https://x.example/1/old" {
		t.Errorf("undone is %s", url)
	}
}

func TestAMailToSeveralPeopleIsUndoneOnceAndWhenAllIsKnown(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, `e1: {webhook: {url: "https://x.example/1"}, idempotent: true,`, `e1: {email: {to: ["a@example.org", "b@example.org"], subject: S, body: B},`,
		"https://x.example/1/{{ undone.result.id }}", "https://x.example/1/undo")
	b.w.Effects[0].Status, b.w.Effects[1].Status = fsm.EffectSucceeded, fsm.EffectRunning
	b.accepted(b.cancel())
	b.planned("e1 blocked")
	b.accepted(b.outcome("e1", fsm.EffectDead, ""))
	b.planned("e1 running")
	b.accepted(b.outcome("c1", fsm.EffectSucceeded, ""))
	b.planned("e1 succeeded; done")
	if b.queued("c1") != 1 {
		t.Errorf("undone %d times", b.queued("c1"))
	}
}

func TestACancelQueuesTidyingOnceAndOnlyForWhatWentOut(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, "initial: one", "initial: one\non_cancel: [g]",
		"compensate: c1}", "compensate: c1, on_cancel: [tidy]}", "compensate: c2}", "compensate: c2, on_cancel: [tidy]}",
		"c3, on_failure: {fire: stop}", "c3, on_cancel: [never]",
		"  f: {", "  g: {email: {to: [requester], subject: S, body: B}, reversible: false}\n  tidy: {email: {to: [requester], subject: S, body: B}, reversible: false}\n  never: {email: {to: [requester], subject: S, body: B}, reversible: false}\n  f: {")
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.effect("e2").Status = fsm.EffectUnknown
	b.accepted(b.cancel())
	b.planned("e2 blocked, e1 waiting")
	if b.queued("tidy") != 1 || b.queued("g") != 1 || b.queued("never") != 0 {
		t.Errorf("tidy %d, g %d, never %d", b.queued("tidy"), b.queued("g"), b.queued("never"))
	}
}

func TestTidyingThatCannotBeQueuedDoesNotStopACancel(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, "initial: one", "initial: one\non_cancel: [bad, g]",
		"  f: {", "  g: {email: {to: [requester], subject: S, body: B}, reversible: false}\n  bad: {email: {to: [requester], subject: \"{{ data.a + 'x' }}\", body: B}, reversible: false}\n  f: {")
	b.accepted(b.cancel())
	if a := b.attention("tidying-failed"); a == nil || a.Ref != "bad" || b.queued("g") != 1 || b.queued("bad") != 0 {
		t.Errorf("attention %v, g queued %d times", b.w.Instance.Attention, b.queued("g"))
	}
}

func TestASecondCompensationGoesOnWithWhatTheFirstLeftOver(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, "next: {to: two, by: [requester]}", "next: {to: two, by: [requester], compensate: true}", "c3, on_failure: {fire: stop}", "c3")
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
	b.accepted(b.outcome("e3", fsm.EffectSucceeded, `{"id":"C"}`))
	b.accepted(b.raise("rosa@example.com", "next"))
	b.accepted(b.outcome("c3", fsm.EffectSucceeded, ""))
	b.planned("e3 succeeded, e2 running, e1 waiting")
	b.accepted(b.raise("rosa@example.com", "stop"))
	b.planned("e2 running, e1 waiting")
	b.accepted(b.outcome("c2", fsm.EffectSucceeded, ""))
	b.accepted(b.outcome("c1", fsm.EffectSucceeded, ""))
	b.planned("e2 succeeded, e1 succeeded; done")
	for _, name := range []string{"c1", "c2", "c3"} {
		if b.queued(name) != 1 {
			t.Errorf("%s was queued %d times", name, b.queued(name))
		}
	}
}

func TestAnUndoingEffectAfterACompensationUndoesNothingTwice(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t, "next: {to: two, by: [requester]}", "next: {to: two, by: [requester], compensate: true}",
		"c3, on_failure: {fire: stop}", "c3", "f: {email: {to: [\"a@example.org\"], subject: S, body: B}, reversible: false", "f: {email: {to: [\"a@example.org\"], subject: S, body: B}, reversible: false, undoes: e1")
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.raise("rosa@example.com", "next"))
	b.accepted(b.outcome("c1", fsm.EffectSucceeded, ""))
	b.planned("e1 succeeded; done")
	b.accepted(b.outcome("f", fsm.EffectSucceeded, ""))
	b.accepted(b.cancel())
	b.planned("; not undone f; done")
}

func TestACompensationGoesOnBeyondTheLimitOfTransitions(t *testing.T) {
	t.Parallel()
	b := deedsBundle(t)
	b.accepted(b.outcome("e1", fsm.EffectSucceeded, `{"id":"A"}`))
	b.accepted(b.outcome("e2", fsm.EffectSucceeded, `{"id":"B"}`))
	b.w.Definition.Limits.Transitions = b.w.Instance.Revision
	b.accepted(b.cancel())
	b.planned("e2 running, e1 waiting")
	b.accepted(b.outcome("c2", fsm.EffectDead, ""))
	b.planned("e2 failed, e1 waiting")
	b.accepted(b.again("c2"))
	b.accepted(b.outcome("c2", fsm.EffectSucceeded, ""))
	b.accepted(b.outcome("c1", fsm.EffectSucceeded, ""))
	b.planned("e2 succeeded, e1 succeeded; done")
}
