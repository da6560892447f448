package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"vobo/internal/testkit/pgserver"
)

// sharedServer is one server for all tests of a test binary: the one that
// `make test` started, else one of its own.
var sharedServer = sync.OnceValues(func() (serverURL, error) {
	if given := os.Getenv(pgserver.URLVariable); given != "" {
		return serverURL{url: given}, nil
	}
	server, err := pgserver.Start()
	if err != nil {
		return serverURL{}, err
	}
	return serverURL{url: server.URL(), server: server}, nil
})

// serverURL holds on to the server, which stops when it is collected.
type serverURL struct {
	url    string
	server *pgserver.Server
}

// Postgres returns the URL of a fresh, empty PostgreSQL database, which is
// dropped when the test ends. It fails the test where there is no PostgreSQL.
func Postgres(t testing.TB) string {
	t.Helper()
	shared, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return freshDatabase(t, shared.url)
}

// PostgresServer is a server of the test's own, to crash and resume, with the
// URL of a fresh database on it. It is stopped when the test ends.
func PostgresServer(t testing.TB) (*pgserver.Server, string) {
	t.Helper()
	server, err := pgserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	name := databaseName()
	execute(t, server.URL(), createStatement(name))
	return server, withDatabase(t, server.URL(), name)
}

// DatabaseURLs returns a fresh database of each kind that the product runs on,
// by the names "sqlite" and "postgres".
func DatabaseURLs(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{"sqlite": SQLite(t), "postgres": Postgres(t)}
}

// SQLite returns the URL of a database file that does not exist yet, in a
// folder that is removed when the test ends.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "vobo.db")
}

// EachDatabase runs a test on every kind of database, as parallel subtests.
func EachDatabase(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for name, fresh := range map[string]func(testing.TB) string{"sqlite": SQLite, "postgres": Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

func freshDatabase(t testing.TB, server string) string {
	t.Helper()
	name := databaseName()
	execute(t, server, createStatement(name))
	t.Cleanup(func() { dropDatabase(t, server, name) })
	return withDatabase(t, server, name)
}

// dropDatabase drops a database and whoever is connected to it. A superuser's
// autovacuum may not be ended by the tests' role, but leaves by itself.
func dropDatabase(t testing.TB, server, name string) {
	t.Helper()
	var err error
	if !eventually(Patience, func() bool {
		err = run(server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		return err == nil
	}) {
		t.Errorf("drop the database %s: %v", name, err)
	}
}

func databaseName() string { return "vobo_" + strings.ToLower(rand.Text()) }

func createStatement(name string) string { return "CREATE DATABASE " + name + " TEMPLATE template0" }

func withDatabase(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", pgserver.URLVariable, err)
	}
	u.Path = "/" + name
	return u.String()
}

func execute(t testing.TB, server, statement string) {
	t.Helper()
	if err := run(server, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// run executes one statement on a connection of its own.
func run(server, statement string) error {
	ctx := context.Background() // also used in clean-ups, when the test's own is over
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to the PostgreSQL for tests: %w", err)
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
