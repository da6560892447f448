// Package simulate runs definitions on the real fsm.Plan with a virtual clock and
// without database or network: scenarios of definitions, and a small world for
// tests. It belongs to one goroutine.
package simulate

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// World is one instance in memory, with all that a store would keep of it.
type World struct {
	Definition *definitions.Definition
	Directory  *fsm.Directory
	Vars       map[string]string // env.NAME
	Zone       *time.Location

	Instance  fsm.Instance
	Assignees []fsm.Assignee // of every wait
	Tasks     []fsm.Task
	Deadlines []fsm.DeadlineRow // live ones
	Effects   []Effect
	History   []fsm.Transition
	Events    int // how many events were planned, refused ones too
}

// Effect is a queued effect and what became of it.
type Effect struct {
	fsm.QueuedEffect
	Status  fsm.EffectStatus
	Result  any
	GivenUp bool
	Frozen  fsm.Frozen
}

// Plan plans an event at now without writing anything.
func (w *World) Plan(ev *fsm.Event, token *fsm.EffectID, now time.Time) fsm.Step {
	w.Events++
	if ev.ID == "" {
		ev.ID = fmt.Sprintf("event-%d", w.Events)
	}
	binary.BigEndian.PutUint64(ev.Seed[:], uint64(w.Events))
	return fsm.Plan(w.Snapshot(ev, token), ev, now)
}

// Fire plans an event and writes its step. token is the assignee row of the link or
// callback token by which it comes; nil: by session, key, timer or effect.
func (w *World) Fire(ev *fsm.Event, token *fsm.EffectID, now time.Time) fsm.Step {
	step := w.Plan(ev, token, now)
	if step.Refusal == nil && step.Replay == 0 {
		w.Apply(step)
	}
	return step
}

// Snapshot gives what a store would load for the event.
func (w *World) Snapshot(ev *fsm.Event, token *fsm.EffectID) *fsm.Snapshot {
	s := &fsm.Snapshot{
		Definition: w.Definition, Instance: w.Instance, Deadlines: slices.Clone(w.Deadlines),
		Directory: w.Directory, Vars: w.Vars, Zone: w.Zone,
	}
	wait := ev.Wait
	for i, a := range w.Assignees {
		if token != nil && a.Seq == token.Seq && a.N == token.N {
			s.Token, wait = &w.Assignees[i], a.Wait
		}
		if a.Wait == w.Instance.Wait {
			s.Assignees = append(s.Assignees, a)
			if a.Vote > 0 {
				s.Votes = append(s.Votes, past(&w.History[a.Vote-1]))
			}
		}
	}
	sort.Slice(s.Votes, func(i, j int) bool { return s.Votes[i].Seq < s.Votes[j].Seq })
	for _, t := range w.Tasks {
		if t.Seq == w.Instance.Wait {
			s.Tasks = append(s.Tasks, t)
		}
	}
	if w.Definition.NeedsPast {
		for i := range w.History {
			s.Past = append(s.Past, past(&w.History[i]))
		}
	}
	w.earlier(s, ev, wait)
	need := fsm.NeedsEffects(s, ev)
	for _, e := range w.Effects {
		if need == fsm.NeedAll || need == fsm.NeedOne && names(ev, e.EffectID) {
			s.Effects = append(s.Effects, fsm.EffectRow{
				EffectID: e.EffectID, Name: e.Name, Kind: e.Kind, Wait: e.Wait,
				Status: e.Status, Result: e.Result, Input: e.Input, Undoes: e.Undoes, Link: e.Link, GivenUp: e.GivenUp,
			})
		}
	}
	return s
}

func names(ev *fsm.Event, id fsm.EffectID) bool {
	return ev.Result != nil && ev.Result.Effect == id || ev.Effect != nil && *ev.Effect == id
}

// earlier fills in Own, Left and Acts of the wait that the event is about.
func (w *World) earlier(s *fsm.Snapshot, ev *fsm.Event, wait int) {
	if wait == 0 {
		return
	}
	for i := range w.History {
		t := &w.History[i]
		if s.Token != nil && s.Token.Kind == fsm.AssigneeCallback && t.Token == (fsm.EffectID{Seq: s.Token.Seq, N: s.Token.N}) {
			s.Acts = append(s.Acts, past(t))
		}
		if t.Wait != wait || t.To == "" && t.Kind != fsm.TCancel {
			continue
		}
		left := past(t)
		s.Left = &left
		if identity(t.Actor) == identity(ev.Actor) && t.Kind != fsm.TCancel {
			s.Own = &left
		}
	}
	if s.Token != nil && s.Token.Consumed > 0 {
		own := past(&w.History[s.Token.Consumed-1])
		s.Own = &own
	}
}

func identity(a fsm.Actor) string {
	if a.For != "" {
		return a.For
	}
	return a.ID
}

func past(t *fsm.Transition) fsm.Past {
	return fsm.Past{
		Seq: t.Seq, Kind: t.Kind, Event: t.Event, From: t.From, To: t.To, Wait: t.Wait, Actor: t.Actor,
		Input: t.Input, Comment: t.Comment, At: t.At,
	}
}

// Apply writes a step as a store would.
func (w *World) Apply(step fsm.Step) {
	w.Instance = step.Instance
	if step.Transition.Seq > 0 {
		w.History = append(w.History, step.Transition)
	}
	w.Assignees = append(w.Assignees, step.Assignees...)
	for _, c := range step.AssigneeChanges {
		w.changeAssignee(c)
	}
	w.Tasks = append(w.Tasks, step.TasksOpened...)
	for _, c := range step.TaskChanges {
		w.changeTask(c)
	}
	w.Deadlines = append(w.Deadlines, step.DeadlinesSet...)
	for _, d := range step.DeadlineChanges {
		for i := range w.Deadlines {
			if w.Deadlines[i].Seq == d.Seq && w.Deadlines[i].N == d.N {
				w.Deadlines[i] = d
			}
		}
	}
	w.Deadlines = slices.DeleteFunc(w.Deadlines, func(d fsm.DeadlineRow) bool {
		return slices.Contains(step.DeadlinesGone, fsm.EffectID{Seq: d.Seq, N: d.N})
	})
	w.applyEffects(&step)
}

func (w *World) applyEffects(step *fsm.Step) {
	for i := range w.Effects {
		e := &w.Effects[i]
		if step.DropWait > 0 && e.Wait == step.DropWait && e.Droppable && e.Status == fsm.EffectWaiting {
			e.Status = fsm.EffectCancelled
		}
		for _, c := range step.EffectChanges {
			if c.EffectID == e.EffectID {
				e.Status, e.GivenUp = c.Status, false
			}
		}
		if r := step.Result; r != nil && r.Effect == e.EffectID {
			e.Status, e.Result = r.Status, r.Result
			e.GivenUp = r.Resolved && r.Status == fsm.EffectDead
		}
	}
	for _, q := range step.Effects {
		e := Effect{QueuedEffect: q, Status: cmp.Or(q.Status, fsm.EffectWaiting)}
		if err := json.Unmarshal(q.Request, &e.Frozen); err != nil {
			panic("a frozen request that is not JSON: " + err.Error())
		}
		w.Effects = append(w.Effects, e)
	}
}

func (w *World) changeAssignee(c fsm.AssigneeChange) {
	for i := range w.Assignees {
		a := &w.Assignees[i]
		if a.Seq != c.Seq || a.N != c.N {
			continue
		}
		if c.State != "" {
			a.State = c.State
		}
		if c.Consumed != 0 {
			a.Consumed = c.Consumed
		}
		if c.Vote != 0 {
			a.Vote = max(c.Vote, 0)
		}
	}
}

func (w *World) changeTask(c fsm.TaskChange) {
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Seq != c.Seq || t.N != c.N {
			continue
		}
		if c.Status != "" {
			t.Status, t.ClosedAt = c.Status, c.ClosedAt
		}
		if c.Owners != nil {
			t.Owners = c.Owners
		}
		if c.Title != nil {
			t.Title, t.Instructions, t.Facts, t.Digest = c.Title, c.Instructions, c.Facts, c.Digest
		}
		if c.DueAt != nil {
			t.DueAt = c.DueAt
		}
	}
}

// Next gives the live deadline that is due first (of equal ones the first set), or nil.
func (w *World) Next() *fsm.DeadlineRow {
	var next *fsm.DeadlineRow
	for i := range w.Deadlines {
		d := &w.Deadlines[i]
		if !d.Deferred && (next == nil || d.DueAt.Before(next.DueAt)) {
			next = d
		}
	}
	return next
}

// Due makes the event of a deadline.
func Due(d *fsm.DeadlineRow) *fsm.Event {
	return &fsm.Event{Kind: fsm.KindDeadline, Deadline: &fsm.DeadlineRef{Seq: d.Seq, N: d.N, Occurrence: d.Occurrence}}
}

// Link gives the newest link of somebody in the present wait, or nil; ref as in
// fsm.Assignee.
func (w *World) Link(ref string) *fsm.EffectID {
	for i := len(w.Assignees) - 1; i >= 0; i-- {
		a := &w.Assignees[i]
		if a.Wait == w.Instance.Wait && a.Ref == ref && a.Nonce != nil && a.Kind != fsm.AssigneeCallback {
			return &fsm.EffectID{Seq: a.Seq, N: a.N}
		}
	}
	return nil
}

// Person gives a person as an actor, with the groups and roles the directory knows.
func (w *World) Person(id string) fsm.Actor {
	a := fsm.Actor{Kind: fsm.ActorPerson, ID: id}
	if strings.HasPrefix(id, "system:") {
		a.Kind = fsm.ActorSystem
		return a
	}
	if p := w.Directory.Person(id); p != nil {
		a.Name, a.Groups, a.Roles = p.Name, p.Groups, p.Roles
	}
	return a
}
