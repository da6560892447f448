package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// StartRequest starts an instance.
type StartRequest struct {
	Definition string            `json:"definition"`
	Version    int               `json:"version,omitempty"` // 0: the newest
	Data       any               `json:"data"`
	Requester  string            `json:"requester,omitempty"` // in whose name; needs the role impersonator
	Labels     map[string]string `json:"labels,omitempty"`

	IdempotencyKey string `json:"-"` // "": one is made
}

// EventRequest raises an event.
type EventRequest struct {
	Event     string              `json:"event"`
	Input     any                 `json:"input,omitempty"`
	Comment   string              `json:"comment,omitempty"`
	Documents map[string]Document `json:"documents,omitempty"`

	IfRevision     int    `json:"-"` // 0: whatever the revision is; else 412 where it is another
	IdempotencyKey string `json:"-"` // "": one is made
}

// Document is a reference to a document.
type Document struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`   // bytes
	SHA256    string `json:"sha256"` // hex
	URI       string `json:"uri"`
}

type reason struct {
	Reason string `json:"reason"`
}

// Start starts an instance. When it answers, the first wait, its tasks, links, deadlines
// and effects exist. Refusals: not-found (definition), key-in-use, invalid-input, forbidden.
func (c *Client) Start(ctx context.Context, r StartRequest) (*Instance, error) {
	if r.Data == nil {
		r.Data = struct{}{}
	}
	req, err := send(http.MethodPost, r, "instances")
	if err != nil {
		return nil, err
	}
	var in Instance
	a, err := c.do(ctx, req.once(r.IdempotencyKey), &in)
	if err != nil {
		return nil, err
	}
	in.Replayed = a.replayed()
	return &in, nil
}

// Instance reads an instance. Not-found also where it is not the caller's to read.
func (c *Client) Instance(ctx context.Context, id string) (*Instance, error) {
	var in Instance
	_, err := c.do(ctx, get("instances", id), &in)
	if err != nil {
		return nil, err
	}
	return &in, nil
}

// InstanceQuery narrows a search; zero fields do not.
type InstanceQuery struct {
	Definition    string
	Version       int
	State         string
	Status        string // running | suspended | finished | cancelled
	Attention     *bool
	Label         string // name:value
	Key           string // business key, exactly
	Q             string // over key, id, labels and searchable data
	StartedAfter  time.Time
	StartedBefore time.Time
	Sort          string // started_at | -started_at | entered_at | -entered_at
	PageSize      int    // rows a request; 0: 50
}

// Instances searches. The iterator reads page after page; it ends at the first error.
func (c *Client) Instances(ctx context.Context, q InstanceQuery) iter.Seq2[*Instance, error] {
	v := query{}
	v.text("definition", q.Definition)
	v.whole("version", q.Version)
	v.text("state", q.State)
	v.text("status", q.Status)
	if q.Attention != nil {
		v.text("attention", strconv.FormatBool(*q.Attention))
	}
	v.text("label", q.Label)
	v.text("key", q.Key)
	v.text("q", q.Q)
	v.time("started_after", q.StartedAfter)
	v.time("started_before", q.StartedBefore)
	v.text("sort", q.Sort)
	v.whole("limit", q.PageSize)
	return pages[Instance](ctx, c, url.Values(v), "instances")
}

// Raise raises an event as the caller. Refusals: event-not-allowed-here, not-permitted,
// already-decided, invalid-input, guard-rejected, revision-mismatch, token-expired, suspended.
func (c *Client) Raise(ctx context.Context, id string, r EventRequest) (*Result, error) {
	req, err := send(http.MethodPost, r, "instances", id, "events")
	if err != nil {
		return nil, err
	}
	if r.IfRevision > 0 {
		req.header.Set("If-Match", strconv.Quote(strconv.Itoa(r.IfRevision)))
	}
	return c.result(ctx, req.once(r.IdempotencyKey))
}

func (c *Client) result(ctx context.Context, req *call) (*Result, error) {
	var res Result
	a, err := c.do(ctx, req, &res)
	if err != nil {
		return nil, err
	}
	res.Replayed = res.Replayed || a.replayed()
	return &res, nil
}

// Cancel cancels an instance and undoes what was done; again, it gives the same plan.
func (c *Client) Cancel(ctx context.Context, id, why string) (*Cancellation, error) {
	req, err := send(http.MethodDelete, reason{why}, "instances", id)
	if err != nil {
		return nil, err
	}
	var out Cancellation
	if _, err := c.do(ctx, req, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// RaiseAgain raises again the timer or effect event that last failed.
func (c *Client) RaiseAgain(ctx context.Context, id, why string) (*Result, error) {
	req, err := send(http.MethodPost, reason{why}, "instances", id, "retry")
	if err != nil {
		return nil, err
	}
	return c.result(ctx, req.once(""))
}

// History reads what happened, oldest first.
func (c *Client) History(ctx context.Context, id string) iter.Seq2[*Transition, error] {
	return pages[Transition](ctx, c, nil, "instances", id, "history")
}

// Children lists the children of an instance: of one start effect, or ("") of all.
func (c *Client) Children(ctx context.Context, id, effect string) iter.Seq2[*Child, error] {
	v := query{}
	v.text("effect", effect)
	return pages[Child](ctx, c, url.Values(v), "instances", id, "children")
}

// Explain says for whom an instance waits, by which rule and until when.
func (c *Client) Explain(ctx context.Context, id string) (*Explanation, error) {
	var out Explanation
	if _, err := c.do(ctx, get("instances", id, "explain"), &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// pages iterates over a list.
func pages[T any](ctx context.Context, c *Client, q url.Values, path ...string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		values := url.Values{}
		for name, v := range q {
			values[name] = v
		}
		for {
			var page struct {
				Items []json.RawMessage `json:"items"`
				Next  string            `json:"next"`
			}
			req := get(path...)
			req.query = values
			if _, err := c.do(ctx, req, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, raw := range page.Items {
				item := new(T)
				if err := json.Unmarshal(raw, item); err != nil {
					yield(nil, err)
					return
				}
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			values.Set("cursor", page.Next)
		}
	}
}
