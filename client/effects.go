package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
)

// EffectQuery narrows a list of effects; zero fields do not.
type EffectQuery struct {
	Status   []string // waiting | running | retrying | succeeded | dead | unknown | cancelled
	Instance string
	PageSize int // rows a request; 0: 50
}

// Resolution says what a person found out about a dead or unknown effect.
type Resolution struct {
	Outcome string `json:"outcome"` // succeeded | failed
	Result  any    `json:"result,omitempty"`
	Reason  string `json:"reason"`

	IdempotencyKey string `json:"-"` // "": one is made
}

// Effects lists effects page after page; it ends at the first error.
func (c *Client) Effects(ctx context.Context, q EffectQuery) iter.Seq2[*Effect, error] {
	v := query{}
	v.text("status", strings.Join(q.Status, ","))
	v.text("instance_id", q.Instance)
	v.whole("limit", q.PageSize)
	return pages[Effect](ctx, c, url.Values(v), "effects")
}

// RetryEffect tries a dead or unknown effect again.
func (c *Client) RetryEffect(ctx context.Context, id, why string) (*Effect, error) {
	req, err := send(http.MethodPost, reason{why}, "effects", id, "retry")
	if err != nil {
		return nil, err
	}
	return c.effect(ctx, req.once(""))
}

// ResolveEffect says what became of a dead or unknown effect.
func (c *Client) ResolveEffect(ctx context.Context, id string, r Resolution) (*Effect, error) {
	req, err := send(http.MethodPost, r, "effects", id, "resolve")
	if err != nil {
		return nil, err
	}
	return c.effect(ctx, req.once(r.IdempotencyKey))
}

func (c *Client) effect(ctx context.Context, req *call) (*Effect, error) {
	var e Effect
	if _, err := c.do(ctx, req, &e); err != nil {
		return nil, err
	}
	return &e, nil
}
