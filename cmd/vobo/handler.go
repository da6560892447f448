package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"vobo/api"
	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/web"
)

// newHandler puts api and web behind one address, below the base URL's path.
func newHandler(svc *approval.Service, cfg settings, o appOptions, log *slog.Logger) (http.Handler, error) {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = clientAddress(cfg.TrustedProxies)
	e.Use(knowClient, accessLog(log), recoverPanic(log))
	if o.demo && !o.public {
		e.Use(ownNameOnly)
	}
	mailbox := web.MailboxOff
	switch {
	case o.demo:
		mailbox = web.MailboxLoopback
	case cfg.SMTPURL == "":
		mailbox = web.MailboxAdmins
	}
	webConfig := web.Config{BaseURL: cfg.BaseURL, Demo: o.demo, Mailbox: mailbox, Log: log, Now: time.Now, Zone: serverZone()}
	apiConfig := api.Config{BaseURL: cfg.BaseURL, Version: version(), Log: log}
	if err := api.Register(e, svc, apiConfig); err != nil {
		return nil, err
	}
	pageError, err := web.ErrorHandler(webConfig)
	if err != nil {
		return nil, err
	}
	e.HTTPErrorHandler = byPath(api.ErrorHandler(apiConfig), pageError)
	if err := web.Register(e, svc, webConfig); err != nil {
		return nil, err
	}
	return below(cfg.basePath(), e), nil
}

// byPath answers errors of the API's paths as problems and all others as pages.
func byPath(problem, page echo.HTTPErrorHandler) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		if path := c.Request().URL.Path; strings.HasPrefix(path, "/v1/") || path == "/v1" || strings.HasPrefix(path, "/openapi") {
			problem(err, c)
			return
		}
		page(err, c)
	}
}

// below serves h under a path prefix; what watches the process asks it without.
func below(prefix string, h http.Handler) http.Handler {
	if prefix == "" {
		return h
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.StripPrefix(prefix, h))
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		mux.Handle("GET "+path, h)
	}
	return mux
}

// clientAddress is the peer, or what a trusted proxy says of it.
func clientAddress(trusted []string) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, t := range trusted {
		if p, err := netip.ParsePrefix(t); err == nil {
			options = append(options, echo.TrustIPRange(ipNet(p)))
		}
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// ownNameOnly keeps other web sites out of a demo on this machine: a page whose name was made
// to resolve to the loopback address (DNS rebinding) would count as the same origin, and the
// demo lets anybody in as anyone.
func ownNameOnly(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		host := c.Request().Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !isLoopback(strings.Trim(host, "[]")) {
			return fault.New(fault.Forbidden, "This demo answers on this machine only, as localhost. To reach it by another name, start it with --public.")
		}
		return next(c)
	}
}

// knowClient puts the client's address and agent into the request's context.
func knowClient(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		client := approval.Client{IP: c.RealIP(), UserAgent: r.UserAgent()}
		c.SetRequest(r.WithContext(approval.WithClient(r.Context(), client)))
		return next(c)
	}
}

// accessLog writes one line per request at debug level; tokens are left out of the path.
func accessLog(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !log.Enabled(c.Request().Context(), slog.LevelDebug) {
				return next(c)
			}
			began := time.Now()
			err := next(c)
			if err != nil {
				c.Error(err)
			}
			log.Debug("request", "method", c.Request().Method, "path", redactPath(c.Request().URL), "status", c.Response().Status,
				"ms", time.Since(began).Milliseconds(), "ip", c.RealIP())
			return nil
		}
	}
}

// redactPath leaves secrets out of a path: decision links, callbacks and login links.
func redactPath(u *url.URL) string {
	path := u.EscapedPath()
	for _, prefix := range []string{"/a/", "/v1/callbacks/", "/login/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && rest != "" {
			return prefix + "[token]"
		}
	}
	return path
}

// recoverPanic turns a handler's panic into a 500 whose cause is only in the log.
func recoverPanic(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				if v := recover(); v != nil && v != http.ErrAbortHandler {
					log.Log(context.Background(), slog.LevelError, "a handler panicked", "path", redactPath(c.Request().URL), "panic", v, "stack", stack())
					err = echo.NewHTTPError(http.StatusInternalServerError)
				} else if v != nil {
					panic(v)
				}
			}()
			return next(c)
		}
	}
}
