package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"vobo/client"
)

// instancesCmd starts, finds, explains and drives instances.
type instancesCmd struct {
	Start    instancesStart    `cmd:"" help:"Start an instance."`
	List     instancesList     `cmd:"" help:"Search instances."`
	Show     instancesShow     `cmd:"" help:"Show an instance: state, tasks, deadlines, effects, data."`
	Explain  instancesExplain  `cmd:"" help:"Say for whom an instance waits, by which rule, until when."`
	History  instancesHistory  `cmd:"" help:"List what happened."`
	Fire     instancesFire     `cmd:"" help:"Raise an event as the caller."`
	Cancel   instancesCancel   `cmd:"" help:"Cancel an instance and undo what was done."`
	Children instancesChildren `cmd:"" help:"List the instances that an instance started."`
	Retry    instancesRetry    `cmd:"" help:"Raise again the timer or effect event that last failed."`
}

type instancesStart struct {
	remote
	Definition     string            `arg:"" placeholder:"NAME[@V]" help:"NAME or NAME@VERSION; the newest version unless said."`
	Data           string            `default:"{}" placeholder:"JSON" help:"The data as JSON, @FILE, or @- for stdin."`
	Requester      string            `placeholder:"PERSON" help:"In whose name; the key needs the role impersonator."`
	Label          map[string]string `placeholder:"NAME=VALUE" help:"A label; may be repeated."`
	IdempotencyKey string            `name:"idempotency-key" placeholder:"KEY" help:"The same key and data give the first answer again."`
	JSON           bool              `help:"Print JSON."`
}

// Run implements the command.
func (s *instancesStart) Run(c *console) error {
	name, v, err := versioned(s.Definition)
	if err != nil {
		return err
	}
	data, err := jsonArgument(c, "data", s.Data)
	if err != nil {
		return err
	}
	return s.call(c, func(ctx context.Context, server *client.Client) error {
		in, err := server.Start(ctx, client.StartRequest{
			Definition: name, Version: v, Data: data, Requester: s.Requester,
			Labels: s.Label, IdempotencyKey: s.IdempotencyKey,
		})
		if err != nil {
			return err
		}
		if s.JSON {
			return printJSON(c, in)
		}
		verb := "Started"
		if in.Replayed {
			verb = "Started before"
		}
		fmt.Fprintf(c.out, "%s %s: %s %d is in %s.\n", verb, in.ID, in.Definition, in.Version, in.State)
		hint(c, "vobo instances explain %s", in.ID)
		return nil
	})
}

type instancesList struct {
	remote
	listed
	Definition string `placeholder:"NAME"`
	Version    int    `placeholder:"N"`
	State      string `placeholder:"STATE"`
	Status     string `enum:",running,suspended,finished,cancelled" default:"" help:"running, suspended, finished or cancelled."`
	Attention  bool   `help:"Only those that need somebody to look."`
	Label      string `placeholder:"NAME:VALUE"`
	Key        string `placeholder:"KEY" help:"Business key, exactly."`
	Q          string `short:"q" placeholder:"TEXT" help:"Over key, id, labels and searchable data."`
	Sort       string `enum:"started_at,-started_at,entered_at,-entered_at" default:"-started_at" help:"started_at, entered_at, with - before it newest first."`
}

// Run implements the command.
func (l *instancesList) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		q := client.InstanceQuery{
			Definition: l.Definition, Version: l.Version, State: l.State, Status: l.Status, Label: l.Label,
			Key: l.Key, Q: l.Q, Sort: l.Sort, PageSize: l.pageSize(),
		}
		if l.Attention {
			q.Attention = &l.Attention
		}
		return show(c, l.listed, server.Instances(ctx, q), []string{"ID", "DEFINITION", "KEY", "STATE", "STATUS", "IN STATE SINCE", "ATTENTION"},
			func(in *client.Instance, now time.Time) []string {
				return []string{
					in.ID, fmt.Sprintf("%s@%d", in.Definition, in.Version), orNone(in.Key), in.State, in.Status,
					ago(in.EnteredAt, now), attention(in.AttentionReasons),
				}
			}, "No instance fits.")
	})
}

func attention(reasons []client.Attention) string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = r.Reason
	}
	return orNone(strings.Join(names, ","))
}

type instancesShow struct {
	remote
	ID   string `arg:""`
	JSON bool   `help:"Print JSON."`
}

// Run implements the command.
func (s *instancesShow) Run(c *console) error {
	return s.call(c, func(ctx context.Context, server *client.Client) error {
		in, err := server.Instance(ctx, s.ID)
		if err != nil {
			return err
		}
		if s.JSON {
			return printJSON(c, in)
		}
		return printInstance(c, in, time.Now())
	})
}

func printInstance(c *console, in *client.Instance, now time.Time) error {
	rows := [][]string{
		{"id", in.ID},
		{"definition", fmt.Sprintf("%s@%d", in.Definition, in.Version)},
		{"key", orNone(in.Key)},
		{"state", fmt.Sprintf("%s (%s), since %s", in.State, in.Status, ago(in.EnteredAt, now))},
		{"requester", in.Requester},
		{"started", ago(in.StartedAt, now)},
		{"revision", fmt.Sprint(in.Revision)},
	}
	for name, value := range in.Labels {
		rows = append(rows, []string{"label", name + ":" + value})
	}
	rows = append(rows, attentionRows(in.AttentionReasons, in.ID)...)
	for _, t := range in.Tasks {
		if t.Status != "open" {
			continue
		}
		rows = append(rows, []string{"task", fmt.Sprintf("%s  %s  (%s)", t.ID, t.Title, strings.Join(t.Owners, ", "))})
	}
	rows = append(rows, deadlineRows(in.Deadlines, now)...)
	for _, e := range in.Effects {
		rows = append(rows, []string{"effect", fmt.Sprintf("%s  %s  %s, %s", e.ID, e.Name, e.Status, plural(len(e.Attempts), "attempt"))})
	}
	rows = append(rows, familyRows(in)...)
	if in.Compensation != nil {
		rows = append(rows, []string{"undoing", undoProgress(in.Compensation)})
		rows = append(rows, undoRows(in.Compensation)...)
	}
	for _, e := range in.Events {
		text := e.Name
		if e.Blocked != "" {
			text += ": " + e.Blocked
		}
		rows = append(rows, []string{"you may", text})
	}
	if len(in.Data) > 0 {
		rows = append(rows, []string{"data", string(in.Data)})
	}
	return printTable(c, rows)
}

func deadlineRows(deadlines []client.Deadline, now time.Time) [][]string {
	var rows [][]string
	for _, d := range deadlines {
		rows = append(rows, []string{"deadline", strings.TrimSpace(d.Action+" "+d.Event) + " " + ago(d.DueAt, now)})
	}
	return rows
}

type instancesExplain struct {
	remote
	ID   string `arg:""`
	JSON bool   `help:"Print JSON."`
}

// Run implements the command.
func (e *instancesExplain) Run(c *console) error {
	return e.call(c, func(ctx context.Context, server *client.Client) error {
		v, err := server.Explain(ctx, e.ID)
		if err != nil {
			return err
		}
		if e.JSON {
			return printJSON(c, v)
		}
		fmt.Fprintln(c.out, plain(v.Sentence))
		return printTable(c, explanation(v, time.Now()))
	})
}

func explanation(v *client.Explanation, now time.Time) [][]string {
	var rows [][]string
	for _, w := range v.WaitsFor {
		text := w.Who + " by " + w.Rule
		if w.Voted {
			text += ", has voted"
		}
		rows = append(rows, []string{"waits for", text})
	}
	for name, p := range v.Quorum {
		rows = append(rows, []string{"quorum", fmt.Sprintf("%s: %d of %d", name, p.Have, p.Need)})
	}
	for _, ev := range v.Events {
		text := ev.Name + " by " + strings.Join(ev.By, ", ")
		if len(ev.Not) > 0 {
			text += ", not " + strings.Join(ev.Not, ", ")
		}
		if len(ev.Missing) > 0 {
			text += "; still missing: " + strings.Join(ev.Missing, ", ")
		}
		if ev.Blocked != "" {
			text += "; blocked: " + ev.Blocked
		}
		rows = append(rows, []string{"event", text})
	}
	rows = append(rows, deadlineRows(v.Deadlines, now)...)
	for _, n := range v.Notifications {
		if row := told(n); row != nil {
			rows = append(rows, row)
		}
	}
	return append(rows, attentionRows(v.Attention, v.Instance.ID)...)
}

// stopsChildren is the name of the engine's own effect that ends children.
const stopsChildren = "stop children"

// isEffectRef is an effect's reference within its instance.
var isEffectRef = regexp.MustCompile(`^[0-9]+-[0-9]+$`)

// told is the row of one thing that went out; nil for what the engine does for itself.
func told(n client.Notification) []string {
	state := detailed(n.Status, n.Detail)
	switch {
	case n.Name == stopsChildren:
		return nil
	case strings.Contains(n.To, "://"):
		return []string{"called", n.Name + ", " + n.To + ": " + state}
	case strings.Contains(n.To, "@"):
		return []string{"told", n.To + " by " + n.Name + ": " + state}
	case n.To != "":
		return []string{"effect", n.Name + ", " + n.To + ": " + state}
	}
	return []string{"effect", n.Name + ": " + state}
}

// attentionRows say why somebody should look, with ids that effects show takes.
func attentionRows(reasons []client.Attention, instance string) [][]string {
	var rows [][]string
	for _, a := range reasons {
		ref := a.Ref
		if isEffectRef.MatchString(ref) {
			ref = effectID(ref, instance)
		}
		rows = append(rows, []string{"attention", strings.Join(strings.Fields(a.Reason+" "+ref+" "+a.Detail), " ")})
	}
	return rows
}

// raised are the flags of commands that raise an event.
type raised struct {
	Input          string `placeholder:"JSON" help:"The event's input as JSON, @FILE, or @- for stdin."`
	Comment        string `placeholder:"TEXT"`
	Documents      string `placeholder:"JSON" help:"References to documents by name, as JSON, @FILE or @-."`
	IdempotencyKey string `name:"idempotency-key" placeholder:"KEY" help:"The same key and body give the first answer again."`
	JSON           bool   `help:"Print JSON."`
}

func (r raised) request(c *console, event string) (client.EventRequest, error) {
	out := client.EventRequest{Event: event, Comment: r.Comment, IdempotencyKey: r.IdempotencyKey}
	input, err := jsonArgument(c, "input", r.Input)
	if err != nil {
		return out, err
	}
	if input != nil {
		out.Input = input
	}
	out.Documents, err = documentsArgument(c, r.Documents)
	return out, err
}

// print says what became of an event.
func (r raised) print(c *console, res *client.Result) error {
	if r.JSON {
		return printJSON(c, res)
	}
	again := ""
	if res.Replayed {
		again = " That was recorded before; this is the first answer again."
	}
	switch {
	case res.Pending != nil:
		fmt.Fprintf(c.out, "The vote %s is noted: %d of %d.%s\n", res.Transition.Event, res.Pending.Have, res.Pending.Need, again)
	case res.Transition.To == "":
		fmt.Fprintf(c.out, "%s is recorded; %s stays in %s.%s\n", res.Transition.Event, res.Instance.ID, res.Instance.State, again)
	default:
		fmt.Fprintf(c.out, "%s is recorded; %s went to %s.%s\n", res.Transition.Event, res.Instance.ID, res.Transition.To, again)
	}
	hint(c, "vobo instances explain %s", res.Instance.ID)
	return nil
}

type instancesFire struct {
	remote
	raised
	ID         string `arg:""`
	Event      string `arg:""`
	IfRevision int    `name:"if-revision" placeholder:"N" help:"Only if the instance still has this revision."`
}

// Run implements the command.
func (f *instancesFire) Run(c *console) error {
	r, err := f.request(c, f.Event)
	if err != nil {
		return err
	}
	r.IfRevision = f.IfRevision
	return f.call(c, func(ctx context.Context, server *client.Client) error {
		res, err := server.Raise(ctx, f.ID, r)
		if err != nil {
			return err
		}
		return f.print(c, res)
	})
}

type instancesRetry struct {
	remote
	ID     string `arg:""`
	Reason string `required:"" help:"Why; it is kept."`
	JSON   bool   `help:"Print JSON."`
}

// Run implements the command.
func (r *instancesRetry) Run(c *console) error {
	return r.call(c, func(ctx context.Context, server *client.Client) error {
		res, err := server.RaiseAgain(ctx, r.ID, r.Reason)
		if err != nil {
			return err
		}
		return raised{JSON: r.JSON}.print(c, res)
	})
}
