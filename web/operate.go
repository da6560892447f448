package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/store"
)

// Operators' repair actions. Each has a page of its own that says what it will do,
// asks for a reason, and only then does it.

// confirmPage is such a page.
type confirmPage struct {
	Kind     string // cancel | again | enable: keys of its words
	Action   string
	Back     string // path of where it came from
	Once     string
	Instance *approval.InstanceView
	Plan     *undoPlan          // of a cancel
	Sink     *approval.SinkView // of enable
	Reason   string
	Summary  []mistake
	Errors   map[string]string
	Notice   string
}

// planLimit bounds how many effects the plan of a cancel is made of.
const planLimit = 500

// doing is one action: its page's description and what it does with a reason.
type doing struct {
	page *confirmPage
	run  func(reason string, form url.Values, idem approval.Idempotency) error
}

func (s *site) confirm(c echo.Context, v *visitor, p *confirmPage, status int) error {
	if p.Once == "" || status == http.StatusOK {
		once, err := s.once()
		if err != nil {
			return err
		}
		p.Once = once
	}
	view := s.page(v, "instances", "", p)
	if p.Sink != nil {
		view = s.console(v, "sinks", p)
	}
	view.Title = view.Text("confirm." + p.Kind)
	if status >= 400 {
		view.Title = view.Text("title.error", view.Title)
	}
	return s.render(c, status, "confirm", view)
}

// carryOut asks for a reason, runs the action and leads back to the instance.
func (s *site) carryOut(c echo.Context, v *visitor, d doing) error {
	form, say := c.Request().PostForm, languageOf(v.Locale)
	p := d.page
	p.Reason, p.Once = tidyComment(form.Get("reason")), form.Get("once")
	p.Errors = map[string]string{}
	if p.Reason == "" {
		p.wrong("reason", say.text("confirm.reason.missing"))
	}
	if len(p.Summary) > 0 {
		return s.confirm(c, v, p, http.StatusUnprocessableEntity)
	}
	err := d.run(p.Reason, form, s.idempotency(c, form))
	if err == nil {
		return s.redirect(c, p.Back)
	}
	f := refusal(err)
	switch f.Code {
	case fault.Internal, fault.Unauthorized, fault.Forbidden, fault.NotFound:
		return err
	}
	for _, e := range f.Fields {
		p.wrong(strings.TrimPrefix(e.Pointer, "/"), e.Detail)
	}
	if len(f.Fields) == 0 {
		p.Notice = f.Message
	}
	retryAfter(c.Response().Header(), f)
	return s.confirm(c, v, p, f.Code.Status())
}

func (p *confirmPage) wrong(field, text string) {
	p.Errors[field] = text
	p.Summary = append(p.Summary, mistake{Target: field, Text: text})
}

func (s *site) cancelling(c echo.Context, v *visitor) (doing, error) {
	ctx, id := c.Request().Context(), c.Param("id")
	instance, err := s.svc.Instance(ctx, v.Caller, id)
	if err != nil {
		return doing{}, err
	}
	effects, err := s.svc.Effects(ctx, v.Caller, store.EffectFilter{Instance: id}, store.Paging{Limit: planLimit})
	if err != nil {
		return doing{}, err
	}
	def, err := s.definitionOf(ctx, v, instance)
	if err != nil {
		return doing{}, err
	}
	back := "/instances/" + url.PathEscape(instance.ID)
	p := &confirmPage{Kind: "cancel", Action: s.link(back + "/cancel"), Back: back, Instance: instance, Plan: undoPlanOf(instance, def, effects.Items)}
	return doing{page: p, run: func(reason string, _ url.Values, idem approval.Idempotency) error {
		_, err := s.svc.Cancel(ctx, v.Caller, instance.ID, reason, idem)
		return err
	}}, nil
}

func (s *site) raisingAgain(c echo.Context, v *visitor) (doing, error) {
	ctx := c.Request().Context()
	instance, err := s.svc.Instance(ctx, v.Caller, c.Param("id"))
	if err != nil {
		return doing{}, err
	}
	back := "/instances/" + url.PathEscape(instance.ID)
	p := &confirmPage{Kind: "again", Action: s.link(back + "/retry"), Back: back, Instance: instance}
	return doing{page: p, run: func(reason string, _ url.Values, idem approval.Idempotency) error {
		_, err := s.svc.RaiseAgain(ctx, v.Caller, instance.ID, reason, idem)
		return err
	}}, nil
}

// asking makes the page of an action, doingIt its POST.
func (s *site) asking(c echo.Context, v *visitor, of func(echo.Context, *visitor) (doing, error)) error {
	d, err := of(c, v)
	if err != nil {
		return err
	}
	return s.confirm(c, v, d.page, http.StatusOK)
}

func (s *site) doingIt(c echo.Context, v *visitor, of func(echo.Context, *visitor) (doing, error)) error {
	d, err := of(c, v)
	if err != nil {
		return err
	}
	return s.carryOut(c, v, d)
}

func (s *site) showCancel(c echo.Context, v *visitor) error { return s.asking(c, v, s.cancelling) }
func (s *site) cancel(c echo.Context, v *visitor) error     { return s.doingIt(c, v, s.cancelling) }

func (s *site) showRaiseAgain(c echo.Context, v *visitor) error {
	return s.asking(c, v, s.raisingAgain)
}

func (s *site) raiseAgain(c echo.Context, v *visitor) error { return s.doingIt(c, v, s.raisingAgain) }

func noSuchSink() error {
	return fault.New(fault.NotFound, "There is no endpoint of this name in VOBO_SINKS.")
}
