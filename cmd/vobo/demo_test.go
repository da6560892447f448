package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vobo/client"
	"vobo/internal/testkit"
)

func TestTheDemoRunsTheWholeProcessAndItsSamplesAreMadeOnce(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), testkit.FreeAddress(t)
	demo := testkit.Serve(t, testkit.Launch{
		Binary: voboPath(t), Args: []string{"demo", "--addr", addr, "--dir", dir},
		Env: map[string]string{"VOBO_ADDR": addr},
	})
	demo.WaitLog("Ctrl-C stops it.")
	key, err := os.ReadFile(filepath.Join(dir, demoKey))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: demo.URL, Key: strings.TrimSpace(string(key))})
	if err != nil {
		t.Fatal(err)
	}

	// A supplier below the limit is signed outside, made in the core system and welcomed.
	testkit.WaitFor(t, "the supplier that needs no approval is active", func() bool { return demoStates(t, c)["NO-998877"] == "active" })
	want := map[string]string{
		"eva@example.com": "pending_approval", "kofi@example.com": "pending_approval", "ingrid@example.com": "waiting_docs",
		"paulo@example.com": "activated", "mina@example.com": "rejected", "hugo@example.com": "draft", "ES-B1234567": "pending_approval",
		"NO-998877": "active", "DE-55512": "pending_approval", "NL-700123": "signing",
	}
	states := demoStates(t, c)
	for k, state := range want {
		if states[k] != state {
			t.Errorf("%s is in %q, want %q", k, states[k], state)
		}
	}
	if len(states) != len(samples) {
		t.Errorf("%d instances, want %d: %v", len(states), len(samples), states)
	}

	// The links that are printed work without anything else.
	for _, link := range regexp.MustCompile(`http://\S+`).FindAllString(demo.Logs(), -1) {
		if body := page(t, link); strings.Contains(link, "/a/") && !strings.Contains(body, "Eva Lang") {
			t.Errorf("the decision link does not show Eva's application:\n%s", body)
		}
	}
	if !strings.Contains(demo.Logs(), "/a/") {
		t.Error("no decision link is printed")
	}

	reference(t, demo.URL)

	if status := demo.Stop(); status != 0 {
		t.Fatalf("Ctrl-C ended it with status %d", status)
	}
	demo.Start()
	testkit.WaitFor(t, "the second start speaks", func() bool { return strings.Count(demo.Logs(), "Ctrl-C stops it.") == 2 })
	if again := demoStates(t, c); len(again) != len(samples) {
		t.Errorf("%d instances after the second start, want %d", len(again), len(samples))
	}
	if _, err := c.Me(t.Context()); err != nil {
		t.Errorf("the key of the first start: %v", err)
	}
}

// demoStates gives the state of each instance by business key, else by id.
func demoStates(t *testing.T, c *client.Client) map[string]string {
	t.Helper()
	states := map[string]string{}
	for in, err := range c.Instances(t.Context(), client.InstanceQuery{PageSize: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		name := in.Key
		if name == "" {
			name = in.ID
		}
		states[name] = in.State
	}
	return states
}

func page(t *testing.T, link string) string {
	t.Helper()
	res, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s", link, res.Status)
	}
	return string(body)
}

// reference looks at /docs and /openapi.json.
func reference(t *testing.T, base string) {
	t.Helper()
	html := page(t, base+"/docs")
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	raw := page(t, base+"/openapi.json")
	if err := json.Unmarshal([]byte(raw), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(doc.Paths) < 15 {
		t.Errorf("OpenAPI %q with %d paths", doc.OpenAPI, len(doc.Paths))
	}
	for path, operations := range doc.Paths {
		for method := range operations {
			if !strings.Contains(html, `<span class="method `+strings.ToUpper(method)+`">`+strings.ToUpper(method)+`</span> `+path) {
				t.Errorf("/docs does not name %s %s", method, path)
			}
		}
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(raw, -1) {
		if doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("the document points to %s, which it does not have", ref[1])
		}
	}
	for _, link := range regexp.MustCompile(`href="(#[^"]*)"`).FindAllStringSubmatch(html, -1) {
		if !strings.Contains(html, ` id="`+link[1][1:]+`"`) {
			t.Errorf("/docs links to %s, which is not there", link[1])
		}
	}
	for _, other := range regexp.MustCompile(`(?:src|href|action)="(https?:[^"]*)"`).FindAllStringSubmatch(html, -1) {
		t.Errorf("/docs leads to %s", other[1])
	}
	for _, sent := range []string{`"limit"`, `"cursor"`, `"Idempotency-Key"`, `"If-Match"`, `{"$ref":"#/components/schemas/StartBody"}`} {
		if !strings.Contains(raw, sent) {
			t.Errorf("the document does not mention %s", sent)
		}
	}
	if strings.Contains(html, "<script") || !strings.Contains(page(t, base+"/docs/reference.css"), "prefers-color-scheme: dark") {
		t.Error("/docs has a script, or its stylesheet no dark colours")
	}
}
