package fsm_test

import (
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/simulate"
)

const simple = `
name: simple
version: 1
title: Simple approval
initial: pending
data:
  type: object
  required: [amount, text]
  properties: {amount: {type: number, minimum: 0}, text: {type: string}, who: {type: string, format: email}}
states:
  pending:
    owner: ["system:bench"]
    deadlines: [{after: P3D, fire: expire}]
    events:
      approve: {to: approved, by: [owner]}
      reject: {to: rejected, by: [owner], comment: required}
      expire: {to: rejected, by: [timer]}
  approved: {final: true, enter: [call]}
  rejected: {final: true}
effects:
  call:
    webhook: {url: "https://core.example/done", body: {amount: "{{ data.amount }}", text: "{{ data.text }}"}}
    idempotent: true
    reversible: false
`

const simpleData = `{"amount":120.5,"text":"A text of some length, as people write them when they ask for something and explain why it is needed now","who":"rosa@example.com"}`

func benchWorld(b *testing.B) (*simulate.World, *fsm.Event) {
	w := &simulate.World{Definition: parse(b, simple), Directory: fsm.NewDirectory(1, people()), Zone: time.UTC}
	return w, &fsm.Event{
		Kind: fsm.KindStart, ID: "e1", Instance: "i1", Assurance: fsm.ByKey,
		Actor: fsm.Actor{Kind: fsm.ActorSystem, ID: "system:bench", Roles: []string{"requester"}},
		Start: &fsm.StartEvent{Data: object(b, simpleData)},
	}
}

func BenchmarkPlanStart(b *testing.B) {
	w, ev := benchWorld(b)
	snap := w.Snapshot(ev, nil)
	b.ReportAllocs()
	for b.Loop() {
		if step := fsm.Plan(snap, ev, monday); step.Refusal != nil {
			b.Fatal(step.Refusal)
		}
	}
}

func BenchmarkPlanDecision(b *testing.B) {
	w, ev := benchWorld(b)
	if step := w.Fire(ev, nil, monday); step.Refusal != nil {
		b.Fatal(step.Refusal)
	}
	decision := &fsm.Event{Kind: fsm.KindRaise, ID: "e2", Actor: ev.Actor, Assurance: fsm.ByKey, Name: "approve", Token: true}
	snap := w.Snapshot(decision, w.Link("system:bench"))
	b.ReportAllocs()
	for b.Loop() {
		if step := fsm.Plan(snap, decision, monday.Add(time.Minute)); step.Refusal != nil || step.Replay > 0 {
			b.Fatal(step.Refusal)
		}
	}
}
