package client

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	firstDelay = 100 * time.Millisecond
	mostDelay  = 5 * time.Second
	// mostPatience is the longest Retry-After that a call waits for; a longer one is the caller's to plan.
	mostPatience = time.Minute
	maxDetail    = 300 // runes of an answer that is no problem
)

// Error is a refusal of the server: RFC 9457 problem+json.
type Error struct {
	Type       string        `json:"type"` // /problems/NAME: stable; that path of the server explains it
	Title      string        `json:"title"`
	Status     int           `json:"status"`
	Detail     string        `json:"detail"` // what is wrong, where, what to do
	Retryable  bool          `json:"retryable"`
	Errors     []FieldError  `json:"errors,omitempty"`
	Winner     *Winner       `json:"winner,omitempty"`
	InstanceID string        `json:"instance_id,omitempty"`
	RetryAfter time.Duration `json:"-"` // 0: the server did not say
}

// FieldError is one error of an input (Pointer, RFC 6901) or of a definition (Line, Column, Code, Hint).
type FieldError struct {
	Pointer  string `json:"pointer,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Severity string `json:"severity,omitempty"`
	Code     string `json:"code,omitempty"`
	Detail   string `json:"detail"`
	Hint     string `json:"hint,omitempty"`
}

// Winner says whose event was first.
type Winner struct {
	Event string    `json:"event"`
	Actor string    `json:"actor"`
	At    time.Time `json:"at"`
}

// Code is the last segment of the type, such as already-decided; "" for an answer that is no problem.
func (e *Error) Code() string {
	name, ok := strings.CutPrefix(e.Type, "/problems/")
	if !ok {
		return ""
	}
	return name
}

func (e *Error) Error() string {
	if code := e.Code(); code != "" {
		return fmt.Sprintf("%s (%d %s)", e.Detail, e.Status, code)
	}
	return fmt.Sprintf("%s (%d)", e.Detail, e.Status)
}

// Is tells whether err is a refusal with this code, such as "already-decided".
func Is(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code() == code
}

// connectionError is a request that was not answered; whether it arrived is not known.
type connectionError struct {
	host  string
	cause error
}

func (e *connectionError) Error() string {
	return fmt.Sprintf("%s does not answer: %v", e.host, e.cause)
}
func (e *connectionError) Unwrap() error { return e.cause }

// withoutURL leaves the URL out of an error: it may hold a token.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// refusal reads the problem of an answer.
func refusal(a *answer) *Error {
	e := &Error{}
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if strings.TrimSpace(kind) != "application/problem+json" || json.Unmarshal(a.body, e) != nil || e.Type == "" {
		text := []rune(strings.Join(strings.Fields(string(a.body)), " "))
		if len(text) > maxDetail {
			text = append(text[:maxDetail], '…')
		}
		e = &Error{Detail: string(text)}
		if e.Detail == "" || strings.HasPrefix(e.Detail, "<") {
			e.Detail = "The address answers, but not as a Vobo server does: " + http.StatusText(a.status)
		}
	}
	e.Status = a.status
	e.RetryAfter = retryAfter(a.header)
	return e
}

// retryAfter reads the header as seconds or as a date, which counts from the answer's own Date (RFC 9110 section 10.2.3).
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return min(time.Duration(seconds), 1<<31) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(from), 0)
}

// again tells whether the same call may be answered better later; that the caller has
// not given up is asked before.
func again(err error) bool {
	if _, lost := errors.AsType[*connectionError](err); lost {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.Retryable
}

// delay is how long to wait before the next try: what the server asks for, else exponential
// with full jitter. False where the server asks for more patience than a call has.
func delay(attempt int, err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		return e.RetryAfter, e.RetryAfter <= mostPatience
	}
	most := min(firstDelay<<(attempt-1), mostDelay)
	return time.Duration(mathrand.Int64N(int64(most)) + 1), true
}

// newKey makes an Idempotency-Key that nobody else makes.
func newKey() string { return rand.Text() }
