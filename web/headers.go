package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/fault"
)

// policy is the CSP of every page: only our own files, no inline script or style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; object-src 'none'; base-uri 'none'"

// maxBody bounds a posted form, in bytes (http-api.md, Limits).
const maxBody = 1 << 20

// plain wraps a page's handler: security headers, bounded body, errors as pages.
func (s *site) plain(h echo.HandlerFunc) echo.HandlerFunc { return s.wrap(h, "same-origin") }

// secret is plain for pages whose address is a capability: it never leaves by Referer.
func (s *site) secret(h echo.HandlerFunc) echo.HandlerFunc { return s.wrap(h, "no-referrer") }

func (s *site) wrap(h echo.HandlerFunc, referrer string) echo.HandlerFunc {
	return func(c echo.Context) error {
		s.secureHeaders(c.Response().Header(), referrer)
		if r := c.Request(); r.Body != nil {
			r.Body = http.MaxBytesReader(c.Response(), r.Body, maxBody)
		}
		if err := h(c); err != nil {
			return s.failed(c, err)
		}
		return nil
	}
}

func (s *site) secureHeaders(h http.Header, referrer string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", referrer)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "accelerometer=(), camera=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), payment=(), usb=()")
	h.Set("Vary", "Cookie, Accept-Language")
	if s.secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// refusal turns any error into a fault: echo's own by their status, a body that is too large.
func refusal(err error) *fault.Error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Wrap(err, fault.TooLarge, "What you sent is larger than %d KiB. Shorten it and send it again.", large.Limit>>10)
	}
	if own, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch own.Code {
		case http.StatusNotFound:
			return fault.Wrap(err, fault.NotFound, "There is no page at this address.")
		case http.StatusMethodNotAllowed:
			return fault.Wrap(err, fault.MethodNotAllowed, "This page does not take that kind of request.")
		case http.StatusRequestEntityTooLarge:
			return fault.Wrap(err, fault.TooLarge, "What you sent is too large. Shorten it and send it again.")
		case http.StatusTooManyRequests:
			return fault.Wrap(err, fault.RateLimited, "There were too many requests. Wait a minute and try again.")
		}
		if own.Code >= 400 && own.Code < 500 {
			return fault.Wrap(err, fault.Malformed, "The request could not be read.")
		}
	}
	return fault.As(err)
}

// echoError is the handler of last resort.
func (s *site) echoError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	s.secureHeaders(c.Response().Header(), "no-referrer")
	if err := s.failed(c, err); err != nil {
		s.cfg.Log.Error("error page", "route", c.Path(), "error", err)
	}
}

// failed logs what is ours to mend and shows the problem as a page.
func (s *site) failed(c echo.Context, err error) error {
	f := refusal(err)
	if f.Code == fault.Internal || f.Code == fault.Unavailable {
		s.cfg.Log.Error("page failed", "route", c.Path(), "code", f.Code, "error", err)
	}
	return s.problemPage(c, f)
}

func retryAfter(h http.Header, f *fault.Error) {
	if seconds := int(f.RetryAfter.Seconds() + 0.999); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	} else if f.Code == fault.Unavailable || f.Code == fault.RateLimited {
		h.Set("Retry-After", "5")
	}
}

// localeOf is the first language the browser asks for, "en" without one.
func localeOf(r *http.Request) string {
	first, _, _ := strings.Cut(r.Header.Get("Accept-Language"), ",")
	first, _, _ = strings.Cut(first, ";")
	first = strings.TrimSpace(first)
	if first == "" || first == "*" || len(first) > 35 {
		return "en"
	}
	return first
}
