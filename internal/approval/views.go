package approval

import (
	"encoding/json"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// The shapes of http-api.md, "Shapes": snake_case; booleans and lists are always
// there; other empty fields are left out, never null. api renders them as they are.

// Time is RFC 3339 UTC with milliseconds in JSON.
type Time struct{ time.Time }

// MarshalJSON writes the time with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// UnmarshalJSON reads RFC 3339.
func (t *Time) UnmarshalJSON(b []byte) error { return t.Time.UnmarshalJSON(b) }

// Summary is an instance in results.
type Summary struct {
	ID         string     `json:"id"`
	Definition string     `json:"definition"`
	Version    int        `json:"version"`
	Key        string     `json:"key,omitempty"`
	State      string     `json:"state"`
	Status     fsm.Status `json:"status"`
	Revision   int        `json:"revision"`
}

// InstanceView is an instance as a caller may read it.
type InstanceView struct {
	ID               string            `json:"id"`
	Definition       string            `json:"definition"`
	Version          int               `json:"version"`
	Hash             string            `json:"hash"`
	State            string            `json:"state"`
	Status           fsm.Status        `json:"status"`
	Attention        bool              `json:"attention"`
	AttentionReasons []fsm.Attention   `json:"attention_reasons"`
	Data             json.RawMessage   `json:"data,omitempty"`
	Key              string            `json:"key,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	Requester        string            `json:"requester"`
	StartedBy        string            `json:"started_by,omitempty"`
	Revision         int               `json:"revision"`
	StartedAt        Time              `json:"started_at"`
	EnteredAt        Time              `json:"entered_at"`
	FinishedAt       *Time             `json:"finished_at,omitempty"`
	Tasks            []TaskView        `json:"tasks"`
	Deadlines        []DeadlineView    `json:"deadlines"`
	Effects          []EffectView      `json:"effects"`
	Events           []OfferedEvent    `json:"events"`
	Compensation     *CompensationView `json:"compensation,omitempty"`
	Parent           string            `json:"parent,omitempty"` // instance id, of a child
	Children         []ChildrenView    `json:"children,omitempty"`
	Token            string            `json:"token,omitempty"` // only in the answer of a start
}

// ChildrenView counts the children of one start effect; each number is exact up to 1,000.
type ChildrenView struct {
	Effect  string `json:"effect"`
	Name    string `json:"name"`
	Total   int    `json:"total"`
	Running int    `json:"running"`
	Ended   int    `json:"ended"`
	Bad     int    `json:"bad"` // failed, cancelled or refused
}

// TransitionView is one history row.
type TransitionView struct {
	Seq                int                `json:"seq"`
	Kind               fsm.TransitionKind `json:"kind"`
	Event              string             `json:"event,omitempty"`
	From               string             `json:"from,omitempty"`
	To                 string             `json:"to,omitempty"`
	Via                []string           `json:"via"`
	Actor              ActorView          `json:"actor"`
	Assurance          fsm.Assurance      `json:"assurance"`
	Comment            string             `json:"comment,omitempty"`
	Reason             string             `json:"reason,omitempty"`
	Input              json.RawMessage    `json:"input,omitempty"`
	Documents          json.RawMessage    `json:"documents,omitempty"`
	Changes            []fsm.Change       `json:"changes"`
	Digest             string             `json:"digest,omitempty"`
	DeadlinesCancelled []string           `json:"deadlines_cancelled,omitempty"`
	At                 Time               `json:"at"`
	DefinitionVersion  int                `json:"definition_version"`
	Hash               string             `json:"hash"`
	PreviousHash       string             `json:"previous_hash,omitempty"`
}

// ActorView is who acted.
type ActorView struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	For  string `json:"for,omitempty"`
	Via  string `json:"via,omitempty"`
}

// DeadlineView is a live deadline.
type DeadlineView struct {
	Action        string `json:"action"` // remind | escalate | tell | fire
	Event         string `json:"event,omitempty"`
	DueAt         Time   `json:"due_at"`
	Local         string `json:"local,omitempty"` // "Thu 3 Dec 2026, 18:00 CET (+01:00)" in the server's or caller's zone
	Occurrence    int    `json:"occurrence"`
	WholeInstance bool   `json:"whole_instance"`
}

// OfferedEvent is an event that the caller may raise now.
type OfferedEvent struct {
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	To        string          `json:"to,omitempty"`   // where it leads if that is certain
	Form      json.RawMessage `json:"form,omitempty"` // JSON Schema of the input
	Comment   string          `json:"comment"`        // required | optional | none
	Documents []DocumentNeed  `json:"documents"`
	Blocked   string          `json:"blocked,omitempty"` // why it cannot be taken now, in words
	Effect    string          `json:"effect,omitempty"`  // one line for people: what it does

	Fields []definitions.FormField `json:"-"` // for pages
}

// DocumentNeed is a document that goes with an event.
type DocumentNeed struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
}

// TaskView is a task.
type TaskView struct {
	ID         string         `json:"id"`
	InstanceID string         `json:"instance_id"`
	Definition string         `json:"definition"`
	State      string         `json:"state"`
	Title      string         `json:"title"`
	Priority   string         `json:"priority"`
	Status     string         `json:"status"`
	Owners     []string       `json:"owners"`
	Assignees  []string       `json:"assignees"`
	ClaimedBy  string         `json:"claimed_by,omitempty"`
	DueAt      *Time          `json:"due_at,omitempty"`
	CreatedAt  Time           `json:"created_at"`
	Digest     string         `json:"digest"`
	Events     []OfferedEvent `json:"events"`

	// For pages; not part of the API's shape.
	Requester    string           `json:"-"` // display name
	ProcessTitle string           `json:"-"`
	StateLabel   string           `json:"-"`
	Key          string           `json:"-"`
	Instructions string           `json:"-"` // Markdown in the reader's language
	Facts        []fsm.Fact       `json:"-"`
	EarlierVotes []TransitionView `json:"-"`
	Pending      *fsm.Pending     `json:"-"`
	History      []TransitionView `json:"-"`
	Why          string           `json:"-"` // "You are asked as a member of risk."
	OwnVote      *TransitionView  `json:"-"`
}

// EffectView is an effect with its attempts.
type EffectView struct {
	ID            string           `json:"id"`
	InstanceID    string           `json:"instance_id"`
	Name          string           `json:"name"`
	Kind          string           `json:"kind"`
	Key           string           `json:"key"`
	Status        fsm.EffectStatus `json:"status"`
	Reversible    bool             `json:"reversible"`
	Idempotent    bool             `json:"idempotent"`
	Attempts      []AttemptView    `json:"attempts"`
	NextAttemptAt *Time            `json:"next_attempt_at,omitempty"`
	CorrelationID string           `json:"correlation_id"`
	QueuedAt      Time             `json:"queued_at"`
	FinishedAt    *Time            `json:"finished_at,omitempty"`
	Reason        string           `json:"reason,omitempty"`   // dead, unknown: why, in words
	GivenUp       bool             `json:"given_up,omitempty"` // dead, and a person said that it stays so
	Undoes        string           `json:"undoes,omitempty"`   // id of the effect that it compensates
	Result        json.RawMessage  `json:"result,omitempty"`
	Request       *RequestView     `json:"request,omitempty"` // by id, for who oversees

	Replayed    bool   `json:"-"`            // the first answer of an Idempotency-Key
	To          string `json:"to,omitempty"` // mail: address; webhook: method and URL without secrets
	Definition  string `json:"-"`            // of its instance; this and the following by id only
	InstanceKey string `json:"-"`            // business key
	Requester   string `json:"-"`            // display name
	Late        bool   `json:"-"`            // its result came after the wait that queued it was left
}

// RequestView is an effect's request as it is sent, with secrets and tokens masked.
type RequestView struct {
	Method      string          `json:"method,omitempty"`
	URL         string          `json:"url,omitempty"`
	Headers     [][2]string     `json:"headers,omitempty"`
	Credentials string          `json:"credentials,omitempty"` // the name only
	Body        json.RawMessage `json:"body,omitempty"`
	To          []string        `json:"to,omitempty"`
	Subject     string          `json:"subject,omitempty"`
	Text        string          `json:"text,omitempty"`
	Definition  string          `json:"definition,omitempty"` // start, event
	Key         string          `json:"key,omitempty"`
	Event       string          `json:"event,omitempty"`
	Children    int             `json:"children,omitempty"`
}

// AttemptView is one attempt.
type AttemptView struct {
	N       int    `json:"n"`
	At      Time   `json:"at"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`

	FinishedAt *Time  `json:"finished_at,omitempty"`
	Status     int    `json:"status,omitempty"` // HTTP status or SMTP reply code
	Answer     string `json:"answer,omitempty"` // the beginning of the answer; by id, for who oversees
}

// Result is the answer to an event.
type Result struct {
	Instance   Summary        `json:"instance"`
	Transition TransitionView `json:"transition"`
	Replayed   bool           `json:"replayed"`
	Token      string         `json:"token,omitempty"`
	Pending    *fsm.Pending   `json:"pending,omitempty"`

	// Raw is the first answer, byte for byte, when an idempotency key replays it.
	Raw json.RawMessage `json:"-"`
	// Next is one sentence for people: what happens next.
	Next string `json:"-"`
	// StateLabel and EventLabel are for pages.
	StateLabel, EventLabel string `json:"-"`
}

// StartResult is the answer to a start.
type StartResult struct {
	View     InstanceView
	Replayed bool
	Raw      json.RawMessage // replayed: the first answer, byte for byte
}

// CancelResult is the plan of a cancel.
type CancelResult struct {
	Instance     Summary          `json:"instance"`
	Compensation CompensationView `json:"compensation"`
}

// CompensationView is how far undoing is.
type CompensationView struct {
	Items     []CompensationItemView `json:"items"`
	NotUndone []string               `json:"not_undone"`
	Done      bool                   `json:"done"`
}

// CompensationItemView is one thing to undo.
type CompensationItemView struct {
	Effect string `json:"effect"` // id of the succeeded effect
	Name   string `json:"name"`
	Undo   string `json:"undo"`
	Status string `json:"status"`
}

// ExplainView says why an instance waits.
type ExplainView struct {
	Instance      Summary                `json:"instance"`
	Sentence      string                 `json:"sentence"` // the answer in one paragraph
	WaitsFor      []WaitsFor             `json:"waits_for"`
	Quorum        map[string]fsm.Pending `json:"quorum,omitempty"` // by event
	Events        []ExplainedEvent       `json:"events"`
	Deadlines     []DeadlineView         `json:"deadlines"`
	Notifications []NotificationView     `json:"notifications"`
	Children      []ChildrenView         `json:"children"`     // of start effects of the present wait
	Correlations  []CorrelationView      `json:"correlations"` // calls of webhook sources that the present wait takes
	LateResults   []LateResultView       `json:"late_results"`
	Attention     []fsm.Attention        `json:"attention_reasons"`
}

// CorrelationView says what a call must carry for the present wait to take it.
type CorrelationView struct {
	Event string             `json:"event"`
	Pairs []CorrelationMatch `json:"pairs"`
	// Matched is false while a value is missing in the data: then no call finds the wait.
	Matched bool `json:"matched"`
}

// CorrelationMatch is one equality.
type CorrelationMatch struct {
	Path  string          `json:"path"`  // in the instance's data
	Input string          `json:"input"` // in the call's input
	Value json.RawMessage `json:"value,omitempty"`
}

// LateResultView is an effect whose result came after the wait that queued it was left.
type LateResultView struct {
	Effect string           `json:"effect"`
	Name   string           `json:"name"`
	Status fsm.EffectStatus `json:"status"`
	At     Time             `json:"at"`
}

// WaitsFor is one person, group or system, and by which rule.
type WaitsFor struct {
	Who   string `json:"who"`
	Name  string `json:"name,omitempty"`
	Rule  string `json:"rule"` // the owner line
	Voted bool   `json:"voted"`
}

// ExplainedEvent says who may raise an event and what blocks it.
type ExplainedEvent struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	By      []string `json:"by"`
	Not     []string `json:"not"`
	Blocked string   `json:"blocked,omitempty"`
	Missing []string `json:"missing,omitempty"` // quorum lines still to be filled
}

// NotificationView is the delivery state of one mail or webhook of the wait.
type NotificationView struct {
	Effect string `json:"effect"`
	Name   string `json:"name"`
	To     string `json:"to"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// LinkView is one link of the instance page: who has one, opened by what and when.
type LinkView struct {
	ID        string
	Person    string
	Name      string
	State     string // live | used | superseded | replaced | revoked | over | none
	MadeAt    time.Time
	FetchedAt *time.Time
	Fetches   int
	Delivery  string
}

// TokenView is what GET /a/{token} shows. Closed is nil where the link may decide.
type TokenView struct {
	Token    string
	Instance Summary
	Task     TaskView  // facts, events, digest
	Person   ActorView // for whom the link was made
	Outside  bool
	Closed   error   // *fault.Error: already-decided, token-revoked, token-expired, suspended, content-changed
	Own      *Result // with Closed: this link's own decision, if it has one
}

// InboxCounts are the numbers beside the inbox's folders.
type InboxCounts struct{ Mine, Groups, Waiting, Done int }

// MailView is one mail of the mailbox page, rendered as it would be sent.
type MailView struct {
	ID       string // effect id
	To       string
	Subject  string
	Text     string
	HTML     string
	At       time.Time
	Status   fsm.EffectStatus
	Link     string // the decision link, if any
	Instance string
}
