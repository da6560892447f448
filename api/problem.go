package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// Problem is RFC 9457 application/problem+json.
type Problem struct {
	Type      string  `json:"type" doc:"/problems/NAME: stable; that path explains it"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Retryable bool    `json:"retryable" doc:"whether the same call may succeed later"`
	Errors    any     `json:"errors,omitempty" doc:"by field: {pointer, detail}; of a definition: {line, column, code, detail, hint}"`
	Winner    *Winner `json:"winner,omitempty"`
	Instance  string  `json:"instance_id,omitempty"`
}

// Winner says whose event was first.
type Winner struct {
	Event string        `json:"event"`
	Actor string        `json:"actor"`
	At    approval.Time `json:"at"`
}

// Error implements error; huma renders the problem by its status.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// problemOf turns an error into a problem. What has no code is internal: its text
// stays in the log.
func (a *API) problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	f := fault.As(err)
	if errors.Is(err, context.Canceled) {
		f = fault.New(fault.Unavailable, "The request was given up.")
	}
	if f.Code == fault.Internal {
		a.cfg.Log.Error("a request failed", "error", err)
	}
	p := &Problem{
		Type: "/problems/" + string(f.Code), Title: title(f.Code), Status: f.Code.Status(), Detail: f.Message,
		Retryable: f.Retryable(), Instance: f.Instance,
	}
	if f.Code == fault.Internal {
		p.Detail = "The service failed. The cause is in its log. Trying again with the same Idempotency-Key is safe."
	}
	if len(f.Fields) > 0 {
		p.Errors = f.Fields
	}
	if d, ok := errors.AsType[*approval.DefinitionError](err); ok {
		p.Errors = refusing(d.Problems)
	}
	if f.Winner != nil {
		p.Winner = &Winner{f.Winner.Event, f.Winner.Actor, approval.Time{Time: f.Winner.At}}
	}
	return p
}

// refusing are the problems for which a definition was refused.
func refusing(all definitions.Problems) []definitions.Problem {
	out := []definitions.Problem{}
	for _, p := range all {
		if p.Severity != definitions.Warning {
			p.File = ""
			out = append(out, p)
		}
	}
	return out
}

// title is the code in words.
func title(c fault.Code) string {
	s := strings.ReplaceAll(string(c), "-", " ")
	return strings.ToUpper(s[:1]) + s[1:]
}

// fail is a handler's error: the problem, with the headers that go with it.
func (a *API) fail(err error) error {
	p := a.problemOf(err)
	f := fault.As(err)
	headers := http.Header{}
	if f.RetryAfter > 0 {
		headers.Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	} else if p.Status == http.StatusServiceUnavailable {
		headers.Set("Retry-After", "1")
	}
	if p.Status == http.StatusUnauthorized {
		headers.Set("WWW-Authenticate", `Bearer realm="vobo"`)
	}
	if len(headers) == 0 {
		return p
	}
	return huma.ErrorWithHeaders(p, headers)
}

// write answers with a problem outside a handler.
func (a *API) write(ctx huma.Context, err error) {
	p := a.problemOf(err)
	ctx.SetHeader("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		ctx.SetHeader("WWW-Authenticate", `Bearer realm="vobo"`)
	}
	if f := fault.As(err); f.RetryAfter > 0 {
		ctx.SetHeader("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	}
	ctx.SetStatus(p.Status)
	b, merr := json.Marshal(p)
	if merr != nil {
		a.cfg.Log.Error("a problem could not be written", "error", merr)
		return
	}
	if _, werr := ctx.BodyWriter().Write(b); werr != nil {
		a.cfg.Log.Debug("a caller left before the answer", "error", werr)
	}
}

// ErrorHandler answers what no handler of the API has answered (unknown path, wrong
// method) as a problem; cmd uses it for the API's paths.
func ErrorHandler(cfg Config) echo.HTTPErrorHandler {
	a := &API{cfg: cfg}
	return func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		if h, ok := errors.AsType[*echo.HTTPError](err); ok {
			switch h.Code {
			case http.StatusNotFound:
				err = fault.New(fault.NotFound, "There is nothing at this path. /docs lists what there is.")
			case http.StatusMethodNotAllowed:
				err = fault.New(fault.MethodNotAllowed, "This path does not take %s.", c.Request().Method)
			}
		}
		p := a.problemOf(err)
		secure(c.Response().Header().Set)
		b, merr := json.Marshal(p)
		if merr == nil {
			merr = c.Blob(p.Status, "application/problem+json", b)
		}
		if merr != nil {
			cfg.Log.Debug("an error could not be answered", "error", merr)
		}
	}
}

func init() {
	// huma's own refusals (parameters that do not parse, bodies too large) speak as ours do.
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		code := fault.Malformed
		switch status {
		case http.StatusRequestEntityTooLarge:
			code = fault.TooLarge
			msg = fmt.Sprintf("The body is larger than %d KiB. Send documents by reference.", MaxBody>>10)
		case http.StatusUnsupportedMediaType:
			code = fault.Unsupported
		case http.StatusUnprocessableEntity, http.StatusBadRequest:
			status = http.StatusBadRequest
		case http.StatusRequestTimeout:
			code = fault.Unavailable
		}
		p := &Problem{Type: "/problems/" + string(code), Title: title(code), Status: status, Detail: msg}
		var fields []fault.Field
		for _, err := range errs {
			d, ok := errors.AsType[*huma.ErrorDetail](err)
			if !ok {
				continue
			}
			fields = append(fields, fault.Field{Pointer: d.Location, Detail: d.Message})
		}
		if len(fields) > 0 {
			p.Errors = fields
		}
		return p
	}
}
