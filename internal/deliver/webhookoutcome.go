package deliver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// failure classifies a round trip without an answer.
func failure(trip trip, t target, idempotent bool) Outcome {
	var refused *addressError
	wrote := trip.trace.wrote()
	if errors.As(trip.err, &refused) && !wrote {
		return Outcome{Class: Permanent, Detail: fmt.Sprintf("%s resolves to an address that webhooks may not reach. Allow it with VOBO_WEBHOOK_ALLOW, or name another host.", t.host)}
	}
	if !wrote {
		return Outcome{Class: Retry, Detail: fmt.Sprintf("No connection to %s: %s.", t.host, trip.why())}
	}
	return noAnswer(fmt.Sprintf("The request went out to %s and got no answer: %s.", t.host, trip.why()), idempotent)
}

func noAnswer(detail string, idempotent bool) Outcome {
	class := Unknown
	if idempotent {
		class = Retry
	}
	return Outcome{Class: class, Detail: detail, WentOut: true}
}

// answer classifies an answer as the definition language says ("Outcome of an attempt").
// Dates of Retry-After are seen from now.
func answer(trip trip, t target, idempotent bool, now time.Time) Outcome {
	status := trip.resp.StatusCode
	out := Outcome{Status: status, Answered: true, WentOut: true}
	out.Detail = strings.TrimSpace(fmt.Sprintf("%s answered %d %s", t.host, status, http.StatusText(status))) + "."
	switch {
	case status >= 200 && status < 300:
		if trip.err != nil {
			return noAnswer(fmt.Sprintf("%s began to answer %d and broke off: %s.", t.host, status, trip.why()), idempotent)
		}
		out.Class = Success
		switch {
		case len(trip.body) > MaxAnswer:
			out.Detail += fmt.Sprintf(" The answer is longer than %d KiB and is not kept.", MaxAnswer>>10)
		case json.Valid(trip.body):
			out.Body = trip.body
		case len(bytes.TrimSpace(trip.body)) > 0:
			out.Detail += " The answer is not JSON and is not kept."
		}
		return out
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		out.Class = Retry
	case status == http.StatusRequestTimeout, status >= 500:
		out.Class = Unknown
		if idempotent {
			out.Class = Retry
		}
	case status >= 300 && status < 400:
		out.Class = Permanent
		out.Detail += " Redirects are not followed: name the final URL."
	default:
		out.Class = Permanent
	}
	if out.Class == Retry {
		out.RetryAfter = ParseRetryAfter(trip.resp.Header.Values("Retry-After"), now)
	}
	return out
}
