package main

import (
	"context"
	"fmt"
	"time"

	"vobo/client"
)

// effectsCmd lists, retries and resolves effects.
type effectsCmd struct {
	List    effectsList    `cmd:"" help:"List effects: mails and webhooks."`
	Retry   effectsRetry   `cmd:"" help:"Try a dead or unknown effect again."`
	Resolve effectsResolve `cmd:"" help:"Say what became of a dead or unknown effect."`
}

type effectsList struct {
	remote
	listed
	Status   []string `enum:"waiting,running,retrying,succeeded,dead,unknown,cancelled" placeholder:"STATUS" help:"waiting, running, retrying, succeeded, dead, unknown, cancelled; may be repeated."`
	Instance string   `placeholder:"ID"`
}

// Run implements the command.
func (l *effectsList) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		rows := server.Effects(ctx, client.EffectQuery{Status: l.Status, Instance: l.Instance, PageSize: l.pageSize()})
		return show(c, l.listed, rows, []string{"ID", "NAME", "KIND", "STATUS", "ATTEMPTS", "NEXT", "LAST OUTCOME"},
			func(e *client.Effect, now time.Time) []string {
				last := "-"
				if n := len(e.Attempts); n > 0 {
					last = detailed(e.Attempts[n-1].Outcome, e.Attempts[n-1].Detail)
				}
				return []string{e.ID, e.Name, e.Kind, e.Status, fmt.Sprint(len(e.Attempts)), when(e.NextAttemptAt, now), last}
			}, "No effect fits.")
	})
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
	Outcome string `required:"" enum:"succeeded,failed" help:"succeeded or failed."`
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
	hint(c, "vobo effects list --instance %s", e.InstanceID)
	return nil
}
