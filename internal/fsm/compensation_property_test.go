package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vobo/internal/fsm"
	"vobo/internal/simulate"
)

// acts queues one effect at a time, in any order, until it is stopped or cancelled.
const acts = `
name: acts
version: 1
title: Acts
initial: one
data: {type: object, properties: {}}
states:
  one:
    owner: [requester]
    deadlines: [{after: P90D, fire: stop}]
    events:
      stop: {to: stopped, by: [requester, timer], compensate: true}
      a: {to: stay, by: [requester], effects: [a]}
      b: {to: stay, by: [requester], effects: [b]}
      fixed: {to: stay, by: [requester], effects: [fixed]}
      hand: {to: stay, by: [requester], effects: [hand]}
      undo_a: {to: stay, by: [requester], effects: [undo_a]}
      swap_b: {to: stay, by: [requester], effects: [swap_b]}
  stopped: {final: failed}
effects:
  a: {webhook: {url: "https://x.example/a"}, idempotent: true, reversible: true, compensate: un}
  b: {webhook: {url: "https://x.example/b"}, idempotent: true, reversible: true, compensate: un}
  fixed: {webhook: {url: "https://x.example/f"}, idempotent: true, reversible: false}
  hand: {webhook: {url: "https://x.example/h"}, idempotent: true, reversible: true, compensate: manual}
  undo_a: {webhook: {url: "https://x.example/ua"}, idempotent: true, reversible: false, undoes: a}
  swap_b: {webhook: {url: "https://x.example/sb"}, idempotent: true, reversible: true, compensate: un, undoes: b}
  un: {webhook: {url: "https://x.example/un"}, idempotent: true, reversible: false}
`

var (
	compensable = []string{"a", "b", "hand", "swap_b"}
	undoing     = map[string]string{"undo_a": "a", "swap_b": "b"}
)

// history is one random run of acts, and what is looked at after every step of it.
type history struct {
	rt    *rapid.T
	w     *simulate.World
	now   time.Time
	trace []string
}

func (h *history) fatal(format string, args ...any) {
	h.rt.Fatalf("%s\n%s\nplan %+v", strings.Join(h.trace, "\n"), fmt.Sprintf(format, args...), h.w.Instance.Compensation)
}

func (h *history) fire(what string, ev *fsm.Event) {
	h.trace = append(h.trace, what)
	h.now = h.now.Add(time.Second)
	if step := h.w.Fire(ev, nil, h.now); step.Refusal != nil {
		h.fatal("refused: %v", step.Refusal)
	}
	h.look()
}

// forward gives the declared effects before the compensation, oldest first.
func (h *history) forward() []*simulate.Effect {
	var all []*simulate.Effect
	for i := range h.w.Effects {
		e := &h.w.Effects[i]
		if c := h.w.Instance.Compensation; h.w.Definition.Effect(e.Name) != nil && e.Undoes == (fsm.EffectID{}) && (c == nil || e.Seq < c.Seq) {
			all = append(all, e)
		}
	}
	return all
}

func (h *history) undosOf(id fsm.EffectID) (all []*simulate.Effect) {
	for i := range h.w.Effects {
		if h.w.Effects[i].Undoes == id {
			all = append(all, &h.w.Effects[i])
		}
	}
	return all
}

func open(s fsm.EffectStatus) bool {
	return s != fsm.EffectSucceeded && s != fsm.EffectDead && s != fsm.EffectCancelled
}

// look checks what holds at every moment: each deed is undone at most once, one after
// another, newest first, and nothing whose outcome is not known.
func (h *history) look() {
	if h.w.Instance.Compensation == nil {
		return
	}
	under := 0
	deeds := h.forward()
	for i, e := range deeds {
		undos := h.undosOf(e.EffectID)
		if len(undos) > 1 {
			h.fatal("%s %v is undone %d times", e.Name, e.EffectID, len(undos))
		}
		if len(undos) == 0 {
			continue
		}
		if open(undos[0].Status) || undos[0].Status == fsm.EffectDead && h.asked(undos[0]) {
			under++
		}
		if e.Status != fsm.EffectSucceeded {
			h.fatal("%s %v is %s and is undone", e.Name, e.EffectID, e.Status)
		}
		for _, newer := range deeds[i+1:] {
			if !slices.Contains(compensable, newer.Name) {
				continue
			}
			settled := !open(newer.Status)
			for _, u := range h.undosOf(newer.EffectID) {
				settled = settled && !open(u.Status) && !(u.Status == fsm.EffectDead && h.asked(u))
			}
			if !settled {
				h.fatal("%s %v is undone before the newer %s %v", e.Name, e.EffectID, newer.Name, newer.EffectID)
			}
		}
	}
	if under > 1 {
		h.fatal("%d are undone at once", under)
	}
}

func (h *history) asked(e *simulate.Effect) bool {
	return slices.ContainsFunc(h.w.Instance.Attention, func(a fsm.Attention) bool { return a.Ref == idText(e.EffectID) })
}

// settle gives one effect its next outcome; false where all have theirs.
func (h *history) settle() bool {
	var unsettled []*simulate.Effect
	for i := range h.w.Effects {
		e := &h.w.Effects[i]
		ours := h.w.Definition.Effect(e.Name) != nil || e.Kind == "manual"
		if ours && (open(e.Status) || e.Status == fsm.EffectDead && e.Undoes != (fsm.EffectID{}) && h.asked(e)) {
			unsettled = append(unsettled, e)
		}
	}
	if len(unsettled) == 0 {
		return false
	}
	e := rapid.SampledFrom(unsettled).Draw(h.rt, "effect")
	operator := h.w.Person("olga@example.com")
	ends := []fsm.EffectStatus{fsm.EffectSucceeded, fsm.EffectSucceeded, fsm.EffectDead}
	what := fmt.Sprintf("%s %v undoing %v, %s:", e.Name, e.EffectID, e.Undoes, e.Status)
	switch {
	case e.Status == fsm.EffectWaiting && rapid.Bool().Draw(h.rt, "only begins"):
		e.Status = fsm.EffectRunning
		h.trace = append(h.trace, what+" runs")
		return true
	case e.Status == fsm.EffectUnknown || e.Status == fsm.EffectDead:
		id := e.EffectID
		if e.Kind != "manual" && rapid.Bool().Draw(h.rt, "again") {
			h.fire(what+" tried again", &fsm.Event{Kind: fsm.KindRetryEffect, Actor: operator, Effect: &id})
			return true
		}
		end := rapid.SampledFrom(ends).Draw(h.rt, "resolved")
		h.fire(fmt.Sprint(what, " resolved ", end), &fsm.Event{Kind: fsm.KindEffectResult, Actor: operator, Result: &fsm.ResultEvent{Effect: id, Status: end, Resolved: true}})
		return true
	}
	end := rapid.SampledFrom(append(ends, fsm.EffectUnknown, fsm.EffectRetrying)).Draw(h.rt, "outcome")
	if e.Status == fsm.EffectWaiting {
		e.Status = fsm.EffectRunning
	}
	h.fire(fmt.Sprint(what, " ", end), &fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{Effect: e.EffectID, Status: end}})
	return true
}

// verdict checks the end: what was done and not undone by a forward effect is undone
// or named, and nothing else.
func (h *history) verdict() {
	deeds := h.forward()
	matched := map[int]bool{} // deeds that a later one has undone, and those that undid
	for i, e := range deeds {
		of := undoing[e.Name]
		if of == "" || e.Status != fsm.EffectSucceeded {
			continue
		}
		for k := i - 1; k >= 0; k-- {
			if deeds[k].Name == of && deeds[k].Status == fsm.EffectSucceeded && !matched[k] {
				matched[k] = true
				matched[i] = matched[i] || !slices.Contains(compensable, e.Name)
				break
			}
		}
	}
	var named []string
	for i, e := range deeds {
		undos := h.undosOf(e.EffectID)
		due := e.Status == fsm.EffectSucceeded && !matched[i]
		switch {
		case due && slices.Contains(compensable, e.Name) != (len(undos) == 1), !due && len(undos) > 0:
			h.fatal("%s %v is %s, undone by a later one: %v, and %d undo it", e.Name, e.EffectID, e.Status, matched[i], len(undos))
		case due && (len(undos) == 0 || undos[0].Status != fsm.EffectSucceeded):
			named = append(named, e.Name)
		}
	}
	c := h.w.Instance.Compensation
	if !c.Done || !slices.Equal(c.NotUndone, named) {
		h.fatal("done %v, not undone %v, want %v", c.Done, c.NotUndone, named)
	}
}

func TestCompensationUndoesEverythingOnceInOrderWhateverHappens(t *testing.T) {
	t.Parallel()
	def := parse(t, acts)
	directory := fsm.NewDirectory(1, people())
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{rt: rt, now: monday, w: &simulate.World{Definition: def, Directory: directory, Zone: time.UTC}}
		rosa := h.w.Person("rosa@example.com")
		h.fire("start", &fsm.Event{Kind: fsm.KindStart, Instance: "0198-acts", Actor: rosa, Assurance: fsm.BySession, Start: &fsm.StartEvent{Data: map[string]any{}, Requester: rosa.ID}})
		for range rapid.IntRange(1, 8).Draw(rt, "acts") {
			name := rapid.SampledFrom([]string{"a", "b", "fixed", "hand", "undo_a", "swap_b"}).Draw(rt, "act")
			h.fire(name, &fsm.Event{Kind: fsm.KindRaise, Actor: rosa, Assurance: fsm.BySession, Name: name})
			for range rapid.IntRange(0, 3).Draw(rt, "outcomes") {
				h.settle()
			}
		}
		if rapid.Bool().Draw(rt, "cancel") {
			h.fire("cancel", &fsm.Event{Kind: fsm.KindCancel, Actor: rosa})
		} else {
			h.fire("stop", &fsm.Event{Kind: fsm.KindRaise, Actor: rosa, Assurance: fsm.BySession, Name: "stop"})
		}
		for n := 0; h.settle(); n++ {
			if n > 2000 {
				h.fatal("it does not come to an end")
			}
		}
		h.verdict()
		if err := fsm.VerifyChain(h.w.History); err != nil {
			h.fatal("%v", err)
		}
	})
}
