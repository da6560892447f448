package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"vobo/client"
)

// seen is a request as the server got it.
type seen struct {
	method, path, query, key, body, onBehalf, authorization, match, kind string
}

// server answers with what the test says, one answer after the other; the last one stays.
type server struct {
	mu    sync.Mutex
	calls []seen
}

func (s *server) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.calls...)
}

func serve(t *testing.T, answers ...func(http.ResponseWriter)) (*client.Client, *server) {
	t.Helper()
	s := &server{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		n := min(len(s.calls), len(answers)-1)
		s.calls = append(s.calls, seen{
			r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Idempotency-Key"), string(body),
			r.Header.Get("On-Behalf-Of"), r.Header.Get("Authorization"), r.Header.Get("If-Match"), r.Header.Get("Content-Type"),
		})
		s.mu.Unlock()
		answers[n](w)
	}))
	t.Cleanup(h.Close)
	c, err := client.New(client.Config{URL: h.URL + "/flow/", Key: "vobo_secret"})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func answer(status int, body string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		kind := "application/json"
		if status >= 400 {
			kind = "application/problem+json"
		}
		w.Header().Set("Content-Type", kind)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		if _, err := io.WriteString(w, body); err != nil {
			panic(err)
		}
	}
}

// hangUp takes the request and closes the connection without an answer.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

const unavailable = `{"type":"/problems/unavailable","title":"Unavailable","status":503,"detail":"The database is away.","retryable":true}`

func TestARetriedCallCarriesTheSameKeyAndBody(t *testing.T) {
	t.Parallel()
	inProgress := `{"type":"/problems/in-progress","title":"In progress","status":409,"detail":"Still running.","retryable":true}`
	limited := `{"type":"/problems/rate-limited","title":"Rate limited","status":429,"detail":"Too many.","retryable":true}`
	c, s := serve(t, answer(503, unavailable), hangUp, answer(409, inProgress), answer(429, limited), answer(201, `{"id":"i-1","state":"draft"}`))
	in, err := c.Start(t.Context(), client.StartRequest{Definition: "onboarding", Data: json.RawMessage(`{"total":12345678901234567890.10}`)})
	if err != nil {
		t.Fatal(err)
	}
	if in.ID != "i-1" || in.State != "draft" || in.Replayed {
		t.Errorf("started %+v", in)
	}
	calls := s.all()
	if len(calls) != 5 {
		t.Fatalf("%d requests, want 5", len(calls))
	}
	for _, got := range calls {
		if got.key == "" || got != calls[0] {
			t.Errorf("a try differs: %+v, first %+v", got, calls[0])
		}
	}
	want := `{"definition":"onboarding","data":{"total":12345678901234567890.10}}`
	if calls[0].body != want || calls[0].path != "/flow/v1/instances" || calls[0].authorization != "Bearer vobo_secret" {
		t.Errorf("sent %+v, want the body %s", calls[0], want)
	}
}

func TestTwoCallsHaveDifferentKeysAndAGivenKeyIsKept(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(200, `{"replayed":false}`), answer(200, `{"replayed":false}`), answer(200, `{}`, "Idempotent-Replayed", "true"))
	for range 2 {
		if _, err := c.Raise(t.Context(), "i-1", client.EventRequest{Event: "approve"}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := c.Raise(t.Context(), "i-1", client.EventRequest{Event: "approve", IdempotencyKey: "mine", IfRevision: 3})
	if err != nil {
		t.Fatal(err)
	}
	calls := s.all()
	if calls[0].key == calls[1].key || calls[2].key != "mine" || calls[2].match != `"3"` || calls[2].body != `{"event":"approve"}` || !res.Replayed {
		t.Errorf("calls %+v, replayed %v", calls, res.Replayed)
	}
}

func TestARefusalIsNotTriedAgainAndSaysEverything(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(409, `{"type":"/problems/already-decided","title":"Already decided","status":409,"detail":"Ana approved this.","retryable":false,
		"errors":[{"pointer":"/input/limit","detail":"Use a number."}],"winner":{"event":"approve","actor":"Ana","at":"2026-12-03T10:02:00.000Z"},"instance_id":"i-1"}`))
	_, err := c.DecideTask(t.Context(), "i-1-2-1", client.Decision{EventRequest: client.EventRequest{Event: "reject", Comment: "No."}, Digest: "d1"})
	e, ok := errors.AsType[*client.Error](err)
	if !ok || !client.Is(err, "already-decided") || e.Status != 409 || e.Winner == nil || e.Winner.Actor != "Ana" || e.InstanceID != "i-1" || e.Errors[0].Pointer != "/input/limit" {
		t.Fatalf("got %#v", err)
	}
	if calls := s.all(); len(calls) != 1 || calls[0].path != "/flow/v1/tasks/i-1-2-1/decide" || calls[0].body != `{"event":"reject","comment":"No.","digest":"d1"}` {
		t.Errorf("calls %+v", calls)
	}
}

func TestTryingAgainIsBoundedAndEndsWithTheContext(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(503, unavailable))
	if _, err := c.Me(t.Context()); !client.Is(err, "unavailable") || len(s.all()) != 5 {
		t.Errorf("%d requests, error %v", len(s.all()), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow, s := serve(t, func(w http.ResponseWriter) { cancel(); answer(503, unavailable, "Retry-After", "50")(w) })
	_, err := slow.Me(ctx)
	if !errors.Is(err, context.Canceled) || len(s.all()) != 1 {
		t.Errorf("%d requests, error %v", len(s.all()), err)
	}
	patient, s := serve(t, answer(503, unavailable, "Retry-After", "3600"))
	_, err = patient.Me(t.Context())
	if e, ok := errors.AsType[*client.Error](err); !ok || e.RetryAfter.Hours() != 1 || len(s.all()) != 1 {
		t.Errorf("an hour's patience: %d requests, error %v", len(s.all()), err)
	}
}

func TestACallbackSendsNoKeyOfTheCaller(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(200, `{"replayed":true}`))
	res, err := c.For("ana@example.com").Callback(t.Context(), "a.b-c_d", client.Decision{EventRequest: client.EventRequest{Event: "approve"}})
	if err != nil || !res.Replayed {
		t.Fatal(res, err)
	}
	if _, err := c.CallbackEvent(t.Context(), "a.b-c_d", "signed/odd", map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	calls := s.all()
	if calls[0].authorization != "" || calls[0].onBehalf != "" || calls[0].key != "" || calls[1].path != "/flow/v1/callbacks/a.b-c_d/signed%2Fodd" || calls[1].body != `{"n":1}` {
		t.Errorf("calls %+v", calls)
	}
}

func TestListsAreReadPageAfterPageUntilTheCallerHasEnough(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(200, `{"items":[{"id":"1"},{"id":"2"}],"next":"c2"}`), answer(200, `{"items":[{"id":"3","data":{"n":1.10}}]}`))
	attention := true
	q := client.InstanceQuery{Status: "running", Attention: &attention, Label: "team:red & blue", PageSize: 2}
	var ids, data string
	for in, err := range c.For("ana@example.com").Instances(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		ids += in.ID
		data += string(in.Data)
	}
	if ids != "123" || data != `{"n":1.10}` {
		t.Errorf("ids %s, data %s", ids, data)
	}
	calls := s.all()
	if want := "attention=true&label=team%3Ared+%26+blue&limit=2&status=running"; calls[0].query != want || calls[1].query != "attention=true&cursor=c2&label=team%3Ared+%26+blue&limit=2&status=running" || calls[0].onBehalf != "ana@example.com" {
		t.Errorf("calls %+v", calls)
	}
	for range c.Instances(t.Context(), q) {
		break
	}
	if len(s.all()) != 3 {
		t.Errorf("%d requests after a look at the first row, want 3", len(s.all()))
	}
}

func TestAnAnswerThatIsNoProblemIsToldInOneLine(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(404)
		if _, err := io.WriteString(w, "<html>\n<p>not here</p>"); err != nil {
			t.Error(err)
		}
	})
	_, err := c.Publish(t.Context(), []byte("name: x"))
	if err == nil || err.Error() != "The address answers, but not as a Vobo server does: Not Found (404)" {
		t.Errorf("got %v", err)
	}
}

func TestALostConnectionDoesNotShowTheURLWithItsToken(t *testing.T) {
	t.Parallel()
	c, err := client.New(client.Config{URL: "http://127.0.0.1:1", Attempts: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Callback(t.Context(), "secret-token", client.Decision{EventRequest: client.EventRequest{Event: "approve"}})
	if err == nil || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("got %v", err)
	}
}

func TestABadAddressIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "vobo.example.com", "ftp://a", "http://user:pw@a", "http://a?x=1", "http://a#b"} {
		if _, err := client.New(client.Config{URL: address}); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}
