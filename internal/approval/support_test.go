package approval

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gormsqlite "github.com/libtnb/sqlite"

	"vobo/internal/callbacks"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// bound prints what n rounds without a violation show (rule of three).
func bound(t testing.TB, what string, n int) {
	t.Helper()
	t.Logf("%s: 0 of %d: < %.3g %% at 95 %%", what, n, 100*math.Min(1, 3/float64(n)))
}

// wantCode checks the code of a refusal and returns it.
func wantCode(t testing.TB, what string, err error, code fault.Code) *fault.Error {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("%s: got %v, want %s", what, err, code)
	}
	return fault.As(err)
}

// decide decides by a token.
func (b *bundle) decide(token string, route Route, r RaiseRequest) (*Result, error) {
	return b.svc.DecideByToken(b.ctx, token, route, r, Caller{})
}

// mustDecide is decide where nothing may stand in the way.
func (b *bundle) mustDecide(token string, route Route, r RaiseRequest) *Result {
	b.t.Helper()
	res, err := b.decide(token, route, r)
	if err != nil {
		b.t.Fatalf("%s by token: %v", r.Event, err)
	}
	return res
}

// callback is the newest callback token of an instance.
func (b *bundle) callback(id string) string {
	b.t.Helper()
	infos, err := b.store.Assignees(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range slices.Backward(infos) {
		if a.Kind == fsm.AssigneeCallback {
			return b.svc.mint(id, &a.Assignee)
		}
	}
	b.t.Fatalf("%s has no callback token", id)
	return ""
}

// review starts a review by Rosa that waits for Ana and Bea.
func (b *bundle) review() string {
	b.t.Helper()
	return b.start(b.as("rosa@example.com"), "review", `{"title":"Chairs","amount":100}`).ID
}

// secretsFile is what the file of VOBO_WEBHOOK_SECRETS holds from now on.
func (b *bundle) secretsFile(text string) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	loaded, err := callbacks.LoadSecrets(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.secrets.Set(loaded)
}

// raw is a connection to the database beside the store, for what only a test may do.
func (b *bundle) raw() *sql.DB {
	b.t.Helper()
	driver, dsn := "pgx", b.url
	if path, ok := store.SQLitePath(b.url); ok {
		driver, dsn = gormsqlite.DriverName, "file:"+path+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return db
}

// write changes the database behind the service's back.
func (b *bundle) write(statement string) {
	b.t.Helper()
	if _, err := b.raw().ExecContext(b.ctx, statement); err != nil {
		b.t.Fatalf("%s: %v", statement, err)
	}
}

// seenColumns are what looking at a link may change.
var seenColumns = []string{"fetched_at", "last_fetched_at", "fetch_count"}

// fingerprint hashes every row of every table but the columns that record a look.
func (b *bundle) fingerprint(db *sql.DB) string {
	b.t.Helper()
	list := "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
	if b.store.Dialect() == "sqlite" {
		list = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
	}
	var rows []string
	for _, table := range b.query(db, list) {
		for _, row := range b.query(db, "SELECT * FROM "+table) {
			rows = append(rows, table+" "+row)
		}
	}
	slices.Sort(rows)
	sum := sha256.Sum256([]byte(strings.Join(rows, "\n")))
	return hex.EncodeToString(sum[:])
}

// query gives each row as one text.
func (b *bundle) query(db *sql.DB, query string) []string {
	b.t.Helper()
	rows, err := db.QueryContext(b.ctx, query)
	if err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	names, err := rows.Columns()
	if err != nil {
		b.t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		values := make([]any, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			b.t.Fatal(err)
		}
		text := ""
		for i, v := range values {
			if !slices.Contains(seenColumns, names[i]) {
				text += fmt.Sprintf("|%v", v)
			}
		}
		all = append(all, strings.TrimPrefix(text, "|"))
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// deliver sends everything that is due until nothing is under way.
func (b *bundle) deliver() { b.t.Helper(); deliverBy(b.t, b.svc) }

func deliverBy(t testing.TB, svc *Service) {
	t.Helper()
	testkit.WaitFor(t, "the outbox to come to rest", func() bool {
		svc.outbox.mu.Lock()
		idle := len(svc.outbox.running) == 0
		svc.outbox.mu.Unlock()
		n, err := svc.DispatchOnce(t.Context())
		if err != nil {
			t.Fatalf("dispatch: %v", err)
		}
		return idle && n == 0
	})
}

// effects are all effects of an instance, oldest first.
func (b *bundle) effects(id string) []EffectView {
	b.t.Helper()
	all := b.instance(id).Effects
	slices.Reverse(all)
	return all
}

// effect is the effect of a name.
func (b *bundle) effect(id, name string) EffectView {
	b.t.Helper()
	for _, e := range b.effects(id) {
		if e.Name == name {
			return e
		}
	}
	b.t.Fatalf("%s has no effect %s", id, name)
	return EffectView{}
}

// named counts the effects of a name.
func (b *bundle) named(id, name string) int {
	n := 0
	for _, e := range b.effects(id) {
		if e.Name == name {
			n++
		}
	}
	return n
}

// states lists the history as "event from→to".
func (b *bundle) states(id string) []string {
	b.t.Helper()
	var all []string
	for _, h := range b.history(id) {
		all = append(all, fmt.Sprintf("%s %s→%s", h.Event, h.From, h.To))
	}
	return all
}

// events counts the history rows of an event.
func (b *bundle) events(id, event string) int {
	b.t.Helper()
	n := 0
	for _, h := range b.history(id) {
		if h.Event == event {
			n++
		}
	}
	return n
}

// services are n replicas on PostgreSQL, the first of them the bundle's own, and that
// one alone on SQLite, which has one writer.
func (b *bundle) services(n int) []*Service {
	b.t.Helper()
	all := []*Service{b.svc}
	for len(all) < n && b.store.Dialect() == "postgres" {
		svc, _ := b.replica(nil)
		all = append(all, svc)
	}
	return all
}

// everyday are the people with a change to one of them.
func everyday(change func(p *fsm.Person)) []fsm.Person {
	all := slices.Clone(people)
	for i := range all {
		change(&all[i])
	}
	return all
}

// sync sets people and waits for nothing: decisions check the version under the lock.
func (b *bundle) sync(change func(p *fsm.Person)) {
	b.t.Helper()
	if _, err := b.store.SyncPeople(b.ctx, everyday(change)); err != nil {
		b.t.Fatal(err)
	}
}

// until waits for an instant of the database's clock.
func (b *bundle) until(at time.Time) {
	b.t.Helper()
	testkit.WaitFor(b.t, "the clock to pass "+at.Format(time.RFC3339Nano), func() bool { return !b.now().Before(at) })
}

func (b *bundle) now() time.Time {
	now, err := b.store.Now(b.ctx)
	if err != nil {
		b.t.Error(err)
	}
	return now
}

// rotated makes a ring with a new active key after the present ones.
func (b *bundle) rotated() *callbacks.Ring {
	b.t.Helper()
	if err := b.ring.Rotate(rand.Reader); err != nil {
		b.t.Fatal(err)
	}
	return b.ring
}

// together runs f n times at once, released at one moment, and waits for all.
func together(n int, f func(i int)) {
	gate, done := make(chan struct{}), make(chan struct{}, n)
	for i := range n {
		go func() {
			<-gate
			f(i)
			done <- struct{}{}
		}()
	}
	close(gate)
	for range n {
		<-done
	}
}

// each runs f for 0…n-1, width at a time.
func each(n, width int, f func(i int)) {
	next := make(chan int)
	done := make(chan struct{}, width)
	for range width {
		go func() {
			for i := range next {
				f(i)
			}
			done <- struct{}{}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	for range width {
		<-done
	}
}

// full runs the races at the sizes that the catalogue of guarantees names; without it
// they are scaled to what each commit can afford.
var full = flag.Bool("full", false, "run the reliability tests at their full sizes")

func size(each, all int) int {
	if *full {
		return all
	}
	return each
}

// replaced is a definition with one change, which must be there to make.
func replaced(source, old, with string) string {
	if !strings.Contains(source, old) {
		panic("the sample has no " + old)
	}
	return strings.Replace(source, old, with, 1)
}

// documentTree is a document as a caller refers to one.
func documentTree() map[string]any {
	v, err := definitions.DecodeJSON([]byte(document))
	if err != nil {
		panic(err)
	}
	return v.(map[string]any)
}

// jsonInto reads the member id of an answer.
func jsonInto(raw json.RawMessage, id *string) error {
	var v struct{ ID string }
	err := json.Unmarshal(raw, &v)
	*id = v.ID
	return err
}
