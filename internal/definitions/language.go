package definitions

import (
	"fmt"
	"strings"
	"time"
)

// Severity of a problem.
type Severity string

// The severities. NotSupported is a warning in lint and refuses at publish.
const (
	Error        Severity = "error"
	Warning      Severity = "warning"
	NotSupported Severity = "not-supported"
)

// Problem is one finding in a definition's text; Line and Column count from 1.
type Problem struct {
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Severity Severity `json:"severity"`
	Code     string   `json:"code"` // stable, kebab case
	Detail   string   `json:"detail"`
	Hint     string   `json:"hint,omitempty"`
}

func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Severity != Error {
		s += "warning: "
	}
	s += p.Detail
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

// Problems are findings in the order of their place.
type Problems []Problem

// HasErrors tells whether any of them is an error.
func (ps Problems) HasErrors() bool { return ps.any(Error) }

// Refuses tells whether publishing is refused: an error or a key that is not supported yet.
func (ps Problems) Refuses() bool { return ps.any(Error) || ps.any(NotSupported) }

func (ps Problems) any(s Severity) bool {
	for _, p := range ps {
		if p.Severity == s {
			return true
		}
	}
	return false
}

func (ps Problems) String() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// PrincipalKind is the part before the colon.
type PrincipalKind string

// The kinds of principals. KindDynamic is one {{ expression }} that gives
// principals with their prefix (in mail also a bare address).
const (
	KindRequester PrincipalKind = "requester"
	KindOwner     PrincipalKind = "owner"
	KindUser      PrincipalKind = "user"
	KindGroup     PrincipalKind = "group"
	KindRole      PrincipalKind = "role"
	KindEmail     PrincipalKind = "email"
	KindDid       PrincipalKind = "did"
	KindSystem    PrincipalKind = "system"
	KindTimer     PrincipalKind = "timer"
	KindEffect    PrincipalKind = "effect"
	KindDynamic   PrincipalKind = ""
)

// Principal names who, as written: Name may hold templates.
type Principal struct {
	Kind PrincipalKind
	Name *Template // nil for requester, owner, timer, effect
	Text string    // as written, for messages and explain
}

// Ref is a resolved principal.
type Ref struct {
	Kind PrincipalKind
	Name string
}

// String gives "group:risk", "requester", …
func (r Ref) String() string {
	if r.Name == "" {
		return string(r.Kind)
	}
	return string(r.Kind) + ":" + r.Name
}

// Env is what expressions see. JSON values are trees of map[string]any, []any,
// string, json.Number, bool and nil. Fields that do not apply stay zero; which
// names an expression may use is checked when it is compiled.
type Env struct {
	Data      map[string]any
	Input     any // nil: no input
	Actor     ActorVars
	Instance  InstanceVars
	Last      LastVars
	Votes     map[string][]VoteVars // by event
	OpenVotes int
	Visits    int
	Result    any
	Status    int // response.status
	Undone    UndoneVars
	Callback  CallbackVars
	Vars      map[string]string // env.NAME
	Locals    map[string]any    // the name after `as`
	Now       time.Time
	Zone      *time.Location // of date(s) and of calendar days; nil: UTC
}

// ActorVars is `actor`.
type ActorVars struct {
	ID, Name      string
	Groups, Roles []string
}

// InstanceVars is `instance`.
type InstanceVars struct {
	ID, Definition, State, Key, Requester string
	Version                               int
	StartedAt                             time.Time
}

// LastVars is `last`: the transition that entered this wait, or the present event.
type LastVars struct {
	Event   string
	Actor   ActorVars
	Comment string
	Input   any
	At      time.Time
}

// VoteVars is one entry of `votes.EVENT`.
type VoteVars struct {
	Actor   ActorVars
	Input   any
	Comment string
}

// UndoneVars is `undone`.
type UndoneVars struct {
	Result any
	Input  any
}

// CallbackVars is `callback`.
type CallbackVars struct {
	URL  string
	URLs map[string]string
}

// Escape says where a template's text goes.
type Escape int

// The places.
const (
	EscapeNone   Escape = iota // text, JSON (the encoder escapes)
	EscapeURL                  // path segments before "?", query values after it; scheme and host stand literally or come from env
	EscapeHeader               // CR, LF and NUL become spaces
)
