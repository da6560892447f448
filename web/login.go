package web

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// loginPage asks for an address, or in the demo lets one pick a person.
type loginPage struct {
	Next    string
	People  []fsm.Person
	Email   string
	Error   string
	Sent    bool
	Visitor *visitor
}

// linkLogin is the page of a mailed log-in link. Looking at it logs nobody in.
type linkLogin struct{ Action, Nonce string }

func (s *site) showLogin(c echo.Context) error {
	v, err := s.visitorOf(c)
	if err != nil {
		return err
	}
	return s.loginForm(c, http.StatusOK, &loginPage{Next: safeNext(c.QueryParam("next")), Visitor: v})
}

func (s *site) loginForm(c echo.Context, status int, p *loginPage) error {
	if s.cfg.Demo {
		people, err := s.svc.People(c.Request().Context())
		if err != nil {
			return err
		}
		for _, person := range people {
			if person.Active {
				p.People = append(p.People, person)
			}
		}
	}
	v := s.public(c, "", p)
	v.Title = v.Text("login.title")
	if p.Error != "" {
		v.Title = v.Text("title.error", v.Title)
	}
	return s.render(c, status, "login", v)
}

// requestLogin answers the same for every address; in the demo it may take a person at once.
func (s *site) requestLogin(c echo.Context) error {
	if err := s.sameOrigin(c); err != nil {
		return err
	}
	form, err := postedForm(c)
	if err != nil {
		return err
	}
	next := safeNext(form.Get("next"))
	if person := form.Get("person"); s.cfg.Demo && person != "" {
		session, _, err := s.svc.LoginAs(c.Request().Context(), person)
		if err != nil {
			return err
		}
		return s.enter(c, session, next)
	}
	email := strings.TrimSpace(form.Get("email"))
	if at := strings.LastIndexByte(email, '@'); at < 1 || at == len(email)-1 || len(email) > 254 || strings.ContainsAny(email, " \t\r\n<>,;\"") {
		say := languageOf(localeOf(c.Request()))
		return s.loginForm(c, http.StatusUnprocessableEntity, &loginPage{Next: next, Email: email, Error: say.text("login.bad")})
	}
	if err := s.svc.RequestLogin(c.Request().Context(), email, next); err != nil {
		return err
	}
	return s.loginForm(c, http.StatusOK, &loginPage{Next: next, Email: email, Sent: true})
}

// nonceName is the cookie that ties the log-in form to the browser that loaded it, so
// that no other site can log somebody in with a link of its own. A page that hides its
// address posts "Origin: null", so the origin cannot be asked here.
func (s *site) nonceName() string {
	if s.secure {
		return "__Secure-vobo-login"
	}
	return "vobo-login"
}

func (s *site) showLoginLink(c echo.Context) error {
	if err := s.svc.PeekLogin(c.Request().Context(), c.Param("token")); err != nil {
		return s.loginLinkFailed(c, err)
	}
	nonce, err := s.once()
	if err != nil {
		return err
	}
	c.SetCookie(s.cookie(s.nonceName(), nonce, 900))
	v := s.public(c, "", &linkLogin{Action: s.link("/login/" + url.PathEscape(c.Param("token"))), Nonce: nonce})
	v.Title = v.Text("login.link.title")
	return s.render(c, http.StatusOK, "login_link", v)
}

func (s *site) loginLinkFailed(c echo.Context, err error) error {
	switch fault.CodeOf(err) {
	case fault.NotFound, fault.InvalidToken, fault.Unauthorized, fault.TokenExpired:
		v := s.public(c, "", &linkLogin{})
		v.Title = v.Text("login.link.dead")
		return s.render(c, http.StatusNotFound, "login_link", v)
	}
	return err
}

func (s *site) useLoginLink(c echo.Context) error {
	form, err := postedForm(c)
	if err != nil {
		return err
	}
	cookie, err := c.Cookie(s.nonceName())
	if err != nil || cookie.Value == "" || subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(form.Get("nonce"))) != 1 {
		return fault.New(fault.Forbidden, "Open the link from your mail in this browser, with cookies allowed, and press the button there.")
	}
	session, _, next, err := s.svc.Login(c.Request().Context(), c.Param("token"))
	if err != nil {
		return s.loginLinkFailed(c, err)
	}
	c.SetCookie(s.cookie(s.nonceName(), "", -1))
	return s.enter(c, session, next)
}

func (s *site) logout(c echo.Context, _ *visitor) error {
	cookie, err := c.Cookie(s.cookieName())
	if err != nil {
		return fault.Wrap(err, fault.Unauthorized, "You are not logged in.")
	}
	if err := s.svc.Logout(c.Request().Context(), cookie.Value); err != nil {
		return err
	}
	c.SetCookie(s.cookie(s.cookieName(), "", -1))
	c.Response().Header().Set("Clear-Site-Data", `"cache"`)
	return s.redirect(c, "/login")
}
