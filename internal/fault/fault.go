// Package fault is the leaf of the house: one error type with a stable code.
//
// Every layer returns *fault.Error for what a caller can do something about; one table
// turns the code into an HTTP status, the edges give it exit status and page text.
// Any other error is internal: its text goes to the log, never to the caller.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Code names a kind of refusal. It is also the last segment of the problem type
// (/problems/CODE) and therefore a promise to callers: codes are never renamed.
type Code string

// The codes of the HTTP contract.
const (
	InvalidToken        Code = "invalid-token"          // 404: not authentic; one answer for all
	NotFound            Code = "not-found"              // 404
	Unauthorized        Code = "unauthorized"           // 401: who is calling is not established
	Forbidden           Code = "forbidden"              // 403: the caller's roles do not allow the route
	AlreadyDecided      Code = "already-decided"        // 409: carries Winner
	TokenRevoked        Code = "token-revoked"          // 410
	TokenExpired        Code = "token-expired"          // 410
	Suspended           Code = "suspended"              // 423
	EventNotAllowed     Code = "event-not-allowed"      // 403: the token does not allow this event
	NotPermitted        Code = "not-permitted"          // 403: not this person's to raise (four eyes, group, role)
	EventNotAllowedHere Code = "event-not-allowed-here" // 409: the wait does not know the event
	ContentChanged      Code = "content-changed"        // 409: what was shown is no longer what is asked
	InvalidInput        Code = "invalid-input"          // 422: carries Fields
	GuardRejected       Code = "guard-rejected"         // 422: no arm's `when` holds
	AssuranceRequired   Code = "assurance-required"     // 403
	KeyInUse            Code = "key-in-use"             // 409: business key taken; carries Instance
	RevisionMismatch    Code = "revision-mismatch"      // 412: If-Match did not match
	IdempotencyMismatch Code = "idempotency-mismatch"   // 422: same key, other body
	InProgress          Code = "in-progress"            // 409: same key still running
	VersionExists       Code = "version-exists"         // 409: (name, version) published with other content
	InvalidDefinition   Code = "invalid-definition"     // 422: carries Fields with line and column in Detail
	Conflict            Code = "conflict"               // 409: state of the thing does not allow the operation
	TooLarge            Code = "too-large"              // 413
	Malformed           Code = "malformed"              // 400: not JSON, bad cursor, NUL characters …
	Unsupported         Code = "unsupported-media-type" // 415
	MethodNotAllowed    Code = "method-not-allowed"     // 405
	RateLimited         Code = "rate-limited"           // 429: carries RetryAfter
	Unavailable         Code = "unavailable"            // 503: retryable
	Internal            Code = "internal"               // 500: never caused by what a caller sends
	LimitExceeded       Code = "limit-exceeded"         // 422: a limit of the definition or the product
)

// Field is one error of an input: an RFC 6901 JSON pointer and words for people.
type Field struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Winner says whose event left the wait or used the link.
type Winner struct {
	Event string    `json:"event"`
	Actor string    `json:"actor"` // display name, else id
	At    time.Time `json:"at"`
}

// Error is a refusal with a stable code.
type Error struct {
	Code       Code
	Message    string // for people: what is wrong, where, what to do
	Fields     []Field
	Winner     *Winner
	Instance   string        // the instance concerned, where the caller may know it
	RetryAfter time.Duration // 0: not said
	Cause      error         // for the log only
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Cause }

// Retryable tells whether the same call may succeed later without a change.
func (e *Error) Retryable() bool {
	switch e.Code {
	case Unavailable, InProgress, RateLimited:
		return true
	}
	return false
}

// New makes a refusal; format and args as fmt.Sprintf.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes a refusal that keeps cause for the log.
func Wrap(cause error, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// With adds errors of single fields and returns e.
func (e *Error) With(fields ...Field) *Error { e.Fields = append(e.Fields, fields...); return e }

// CodeOf returns the code of err, Internal for an error of no code, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// As returns err as *Error; an error of no code becomes Internal with err as its cause.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Internal, Message: "The service failed; the cause is in its log.", Cause: err}
}
