package web

import (
	"crypto/sha256"
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

// instancesPage lists requests.
type instancesPage struct {
	Q, Definition, State, Status, Cursor, Next string
	Attention                                  bool
	Rows                                       []approval.InstanceView
	Definitions                                []string
}

// Query keeps the filters in a link.
func (p *instancesPage) Query(cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": p.Q, "definition": p.Definition, "state": p.State, "status": p.Status, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if p.Attention {
		q.Set("attention", "true")
	}
	return "?" + q.Encode()
}

// Filtered tells whether the list is narrowed.
func (p *instancesPage) Filtered() bool {
	return p.Q+p.Definition+p.State+p.Status != "" || p.Attention
}

// Statuses are what the list may be narrowed to.
func (p *instancesPage) Statuses() []string {
	return []string{string(fsm.Running), string(fsm.Suspended), string(fsm.Finished), string(fsm.Cancelled)}
}

func (s *site) listInstances(c echo.Context, v *visitor) error {
	p := &instancesPage{
		Q: strings.TrimSpace(c.QueryParam("q")), Definition: c.QueryParam("definition"), State: c.QueryParam("state"),
		Status: c.QueryParam("status"), Cursor: c.QueryParam("cursor"), Attention: c.QueryParam("attention") == "true",
	}
	filter := store.InstanceFilter{Definition: p.Definition, State: p.State, Status: fsm.Status(p.Status), Q: p.Q}
	if p.Attention {
		filter.Attention = &p.Attention
	}
	rows, err := s.svc.Instances(c.Request().Context(), v.Caller, filter, store.Paging{Cursor: p.Cursor})
	if err != nil {
		return err
	}
	p.Rows, p.Next = rows.Items, rows.Next
	if p.Definitions, err = s.definitionNames(c.Request().Context(), v); err != nil {
		return err
	}
	view := s.page(v, "instances", "", p)
	view.Title = view.Text("instances.title")
	return s.render(c, http.StatusOK, "instances", view)
}

// instancePage is one request with everything that may be known of it.
type instancePage struct {
	*approval.InstanceView
	Title      string
	Process    string // the definition's title
	StateLabel string
	Explain    *approval.ExplainView
	Facts      []fsm.Fact
	History    []approval.TransitionView
	Cut        bool // the history goes on
	All        []approval.EffectView
	Links      []approval.LinkView
	Undoing    *undoing // nil: nothing is being undone
	Path       string   // the states gone through, in words, for the diagram's text
}

// timelineLimit bounds how many history rows and effects one page shows.
const timelineLimit = 200

func (s *site) showInstance(c echo.Context, v *visitor) error {
	ctx, id := c.Request().Context(), c.Param("id")
	instance, err := s.svc.Instance(ctx, v.Caller, id)
	if err != nil {
		return err
	}
	p := &instancePage{InstanceView: instance, Title: inWords(instance.Definition), StateLabel: inWords(instance.State)}
	def, err := s.definitionOf(ctx, v, instance)
	if err != nil {
		return err
	}
	p.Process = processTitle(def, instance, v.Locale)
	if p.Facts, err = factsOf(instance.Data); err != nil {
		return err
	}
	if p.Explain, err = s.svc.Explain(ctx, v.Caller, id); err != nil {
		return err
	}
	history, err := s.svc.History(ctx, v.Caller, id, store.Paging{Limit: timelineLimit})
	if err != nil {
		return err
	}
	p.History, p.Cut = history.Items, history.Next != ""
	effects, err := s.svc.Effects(ctx, v.Caller, store.EffectFilter{Instance: id}, store.Paging{Limit: timelineLimit})
	if code := fault.CodeOf(err); err != nil && code != fault.Forbidden {
		return err
	}
	if p.All = effects.Items; err != nil {
		p.All = instance.Effects
	}
	p.Undoing = undoingOf(instance.Compensation, p.All)
	if p.Links, err = s.svc.Links(ctx, v.Caller, id); err != nil && fault.CodeOf(err) != fault.Forbidden {
		return err
	}
	p.name()
	view := s.page(v, "instances", p.Title, p)
	view.titled(instance.Events)
	view.gaveUp(p.All)
	for _, l := range p.Explain.LateResults {
		view.late = append(view.late, l.Effect)
	}
	for _, e := range p.Explain.Events {
		view.titles[e.Name] = e.Title
	}
	return s.render(c, http.StatusOK, "instance", view)
}

// name takes the titles of what is open, and the path for those who do not see the diagram.
func (p *instancePage) name() {
	for _, task := range p.Tasks {
		if task.Title != "" {
			p.Title = task.Title
		}
		if task.StateLabel != "" {
			p.StateLabel = task.StateLabel
		}
	}
	var path []string
	for _, t := range p.History {
		if t.To != "" {
			path = append(path, inWords(t.To))
		}
	}
	p.Path = strings.Join(path, " → ")
}

// EffectAt is the effect that an attention reason is about, or nil.
func (p *instancePage) EffectAt(ref string) *approval.EffectView {
	for i := range p.All {
		if e := &p.All[i]; isAbout(ref, e.ID, p.ID) {
			return e
		}
	}
	return nil
}

// Outward are the effects to read first: all but mails that went well.
func (p *instancePage) Outward() []approval.EffectView { return p.sorted(false) }

// Mails are the mails that need nobody's eye, which the page folds away.
func (p *instancePage) Mails() []approval.EffectView { return p.sorted(true) }

func (p *instancePage) sorted(mails bool) (all []approval.EffectView) {
	for _, e := range p.All {
		mail := e.Kind == "email" || strings.HasSuffix(e.Kind, "-mail")
		if quiet := mail && !slices.Contains(needPeople, e.Status) && e.Status != fsm.EffectRetrying && !p.Late(e.ID); quiet == mails {
			all = append(all, e)
		}
	}
	return all
}

// Late tells whether an effect's result came when the wait that asked for it was over.
func (p *instancePage) Late(effect string) bool {
	return slices.ContainsFunc(p.Explain.LateResults, func(l approval.LateResultView) bool { return l.Effect == effect })
}

// Live tells whether the instance may still be cancelled.
func (p *instancePage) Live() bool { return p.Status == fsm.Running || p.Status == fsm.Suspended }

// Steps tells whether the visitor may raise an event that no open task offers them.
func (p *instancePage) Steps() bool {
	offered := map[string]bool{}
	for _, task := range p.Tasks {
		for _, e := range task.Events {
			offered[e.Name] = task.Status == "open"
		}
	}
	for _, e := range p.Events {
		if !offered[e.Name] {
			return true
		}
	}
	return false
}

// RaiseAgain tells whether an event of the engine failed and may be raised again.
func (p *instancePage) RaiseAgain() bool {
	for _, a := range p.AttentionReasons {
		if a.Reason == "quarantine" || a.Reason == "deadline-failed" || a.Reason == "result-refused" {
			return true
		}
	}
	return false
}

func (s *site) showDiagram(c echo.Context, v *visitor) error {
	svg, err := s.svc.Diagram(c.Request().Context(), v.Caller, c.Param("id"))
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'; object-src 'none'; base-uri 'none'; form-action 'none'")
	return c.Blob(http.StatusOK, "image/svg+xml", svg)
}

// actPage lets the visitor raise an event that no task of theirs offers.
type actPage struct {
	Instance *approval.InstanceView
	Facts    []fsm.Fact
	Form     *decision
	Done     *recorded
}

func (s *site) showAct(c echo.Context, v *visitor) error {
	instance, err := s.svc.Instance(c.Request().Context(), v.Caller, c.Param("id"))
	if err != nil {
		return err
	}
	return s.actForm(c, v, instance, http.StatusOK, nil, nil)
}

func (s *site) actForm(c echo.Context, v *visitor, instance *approval.InstanceView, status int, values url.Values, problem *fault.Error) error {
	p := &actPage{Instance: instance}
	view := s.page(v, "instances", "", p)
	view.Title = view.Text("act.title")
	var err error
	if p.Facts, err = factsOf(instance.Data); err != nil {
		return err
	}
	d := asked{events: instance.Events, zone: view.clock.zone, say: view.clock.say}.form(values, problem)
	d.Heading, d.Action, d.Person = "act.heading", s.link("/instances/"+url.PathEscape(instance.ID)+"/act"), approval.ActorView{ID: v.ID, Name: v.Name}
	if err := s.hide(&d, v, values); err != nil {
		return err
	}
	p.Form = &d
	if problem != nil {
		view.Title = view.Text("title.error", view.Title)
		retryAfter(c.Response().Header(), problem)
	}
	return s.render(c, status, "act", view)
}

func (s *site) act(c echo.Context, v *visitor) error {
	form := c.Request().PostForm
	instance, err := s.svc.Instance(c.Request().Context(), v.Caller, c.Param("id"))
	if err != nil {
		return err
	}
	view := s.page(v, "instances", "", nil)
	ask := asked{events: instance.Events, zone: view.clock.zone, say: view.clock.say}
	if editsRows(form) {
		return s.actForm(c, v, instance, http.StatusUnprocessableEntity, form, nil)
	}
	req, mistakes := ask.read(form)
	if len(mistakes) > 0 && ask.judges(req, req.Digest) {
		return s.actForm(c, v, instance, http.StatusUnprocessableEntity, form, invalid(ask.say, mistakes))
	}
	req.Idem = s.idempotency(c, form)
	result, err := s.svc.Raise(c.Request().Context(), v.Caller, instance.ID, req)
	if err != nil {
		f := refusal(err)
		if !comesAgain(f.Code) || f.Code == fault.Internal {
			return err
		}
		return s.actForm(c, v, instance, f.Code.Status(), form, f)
	}
	done, err := recordedOf(result, &approval.TaskView{Title: inWords(instance.Definition), Events: instance.Events}, approval.ActorView{ID: v.ID, Name: v.Name})
	if err != nil {
		return err
	}
	done.Inside = true
	view.Body, view.Title = &actPage{Instance: instance, Done: done}, view.Text(done.heading())
	return s.render(c, http.StatusOK, "act", view)
}

// idempotency makes a form that is sent twice count once.
func (s *site) idempotency(c echo.Context, form url.Values) approval.Idempotency {
	once := form.Get("once")
	if once == "" || len(once) > 255 {
		return approval.Idempotency{}
	}
	said := url.Values{}
	for key, values := range form {
		if key != "csrf" && key != "once" && key != "folder" && key != "q" {
			said[key] = values
		}
	}
	sum := sha256.Sum256([]byte(said.Encode()))
	return approval.Idempotency{Key: once, Route: c.Request().Method + " " + c.Request().URL.Path, BodyHash: sum[:]}
}
