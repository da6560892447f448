package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"vobo/client"
)

type instancesHistory struct {
	remote
	listed
	ID string `arg:""`
}

// Run implements the command.
func (h *instancesHistory) Run(c *console) error {
	return h.call(c, func(ctx context.Context, server *client.Client) error {
		givenUp, err := givenUpNames(ctx, server, h.ID)
		if err != nil {
			return err
		}
		return show(c, h.listed, server.History(ctx, h.ID), []string{"SEQ", "WHEN", "WHAT", "EVENT", "FROM", "TO", "WHO", "WHY"},
			func(t *client.Transition, now time.Time) []string {
				who := t.Actor.ID
				if t.Actor.Via != "" {
					who += " via " + t.Actor.Via
				}
				return []string{fmt.Sprint(t.Seq), ago(t.At, now), happened(t, givenUp), orNone(t.Event), orNone(t.From), orNone(t.To), who, why(t)}
			}, "Nothing has happened.")
	})
}

// why is what was said with a step: the comment for those who decide, the reason of operators.
func why(t *client.Transition) string {
	switch {
	case t.Reason == "":
		return t.Comment
	case t.Comment == "":
		return t.Reason
	}
	return sentence(t.Comment) + " " + t.Reason
}

// happened is the kind of a history row; of an effect that a person ended, what they said.
func happened(t *client.Transition, givenUp []string) string {
	byPerson := t.Assurance != "engine" && !strings.HasPrefix(t.Actor.ID, "effect:")
	switch {
	case t.Kind == "operator" && t.Event != "":
		return "tried again"
	case t.Kind != "effect" && t.Kind != "compensation", !byPerson:
		return t.Kind
	case len(t.Input) == 0 && slices.Contains(givenUp, t.Event):
		return "given up"
	}
	return "resolved"
}

// givenUpNames are the names of an instance's effects that a person has given up; none
// where they are not the caller's to list.
func givenUpNames(ctx context.Context, server *client.Client, instance string) ([]string, error) {
	var names []string
	for e, err := range server.Effects(ctx, client.EffectQuery{Instance: instance, Status: []string{"dead"}, PageSize: 500}) {
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusForbidden {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if e.GivenUp {
			names = append(names, e.Name)
		}
	}
	return names, nil
}
