package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Decision decides a task or answers a callback.
type Decision struct {
	EventRequest
	Digest string `json:"digest,omitempty"` // of the task as it was read; another: content-changed
}

// TaskQuery narrows a list of tasks; zero fields do not.
type TaskQuery struct {
	Mine       bool   // only what asks the caller by name
	Owner      string // an owner line such as group:risk
	Definition string
	DueBefore  time.Time
	Status     string // open | done | cancelled | expired
	Q          string // over title, instance id and business key
	Sort       string // due | created | priority
	PageSize   int    // rows a request; 0: 50
}

// Tasks lists tasks page after page; it ends at the first error.
func (c *Client) Tasks(ctx context.Context, q TaskQuery) iter.Seq2[*Task, error] {
	v := query{}
	if q.Mine {
		v.text("mine", strconv.FormatBool(true))
	}
	v.text("owner", q.Owner)
	v.text("definition", q.Definition)
	v.time("due_before", q.DueBefore)
	v.text("status", q.Status)
	v.text("q", q.Q)
	v.text("sort", q.Sort)
	v.whole("limit", q.PageSize)
	return pages[Task](ctx, c, url.Values(v), "tasks")
}

// Task reads a task with the events that the caller may raise.
func (c *Client) Task(ctx context.Context, id string) (*Task, error) {
	var t Task
	if _, err := c.do(ctx, get("tasks", id), &t); err != nil {
		return nil, err
	}
	return &t, nil
}

// DecideTask decides a task as the caller.
func (c *Client) DecideTask(ctx context.Context, id string, d Decision) (*Result, error) {
	req, err := send(http.MethodPost, d, "tasks", id, "decide")
	if err != nil {
		return nil, err
	}
	return c.result(ctx, req.once(d.IdempotencyKey))
}

// Callback decides as the holder of a one-time token: no key is sent. The same decision
// again, at once or years later, gets the first answer with Replayed. Refusals, in
// this order: invalid-token, already-decided, token-revoked, token-expired, suspended,
// event-not-allowed, not-permitted, content-changed, invalid-input, guard-rejected.
func (c *Client) Callback(ctx context.Context, token string, d Decision) (*Result, error) {
	req, err := send(http.MethodPost, d, "callbacks", token)
	if err != nil {
		return nil, err
	}
	return c.byToken(ctx, req, d.IdempotencyKey)
}

// CallbackEvent raises an event by a callback token with any JSON as its input.
func (c *Client) CallbackEvent(ctx context.Context, token, event string, input any) (*Result, error) {
	req, err := send(http.MethodPost, input, "callbacks", token, event)
	if err != nil {
		return nil, err
	}
	return c.byToken(ctx, req, "")
}

func (c *Client) byToken(ctx context.Context, req *call, key string) (*Result, error) {
	req.open = true // the token replays by itself; a key is sent only where the caller gives one
	if key != "" {
		req.once(key)
	}
	return c.result(ctx, req)
}

// Me says who the server takes the caller for.
func (c *Client) Me(ctx context.Context) (*Person, error) {
	var p Person
	if _, err := c.do(ctx, get("me"), &p); err != nil {
		return nil, err
	}
	return &p, nil
}
