package fault

import (
	"maps"
	"net/http"
	"slices"
)

// statuses is the one table from codes to HTTP: a page answers with the API's status.
var statuses = map[Code]int{
	InvalidToken: 404, NotFound: 404, Unauthorized: 401, Forbidden: 403,
	AlreadyDecided: 409, TokenRevoked: 410, TokenExpired: 410, Suspended: 423,
	EventNotAllowed: 403, NotPermitted: 403, EventNotAllowedHere: 409, ContentChanged: 409,
	InvalidInput: 422, GuardRejected: 422, AssuranceRequired: 403, KeyInUse: 409,
	RevisionMismatch: 412, IdempotencyMismatch: 422, InProgress: 409, VersionExists: 409,
	InvalidDefinition: 422, Conflict: 409, TooLarge: 413, Malformed: 400, Unsupported: 415,
	MethodNotAllowed: 405, RateLimited: 429, Unavailable: 503, LimitExceeded: 422, Internal: 500,
}

// Status is the code's HTTP status; 500 for what is no code.
func (c Code) Status() int {
	if status, known := statuses[c]; known {
		return status
	}
	return http.StatusInternalServerError
}

// Codes lists every code, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(statuses)) }
