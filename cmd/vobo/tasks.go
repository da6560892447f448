package main

import (
	"context"
	"strings"
	"time"

	"vobo/client"
)

// tasksCmd lists, shows and decides tasks.
type tasksCmd struct {
	List   tasksList   `cmd:"" help:"List tasks, those due first."`
	Show   tasksShow   `cmd:"" help:"Show a task with the events that you may raise."`
	Decide tasksDecide `cmd:"" help:"Decide a task as the caller."`
}

type tasksList struct {
	remote
	listed
	Mine       bool      `help:"Only what asks the caller by name."`
	Owner      string    `placeholder:"LINE" help:"An owner line such as group:risk."`
	Definition string    `placeholder:"NAME"`
	DueBefore  time.Time `name:"due-before" placeholder:"TIME" help:"RFC 3339, such as 2026-12-03T18:00:00Z."`
	Status     string    `enum:"open,done,cancelled,expired" default:"open" help:"open, done, cancelled or expired."`
	Q          string    `short:"q" placeholder:"TEXT" help:"Over title, instance id and business key."`
	Sort       string    `enum:"due,created,priority" default:"due" help:"due, created or priority."`
}

// Run implements the command.
func (l *tasksList) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		rows := server.Tasks(ctx, client.TaskQuery{
			Mine: l.Mine, Owner: l.Owner, Definition: l.Definition, DueBefore: l.DueBefore,
			Status: l.Status, Q: l.Q, Sort: l.Sort, PageSize: l.pageSize(),
		})
		return show(c, l.listed, rows, []string{"ID", "TITLE", "DEFINITION", "OWNERS", "MADE", "DUE"},
			func(t *client.Task, now time.Time) []string {
				return []string{t.ID, t.Title, t.Definition, strings.Join(t.Owners, ","), ago(t.CreatedAt, now), when(t.DueAt, now)}
			}, "No task fits.")
	})
}

type tasksShow struct {
	remote
	ID   string `arg:""`
	JSON bool   `help:"Print JSON."`
}

// Run implements the command.
func (s *tasksShow) Run(c *console) error {
	return s.call(c, func(ctx context.Context, server *client.Client) error {
		t, err := server.Task(ctx, s.ID)
		if err != nil {
			return err
		}
		if s.JSON {
			return printJSON(c, t)
		}
		if err := printTable(c, taskRows(t, time.Now())); err != nil {
			return err
		}
		if len(t.Events) > 0 {
			person := ""
			if s.OnBehalfOf != "" {
				person = " --on-behalf-of " + s.OnBehalfOf
			}
			hint(c, "vobo tasks decide %s %s --digest %s%s", t.ID, t.Events[0].Name, t.Digest, person)
		}
		return nil
	})
}

func taskRows(t *client.Task, now time.Time) [][]string {
	rows := [][]string{
		{"id", t.ID},
		{"title", t.Title},
		{"instance", t.InstanceID},
		{"definition", t.Definition + ", " + t.State},
		{"status", t.Status},
		{"priority", t.Priority},
		{"owners", strings.Join(t.Owners, ", ")},
		{"assignees", orNone(strings.Join(t.Assignees, ", "))},
		{"made", ago(t.CreatedAt, now)},
		{"due", when(t.DueAt, now)},
		{"digest", t.Digest},
	}
	for _, e := range t.Events {
		text := e.Name
		if e.Title != e.Name && e.Title != "" {
			text += " (" + e.Title + ")"
		}
		if e.Comment == "required" {
			text += ", with --comment"
		}
		if len(e.Form) > 0 {
			text += ", with --input"
		}
		for _, d := range e.Documents {
			text += ", with the document " + d.Name
		}
		if e.Blocked != "" {
			text += ": " + e.Blocked
		}
		rows = append(rows, []string{"you may", text})
	}
	return rows
}

type tasksDecide struct {
	remote
	raised
	ID     string `arg:""`
	Event  string `arg:""`
	Digest string `placeholder:"DIGEST" help:"Of the task as you read it: a change since then is refused."`
}

// Run implements the command.
func (d *tasksDecide) Run(c *console) error {
	r, err := d.request(c, d.Event)
	if err != nil {
		return err
	}
	return d.call(c, func(ctx context.Context, server *client.Client) error {
		res, err := server.DecideTask(ctx, d.ID, client.Decision{EventRequest: r, Digest: d.Digest})
		if err != nil {
			return err
		}
		return d.print(c, res)
	})
}
