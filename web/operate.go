package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// Operators' repair actions. Each has a page of its own that says what it will do,
// asks for a reason, and only then does it.

// confirmPage is such a page.
type confirmPage struct {
	Kind     string // cancel | again | retry | resolve: keys of its words
	Action   string
	Back     string // path of the instance
	Subject  string
	Once     string
	Instance *approval.InstanceView
	Effect   *approval.EffectView
	Undo     []string // effects that would be undone, newest first
	Stays    []string // effects that cannot be undone
	Reason   string
	Outcome  string
	Result   string
	Summary  []mistake
	Errors   map[string]string
	Notice   string
}

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
	p.Reason, p.Once, p.Outcome, p.Result = tidyComment(form.Get("reason")), form.Get("once"), form.Get("outcome"), form.Get("result")
	p.Errors = map[string]string{}
	if p.Reason == "" {
		p.wrong("reason", say.text("confirm.reason.missing"))
	}
	if p.Kind == "resolve" && p.Outcome != "succeeded" && p.Outcome != "failed" {
		p.wrong("outcome", say.text("confirm.outcome.missing"))
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
	effects, err := s.svc.Effects(ctx, v.Caller, store.EffectFilter{Instance: id}, store.Paging{Limit: timelineLimit})
	if err != nil {
		return doing{}, err
	}
	back := "/instances/" + url.PathEscape(instance.ID)
	p := &confirmPage{Kind: "cancel", Action: s.link(back + "/cancel"), Back: back, Instance: instance, Subject: inWords(instance.Definition)}
	for _, e := range effects.Items {
		switch {
		case e.Status != fsm.EffectSucceeded:
		case e.Reversible:
			p.Undo = append(p.Undo, e.Name)
		default:
			p.Stays = append(p.Stays, e.Name)
		}
	}
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
	p := &confirmPage{Kind: "again", Action: s.link(back + "/retry"), Back: back, Instance: instance, Subject: inWords(instance.Definition)}
	return doing{page: p, run: func(reason string, _ url.Values, idem approval.Idempotency) error {
		_, err := s.svc.RaiseAgain(ctx, v.Caller, instance.ID, reason, idem)
		return err
	}}, nil
}

// repairing describes an action on one effect.
func (s *site) repairing(c echo.Context, v *visitor, kind string) (*confirmPage, error) {
	found, err := s.svc.Effects(c.Request().Context(), v.Caller, store.EffectFilter{ID: c.Param("id")}, store.Paging{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(found.Items) == 0 {
		return nil, fault.New(fault.NotFound, "There is no effect of this name.")
	}
	e := &found.Items[0]
	return &confirmPage{Kind: kind, Action: s.link("/effects/" + url.PathEscape(e.ID) + "/" + kind), Back: "/instances/" + url.PathEscape(e.InstanceID), Effect: e, Subject: e.Name}, nil
}

func (s *site) retrying(c echo.Context, v *visitor) (doing, error) {
	p, err := s.repairing(c, v, "retry")
	if err != nil {
		return doing{}, err
	}
	return doing{page: p, run: func(reason string, _ url.Values, idem approval.Idempotency) error {
		_, err := s.svc.RetryEffect(c.Request().Context(), v.Caller, p.Effect.ID, reason, idem)
		return err
	}}, nil
}

func (s *site) resolving(c echo.Context, v *visitor) (doing, error) {
	p, err := s.repairing(c, v, "resolve")
	if err != nil {
		return doing{}, err
	}
	return doing{page: p, run: func(reason string, form url.Values, idem approval.Idempotency) error {
		req := approval.ResolveRequest{Outcome: form.Get("outcome"), Reason: reason}
		if text := strings.TrimSpace(form.Get("result")); text != "" && req.Outcome == "succeeded" {
			result, err := definitions.DecodeJSON([]byte(text))
			if err != nil {
				return fault.Wrap(err, fault.InvalidInput, "The result is not JSON.").With(fault.Field{Pointer: "/result", Detail: languageOf(v.Locale).text("form.bad.json", fault.As(err).Message)})
			}
			req.Result = result
		}
		_, err := s.svc.ResolveEffect(c.Request().Context(), v.Caller, p.Effect.ID, req, idem)
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

func (s *site) showRetry(c echo.Context, v *visitor) error   { return s.asking(c, v, s.retrying) }
func (s *site) retryEffect(c echo.Context, v *visitor) error { return s.doingIt(c, v, s.retrying) }

func (s *site) showResolve(c echo.Context, v *visitor) error { return s.asking(c, v, s.resolving) }

func (s *site) resolveEffect(c echo.Context, v *visitor) error { return s.doingIt(c, v, s.resolving) }
