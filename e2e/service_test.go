package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"vobo/internal/testkit"
)

// The people of every test, by their addresses.
const (
	rosa  = "rosa@example.com"  // asks
	ana   = "ana@example.com"   // risk
	luis  = "luis@example.com"  // risk
	lea   = "lea@example.com"   // legal
	marta = "marta@example.com" // manager, editor
	omar  = "omar@example.com"  // operator
	desk  = "desk"              // the API key, acting as itself
	noOne = ""                  // no credentials at all
)

const directory = `people:
  - {id: rosa@example.com, name: Rosa, groups: [sales], roles: [requester]}
  - {id: ana@example.com, name: Ana, groups: [risk], roles: [reviewer], timezone: Europe/Madrid}
  - {id: luis@example.com, name: Luis, groups: [risk], roles: [reviewer]}
  - {id: lea@example.com, name: Lea, groups: [legal], roles: [reviewer]}
  - {id: marta@example.com, name: Marta, groups: [managers, editors], roles: [reviewer]}
  - {id: omar@example.com, name: Omar, roles: [operator]}
`

// setup says how a service differs from the usual one.
type setup struct {
	database    string            // empty: a fresh SQLite file
	replicas    int               // 0: one process
	definitions []string          // sources published at start besides onboarding and supplier
	env         map[string]string // settings that replace the usual ones; "" removes one
}

// service is Vobo at work with the outside world of one test.
type service struct {
	t        testing.TB
	base     string // what links begin with
	at       string // where the tests find it: the base, or a replica itself if the base is made up
	dir      string
	database string
	key      string // of system:desk
	replicas []*testkit.Process
	mail     *testkit.MailServer
	esign    *testkit.WebhookReceiver
	core     *testkit.WebhookReceiver
	turn     atomic.Uint64
}

// serve starts the service and makes its API key.
func serve(t testing.TB, how setup) *service {
	t.Helper()
	s := &service{t: t, dir: t.TempDir(), database: how.database, mail: testkit.SMTP(t), esign: testkit.Webhook(t), core: testkit.Webhook(t)}
	if s.database == "" {
		s.database = "sqlite:" + filepath.Join(s.dir, "vobo.db")
	}
	s.key = s.makeKey("desk", "requester", "operator", "impersonator")
	count := max(how.replicas, 1)
	addresses := make([]string, count)
	for i := range addresses {
		addresses[i] = testkit.FreeAddress(t)
	}
	s.base = "http://" + addresses[0]
	if count > 1 {
		s.base = s.balance(addresses)
	}
	env := s.settings(how)
	s.at = s.base
	if base := strings.TrimRight(env["VOBO_BASE_URL"], "/"); base != s.base {
		public, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		s.base, s.at = base, "http://"+addresses[0]+public.Path
	}
	for _, address := range addresses {
		own := maps.Clone(env)
		own["VOBO_ADDR"] = address
		s.replicas = append(s.replicas, testkit.Serve(t, testkit.Launch{Env: own, Dir: s.dir}))
	}
	return s
}

func (s *service) settings(how setup) map[string]string {
	s.t.Helper()
	env := map[string]string{
		"VOBO_DATABASE_URL": s.database, "VOBO_BASE_URL": s.base, "VOBO_KEYRING": filepath.Join(s.dir, "vobo.keys"),
		"VOBO_SMTP_URL": s.mail.URL(), "VOBO_MAIL_FROM": "vobo@example.com", "VOBO_SWEEP_EVERY": "100ms",
		"VOBO_PEOPLE": s.file("people.yaml", directory), "VOBO_WEBHOOK_ALLOW": "127.0.0.1",
		"VOBO_ENV_ESIGN_URL": s.esign.URL, "VOBO_ENV_CORE_URL": s.core.URL,
	}
	sources := []string{example(s.t, "onboarding.v1.yaml"), example(s.t, "supplier.v1.yaml")}
	for i, source := range how.definitions {
		sources = append(sources, s.file(fmt.Sprintf("definition-%d.yaml", i), source))
	}
	env["VOBO_DEFINITIONS"] = strings.Join(sources, ",")
	for name, value := range how.env {
		env[name] = value
		if value == "" {
			delete(env, name)
		}
	}
	return env
}

// example is the path of a definition that the product brings along.
func example(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "internal", "definitions", "bundled", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// variant is an example under another name, with its text changed; each old text
// must be there.
func variant(t testing.TB, name, as string, changes ...string) string {
	t.Helper()
	source, err := os.ReadFile(example(t, name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	first, _, _ := strings.Cut(name, ".")
	for pair := append([]string{"name: " + first + "\n", "name: " + as + "\n"}, changes...); len(pair) > 0; pair = pair[2:] {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("%s does not contain %q", name, pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

func (s *service) file(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// makeKey makes an API key by command, beside the running service or before it.
func (s *service) makeKey(name string, roles ...string) string {
	s.t.Helper()
	args := []string{"keys", "create", name}
	for _, role := range roles {
		args = append(args, "--role", role)
	}
	return strings.TrimSpace(s.command(args...))
}

// command runs vobo on the service's database and returns what it printed.
func (s *service) command(args ...string) string {
	s.t.Helper()
	out, errOut, status := testkit.Command(s.t, testkit.Launch{Args: args, Dir: s.dir, Env: map[string]string{"VOBO_DATABASE_URL": s.database}})
	if status != 0 {
		s.t.Fatalf("vobo %s: exit status %d\n%s", strings.Join(args, " "), status, errOut)
	}
	return out
}

// balance puts the replicas behind one address, each request to the next of them.
func (s *service) balance(addresses []string) string {
	s.t.Helper()
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		target := addresses[s.turn.Add(1)%uint64(len(addresses))]
		r.SetURL(&url.URL{Scheme: "http", Host: target})
		r.Out.Host = r.In.Host
	}}
	front := httptest.NewServer(proxy)
	s.t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL
}

// onEach runs a test on SQLite and on three replicas that share a PostgreSQL.
func onEach(t *testing.T, test func(t *testing.T, s *service), how setup) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, serve(t, how))
	})
	t.Run("PostgreSQL with three replicas", func(t *testing.T) {
		t.Parallel()
		three := how
		three.database, three.replicas = testkit.Postgres(t), 3
		test(t, serve(t, three))
	})
}

var direct = &http.Client{
	Timeout:       testkit.Patience,
	Transport:     &http.Transport{MaxIdleConnsPerHost: 64, Proxy: nil},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
