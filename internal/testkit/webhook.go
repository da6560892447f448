package testkit

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// WebhookCall is one request that a receiver got.
type WebhookCall struct {
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte
}

// JSON reads the body into target and fails the test where it is not JSON.
func (c WebhookCall) JSON(t testing.TB, target any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(c.Body))
	decoder.UseNumber()
	if err := decoder.Decode(target); err != nil {
		t.Fatalf("the body of %s %s is not JSON: %v\n%s", c.Method, c.Path, err, c.Body)
	}
}

// WebhookAnswer is what a receiver does with a call that it has recorded.
type WebhookAnswer func(w http.ResponseWriter, r *http.Request, call WebhookCall)

// AnswerJSON answers with a status and a JSON body.
func AnswerJSON(status int, body string) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		write(w, []byte(body))
	}
}

// AnswerStatus answers with a status and no body.
func AnswerStatus(status int) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) { w.WriteHeader(status) }
}

// AnswerRetryAfter answers with a status and a Retry-After in seconds.
func AnswerRetryAfter(status, seconds int) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		w.WriteHeader(status)
	}
}

// AnswerRedirect answers 307 to another address.
func AnswerRedirect(to string) WebhookAnswer {
	return func(w http.ResponseWriter, r *http.Request, _ WebhookCall) {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}
}

// AnswerHuge answers 200 with a body of that many bytes.
func AnswerHuge(size int) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		chunk := bytes.Repeat([]byte("x"), 32<<10)
		for ; size > 0; size -= len(chunk) {
			if !write(w, chunk[:min(size, len(chunk))]) {
				return
			}
		}
	}
}

// AnswerDrip answers 200 and then a byte now and then until the caller leaves.
func AnswerDrip(every time.Duration) WebhookAnswer {
	return func(w http.ResponseWriter, r *http.Request, _ WebhookCall) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		flush := http.NewResponseController(w)
		for write(w, []byte("x")) && flush.Flush() == nil {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// AnswerNever holds the call until the caller leaves.
func AnswerNever() WebhookAnswer {
	return func(_ http.ResponseWriter, r *http.Request, _ WebhookCall) { <-r.Context().Done() }
}

// AnswerReset takes the call and resets the connection (RST) without an answer.
func AnswerReset() WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err) // only a server without connections, which httptest is not
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			if err := tcp.SetLinger(0); err != nil {
				panic(err)
			}
		}
		if err := conn.Close(); err != nil {
			panic(err)
		}
	}
}

// write tells whether the caller is still there.
func write(w io.Writer, b []byte) bool {
	_, err := w.Write(b)
	return err == nil
}

// WebhookReceiver is a real HTTP server on the loopback address that records
// calls before it answers them.
type WebhookReceiver struct {
	URL     string // without a slash at its end
	calls   journal[WebhookCall]
	answers script[WebhookAnswer]
}

// Webhook starts a receiver that answers 204; it ends with the test.
func Webhook(t testing.TB) *WebhookReceiver {
	t.Helper()
	receiver := &WebhookReceiver{}
	receiver.answers.set(AnswerStatus(http.StatusNoContent))
	server := httptest.NewServer(receiver)
	receiver.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections() // ends AnswerNever
		server.Close()
	})
	return receiver
}

// Answer sets how every call is answered from now on.
func (s *WebhookReceiver) Answer(answer WebhookAnswer) { s.answers.set(answer) }

// Next sets how the next calls are answered, one answer each, before that of
// Answer holds again.
func (s *WebhookReceiver) Next(answers ...WebhookAnswer) { s.answers.queue(answers...) }

// Calls returns what was received so far, in order of arrival.
func (s *WebhookReceiver) Calls() []WebhookCall {
	found, _ := s.calls.snapshot(func(WebhookCall) bool { return true })
	return found
}

// WaitCalls waits until there are n calls of a path (any, if empty) and returns
// all that there are.
func (s *WebhookReceiver) WaitCalls(t testing.TB, path string, n int) []WebhookCall {
	t.Helper()
	found, ok := s.calls.waitFor(Patience, n, func(c WebhookCall) bool { return path == "" || c.Path == path })
	if !ok {
		t.Fatalf("waited %s for %d webhook calls of %q; %d came", Patience, n, path, len(found))
	}
	return found
}

// ServeHTTP records the call, then answers it.
func (s *WebhookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller left while sending: no call
	}
	call := WebhookCall{Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body}
	answer := s.answers.take()
	s.calls.append(call)
	answer(w, r, call)
}
