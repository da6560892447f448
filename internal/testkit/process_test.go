package testkit

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"vobo/internal/testkit/pgserver"
)

// childVariable makes this test binary play another program.
const childVariable = "VOBOTEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "":
		os.Exit(m.Run())
	case "postgres":
		server, err := pgserver.Start()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(server.URL())
		select {} // until it is killed
	case "serve":
		os.Exit(serveAsChild())
	case "fail":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "no such definition")
		os.Exit(2)
	}
}

// serveAsChild answers like the product as far as Process needs it; SIGTERM
// ends it with status 3.
func serveAsChild() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, os.Getpid(), strings.Join(os.Environ(), "\n"))
	})
	fmt.Println("started", os.Args[1:])
	go func() {
		if err := http.ListenAndServe(os.Getenv("VOBO_ADDR"), nil); err != nil {
			fmt.Println(err)
			os.Exit(4)
		}
	}()
	<-stop
	return 3
}

func TestAProcessIsKilledStartedAgainAndStopped(t *testing.T) {
	t.Parallel()
	p := Serve(t, Launch{Binary: os.Args[0], Args: []string{"serve", "--x"}, Env: map[string]string{childVariable: "serve"}})
	first := get(t, p.URL+"/readyz")
	p.Kill()
	if p.Running() {
		t.Error("a killed process runs on")
	}
	p.Start()
	if second := get(t, p.URL+"/readyz"); second == first {
		t.Errorf("the same process answers after a kill and a start: %s", second)
	}
	if status := p.Stop(); status != 3 {
		t.Errorf("exit status after SIGTERM = %d, want the child's 3", status)
	}
	p.WaitLog("started [serve --x]\nstarted [serve --x]\n")
}

func TestAProcessSeesOnlyTheEnvironmentItIsGiven(t *testing.T) {
	t.Parallel()
	p := Serve(t, Launch{Binary: os.Args[0], Env: map[string]string{childVariable: "serve", "VOBO_ENV_NAME": "test"}})
	env := get(t, p.URL+"/readyz")
	if !strings.Contains(env, "VOBO_ENV_NAME=test") {
		t.Errorf("VOBO_ENV_NAME is missing in %s", env)
	}
	for _, variable := range []string{pgserver.URLVariable, "GOCACHE", "VOBO_URL"} {
		if strings.Contains(env, variable+"=") {
			t.Errorf("%s of the test reached the process", variable)
		}
	}
}

func TestACommandGivesItsOutputAndStatus(t *testing.T) {
	t.Parallel()
	out, errOut, status := Command(t, Launch{Binary: os.Args[0], Env: map[string]string{childVariable: "fail"}})
	if out != "out\n" || errOut != "no such definition\n" || status != 2 {
		t.Errorf("got %q, %q, %d", out, errOut, status)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	return string(getBody(t, url))
}
