package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// The decision page of a link. GET, HEAD and OPTIONS change nothing; POST decides.
// No cookie is read: the address is the capability.

// linkPage is the decision page's body.
type linkPage struct {
	Task     *approval.TaskView
	Decision decision
}

// outcomePage says what became of a link that does not decide (any more).
type outcomePage struct {
	Code    fault.Code
	Icon    string
	Message string
	Fields  []fault.Field
	Winner  *fault.Winner
	Task    *approval.TaskView // nil: nothing may be told about the request
	Own     *recorded          // what this link's holder decided, if they did
	Changed bool               // Task holds what it says now
}

// recorded is what the done page says.
type recorded struct {
	Event    string
	Title    string
	Person   approval.ActorView
	At       approval.Time
	Comment  string
	Input    []fsm.Fact
	Papers   []fsm.Fact
	Pending  *fsm.Pending
	Stayed   bool
	Next     string
	Replayed bool
	Further  string // path of the successor's page
	Instance string
	Inside   bool // seen by a logged-in person
}

func (s *site) showLink(c echo.Context) error {
	link, err := s.svc.ViewToken(c.Request().Context(), c.Param("token"), localeOf(c.Request()))
	if err != nil {
		return s.linkFailed(c, err)
	}
	if link.Closed != nil {
		return s.closedLink(c, link, link.Closed, http.StatusOK)
	}
	return s.linkForm(c, link, http.StatusOK, nil, nil)
}

// linkFailed: whatever is not an authentic link gets one and the same page.
func (s *site) linkFailed(c echo.Context, err error) error {
	if code := fault.CodeOf(err); code != fault.InvalidToken && code != fault.NotFound {
		return err
	}
	v := s.public(c, "", &outcomePage{Code: fault.InvalidToken, Icon: "cross"})
	v.Title = v.Text("outcome.invalid-token")
	return s.render(c, http.StatusNotFound, "outcome", v)
}

// linkView makes the view for the person the link was made for.
func (s *site) linkView(c echo.Context, link *approval.TokenView, title string, body any) *view {
	v := s.public(c, title, body)
	v.clock = s.clockFor(localeOf(c.Request()), s.zoneOf(c.Request().Context(), link.Person.ID))
	v.titled(link.Task.Events)
	return v
}

// zoneOf is a person's zone from the directory; the server's where none is known.
func (s *site) zoneOf(ctx context.Context, person string) *time.Location {
	people, err := s.svc.People(ctx)
	if err != nil {
		s.cfg.Log.Warn("no zone for a page", "error", err)
		return s.cfg.Zone
	}
	for _, p := range people {
		if p.ID == person && p.Timezone != "" {
			zone, err := time.LoadLocation(p.Timezone)
			if err != nil {
				s.cfg.Log.Warn("unknown zone of a person", "zone", p.Timezone, "error", err)
				return s.cfg.Zone
			}
			return zone
		}
	}
	return s.cfg.Zone
}

func (s *site) linkForm(c echo.Context, link *approval.TokenView, status int, values url.Values, problem *fault.Error) error {
	v := s.linkView(c, link, link.Task.Title, nil)
	d := asked{events: link.Task.Events, zone: v.clock.zone, say: v.clock.say}.form(values, problem)
	d.Action, d.Person, d.Link = s.link("/a/"+url.PathEscape(link.Token)), link.Person, true
	if link.Token == "" {
		d.Action = s.link("/a/" + url.PathEscape(c.Param("token")))
	}
	d.Digest = link.Task.Digest
	v.Body, v.Wide = &linkPage{Task: &link.Task, Decision: d}, true
	if status >= 400 {
		v.Title = v.Text("title.error", link.Task.Title)
	}
	if problem != nil {
		retryAfter(c.Response().Header(), problem)
	}
	return s.render(c, status, "decision", v)
}

func (s *site) decideLink(c echo.Context) error {
	form, err := postedForm(c)
	if err != nil {
		return err
	}
	token := c.Param("token")
	link, err := s.svc.ViewToken(c.Request().Context(), token, localeOf(c.Request()))
	if err != nil {
		return s.linkFailed(c, err)
	}
	ask := asked{events: link.Task.Events, zone: s.zoneOf(c.Request().Context(), link.Person.ID), say: languageOf(localeOf(c.Request()))}
	if link.Closed != nil {
		return s.decideClosed(c, link, ask, form)
	}
	if editsRows(form) {
		return s.linkForm(c, link, http.StatusUnprocessableEntity, form, nil)
	}
	req, mistakes := ask.read(form)
	if len(mistakes) > 0 && ask.judges(req, link.Task.Digest) {
		return s.linkForm(c, link, http.StatusUnprocessableEntity, form, invalid(ask.say, mistakes))
	}
	result, err := s.svc.DecideByToken(c.Request().Context(), token, approval.RoutePage, req, s.client(c))
	if err == nil {
		return s.linkDone(c, link, result)
	}
	if f := refusal(err); comesAgain(f.Code) {
		if f.Code == fault.Internal || f.Code == fault.Unavailable {
			s.cfg.Log.Error("decision failed", "route", c.Path(), "error", err)
		}
		return s.linkForm(c, link, f.Code.Status(), form, f)
	}
	return s.closedLink(c, link, err, fault.CodeOf(err).Status())
}

// judges tells whether the form's own mistakes may be the answer: an event that is
// not offered, or a page that has changed, is answered before them.
func (a asked) judges(req approval.RaiseRequest, digest string) bool {
	if req.Event == "" {
		return true
	}
	if req.Digest != "" && req.Digest != digest {
		return false
	}
	for _, e := range a.events {
		if e.Name == req.Event {
			return e.Blocked == ""
		}
	}
	return false
}

func invalid(say language, mistakes []fault.Field) *fault.Error {
	return fault.New(fault.InvalidInput, "%s", say.text("decide.invalid")).With(mistakes...)
}

// comesAgain: the link is still good after these, so the form comes back with what was typed.
func comesAgain(code fault.Code) bool {
	switch code {
	case fault.InvalidInput, fault.GuardRejected, fault.EventNotAllowed, fault.NotPermitted, fault.EventNotAllowedHere, fault.AssuranceRequired,
		fault.LimitExceeded, fault.Malformed, fault.TooLarge, fault.RateLimited, fault.Unavailable, fault.Internal, fault.InProgress, fault.IdempotencyMismatch:
		return true
	}
	return false
}

// decideClosed answers a form sent to a link that is over: the same decision again
// gets its first answer, everything else is told how things stand.
func (s *site) decideClosed(c echo.Context, link *approval.TokenView, ask asked, form url.Values) error {
	if len(form["event"]) != 1 || form.Get("event") == "" {
		return s.closedLink(c, link, link.Closed, fault.CodeOf(link.Closed).Status())
	}
	req, _ := ask.read(form)
	if own, same, err := repeats(form, link.Own); err != nil {
		return err
	} else if same {
		req.Input = own
	}
	result, err := s.svc.DecideByToken(c.Request().Context(), c.Param("token"), approval.RoutePage, req, s.client(c))
	if err != nil {
		return s.closedLink(c, link, err, fault.CodeOf(err).Status())
	}
	return s.linkDone(c, link, result)
}

// repeats gives the input that this link's own decision recorded, if the form is that decision again.
func repeats(form url.Values, own *approval.Result) (input any, same bool, err error) {
	if own == nil || own.Transition.Event != form.Get("event") {
		return nil, false, nil
	}
	if len(own.Transition.Input) > 0 {
		if input, err = definitions.DecodeJSON(own.Transition.Input); err != nil {
			return nil, false, err
		}
	}
	return input, sameInput(form, input), nil
}

// client is all that a link's page may tell about who calls.
func (s *site) client(c echo.Context) approval.Caller {
	return approval.Caller{Locale: localeOf(c.Request())}
}

func (s *site) linkDone(c echo.Context, link *approval.TokenView, result *approval.Result) error {
	done, err := recordedOf(result, &link.Task, link.Person)
	if err != nil {
		return err
	}
	if done.Stayed && result.Token != "" {
		done.Further = "/a/" + url.PathEscape(result.Token)
	}
	if result.Replayed {
		c.Response().Header().Set("Idempotent-Replayed", "true")
	}
	v := s.linkView(c, link, "", done)
	v.Title = v.Text(done.heading())
	return s.render(c, http.StatusOK, "done", v)
}

// closedLink shows how a link's request stands.
func (s *site) closedLink(c echo.Context, link *approval.TokenView, why error, status int) error {
	f := refusal(why)
	if f.Code == fault.InvalidToken {
		return s.linkFailed(c, f)
	}
	if f.Code == fault.Internal || f.Code == fault.Unavailable {
		return why
	}
	page := &outcomePage{Code: f.Code, Icon: outcomeIcons[f.Code], Message: f.Message, Fields: f.Fields, Winner: f.Winner, Changed: f.Code == fault.ContentChanged}
	if !link.Outside || link.Own != nil {
		page.Task = &link.Task
	}
	if link.Own != nil {
		own, err := recordedOf(link.Own, &link.Task, link.Person)
		if err != nil {
			return err
		}
		if own.Stayed && link.Own.Token != "" {
			own.Further = "/a/" + url.PathEscape(link.Own.Token)
		}
		page.Own = own
		if f.Code == fault.AlreadyDecided && status == http.StatusOK {
			v := s.linkView(c, link, "", own)
			v.Title = v.Text(own.heading())
			return s.render(c, status, "done", v)
		}
	}
	v := s.linkView(c, link, "", page)
	v.Title = v.Text(page.Heading())
	return s.render(c, status, "outcome", v)
}

var outcomeIcons = map[fault.Code]string{
	fault.AlreadyDecided: "tick", fault.TokenExpired: "clock", fault.TokenRevoked: "lock",
	fault.Suspended: "pause", fault.ContentChanged: "alert", fault.InvalidToken: "cross",
}

// Heading is the key of the page's heading.
func (p *outcomePage) Heading() string {
	if _, known := outcomeIcons[p.Code]; known {
		return "outcome." + string(p.Code)
	}
	return "outcome.other"
}

// Told tells whether the winner's line already says what the message would.
func (p *outcomePage) Told() bool { return p.Code == fault.AlreadyDecided && p.Winner != nil }

// Way is the key of what to do now.
func (p *outcomePage) Way() string {
	if p.Code == fault.AlreadyDecided && p.Own != nil {
		return "outcome.already-decided.own"
	}
	return p.Heading() + ".way"
}

func recordedOf(result *approval.Result, task *approval.TaskView, person approval.ActorView) (*recorded, error) {
	t := result.Transition
	r := &recorded{
		Event: result.EventLabel, Title: task.Title, Person: person, At: t.At, Comment: t.Comment, Pending: result.Pending,
		Stayed: t.Kind == fsm.TStay, Next: result.Next, Replayed: result.Replayed, Instance: result.Instance.ID,
	}
	if r.Event == "" {
		r.Event = inWords(t.Event)
		for _, e := range task.Events {
			if e.Name == t.Event && strings.TrimSpace(e.Title) != "" {
				r.Event = e.Title
			}
		}
	}
	var err error
	if r.Input, err = factsOf(t.Input); err != nil {
		return nil, err
	}
	r.Papers, err = factsOf(t.Documents)
	return r, err
}

func (r *recorded) heading() string {
	switch {
	case r.Pending != nil && r.Pending.Have < r.Pending.Need:
		return "done.noted"
	case r.Stayed:
		return "done.stayed"
	}
	return "done.recorded"
}

// Heading is the key of the page's heading.
func (r *recorded) Heading() string { return r.heading() }
