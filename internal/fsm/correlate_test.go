package fsm_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

const letters = `
name: letters
version: 1
title: Letters
initial: writing
key: data.number
data:
  type: object
  properties:
    number: {type: string}
    amount: {type: number}
    note: {type: string}
    signer: {type: object, properties: {email: {type: string}}}
events:
  withdraw: {to: gone, by: [requester]}
states:
  writing:
    owner: [requester]
    deadlines: [{after: P9D, fire: late}]
    events:
      send: {to: waiting, by: [requester]}
      late: {to: gone, by: [timer]}
      retype: {to: stay, by: [requester], form: {type: object, properties: {email: {type: string}}}, set: {signer.email: input.email}}
  waiting:
    owner: [requester]
    deadlines: [{after: P9D, fire: late}]
    events:
      signed: {to: gone, by: ["system:esign"], correlate: {data.signer.email: input.who.email, data.amount: input.sum}}
      viewed: {to: stay, by: ["system:esign"], correlate: {data.number: input.number}, set: {note: "'seen'"}}
      late: {to: gone, by: [timer]}
      retype: {to: stay, by: [requester], form: {type: object, properties: {email: {type: string}}}, set: {signer.email: input.email}}
      jot: {to: stay, by: [requester], set: {note: "'n'"}}
      back: {to: writing, by: [requester]}
  gone: {final: true}
`

func lettersBundle(t *testing.T) *bundle {
	b := newBundle(t, parse(t, letters))
	b.start("rosa@example.com", `{"number":"L1","amount":10,"signer":{"email":"s@example.org"}}`)
	return b
}

func hash(t *testing.T, event string, pairs ...fsm.Pair) []byte {
	t.Helper()
	h, ok := fsm.CorrelationHash(event, pairs)
	if !ok {
		t.Fatal("no hash")
	}
	return h
}

func signedHash(t *testing.T, email, sum string) []byte {
	t.Helper()
	return hash(t, "signed", fsm.Pair{Input: "sum", Value: tree(t, sum)}, fsm.Pair{Input: "who.email", Value: email})
}

func has(list [][]byte, hash []byte) bool {
	for _, h := range list {
		if bytes.Equal(h, hash) {
			return true
		}
	}
	return false
}

func TestAWaitIsFoundByWhatItsEventsCorrelate(t *testing.T) {
	t.Parallel()
	b := lettersBundle(t)
	step := b.accepted(b.raise("rosa@example.com", "send"))
	if !step.SetCorrelations || len(step.Correlations) != 2 || step.Correlations[0].Event != "signed" || step.Correlations[1].Event != "viewed" {
		t.Fatalf("%v %+v", step.SetCorrelations, step.Correlations)
	}
	signed, viewed := signedHash(t, "s@example.org", "10.0"), hash(t, "viewed", fsm.Pair{Input: "number", Value: "L1"})
	if !bytes.Equal(step.Correlations[0].Hash, signed) || !bytes.Equal(step.Correlations[1].Hash, viewed) {
		t.Error("a call with these values would not find it")
	}
	for _, h := range [][]byte{signed, viewed, fsm.KeyHash("letters", "L1"), fsm.KeyHash("", "L1")} {
		if !has(step.Awaits, h) {
			t.Error("a call that came early is not looked for")
		}
	}
}

func TestAChangeOfDataMovesTheCorrelationAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	b := lettersBundle(t)
	b.accepted(b.raise("rosa@example.com", "send"))
	if step := b.accepted(b.raise("rosa@example.com", "jot")); step.SetCorrelations || len(step.Awaits) > 0 {
		t.Error("an unrelated change is written again")
	}
	step := b.accepted(b.raise("rosa@example.com", "retype", b.input(`{"email":"new@example.org"}`)))
	if !step.SetCorrelations || len(step.Correlations) != 2 || !has(step.Awaits, signedHash(t, "new@example.org", "10")) {
		t.Errorf("%+v", step.Correlations)
	}
	if has(step.Awaits, fsm.KeyHash("letters", "L1")) {
		t.Error("the key has not changed")
	}
}

func TestAnAbsentValueMatchesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, parse(t, letters))
	b.start("rosa@example.com", `{"number":"L1","amount":10}`)
	step := b.accepted(b.raise("rosa@example.com", "send"))
	if len(step.Correlations) != 1 || step.Correlations[0].Event != "viewed" {
		t.Errorf("%+v", step.Correlations)
	}
	x, err := fsm.Explain(b.w.Snapshot(&fsm.Event{}, nil), b.now)
	if err != nil || len(x.Correlations) != 2 || x.Correlations[0].Matched || !x.Correlations[1].Matched || x.Correlations[1].Pairs[0] != (fsm.ExplainedPair{Data: "number", Input: "number", Value: "L1"}) {
		t.Errorf("%+v %v", x.Correlations, err)
	}
}

func TestLeavingTheWaitEndsItsCorrelations(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*bundle) fsm.Step{
		"another wait": func(b *bundle) fsm.Step { return b.raise("rosa@example.com", "back") },
		"an end":       func(b *bundle) fsm.Step { return b.raise("rosa@example.com", "withdraw") },
		"cancelled":    func(b *bundle) fsm.Step { return b.cancel() },
	} {
		b := lettersBundle(t)
		b.accepted(b.raise("rosa@example.com", "send"))
		if step := b.accepted(leave(b)); !step.SetCorrelations || len(step.Correlations) > 0 || len(step.Awaits) > 0 {
			t.Errorf("%s: %v %+v %d", name, step.SetCorrelations, step.Correlations, len(step.Awaits))
		}
	}
}

func TestADefinitionWithoutCorrelateWritesNoCorrelations(t *testing.T) {
	t.Parallel()
	b := chainBundle(t)
	for _, step := range []fsm.Step{
		b.accepted(b.outcome("first", fsm.EffectSucceeded, `{"id":"A"}`)),
		b.accepted(b.raise("rosa@example.com", "done")),
	} {
		if step.SetCorrelations || step.Awaits != nil {
			t.Errorf("%+v", step.Correlations)
		}
	}
}

func TestACallIsTakenOnlyWhileItStillFits(t *testing.T) {
	t.Parallel()
	call := func(b *bundle, input string) fsm.Step {
		ev := b.by("system:esign", "signed", b.input(input))
		ev.Assurance, ev.Actor.Via = fsm.ByCallback, "webhook:esign"
		return b.w.Fire(ev, nil, b.now)
	}
	b := lettersBundle(t)
	b.accepted(b.raise("rosa@example.com", "send"))
	b.accepted(b.raise("rosa@example.com", "retype", b.input(`{"email":"new@example.org"}`)))
	if err := b.refused(call(b, `{"who":{"email":"s@example.org"},"sum":10}`), fault.EventNotAllowedHere); !strings.Contains(err.Message, "who.email") {
		t.Errorf("it says %q", err.Message)
	}
	b.refused(call(b, `{"who":{"email":"new@example.org"},"sum":11}`), fault.EventNotAllowedHere)
	step := b.accepted(call(b, `{"who":{"email":"new@example.org"},"sum":10.0}`))
	if step.Transition.Actor.ID != "system:esign" || step.Transition.Actor.Via != "webhook:esign" || step.Transition.Assurance != fsm.ByCallback {
		t.Errorf("%+v", step.Transition)
	}
	for _, free := range []func(*bundle) fsm.Step{
		func(b *bundle) fsm.Step { return call(b, `{"other":1}`) }, // found by its key
		func(b *bundle) fsm.Step {
			return b.raise("system:esign", "signed", b.input(`{"who":{"email":"else@example.org"}}`))
		}, // by an API key, for this instance
	} {
		b := lettersBundle(t)
		b.accepted(b.raise("rosa@example.com", "send"))
		b.accepted(free(b))
	}
}

func TestACallbackRemembersWhoMustSign(t *testing.T) {
	t.Parallel()
	for verify, want := range map[string]string{"": "", ", verify: esign": "esign"} {
		src := strings.Replace(chain, `first:
    webhook: {url: "https://x.example/first"}`, `first:
    webhook: {url: "https://x.example/first", body: {u: "{{ callback.url }}"}}
    callback: {events: [next], as: "system:crm"`+verify+`}`, 1)
		src = strings.Replace(src, "next: {to: two, by: [requester, effect]", "next: {to: two, by: [requester, effect, \"system:crm\"]", 1)
		b := newBundle(t, parse(t, src))
		b.start("rosa@example.com", `{}`)
		id := b.effect("first").Frozen.Callback
		row := slices.IndexFunc(b.w.Assignees, func(a fsm.Assignee) bool { return a.Seq == id.Seq && a.N == id.N })
		if row < 0 || fsm.VerifySource(&b.w.Assignees[row]) != want {
			t.Errorf("row %d of %+v, want %q", row, b.w.Assignees, want)
		}
	}
}
