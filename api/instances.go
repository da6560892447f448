package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// StartBody starts an instance.
type StartBody struct {
	Definition string            `json:"definition"`
	Version    int               `json:"version,omitempty" doc:"newest unless said"`
	Data       map[string]any    `json:"data"`
	Requester  string            `json:"requester,omitempty" doc:"in whose name; needs the role impersonator"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// EventBody raises an event.
type EventBody struct {
	Event     string         `json:"event"`
	Input     any            `json:"input,omitempty"`
	Comment   string         `json:"comment,omitempty"`
	Documents map[string]any `json:"documents,omitempty" doc:"by name: {name, media_type, size, sha256, uri}"`
}

// ReasonBody carries the reason of an operator.
type ReasonBody struct {
	Reason string `json:"reason"`
}

// ByID names one thing by its id.
type ByID struct {
	ID string `path:"id"`
}

type byIDSent struct {
	ByID
	Sent
	IfMatch string `header:"If-Match" doc:"the revision that was read"`
}

type instanceQuery struct {
	Paging
	Definition    string   `query:"definition"`
	Version       string   `query:"version"`
	State         string   `query:"state"`
	Status        string   `query:"status" doc:"running | suspended | finished | cancelled"`
	Attention     string   `query:"attention" doc:"true | false"`
	Label         string   `query:"label" doc:"name:value"`
	Key           []string `query:"key,explode" doc:"business key, exactly"`
	Q             string   `query:"q" doc:"over key, id, labels and searchable data"`
	StartedAfter  string   `query:"started_after"`
	StartedBefore string   `query:"started_before"`
	Sort          string   `query:"sort" doc:"started_at | -started_at | entered_at | -entered_at"`
}

func (a *API) instances() {
	huma.Register(a.huma, answers(a.describe(http.MethodPost, "/v1/instances", "Start an instance", StartBody{}, approval.InstanceView{}, "instances"), http.StatusCreated), a.start)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/instances", "Search instances", nil, list[approval.InstanceView]{}, "instances"), a.search)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/instances/{id}", "Read an instance", nil, approval.InstanceView{}, "instances"), a.instance)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/instances/{id}/events", "Raise an event", EventBody{}, approval.Result{}, "instances"), a.raise)
	huma.Register(a.huma, answers(a.describe(http.MethodDelete, "/v1/instances/{id}", "Cancel an instance, undoing what was done", ReasonBody{}, approval.CancelResult{}, "instances"), http.StatusAccepted), a.cancel)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/instances/{id}/retry", "Raise again the timer or effect event that last failed", ReasonBody{}, approval.Result{}, "instances"), a.raiseAgain)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/instances/{id}/history", "Read the history", nil, list[approval.TransitionView]{}, "instances"), a.history)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/instances/{id}/explain", "Say why an instance waits", nil, approval.ExplainView{}, "instances"), a.explain)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/instances/{id}/children", "List the children of an instance", nil, list[approval.ChildView]{}, "instances"), a.children)
}

func (a *API) start(ctx context.Context, in *Sent) (*answer, error) {
	c := callerOf(ctx)
	b, err := readBody(in.RawBody)
	if err != nil {
		return nil, a.fail(err)
	}
	r := approval.StartRequest{
		Definition: b.text("definition", true), Version: b.whole("version"),
		Data: b.object("data", true), Requester: b.text("requester", false), Labels: b.texts("labels"),
	}
	if err := b.done(); err != nil {
		return nil, a.fail(err)
	}
	if r.Idem, err = idempotency(in.keyPresent, in.IdempotencyKey, "POST /v1/instances", in.RawBody); err != nil {
		return nil, a.fail(err)
	}
	res, err := a.svc.Start(ctx, c, r)
	if err != nil {
		return nil, a.fail(err)
	}
	out := &answer{Status: http.StatusCreated, Body: res.Raw}
	if res.Replayed {
		out.Replayed = "true"
	} else {
		out.Body = approval.Render(res.View)
	}
	out.Location = a.cfg.BaseURL + "/v1/instances/" + res.View.ID
	out.ETag = etag(res.View.Revision)
	return out, nil
}

func etag(revision int) string { return `"` + strconv.Itoa(revision) + `"` }

func (a *API) search(ctx context.Context, in *instanceQuery) (*answer, error) {
	f, err := in.filter()
	if err != nil {
		return nil, a.fail(err)
	}
	p, err := in.Paging.paging()
	if err != nil {
		return nil, a.fail(err)
	}
	page, err := a.svc.Instances(ctx, callerOf(ctx), f, p)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(listOf(page))
}

func (q *instanceQuery) filter() (store.InstanceFilter, error) {
	f := store.InstanceFilter{Definition: q.Definition, State: q.State, Status: fsm.Status(q.Status), Q: q.Q, Sort: q.Sort}
	var err error
	if q.Version != "" {
		if f.Version, err = strconv.Atoi(q.Version); err != nil {
			return f, fault.New(fault.Malformed, "version is a whole number.")
		}
	}
	switch q.Status {
	case "", "running", "suspended", "finished", "cancelled":
	default:
		return f, fault.New(fault.Malformed, "status is running, suspended, finished or cancelled.")
	}
	switch q.Attention {
	case "":
	case "true", "false":
		yes := q.Attention == "true"
		f.Attention = &yes
	default:
		return f, fault.New(fault.Malformed, "attention is true or false.")
	}
	if q.Label != "" {
		name, value, found := strings.Cut(q.Label, ":")
		if !found {
			return f, fault.New(fault.Malformed, "label is name:value.")
		}
		f.Label = [2]string{name, value}
	}
	if len(q.Key) > 0 {
		f.Key = &q.Key[0]
	}
	if f.StartedAfter, err = timeParameter("started_after", q.StartedAfter); err != nil {
		return f, err
	}
	f.StartedBefore, err = timeParameter("started_before", q.StartedBefore)
	return f, err
}

func timeParameter(name, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fault.New(fault.Malformed, "%s is an RFC 3339 time, such as 2026-12-03T10:00:00Z.", name)
	}
	return &t, nil
}

func (a *API) instance(ctx context.Context, in *ByID) (*answer, error) {
	v, err := a.svc.Instance(ctx, callerOf(ctx), in.ID)
	if err != nil {
		return nil, a.fail(err)
	}
	out, err := ok(*v)
	out.ETag = etag(v.Revision)
	return out, err
}

func (a *API) raise(ctx context.Context, in *byIDSent) (*answer, error) {
	r, err := raiseRequest(in.RawBody, false)
	if err != nil {
		return nil, a.fail(a.svc.UnreadableOr(ctx, callerOf(ctx), in.ID, err))
	}
	if in.IfMatch != "" {
		if r.IfRevision, err = strconv.Atoi(strings.Trim(strings.TrimPrefix(in.IfMatch, "W/"), `"`)); err != nil || r.IfRevision < 1 {
			return nil, a.fail(fault.New(fault.Malformed, "If-Match is the revision that you read, such as \"3\"."))
		}
	}
	if r.Idem, err = idempotency(in.keyPresent, in.IdempotencyKey, "POST /v1/instances/"+in.ID+"/events", in.RawBody); err != nil {
		return nil, a.fail(err)
	}
	res, err := a.svc.Raise(ctx, callerOf(ctx), in.ID, r)
	return a.result(res, err)
}

// result answers with what became of an event.
func (a *API) result(res *approval.Result, err error) (*answer, error) {
	if err != nil {
		return nil, a.fail(err)
	}
	out := &answer{Status: http.StatusOK, ETag: etag(res.Instance.Revision), Body: res.Raw}
	if out.Body == nil {
		out.Body = approval.Render(*res)
	}
	if res.Replayed {
		out.Replayed = "true"
	}
	return out, nil
}

func (a *API) cancel(ctx context.Context, in *byIDSent) (*answer, error) {
	reason, idem, err := reasonOf(in, "DELETE /v1/instances/"+in.ID)
	if err != nil {
		return nil, a.fail(err)
	}
	res, err := a.svc.Cancel(ctx, callerOf(ctx), in.ID, reason, idem)
	if err != nil {
		return nil, a.fail(err)
	}
	return answerOf(http.StatusAccepted, res)
}

func (a *API) raiseAgain(ctx context.Context, in *byIDSent) (*answer, error) {
	reason, idem, err := reasonOf(in, "POST /v1/instances/"+in.ID+"/retry")
	if err != nil {
		return nil, a.fail(err)
	}
	res, err := a.svc.RaiseAgain(ctx, callerOf(ctx), in.ID, reason, idem)
	return a.result(res, err)
}

func reasonOf(in *byIDSent, route string) (string, approval.Idempotency, error) {
	b, err := readBody(in.RawBody)
	if err != nil {
		return "", approval.Idempotency{}, err
	}
	reason := b.text("reason", true)
	if err := b.done(); err != nil {
		return "", approval.Idempotency{}, err
	}
	idem, err := idempotency(in.keyPresent, in.IdempotencyKey, route, in.RawBody)
	return reason, idem, err
}

type byIDPaged struct {
	ByID
	Paging
}

func (a *API) history(ctx context.Context, in *byIDPaged) (*answer, error) {
	p, err := in.Paging.paging()
	if err != nil {
		return nil, a.fail(err)
	}
	page, err := a.svc.History(ctx, callerOf(ctx), in.ID, p)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(listOf(page))
}

type childQuery struct {
	ByID
	Paging
	Effect string `query:"effect" doc:"id of the start effect; of all unless said"`
}

func (a *API) children(ctx context.Context, in *childQuery) (*answer, error) {
	p, err := in.Paging.paging()
	if err != nil {
		return nil, a.fail(err)
	}
	page, err := a.svc.Children(ctx, callerOf(ctx), in.ID, in.Effect, p)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(listOf(page))
}

func (a *API) explain(ctx context.Context, in *ByID) (*answer, error) {
	v, err := a.svc.Explain(ctx, callerOf(ctx), in.ID)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(v)
}
