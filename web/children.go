package web

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/store"
)

// childrenPage lists the requests that another one has started.
type childrenPage struct {
	Parent       *approval.InstanceView
	Effect       string
	Cursor, Next string
	Rows         []approval.ChildView
}

// Path is the page's own.
func (p *childrenPage) Path() string {
	return "/instances/" + url.PathEscape(p.Parent.ID) + "/children"
}

// Query keeps the filter in a link.
func (p *childrenPage) Query(effect, cursor string) string {
	return query("effect", effect, "cursor", cursor)
}

// Number is a child's place as people count.
func (p *childrenPage) Number(index int) int { return index + 1 }

func (s *site) listChildren(c echo.Context, v *visitor) error {
	ctx := c.Request().Context()
	parent, err := s.svc.Instance(ctx, v.Caller, c.Param("id"))
	if err != nil {
		return err
	}
	p := &childrenPage{Parent: parent, Effect: c.QueryParam("effect"), Cursor: c.QueryParam("cursor")}
	rows, err := s.svc.Children(ctx, v.Caller, parent.ID, p.Effect, store.Paging{Cursor: p.Cursor})
	if err != nil {
		return err
	}
	p.Rows, p.Next = rows.Items, rows.Next
	view := s.page(v, "instances", "", p)
	view.Title = view.Text("children.title", inWords(parent.Definition))
	return s.render(c, http.StatusOK, "children", view)
}
