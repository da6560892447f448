package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"vobo/internal/fault"
)

// MaxAnswer is how much of a receiver's answer is read, in bytes.
const MaxAnswer = 64 << 10

// WebhookRequest is one attempt. Every attempt of an effect carries the same ID, URL,
// Headers and Body; only Attempt, Timestamp and a signature made over it differ.
type WebhookRequest struct {
	ID         string // the effect's key: webhook-id and Idempotency-Key
	Attempt    int    // from 1; the receiver sees it as Vobo-Attempt
	Method     string // "": POST
	URL        string
	Headers    [][2]string // of the definition, and the caller's Authorization and webhook-signature
	Body       []byte      // JSON; may be empty
	Idempotent bool        // the receiver promises that a repetition does no harm
	Timestamp  time.Time   // of this attempt: webhook-timestamp; Retry-After dates are seen from it
}

// WebhookConfig configures a WebhookSender; its zero value is good.
type WebhookConfig struct {
	Allow     []string // VOBO_WEBHOOK_ALLOW: hosts, host:port, addresses or CIDRs that may be private or plain http
	UserAgent string   // "": Vobo

	resolver *net.Resolver // nil: the system's
	tls      *tls.Config
	limits   phaseLimits
}

// phaseLimits bounds the phases of one attempt.
type phaseLimits struct{ dial, handshake, header, total time.Duration }

var defaultLimits = phaseLimits{dial: 5 * time.Second, handshake: 5 * time.Second, header: 15 * time.Second, total: 20 * time.Second}

// WebhookSender sends webhooks. It follows no redirect, uses no proxy, resends nothing
// that may have arrived, and refuses at dial every address that is not public or
// allowed, whatever the name resolved to before.
type WebhookSender struct {
	allow     allowList
	userAgent string
	limits    phaseLimits
	resolver  *net.Resolver
	tls       *tls.Config
	pooled    *http.Transport // for idempotent requests: keeps connections
	fresh     *http.Transport // for others: a cut of an idle connection would leave them unknown
}

// NewWebhookSender checks cfg (fault.InvalidInput) and makes a sender.
func NewWebhookSender(cfg WebhookConfig) (*WebhookSender, error) {
	allow, err := parseAllow(cfg.Allow)
	if err != nil {
		return nil, err
	}
	s := &WebhookSender{allow: allow, userAgent: cfg.UserAgent, limits: cfg.limits, resolver: cfg.resolver, tls: cfg.tls}
	if s.userAgent == "" {
		s.userAgent = "Vobo"
	}
	if !validHeaderValue(s.userAgent) {
		return nil, fault.New(fault.InvalidInput, "The user agent holds a control character.")
	}
	if s.limits == (phaseLimits{}) {
		s.limits = defaultLimits
	}
	s.pooled, s.fresh = s.transport(), s.transport()
	s.fresh.DisableKeepAlives = true
	return s, nil
}

func (s *WebhookSender) transport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            s.dialPlain,
		DialTLSContext:         s.dialTLS,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        15 * time.Second,
		ResponseHeaderTimeout:  s.limits.header,
		MaxResponseHeaderBytes: MaxAnswer,
		DisableCompression:     true,
		ForceAttemptHTTP2:      false,
	}
}

// Close drops idle connections.
func (s *WebhookSender) Close() {
	s.pooled.CloseIdleConnections()
	s.fresh.CloseIdleConnections()
}

// Send makes one attempt, of at most 20 seconds, and classifies what came of it.
func (s *WebhookSender) Send(ctx context.Context, r WebhookRequest) Outcome {
	t, err := s.parseTarget(r.URL)
	if err != nil {
		return Outcome{Class: Permanent, Detail: fault.As(err).Message}
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.total)
	defer cancel()
	out, idleCut := s.attempt(ctx, t, r)
	if idleCut {
		// The receiver closed a kept connection before a byte was written: not an attempt.
		s.pooled.CloseIdleConnections()
		out, _ = s.attempt(ctx, t, r)
	}
	return out
}

// attempt makes one round trip. idleCut tells that it failed on a kept connection with
// nothing written.
func (s *WebhookSender) attempt(ctx context.Context, t target, r WebhookRequest) (out Outcome, idleCut bool) {
	req, err := s.request(ctx, t, r)
	if err != nil {
		return Outcome{Class: Permanent, Detail: fault.As(err).Message}, false
	}
	var trip trace
	req = req.WithContext(httptrace.WithClientTrace(ctx, trip.hooks()))
	transport := s.fresh
	if r.Idempotent {
		transport = s.pooled
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return failure(err, t, &trip, r.Idempotent), trip.reused.Load() && !trip.wrote()
	}
	defer func() {
		// The answer is read or given up; an error here changes nothing.
		_ = resp.Body.Close()
	}()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	return answer(resp, body, err, t, r), false
}

func (s *WebhookSender) request(ctx context.Context, t target, r WebhookRequest) (*http.Request, error) {
	method := strings.ToUpper(r.Method)
	switch method {
	case "":
		method = http.MethodPost
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, fault.New(fault.InvalidInput, "The webhook's method %q is not GET, POST, PUT, PATCH or DELETE.", r.Method)
	}
	if r.ID == "" || !validHeaderValue(r.ID) {
		return nil, fault.New(fault.InvalidInput, "The webhook's id is missing or holds a control character.")
	}
	// net/http sends a request again by itself on a cut connection if it can rewind its
	// body and the method is GET or there is an Idempotency-Key. So: no GetBody, a GET
	// has a body in name, and the key stands under a spelling it does not look for.
	var body io.Reader = http.NoBody
	if len(r.Body) > 0 || method == http.MethodGet {
		body = io.NopCloser(bytes.NewReader(r.Body))
	}
	req, err := http.NewRequestWithContext(ctx, method, t.url.String(), body)
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidInput, "The webhook's URL is not well-formed.")
	}
	req.GetBody = nil
	req.ContentLength = int64(len(r.Body))
	for _, h := range r.Headers {
		if !validHeaderName(h[0]) || !validHeaderValue(h[1]) {
			return nil, fault.New(fault.InvalidInput, "The webhook's header %q has a name or value that HTTP does not allow.", printable(h[0], 60))
		}
		if ownHeaders[strings.ToLower(h[0])] {
			return nil, fault.New(fault.InvalidInput, "The webhook's header %s is set by the service; take it out of the definition.", h[0])
		}
		req.Header.Add(h[0], h[1])
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", s.userAgent)
	}
	req.Header["webhook-id"] = []string{r.ID}
	req.Header["webhook-timestamp"] = []string{strconv.FormatInt(r.Timestamp.Unix(), 10)}
	req.Header["idempotency-key"] = []string{r.ID}
	req.Header.Set("Vobo-Attempt", strconv.Itoa(r.Attempt))
	return req, nil
}

// ownHeaders are those a definition may not set.
var ownHeaders = map[string]bool{
	"host": true, "content-length": true, "transfer-encoding": true, "connection": true, "upgrade": true, "te": true,
	"trailer": true, "expect": true, "proxy-authorization": true, "proxy-connection": true, "keep-alive": true,
	"accept-encoding": true, "webhook-id": true, "webhook-timestamp": true, "idempotency-key": true, "vobo-attempt": true,
}

// validHeaderName is RFC 9110's token.
func validHeaderName(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func validHeaderValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// trace knows how far a request came. The transport may still write when it has
// already failed, so its fields are atomic.
type trace struct {
	conn   atomic.Pointer[countedConn]
	before atomic.Int64
	reused atomic.Bool
}

func (t *trace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.(*countedConn); ok {
			t.before.Store(c.written.Load())
			t.reused.Store(info.Reused)
			t.conn.Store(c)
		}
	}}
}

// wrote tells whether a byte of the request may have left.
func (t *trace) wrote() bool {
	c := t.conn.Load()
	return c != nil && c.written.Load() > t.before.Load()
}

// countedConn counts what a request writes, above TLS. A write counts from its begin,
// since a request may be given up while it lasts, unless it ends with nothing written.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	if err != nil && n == 0 {
		c.written.Add(-int64(len(b)))
	}
	return n, err
}

// failure classifies a round trip without a whole answer.
func failure(err error, t target, trip *trace, idempotent bool) Outcome {
	var refused *addressError
	if errors.As(err, &refused) && !trip.wrote() {
		return Outcome{Class: Permanent, Detail: fmt.Sprintf("%s resolves to an address that webhooks may not reach. Allow it with VOBO_WEBHOOK_ALLOW, or name another host.", t.host)}
	}
	if !trip.wrote() {
		return Outcome{Class: Retry, Detail: fmt.Sprintf("No connection to %s: %s.", t.host, reason(err))}
	}
	return noAnswer(fmt.Sprintf("The request went out to %s and got no answer: %s.", t.host, reason(err)), idempotent)
}

func noAnswer(detail string, idempotent bool) Outcome {
	class := Unknown
	if idempotent {
		class = Retry
	}
	return Outcome{Class: class, Detail: detail, WentOut: true}
}

// answer classifies an answer as the definition language says ("Outcome of an attempt").
func answer(resp *http.Response, body []byte, readErr error, t target, r WebhookRequest) Outcome {
	status := resp.StatusCode
	out := Outcome{Status: status, Answered: true, WentOut: true}
	out.Detail = strings.TrimSpace(fmt.Sprintf("%s answered %d %s", t.host, status, http.StatusText(status))) + "."
	switch {
	case status >= 200 && status < 300:
		if readErr != nil {
			return noAnswer(fmt.Sprintf("%s began to answer %d and broke off: %s.", t.host, status, reason(readErr)), r.Idempotent)
		}
		out.Class = Success
		switch {
		case len(body) > MaxAnswer:
			out.Detail += fmt.Sprintf(" The answer is longer than %d KiB and is not kept.", MaxAnswer>>10)
		case json.Valid(body):
			out.Body = body
		case len(bytes.TrimSpace(body)) > 0:
			out.Detail += " The answer is not JSON and is not kept."
		}
		return out
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		out.Class = Retry
	case status == http.StatusRequestTimeout, status >= 500:
		out.Class = Unknown
		if r.Idempotent {
			out.Class = Retry
		}
	case status >= 300 && status < 400:
		out.Class = Permanent
		out.Detail += " Redirects are not followed: name the final URL."
	default:
		out.Class = Permanent
	}
	if out.Class == Retry {
		out.RetryAfter = ParseRetryAfter(resp.Header.Values("Retry-After"), r.Timestamp)
	}
	return out
}
