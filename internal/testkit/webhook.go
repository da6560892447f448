package testkit

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// WebhookCall is one request that a receiver got.
type WebhookCall struct {
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte
	Client string // name in the certificate of who called; "": none was shown
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

// WebhookReceiver is a real HTTP server on the loopback address that records
// calls before it answers them.
type WebhookReceiver struct {
	URL     string // without a slash at its end
	server  *httptest.Server
	calls   journal[WebhookCall]
	answers script[WebhookAnswer]
	door    atomic.Int32 // a doorMode
	entered atomic.Int64

	certFile, clientCert, clientKey string
}

// doorMode is what happens to connections before anything is read of them.
type doorMode int32

const (
	doorOpen doorMode = iota
	doorReset
	doorClosed
)

// Webhook starts a receiver that answers 204; it ends with the test.
func Webhook(t testing.TB) *WebhookReceiver {
	t.Helper()
	receiver := newReceiver()
	receiver.server.Start()
	return receiver.startedFor(t)
}

func newReceiver() *WebhookReceiver {
	receiver := &WebhookReceiver{}
	receiver.answers.set(AnswerStatus(http.StatusNoContent))
	receiver.server = httptest.NewUnstartedServer(receiver)
	receiver.server.Listener = &door{receiver.server.Listener, receiver}
	receiver.server.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports the connections that answers cut
	return receiver
}

func (s *WebhookReceiver) startedFor(t testing.TB) *WebhookReceiver {
	s.URL = s.server.URL
	t.Cleanup(func() {
		s.server.CloseClientConnections() // ends AnswerNever
		s.server.Close()
	})
	return s
}

// door counts connections and slams before those that are not to be read.
type door struct {
	net.Listener
	receiver *WebhookReceiver
}

func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		d.receiver.entered.Add(1)
		switch doorMode(d.receiver.door.Load()) {
		case doorOpen:
			return conn, nil
		case doorReset:
			resetConn(conn)
		case doorClosed:
			_ = conn.Close() // the caller may have left
		}
	}
}

// ResetConnections resets (RST) every new connection before a byte of it is read.
func (s *WebhookReceiver) ResetConnections() { s.door.Store(int32(doorReset)) }

// CloseConnections closes every new connection before a byte of it is read.
func (s *WebhookReceiver) CloseConnections() { s.door.Store(int32(doorClosed)) }

// TakeConnections ends ResetConnections and CloseConnections.
func (s *WebhookReceiver) TakeConnections() { s.door.Store(int32(doorOpen)) }

// CutConnections closes all open connections, also those that are kept for later calls.
func (s *WebhookReceiver) CutConnections() { s.server.CloseClientConnections() }

// Connections is how many connections were made so far.
func (s *WebhookReceiver) Connections() int { return int(s.entered.Load()) }

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
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		call.Client = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	answer := s.answers.take()
	s.calls.append(call)
	answer(w, r, call)
}
