package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// CallQuery narrows a list of calls of webhook sources; zero fields do not.
type CallQuery struct {
	Status   string // waiting | taken | refused | expired
	Source   string
	Event    string
	Instance string // that took it
	PageSize int    // rows a request; 0: 50
}

// Calls lists calls of webhook sources, newest first; it ends at the first error.
func (c *Client) Calls(ctx context.Context, q CallQuery) iter.Seq2[*HookCall, error] {
	v := query{}
	v.text("status", q.Status)
	v.text("source", q.Source)
	v.text("event", q.Event)
	v.text("instance_id", q.Instance)
	v.whole("limit", q.PageSize)
	return pages[HookCall](ctx, c, url.Values(v), "callbacks")
}

// Sinks lists the endpoints of the event feed.
func (c *Client) Sinks(ctx context.Context) iter.Seq2[*Sink, error] {
	return pages[Sink](ctx, c, nil, "sinks")
}

// EnableSink lets a disabled endpoint go on, with the events that it did not get.
func (c *Client) EnableSink(ctx context.Context, name, why string) (*Sink, error) {
	req, err := send(http.MethodPost, reason{why}, "sinks", name, "enable")
	if err != nil {
		return nil, err
	}
	var s Sink
	if _, err := c.do(ctx, req, &s); err != nil {
		return nil, err
	}
	return &s, nil
}
