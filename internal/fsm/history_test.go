package fsm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fsm"
)

func TestEveryFieldOfAHistoryRowIsSealed(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "supplier.v1.yaml"))
	b.start("rosa@example.com", supplierData)
	b.accepted(b.raise("ana@example.com", "ask", comment("why")))
	b.accepted(b.raise("ana@example.com", "approve", b.input(`{"limit":5}`)))
	b.accepted(b.raise("eva@example.com", "approve", b.input(`{"limit":5}`)))
	if err := fsm.VerifyChain(b.w.History); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*fsm.Transition){
		"seq":       func(r *fsm.Transition) { r.Seq++ },
		"event id":  func(r *fsm.Transition) { r.EventID += "x" },
		"kind":      func(r *fsm.Transition) { r.Kind = fsm.TOperator },
		"event":     func(r *fsm.Transition) { r.Event = "reject" },
		"from":      func(r *fsm.Transition) { r.From += "x" },
		"to":        func(r *fsm.Transition) { r.To += "x" },
		"via":       func(r *fsm.Transition) { r.Via = append(slices.Clone(r.Via), "x") },
		"wait":      func(r *fsm.Transition) { r.Wait++ },
		"actor":     func(r *fsm.Transition) { r.Actor.ID = "luis@example.com" },
		"groups":    func(r *fsm.Transition) { r.Actor.Groups = []string{"x"} },
		"roles":     func(r *fsm.Transition) { r.Actor.Roles = []string{"x"} },
		"for":       func(r *fsm.Transition) { r.Actor.For = "x" },
		"through":   func(r *fsm.Transition) { r.Actor.Via = "x" },
		"assurance": func(r *fsm.Transition) { r.Assurance = fsm.ByStepUp },
		"comment":   func(r *fsm.Transition) { r.Comment += "x" },
		"input":     func(r *fsm.Transition) { r.Input = map[string]any{"limit": "6"} },
		"documents": func(r *fsm.Transition) { r.Documents = map[string]any{"d": "x"} },
		"changes":   func(r *fsm.Transition) { r.Changes = append(slices.Clone(r.Changes), fsm.Change{Pointer: "/x"}) },
		"digest":    func(r *fsm.Transition) { r.Digest += "x" },
		"pending":   func(r *fsm.Transition) { r.Pending = &fsm.Pending{Have: 7, Need: 9} },
		"token":     func(r *fsm.Transition) { r.Token.N++ },
		"reason":    func(r *fsm.Transition) { r.Reason += "x" },
		"deadlines": func(r *fsm.Transition) { r.DeadlinesCancelled = []string{"x"} },
		"time":      func(r *fsm.Transition) { r.At = r.At.Add(time.Millisecond) },
		"version":   func(r *fsm.Transition) { r.DefinitionVersion++ },
		"salt":      func(r *fsm.Transition) { r.Salt = []byte("0123456789abcdef") },
		"previous":  func(r *fsm.Transition) { r.PreviousHash = "v1:00" },
		"hash":      func(r *fsm.Transition) { r.Hash = "v1:00" },
	} {
		rows := slices.Clone(b.w.History)
		spoil(&rows[2])
		if fsm.VerifyChain(rows) == nil {
			t.Errorf("a changed %s is not noticed", name)
		}
	}
	if err := fsm.VerifyChain(b.w.History[1:]); err == nil {
		t.Error("a missing first row is not noticed")
	}
	if err := fsm.VerifyChain(append(slices.Clone(b.w.History[:1]), b.w.History[2:]...)); err == nil || !strings.Contains(err.Error(), "row 2") {
		t.Errorf("a missing row gives %v", err)
	}
}

func TestTheSameEventPlannedTwiceGivesTheSameStep(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "supplier.v1.yaml"))
	ev := b.startEvent("rosa@example.com", supplierData)
	ev.ID = "e"
	snap := b.w.Snapshot(ev, nil)
	before := text(snap.Instance) + text(ev)
	one, two := fsm.Plan(snap, ev, b.now), fsm.Plan(snap, ev, b.now)
	if text(one) != text(two) {
		t.Error("two plans of one event differ")
	}
	if text(snap.Instance)+text(ev) != before {
		t.Error("planning changed what it was given")
	}
	ev.Seed[0]++
	three := fsm.Plan(snap, ev, b.now)
	if string(three.Assignees[0].Nonce) == string(one.Assignees[0].Nonce) || string(three.Transition.Salt) == string(one.Transition.Salt) {
		t.Error("another seed gives the same secrets")
	}
	seen := map[string]bool{string(one.Transition.Salt): true}
	for _, a := range one.Assignees {
		if len(a.Nonce) != 16 || seen[string(a.Nonce)] {
			t.Errorf("nonce %x is short or used twice", a.Nonce)
		}
		seen[string(a.Nonce)] = true
	}
}
