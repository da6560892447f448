package main

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"vobo/internal/callbacks"
	"vobo/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"vobo": main})
}

// voboPath is this test binary under the name vobo, which runs main.
func voboPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("vobo")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// capture sets a variable to what an expression finds in the last output:
// capture NAME REGEXP, the first group of it.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("%s is not in the output", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// scripts runs the scripts of a folder of testdata.
func scripts(t *testing.T, dir string, setup func(*testscript.Env) error) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", dir), Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"capture": capture, "until": until, "hook": hook},
	})
}

// until runs a command again and again until its output fits: until REGEXP COMMAND…
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND…")
	}
	want := regexp.MustCompile(args[0])
	for limit := time.Now().Add(2 * testkit.Patience); time.Now().Before(limit); {
		if err := ts.Exec(args[1], args[2:]...); err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%s never came; at last:\n%s%s", args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
}

// bankSecret is what the scripts' webhook source signs with.
const bankSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hook makes a signed call of the source bank: hook ID BODY.
func hook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hook ID BODY")
	}
	status, err := callHook(ts.Getenv("VOBO_URL"), bankSecret, args[0], args[1])
	ts.Check(err)
	if status != http.StatusAccepted {
		ts.Fatalf("the call was answered with %d", status)
	}
}

// callHook makes a signed call of the source bank and gives the status of its answer.
func callHook(base, secret, id, body string) (int, error) {
	key, err := callbacks.ParseWebhookSecret(secret)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequest(http.MethodPost, base+"/v1/hooks/bank", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	now := time.Now().Unix()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(now, 10))
	r.Header.Set("webhook-signature", callbacks.SignWebhook([][]byte{key}, id, now, []byte(body)))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// outsideWorld is what the scripts' webhooks and event feed reach.
func outsideWorld(t *testing.T) *testkit.WebhookReceiver {
	t.Helper()
	receiver := testkit.Webhook(t)
	answers := map[string]testkit.WebhookAnswer{
		"/reserve": testkit.AnswerJSON(200, `{"id": 12345678901234567890.10}`),
		"/release": testkit.AnswerStatus(204),
		"/refuse":  testkit.AnswerJSON(422, `{"error": "There is no tax id."}`),
		"/cut":     testkit.AnswerClose(),
		"/events":  testkit.AnswerStatus(410),
	}
	receiver.Answer(func(w http.ResponseWriter, r *http.Request, call testkit.WebhookCall) {
		answers[r.URL.Path](w, r, call)
	})
	return receiver
}

func TestCommandsThatNeedNoServer(t *testing.T) {
	t.Parallel()
	scripts(t, "script", func(env *testscript.Env) error {
		bundled, err := filepath.Abs("../../internal/definitions/bundled")
		env.Setenv("BUNDLED", bundled)
		return err
	})
}

func TestCommandsThatTalkToAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	people := filepath.Join(dir, "people.yaml")
	if err := writeNew(people, demoPeople); err != nil {
		t.Fatal(err)
	}
	secrets := filepath.Join(dir, "secrets.yaml")
	if err := writeNew(secrets, "credentials: {shop: {bearer: very-secret-token}}\nsources: {bank: {secrets: ["+bankSecret+"]}}\n"); err != nil {
		t.Fatal(err)
	}
	world := outsideWorld(t)
	server := testkit.Serve(t, testkit.Launch{Binary: voboPath(t), Dir: dir, Env: map[string]string{
		"VOBO_PEOPLE": people, "VOBO_WEBHOOK_SECRETS": secrets, "VOBO_SINKS": "erp=" + world.URL + "/events",
		"VOBO_WEBHOOK_ALLOW": "127.0.0.1", "VOBO_ENV_SHOP_URL": world.URL,
		"VOBO_ENV_ESIGN_URL": "https://esign.example.com", "VOBO_ENV_CORE_URL": "https://core.example.com",
	}})
	key := func(name string, roles ...string) string {
		args := []string{"keys", "create", name}
		for _, r := range roles {
			args = append(args, "--role", r)
		}
		out, text, status := testkit.Command(t, testkit.Launch{Binary: voboPath(t), Dir: dir, Args: args})
		if status != 0 {
			t.Fatalf("keys create: %s", text)
		}
		return strings.TrimSpace(out)
	}
	t.Cleanup(func() { // when the scripts, which run in parallel, have ended
		if server.Stop() != 0 {
			t.Error("the server did not stop cleanly")
		}
	})
	operator := key("operations", "admin", "operator", "requester", "impersonator")
	reader := key("reader", "viewer")
	scripts(t, "server", func(env *testscript.Env) error {
		bundled, err := filepath.Abs("../../internal/definitions/bundled")
		for name, value := range map[string]string{"BUNDLED": bundled, "VOBO_URL": server.URL, "VOBO_API_KEY": operator, "READER": reader, "WORLD": strings.TrimPrefix(world.URL, "http://")} {
			env.Setenv(name, value)
		}
		return err
	})
}

func TestExitStatuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		status int
	}{
		"done":                        {[]string{"version"}, exitDone},
		"help":                        {[]string{"instances", "--help"}, exitDone},
		"a file that is not there":    {[]string{"definitions", "lint", "missing.yaml"}, exitRefused},
		"a server that is not there":  {[]string{"tasks", "list", "--url", "http://127.0.0.1:1"}, exitRefused},
		"an unknown command":          {[]string{"frobnicate"}, exitUsage},
		"an unknown flag":             {[]string{"version", "--loud"}, exitUsage},
		"a missing argument":          {[]string{"instances", "show"}, exitUsage},
		"a missing reason":            {[]string{"instances", "cancel", "x"}, exitUsage},
		"a version that is none":      {[]string{"definitions", "show", "onboarding@first"}, exitUsage},
		"an input that is no JSON":    {[]string{"instances", "fire", "x", "approve", "--input", "{"}, exitUsage},
		"documents of no known shape": {[]string{"instances", "fire", "x", "approve", "--documents", `{"a": {"b": 1}}`}, exitUsage},
		"a demo for everybody":        {[]string{"demo", "--addr", "0.0.0.0:0"}, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, text bytes.Buffer
			status := run(&console{ctx: t.Context(), out: &out, err: &text, in: strings.NewReader("")}, c.args)
			if status != c.status {
				t.Errorf("status %d, want %d; stderr: %s", status, c.status, &text)
			}
			if status != exitDone && (!strings.HasPrefix(text.String(), "vobo: ") || out.Len() > 0) {
				t.Errorf("a failure said %q on stderr and %q on stdout", &text, &out)
			}
		})
	}
}
