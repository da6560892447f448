package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/store"
)

// callTabs are the lists of calls, the first is shown without being asked for.
var callTabs = []string{"all", store.CallWaiting, store.CallTaken, store.CallRefused, store.CallExpired}

// callsPage lists calls of webhook sources.
type callsPage struct {
	Status, Source, Event, Instance string
	Cursor, Next                    string
	Tabs                            []tab
	Rows                            []approval.CallView
}

// Query keeps the search in a link.
func (p *callsPage) Query(status string, more ...string) string {
	return query(append([]string{"status", status, "source", p.Source, "event", p.Event, "instance", p.Instance}, more...)...)
}

// Narrowed tells whether more than the tab is chosen.
func (p *callsPage) Narrowed() bool { return p.Source+p.Event+p.Instance != "" }

func (s *site) listCalls(c echo.Context, v *visitor) error {
	get := func(name string) string { return strings.TrimSpace(c.QueryParam(name)) }
	p := &callsPage{Status: get("status"), Source: get("source"), Event: get("event"), Instance: get("instance"), Cursor: c.QueryParam("cursor")}
	if !slices.Contains(callTabs, p.Status) {
		p.Status = callTabs[0]
	}
	filter := store.CallFilter{Source: p.Source, Event: p.Event, Instance: p.Instance}
	if p.Status != "all" {
		filter.Status = p.Status
	}
	rows, err := s.svc.Calls(c.Request().Context(), v.Caller, filter, store.Paging{Cursor: p.Cursor})
	if err != nil {
		return err
	}
	p.Rows, p.Next = rows.Items, rows.Next
	for _, name := range callTabs {
		p.Tabs = append(p.Tabs, tab{Name: name, Path: "/callbacks" + p.Query(name), Open: name == p.Status})
	}
	return s.render(c, http.StatusOK, "calls", s.console(v, "calls", p))
}

func (s *site) listSinks(c echo.Context, v *visitor) error {
	sinks, err := s.svc.Sinks(c.Request().Context(), v.Caller)
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, "sinks", s.console(v, "sinks", sinks))
}

// SinkPath is the page that enables a sink.
func (v *view) SinkPath(name string) string {
	return v.Link("/sinks/", url.PathEscape(name), "/enable")
}

func (s *site) enabling(c echo.Context, v *visitor) (doing, error) {
	ctx := c.Request().Context()
	sinks, err := s.svc.Sinks(ctx, v.Caller)
	if err != nil {
		return doing{}, err
	}
	name := c.Param("name")
	at := slices.IndexFunc(sinks, func(sink approval.SinkView) bool { return sink.Name == name })
	if at < 0 {
		return doing{}, noSuchSink()
	}
	p := &confirmPage{Kind: "enable", Action: s.link("/sinks/" + url.PathEscape(name) + "/enable"), Back: "/sinks", Sink: &sinks[at]}
	return doing{page: p, run: func(reason string, _ url.Values, _ approval.Idempotency) error {
		_, err := s.svc.EnableSink(ctx, v.Caller, name, reason)
		return err
	}}, nil
}

func (s *site) showEnable(c echo.Context, v *visitor) error { return s.asking(c, v, s.enabling) }
func (s *site) enableSink(c echo.Context, v *visitor) error { return s.doingIt(c, v, s.enabling) }
