package approval

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/callbacks"
	"vobo/internal/definitions"
	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// bundle is a running service on a fresh database with a clock that tests move.
type bundle struct {
	t     testing.TB
	ctx   context.Context
	svc   *Service
	store *store.Store
	ring  *callbacks.Ring
	hooks *testkit.WebhookReceiver // what webhooks reach as env.CORE_URL and env.ESIGN_URL
	paths byPath
	url   string
	shift atomic.Int64 // nanoseconds added to the database's clock
	known sync.Map     // names of the definitions published by need

	secrets callbacks.SecretsHolder // empty until secretsFile
	sinks   []Sink                  // of services opened from now on
}

// people of every bundle.
var people = []fsm.Person{
	{ID: "ana@example.com", Name: "Ana", Email: "ana@example.com", Groups: []string{"risk", "agent-reviewers"}, Roles: []string{"reviewer", "requester"}, Active: true},
	{ID: "bea@example.com", Name: "Bea", Email: "bea@example.com", Groups: []string{"risk"}, Roles: []string{"reviewer"}, Active: true},
	{ID: "luis@example.com", Name: "Luis", Email: "luis@example.com", Groups: []string{"legal"}, Roles: []string{"reviewer"}, Active: true},
	{ID: "marta@example.com", Name: "Marta", Email: "marta@example.com", Groups: []string{"managers"}, Roles: []string{"reviewer"}, Active: true},
	{ID: "rosa@example.com", Name: "Rosa", Email: "rosa@example.com", Roles: []string{"requester"}, Active: true},
	{ID: "olga@example.com", Name: "Olga", Email: "olga@example.com", Groups: []string{"on-call"}, Roles: []string{"operator", "admin"}, Active: true},
}

// eachDatabase runs a test on a fresh SQLite and a fresh PostgreSQL.
func eachDatabase(t *testing.T, f func(t *testing.T, b *bundle)) {
	t.Helper()
	testkit.EachDatabase(t, func(t *testing.T, url string) { f(t, newBundle(t, url)) })
}

func newBundle(t testing.TB, url string) *bundle {
	t.Helper()
	b := &bundle{t: t, ctx: t.Context(), url: url, hooks: testkit.Webhook(t)}
	ring, err := callbacks.NewKeyRing(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b.ring = ring
	b.svc, b.store = b.replica(nil)
	if err := b.store.SetRing(b.ctx, fingerprints(ring)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.SyncPeople(b.ctx, people); err != nil {
		t.Fatal(err)
	}
	return b
}

// need publishes a definition of the bundled ones or of samples, once.
func (b *bundle) need(name string) {
	b.t.Helper()
	if _, done := b.known.LoadOrStore(name, true); done {
		return
	}
	source, ok := samples[name]
	if !ok {
		source = string(definitions.Bundled()[name+".v1.yaml"])
	}
	b.publish(source)
}

// replica opens another service on the same database; it ends with the test.
func (b *bundle) replica(change func(*Config)) (*Service, *store.Store) {
	b.t.Helper()
	svc, st, stop := b.process(change, nil)
	b.t.Cleanup(stop)
	return svc, st
}

// process opens another service on the same database, to be stopped by the test.
// fail, if not nil, is asked at each of the store's fault points.
func (b *bundle) process(change func(*Config), fail func(point string) error) (*Service, *store.Store, func()) {
	b.t.Helper()
	st, err := store.Open(b.ctx, store.Config{
		URL: b.url, Fault: fail, Sinks: b.names(),
		Shift: func() time.Duration { return time.Duration(b.shift.Load()) },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := st.Migrate(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	webhooks, err := deliver.NewWebhookSender(deliver.WebhookConfig{Allow: []string{"127.0.0.1"}, UserAgent: "Vobo/test"})
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := Config{
		Store: st, Ring: callbacks.NewHolder(b.ring), Secrets: &b.secrets, Sinks: b.sinks, Webhooks: webhooks, BaseURL: "http://vobo.test", MailFrom: "vobo@example.com",
		Vars:   map[string]string{"ESIGN_URL": b.hooks.URL, "CORE_URL": b.hooks.URL},
		Jitter: func() float64 { return 0.9 }, // guarantee D10: no retry comes at once
		Clock:  func() time.Time { return time.Now().Add(time.Duration(b.shift.Load())) }, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	svc, err := New(b.ctx, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	svc.Run()
	return svc, st, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := svc.Stop(ctx); err != nil {
			b.t.Errorf("stop: %v", err)
		}
		if err := st.Close(); err != nil {
			b.t.Errorf("close: %v", err)
		}
	}
}

// names are those of the sinks.
func (b *bundle) names() []string {
	all := make([]string, len(b.sinks))
	for i := range b.sinks {
		all[i] = b.sinks[i].Name
	}
	return all
}

func fingerprints(r *callbacks.Ring) []store.RingFingerprint {
	var rows []store.RingFingerprint
	for _, f := range r.Fingerprints() {
		rows = append(rows, store.RingFingerprint{Kid: f.Kid, Status: string(f.Status), SHA256: f.SHA256[:]})
	}
	return rows
}

var admin = Caller{Kind: fsm.ActorSystem, ID: "system:test-admin", Roles: []string{"admin", "operator", "requester"}, Assurance: fsm.ByKey}

func (b *bundle) publish(source string) {
	b.t.Helper()
	if _, err := b.svc.Publish(b.ctx, admin, filepath.Base(b.t.Name()), []byte(source)); err != nil {
		b.t.Fatalf("publish: %v", err)
	}
}

// as is a logged-in person.
func (b *bundle) as(id string) Caller {
	b.t.Helper()
	c, err := b.svc.personCaller(b.ctx, id, fsm.BySession)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// pass moves the clock of database and service.
func (b *bundle) pass(d time.Duration) { b.shift.Add(int64(d)) }

// sweep fires everything that is due.
func (b *bundle) sweep() int {
	b.t.Helper()
	total := 0
	for {
		n, err := b.svc.SweepOnce(b.ctx, 500, 0)
		if err != nil {
			b.t.Fatalf("sweep: %v", err)
		}
		total += n
		if n == 0 {
			return total
		}
	}
}

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	v, err := definitions.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func (b *bundle) start(c Caller, definition, data string) InstanceView {
	b.t.Helper()
	b.need(definition)
	res, err := b.svc.Start(b.ctx, c, StartRequest{Definition: definition, Data: tree(b.t, data)})
	if err != nil {
		b.t.Fatalf("start %s: %v", definition, err)
	}
	return res.View
}

func (b *bundle) raise(c Caller, id, event string) *Result {
	b.t.Helper()
	res, err := b.svc.Raise(b.ctx, c, id, RaiseRequest{Event: event})
	if err != nil {
		b.t.Fatalf("raise %s: %v", event, err)
	}
	return res
}

// link is the newest live link of a person in an instance.
func (b *bundle) link(id, person string) string {
	b.t.Helper()
	infos, err := b.store.Assignees(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	token := ""
	for i := range infos {
		if infos[i].Ref == "user:"+person && infos[i].Nonce != nil {
			token = b.svc.mint(id, &infos[i].Assignee)
		}
	}
	if token == "" {
		b.t.Fatalf("%s has no link in %s", person, id)
	}
	return token
}

func (b *bundle) instance(id string) *InstanceView {
	b.t.Helper()
	v, err := b.svc.Instance(b.ctx, admin, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bundle) history(id string) []TransitionView {
	b.t.Helper()
	page, err := b.svc.History(b.ctx, admin, id, store.Paging{Limit: 500})
	if err != nil {
		b.t.Fatal(err)
	}
	return page.Items
}

const eva = `{"applicant":{"name":"Eva","email":"eva@example.com"},"total":500}`

// atApproval starts an onboarding that waits for the risk group.
func (b *bundle) atApproval(email string) string {
	b.t.Helper()
	rosa := b.as("rosa@example.com")
	v := b.start(rosa, "onboarding", strings.ReplaceAll(eva, "eva@example.com", email))
	b.raise(rosa, v.ID, "submit")
	return v.ID
}
