// Package definitions is the language: it parses, checks, compiles and hashes a
// definition (one version of one business state machine) and draws it.
//
// Everything here is immutable after Parse and safe for concurrent use. Nothing
// reads a clock, a network or a database.
package definitions

import (
	"time"
)

// Definition is a checked and compiled definition.
type Definition struct {
	File    string // where it was read from, for messages
	Source  []byte // as written
	Hash    string // "v1:" + hex SHA-256 of the canonical form
	Name    string
	Version int
	Title   Text
	Initial string
	Key     *Expr // nil: no business key

	Requesters []Principal // never empty: the default is filled in
	Readers    []Principal // never empty: the default is filled in
	Data       *Schema
	Check      []Check
	Calendars  map[string]*Calendar
	States     []*State    // in the order written
	Deadlines  []*Deadline // top-level
	Effects    []*Effect   // in the order written
	Limits     Limits
	Retention  string // ISO 8601 duration; "" : not said
	Search     []Path
	OnCancel   []string // effects queued when an instance is cancelled

	// NeedsPast is true where Plan needs earlier history rows of the instance:
	// `did:` or `visits` or `last` in texts of a wait is used anywhere.
	NeedsPast bool
	// Warnings are the problems that do not refuse the definition.
	Warnings Problems

	states  map[string]*State
	effects map[string]*Effect
	envUses []envUse // every env.NAME, by place
	secrets []secretUse
}

// State returns the state of that name, or nil.
func (d *Definition) State(name string) *State { return d.states[name] }

// Effect returns the effect of that name, or nil.
func (d *Definition) Effect(name string) *Effect { return d.effects[name] }

// Limits guard against runaways.
type Limits struct {
	Transitions int // default 500
	DataBytes   int // default 256 KiB
}

// StateKind tells what a state is.
type StateKind int

// The kinds of states.
const (
	Wait StateKind = iota
	Choice
	Final
)

// State is one state: a wait, a choice passed through at once, or a final state.
type State struct {
	Name      string
	Title     Text // zero: none written; Label gives the name in words
	Kind      StateKind
	Failed    bool // final: failed
	Owner     []Principal
	Tasks     []*Task // one for `task: {…}` (or for none written: an empty one); several for a list
	Enter     []string
	Choose    []ChooseArm // Choice: total. Wait: may be empty
	Events    []*Event    // own, then inherited from the top level, in written order
	Deadlines []*Deadline // own only; top-level ones are in Definition.Deadlines

	// StartsChildren: a transition into the wait, a stay or a deadline of it may queue a
	// start that is not detached, so that leaving it stops children.
	StartsChildren bool
	// TakesCalls: some event is open to a system, so that a call may be waiting for the wait.
	TakesCalls bool

	events map[string]*Event
}

// Event returns the event of that name which this wait knows, or nil.
func (s *State) Event(name string) *Event { return s.events[name] }

// Task is what is put before a reviewer.
type Task struct {
	For          *Principal // nil unless of a list
	Title        Text       // zero: the definition's title and the state's label
	Instructions Text       // Markdown
	Show         []Path     // nil: every top-level field of data
	Priority     *Template  // nil: normal
	Events       []string   // nil: every event of the state that the person may raise

	// OnUndeliverable says what happens once none of the wait's mails could be delivered:
	// "escalate", the name of an event, or "" for nothing.
	OnUndeliverable string
}

// ChooseArm is one arm of a choice.
type ChooseArm struct {
	When *Expr // nil: else
	To   string
}

// Event is something that may happen in a wait.
type Event struct {
	Name        string
	Title       Text
	Inherited   bool
	Arms        []*Arm // inheritance between arms is already resolved
	Quorum      *Quorum
	Unreachable string
	Assurance   string // "": link
	Check       []Check
	Form        *Schema // nil: none
	Edit        []Path
	Comment     CommentRule
	Documents   []DocumentRule // in written order
	Correlate   []Correlation
}

// CommentRule tells whether a comment is wanted.
type CommentRule int

// The comment rules.
const (
	CommentOptional CommentRule = iota
	CommentRequired
	CommentNone
)

// DocumentRule names a document that goes with an event; its reference is stored
// at data.NAME.
type DocumentRule struct {
	Name     string
	Required bool
}

// Correlation is an equality of a data path and an input path.
type Correlation struct {
	Data  Path
	Input Path
}

// Arm is one way an event may go.
type Arm struct {
	When       *Expr  // nil: always
	To         string // a state's name; "" with Stay
	Stay       bool
	By         []Principal
	Not        []Principal
	Set        []Assign
	Unset      []Path
	Effects    []string
	Compensate bool
}

// Quorum says how many votes make an event happen. Exactly one field is set.
type Quorum struct {
	Number  int
	All     bool
	Percent int
	Lines   []QuorumLine // in written order
}

// QuorumLine is one line of a quorum by principals.
type QuorumLine struct {
	Principal Principal
	Need      int
}

// Check is a rule with words for people: refused input is 422 invalid-input.
type Check struct {
	That *Expr
	Say  Text
	At   string // RFC 6901 pointer into the input (or data); "" : the whole
}

// Assign is one entry of `set`.
type Assign struct {
	Path  Path
	Value *Value
}

// Action is what a deadline does.
type Action int

// The actions of deadlines.
const (
	ActionRemind Action = iota
	ActionEscalate
	ActionTell
	ActionFire
)

// Deadline is a rule of time. Exactly one of After and At is set.
type Deadline struct {
	// ID is stable within the definition: "STATE/i" for the i-th (from 0) deadline
	// of a state, "/i" for the i-th top-level one.
	ID         string
	In         []string // top-level only: states whose time counts
	After      *Template
	At         *Expr
	Offset     *Template
	Calendar   string
	When       *Expr
	Effects    []string
	Every      *Template
	Times      int // how often in all; 1 without `every`; 0: no end (the wait's end)
	Action     Action
	Principals []Principal // escalate, tell
	Event      string      // fire
}

// Calendar is working time. Its arithmetic is not part of this package.
type Calendar struct {
	Name     string
	Location *time.Location
	Days     [7]bool  // by time.Weekday
	Hours    [][2]int // minutes of the day, [from, to), sorted
	Country  string
	Region   string
	Extra    []string // dates
}

// EffectKind tells what an effect does.
type EffectKind string

// The kinds of effects.
const (
	EffectEmail   EffectKind = "email"
	EffectWebhook EffectKind = "webhook"
	EffectStart   EffectKind = "start"
	EffectEvent   EffectKind = "event"
)

// Effect is something to be done outside after a commit.
type Effect struct {
	Name       string
	Kind       EffectKind
	When       *Expr
	Idempotent bool // an email is idempotent unless it says otherwise
	Reversible bool
	Compensate string // effect name, "manual", or ""
	Undoes     string
	Retry      Retry
	OnSuccess  *Outcome
	OnFailure  *Outcome
	// OnUndeliverable of a mail: "escalate", the name of an event, or "".
	OnUndeliverable string
	// OnCancel are effects queued when the instance is cancelled after this one went out.
	OnCancel []string
	Callback *Callback
	Email    *Email
	Webhook  *Webhook
	Start    *Start
	Raise    *Raise
}

// Retry bounds the attempts of an effect.
type Retry struct {
	Attempts int           // default 24
	First    time.Duration // default 5 s
	Max      time.Duration // default 6 h
}

// Outcome is what an effect's result does.
type Outcome struct {
	Fire string
	Set  []Assign
}

// Callback gives an effect a one-time token for the wait its transition enters.
type Callback struct {
	Events []string
	As     string // system name, without "system:"
	Verify string
}

// Email is a mail to recipients; each recipient is an effect of its own.
type Email struct {
	To, Cc        []Principal // a bare address is KindEmail
	Subject, Body Text
	Attachments   []Path // of data: references of documents, or lists of them
}

// Webhook is one HTTP request.
type Webhook struct {
	Method      string
	URL         *Template // eval with EscapeURL
	Headers     []Header
	Body        *Tree // nil: no body
	Credentials string
}

// Header is one header of a webhook.
type Header struct {
	Name  string
	Value *Template
}

// Start starts child instances.
type Start struct {
	Definition string
	Version    int // 0: newest
	Data       []Assign
	ForEach    *Expr
	As         string
	WaitFor    string // all | any | N as text
	Detach     bool
}

// Raise raises an event of another instance, found by definition and key.
type Raise struct {
	Definition string
	Key        *Template
	Event      string
	Input      *Tree
}
