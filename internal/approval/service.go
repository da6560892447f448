// Package approval holds the use cases and the committer. Every event takes one
// road: Fire → committer (claims, lock, read and clock → fsm.Plan → store) → commit
// → outbox. Who may do what is decided here and in fsm; edges only translate.
package approval

import (
	"context"
	"errors"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"vobo/internal/callbacks"
	"vobo/internal/definitions"
	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// Config wires a service. Clock is the process's, for caches and idle limits only:
// what is decided takes its time from the database.
type Config struct {
	Store *store.Store
	Ring  *callbacks.Holder
	// ReloadRing reads the ring again into Ring, where a token names a key that it does not
	// know; nil: the ring does not change.
	ReloadRing func() error

	Secrets *callbacks.SecretsHolder // nil: no credentials, no signatures, no webhook sources
	Sinks   []Sink                   // of the event feed; the store is opened with their names

	Mailer   *deliver.Mailer // nil: mails stay in the mailbox page
	Webhooks *deliver.WebhookSender
	BaseURL  string // no trailing slash
	MailFrom string
	Vars     map[string]string // env.NAME
	Zone     *time.Location
	Clock    func() time.Time
	Rand     io.Reader      // nil: crypto/rand
	Jitter   func() float64 // in [0, 1), of retries; nil: random
	Log      *slog.Logger
}

// Service is the use cases. Safe for concurrent use.
type Service struct {
	cfg          Config
	store        *store.Store
	log          *slog.Logger
	planner      *planner
	committer    *committer
	outbox       *outbox
	lookout      *lookout
	takers       *takers
	alerts       *alerts
	joins        *joins
	keys         *keyCache
	used         *usedTokens
	logins       *loginMails
	metrics      *metrics
	attempts     *attempts // by client
	loginMailsTo *attempts // by person
	incarnation  int64

	ringMu   sync.Mutex
	ringRead time.Time // again, for a key that was not known
}

// New makes a service on a migrated store. Run starts it.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Clock == nil || cfg.Log == nil || cfg.Ring == nil || cfg.Store == nil || cfg.Webhooks == nil {
		return nil, errors.New("approval: Store, Ring, Webhooks, Clock and Log are needed")
	}
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	if cfg.Jitter == nil {
		cfg.Jitter = mathrand.Float64
	}
	s := &Service{cfg: cfg, store: cfg.Store, log: cfg.Log}
	var err error
	if s.incarnation, err = cfg.Store.Incarnation(ctx); err != nil {
		return nil, err
	}
	s.planner = &planner{s: s, defs: map[defKey]*definitions.Definition{}, newest: map[string]newestEntry{}}
	s.keys = &keyCache{entries: map[[32]byte]keyEntry{}}
	s.used = newUsedTokens()
	s.logins = &loginMails{}
	s.metrics = newMetrics(s)
	s.attempts = newAttempts(cfg.Clock, time.Minute/attemptsPerMinute, attemptsPerMinute)
	s.loginMailsTo = newAttempts(cfg.Clock, loginMailEvery, loginMailBurst)
	s.outbox = newOutbox(s)
	s.lookout, s.takers, s.alerts, s.joins = newLookout(s), newTakers(), &alerts{}, newJoins()
	s.committer = newCommitter(cfg.Store, s.planner, cfg.Log, s.afterCommit, s.usedUp)
	if err := s.noteCorrelations(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Run begins to take events and returns at once. The loops that say when to sweep
// and dispatch are the timers package's.
func (s *Service) Run() {
	s.committer.start()
	s.lookout.start()
	s.outbox.start()
}

// Stop lets running effects end until ctx does, records their results (which are
// events), gives early calls to the waits that have begun, then takes no new events and
// finishes those that wait.
func (s *Service) Stop(ctx context.Context) error {
	err := errors.Join(s.outbox.stop(ctx), s.lookout.stop(ctx))
	s.committer.stop()
	return err
}

func (s *Service) mono() time.Time                       { return s.cfg.Clock() }
func (s *Service) elapsed(since time.Time) time.Duration { return s.cfg.Clock().Sub(since) }

// afterCommit hears of every committed batch: it wakes the outbox here and, once
// per batch, in the other replicas, and has waits that began looked at for early calls.
func (s *Service) afterCommit(jobs []*store.Job) {
	work := false
	s.metrics.batches.Observe(float64(len(jobs)))
	for _, j := range jobs {
		if j.Err != nil || j.Lost != nil || j.Requeue {
			continue
		}
		s.metrics.event(j)
		s.noteUse(j)
		if j.Step.Refusal != nil || j.Step.Replay > 0 {
			continue
		}
		work = work || len(j.Step.Effects) > 0 || j.Event.Kind == fsm.KindRetryEffect || s.feeds(j) || completes(&j.Step)
		if len(j.Step.Awaits) > 0 {
			s.lookout.add(j.Step.Instance.ID, j.Step.Awaits)
		}
	}
	if work {
		s.outbox.wake()
	}
}

// feeds tells whether a job wrote a history row that goes to a sink.
func (s *Service) feeds(j *store.Job) bool {
	return len(s.cfg.Sinks) > 0 && j.Step.Transition.Seq > 0
}

// completes tells whether a step ended a child.
func completes(step *fsm.Step) bool {
	return step.Instance.Parent != nil && (step.Instance.Status == fsm.Finished || step.Instance.Status == fsm.Cancelled)
}

// Caller is who calls, as the edge established it.
type Caller struct {
	Kind      fsm.ActorKind // person | system
	ID        string        // person id or "system:NAME"
	Name      string
	Groups    []string // of the person
	Roles     []string // of the key, or of the person
	Via       string   // "system:NAME" acting on behalf of ID
	KeyRoles  []string // with Via: the key's roles, by which the route is allowed
	Assurance fsm.Assurance
	Locale    string
	Zone      *time.Location
}

// HasRole tells whether the route-deciding roles include one of these.
func (c Caller) HasRole(roles ...string) bool {
	have := c.Roles
	if c.Via != "" {
		have = c.KeyRoles
	}
	for _, h := range have {
		for _, r := range roles {
			if h == r {
				return true
			}
		}
	}
	return false
}

// Idempotency is an Idempotency-Key with the route it came by. Zero: none.
type Idempotency struct {
	Key      string // 1…255 characters
	Route    string // method and path
	BodyHash []byte
}

// StartRequest starts an instance.
type StartRequest struct {
	Definition string
	Version    int // 0: newest
	Data       map[string]any
	Requester  string // "" : the caller
	Labels     map[string]string
	Idem       Idempotency
}

// RaiseRequest raises an event or decides.
type RaiseRequest struct {
	Event      string
	Input      any
	Comment    string
	Documents  map[string]any
	Digest     string
	IfRevision int
	Idem       Idempotency
	Signed     *Signed // the call as it came, for callbacks that must be signed
}

// Route says which path a decision by token came by.
type Route string

// The routes.
const (
	RoutePage     Route = "page"     // POST /a/{token}
	RouteCallback Route = "callback" // POST /v1/callbacks/{token}
)
