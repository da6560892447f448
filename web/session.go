package web

import (
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fault"
)

// visitor is a logged-in person with what their forms need.
type visitor struct {
	approval.Caller
	csrf string
}

// handler serves a logged-in person.
type handler func(c echo.Context, v *visitor) error

// cookieName: the __Host- prefix needs https and the path "/".
func (s *site) cookieName() string {
	switch {
	case s.secure && s.prefix == "":
		return "__Host-vobo"
	case s.secure:
		return "__Secure-vobo"
	}
	return "vobo"
}

func (s *site) cookie(name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: s.prefix + "/", MaxAge: maxAge, Secure: s.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// visitorOf reads the session; nil without a live one. Errors are of the service.
func (s *site) visitorOf(c echo.Context) (*visitor, error) {
	cookie, err := c.Cookie(s.cookieName())
	if err != nil || cookie.Value == "" {
		return nil, nil
	}
	caller, csrf, err := s.svc.Session(c.Request().Context(), cookie.Value)
	if code := fault.CodeOf(err); code == fault.Unauthorized || code == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if caller.Locale == "" {
		caller.Locale = localeOf(c.Request())
	}
	if caller.Zone == nil {
		caller.Zone = s.cfg.Zone
	}
	return &visitor{Caller: caller, csrf: csrf}, nil
}

// signedIn leads strangers to the log-in page and back.
func (s *site) signedIn(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, err := s.visitorOf(c)
		if err != nil {
			return err
		}
		if v == nil {
			return s.redirect(c, "/login?next="+url.QueryEscape(safeNext(c.Request().URL.RequestURI())))
		}
		return h(c, v)
	}
}

// guarded is signedIn for forms that change something: same origin and the session's CSRF token.
func (s *site) guarded(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.sameOrigin(c); err != nil {
			return err
		}
		v, err := s.visitorOf(c)
		if err != nil {
			return err
		}
		if v == nil {
			return fault.New(fault.Unauthorized, "You are not logged in any more, so nothing was recorded. Log in and do it again.")
		}
		form, err := postedForm(c)
		if err != nil {
			return err
		}
		if v.csrf == "" || subtle.ConstantTimeCompare([]byte(form.Get("csrf")), []byte(v.csrf)) != 1 {
			return fault.New(fault.Forbidden, "This form is not from your present session, so nothing was recorded. Go back, load the page again and send it once more.")
		}
		return h(c, v)
	}
}

func (s *site) sameOrigin(c echo.Context) error {
	if err := s.cross.Check(c.Request()); err != nil {
		return fault.Wrap(err, fault.Forbidden, "This request came from another site, so nothing was recorded. Open the page here and send its form.")
	}
	return nil
}

// postedForm reads a form's fields. Only the two encodings of forms are read: nothing
// that a foreign page may send as plain text is ever taken for one.
func postedForm(c echo.Context) (url.Values, error) {
	r := c.Request()
	kind, _, _ := strings.Cut(r.Header.Get(echo.HeaderContentType), ";")
	var err error
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case echo.MIMEApplicationForm:
		err = r.ParseForm()
	case echo.MIMEMultipartForm:
		err = r.ParseMultipartForm(maxBody)
	case "":
		if r.ContentLength != 0 {
			return nil, fault.New(fault.Unsupported, "Send this form as application/x-www-form-urlencoded.")
		}
		return url.Values{}, nil
	default:
		return nil, fault.New(fault.Unsupported, "Send this form as application/x-www-form-urlencoded.")
	}
	if f := refusal(err); f != nil && f.Code == fault.TooLarge {
		return nil, f
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Malformed, "The form could not be read.")
	}
	return r.PostForm, checkText(r.PostForm)
}

// redirect answers 303 to one of our own paths.
func (s *site) redirect(c echo.Context, path string) error {
	return c.Redirect(http.StatusSeeOther, s.link(path))
}

// enter starts a session in the browser: a new id, the old one dead, then onwards.
func (s *site) enter(c echo.Context, session, next string) error {
	if old, err := c.Cookie(s.cookieName()); err == nil && old.Value != "" {
		if err := s.svc.Logout(c.Request().Context(), old.Value); err != nil && fault.CodeOf(err) != fault.Unauthorized && fault.CodeOf(err) != fault.NotFound {
			return err
		}
	}
	c.SetCookie(s.cookie(s.cookieName(), session, 0))
	return s.redirect(c, safeNext(next))
}

// once makes a random key that tells a form sent twice from two forms.
func (s *site) once() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(s.cfg.Rand, b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}
