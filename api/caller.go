package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fault"
)

// callerKey is where a request's caller stands in its context.
type callerKey struct{}

// What an operation's metadata say.
const (
	open  = "open"  // true: no caller is needed, since the URL or a signature is the capability
	media = "media" // []string: content types of the body; JSON unless said
)

func callerOf(ctx context.Context) approval.Caller {
	c, _ := ctx.Value(callerKey{}).(approval.Caller)
	return c
}

// secure sets the headers of every answer that is no page.
func secure(set func(name, value string)) {
	set("Cache-Control", "no-store")
	set("X-Content-Type-Options", "nosniff")
	set("Referrer-Policy", "no-referrer")
	set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

// secured is secure for handlers outside the API's description.
func secured(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		secure(c.Response().Header().Set)
		return h(c)
	}
}

// harden puts the headers that every answer of the API carries, and takes bodies as JSON only.
func (a *API) harden(ctx huma.Context, next func(huma.Context)) {
	secure(ctx.SetHeader)
	if kind := ctx.Header("Content-Type"); kind != "" && hasBody(ctx.Method()) && !slices.Contains(ctx.Operation().Tags, "definitions") {
		known, ok := ctx.Operation().Metadata[media].([]string)
		if !ok {
			known = []string{"application/json"}
		}
		if !slices.Contains(known, mediaType(kind)) {
			a.write(ctx, fault.New(fault.Unsupported, "Send JSON with Content-Type: %s.", strings.Join(known, " or ")))
			return
		}
	}
	if coding := ctx.Header("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		a.write(ctx, fault.New(fault.Unsupported, "Send the body as it is, without Content-Encoding."))
		return
	}
	next(ctx)
}

// mediaType is a content type without its parameters.
func mediaType(kind string) string {
	base, _, _ := strings.Cut(kind, ";")
	return strings.ToLower(strings.TrimSpace(base))
}

func hasBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodDelete || method == http.MethodPatch
}

// authenticate establishes who calls: an API key, or a person's session.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	if ctx.Operation().Metadata[open] == true {
		next(ctx)
		return
	}
	c, err := a.identify(ctx)
	if err != nil {
		a.write(ctx, err)
		return
	}
	next(huma.WithValue(ctx, callerKey{}, c))
}

func (a *API) identify(ctx huma.Context) (approval.Caller, error) {
	request := humaecho.Unwrap(ctx).Request()
	for _, name := range []string{"Authorization", "On-Behalf-Of"} {
		if all := request.Header.Values(name); len(all) > 1 || name == "On-Behalf-Of" && len(all) == 1 && strings.TrimSpace(all[0]) == "" {
			return approval.Caller{}, fault.New(fault.Malformed, "Send %s once and not empty, or leave it out.", name)
		}
	}
	if h := ctx.Header("Authorization"); h != "" {
		scheme, key, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "bearer") {
			return approval.Caller{}, fault.New(fault.Unauthorized, "Use Authorization: Bearer and an API key.")
		}
		return a.svc.AuthenticateKey(ctx.Context(), strings.TrimSpace(key), ctx.Header("On-Behalf-Of"))
	}
	if cookie, err := request.Cookie(a.cookie); err == nil {
		if err := a.csrf.Check(request); err != nil {
			return approval.Caller{}, fault.New(fault.Forbidden, "This request came from another site.")
		}
		c, token, err := a.svc.Session(ctx.Context(), cookie.Value)
		if err == nil && hasBody(ctx.Method()) && ctx.Header("X-Csrf-Token") != token {
			return c, fault.New(fault.Forbidden, "The X-CSRF-Token header is missing or old: load the page again.")
		}
		return c, err
	}
	return approval.Caller{}, fault.New(fault.Unauthorized, "Who is calling is not known. Send an API key (Authorization: Bearer vobo_…) or log in.")
}
