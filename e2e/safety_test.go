package e2e_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vobo/internal/testkit"
)

// S-34: the first start, without any configuration but a free port.
func TestTheFirstStartIsSafe(t *testing.T) {
	t.Parallel()
	help, _, status := testkit.Command(t, testkit.Launch{Args: []string{"serve", "--help"}})
	if status != 0 || !strings.Contains(help, "127.0.0.1:8080") {
		t.Errorf("it does not listen on loopback by default:\n%s", help)
	}
	var rings []string
	for range 2 {
		dir := t.TempDir()
		p := testkit.Serve(t, testkit.Launch{Dir: dir})
		rings = append(rings, readPrivate(t, filepath.Join(dir, "vobo.keys")))
		assertNobodyGetsIn(t, p.URL)
		keys, _, _ := testkit.Command(t, testkit.Launch{Args: []string{"keys", "list", "--json"}, Dir: dir})
		people, _, _ := testkit.Command(t, testkit.Launch{Args: []string{"people", "list", "--json"}, Dir: dir})
		if strings.TrimSpace(keys) != "[]" || strings.TrimSpace(people) != "[]" {
			t.Errorf("a fresh service knows keys %s and people %s", keys, people)
		}
		for _, line := range strings.Fields(rings[len(rings)-1]) {
			if len(line) > 40 && strings.Contains(p.Logs(), line) {
				t.Error("the key ring is in the log")
			}
		}
	}
	if rings[0] == rings[1] {
		t.Error("two services made the same key ring")
	}
}

// readPrivate reads a file that nobody else may read.
func readPrivate(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("%s has the mode %04o, want 0600", filepath.Base(path), mode)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func assertNobodyGetsIn(t *testing.T, base string) {
	t.Helper()
	for path, want := range map[string]int{
		"/v1/instances": 401, "/v1/tasks": 401, "/v1/effects": 401, "/v1/definitions": 401, "/v1/me": 401,
		"/inbox": 303, "/instances": 303, "/dev/mail": 303, "/debug/pprof/": 404, "/debug/vars": 404,
		"/login": 200, "/healthz": 200, "/readyz": 200,
	} {
		got, err := send(direct, http.MethodGet, base+path, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != want {
			t.Errorf("%s answers a stranger with %d, want %d", path, got.status, want)
		}
		if next := got.header.Get("Location"); want == 303 && !strings.HasPrefix(next, "/login") {
			t.Errorf("%s leads a stranger to %s", path, next)
		}
	}
	for _, key := range []string{"Bearer vobo_", "Bearer admin", "Basic YWRtaW46YWRtaW4="} {
		got, err := send(direct, http.MethodGet, base+"/v1/me", nil, http.Header{"Authorization": {key}})
		if err != nil {
			t.Fatal(err)
		}
		got.wantProblem(t, http.StatusUnauthorized, "unauthorized")
	}
}

// S-34: keys that are too short, or that others may read, stop the start.
func TestAWeakKeyRingIsRefused(t *testing.T) {
	t.Parallel()
	short := base64.RawURLEncoding.EncodeToString([]byte("thirty-one bytes are not enough"))
	long := base64.RawURLEncoding.EncodeToString([]byte("thirty-two bytes are just enough"))
	for name, ring := range map[string]struct {
		content string
		mode    fs.FileMode
	}{
		"short": {"vobo-keys-v1\nk1:active:" + short + "\n", 0o600},
		"open":  {"vobo-keys-v1\nk1:active:" + long + "\n", 0o644},
		"none":  {"vobo-keys-v1\n", 0o600},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "weak.keys")
		if err := errors.Join(os.WriteFile(path, []byte(ring.content), 0o600), os.Chmod(path, ring.mode)); err != nil {
			t.Fatal(err)
		}
		_, errOut, status := testkit.Command(t, testkit.Launch{Args: []string{"serve", "--check"}, Dir: dir, Env: map[string]string{"VOBO_KEYRING": path}})
		if status != 1 || !strings.Contains(errOut, "VOBO_KEYRING") || strings.Contains(errOut, short) || strings.Contains(errOut, long) {
			t.Errorf("%s: status %d\n%s", name, status, errOut)
		}
	}
}

// field report B58, D6: after many uses, good and bad, a secret link is nowhere but in
// the mail that brought it.
func TestASecretLinkIsInNoLogNorFile(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{env: map[string]string{"VOBO_LOG": "debug,json"}})
	id := s.start(rosa, "supplier", supplierOf("Quiet", 5000)).ID
	link := s.linkOf(ana, "New supplier Quiet")
	headers := []answer{}
	for range 20 {
		headers = append(headers, s.page(link), s.submit(link, "event", "approve", "input.limit", "none"))
	}
	token := tokenOf(link)
	decide := func(body map[string]any) answer {
		return s.api(noOne, http.MethodPost, "/v1/callbacks/"+token, body, "Idempotency-Key", "one")
	}
	var asked result
	stayed := decide(map[string]any{"event": "ask", "comment": "See https://outside.example.net/x"}).want(t, http.StatusOK)
	if stayed.into(t, &asked); asked.Token == "" {
		t.Fatal("a question was answered without the successor")
	}
	headers = append(headers, decide(map[string]any{"event": "ask", "comment": "See https://outside.example.net/x"}).want(t, http.StatusOK),
		s.api(noOne, http.MethodPost, "/v1/callbacks/"+token+"/nonsense", nil), s.page(link+"x"), s.page(s.base+"/a/"+strings.ToLower(token)))
	s.api(noOne, http.MethodPost, "/v1/callbacks/"+asked.Token, map[string]any{"event": "approve", "input": map[string]any{"limit": 5}}).want(t, http.StatusOK)
	s.submit(s.linkOf(lea, "New supplier Quiet"), "event", "approve", "input.limit", "5").want(t, http.StatusOK)
	var order struct{ Notify string }
	s.esign.WaitCalls(t, "/envelopes", 1)[0].JSON(t, &order)
	person, _ := s.logIn(ana, "")
	s.settled(id)

	told := map[string]string{
		"the log": s.replicas[0].Logs(), "the metrics": s.page(s.base + "/metrics").text(),
		"the API's answers": s.everything(id), "the database": s.files("vobo.db"),
	}
	for _, a := range headers {
		for name, values := range a.header {
			told["the header "+name] += strings.Join(values, " ")
		}
	}
	for what, secret := range map[string]string{
		"the link": token, "its successor": asked.Token, "the callback": tokenOf(order.Notify),
		"the log-in link": person.link, "the session": person.session, "the API key": s.key,
	} {
		for place, text := range told {
			for _, part := range strings.Split(secret, ".") {
				if len(part) > 20 && part != strings.Split(token, ".")[0] && strings.Contains(text, part) {
					t.Errorf("%s is in %s", what, place)
				}
			}
		}
	}
}

// files is the content of all files of the service's folder whose names begin so.
func (s *service) files(prefix string) string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, prefix+"*"))
	if err != nil || len(found) == 0 {
		s.t.Fatalf("no file %s*: %v", prefix, err)
	}
	var all strings.Builder
	for _, path := range found {
		content, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		all.Write(content)
	}
	return all.String()
}
