package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// redriveSample is how many of the effects a redrive's page shows.
const redriveSample = 50

// redrivePage tries many effects again: it shows how many and which, asks for a reason,
// does it, and says what became of it.
type redrivePage struct {
	effectSearch
	Before  string // queued before: what comes later is not meant
	Plan    *approval.RedriveResult
	Done    *approval.RedriveResult
	Rows    []effectRow // the first of them
	Reason  string
	Once    string
	Errors  map[string]string
	Summary []mistake
	Notice  string
}

// Skipped are those that had changed meanwhile.
func (p *redrivePage) Skipped() (all []approval.RedriveItem) {
	for _, item := range p.Done.Items {
		if item.Outcome == "skipped" {
			all = append(all, item)
		}
	}
	return all
}

// term is one thing that narrows the search, in words.
type term struct{ Key, Value string }

// Terms are what narrows the search.
func (p *redrivePage) Terms() (all []term) {
	for _, t := range []term{{"redrive.term.name", p.Name}, {"redrive.term.definition", p.Definition}, {"redrive.term.kind", p.Kind}, {"redrive.term.host", p.Host}, {"redrive.term.instance", p.Instance}} {
		if t.Value != "" {
			all = append(all, t)
		}
	}
	return all
}

func (p *redrivePage) wrong(field, text string) {
	p.Errors[field] = text
	p.Summary = append(p.Summary, mistake{Target: field, Text: text})
}

// request is what is asked of the service.
func (p *redrivePage) request(before time.Time, reason string) approval.RedriveRequest {
	return approval.RedriveRequest{
		Status: []fsm.EffectStatus{fsm.EffectStatus(p.Status)}, Definition: p.Definition, Name: p.Name, Kind: p.Kind,
		Host: p.Host, Instance: p.Instance, Before: &before, Reason: reason,
	}
}

// redriveOf reads a search; only dead and unknown effects can be tried again.
func redriveOf(values url.Values) *redrivePage {
	p := &redrivePage{effectSearch: searchOf(values), Errors: map[string]string{}}
	if p.Status != "unknown" {
		p.Status = "dead"
	}
	return p
}

func (s *site) showRedrive(c echo.Context, v *visitor) error {
	p := redriveOf(c.QueryParams())
	var err error
	if p.Once, err = s.once(); err != nil {
		return err
	}
	return s.redriveForm(c, v, p, s.cfg.Now(), http.StatusOK)
}

// redriveForm shows what would be tried again.
func (s *site) redriveForm(c echo.Context, v *visitor, p *redrivePage, before time.Time, status int) error {
	ctx := c.Request().Context()
	p.Before = before.UTC().Format(time.RFC3339Nano)
	dry := p.request(before, "")
	dry.DryRun, dry.Reason = true, languageOf(v.Locale).text("redrive.dry")
	plan, err := s.svc.Redrive(ctx, v.Caller, dry, approval.Idempotency{})
	if err != nil {
		return err
	}
	p.Plan = plan
	filter := p.filter()
	filter.Before = &before
	rows, err := s.svc.Effects(ctx, v.Caller, filter, store.Paging{Limit: redriveSample})
	if err != nil {
		return err
	}
	if p.Rows, err = s.whose(ctx, v, rows.Items); err != nil {
		return err
	}
	return s.redriveView(c, v, p, status)
}

func (s *site) redriveView(c echo.Context, v *visitor, p *redrivePage, status int) error {
	view := s.console(v, "effects", p)
	if view.Title = view.Text("redrive.title"); status >= 400 {
		view.Title = view.Text("title.error", view.Title)
	}
	return s.render(c, status, "redrive", view)
}

func (s *site) redrive(c echo.Context, v *visitor) error {
	form, say := c.Request().PostForm, languageOf(v.Locale)
	p := redriveOf(form)
	p.Reason, p.Once = tidyComment(form.Get("reason")), form.Get("once")
	before, err := time.Parse(time.RFC3339Nano, form.Get("before"))
	if err != nil {
		return fault.Wrap(err, fault.Malformed, "This form is not complete, so nothing was done. Open the page again.")
	}
	if p.Reason == "" {
		p.wrong("reason", say.text("confirm.reason.missing"))
		return s.redriveForm(c, v, p, before, http.StatusUnprocessableEntity)
	}
	p.Done, err = s.svc.Redrive(c.Request().Context(), v.Caller, p.request(before, p.Reason), s.idempotency(c, form))
	if err == nil {
		return s.redriveView(c, v, p, http.StatusOK)
	}
	f := refusal(err)
	switch f.Code {
	case fault.Internal, fault.Unauthorized, fault.Forbidden, fault.NotFound:
		return err
	}
	for _, e := range f.Fields {
		p.wrong("reason", e.Detail)
	}
	if len(f.Fields) == 0 {
		p.Notice = f.Message
	}
	retryAfter(c.Response().Header(), f)
	return s.redriveForm(c, v, p, before, f.Code.Status())
}
