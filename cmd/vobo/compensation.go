package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"vobo/client"
)

// undoWords says how far undoing one effect is.
var undoWords = map[string]string{
	"waiting": "waits for its turn", "blocked": "waits until it is known whether it went out", "running": "under way",
	"unknown": "perhaps done; a person has to find out", "succeeded": "undone", "failed": "failed; what comes after it waits for a person", "skipped": "given up, stays as it is",
}

func undoWord(status string) string {
	if word, ok := undoWords[status]; ok {
		return word
	}
	return status
}

// undoneBy says by what an effect is undone.
func undoneBy(undo string) string {
	if undo == "manual" {
		return "by hand"
	}
	return "by " + undo
}

// undoRows lists what is undone, in order, and what stays.
func undoRows(comp *client.Compensation) [][]string {
	var rows [][]string
	for n, i := range comp.Items {
		rows = append(rows, []string{fmt.Sprintf("undo %d", n+1), fmt.Sprintf("%s, %s: %s", i.Name, undoneBy(i.Undo), undoWord(i.Status))})
	}
	for _, name := range comp.NotUndone {
		rows = append(rows, []string{"stays", name + ": cannot be undone, or is not meant to be"})
	}
	return rows
}

// undoProgress is how far a compensation is, in a few words.
func undoProgress(comp *client.Compensation) string {
	if len(comp.Items) == 0 {
		return "nothing is to be undone"
	}
	done := 0
	for _, i := range comp.Items {
		if i.Status == "succeeded" || i.Status == "skipped" {
			done++
		}
	}
	if comp.Done {
		return "done, " + plural(len(comp.Items), "effect")
	}
	return fmt.Sprintf("%d of %s", done, plural(len(comp.Items), "effect"))
}

type instancesCancel struct {
	remote
	ID     string `arg:""`
	Reason string `required:"" help:"Why; it is kept in the history."`
	JSON   bool   `help:"Print JSON."`
}

// Run implements the command.
func (k *instancesCancel) Run(c *console) error {
	return k.call(c, func(ctx context.Context, server *client.Client) error {
		plan, err := server.Cancel(ctx, k.ID, k.Reason)
		if err != nil {
			return err
		}
		if k.JSON {
			return printJSON(c, plan)
		}
		comp := &plan.Compensation
		switch {
		case len(comp.Items) == 0:
			fmt.Fprintf(c.out, "%s is cancelled. Nothing is to be undone.\n", plan.Instance.ID)
		case comp.Done:
			fmt.Fprintf(c.out, "%s is cancelled, and what was done is undone:\n", plan.Instance.ID)
		default:
			fmt.Fprintf(c.out, "%s is cancelled. This is undone, one after the other:\n", plan.Instance.ID)
		}
		if err := printTable(c, undoRows(comp)); err != nil {
			return err
		}
		hint(c, "%s", undoNext(plan))
		return nil
	})
}

// undoNext is the command for what undoing waits for.
func undoNext(plan *client.Cancellation) string {
	over := func(i client.CompensationItem) bool { return i.Status == "succeeded" || i.Status == "skipped" }
	if at := slices.IndexFunc(plan.Compensation.Items, func(i client.CompensationItem) bool { return !over(i) }); at >= 0 {
		switch i := plan.Compensation.Items[at]; {
		case i.Status == "blocked":
			return "vobo effects show " + i.Effect
		case i.Status == "failed" || i.Status == "unknown" || i.Undo == "manual":
			return "vobo effects list --instance " + plan.Instance.ID + " --status dead --status unknown"
		}
	}
	return "vobo instances show " + plan.Instance.ID
}

// childWords say how a child fares.
var childWords = map[string]string{
	"running": "running", "ended": "ended well", "failed": "ended badly", "cancelled": "cancelled", "refused": "could not be started",
}

func childWord(status string) string {
	if word, ok := childWords[status]; ok {
		return word
	}
	return status
}

type instancesChildren struct {
	remote
	listed
	ID     string `arg:""`
	Effect string `placeholder:"ID" help:"Only of this start effect."`
}

// Run implements the command.
func (l *instancesChildren) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		return show(c, l.listed, server.Children(ctx, l.ID, l.Effect), []string{"PLACE", "ID", "STATUS", "ENDED", "BY"},
			func(k *client.Child, now time.Time) []string {
				return []string{fmt.Sprint(k.Index + 1), orNone(k.ID), detailed(childWord(k.Status), k.Detail), when(k.DoneAt, now), k.Effect}
			}, "It has no children.")
	})
}

// familyRows says whose child an instance is and how its own fare.
func familyRows(in *client.Instance) [][]string {
	var rows [][]string
	if in.Parent != "" {
		rows = append(rows, []string{"started by", in.Parent})
	}
	for _, k := range in.Children {
		rows = append(rows, []string{"children", fmt.Sprintf("%s: %s in all, %d running, %d ended well, %d ended badly", k.Name, atLeast(k.Total), k.Running, k.Ended, k.Bad)})
	}
	return rows
}

// atLeast is a number that the server counts up to 1,000.
func atLeast(n int) string {
	if n >= 1_000 {
		return "1000 or more"
	}
	return fmt.Sprint(n)
}
