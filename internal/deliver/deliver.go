// Package deliver sends one thing — a mail, a webhook — and says what became of it.
//
// It knows nothing of effects, instances or the database: the outbox decides what to
// send, when, and what an outcome means. A sender never sends twice by itself, unless
// it knows that not one byte of the first try reached the other side.
//
// Senders are safe for concurrent use. Apart from time-outs there is no clock here:
// times are handed in.
package deliver

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// Class says what an outcome means for the effect.
type Class string

// The classes of an attempt's outcome.
const (
	Success   Class = "success"   // done
	Retry     Class = "retry"     // not done, or done and harmless to repeat: try again later
	Unknown   Class = "unknown"   // perhaps done, and not harmless to repeat: a person must say
	Permanent Class = "permanent" // not done, and no repetition will change that
)

// Outcome is what became of one attempt.
type Outcome struct {
	Class      Class
	Detail     string        // for people: one or two sentences without secrets, paths or bodies
	Status     int           // HTTP status or SMTP reply code; 0 without an answer
	Body       []byte        // the JSON answer of a webhook that succeeded, at most 64 KiB; else nil
	Answer     string        // the beginning of what the other side said, at most 4 KiB of printable text; secrets of the request are masked
	RetryAfter time.Duration // the least wait the other side asks for, at most MaxRetryAfter; 0: none
	Answered   bool          // a whole answer came
	Config     bool          // the fault lies with the settings here, not with the receiver or recipient: tell operators
	WentOut    bool          // something that could take effect reached the wire. WentOut without Answered means: perhaps done
}

// Gone tells whether a receiver of webhooks says that it wants no more of them (RFC 9110
// section 15.5.11).
func (o Outcome) Gone() bool { return o.Class == Permanent && o.Status == http.StatusGone }

// MaxRetryAfter caps what a receiver may ask for.
const MaxRetryAfter = 24 * time.Hour

// Backoff returns the wait after failed attempt number attempt (1 is the first):
// full jitter, rnd × min(most, first·2^(attempt−1)), and never less than retryAfter.
// rnd lies in [0, 1); what lies outside is clamped.
// Source: Brooker, "Exponential Backoff And Jitter" (AWS, 2015).
func Backoff(attempt int, first, most time.Duration, rnd float64, retryAfter time.Duration) time.Duration {
	if first < 0 || most < 0 {
		first, most = 0, 0
	}
	ceiling := min(first, most)
	for i := 1; i < attempt && ceiling < most && ceiling > 0; i++ {
		if ceiling > most/2 {
			ceiling = most
			break
		}
		ceiling *= 2
	}
	if math.IsNaN(rnd) {
		rnd = 0
	}
	rnd = math.Min(math.Max(rnd, 0), 1)
	wait := time.Duration(math.Min(rnd*float64(ceiling), float64(ceiling)))
	return max(wait, min(retryAfter, MaxRetryAfter))
}

// ParseRetryAfter reads the Retry-After headers of an answer (RFC 9110 section
// 10.2.3): whole seconds, or an HTTP date seen from now. Of several the longest
// counts. Past, negative and ill-formed ones count as none; the result is at most
// MaxRetryAfter.
func ParseRetryAfter(values []string, now time.Time) time.Duration {
	var longest time.Duration
	for _, v := range values {
		longest = max(longest, parseRetryAfter(strings.TrimSpace(v), now))
	}
	return longest
}

func parseRetryAfter(v string, now time.Time) time.Duration {
	if v == "" {
		return 0
	}
	if strings.Trim(v, "0123456789") == "" {
		v = strings.TrimLeft(v, "0")
		if len(v) > 5 { // 100,000 s and more
			return MaxRetryAfter
		}
		var seconds time.Duration
		for _, c := range v {
			seconds = seconds*10 + time.Duration(c-'0')
		}
		return min(seconds*time.Second, MaxRetryAfter)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}
