package main

import (
	"fmt"
	"strings"
	"time"

	"vobo/client"
)

const shownAnswer = 600 // runes of a body or an answer; --json has all

// effectRows is an effect as a person reads it: what, why, when, with what, and what came back.
func effectRows(e *client.Effect, now time.Time) [][]string {
	rows := [][]string{
		{"id", e.ID},
		{"effect", e.Name + ", " + e.Kind},
		{"instance", e.InstanceID},
		{"status", standing(e)},
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("why", e.Reason)
	add("undoes", e.Undoes)
	rows = append(rows, []string{"queued", moment(e.QueuedAt, now)})
	if e.NextAttemptAt != nil {
		add("next attempt", moment(*e.NextAttemptAt, now))
	}
	if e.FinishedAt != nil && !(e.Kind == "manual" && e.Status == "unknown") { // a person has yet to end it
		add("finished", moment(*e.FinishedAt, now))
	}
	rows = append(rows, []string{"repeatable", repeatable(e)})
	add("correlation id", e.CorrelationID)
	rows = append(rows, requestRows(e.Request)...)
	for i, a := range e.Attempts {
		rows = append(rows, attemptRows(i+1, a, exhausted(e, i), now)...)
	}
	add("result", clipped(string(e.Result)))
	return rows
}

func repeatable(e *client.Effect) string {
	text := "no: a repetition may happen twice"
	if e.Idempotent {
		text = "yes: the receiver takes a repetition for the same call"
	}
	if e.Reversible {
		text += "; reversible"
	}
	return text
}

// moment is a time as both clocks say it: absolute for comparing with other logs, and relative.
func moment(t, now time.Time) string {
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC") + ", " + ago(t, now)
}

// requestRows is the request as sent.
func requestRows(r *client.SentRequest) [][]string {
	if r == nil {
		return nil
	}
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("request", strings.TrimSpace(r.Method+" "+r.URL))
	for _, h := range r.Headers {
		add("header", h[0]+": "+h[1])
	}
	add("credentials", r.Credentials)
	add("body", clipped(string(r.Body)))
	add("to", strings.Join(r.To, ", "))
	add("subject", r.Subject)
	add("text", clipped(r.Text))
	add("definition", r.Definition)
	add("key", r.Key)
	add("event", r.Event)
	if r.Children > 0 {
		add("children", fmt.Sprint(r.Children))
	}
	return rows
}

// standing is an effect's status as a person reads it.
func standing(e *client.Effect) string {
	if e.GivenUp {
		return "given up"
	}
	return e.Status
}

// exhausted tells that the nth attempt, from 0, was the last that a dead effect had.
func exhausted(e *client.Effect, n int) bool {
	return e.Status == "dead" && n == len(e.Attempts)-1 && e.Attempts[n].Outcome == "retry"
}

// attemptRows is the nth attempt of all; a retry by a person begins the schedule anew.
func attemptRows(n int, a client.Attempt, last bool, now time.Time) [][]string {
	text := fmt.Sprint(n)
	if a.N != n {
		text += fmt.Sprintf(" (%d since it was tried again)", a.N)
	}
	text += fmt.Sprintf(" at %s: %s", moment(a.At, now), a.Outcome)
	if a.FinishedAt != nil {
		text += " (took " + a.FinishedAt.Sub(a.At).Round(time.Millisecond).String() + ")"
	}
	if last {
		text += fmt.Sprintf(", %d of %d attempts: they are used up", a.N, a.N)
	}
	if a.Detail != "" {
		text += ". " + a.Detail
	}
	rows := [][]string{{"attempt", text}}
	if a.Answer != "" {
		rows = append(rows, []string{"answer", clipped(a.Answer)})
	}
	return rows
}

// clipped is the beginning of a long text, with a note that there is more.
func clipped(text string) string {
	runes := []rune(text)
	if len(runes) <= shownAnswer {
		return text
	}
	return string(runes[:shownAnswer]) + "… (--json prints all)"
}

// sentence ends a text as a sentence.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}
