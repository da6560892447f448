package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

const board = `
name: board
version: 1
title: Board
initial: open
data: {type: object, properties: {n: {type: integer, default: 0}, text: {type: string, default: a}}}
states:
  open:
    owner: ["group:board"]
    task: {title: "Vote on {{ data.text }}", show: [data.text]}
    deadlines: [{after: P1D, remind: owner}, {after: P3D, fire: expire}]
    events:
      approve:
        to: passed
        by: [owner]
        not: [requester]
        quorum: 2
        form: {type: object, properties: {n: {type: integer}}}
        set: {n: input.n}
        effects: [tell]
      reject: {to: refused, by: [owner], comment: required}
      edit: {to: stay, by: [owner], form: {type: object, required: [text], properties: {text: {type: string}}}, set: {text: input.text}}
      expire: {to: refused, by: [timer]}
  passed: {final: true}
  refused: {final: true}
effects:
  tell:
    email: {to: [requester], subject: "Passed with {{ data.n }}", body: "."}
    reversible: false
`

func boardBundle(t *testing.T, members ...string) *bundle {
	b := newBundle(t, parse(t, board))
	crew := []fsm.Person{{ID: "rosa@example.com", Name: "Rosa", Roles: []string{"requester"}, Active: true}}
	for _, m := range members {
		crew = append(crew, fsm.Person{ID: m + "@example.com", Name: strings.ToUpper(m[:1]) + m[1:], Groups: []string{"board"}, Active: true})
	}
	b.w.Directory = fsm.NewDirectory(1, crew)
	b.start("rosa@example.com", `{}`)
	return b
}

func TestAQuorumIsReachedOnceByDistinctPeople(t *testing.T) { // field report B45, guarantee R-34
	t.Parallel()
	b := boardBundle(t, "ana", "luis", "eva")
	mail, old := b.link("ana@example.com"), b.link("eva@example.com")
	first := b.accepted(b.click(mail, "ana@example.com", "approve", b.input(`{"n":1}`)))
	if p := first.Transition.Pending; p == nil || *p != (fsm.Pending{Have: 1, Need: 2}) {
		t.Fatalf("pending %v", p)
	}
	b.replayed(b.raise("ana@example.com", "approve", b.input(`{"n":1}`)), 2)
	again := b.accepted(b.raise("ana@example.com", "approve", b.input(`{"n":2}`)))
	if p := again.Transition.Pending; *p != (fsm.Pending{Have: 1, Need: 2}) {
		t.Errorf("the same person counts twice: %v", p)
	}
	last := b.accepted(b.raise("luis@example.com", "approve", b.input(`{"n":3}`)))
	if last.Transition.Kind != fsm.TTransition || *last.Transition.Pending != (fsm.Pending{Have: 2, Need: 2}) {
		t.Errorf("%s %v", last.Transition.Kind, last.Transition.Pending)
	}
	if text(b.w.Instance.Data["n"]) != "3" {
		t.Errorf("set took %v, not the completing vote's input", b.w.Instance.Data["n"])
	}
	if len(last.Effects) != 1 {
		t.Errorf("%d effects", len(last.Effects))
	}
	late := b.refused(b.click(old, "eva@example.com", "approve", b.input(`{"n":9}`)), fault.AlreadyDecided)
	if late.Winner.Actor != "Luis" {
		t.Errorf("winner %+v", late.Winner)
	}
	b.refused(b.click(mail, "ana@example.com", "reject", comment("x")), fault.AlreadyDecided)
	b.replayed(b.click(mail, "ana@example.com", "approve", b.input(`{"n":1}`)), 2)
}

func TestARejectionClosesTheOthersTasksAndReminders(t *testing.T) { // field report B45
	t.Parallel()
	b := boardBundle(t, "ana", "luis", "eva")
	link := b.link("eva@example.com")
	b.accepted(b.raise("ana@example.com", "approve"))
	b.accepted(b.raise("luis@example.com", "reject", comment("no")))
	if b.w.Tasks[0].Status != "done" || len(b.w.Deadlines) != 0 {
		t.Errorf("task %s, %d deadlines", b.w.Tasks[0].Status, len(b.w.Deadlines))
	}
	b.refused(b.click(link, "eva@example.com", "approve"), fault.AlreadyDecided)
	b.refused(b.raise("eva@example.com", "approve"), fault.EventNotAllowedHere)
}

func TestAPersonOfBothLinesFillsTheOneThatIsLeft(t *testing.T) {
	t.Parallel()
	limit := `{"limit":1}`
	for _, order := range [][]string{{"luis", "ana"}, {"ana", "luis"}, {"luis", "eva"}, {"eva", "luis"}, {"ana", "eva"}} {
		b := newBundle(t, example(t, "supplier.v1.yaml"))
		b.start("rosa@example.com", supplierData)
		first := b.accepted(b.raise(order[0]+"@example.com", "approve", b.input(limit)))
		if *first.Transition.Pending != (fsm.Pending{Have: 1, Need: 2}) {
			t.Errorf("%v: pending %v", order, first.Transition.Pending)
		}
		b.accepted(b.raise(order[1]+"@example.com", "approve", b.input(limit)))
		b.state("signing")
	}
	b := newBundle(t, example(t, "supplier.v1.yaml"))
	b.w.Directory = fsm.NewDirectory(1, append(people(), fsm.Person{ID: "zoe@example.com", Groups: []string{"risk"}, Active: true}))
	b.start("rosa@example.com", supplierData)
	b.accepted(b.raise("ana@example.com", "approve", b.input(limit)))
	second := b.accepted(b.raise("zoe@example.com", "approve", b.input(limit)))
	if *second.Transition.Pending != (fsm.Pending{Have: 1, Need: 2}) {
		t.Errorf("two of one line fill both: %v", second.Transition.Pending)
	}
}

func TestAChangedVoteStandsAloneAndTheHistoryKeepsBoth(t *testing.T) {
	t.Parallel()
	b := boardBundle(t, "ana", "luis", "eva")
	for i := range 4 {
		b.accepted(b.raise("ana@example.com", "approve", b.input(fmt.Sprintf(`{"n":%d}`, i))))
	}
	standing := 0
	for _, a := range b.w.Assignees {
		if a.Vote > 0 {
			standing++
		}
	}
	if standing != 1 || len(b.w.History) != 5 {
		t.Errorf("%d standing votes, %d rows", standing, len(b.w.History))
	}
}

func TestAChangeOfWhatIsShownVoidsVotesAndReplacesLinks(t *testing.T) { // guarantee S-05
	t.Parallel()
	b := boardBundle(t, "ana", "luis", "eva")
	ana, luis := b.link("ana@example.com"), b.link("luis@example.com")
	read := b.w.Tasks[0].Digest
	b.accepted(b.click(ana, "ana@example.com", "approve"))
	step := b.accepted(b.raise("eva@example.com", "edit", b.input(`{"text":"b"}`), comment("typo")))
	if got := b.mails("changed"); !slices.Equal(got, []string{"ana", "luis"}) {
		t.Errorf("told %v", got)
	}
	if b.w.Tasks[0].Digest == read || b.w.Tasks[0].Title[""] != "Vote on b" {
		t.Errorf("task %+v", b.w.Tasks[0])
	}
	for _, a := range b.w.Assignees {
		if a.Vote != 0 {
			t.Errorf("the vote of %s still stands", a.Ref)
		}
	}
	b.refused(b.click(luis, "luis@example.com", "approve"), fault.ContentChanged)
	b.refused(b.raise("luis@example.com", "approve", digest(read)), fault.ContentChanged)
	b.refused(b.click(b.link("luis@example.com"), "luis@example.com", "approve", digest(read)), fault.ContentChanged)
	fresh := b.accepted(b.click(b.link("luis@example.com"), "luis@example.com", "approve", digest(b.w.Tasks[0].Digest)))
	if fresh.Transition.Digest != b.w.Tasks[0].Digest || *fresh.Transition.Pending != (fsm.Pending{Have: 1, Need: 2}) {
		t.Errorf("%+v", fresh.Transition)
	}
	if step.Successor == (fsm.EffectID{}) {
		t.Error("the one who changed it got no fresh link")
	}
}

func TestAnEditThatChangesNothingShownLeavesVotesAndLinks(t *testing.T) {
	t.Parallel()
	b := boardBundle(t, "ana", "luis", "eva")
	luis := b.link("luis@example.com")
	b.accepted(b.raise("ana@example.com", "approve", b.input(`{"n":1}`)))
	b.accepted(b.raise("eva@example.com", "edit", b.input(`{"text":"a"}`)))
	b.accepted(b.click(luis, "luis@example.com", "approve", b.input(`{"n":1}`)))
	b.state("passed")
}

func TestAQuorumThatCannotBeMetAnyMoreAsksForAttention(t *testing.T) {
	t.Parallel()
	b := newBundle(t, parse(t, strings.Replace(strings.Replace(board, "      reject:", "      refuse: {to: refused, by: [owner], quorum: 2}\n      reject:", 1), "not: [requester]", "not: [requester]", 1)))
	b.w.Directory = fsm.NewDirectory(1, []fsm.Person{
		{ID: "rosa@example.com", Roles: []string{"requester"}, Active: true},
		{ID: "ana@example.com", Groups: []string{"board"}, Active: true},
		{ID: "luis@example.com", Groups: []string{"board"}, Active: true},
	})
	b.start("rosa@example.com", `{}`)
	b.accepted(b.raise("ana@example.com", "approve"))
	if b.attention("quorum-unreachable") != nil {
		t.Fatal("too early")
	}
	b.accepted(b.raise("luis@example.com", "refuse"))
	if b.attention("quorum-unreachable") == nil {
		t.Error("nobody is told that neither quorum can be met")
	}
}

func TestAJoinerVotesFromTheInboxAndALeaverCannot(t *testing.T) {
	t.Parallel()
	b := boardBundle(t, "ana", "luis")
	link := b.link("luis@example.com")
	b.w.Directory = fsm.NewDirectory(2, []fsm.Person{
		{ID: "rosa@example.com", Active: true},
		{ID: "ana@example.com", Groups: []string{"board"}, Active: true},
		{ID: "luis@example.com", Active: true},
		{ID: "zoe@example.com", Groups: []string{"board"}, Active: true},
	})
	b.refused(b.raise("luis@example.com", "approve"), fault.NotPermitted)
	b.refused(b.click(link, "luis@example.com", "approve"), fault.TokenRevoked)
	b.accepted(b.raise("zoe@example.com", "approve", b.input(`{"n":1}`)))
	b.accepted(b.raise("ana@example.com", "approve", b.input(`{"n":1}`)))
	b.state("passed")
}

func TestChooseInsideAWaitSeesVotes(t *testing.T) {
	t.Parallel()
	src := strings.Replace(board, "    events:\n      approve:", "    choose: [{when: \"votes.approve.exists(v, v.input.n == 7)\", to: passed}]\n    events:\n      approve:", 1)
	b := newBundle(t, parse(t, src))
	b.w.Directory = fsm.NewDirectory(1, []fsm.Person{{ID: "rosa@example.com", Roles: []string{"requester"}, Active: true}, {ID: "ana@example.com", Groups: []string{"board"}, Active: true}})
	b.start("rosa@example.com", `{}`)
	b.accepted(b.raise("ana@example.com", "approve", b.input(`{"n":6}`)))
	b.state("open")
	step := b.accepted(b.raise("ana@example.com", "approve", b.input(`{"n":7}`)))
	b.state("passed")
	if step.Transition.Kind != fsm.TTransition || step.Transition.To != "passed" {
		t.Errorf("%+v", step.Transition)
	}
}

func TestOppositeChoicesHaveOneWinner(t *testing.T) { // guarantee R-08
	t.Parallel()
	for _, order := range [][2]string{{"approve", "reject"}, {"reject", "approve"}} {
		b := newBundle(t, example(t, "onboarding.v1.yaml"))
		b.start("rosa@example.com", onboardingData)
		b.accepted(b.raise("rosa@example.com", "submit"))
		ana, luis := b.link("ana@example.com"), b.link("luis@example.com")
		b.accepted(b.click(ana, "ana@example.com", order[0], comment("x")))
		rows, effects := len(b.w.History), len(b.w.Effects)
		lost := b.refused(b.click(luis, "luis@example.com", order[1], comment("y")), fault.AlreadyDecided)
		if lost.Winner.Event != order[0] || lost.Winner.Actor != "Ana" || len(b.w.History) != rows || len(b.w.Effects) != effects {
			t.Errorf("winner %+v", lost.Winner)
		}
	}
}
