package deliver

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"vobo/internal/fault"
)

// Fetch gets what is at rawURL, at most limit bytes (never more than MaxAttachments) and
// within 30 seconds, under the same guard as webhooks: public or allowed addresses, no
// redirects, no proxy. The content is nil unless the outcome is Success; what is longer
// than limit is Permanent.
// Nothing of the content or of a refusal is in the outcome.
func (s *WebhookSender) Fetch(ctx context.Context, rawURL string, limit int64) ([]byte, Outcome) {
	t, err := s.parseTarget(rawURL)
	if err != nil {
		return nil, Outcome{Class: Permanent, Detail: strings.Replace(fault.As(err).Message, "The webhook's URL", "The address", 1)}
	}
	limit = min(max(limit, 0), MaxAttachments)
	limits := s.limits
	limits.total, limits.body = limits.fetch, limits.fetch
	ctx, cancel := context.WithTimeoutCause(ctx, limits.total, errTotal)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url.String(), nil)
	if err != nil {
		return nil, Outcome{Class: Permanent, Detail: "The address is not well-formed."}
	}
	req.Header.Set("User-Agent", s.userAgent)
	req.Header.Set("Accept", "*/*")
	trip := s.roundTrip(ctx, s.transports.common.fresh, req, limit, limits)
	if trip.resp == nil {
		out := failure(trip, t, true)
		out.WentOut = false // a GET takes no effect
		return nil, out
	}
	// Without a date of its own an answer's Retry-After dates count for nothing.
	now, _ := http.ParseTime(trip.resp.Header.Get("Date"))
	out := answer(trip, t, true, now)
	out.Body, out.WentOut = nil, false
	switch {
	case out.Class != Success:
		if now.IsZero() {
			out.RetryAfter = 0
		}
		return nil, out
	case trip.resp.StatusCode != http.StatusOK:
		out.Class = Permanent
		return nil, out
	case int64(len(trip.body)) > limit:
		out.Class, out.Detail = Permanent, fmt.Sprintf("What %s sends is larger than %d bytes.", t.host, limit)
		return nil, out
	}
	out.Detail = fmt.Sprintf("%s sent %d bytes.", t.host, len(trip.body))
	return trip.body, out
}
