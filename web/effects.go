package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// effectKinds are what the list may be narrowed to.
var effectKinds = []string{"webhook", "email", "start", "event", "manual", "stop", "task-mail", "notice-mail"}

// effectSearch is what narrows a list of effects, as its address says it.
type effectSearch struct{ Status, Definition, Name, Kind, Host, Instance string }

func searchOf(values url.Values) effectSearch {
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f := effectSearch{Status: get("status"), Definition: get("definition"), Name: get("name"), Kind: get("kind"), Host: get("host"), Instance: get("instance")}
	if !slices.Contains(effectTabs, f.Status) {
		f.Status = effectTabs[0]
	}
	return f
}

// effectTabs are the lists of the console, the first is shown without being asked for.
var effectTabs = []string{"dead", "unknown", "retrying", "all"}

// Query keeps the search in a link.
func (f effectSearch) Query(more ...string) string {
	return query(append([]string{"status", f.Status, "definition", f.Definition, "name", f.Name, "kind", f.Kind, "host", f.Host, "instance", f.Instance}, more...)...)
}

// In is the same search in another tab.
func (f effectSearch) In(status string) effectSearch {
	f.Status = status
	return f
}

// Narrowed tells whether more than the tab is chosen.
func (f effectSearch) Narrowed() bool {
	return f.Definition+f.Name+f.Kind+f.Host+f.Instance != ""
}

// Kinds are what Kind may be.
func (f effectSearch) Kinds() []string { return effectKinds }

func (f effectSearch) filter() store.EffectFilter {
	filter := store.EffectFilter{Instance: f.Instance, Kind: f.Kind, Name: f.Name, Host: f.Host, Definition: f.Definition}
	if f.Status != "all" {
		filter.Open = true // what was given up waits for nobody
		filter.Status = []fsm.EffectStatus{fsm.EffectStatus(f.Status)}
	}
	return filter
}

// effectRow is an effect with the request that it belongs to.
type effectRow struct {
	approval.EffectView
	Whose *approval.InstanceView // nil: not to be read
}

// Why says in words why it stands where it stands.
func (r effectRow) Why() string { return reasonOf(&r.EffectView) }

// Since is when it came to stand there.
func (r effectRow) Since() approval.Time { return sinceOf(&r.EffectView) }

func reasonOf(e *approval.EffectView) string {
	if e.Reason != "" || len(e.Attempts) == 0 || e.Status == fsm.EffectSucceeded || e.Status == fsm.EffectCancelled {
		return e.Reason
	}
	return e.Attempts[len(e.Attempts)-1].Detail
}

func sinceOf(e *approval.EffectView) approval.Time {
	switch {
	case e.FinishedAt != nil:
		return *e.FinishedAt
	case e.Status == fsm.EffectWaiting || e.Status == fsm.EffectRetrying || len(e.Attempts) == 0:
		return e.QueuedAt
	}
	return e.Attempts[len(e.Attempts)-1].At
}

type effectsPage struct {
	effectSearch
	Cursor, Next string
	Tabs         []tab
	Rows         []effectRow
	Definitions  []string
}

// Bulk tells whether what is listed may be tried again together.
func (p *effectsPage) Bulk() bool {
	return len(p.Rows) > 0 && (p.Status == "dead" || p.Status == "unknown")
}

func (s *site) listEffects(c echo.Context, v *visitor) error {
	ctx := c.Request().Context()
	p := &effectsPage{effectSearch: searchOf(c.QueryParams()), Cursor: c.QueryParam("cursor")}
	rows, err := s.svc.Effects(ctx, v.Caller, p.filter(), store.Paging{Cursor: p.Cursor})
	if err != nil {
		return err
	}
	p.Next = rows.Next
	if p.Rows, err = s.whose(ctx, v, rows.Items); err != nil {
		return err
	}
	for _, name := range effectTabs {
		t := tab{Name: name, Path: "/effects" + p.In(name).Query(), Open: name == p.Status}
		if name != "all" {
			n, err := s.countEffects(ctx, v, p.In(name).filter())
			if err != nil {
				return err
			}
			t.Count = &n
		}
		p.Tabs = append(p.Tabs, t)
	}
	if p.Definitions, err = s.definitionNames(ctx, v); err != nil {
		return err
	}
	return s.render(c, http.StatusOK, "effects", s.console(v, "effects", p))
}

// whose finds the requests that effects belong to, each once.
func (s *site) whose(ctx context.Context, v *visitor, effects []approval.EffectView) ([]effectRow, error) {
	known := map[string]*approval.InstanceView{}
	rows := make([]effectRow, 0, len(effects))
	for _, e := range effects {
		if _, found := known[e.InstanceID]; !found {
			page, err := s.svc.Instances(ctx, v.Caller, store.InstanceFilter{ID: e.InstanceID}, store.Paging{Limit: 1})
			if err != nil {
				return nil, err
			}
			known[e.InstanceID] = nil
			if len(page.Items) > 0 {
				known[e.InstanceID] = &page.Items[0]
			}
		}
		rows = append(rows, effectRow{EffectView: e, Whose: known[e.InstanceID]})
	}
	return rows, nil
}

// definitionNames are the names to choose from; none where the visitor may not list them.
func (s *site) definitionNames(ctx context.Context, v *visitor) (names []string, err error) {
	all, err := s.svc.Definitions(ctx, v.Caller, store.Paging{Limit: 500})
	if err != nil && fault.CodeOf(err) != fault.Forbidden {
		return nil, err
	}
	for _, d := range all.Items {
		if !contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names, nil
}
