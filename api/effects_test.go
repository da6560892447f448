package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"vobo/internal/approval"
	"vobo/internal/store"
)

// Nothing that a caller sends gets a 500, in whatever place it stands.
func TestOddValuesInTheNewRoutesAreRefusedInWords(t *testing.T) {
	t.Parallel()
	s := newHookServer(t)
	id := s.pay("O-1", "")
	odd := []string{"%00", "%FF", "%27%20OR%201%3D1", strings.Repeat("x", 3000), "%F0%9F%99%82", "-1", "%E2%80%AE"}
	for _, v := range odd {
		for _, path := range []string{
			"/v1/effects?name=" + v, "/v1/effects?definition=" + v, "/v1/effects?kind=" + v, "/v1/effects?host=" + v, "/v1/effects?before=" + v,
			"/v1/effects?instance_id=" + v, "/v1/effects?status=" + v, "/v1/effects?cursor=" + v, "/v1/effects/" + v, "/v1/effects/" + id + "-" + v + "-1",
			"/v1/callbacks?status=" + v, "/v1/callbacks?source=" + v, "/v1/callbacks?event=" + v, "/v1/callbacks?instance_id=" + v, "/v1/callbacks?cursor=" + v,
			"/v1/instances/" + v + "/children", "/v1/instances/" + id + "/children?effect=" + v, "/v1/instances/" + id + "/children?cursor=" + v, "/v1/sinks?limit=" + v,
		} {
			if r := s.call("boss", "GET", path, ""); r.StatusCode >= 500 {
				t.Errorf("GET %.80s: %d %s", path, r.StatusCode, s.text(r))
			}
		}
		for path, body := range map[string]string{"/v1/sinks/" + v + "/enable": `{"reason":"x"}`, "/v1/hooks/" + v: `{}`, "/v1/effects/" + v + "/retry": `{"reason":"x"}`} {
			if r := s.call("boss", "POST", path, body); r.StatusCode < 400 || r.StatusCode >= 500 {
				t.Errorf("POST %.80s: %d %s", path, r.StatusCode, s.text(r))
			}
		}
	}
	for _, body := range []string{
		``, `[]`, `{}`, `{"reason":""}`, `{"reason":1}`, `{"reason":"x","status":"lost"}`, `{"reason":"x","status":[1]}`, `{"reason":"x","status":["dead","alive"]}`, `{"reason":"x","kind":"fax"}`,
		`{"reason":"x","before":"yesterday"}`, `{"reason":"x","limit":-1}`, `{"reason":"x","limit":10001}`, `{"reason":"x","limit":1.5}`, `{"reason":"x","dry_run":"yes"}`, `{"reason":"x","unknown":1}`,
		`{"reason":"x","name":"\u0000"}`, `{"reason":"` + strings.Repeat("x", approval.MaxReason+1) + `"}`,
	} {
		if r := s.call("boss", "POST", "/v1/effects/redrive", body); r.StatusCode != 400 && r.StatusCode != 422 {
			t.Errorf("redrive %.60s: %d %s", body, r.StatusCode, s.text(r))
		}
	}
	for path, method := range map[string]string{"/v1/sinks": "GET", "/v1/callbacks": "GET", "/v1/sinks/erp/enable": "POST", "/v1/effects/redrive": "POST"} {
		body := ""
		if method == "POST" {
			body = `{"reason":"x"}`
		}
		if r := s.call("stranger", method, path, body); r.StatusCode != 403 {
			t.Errorf("%s %s by a stranger: %d %s", method, path, r.StatusCode, s.text(r))
		}
		if r := s.call("", method, path, body); r.StatusCode != 401 {
			t.Errorf("%s %s by nobody: %d %s", method, path, r.StatusCode, s.text(r))
		}
	}
}

// A redrive takes what fits once; its dry run changes nothing.
func TestARedriveByHTTPTriesEachDeadEffectOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for range 3 {
		id, _ := b.started()
		_, err := b.st.FinishAttempts(t.Context(), []store.Finish{{Instance: id, ResultEvent: b.dead(id)}})
		b.must(err)
	}
	redrive := func(body string, headers ...string) (approval.RedriveResult, *http.Response) {
		t.Helper()
		r := b.call("boss", "POST", "/v1/effects/redrive", body, headers...)
		text := b.text(r)
		var res approval.RedriveResult
		if err := json.Unmarshal([]byte(text), &res); err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", body, r.StatusCode, text)
		}
		return res, r
	}
	dead := func() int {
		t.Helper()
		var page struct{ Items []approval.EffectView }
		b.must(json.Unmarshal([]byte(b.text(b.call("boss", "GET", "/v1/effects?status=dead&name=tell&definition=leave&kind=email", ""))), &page))
		return len(page.Items)
	}
	if n := dead(); n != 3 {
		t.Fatalf("%d dead effects, want 3", n)
	}
	for range 2 {
		if res, _ := redrive(`{"dry_run":true,"reason":"looking","definition":"leave"}`); res.Matched != 3 || res.Retried != 0 || !res.DryRun || len(res.Items) != 3 || res.Items[0].Outcome != "would-retry" {
			t.Fatalf("dry run: %+v", res)
		}
	}
	if res, _ := redrive(`{"reason":"another definition","definition":"none"}`); res.Matched != 0 || res.Retried != 0 || res.Items == nil {
		t.Errorf("what fits nothing: %+v", res)
	}
	before := fmt.Sprintf(`"before":%q`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	if res, _ := redrive(`{"reason":"old ones",` + before + `}`); res.Matched != 0 {
		t.Errorf("queued an hour ago: %+v", res)
	}
	if res, _ := redrive(`{"reason":"two of them","limit":2,"status":"dead","kind":"email","name":"tell"}`, "Idempotency-Key", "r"); res.Retried != 2 || !res.More {
		t.Errorf("two of three: %+v", res)
	}
	if n := dead(); n != 1 {
		t.Errorf("%d are still dead, want 1", n)
	}
	if res, _ := redrive(`{"reason":"the rest","status":["dead","unknown"]}`); res.Matched != 1 || res.Retried != 1 || res.More {
		t.Errorf("the rest: %+v", res)
	}
	if res, _ := redrive(`{"reason":"again"}`); res.Matched != 0 {
		t.Errorf("again: %+v", res)
	}
}
