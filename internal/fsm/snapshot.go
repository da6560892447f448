// Package fsm is the pure engine: Plan takes a definition, what the lock protects,
// one event and the time, and answers what is to be written. No I/O, no clock, no
// randomness: nonces and salts are derived from the event's seed.
package fsm

import (
	"encoding/json"
	"time"

	"vobo/internal/definitions"
)

// Status of an instance.
type Status string

// The statuses.
const (
	Running   Status = "running"
	Suspended Status = "suspended"
	Finished  Status = "finished"
	Cancelled Status = "cancelled"
)

// Instance is one instance as it is stored: a narrow row and its data.
type Instance struct {
	ID           string // UUIDv7
	Definition   string
	Version      int
	Hash         string // of the definition
	State        string
	Wait         int // seq of the transition that entered the present wait; of the final state when finished
	Revision     int // last seq
	Status       Status
	Key          string // business key; "" : none
	Requester    string // person id, or "system:NAME"
	StartedBy    string // who started it in the requester's name; "" : the requester
	Labels       map[string]string
	StartedAt    time.Time // ms, UTC; all times here are
	EnteredAt    time.Time
	LastEventAt  time.Time
	FinishedAt   *time.Time
	HeadHash     string // hash of the last transition
	Attention    []Attention
	Compensation *Compensation // nil: never asked for
	Parent       *ParentRef    // nil: nobody's child
	Data         map[string]any
}

// ParentRef says whose child an instance is: the start effect that made it, and its
// place in that effect's list.
type ParentRef struct {
	Instance string
	Effect   EffectID
	Index    int // from 0
	Depth    int // 1: its parent has no parent
}

// Attention is a reason why an operator should look.
type Attention struct {
	Reason string    `json:"reason"`        // dead-effect | unknown-effect | no-owner | failed-end | quarantine | manual-compensation | result-refused | tidying-failed | deadline-failed | quorum-unreachable …
	Ref    string    `json:"ref,omitempty"` // effect id, event name …: (Reason, Ref) is unique
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`
}

// Compensation is the plan that a compensating event or a cancel made.
type Compensation struct {
	Seq       int                `json:"seq"` // the transition that asked for it
	Items     []CompensationItem `json:"items"`
	NotUndone []string           `json:"not_undone"` // names of what is not reversible or was given up, in the order done
	Done      bool               `json:"done"`
}

// CompensationItem is one effect to undo; items run strictly one after another.
type CompensationItem struct {
	Effect EffectID `json:"effect"` // the succeeded one
	Name   string   `json:"name"`
	Undo   string   `json:"undo"` // name of the effect that undoes it; "manual": a person does
	// Status: waiting | blocked (what to undo, or what may have undone it, is not known
	// yet) | running | unknown | succeeded | failed (a person tries again or gives up) |
	// skipped (given up).
	Status string   `json:"status"`
	Queued EffectID `json:"queued,omitzero"` // the compensating effect, once queued
}

// EffectID names an effect within an instance.
type EffectID struct {
	Seq int `json:"seq"`
	N   int `json:"n"`
}

// AssigneeKind tells what kind of row an assignee is.
type AssigneeKind string

// The kinds. A callback row is a system's one-time token for the wait.
const (
	AssigneePerson   AssigneeKind = "person"
	AssigneeSystem   AssigneeKind = "system"
	AssigneeOutside  AssigneeKind = "outside" // email:
	AssigneeCallback AssigneeKind = "callback"
)

// LinkState is the state of an assignee's link (or callback token).
type LinkState string

// The states of links. A row is never reused: a fresh link is a new row.
const (
	LinkNone       LinkState = "" // told without a token
	LinkLive       LinkState = "live"
	LinkSuperseded LinkState = "superseded" // by a reminder's fresh link
	LinkReplaced   LinkState = "replaced"   // by a change of what was shown
	LinkRevoked    LinkState = "revoked"
)

// Assignee is one person or system asked in one wait, with one link. PK (instance, Seq, N).
type Assignee struct {
	Seq, N   int // of the transition that made it
	Wait     int
	Task     int // index into the state's tasks
	Kind     AssigneeKind
	Ref      string   // "user:ana@example.com", "system:bench", "email:x@y.z"
	Lines    []string // the owner lines that named them: "group:risk", "user:…", "escalation group:managers"; callback: "verify NAME" where the caller must also sign
	Events   []string // events the link offers (callback: those it takes), in definition order
	Nonce    []byte   // 16 bytes; nil with LinkNone
	Kid      string   // set by approval before the write
	JTIHash  []byte   // SHA-256 of jti; set by approval before the write
	Digest   string   // of the task as made
	State    LinkState
	Consumed int      // seq of the act that used it up; 0: none
	Vote     int      // seq of this person's standing vote in this wait; 0: none. On the newest row of the person only
	Stood    bool     // a person who acted as a present member without having been named at entry
	Effect   EffectID // callback: the effect it belongs to
	Delivery string   // read only: status of the newest mail about it ("" : none)
}

// Task is one task of a wait. PK (instance, Seq, N) with Seq = the wait.
type Task struct {
	Seq, N       int
	State        string
	Title        map[string]string // by locale; "" : every locale
	Instructions map[string]string // Markdown by locale
	Priority     string
	Status       string // open | done | cancelled | expired
	Facts        []Fact
	Digest       string
	Owners       []string // refs as resolved, escalations appended
	DueAt        *time.Time
	CreatedAt    time.Time
	ClosedAt     *time.Time
	ClaimedBy    string
}

// Fact is one shown fact.
type Fact struct {
	Path  string `json:"path"`
	Label string `json:"label"`
	Value any    `json:"value"`
}

// DeadlineRow is one live deadline. PK (instance, Seq, N).
type DeadlineRow struct {
	Seq, N     int    // of the transition that set it
	Wait       int    // 0: of the whole instance
	Rule       string // definitions.Deadline.ID
	Action     string // remind | escalate | tell | fire
	Event      string // fire
	DueAt      time.Time
	Anchor     time.Time
	Occurrence int  // from 1
	Failures   int  // how often firing it failed; backs off alone
	Deferred   bool // was due in a wait that does not know its event; raised on entering the next that does
}

// EffectStatus of a queued effect.
type EffectStatus string

// The statuses.
const (
	EffectWaiting   EffectStatus = "waiting"
	EffectRunning   EffectStatus = "running"
	EffectRetrying  EffectStatus = "retrying"
	EffectSucceeded EffectStatus = "succeeded"
	EffectDead      EffectStatus = "dead"
	EffectUnknown   EffectStatus = "unknown"
	EffectCancelled EffectStatus = "cancelled"
)

// EffectRow is what Plan must know of a queued effect.
type EffectRow struct {
	EffectID
	Name     string
	Kind     string
	Wait     int
	Status   EffectStatus
	Result   any      // JSON answer of a succeeded one
	Input    any      // input of the event that queued it, for undone.input
	Undoes   EffectID // compensation: the one it undoes
	Attempts int
	Link     EffectID // as in QueuedEffect
	GivenUp  bool     // dead, and a person said that it stays so
}

// Past is an earlier history row, loaded where Definition.NeedsPast or votes stand.
type Past struct {
	Seq     int
	Kind    TransitionKind
	Event   string
	From    string
	To      string // "" : stayed
	Wait    int    // the wait it happened in
	Actor   Actor
	Input   any
	Comment string
	At      time.Time
}

// Snapshot is what the lock protects, and the directory.
type Snapshot struct {
	Definition *definitions.Definition
	Instance   Instance
	Assignees  []Assignee    // of the present wait, all rows; and Token's row
	Tasks      []Task        // of the present wait
	Deadlines  []DeadlineRow // all live ones
	Effects    []EffectRow   // where NeedsEffects says so; else nil
	Past       []Past        // ordered by seq; see Definition.NeedsPast
	Votes      []Past        // the standing votes of the present wait, ordered by seq
	Token      *Assignee     // the row of the presented token, of whatever wait
	Own        *Past         // the transition that used Token's row up, or the caller's own decision that left the token's wait
	Left       *Past         // the transition that left the token's wait (a cancel too), nil while it is open
	Acts       []Past        // callback tokens: every history row that was recorded with Token's row, ordered by seq
	Directory  *Directory
	Vars       map[string]string // env.NAME
	Zone       *time.Location    // the server's zone
}

// Assurance says how sure it is who acted, lowest first.
type Assurance string

// The assurances. key and callback are those of systems.
const (
	Impersonated Assurance = "impersonated"
	ByLink       Assurance = "link"
	ByCode       Assurance = "code"
	BySession    Assurance = "session"
	ByStepUp     Assurance = "step-up"
	ByKey        Assurance = "key"
	ByCallback   Assurance = "callback"
	ByEngine     Assurance = "engine" // timers, effects
)

// ActorKind tells what acts.
type ActorKind string

// The kinds of actors.
const (
	ActorPerson ActorKind = "person"
	ActorSystem ActorKind = "system"
	ActorTimer  ActorKind = "timer"
	ActorEffect ActorKind = "effect"
)

// Actor is who acts, as the server established it.
type Actor struct {
	Kind   ActorKind `json:"kind"`
	ID     string    `json:"id"` // person id, "system:NAME", "timer", "effect:NAME"
	Name   string    `json:"name,omitempty"`
	For    string    `json:"for,omitempty"`    // whom a delegate stands for
	Via    string    `json:"via,omitempty"`    // "system:NAME" acting on behalf
	Groups []string  `json:"groups,omitempty"` // when acting
	Roles  []string  `json:"roles,omitempty"`  // when acting; of an API key: the key's
}

// EventKind tells what kind of event is planned.
type EventKind string

// The kinds of events.
const (
	KindStart        EventKind = "start"
	KindRaise        EventKind = "raise"         // a person's or system's event, by whatever path
	KindDeadline     EventKind = "deadline"      // a due deadline row
	KindEffectResult EventKind = "effect-result" // succeeded, dead, unknown, or resolved by a person
	KindCancel       EventKind = "cancel"
	KindRetryEffect  EventKind = "retry-effect" // an operator tries a dead or unknown effect again
	KindRaiseAgain   EventKind = "raise-again"  // operator: the timer or effect event that last failed
	KindQuarantine   EventKind = "quarantine"   // an event of the engine failed (Reason says how): attention, once
)

// Event is one event for one instance.
type Event struct {
	ID         string // UUIDv7, unique in the history; made before the batch
	Instance   string
	Kind       EventKind
	Seed       [32]byte // randomness from outside: nonces and salts are derived from it
	Actor      Actor
	Assurance  Assurance
	Name       string // raise: event name
	Input      any    // tree; nil: none
	Comment    string
	Documents  map[string]any
	Digest     string // of what was read; "" : on a link, the digest at its making; else not checked
	Locale     string
	IfRevision int  // 0: any
	Token      bool // decided by the token in Snapshot.Token
	Wait       int  // without a token: the wait of the task that was decided; 0: the present one
	Start      *StartEvent
	Deadline   *DeadlineRef
	Result     *ResultEvent
	Effect     *EffectID // retry-effect
	Reason     string    // cancel and operators
}

// StartEvent carries what a start needs.
type StartEvent struct {
	Data      map[string]any
	Requester string
	StartedBy string
	Labels    map[string]string
	Parent    *ParentRef // of a child
}

// DeadlineRef names a deadline occurrence.
type DeadlineRef struct {
	Seq, N, Occurrence int
}

// ResultEvent is the outcome of an effect.
type ResultEvent struct {
	Effect   EffectID
	Fence    int64
	Attempt  int
	Status   EffectStatus // succeeded | dead | unknown | retrying | cancelled
	Outcome  string       // outcome class, for the attempt row
	Detail   string
	HTTP     int
	Answer   string // the beginning of what the other side said, for the attempt row
	Result   any
	NextAt   *time.Time // retrying
	Resolved bool       // by a person: succeeded or failed
}

// TransitionKind is the kind of a history row.
type TransitionKind string

// The kinds of history rows.
const (
	TStart        TransitionKind = "start"
	TTransition   TransitionKind = "transition"
	TVote         TransitionKind = "vote"
	TStay         TransitionKind = "stay"
	TReminder     TransitionKind = "reminder"
	TEscalation   TransitionKind = "escalation"
	TTold         TransitionKind = "told"
	TEffect       TransitionKind = "effect" // an effect's result changed data or attention
	TCancel       TransitionKind = "cancel"
	TCompensation TransitionKind = "compensation"
	TQuarantine   TransitionKind = "quarantine"
	TOperator     TransitionKind = "operator"
)

// Transition is one history row: this is the audit row.
type Transition struct {
	Seq                int
	EventID            string
	Kind               TransitionKind
	Event              string
	From               string
	To                 string   // "" : stayed
	Via                []string // choices passed through
	Wait               int      // the wait it happened in (0 for a start)
	Actor              Actor
	Assurance          Assurance
	Comment            string
	Input              any
	Documents          map[string]any
	Changes            []Change
	Digest             string   // of what the decider read
	Pending            *Pending // vote
	Token              EffectID // (seq, n) of the assignee row whose link was used; zero: none
	Reason             string
	DeadlinesCancelled []string // "remind owner, due 2026-12-04T09:00:00.000Z"
	At                 time.Time
	DefinitionVersion  int
	Salt               []byte // 16 bytes
	Hash               string
	PreviousHash       string
}

// Change is one changed data path.
type Change struct {
	Pointer string `json:"pointer"`
	Before  any    `json:"before,omitempty"`
	After   any    `json:"after,omitempty"`
}

// Pending says how far a quorum is; both count slots.
type Pending struct {
	Have int `json:"have"`
	Need int `json:"need"`
}

// AssigneeChange changes one assignee row. Zero fields change nothing, but Vote: -1 clears.
type AssigneeChange struct {
	Seq, N   int
	State    LinkState
	Consumed int
	Vote     int
}

// TaskChange changes one task row.
type TaskChange struct {
	Seq, N       int
	Status       string // "" : unchanged
	ClosedAt     *time.Time
	Owners       []string          // nil: unchanged
	Title        map[string]string // nil: unchanged (with Facts and Digest)
	Instructions map[string]string
	Facts        []Fact
	Digest       string
	DueAt        *time.Time
}

// QueuedEffect is an effect to run from the outbox. PK (instance, Seq, N), for ever.
type QueuedEffect struct {
	EffectID
	Name       string
	Kind       string // email | webhook | start | event | stop | manual | task-mail | notice-mail
	Wait       int    // the wait that queued it (entered one for `enter` and task mails)
	Droppable  bool   // leaving the wait cancels it while unsent: task mails, reminders, callback effects
	Idempotent bool
	Reversible bool
	Priority   int             // 0 urgent … 9; task mails before others
	Request    json.RawMessage // frozen, see Frozen; markers stand for links and callback URLs
	Attempts   int             // allowed
	First, Max time.Duration
	Input      any // for undone.input
	Undoes     EffectID
	Status     EffectStatus // as it begins; "" : waiting. Unknown: work of a person, which nothing dispatches
	Link       EffectID     // (seq, n) of the assignee or callback row whose token the request carries; zero: none
}

// Correlation is one event that the open wait is found by.
type Correlation struct {
	Event string
	Hash  []byte // CorrelationHash
}

// EffectChange changes one effect row.
type EffectChange struct {
	EffectID
	Status EffectStatus
	Retry  bool // operator's retry: attempts start anew
}

// Step is what is to be written for one event; plain data. Exactly one of Refusal,
// Replay and a new Transition is set; but the outcome of an effect that changes
// nothing else has only Result (Transition.Seq is 0: no history row).
type Step struct {
	Refusal *Refusal
	Replay  int // seq of the act that already recorded this decision

	Instance        Instance // the next row
	DataChanged     bool
	Transition      Transition
	TasksOpened     []Task
	TaskChanges     []TaskChange
	Assignees       []Assignee // new rows
	AssigneeChanges []AssigneeChange
	DeadlinesSet    []DeadlineRow
	DeadlinesGone   []EffectID    // (seq, n) of rows to delete
	DeadlineChanges []DeadlineRow // due, occurrence … of rows that stay
	Effects         []QueuedEffect
	EffectChanges   []EffectChange
	DropWait        int          // >0: cancel unsent Droppable effects of this wait
	ReleaseKey      bool         // the business key is free again
	Result          *ResultEvent // the attempt to finish, fenced, in the same transaction
	// Correlations replace all of the instance's where SetCorrelations says so: what the
	// open wait is found by. Awaits are the hashes under which a call may have come
	// before the wait: who commits the step looks for them after the commit.
	SetCorrelations bool
	Correlations    []Correlation
	Awaits          [][]byte

	Successor EffectID // the caller's newest own link among Assignees (after a stay, or of the wait entered); zero: none
}
