// Package store keeps instances and everything around them in PostgreSQL or SQLite:
// one schema per dialect, one behaviour. SQL lives here and nowhere else.
//
// Commit is the hot path (pgx and multi-row statements on PostgreSQL, one writer
// transaction on SQLite); everything else goes through gorm on the same pool.
// Methods return *fault.Error where a caller can do something about it; a database
// that cannot be reached or is busy is code unavailable.
package store

import (
	"context"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// Config opens a store.
type Config struct {
	URL         string               // sqlite:PATH or postgres://…
	DirectURL   string               // PostgreSQL: for LISTEN and migrations beside a pooler; "" : URL
	MaxConns    int                  // 0: default
	LockTimeout time.Duration        // of the slow lane; 0: 5 s
	Clock       func() time.Time     // SQLite's clock; nil: the process's
	Shift       func() time.Duration // added to the database's clock, for tests; nil: 0
	PerHost     int                  // effects of one host that run at once; 0: 16
	Sinks       []string             // names of the event feed's endpoints: each commit queues its history rows for them

	// Fault, for tests, is asked at each of FaultPoints; its error ends the operation
	// there, as a crash or a lost answer would. nil in production.
	Fault func(point string) error
}

// Store is an open database. Safe for concurrent use.
type Store struct{ impl storeImpl }

// Migration is one migration and when it was applied.
type Migration struct {
	Version   int64
	Name      string
	AppliedAt *time.Time
}

// ClaimKind is the kind of a claim.
type ClaimKind int16

// The kinds.
const (
	ClaimIdempotency ClaimKind = 1
	ClaimBusinessKey ClaimKind = 2
	ClaimWebhookID   ClaimKind = 3 // of a delivered callback: source and webhook-id
	ClaimEffect      ClaimKind = 4 // what an effect does to another instance, once: effect key, or effect key and child
)

// Claim is something that only one event ever gets.
type Claim struct {
	Kind     ClaimKind
	Scope    string // idempotency: caller, method, path; business key: definition
	Key      string
	BodyHash []byte
	Answer   []byte        // kept with a won claim; set in Planner.Plan
	Keep     time.Duration // 0: for ever, or until released
}

// ClaimRow is a claim that somebody holds.
type ClaimRow struct {
	Kind      ClaimKind
	Instance  string
	Seq       int
	BodyHash  []byte
	Answer    []byte
	CreatedAt time.Time
}

// Job is one event on its way through a batch. Commit fills in the second half;
// exactly one of Err, Lost, Requeue and a planned Step is the outcome.
type Job struct {
	Event     *fsm.Event
	Claims    []Claim
	TokenHash []byte // SHA-256 of the presented token's jti; nil: none
	Callback  string // id of the kept call whose event this is: marked taken in the same transaction

	Snapshot *fsm.Snapshot // as read under the lock (start: made by Commit with an empty instance)
	Step     fsm.Step      // set by Planner.Plan; with a Refusal or Replay nothing of this job is written
	Now      time.Time
	Lost     *ClaimRow // a claim that another event holds
	Requeue  bool      // instance locked elsewhere, or the claim is held by a neighbour: offer it again
	Err      error     // not found, or this job failed alone
}

// Planner is what a batch needs from above.
type Planner interface {
	// Definition returns a published definition from the cache (or loads it).
	Definition(ctx context.Context, name string, version int) (*definitions.Definition, error)
	// Plan sets job.Step, seals links and may set job.Claims[i].Answer.
	Plan(ctx context.Context, job *Job)
	// Directory returns the directory of that version; the locked read tells the version.
	Directory(ctx context.Context, version int64) (*fsm.Directory, error)
}

// CommitOptions say how a batch takes its locks.
type CommitOptions struct {
	Wait bool // slow lane: wait for the lock up to LockTimeout (then Err unavailable) instead of Requeue
}

// AssigneeInfo is an assignee row with what was seen of its link.
type AssigneeInfo struct {
	fsm.Assignee
	FetchedAt  *time.Time
	FetchCount int
}

// DueDeadline is a deadline that is due, read without a lock.
type DueDeadline struct {
	Instance string
	Ref      fsm.DeadlineRef
	DueAt    time.Time
}

// ClaimedEffect is an effect that this process holds until LeaseUntil.
type ClaimedEffect struct {
	Instance   string
	Definition string
	Version    int
	fsm.QueuedEffect
	Key           string // instance/seq/n
	Fence         int64
	Attempt       int  // number of this attempt, from 1
	Started       bool // the attempt is already committed as started (idempotent effects)
	LeaseUntil    time.Time
	QueuedAt      time.Time
	UnknownBefore bool          // an earlier attempt went out and got no answer
	Link          *AssigneeInfo // the row behind QueuedEffect.Link, nil if none

	// Broken says why the row cannot be read as it was written, "" for a sound one: it is
	// leased like others, so that whoever claims it makes it dead for this reason, alone.
	Broken string
}

// Finish is the end of an attempt that no event needs to hear of.
type Finish struct {
	Instance string
	fsm.ResultEvent
}
