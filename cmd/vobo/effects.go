package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"vobo/client"
)

// effectsCmd is what a person does about what leaves the service.
type effectsCmd struct {
	List    effectsList    `cmd:"" help:"List effects: mails, webhooks, children and events for other instances."`
	Show    effectsShow    `cmd:"" help:"Show an effect: why, every attempt, the request as sent, the answer, what to do."`
	Retry   effectsRetry   `cmd:"" help:"Try a dead or unknown effect again."`
	Resolve effectsResolve `cmd:"" help:"Say what became of a dead or unknown effect: it happened, or it is given up."`
	Redrive effectsRedrive `cmd:"" help:"Try all dead effects that fit a filter again; --dry-run shows which."`
}

// effectFilter narrows effects.
type effectFilter struct {
	Definition string    `placeholder:"NAME"`
	Name       string    `placeholder:"NAME" help:"Of the effect, as the definition names it."`
	Kind       string    `enum:",email,webhook,start,event,stop,manual,task-mail,notice-mail" default:"" help:"email, webhook, start, event, stop, manual, task-mail or notice-mail."`
	Host       string    `placeholder:"HOST" help:"Of a webhook, with the port where its URL names one."`
	Instance   string    `placeholder:"ID"`
	Before     time.Time `placeholder:"TIME" help:"Queued before; RFC 3339, such as 2026-12-03T18:00:00Z."`
}

type effectsList struct {
	remote
	listed
	effectFilter
	Status []string `enum:"waiting,running,retrying,succeeded,dead,unknown,cancelled" placeholder:"STATUS" help:"waiting, running, retrying, succeeded, dead, unknown, cancelled; may be repeated."`
}

// Run implements the command.
func (l *effectsList) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		rows := server.Effects(ctx, client.EffectQuery{
			Status: l.Status, Instance: l.Instance, Name: l.Name, Definition: l.Definition, Kind: l.Kind, Host: l.Host, Before: l.Before, PageSize: l.pageSize(),
		})
		return show(c, l.listed, rows, []string{"ID", "NAME", "KIND", "STATUS", "INSTANCE", "TO", "QUEUED", "ATTEMPTS", "NEXT", "LAST OUTCOME"},
			func(e *client.Effect, now time.Time) []string {
				return []string{e.ID, e.Name, e.Kind, standing(e), shortID(e.InstanceID), orNone(e.To), ago(e.QueuedAt, now), fmt.Sprint(len(e.Attempts)), when(e.NextAttemptAt, now), lastOutcome(e)}
			}, "No effect fits.")
	})
}

// lastOutcome is why an effect stands where it does: its reason, or how its last attempt ended.
func lastOutcome(e *client.Effect) string {
	if n := len(e.Attempts); n > 0 {
		last := e.Attempts[n-1]
		if exhausted(e, n-1) {
			return detailed(fmt.Sprintf("failed, %d of %d attempts", last.N, last.N), last.Detail)
		}
		return detailed(last.Outcome, last.Detail)
	}
	return orNone(e.Reason)
}

type effectsShow struct {
	remote
	ID   string `arg:""`
	JSON bool   `help:"Print JSON."`
}

// Run implements the command.
func (s *effectsShow) Run(c *console) error {
	return s.call(c, func(ctx context.Context, server *client.Client) error {
		e, err := server.Effect(ctx, s.ID)
		if err != nil {
			return err
		}
		if s.JSON {
			return printJSON(c, e)
		}
		if err := printTable(c, effectRows(e, time.Now())); err != nil {
			return err
		}
		next := effectNext(e)
		if e.Status == "succeeded" {
			in, err := server.Instance(ctx, e.InstanceID)
			if err != nil {
				return err
			}
			next = refusedNext(e, in.AttentionReasons)
		}
		if next != "" {
			fmt.Fprintln(c.out, "\n"+next)
		}
		return nil
	})
}

// effectNext says what a person can do about an effect; "" : nothing is to be done.
func effectNext(e *client.Effect) string {
	retry := fmt.Sprintf("  vobo effects retry %s --reason TEXT", e.ID)
	done := fmt.Sprintf("  vobo effects resolve %s --outcome succeeded --reason TEXT [--result JSON]", e.ID)
	giveUp := fmt.Sprintf("  vobo effects resolve %s --outcome failed --reason TEXT", e.ID)
	switch {
	case e.GivenUp && e.Kind == "manual":
		return givenUpBy(e)
	case e.GivenUp:
		return givenUpBy(e) + "\nTry it again all the same:\n" + retry
	case e.Kind == "manual" && e.Status == "unknown":
		return "A person has to undo this by hand. Then say so:\n" + done + "\nor give it up; it then stays as it is, and what comes after it is undone:\n" + giveUp
	case e.Status == "unknown" && e.Idempotent:
		return "Perhaps it happened. The receiver takes a repetition for the same call, so trying again is safe:\n" + retry +
			"\nIf you know that it happened:\n" + done + "\nor give it up:\n" + giveUp
	case e.Status == "unknown":
		return "Perhaps it happened: find out at the other side first, by the id " + e.Key + ".\nIt happened:\n" + done +
			"\nIt did not; try again:\n" + retry + "\nGive it up:\n" + giveUp
	case e.Status == "dead":
		return "Mend the cause, then try again:\n" + retry + "\nIt happened by another way:\n" + done + "\nGive it up:\n" + giveUp
	}
	return ""
}

func givenUpBy(e *client.Effect) string {
	return "It was given up; who, when and why stands in the history:\n  vobo instances history " + e.InstanceID
}

// refusedNext says what to do about a result that the instance could not take; "": it took it.
func refusedNext(e *client.Effect, reasons []client.Attention) string {
	for _, a := range reasons {
		if a.Reason == "result-refused" && effectID(a.Ref, e.InstanceID) == e.ID {
			return fmt.Sprintf("It happened, but its result was refused: %s\nSay what it gave:\n  vobo effects resolve %s --outcome succeeded --result JSON --reason TEXT", sentence(a.Detail), e.ID)
		}
	}
	return ""
}

// effectID is the id that effects show takes, of a reference within an instance.
func effectID(ref, instance string) string {
	if ref == "" || strings.HasPrefix(ref, instance) {
		return ref
	}
	return instance + "-" + ref
}

type effectsRetry struct {
	remote
	ID     string `arg:""`
	Reason string `required:"" help:"Why; it is kept."`
	JSON   bool   `help:"Print JSON."`
}

// Run implements the command.
func (r *effectsRetry) Run(c *console) error {
	return r.call(c, func(ctx context.Context, server *client.Client) error {
		e, err := server.RetryEffect(ctx, r.ID, r.Reason)
		if err != nil {
			return err
		}
		return printEffect(c, e, r.JSON)
	})
}

type effectsResolve struct {
	remote
	ID      string `arg:""`
	Outcome string `required:"" enum:"succeeded,failed" help:"succeeded: it happened; failed: it is given up."`
	Result  string `placeholder:"JSON" help:"What it gave, as JSON, @FILE or @-."`
	Reason  string `required:"" help:"How you know; it is kept."`
	JSON    bool   `help:"Print JSON."`
}

// Run implements the command.
func (r *effectsResolve) Run(c *console) error {
	result, err := jsonArgument(c, "result", r.Result)
	if err != nil {
		return err
	}
	resolution := client.Resolution{Outcome: r.Outcome, Reason: r.Reason}
	if result != nil {
		resolution.Result = result
	}
	return r.call(c, func(ctx context.Context, server *client.Client) error {
		e, err := server.ResolveEffect(ctx, r.ID, resolution)
		if err != nil {
			return err
		}
		return printEffect(c, e, r.JSON)
	})
}

func printEffect(c *console, e *client.Effect, asJSON bool) error {
	if asJSON {
		return printJSON(c, e)
	}
	fmt.Fprintf(c.out, "%s (%s) is %s.\n", e.ID, e.Name, e.Status)
	hint(c, "vobo effects show %s", e.ID)
	return nil
}

type effectsRedrive struct {
	remote
	effectFilter
	Status []string `enum:"dead,unknown" placeholder:"STATUS" help:"dead or unknown; may be repeated. Default: dead."`
	Limit  int      `default:"500" help:"Effects at most, up to 10000."`
	DryRun bool     `name:"dry-run" help:"Only say which would be tried again."`
	Reason string   `help:"Why; it is kept with each. Needed unless with --dry-run."`
	JSON   bool     `help:"Print JSON."`
}

// Run implements the command.
func (r *effectsRedrive) Run(c *console) error {
	switch {
	case r.Reason != "":
	case r.DryRun:
		r.Reason = "only a look at how many there are"
	default:
		return wrongUsage("missing flags: --reason=STRING; only --dry-run goes without")
	}
	return r.call(c, func(ctx context.Context, server *client.Client) error {
		done, err := server.RedriveEffects(ctx, client.RedriveRequest{
			Status: r.Status, Definition: r.Definition, Name: r.Name, Kind: r.Kind, Host: r.Host, Instance: r.Instance, Before: r.Before,
			Limit: r.Limit, DryRun: r.DryRun, Reason: r.Reason,
		})
		if err != nil {
			return err
		}
		if r.JSON {
			return printJSON(c, done)
		}
		return printRedriven(c, done)
	})
}

// printRedriven says what became of each; of many that went alike, the number is enough.
func printRedriven(c *console, done *client.Redriven) error {
	if done.Matched == 0 {
		fmt.Fprintln(c.out, "No dead or unknown effect fits: nothing was tried again.")
		return nil
	}
	var rows [][]string
	for _, i := range done.Items {
		if done.DryRun || i.Outcome != "retried" {
			rows = append(rows, []string{i.Effect, detailed(strings.ReplaceAll(i.Outcome, "-", " "), i.Detail)})
		}
	}
	if err := printTable(c, rows); err != nil {
		return err
	}
	more := ""
	if done.More {
		more = " There are more: run it again."
	}
	if done.DryRun {
		fmt.Fprintf(c.out, "%s would be tried again. Nothing was changed.%s\n", plural(done.Matched, "effect"), more)
		hint(c, "the same without --dry-run")
		return nil
	}
	fmt.Fprintf(c.out, "%d of %s tried again, %d skipped.%s\n", done.Retried, plural(done.Matched, "effect"), done.Skipped, more)
	hint(c, "vobo effects list --status dead --status unknown")
	return nil
}
