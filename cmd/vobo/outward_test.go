package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// A changed file of secrets is taken up while the service runs; one that cannot be read
// changes nothing and is told.
func TestAChangedFileOfSecretsIsTakenUpAndABrokenOneIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secrets.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	const newer = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	source := func(secrets string) string { return "sources: {bank: {secrets: [" + secrets + "]}}\n" }
	put(source(bankSecret))
	server := testkit.Serve(t, testkit.Launch{Binary: voboPath(t), Dir: dir, Env: map[string]string{"VOBO_WEBHOOK_SECRETS": path}})
	calls := 0
	call := func(secret string) int {
		t.Helper()
		calls++
		status, err := callHook(server.URL, secret, "c-"+strconv.Itoa(calls), `{"event": "paid", "key": "B-1"}`)
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	if status := call(bankSecret); status != http.StatusAccepted {
		t.Fatalf("the first secret: %d", status)
	}
	if status := call(newer); status != http.StatusUnauthorized {
		t.Errorf("a secret that is not there yet: %d", status)
	}
	put(source(newer + ", " + bankSecret))
	began := time.Now()
	testkit.WaitFor(t, "the newer secret is taken", func() bool { return call(newer) == http.StatusAccepted })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a change was taken up after %s, want within 5 s", took)
	}
	if status := call(bankSecret); status != http.StatusAccepted {
		t.Errorf("the older secret beside the newer: %d", status)
	}

	put("sources: {bank: {secrets: [whsec_tooshort]}}\n")
	testkit.WaitFor(t, "the broken file is told", func() bool {
		return strings.Contains(server.Logs(), "the file of webhook secrets could not be read again")
	})
	if strings.Contains(server.Logs(), "tooshort") {
		t.Error("the log shows a secret")
	}
	if status := call(newer); status != http.StatusAccepted {
		t.Errorf("with a broken file, the secret in memory: %d", status)
	}

	put(source(newer))
	testkit.WaitFor(t, "the mended file is told", func() bool { return strings.Contains(server.Logs(), "the file of webhook secrets can be read again") })
	if status := call(bankSecret); status != http.StatusUnauthorized {
		t.Errorf("a secret that was taken out: %d", status)
	}
}

func TestSinksAreNamedByPlaceOrByName(t *testing.T) {
	t.Parallel()
	s := settings{Sinks: []string{"https://a.example.com/e?x=1", " erp=https://b.example.com/?y=2 ", "https://c.example.com"}}
	all, err := s.sinks()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]string{{"sink1", "https://a.example.com/e?x=1"}, {"erp", "https://b.example.com/?y=2"}, {"sink3", "https://c.example.com"}} {
		if all[i].Name != want[0] || all[i].URL != want[1] {
			t.Errorf("%d: %+v, want %s at %s", i, all[i], want[0], want[1])
		}
	}
	for _, bad := range [][]string{
		{"=https://a.example.com"},
		{"1=https://a.example.com"},
		{strings.Repeat("a", 64) + "=https://a.example.com"},
		{"a b=https://a.example.com"},
		{"sink2=https://a.example.com", "https://b.example.com"},
		{""},
		{"erp"},
		{"erp="},
		{"https://user:pw@a.example.com"},
		{"https://127.0.0.1/"},
		{"https://a.example.com/#x"},
	} {
		if _, err := (settings{Sinks: bad}).sinks(); err == nil || !strings.Contains(err.Error(), "VOBO_SINKS") {
			t.Errorf("%q: %v", bad, err)
		} else if strings.Contains(err.Error(), "pw@") {
			t.Errorf("%q: the message shows a password: %v", bad, err)
		}
	}
}
