package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
)

// sinks are the endpoints of the event feed.
func (a *API) sinks() {
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/sinks", "List the endpoints of the event feed", nil, list[approval.SinkView]{}, "event feed"), a.sinkList)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/sinks/{name}/enable", "Let a disabled endpoint go on", ReasonBody{}, approval.SinkView{}, "event feed"), a.enableSink)
}

func (a *API) sinkList(ctx context.Context, _ *struct{}) (*answer, error) {
	all, err := a.svc.Sinks(ctx, callerOf(ctx))
	if err != nil {
		return nil, a.fail(err)
	}
	if all == nil {
		all = []approval.SinkView{}
	}
	return ok(list[approval.SinkView]{Items: all})
}

type sinkSent struct {
	Name    string `path:"name"`
	RawBody []byte `contentType:"application/json"`
}

func (a *API) enableSink(ctx context.Context, in *sinkSent) (*answer, error) {
	b, err := readBody(in.RawBody)
	if err != nil {
		return nil, a.fail(err)
	}
	reason := b.text("reason", true)
	if err := b.done(); err != nil {
		return nil, a.fail(err)
	}
	v, err := a.svc.EnableSink(ctx, callerOf(ctx), in.Name, reason)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(v)
}
