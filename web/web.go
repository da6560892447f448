// Package web is what people see: decision pages, the inbox, instances, the console of
// operators (effects, calls in, the event feed), log-in, the start page, the mailbox
// page and the pages that explain problems.
//
// Handlers only translate: they bind a request, call one use case of
// approval.Service and render. Every page works without script. Token pages
// (/a/{token}) read no cookie: the URL is the capability. Session forms carry a CSRF
// token and pass http.CrossOriginProtection.
package web

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// MailboxAccess says who may read the mailbox page.
type MailboxAccess int

// The accesses.
const (
	MailboxOff      MailboxAccess = iota // no mailbox page: 404
	MailboxLoopback                      // whoever calls from this machine (demo)
	MailboxAdmins                        // logged-in people with the role admin
)

// Config wires the pages.
type Config struct {
	// BaseURL is the public address without trailing slash; it may have a path prefix.
	// Links, assets, redirects and the cookie's path honour it; nothing is taken from a request.
	BaseURL string
	Demo    bool // the log-in page is a picker that lets anybody in as anyone
	Mailbox MailboxAccess
	Log     *slog.Logger     // nil: slog.Default()
	Now     func() time.Time // for "in 2 days"; required
	Zone    *time.Location   // of people whose zone is not known; nil: UTC
	Rand    io.Reader        // nil: crypto/rand
}

// service is what the pages call of *approval.Service.
type service interface {
	Start(context.Context, approval.Caller, approval.StartRequest) (*approval.StartResult, error)
	Raise(context.Context, approval.Caller, string, approval.RaiseRequest) (*approval.Result, error)
	Cancel(context.Context, approval.Caller, string, string, approval.Idempotency) (*approval.CancelResult, error)
	RaiseAgain(context.Context, approval.Caller, string, string, approval.Idempotency) (*approval.Result, error)
	Instance(context.Context, approval.Caller, string) (*approval.InstanceView, error)
	Instances(context.Context, approval.Caller, store.InstanceFilter, store.Paging) (store.Page[approval.InstanceView], error)
	History(context.Context, approval.Caller, string, store.Paging) (store.Page[approval.TransitionView], error)
	Explain(context.Context, approval.Caller, string) (*approval.ExplainView, error)
	Links(context.Context, approval.Caller, string) ([]approval.LinkView, error)
	Diagram(context.Context, approval.Caller, string) ([]byte, error)
	Tasks(context.Context, approval.Caller, approval.TaskQuery, store.Paging) (store.Page[approval.TaskView], error)
	Task(context.Context, approval.Caller, string) (*approval.TaskView, error)
	DecideTask(context.Context, approval.Caller, string, approval.RaiseRequest) (*approval.Result, error)
	InboxCounts(context.Context, approval.Caller) (approval.InboxCounts, error)
	ViewToken(ctx context.Context, token, locale string) (*approval.TokenView, error)
	DecideByToken(context.Context, string, approval.Route, approval.RaiseRequest, approval.Caller) (*approval.Result, error)
	Effects(context.Context, approval.Caller, store.EffectFilter, store.Paging) (store.Page[approval.EffectView], error)
	EffectCounts(context.Context, approval.Caller) (map[fsm.EffectStatus]int, error)
	Effect(context.Context, approval.Caller, string) (*approval.EffectView, error)
	RetryEffect(context.Context, approval.Caller, string, string, approval.Idempotency) (*approval.EffectView, error)
	ResolveEffect(context.Context, approval.Caller, string, approval.ResolveRequest, approval.Idempotency) (*approval.EffectView, error)
	Redrive(context.Context, approval.Caller, approval.RedriveRequest, approval.Idempotency) (*approval.RedriveResult, error)
	Calls(context.Context, approval.Caller, store.CallFilter, store.Paging) (store.Page[approval.CallView], error)
	Children(ctx context.Context, c approval.Caller, instance, effect string, p store.Paging) (store.Page[approval.ChildView], error)
	Sinks(context.Context, approval.Caller) ([]approval.SinkView, error)
	EnableSink(ctx context.Context, c approval.Caller, name, reason string) (*approval.SinkView, error)
	Definitions(context.Context, approval.Caller, store.Paging) (store.Page[approval.DefinitionView], error)
	Definition(context.Context, approval.Caller, string, int) (*approval.DefinitionView, *definitions.Definition, error)
	RequestLogin(ctx context.Context, email, next string) error
	PeekLogin(ctx context.Context, token string) error
	Login(ctx context.Context, token string) (session, csrf, next string, err error)
	LoginAs(ctx context.Context, personID string) (session, csrf string, err error)
	Session(ctx context.Context, session string) (approval.Caller, string, error)
	Logout(ctx context.Context, session string) error
	People(ctx context.Context) ([]fsm.Person, error)
	Mailbox(context.Context, store.Paging) (store.Page[approval.MailView], error)
	Mail(ctx context.Context, id string) (*approval.MailView, error)
}

var _ service = (*approval.Service)(nil)

// site is the pages with what they need.
type site struct {
	svc    service
	cfg    Config
	prefix string // path of the base URL, "" or "/flow"
	secure bool   // base URL is https
	cross  *http.CrossOriginProtection
	pages  *pages
	assets *assets

	troubles *troubles
}

// Register puts the pages' routes on e. Paths come without the base URL's prefix.
func Register(e *echo.Echo, svc service, cfg Config) error {
	s, err := newSite(svc, cfg)
	if err != nil {
		return err
	}
	s.routes(e)
	return nil
}

// ErrorHandler renders whatever no handler has answered (404, 405, 500) as a page;
// cmd uses it for paths that are not of the API.
func ErrorHandler(cfg Config) (echo.HTTPErrorHandler, error) {
	s, err := newSite(nil, cfg)
	if err != nil {
		return nil, err
	}
	return s.echoError, nil
}

func newSite(svc service, cfg Config) (*site, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("web: base URL %q is not an http or https address", cfg.BaseURL)
	}
	if cfg.Now == nil {
		return nil, fmt.Errorf("web: Config.Now is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	cross := http.NewCrossOriginProtection()
	if err := cross.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
		return nil, fmt.Errorf("web: base URL %q: %w", cfg.BaseURL, err)
	}
	files, err := loadAssets()
	if err != nil {
		return nil, err
	}
	s := &site{svc: svc, cfg: cfg, prefix: strings.TrimRight(base.EscapedPath(), "/"), secure: base.Scheme == "https", cross: cross, assets: files, troubles: &troubles{}}
	s.pages, err = loadPages()
	return s, err
}

func (s *site) routes(e *echo.Echo) {
	page := func(path string, h echo.HandlerFunc) {
		e.GET(path, s.plain(h))
		e.HEAD(path, s.plain(h))
	}
	token := func(path string, show, act echo.HandlerFunc) {
		e.GET(path, s.secret(show))
		e.HEAD(path, s.secret(show))
		e.POST(path, s.secret(act))
		e.OPTIONS(path, s.secret(allowed))
	}
	mine := func(path string, h handler) { page(path, s.signedIn(h)) }
	form := func(path string, show, act handler) {
		mine(path, show)
		e.POST(path, s.plain(s.guarded(act)))
	}
	token("/a/:token", s.showLink, s.decideLink)
	page("/login", s.showLogin)
	e.POST("/login", s.plain(s.requestLogin))
	token("/login/:token", s.showLoginLink, s.useLoginLink)
	e.POST("/logout", s.plain(s.guarded(s.logout)))

	page("/", s.home)
	mine("/inbox", s.showInbox)
	form("/tasks/:id", s.showTask, s.decideTask)
	mine("/instances", s.listInstances)
	mine("/instances/:id", s.showInstance)
	mine("/instances/:id/diagram.svg", s.showDiagram)
	form("/instances/:id/act", s.showAct, s.act)
	form("/instances/:id/cancel", s.showCancel, s.cancel)
	form("/instances/:id/retry", s.showRaiseAgain, s.raiseAgain)
	mine("/instances/:id/children", s.listChildren)
	mine("/start", s.listStart)
	form("/start/:name", s.showStart, s.start)

	mine("/attention", s.showAttention)
	mine("/effects", s.listEffects)
	form("/effects/redrive", s.operators(s.showRedrive), s.operators(s.redrive))
	mine("/effects/:id", s.showEffect)
	e.POST("/effects/:id", s.plain(s.guarded(s.operators(s.endEffect))))
	mine("/callbacks", s.listCalls)
	mine("/sinks", s.listSinks)
	form("/sinks/:name/enable", s.operators(s.showEnable), s.operators(s.enableSink))

	page("/dev/mail", s.mailbox(s.listMail))
	page("/dev/mail/:id", s.mailbox(s.showMail))
	page("/dev/mail/:id/html", s.mailbox(s.showMailHTML))
	page("/problems", s.listProblems)
	page("/problems/:name", s.showProblem)
	e.GET("/static/*", s.static)
	e.HEAD("/static/*", s.static)
	e.GET("/favicon.ico", s.favicon)
	e.HEAD("/favicon.ico", s.favicon)
}

// allowed answers OPTIONS on a token's page: it changes nothing and says so.
func allowed(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderAllow, "GET, HEAD, OPTIONS, POST")
	return c.NoContent(http.StatusNoContent)
}

// link gives the path of one of our pages as the browser must ask for it.
func (s *site) link(path string) string { return s.prefix + path }
