package store

import (
	"sort"

	"vobo/internal/fsm"
)

// ownerRow is one row of task_owners.
type ownerRow struct {
	ref          string
	owner, named bool
}

// owners writes before whom each task is: its owner refs and those who were asked.
func (w *writes) owners(e *entry) {
	step := &e.job.Step
	byTask := map[fsm.EffectID]map[string]ownerRow{}
	add := func(task fsm.EffectID, row ownerRow) {
		rows := byTask[task]
		if rows == nil {
			rows = map[string]ownerRow{}
			byTask[task] = rows
		}
		before := rows[row.ref]
		rows[row.ref] = ownerRow{row.ref, row.owner || before.owner, row.named || before.named}
	}
	for i := range step.TasksOpened {
		t := &step.TasksOpened[i]
		for _, ref := range t.Owners {
			add(fsm.EffectID{Seq: t.Seq, N: t.N}, ownerRow{ref: ref, owner: true})
		}
	}
	closed := map[fsm.EffectID]bool{}
	for _, c := range step.TaskChanges {
		id := fsm.EffectID{Seq: c.Seq, N: c.N}
		for _, ref := range c.Owners {
			add(id, ownerRow{ref: ref, owner: true})
		}
		if c.Status != "" && c.Status != taskOpen {
			closed[id] = true
			w.of(closeOwners).id(e.id).num(c.Seq).num(c.N)
		}
	}
	for i := range step.Assignees {
		a := &step.Assignees[i]
		if task, ok := taskOf(e, a); ok && a.Kind != fsm.AssigneeCallback {
			add(task, ownerRow{ref: a.Ref, named: true})
		}
	}
	w.ownerRows(e, byTask, closed)
}

// taskOpen is the status of a task that waits.
const taskOpen = "open"

func (w *writes) ownerRows(e *entry, byTask map[fsm.EffectID]map[string]ownerRow, closed map[fsm.EffectID]bool) {
	for task, rows := range byTask {
		refs := make([]string, 0, len(rows))
		for ref := range rows {
			refs = append(refs, ref)
		}
		sort.Strings(refs)
		for _, ref := range refs {
			w.of(insertOwners).id(e.id).num(task.Seq).num(task.N).text(ref).flag(rows[ref].owner).flag(rows[ref].named).flag(!closed[task])
		}
	}
}

// taskOf finds the task that an assignee's index points to: among those just opened,
// else among those of the present wait.
func taskOf(e *entry, a *fsm.Assignee) (fsm.EffectID, bool) {
	var of []fsm.EffectID
	for i := range e.job.Step.TasksOpened {
		if t := &e.job.Step.TasksOpened[i]; t.Seq == a.Wait {
			of = append(of, fsm.EffectID{Seq: t.Seq, N: t.N})
		}
	}
	if len(of) == 0 && e.job.Snapshot != nil {
		for i := range e.job.Snapshot.Tasks {
			if t := &e.job.Snapshot.Tasks[i]; t.Seq == a.Wait {
				of = append(of, fsm.EffectID{Seq: t.Seq, N: t.N})
			}
		}
	}
	sort.Slice(of, func(i, j int) bool { return of[i].N < of[j].N })
	if a.Task < 0 || a.Task >= len(of) {
		return fsm.EffectID{}, false
	}
	return of[a.Task], true
}
