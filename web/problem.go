package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"vobo/internal/fault"
)

// problemView is a refusal as a page, or the explanation of a kind of refusal.
type problemView struct {
	Code    fault.Code
	Status  int
	Message string
	Fields  []fault.Field
	Comment string // what was typed and not recorded, to be copied
	Login   bool
	Home    string
}

// problemPage shows a refusal: what is wrong and the way out.
func (s *site) problemPage(c echo.Context, f *fault.Error) error {
	p := &problemView{Code: f.Code, Status: f.Code.Status(), Message: f.Message, Fields: f.Fields, Home: "/", Login: f.Code == fault.Unauthorized}
	if r := c.Request(); r.PostForm != nil && p.Status != http.StatusRequestEntityTooLarge {
		p.Comment = tidyComment(r.PostForm.Get("comment"))
	}
	if f.Code == fault.Internal {
		p.Message = ""
	}
	retryAfter(c.Response().Header(), f)
	v := s.public(c, "", p)
	v.Title = v.Text("problem." + string(p.Code))
	return s.render(c, p.Status, "problem", v)
}

// showProblem explains a problem type of the API to a person who follows its address.
func (s *site) showProblem(c echo.Context) error {
	code := fault.Code(c.Param("name"))
	if !slices.Contains(fault.Codes(), code) {
		return fault.New(fault.NotFound, "There is no problem of this name.")
	}
	v := s.public(c, "", &problemView{Code: code, Status: code.Status()})
	v.Title = v.Text("problem." + string(code))
	return s.render(c, http.StatusOK, "problem_type", v)
}

func (s *site) listProblems(c echo.Context) error {
	var all []problemView
	for _, code := range fault.Codes() {
		all = append(all, problemView{Code: code, Status: code.Status()})
	}
	v := s.public(c, "", all)
	v.Title = v.Text("problems.title")
	return s.render(c, http.StatusOK, "problems", v)
}
