// Package api is the REST edge: it translates HTTP into use cases of approval and
// back. The OpenAPI 3.1 document is generated from the types in this package.
package api

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vobo/internal/approval"
)

// MaxBody is the largest body a caller may send, in bytes.
const MaxBody = 1 << 20

// SessionCookie is the name of the cookie that people's browsers carry; with https
// it has the prefix __Host-, or __Secure- where the base URL has a path.
const SessionCookie = "vobo"

// sessionCookie is the one name that is read: a cookie without the prefix may be set
// by a neighbour of the same site.
func sessionCookie(base *url.URL) string {
	switch {
	case base.Scheme != "https":
		return SessionCookie
	case strings.TrimRight(base.Path, "/") == "":
		return "__Host-" + SessionCookie
	}
	return "__Secure-" + SessionCookie
}

// Config is what the edge is told.
type Config struct {
	BaseURL string // no trailing slash; may have a path
	Version string
	Log     *slog.Logger
}

// API holds what handlers need.
type API struct {
	svc    *approval.Service
	cfg    Config
	cookie string // name of the session cookie
	huma   huma.API
	csrf   *http.CrossOriginProtection

	// bodies are the described bodies: huma puts "binary text" in their place where a
	// handler takes the raw bytes, so reference puts them back.
	bodies map[*huma.RequestBody]*huma.MediaType
}

// Register puts the routes of the API on e.
func Register(e *echo.Echo, svc *approval.Service, cfg Config) error {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return fmt.Errorf("api: base URL: %w", err)
	}
	a := &API{svc: svc, cfg: cfg, cookie: sessionCookie(base), csrf: http.NewCrossOriginProtection(), bodies: map[*huma.RequestBody]*huma.MediaType{}}
	hc := huma.DefaultConfig("Vobo", cfg.Version)
	hc.DocsPath, hc.SchemasPath, hc.OpenAPIPath = "", "", "/openapi"
	hc.CreateHooks = nil
	hc.Info.Description = "Durable approvals. Errors are problem+json (RFC 9457); times are RFC 3339 UTC with milliseconds."
	hc.Servers = []*huma.Server{{URL: cfg.BaseURL}}
	format := huma.Format{Marshal: writeJSON, Unmarshal: json.Unmarshal}
	hc.Formats = map[string]huma.Format{"application/json": format, "json": format} // "json" also serves problem+json
	hc.DefaultFormat = "application/json"
	hc.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	hc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":     {Type: "http", Scheme: "bearer", Description: "An API key: vobo_…"},
		"webhook": {Type: "apiKey", In: "header", Name: "webhook-signature", Description: "Standard Webhooks: webhook-id, webhook-timestamp and webhook-signature"},
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // huma serves its document without our middleware
		return func(c echo.Context) error {
			if strings.HasPrefix(c.Request().URL.Path, hc.OpenAPIPath) {
				secure(c.Response().Header().Set)
			}
			return next(c)
		}
	})
	a.huma = humaecho.New(e, hc)
	a.huma.UseMiddleware(a.harden, a.authenticate)
	a.instances()
	a.tasks()
	a.decisions()
	a.hooks()
	a.definitions()
	a.effects()
	a.sinks()
	a.people()
	return a.operations(e)
}

// writeJSON writes an answer; one that was rendered already goes out as it is.
func writeJSON(w io.Writer, v any) error {
	if raw, ok := v.(json.RawMessage); ok {
		_, err := w.Write(raw)
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// operations are the routes that need no caller: health, metrics and the reference.
func (a *API) operations(e *echo.Echo) error {
	registry := prometheus.NewRegistry()
	for _, c := range a.svc.Metrics() {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	e.GET("/metrics", secured(echo.WrapHandler(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))))
	e.GET("/healthz", secured(func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }))
	e.GET("/readyz", secured(func(c echo.Context) error {
		if err := a.svc.Ready(c.Request().Context()); err != nil {
			a.cfg.Log.Error("not ready", "error", err)
			return c.String(http.StatusServiceUnavailable, "not ready\n")
		}
		return c.String(http.StatusOK, "ready\n")
	}))
	return a.reference(e)
}
