package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// EffectQuery narrows a list of effects; zero fields do not.
type EffectQuery struct {
	Status     []string // waiting | running | retrying | succeeded | dead | unknown | cancelled
	Instance   string
	Name       string // as the definition names it
	Definition string
	Kind       string    // email | webhook | start | event | stop | manual | task-mail | notice-mail
	Host       string    // of a webhook, with the port where its URL names one
	Before     time.Time // queued before
	PageSize   int       // rows a request; 0: 50
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
	v.text("name", q.Name)
	v.text("definition", q.Definition)
	v.text("kind", q.Kind)
	v.text("host", q.Host)
	v.time("before", q.Before)
	v.whole("limit", q.PageSize)
	return pages[Effect](ctx, c, url.Values(v), "effects")
}

// Effect reads an effect. Who oversees the instance also gets its request and answers.
func (c *Client) Effect(ctx context.Context, id string) (*Effect, error) {
	return c.effect(ctx, get("effects", id))
}

// RedriveRequest tries dead or unknown effects again in bulk; zero fields do not filter.
type RedriveRequest struct {
	Status     []string  `json:"status,omitempty"` // dead, unknown; empty: dead
	Definition string    `json:"definition,omitempty"`
	Name       string    `json:"name,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Host       string    `json:"host,omitempty"`
	Instance   string    `json:"instance_id,omitempty"`
	Before     time.Time `json:"before,omitzero"`
	Limit      int       `json:"limit,omitempty"` // 0: 500
	DryRun     bool      `json:"dry_run,omitempty"`
	Reason     string    `json:"reason"`

	IdempotencyKey string `json:"-"` // "": one is made
}

// RedriveEffects tries what fits the filter again, each effect once.
func (c *Client) RedriveEffects(ctx context.Context, r RedriveRequest) (*Redriven, error) {
	req, err := send(http.MethodPost, r, "effects", "redrive")
	if err != nil {
		return nil, err
	}
	var out Redriven
	a, err := c.do(ctx, req.once(r.IdempotencyKey), &out)
	if err != nil {
		return nil, err
	}
	out.Replayed = a.replayed()
	return &out, nil
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
	a, err := c.do(ctx, req, &e)
	if err != nil {
		return nil, err
	}
	e.Replayed = a.replayed()
	return &e, nil
}
