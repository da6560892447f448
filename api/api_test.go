package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/callbacks"
	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

const leave = `
name: leave
version: 1
initial: asked
requesters: ["role:requester"]
data: {type: object, required: [days], properties: {days: {type: integer}}}
states:
  asked:
    owner: ["system:bot"]
    enter: [tell]
    deadlines: [{after: P1D, fire: expire}]
    events:
      grant: {to: granted, by: [owner]}
      pull: {to: pulled, by: ["group:hr"], not: ["user:ben@example.com"]}
      expire: {to: pulled, by: [timer]}
  granted: {final: true}
  pulled: {final: true}
effects:
  tell: {email: {to: ["hr@example.com"], subject: Leave, body: "{{ data.days }}"}, reversible: false}
`

// bundle is the API on a fresh SQLite file, with keys by name.
type bundle struct {
	t    *testing.T
	e    *echo.Echo
	st   *store.Store
	svc  *approval.Service
	keys map[string]string
}

const (
	bankSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	olderSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func newBundle(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, e: echo.New(), keys: map[string]string{}}
	ring, err := callbacks.NewKeyRing(rand.Reader)
	b.must(err)
	b.st, err = store.Open(t.Context(), store.Config{URL: testkit.SQLite(t), Sinks: []string{"erp"}})
	b.must(err)
	t.Cleanup(func() { b.must(b.st.Close()) })
	b.must(b.st.Migrate(t.Context()))
	b.must(b.st.SyncSinks(t.Context(), []string{"erp"}))
	_, err = b.st.SyncPeople(t.Context(), []fsm.Person{
		{ID: "ana@example.com", Name: "Ana", Email: "ana@example.com", Groups: []string{"hr"}, Active: true},
		{ID: "ben@example.com", Name: "Ben", Email: "ben@example.com", Groups: []string{"hr"}, Active: true},
	})
	b.must(err)
	for name, roles := range map[string][]string{"bot": {"requester"}, "boss": {"operator", "requester"}, "stranger": {"reviewer"}, "desk": {"impersonator", "operator"}} {
		key, row := approval.NewAPIKey(name, roles, time.Now(), nil)
		b.must(b.st.CreateKey(t.Context(), row))
		b.keys[name] = key
	}
	hooks, err := deliver.NewWebhookSender(deliver.WebhookConfig{Allow: []string{"127.0.0.1"}})
	b.must(err)
	secrets := filepath.Join(t.TempDir(), "secrets.yaml")
	b.must(os.WriteFile(secrets, []byte("sources:\n  bank: {secrets: ["+bankSecret+", "+olderSecret+"]}\n"), 0o600))
	loaded, err := callbacks.LoadSecrets(secrets)
	b.must(err)
	holder := &callbacks.SecretsHolder{}
	holder.Set(loaded)
	log := slog.New(slog.DiscardHandler)
	svc, err := approval.New(t.Context(), approval.Config{
		Store: b.st, Ring: callbacks.NewHolder(ring), Secrets: holder, Sinks: []approval.Sink{{Name: "erp", URL: "http://127.0.0.1:1/events"}}, Webhooks: hooks,
		BaseURL: "http://vobo.test", Clock: time.Now, Log: log,
	})
	b.must(err)
	b.svc = svc
	svc.Run()
	t.Cleanup(func() { b.must(svc.Stop(context.Background())) })
	_, err = svc.Publish(t.Context(), approval.Caller{ID: "system:boss", Roles: []string{"admin"}}, "leave.yaml", []byte(leave))
	b.must(err)
	cfg := Config{BaseURL: "http://vobo.test", Version: "test", Log: log}
	b.must(Register(b.e, svc, cfg))
	b.e.HTTPErrorHandler = ErrorHandler(cfg)
	return b
}

func (b *bundle) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// call sends one request; who names a key ("" : none), headers are name and value in turn.
func (b *bundle) call(who, method, path, body string, headers ...string) *http.Response {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(body))
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+b.keys[who])
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[http.CanonicalHeaderKey(headers[i])] = []string{headers[i+1]}
	}
	w := httptest.NewRecorder()
	b.e.ServeHTTP(w, r)
	return w.Result()
}

func (b *bundle) text(r *http.Response) string {
	b.t.Helper()
	raw, err := io.ReadAll(r.Body)
	b.must(err)
	return string(raw)
}

// started starts an instance as the bot and gives its id and the bot's token.
func (b *bundle) started() (id, token string) {
	b.t.Helper()
	var v approval.InstanceView
	b.must(json.Unmarshal([]byte(b.text(b.call("bot", "POST", "/v1/instances", `{"definition":"leave","data":{"days":3}}`))), &v))
	if v.ID == "" || v.Token == "" {
		b.t.Fatalf("%+v", v)
	}
	return v.ID, v.Token
}

// http-api.md, "Limits" and the order of checks: what comes first, wins.
func TestWhatIsWrongFirstIsTheAnswer(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	id, token := b.started()
	used, usedToken := b.started()
	if r := b.call("", "POST", "/v1/callbacks/"+usedToken, `{"event":"grant"}`); r.StatusCode != 200 {
		t.Fatal(b.text(r))
	}
	none := "01980000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		name, who, method, path, body string
		headers                       []string
		status                        int
		problem                       string
	}{
		{"no key", "", "GET", "/v1/instances/" + id, "", nil, 401, "unauthorized"},
		{"no key and a bad body", "", "POST", "/v1/instances", "{", nil, 401, "unauthorized"},
		{"unknown path", "boss", "GET", "/v1/nothing", "", nil, 404, "not-found"},
		{"wrong method", "boss", "PUT", "/v1/instances/" + id, "", nil, 405, "method-not-allowed"},
		{"not JSON by name", "boss", "POST", "/v1/instances", "{}", []string{"Content-Type", "text/plain"}, 415, "unsupported-media-type"},
		{"packed", "boss", "POST", "/v1/instances", "{}", []string{"Content-Encoding", "gzip"}, 415, "unsupported-media-type"},
		{"too large", "boss", "POST", "/v1/instances", `"` + strings.Repeat("x", MaxBody) + `"`, nil, 413, "too-large"},
		{"too deep", "boss", "POST", "/v1/instances", strings.Repeat("[", 65), nil, 400, "malformed"},
		{"no role", "stranger", "POST", "/v1/instances", `{"definition":"leave","data":{"days":1}}`, nil, 403, "forbidden"},
		{"on behalf without the role", "boss", "GET", "/v1/me", "", []string{"On-Behalf-Of", "ana@example.com"}, 403, "forbidden"},
		{"not to be read, ill-formed too", "stranger", "POST", "/v1/instances/" + id + "/events", "{}", nil, 404, "not-found"},
		{"no such instance, ill-formed too", "boss", "POST", "/v1/instances/" + none + "/events", "{", nil, 404, "not-found"},
		{"no such task, ill-formed too", "boss", "POST", "/v1/tasks/" + none + "-1-1/decide", "{}", nil, 404, "not-found"},
		{"ill-formed", "boss", "POST", "/v1/instances/" + id + "/events", "{}", nil, 422, "invalid-input"},
		{"an empty key", "bot", "POST", "/v1/instances/" + id + "/events", `{"event":"grant"}`, []string{"Idempotency-Key", ""}, 400, "malformed"},
		{"a key of 256", "bot", "POST", "/v1/instances/" + id + "/events", `{"event":"grant"}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "malformed"},
		{"another revision", "bot", "POST", "/v1/instances/" + id + "/events", `{"event":"grant"}`, []string{"If-Match", `"7"`}, 412, "revision-mismatch"},
		{"not an event of the wait", "bot", "POST", "/v1/instances/" + id + "/events", `{"event":"fly"}`, nil, 409, "event-not-allowed-here"},
		{"a bad token, ill-formed too", "", "POST", "/v1/callbacks/nonsense", "{}", nil, 404, "invalid-token"},
		{"a bad token, empty too", "", "POST", "/v1/callbacks/nonsense", "", nil, 404, "invalid-token"},
		{"a used token, ill-formed too", "", "POST", "/v1/callbacks/" + usedToken, "{}", nil, 409, "already-decided"},
		{"a used token, a long comment", "", "POST", "/v1/callbacks/" + usedToken, `{"event":"pull","comment":"` + strings.Repeat("x", approval.MaxComment+1) + `"}`, nil, 409, "already-decided"},
		{"a live token, ill-formed", "", "POST", "/v1/callbacks/" + token, "{}", nil, 422, "invalid-input"},
		{"ended", "bot", "POST", "/v1/instances/" + used + "/events", `{"event":"grant"}`, nil, 409, "event-not-allowed-here"},
	} {
		r := b.call(c.who, c.method, c.path, c.body, c.headers...)
		var p Problem
		if err := json.Unmarshal([]byte(b.text(r)), &p); err != nil || r.StatusCode != c.status || p.Status != c.status || p.Type != "/problems/"+c.problem {
			t.Errorf("%s: %d %+v, %v; want %d %s", c.name, r.StatusCode, p, err, c.status, c.problem)
		}
		if kind := r.Header.Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("%s: Content-Type %q", c.name, kind)
		}
	}
}

// http-api.md, "Idempotency": the first answer again, with what goes with it.
func TestAReplayIsTheFirstAnswerWithItsHeaders(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	replays := func(name, who, method, path, body string, headers ...string) {
		t.Helper()
		first, again := b.call(who, method, path, body, "Idempotency-Key", "k"), b.call(who, method, path, body, "Idempotency-Key", "k")
		a, c := b.text(first), b.text(again)
		if first.StatusCode >= 300 || first.StatusCode != again.StatusCode || a != c {
			t.Fatalf("%s: %d %s\nagain: %d %s", name, first.StatusCode, a, again.StatusCode, c)
		}
		if first.Header.Get("Idempotent-Replayed") != "" || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: replayed %q, again %q", name, first.Header.Get("Idempotent-Replayed"), again.Header.Get("Idempotent-Replayed"))
		}
		for _, h := range headers {
			if first.Header.Get(h) == "" || first.Header.Get(h) != again.Header.Get(h) {
				t.Errorf("%s: %s %q, again %q", name, h, first.Header.Get(h), again.Header.Get(h))
			}
		}
	}
	replays("start", "bot", "POST", "/v1/instances", `{"definition":"leave","data":{"days":1}}`, "Location", "ETag")
	id, _ := b.started()
	replays("raise", "bot", "POST", "/v1/instances/"+id+"/events", `{"event":"grant"}`, "ETag")

	id, _ = b.started()
	effect := id + "-1-1"
	_, err := b.st.FinishAttempts(t.Context(), []store.Finish{{Instance: id, ResultEvent: b.dead(id)}})
	b.must(err)
	replays("retry", "boss", "POST", "/v1/effects/"+effect+"/retry", `{"reason":"it is back"}`)
	_, err = b.st.FinishAttempts(t.Context(), []store.Finish{{Instance: id, ResultEvent: b.dead(id)}})
	b.must(err)
	replays("resolve", "boss", "POST", "/v1/effects/"+effect+"/resolve", `{"outcome":"succeeded","reason":"seen"}`)
}

// dead takes the instance's first effect as a sender would and gives the end of an attempt for good.
func (b *bundle) dead(id string) fsm.ResultEvent {
	b.t.Helper()
	claimed, err := b.st.ClaimEffects(b.t.Context(), 100, time.Minute)
	b.must(err)
	for i := range claimed {
		if e := &claimed[i]; e.Instance == id {
			return fsm.ResultEvent{Effect: e.EffectID, Fence: e.Fence, Attempt: e.Attempt, Status: fsm.EffectDead, Outcome: "permanent"}
		}
	}
	b.t.Fatalf("no effect of %s is due", id)
	return fsm.ResultEvent{}
}

// Who may raise an event may read what it is about, also afterwards; a key on somebody's
// behalf sees what is theirs to see and no more.
func TestWhoMayRaiseAnEventMayReadTheInstance(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	id, _ := b.started()
	path := "/v1/instances/" + id
	for who, want := range map[string]int{"ana@example.com": 200, "ben@example.com": 404} {
		if r := b.call("desk", "GET", path, "", "On-Behalf-Of", who); r.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", who, r.StatusCode, b.text(r), want)
		}
	}
	for range 2 {
		r := b.call("desk", "POST", path+"/events", `{"event":"pull"}`, "On-Behalf-Of", "ana@example.com", "Idempotency-Key", "p")
		if r.StatusCode != 200 {
			t.Errorf("pull: %d %s", r.StatusCode, b.text(r))
		}
	}
	if r := b.call("desk", "GET", path, ""); r.StatusCode != 200 {
		t.Errorf("the operator's key itself: %d", r.StatusCode)
	}
}

// http-api.md, "Shapes": lists and booleans are always there, nothing is null.
func TestNoAnswerHasANullAndListsAreAlwaysThere(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	id, _ := b.started()
	for path, always := range map[string][]string{
		"/v1/instances/" + id:               {"attention", "attention_reasons", "tasks", "deadlines", "effects", "events"},
		"/v1/instances/" + id + "/explain":  {"waits_for", "events", "deadlines", "notifications", "attention_reasons"},
		"/v1/instances/" + id + "/history":  {"items"},
		"/v1/tasks/" + id + "-1-1":          {"owners", "assignees", "events"},
		"/v1/tasks?status=done":             {"items"},
		"/v1/effects":                       {"items"},
		"/v1/effects/" + id + "-1-1":        {"attempts", "reversible", "idempotent", "queued_at"},
		"/v1/instances/" + id + "/children": {"items"},
		"/v1/callbacks":                     {"items"},
		"/v1/sinks":                         {"items"},
		"/v1/definitions":                   {"items"},
		"/v1/me":                            {"groups", "roles"},
	} {
		text := b.text(b.call("boss", "GET", path, ""))
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s: %v: %s", path, err, text)
		}
		for _, name := range always {
			if len(v[name]) == 0 {
				t.Errorf("%s has no %s: %s", path, name, text)
			}
		}
		if strings.Contains(text, ":null") {
			t.Errorf("%s has a null: %s", path, text)
		}
	}
}

// The document names each operation's own status and refers to shapes that it has.
func TestTheDescriptionIsOpenAPI31AndMatchesTheAnswers(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	text := b.text(b.call("", "GET", "/openapi.json", ""))
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Responses  map[string]any
			Parameters []struct{ Name, In string }
		}
		Components struct{ Schemas map[string]any }
	}
	b.must(json.Unmarshal([]byte(text), &doc))
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %q", doc.OpenAPI)
	}
	statuses := map[string]string{"post /v1/instances": "201", "delete /v1/instances/{id}": "202", "delete /v1/definitions/{name}/versions/{version}": "204", "post /v1/hooks/{source}": "202"}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			name := method + " " + path
			want := cmp.Or(statuses[name], "200")
			if _, ok := op.Responses[want]; !ok || op.Responses["200"] != nil && want != "200" || op.Responses["default"] == nil {
				t.Errorf("%s answers %v, want %s", name, slices.Sorted(maps.Keys(op.Responses)), want)
			}
			named := 0
			for _, p := range op.Parameters {
				if p.In == "path" && strings.Contains(path, "{"+p.Name+"}") {
					named++
				}
			}
			if named != strings.Count(path, "{") {
				t.Errorf("%s: %d of its path's parameters are described", name, named)
			}
		}
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(text, -1) {
		if doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("there is no shape %s", ref[1])
		}
	}
}
