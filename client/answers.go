package client

import (
	"encoding/json"
	"time"
)

// Summary is an instance in results.
type Summary struct {
	ID         string `json:"id"`
	Definition string `json:"definition"`
	Version    int    `json:"version"`
	Key        string `json:"key,omitempty"` // business key
	State      string `json:"state"`
	Status     string `json:"status"` // running | suspended | finished | cancelled
	Revision   int    `json:"revision"`
}

// Instance is an instance as the caller may read it.
type Instance struct {
	Summary
	Hash             string            `json:"hash"` // of the definition
	Attention        bool              `json:"attention"`
	AttentionReasons []Attention       `json:"attention_reasons"`
	Data             json.RawMessage   `json:"data,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	Requester        string            `json:"requester"`
	StartedBy        string            `json:"started_by,omitempty"`
	StartedAt        time.Time         `json:"started_at"`
	EnteredAt        time.Time         `json:"entered_at"` // the present state
	FinishedAt       *time.Time        `json:"finished_at,omitempty"`
	Tasks            []Task            `json:"tasks"`
	Deadlines        []Deadline        `json:"deadlines"`
	Effects          []Effect          `json:"effects"`                // in flight
	Events           []Event           `json:"events"`                 // that the caller may raise
	Compensation     *Compensation     `json:"compensation,omitempty"` // nil: nothing was to be undone
	Parent           string            `json:"parent,omitempty"`       // instance that started this one
	Children         []ChildCount      `json:"children,omitempty"`     // by start effect
	// Token is the callback token of the wait now open where the calling system is an
	// assignee of it; only in the answer of a start.
	Token string `json:"token,omitempty"`

	Replayed bool `json:"-"` // the answer is that of an earlier call with the same key
}

// Attention is a reason why somebody should look.
type Attention struct {
	Reason string    `json:"reason"`
	Ref    string    `json:"ref,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`
}

// Deadline is a live deadline.
type Deadline struct {
	Action        string    `json:"action"` // remind | escalate | tell | fire
	Event         string    `json:"event,omitempty"`
	DueAt         time.Time `json:"due_at"`
	Local         string    `json:"local,omitempty"`
	Occurrence    int       `json:"occurrence"`
	WholeInstance bool      `json:"whole_instance"`
}

// Event is an event that the caller may raise.
type Event struct {
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	To        string          `json:"to,omitempty"`
	Form      json.RawMessage `json:"form,omitempty"` // JSON Schema of the input
	Comment   string          `json:"comment"`        // required | optional | none
	Documents []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"documents"`
	Blocked string `json:"blocked,omitempty"`
	Effect  string `json:"effect,omitempty"`
}

// Task asks people for a decision.
type Task struct {
	ID         string     `json:"id"`
	InstanceID string     `json:"instance_id"`
	Definition string     `json:"definition"`
	State      string     `json:"state"`
	Title      string     `json:"title"`
	Priority   string     `json:"priority"`
	Status     string     `json:"status"` // open | done | cancelled | expired
	Owners     []string   `json:"owners"`
	Assignees  []string   `json:"assignees"`
	ClaimedBy  string     `json:"claimed_by,omitempty"`
	DueAt      *time.Time `json:"due_at,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	Digest     string     `json:"digest"` // of what is asked
	Events     []Event    `json:"events"`
}

// Result is the answer to an event.
type Result struct {
	Instance   Summary    `json:"instance"`
	Transition Transition `json:"transition"`
	Replayed   bool       `json:"replayed"`
	Token      string     `json:"token,omitempty"`   // the caller's newest own link
	Pending    *Pending   `json:"pending,omitempty"` // a vote was noted; the quorum is not complete
}

// Pending says how far a quorum is.
type Pending struct {
	Have int `json:"have"`
	Need int `json:"need"`
}

// Transition is one history row.
type Transition struct {
	Seq               int             `json:"seq"`
	Kind              string          `json:"kind"` // transition | vote | stay | escalation | reminder | …
	Event             string          `json:"event,omitempty"`
	From              string          `json:"from,omitempty"`
	To                string          `json:"to,omitempty"`
	Via               []string        `json:"via"` // choices on the way
	Actor             Actor           `json:"actor"`
	Assurance         string          `json:"assurance"`
	Comment           string          `json:"comment,omitempty"`
	Reason            string          `json:"reason,omitempty"`
	Input             json.RawMessage `json:"input,omitempty"`
	Documents         json.RawMessage `json:"documents,omitempty"`
	Changes           []Change        `json:"changes"`
	Digest            string          `json:"digest,omitempty"`
	At                time.Time       `json:"at"`
	DefinitionVersion int             `json:"definition_version"`
	Hash              string          `json:"hash"`
	PreviousHash      string          `json:"previous_hash,omitempty"`
}

// Actor is who acted.
type Actor struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	For  string `json:"for,omitempty"`
	Via  string `json:"via,omitempty"`
}

// Change is one changed path of the data.
type Change struct {
	Pointer string          `json:"pointer"` // RFC 6901
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
}

// Cancellation is the plan of a cancel.
type Cancellation struct {
	Instance     Summary      `json:"instance"`
	Compensation Compensation `json:"compensation"`
}

// Compensation is what is undone, in this order, and how far it is.
type Compensation struct {
	Items     []CompensationItem `json:"items"`
	NotUndone []string           `json:"not_undone"` // names of effects that stay as they are
	Done      bool               `json:"done"`
}

// CompensationItem is one effect that is undone.
type CompensationItem struct {
	Effect string `json:"effect"` // id of the effect that succeeded
	Name   string `json:"name"`
	Undo   string `json:"undo"`   // name of the effect that undoes it; manual: a person does
	Status string `json:"status"` // blocked | waiting | running | succeeded | unknown | failed | skipped
}

// ChildCount counts the children of one start effect; each number is exact up to 1,000.
type ChildCount struct {
	Effect  string `json:"effect"`
	Name    string `json:"name"`
	Total   int    `json:"total"`
	Running int    `json:"running"`
	Ended   int    `json:"ended"`
	Bad     int    `json:"bad"` // failed, cancelled or refused
}

// Child is one child of an instance.
type Child struct {
	Index  int        `json:"index"`        // its place in the list, from 0
	ID     string     `json:"id,omitempty"` // instance; empty where it was refused
	Effect string     `json:"effect"`
	Status string     `json:"status"` // running | ended | failed | cancelled | refused
	Detail string     `json:"detail,omitempty"`
	DoneAt *time.Time `json:"done_at,omitempty"`
}

// Explanation says why an instance waits.
type Explanation struct {
	Instance      Summary            `json:"instance"`
	Sentence      string             `json:"sentence"` // the answer in one paragraph
	WaitsFor      []WaitsFor         `json:"waits_for"`
	Quorum        map[string]Pending `json:"quorum,omitempty"` // by event
	Events        []ExplainedEvent   `json:"events"`
	Deadlines     []Deadline         `json:"deadlines"`
	Notifications []Notification     `json:"notifications"`
	Attention     []Attention        `json:"attention_reasons"`
}

// WaitsFor is one person, group or system, and by which rule.
type WaitsFor struct {
	Who   string `json:"who"`
	Name  string `json:"name,omitempty"`
	Rule  string `json:"rule"`
	Voted bool   `json:"voted"`
}

// ExplainedEvent says who may raise an event and what blocks it.
type ExplainedEvent struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	By      []string `json:"by"`
	Not     []string `json:"not"`
	Blocked string   `json:"blocked,omitempty"`
	Missing []string `json:"missing,omitempty"`
}

// Notification is the delivery state of one mail or webhook.
type Notification struct {
	Effect string `json:"effect"`
	Name   string `json:"name"`
	To     string `json:"to"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Effect is something to be done outside, with its attempts.
type Effect struct {
	ID            string     `json:"id"`
	InstanceID    string     `json:"instance_id"`
	Name          string     `json:"name"`
	Kind          string     `json:"kind"`
	Key           string     `json:"key"`
	Status        string     `json:"status"`
	Reversible    bool       `json:"reversible"`
	Idempotent    bool       `json:"idempotent"`
	Attempts      []Attempt  `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`
	CorrelationID string     `json:"correlation_id"`

	QueuedAt   time.Time       `json:"queued_at"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
	Reason     string          `json:"reason,omitempty"`   // dead, unknown: why, in words
	GivenUp    bool            `json:"given_up,omitempty"` // dead, and a person said that it stays so
	Undoes     string          `json:"undoes,omitempty"`   // id of the effect that it compensates
	To         string          `json:"to,omitempty"`       // mail: address; webhook: method and URL without secrets
	Result     json.RawMessage `json:"result,omitempty"`
	Request    *SentRequest    `json:"request,omitempty"` // of Effect, for who oversees the instance

	Replayed bool `json:"-"` // the answer is that of an earlier call with the same key
}

// SentRequest is an effect's request as it is sent, with secrets and tokens masked.
type SentRequest struct {
	Method      string          `json:"method,omitempty"`
	URL         string          `json:"url,omitempty"`
	Headers     [][2]string     `json:"headers,omitempty"`
	Credentials string          `json:"credentials,omitempty"` // the name only
	Body        json.RawMessage `json:"body,omitempty"`
	To          []string        `json:"to,omitempty"` // mail
	Subject     string          `json:"subject,omitempty"`
	Text        string          `json:"text,omitempty"`
	Definition  string          `json:"definition,omitempty"` // start, event
	Key         string          `json:"key,omitempty"`
	Event       string          `json:"event,omitempty"`
	Children    int             `json:"children,omitempty"`
}

// Attempt is one attempt.
type Attempt struct {
	N          int        `json:"n"`
	At         time.Time  `json:"at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Outcome    string     `json:"outcome"` // started | success | retry | unanswered | unknown | permanent
	Detail     string     `json:"detail,omitempty"`
	Status     int        `json:"status,omitempty"` // HTTP status or SMTP reply code
	Answer     string     `json:"answer,omitempty"` // its beginning; of Effect, for who oversees the instance
}

// Redriven says what became of each effect of a redrive.
type Redriven struct {
	Matched int  `json:"matched"`
	Retried int  `json:"retried"`
	Skipped int  `json:"skipped"` // changed meanwhile
	DryRun  bool `json:"dry_run"`
	More    bool `json:"more"` // the limit was reached
	Items   []struct {
		Effect  string `json:"effect"`
		Outcome string `json:"outcome"` // retried | skipped | would-retry
		Detail  string `json:"detail,omitempty"`
	} `json:"items"`

	Replayed bool `json:"-"` // the answer is that of an earlier call with the same key
}

// HookCall is a call of a webhook source.
type HookCall struct {
	ID         string          `json:"id"`
	Source     string          `json:"source"`
	WebhookID  string          `json:"webhook_id"`
	Event      string          `json:"event"`
	Definition string          `json:"definition,omitempty"`
	Key        string          `json:"key,omitempty"` // business key that it names
	Status     string          `json:"status"`        // waiting | taken | refused | expired
	Detail     string          `json:"detail,omitempty"`
	InstanceID string          `json:"instance_id,omitempty"` // that took it
	Seq        int             `json:"seq,omitempty"`         // of its history row
	ReceivedAt time.Time       `json:"received_at"`
	ExpiresAt  time.Time       `json:"expires_at"`
	Input      json.RawMessage `json:"input,omitempty"`
}

// Sink is an endpoint of the event feed.
type Sink struct {
	Name       string     `json:"name"`
	Host       string     `json:"host"`
	Enabled    bool       `json:"enabled"`
	Reason     string     `json:"reason,omitempty"` // why it is disabled
	DisabledAt *time.Time `json:"disabled_at,omitempty"`
	Waiting    int        `json:"waiting"`
	Dead       int        `json:"dead"`
	Oldest     *time.Time `json:"oldest,omitempty"` // when the oldest that waits was queued
}

// Definition is a published version.
type Definition struct {
	Name        string    `json:"name"`
	Version     int       `json:"version"`
	Hash        string    `json:"hash"`
	Title       string    `json:"title"`
	Source      string    `json:"source,omitempty"` // YAML as written; not in lists
	PublishedAt time.Time `json:"published_at"`
	PublishedBy string    `json:"published_by"`
	Live        int       `json:"live"` // instances that are not over
}

// Published says what became of a definition.
type Published struct {
	Name     string       `json:"name"`
	Version  int          `json:"version"`
	Hash     string       `json:"hash"`
	Created  bool         `json:"created"` // false: it was there already
	Warnings []FieldError `json:"warnings"`
}

// Linted are the findings of a check.
type Linted struct {
	Publishable bool         `json:"publishable"`
	Problems    []FieldError `json:"problems"`
}

// Person is who the server takes the caller for.
type Person struct {
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	Groups    []string `json:"groups"`
	Roles     []string `json:"roles"`
	Via       string   `json:"via,omitempty"`
	Assurance string   `json:"assurance"`
	Locale    string   `json:"locale,omitempty"`
	Zone      string   `json:"zone,omitempty"`
}
