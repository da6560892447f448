package testkit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"vobo/internal/testkit/pgserver"
)

func TestEachPostgresDatabaseIsFreshAndGoneAfterItsTest(t *testing.T) {
	t.Parallel()
	var first, second string
	t.Run("two at once", func(t *testing.T) {
		first, second = Postgres(t), Postgres(t)
		if first == second {
			t.Fatalf("the same database twice: %s", first)
		}
		exec1(t, first, "CREATE TABLE seen (x int)")
		exec1(t, second, "CREATE TABLE seen (x int)") // fails where the first one's shows through
	})
	ctx := t.Context()
	for _, url := range []string{first, second} {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			t.Errorf("%s is still there: %v", url, conn.Close(ctx))
		} else if !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%s: %v, want a database that does not exist", url, err)
		}
	}
}

func TestEachDatabaseRunsOnBothKinds(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	t.Run("both", func(t *testing.T) {
		EachDatabase(t, func(_ *testing.T, url string) { seen <- strings.SplitN(url, ":", 2)[0] })
	})
	close(seen)
	kinds := map[string]int{}
	for kind := range seen {
		kinds[kind]++
	}
	if len(kinds) != 2 || kinds["sqlite"] != 1 || kinds["postgres"] != 1 {
		t.Errorf("ran on %v, want sqlite and postgres once each", kinds)
	}
	if urls := DatabaseURLs(t); !strings.HasPrefix(urls["sqlite"], "sqlite:/") || !strings.HasPrefix(urls["postgres"], "postgres://") {
		t.Errorf("DatabaseURLs = %v", urls)
	}
}

func TestACrashedServerKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server, url := PostgresServer(t)
	exec1(t, url, "CREATE TABLE kept AS SELECT 7 AS x")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection outlived the crash")
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	exec1(t, url, "DO $$ BEGIN ASSERT (SELECT x FROM kept) = 7; END $$")
}

func TestTheServerTakesManyConnectionsAndIsNoSuperuser(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	var connections, super string
	err = conn.QueryRow(ctx, "SELECT current_setting('max_connections'), current_setting('is_superuser')").Scan(&connections, &super)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(pgserver.URLVariable) == "" && connections != "300" {
		t.Errorf("max_connections = %s, want 300", connections)
	}
	if super != "off" {
		t.Errorf("is_superuser = %s: missing rights would not show", super)
	}
}

// A killed test run must leave no server and no folder behind.
func TestAKilledTestProcessLeavesNoServerBehind(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	if err := errors.Join(os.Chmod(temp, 0o777), openPath(temp)); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = []string{childVariable + "=postgres", "TMPDIR=" + temp, "PATH=" + os.Getenv("PATH")}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1000)
	n, readErr := out.Read(buffer) // the child writes its URL and then waits for ever
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if readErr != nil {
		t.Fatalf("the child never started its server: %v, %v", readErr, child.Wait())
	}
	url := string(buffer[:n])
	WaitFor(t, "the server's folder to go", func() bool {
		left, err := filepath.Glob(filepath.Join(temp, "vobo-postgres-*"))
		return err == nil && len(left) == 0
	})
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		t.Errorf("the server still answers: %v", conn.Close(t.Context()))
	}
	if err := child.Wait(); err == nil {
		t.Error("the killed child ended well")
	}
}

// openPath lets another user walk into a folder below the test's own.
func openPath(folder string) error {
	for dir := filepath.Dir(folder); dir != os.TempDir() && dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
	}
	return nil
}

func TestAMissingPostgreSQLNamesTheLineToRun(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"sudo apt-get install -y postgresql", pgserver.URLVariable} {
		if !strings.Contains(pgserver.ErrMissing.Error(), line) {
			t.Errorf("the message lacks %q:\n%v", line, pgserver.ErrMissing)
		}
	}
}

func exec1(t *testing.T, url, statement string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(ctx, statement)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
