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

// folder is one list of the inbox.
type folder struct {
	Name, Icon string
	Count      int
	Open       bool
}

// inboxPage is the inbox: folders, rows and, with a task, its decision.
type inboxPage struct {
	Folders []folder
	Folder  string
	Q       string
	Rows    []approval.TaskView
	Next    string // cursor
	Cursor  string
	Open    string // id of the task in the panel
	Task    *approval.TaskView
	Form    *decision
	Done    *recorded
	Gone    *outcomePage // somebody else decided meanwhile
}

var folders = []folder{{Name: "mine", Icon: "inbox"}, {Name: "groups", Icon: "group"}, {Name: "waiting", Icon: "sent"}, {Name: "done", Icon: "tick"}}

func (s *site) home(c echo.Context) error {
	v, err := s.visitorOf(c)
	if err != nil {
		return err
	}
	if v == nil {
		return s.redirect(c, "/login")
	}
	return s.redirect(c, landing)
}

// inbox reads the lists for the folder and search that the request names.
func (s *site) inbox(c echo.Context, v *visitor, values url.Values) (*inboxPage, error) {
	p := &inboxPage{Folder: values.Get("folder"), Q: strings.TrimSpace(values.Get("q")), Cursor: values.Get("cursor")}
	counts, err := s.svc.InboxCounts(c.Request().Context(), v.Caller)
	if err != nil {
		return nil, err
	}
	numbers := map[string]int{"mine": counts.Mine, "groups": counts.Groups, "waiting": counts.Waiting, "done": counts.Done}
	if _, known := numbers[p.Folder]; !known {
		p.Folder = "mine"
	}
	for _, f := range folders {
		f.Count, f.Open = numbers[f.Name], f.Name == p.Folder
		p.Folders = append(p.Folders, f)
	}
	rows, err := s.svc.Tasks(c.Request().Context(), v.Caller, approval.TaskQuery{Folder: p.Folder, Q: p.Q}, store.Paging{Cursor: p.Cursor})
	if err != nil {
		return nil, err
	}
	p.Rows, p.Next = rows.Items, rows.Next
	return p, nil
}

// Query keeps folder and search in a link; more are further pairs.
func (p *inboxPage) Query(more ...string) string {
	q := url.Values{"folder": {p.Folder}}
	if p.Q != "" {
		q.Set("q", p.Q)
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] == "" {
			q.Del(more[i])
		} else {
			q.Set(more[i], more[i+1])
		}
	}
	return "?" + q.Encode()
}

func (s *site) showInbox(c echo.Context, v *visitor) error {
	p, err := s.inbox(c, v, c.QueryParams())
	if err != nil {
		return err
	}
	if id := c.QueryParam("task"); id != "" {
		if err := s.openTask(c, v, p, id, nil, nil); err != nil {
			return err
		}
	}
	return s.renderInbox(c, v, p, http.StatusOK)
}

// showTask is a task's own address: the inbox with it open.
func (s *site) showTask(c echo.Context, v *visitor) error {
	p, err := s.inbox(c, v, c.QueryParams())
	if err != nil {
		return err
	}
	if err := s.openTask(c, v, p, c.Param("id"), nil, nil); err != nil {
		return err
	}
	return s.renderInbox(c, v, p, http.StatusOK)
}

func (s *site) renderInbox(c echo.Context, v *visitor, p *inboxPage, status int) error {
	view := s.page(v, "inbox", "", p)
	view.Title, view.Wide = view.Text("folder."+p.Folder), true
	switch {
	case p.Done != nil:
		view.Title = view.Text(p.Done.heading())
	case p.Task != nil:
		view.Title = p.Task.Title
		view.titled(p.Task.Events)
	case p.Gone != nil:
		view.titled(p.Gone.Task.Events)
	}
	if status >= 400 {
		view.Title = view.Text("title.error", view.Title)
	}
	return s.render(c, status, "inbox", view)
}

// openTask puts a task's decision into the panel.
func (s *site) openTask(c echo.Context, v *visitor, p *inboxPage, id string, values url.Values, problem *fault.Error) error {
	task, err := s.svc.Task(c.Request().Context(), v.Caller, id)
	if err != nil {
		return err
	}
	p.Open, p.Task = id, task
	if task.Status != "open" || len(task.Events) == 0 {
		return nil
	}
	view := s.page(v, "", "", nil)
	d := asked{events: task.Events, zone: view.clock.zone, say: view.clock.say}.form(values, problem)
	d.Action, d.Digest, d.Person = s.link("/tasks/"+url.PathEscape(id)), task.Digest, approval.ActorView{ID: v.ID, Name: v.Name}
	if err := s.hide(&d, v, values); err != nil {
		return err
	}
	d.Hidden = append(d.Hidden, hiddenField{"folder", p.Folder}, hiddenField{"q", p.Q})
	p.Form = &d
	return nil
}

// hide adds what every form of a session carries.
func (s *site) hide(d *decision, v *visitor, values url.Values) error {
	once := values.Get("once")
	if once == "" || values != nil && d.Summary == nil && d.Notice == "" {
		var err error
		if once, err = s.once(); err != nil {
			return err
		}
	}
	d.Hidden = append(d.Hidden, hiddenField{"csrf", v.csrf}, hiddenField{"once", once})
	return nil
}

func (s *site) decideTask(c echo.Context, v *visitor) error {
	form, id := c.Request().PostForm, c.Param("id")
	task, err := s.svc.Task(c.Request().Context(), v.Caller, id)
	if err != nil {
		return err
	}
	view := s.page(v, "", "", nil)
	ask := asked{events: task.Events, zone: view.clock.zone, say: view.clock.say}
	again := func(status int, problem *fault.Error) error {
		p, err := s.inbox(c, v, form)
		if err != nil {
			return err
		}
		if err := s.openTask(c, v, p, id, form, problem); err != nil {
			return err
		}
		return s.renderInbox(c, v, p, status)
	}
	if editsRows(form) {
		return again(http.StatusUnprocessableEntity, nil)
	}
	req, mistakes := ask.read(form)
	if len(mistakes) > 0 && (task.Status == "open" || req.Event == "") && ask.judges(req, task.Digest) {
		return again(http.StatusUnprocessableEntity, invalid(ask.say, mistakes))
	}
	req.Idem = s.idempotency(c, form)
	result, err := s.svc.DecideTask(c.Request().Context(), v.Caller, id, req)
	if err != nil {
		return s.notDecided(c, v, task, form, err, again)
	}
	p, err := s.inbox(c, v, form)
	if err != nil {
		return err
	}
	if p.Done, err = recordedOf(result, task, approval.ActorView{ID: v.ID, Name: v.Name}); err != nil {
		return err
	}
	p.Open, p.Done.Inside = id, true
	if p.Done.Stayed {
		p.Done.Further = "/tasks/" + url.PathEscape(id)
	}
	return s.renderInbox(c, v, p, http.StatusOK)
}

// notDecided brings the form back, or says in its place what happened meanwhile.
func (s *site) notDecided(c echo.Context, v *visitor, task *approval.TaskView, form url.Values, err error, again func(int, *fault.Error) error) error {
	f := refusal(err)
	switch f.Code {
	case fault.Unauthorized, fault.Forbidden, fault.NotFound, fault.Internal:
		return err
	case fault.AlreadyDecided, fault.TokenExpired, fault.TokenRevoked, fault.Suspended, fault.ContentChanged, fault.Conflict, fault.EventNotAllowedHere:
		p, err := s.inbox(c, v, form)
		if err != nil {
			return err
		}
		p.Open = task.ID
		p.Gone = &outcomePage{Code: f.Code, Icon: outcomeIcons[f.Code], Message: f.Message, Fields: f.Fields, Winner: f.Winner, Task: task}
		return s.renderInbox(c, v, p, f.Code.Status())
	}
	retryAfter(c.Response().Header(), f)
	return again(f.Code.Status(), f)
}

// Closed says in the words of the page how a task that is over stands.
func (p *inboxPage) Closed() bool { return p.Task != nil && p.Task.Status != "open" }

// Standing is this person's vote in the open task, nil without one.
func (p *inboxPage) Standing() *approval.TransitionView {
	if p.Task == nil || p.Closed() {
		return nil
	}
	return p.Task.OwnVote
}
