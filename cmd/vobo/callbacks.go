package main

import (
	"context"
	"fmt"
	"time"

	"vobo/client"
)

// callbacksCmd shows the calls of webhook sources.
type callbacksCmd struct {
	List callbacksList `cmd:"" help:"List calls of webhook sources: taken, waiting for their wait, refused, expired."`
}

type callbacksList struct {
	remote
	listed
	Status   string `enum:",waiting,taken,refused,expired" default:"" help:"waiting, taken, refused or expired."`
	Source   string `placeholder:"NAME"`
	Event    string `placeholder:"NAME"`
	Instance string `placeholder:"ID" help:"That took it."`
}

// Run implements the command.
func (l *callbacksList) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		rows := server.Calls(ctx, client.CallQuery{Status: l.Status, Source: l.Source, Event: l.Event, Instance: l.Instance, PageSize: l.pageSize()})
		none := "No calls yet."
		if l.Status+l.Source+l.Event+l.Instance != "" {
			none = "No call fits."
		}
		return show(c, l.listed, rows, []string{"RECEIVED", "SOURCE", "WEBHOOK ID", "EVENT", "FOR", "STATUS"},
			func(h *client.HookCall, now time.Time) []string {
				return []string{ago(h.ReceivedAt, now), h.Source, h.WebhookID, h.Event, calledFor(h), callState(h, now)}
			}, none)
	})
}

// calledFor says by what a call finds its instance.
func calledFor(h *client.HookCall) string {
	switch {
	case h.Key == "":
		return "what correlates"
	case h.Definition == "":
		return "key " + h.Key
	}
	return h.Definition + " " + h.Key
}

// callState says what became of a call, and of one that waits, how long it will.
func callState(h *client.HookCall, now time.Time) string {
	switch {
	case h.Status == "taken":
		return fmt.Sprintf("taken by %s, row %d of its history", h.InstanceID, h.Seq)
	case h.Status == "waiting" && h.Detail == "":
		return "waiting, expires " + ago(h.ExpiresAt, now)
	case h.Status == "waiting":
		return detailed("waiting, expires "+ago(h.ExpiresAt, now), h.Detail)
	}
	return detailed(h.Status, h.Detail)
}
