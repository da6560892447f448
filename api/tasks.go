package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
	"vobo/internal/fault"
)

// DecideBody decides a task.
type DecideBody struct {
	EventBody
	Digest string `json:"digest,omitempty" doc:"of the task as it was read"`
}

type taskQuery struct {
	Paging
	Mine       string `query:"mine" doc:"true: only what asks the caller by name"`
	Owner      string `query:"owner" doc:"an owner line such as group:risk"`
	Definition string `query:"definition"`
	DueBefore  string `query:"due_before"`
	Status     string `query:"status" doc:"open | done | cancelled | expired"`
	Q          string `query:"q" doc:"over title, instance id and business key"`
	Sort       string `query:"sort" doc:"due | created | priority"`
}

func (a *API) tasks() {
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/tasks", "List tasks", nil, list[approval.TaskView]{}, "tasks"), a.taskList)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/tasks/{id}", "Read a task", nil, approval.TaskView{}, "tasks"), a.task)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/tasks/{id}/decide", "Decide a task", DecideBody{}, approval.Result{}, "tasks"), a.decideTask)
}

func (a *API) taskList(ctx context.Context, in *taskQuery) (*answer, error) {
	q := approval.TaskQuery{Owner: in.Owner, Definition: in.Definition, Status: in.Status, Q: in.Q, Sort: in.Sort}
	switch in.Mine {
	case "", "false":
	case "true":
		q.Folder = "mine"
	default:
		return nil, a.fail(fault.New(fault.Malformed, "mine is true or false."))
	}
	switch in.Status {
	case "", "open", "done", "cancelled", "expired":
	default:
		return nil, a.fail(fault.New(fault.Malformed, "status is open, done, cancelled or expired."))
	}
	var err error
	if q.DueBefore, err = timeParameter("due_before", in.DueBefore); err != nil {
		return nil, a.fail(err)
	}
	p, err := in.Paging.paging()
	if err != nil {
		return nil, a.fail(err)
	}
	page, err := a.svc.Tasks(ctx, callerOf(ctx), q, p)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(listOf(page))
}

func (a *API) task(ctx context.Context, in *ByID) (*answer, error) {
	v, err := a.svc.Task(ctx, callerOf(ctx), in.ID)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(v)
}

func (a *API) decideTask(ctx context.Context, in *byIDSent) (*answer, error) {
	r, err := raiseRequest(in.RawBody, true)
	if err != nil {
		instance, _, notID := approval.ParseID(in.ID)
		if notID != nil {
			return nil, a.fail(notID)
		}
		return nil, a.fail(a.svc.UnreadableOr(ctx, callerOf(ctx), instance, err))
	}
	if r.Idem, err = idempotency(in.keyPresent, in.IdempotencyKey, "POST /v1/tasks/"+in.ID+"/decide", in.RawBody); err != nil {
		return nil, a.fail(err)
	}
	res, err := a.svc.DecideTask(ctx, callerOf(ctx), in.ID, r)
	return a.result(res, err)
}
