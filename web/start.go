package web

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/store"
)

// startList names what may be started, newest version of each.
type startList struct{ Definitions []approval.DefinitionView }

func (s *site) listStart(c echo.Context, v *visitor) error {
	all, err := s.svc.Definitions(c.Request().Context(), v.Caller, store.Paging{Limit: 500})
	if err != nil {
		return err
	}
	p := &startList{}
	for _, d := range all.Items {
		_, definition, err := s.svc.Definition(c.Request().Context(), v.Caller, d.Name, d.Version)
		if fault.CodeOf(err) == fault.Forbidden || fault.CodeOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		if !mayStart(v, definition) {
			continue
		}
		if last := len(p.Definitions) - 1; last >= 0 && p.Definitions[last].Name == d.Name {
			if p.Definitions[last].Version < d.Version {
				p.Definitions[last] = d
			}
			continue
		}
		p.Definitions = append(p.Definitions, d)
	}
	view := s.page(v, "start", "", p)
	view.Title = view.Text("start.title")
	return s.render(c, http.StatusOK, "start", view)
}

// mayStart hides what the service would refuse for certain: a definition whose
// requesters are all roles and people, none of them the visitor. The service decides.
func mayStart(v *visitor, d *definitions.Definition) bool {
	for _, p := range d.Requesters {
		switch {
		case p.Kind == definitions.KindRole && v.HasRole(strings.TrimPrefix(p.Text, "role:")):
			return true
		case p.Kind == definitions.KindUser && strings.TrimPrefix(p.Text, "user:") == v.ID:
			return true
		case p.Kind != definitions.KindRole && p.Kind != definitions.KindUser:
			return true
		}
	}
	return false
}

// startPage is the form from a definition's data schema.
type startPage struct {
	Definition *approval.DefinitionView
	Title      string
	Action     string
	Once       string
	Controls   []*control
	Summary    []mistake
	Notice     string
	Taken      string // id of the live instance that has the business key
}

func (s *site) showStart(c echo.Context, v *visitor) error {
	return s.startForm(c, v, http.StatusOK, nil, nil)
}

func (s *site) startForm(c echo.Context, v *visitor, status int, values url.Values, problem *fault.Error) error {
	row, definition, err := s.svc.Definition(c.Request().Context(), v.Caller, c.Param("name"), 0)
	if err != nil {
		return err
	}
	view := s.page(v, "start", "", nil)
	p := &startPage{Definition: row, Title: row.Title, Action: s.link("/start/" + url.PathEscape(row.Name)), Once: values.Get("once")}
	if p.Title == "" {
		p.Title = inWords(row.Name)
	}
	if problem == nil {
		if p.Once, err = s.once(); err != nil {
			return err
		}
	}
	var errs []fault.Field
	if problem != nil {
		errs = problem.Fields
	}
	reader := &formReader{values: values, zone: view.clock.zone, say: view.clock.say}
	p.Controls = reader.controls(startFields(definition), "data", "", errs)
	if problem != nil {
		targets := map[string]string{}
		collectTargets(p.Controls, targets)
		for _, e := range errs {
			p.Summary = append(p.Summary, mistake{Target: nearest(targets, strings.TrimPrefix(e.Pointer, "/data")), Text: e.Detail})
		}
		if len(errs) == 0 {
			p.Notice, p.Taken = problem.Message, problem.Instance
		}
	}
	view.Body, view.Title = p, p.Title
	if status >= 400 {
		view.Title = view.Text("title.error", view.Title)
	}
	return s.render(c, status, "start_form", view)
}

// startFields are the fields that a person fills in at the start: those required, and
// plain ones. What effects and documents write later is not asked for.
func startFields(d *definitions.Definition) []definitions.FormField {
	written := map[string]bool{}
	note := func(assigns []definitions.Assign) {
		for _, a := range assigns {
			written[strings.TrimPrefix(a.Path.Text, "data.")] = true
		}
	}
	for _, state := range d.States {
		for _, e := range state.Events {
			for _, doc := range e.Documents {
				written[doc.Name] = true
			}
			for _, arm := range e.Arms {
				note(arm.Set)
			}
		}
	}
	for _, e := range d.Effects {
		for _, outcome := range []*definitions.Outcome{e.OnSuccess, e.OnFailure} {
			if outcome != nil {
				note(outcome.Set)
			}
		}
	}
	var fields []definitions.FormField
	for _, field := range d.Data.Fields() {
		if field.Required || !written[field.Name] {
			fields = append(fields, field)
		}
	}
	return fields
}

func (s *site) start(c echo.Context, v *visitor) error {
	form := c.Request().PostForm
	if editsRows(form) {
		return s.startForm(c, v, http.StatusUnprocessableEntity, form, nil)
	}
	row, definition, err := s.svc.Definition(c.Request().Context(), v.Caller, c.Param("name"), 0)
	if err != nil {
		return err
	}
	view := s.page(v, "start", "", nil)
	fields := startFields(definition)
	reader := &formReader{values: form, zone: view.clock.zone, say: view.clock.say}
	data := reader.object(fields, "data", "")
	reader.missing(fields, data, "")
	reader.foreign(fields)
	if len(reader.errs) > 0 {
		return s.startForm(c, v, http.StatusUnprocessableEntity, form, invalid(view.clock.say, reader.errs))
	}
	req := approval.StartRequest{Definition: row.Name, Version: row.Version, Data: data, Idem: s.idempotency(c, form)}
	result, err := s.svc.Start(c.Request().Context(), v.Caller, req)
	if err != nil {
		f := refusal(err)
		switch f.Code {
		case fault.InvalidInput, fault.GuardRejected, fault.KeyInUse, fault.LimitExceeded, fault.Unavailable, fault.NotPermitted, fault.Malformed, fault.InProgress:
			retryAfter(c.Response().Header(), f)
			return s.startForm(c, v, f.Code.Status(), form, f)
		}
		return err
	}
	return s.redirect(c, "/instances/"+url.PathEscape(result.View.ID))
}

// foreign refuses fields that the form does not have.
func (f *formReader) foreign(fields []definitions.FormField) {
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		if contains(formOwn, key) {
			continue
		}
		if name, ok := strings.CutPrefix(key, "data."); !ok || !knows(fields, name) {
			f.fail("/"+escapePointer(key), "form.unknown", plainText(shortName(key)))
		}
	}
}
