package main

import (
	"context"
	"fmt"
	"time"

	"vobo/client"
)

// sinksCmd looks after the endpoints of the event feed.
type sinksCmd struct {
	List   sinksList   `cmd:"" help:"List the endpoints of the event feed and how they fare."`
	Enable sinksEnable `cmd:"" help:"Let an endpoint go on, with the events that it did not get."`
}

type sinksList struct {
	remote
	JSON bool `help:"Print JSON."`
}

// Run implements the command.
func (l *sinksList) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		var mend string
		err := show(c, listed{JSON: l.JSON}, server.Sinks(ctx), []string{"NAME", "HOST", "STATE", "WAITING", "OLDEST", "DEAD"},
			func(s *client.Sink, now time.Time) []string {
				state := "enabled"
				if !s.Enabled {
					state, mend = detailed("disabled "+when(s.DisabledAt, now), s.Reason), s.Name
				}
				return []string{s.Name, s.Host, state, fmt.Sprint(s.Waiting), when(s.Oldest, now), fmt.Sprint(s.Dead)}
			}, "No endpoint is configured. VOBO_SINKS of the service names them.")
		if err == nil && mend != "" {
			hint(c, "mend the endpoint, then vobo sinks enable %s --reason TEXT", mend)
		}
		return err
	})
}

type sinksEnable struct {
	remote
	Name   string `arg:""`
	Reason string `required:"" help:"Why; it is kept."`
	JSON   bool   `help:"Print JSON."`
}

// Run implements the command.
func (e *sinksEnable) Run(c *console) error {
	return e.call(c, func(ctx context.Context, server *client.Client) error {
		s, err := server.EnableSink(ctx, e.Name, e.Reason)
		if err != nil {
			return err
		}
		if e.JSON {
			return printJSON(c, s)
		}
		fmt.Fprintf(c.out, "%s is enabled; %s for it.\n", s.Name, waiting(s.Waiting))
		hint(c, "vobo sinks list")
		return nil
	})
}

func waiting(events int) string {
	if events == 1 {
		return "1 event waits"
	}
	return plural(events, "event") + " wait"
}
