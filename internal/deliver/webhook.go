package deliver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
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
	Client     *ClientTLS  // mTLS; nil: none
	Secret     []string    // names of Headers that prove who calls: an answer that sends their values back is masked also as a result
}

// ClientTLS proves to a receiver who calls, and says whom to trust.
type ClientTLS struct {
	Certificate *tls.Certificate // nil: none
	RootCAs     *x509.CertPool   // nil: the system's
	ID          string           // one transport is kept per ID, which changes with the contents; "": none is kept
}

// WebhookConfig configures a WebhookSender; its zero value is good.
type WebhookConfig struct {
	Allow     []string      // VOBO_WEBHOOK_ALLOW: hosts, host:port, addresses or CIDRs that may be private or plain http
	UserAgent string        // "": Vobo
	Resolver  *net.Resolver // nil: the system's

	tls       *tls.Config
	limits    phaseLimits
	onConnect func(netip.AddrPort) error // called before a connect that is allowed; an error prevents it
}

// WebhookSender sends webhooks. It follows no redirect, uses no proxy, resends nothing
// that may have arrived, and refuses at dial every address that is not public or
// allowed, whatever the name resolved to before.
type WebhookSender struct {
	allow      allowList
	userAgent  string
	limits     phaseLimits
	resolver   *net.Resolver
	tls        *tls.Config
	onConnect  func(netip.AddrPort) error
	transports transportCache
}

// NewWebhookSender checks cfg (fault.InvalidInput) and makes a sender.
func NewWebhookSender(cfg WebhookConfig) (*WebhookSender, error) {
	allow, err := parseAllow(cfg.Allow)
	if err != nil {
		return nil, err
	}
	s := &WebhookSender{allow: allow, userAgent: cfg.UserAgent, limits: cfg.limits, resolver: cfg.Resolver, tls: cfg.tls, onConnect: cfg.onConnect}
	if s.userAgent == "" {
		s.userAgent = "Vobo"
	}
	if !validHeaderValue(s.userAgent) {
		return nil, fault.New(fault.InvalidInput, "The user agent holds a control character.")
	}
	if s.limits == (phaseLimits{}) {
		s.limits = defaultLimits
	}
	s.transports.common = s.newTransports(nil)
	return s, nil
}

// Close drops idle connections.
func (s *WebhookSender) Close() { s.transports.closeIdle() }

// Send makes one attempt, of at most 20 seconds, and classifies what came of it.
func (s *WebhookSender) Send(ctx context.Context, r WebhookRequest) Outcome {
	t, err := s.parseTarget(r.URL)
	if err != nil {
		return Outcome{Class: Permanent, Detail: fault.As(err).Message}
	}
	req, err := s.request(t, r)
	if err != nil {
		return Outcome{Class: Permanent, Detail: fault.As(err).Message}
	}
	pair, release := s.transportsFor(r.Client)
	defer release()
	transport := pair.fresh
	if r.Idempotent {
		transport = pair.pooled
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.total, errTotal)
	defer cancel()
	out, idleCut := s.attempt(ctx, transport, req, t, r)
	if idleCut {
		// The receiver closed a kept connection before a byte was written: not an attempt.
		transport.CloseIdleConnections()
		if req, err = s.request(t, r); err != nil {
			return Outcome{Class: Permanent, Detail: fault.As(err).Message}
		}
		out, _ = s.attempt(ctx, transport, req, t, r)
	}
	return out
}

// attempt makes one round trip. idleCut tells that it failed on a kept connection with
// nothing written.
func (s *WebhookSender) attempt(ctx context.Context, transport *http.Transport, req *http.Request, t target, r WebhookRequest) (out Outcome, idleCut bool) {
	trip := s.roundTrip(ctx, transport, req, MaxAnswer, s.limits)
	if trip.resp == nil {
		return failure(trip, t, r.Idempotent), trip.trace.reused.Load() && !trip.trace.wrote()
	}
	out = answer(trip, t, r.Idempotent, r.Timestamp)
	out.Answer = answerText(trip.body, trip.err == nil && len(trip.body) <= MaxAnswer, secretsOf(r, t))
	if out.Body != nil {
		out.Body = maskedJSON(out.Body, keptNowhere(r, t))
	}
	return out, false
}

// trip is what one round trip brought: no response and an error, or a response, what
// was read of its body, and the error that ended the reading early.
type trip struct {
	trace *trace
	resp  *http.Response
	body  []byte // one byte more than the limit where the answer is longer
	err   error
	slow  *slowError // where the attempt took too long; nil: it did not
}

// roundTrip sends req and reads at most limit+1 bytes of the answer, within the limits
// of each phase.
func (s *WebhookSender) roundTrip(ctx context.Context, transport *http.Transport, req *http.Request, limit int64, limits phaseLimits) trip {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := trip{trace: &trace{limits: limits, cancel: cancel}}
	defer t.trace.end()
	req = req.WithContext(httptrace.WithClientTrace(ctx, t.trace.hooks()))
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.err = err
		t.slow = t.trace.tooSlow(ctx, err)
		return t
	}
	defer func() {
		// The answer is read or given up; an error here changes nothing.
		_ = resp.Body.Close()
	}()
	t.trace.enter(reading)
	t.resp = resp
	t.body, t.err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if t.err != nil {
		t.slow = t.trace.tooSlow(ctx, t.err)
	}
	return t
}

// why puts what ended the trip into a few words.
func (t trip) why() string {
	if t.slow != nil {
		return t.slow.words()
	}
	return reason(t.err)
}
