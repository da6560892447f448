package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
	"vobo/internal/definitions"
)

type byToken struct {
	Token string `path:"token"`
	Sent
}

type byTokenAndEvent struct {
	Token string `path:"token"`
	Event string `path:"event"`
	Sent
}

// decisions are the token routes: no cookie is read, the URL is the capability.
func (a *API) decisions() {
	huma.Register(a.huma, withoutCaller(a.describe(http.MethodPost, "/v1/callbacks/{token}",
		"Decide as the holder of a one-time token", DecideBody{}, approval.Result{}, "callbacks")), a.callback)
	op := withoutCaller(a.describe(http.MethodPost, "/v1/callbacks/{token}/{event}",
		"Raise an event with any JSON as its input", nil, approval.Result{}, "callbacks"))
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {}}}
	huma.Register(a.huma, op, a.callbackEvent)
}

func (a *API) callback(ctx context.Context, in *byToken) (*answer, error) {
	r, err := raiseRequest(in.RawBody, true)
	if err != nil {
		return nil, a.fail(a.svc.ClosedOr(ctx, in.Token, approval.RouteCallback, err))
	}
	return a.decide(ctx, in.Token, "POST /v1/callbacks", r, &in.Sent)
}

func (a *API) callbackEvent(ctx context.Context, in *byTokenAndEvent) (*answer, error) {
	r := approval.RaiseRequest{Event: in.Event}
	if len(in.RawBody) > 0 {
		var err error
		if r.Input, err = definitions.DecodeJSON(in.RawBody); err != nil {
			return nil, a.fail(a.svc.ClosedOr(ctx, in.Token, approval.RouteCallback, err))
		}
	}
	return a.decide(ctx, in.Token, "POST /v1/callbacks/"+in.Event, r, &in.Sent)
}

func (a *API) decide(ctx context.Context, token, route string, r approval.RaiseRequest, in *Sent) (*answer, error) {
	var err error
	if r.Idem, err = idempotency(in.keyPresent, in.IdempotencyKey, route, in.RawBody); err != nil {
		return nil, a.fail(a.svc.ClosedOr(ctx, token, approval.RouteCallback, err))
	}
	res, err := a.svc.DecideByToken(ctx, token, approval.RouteCallback, r, approval.Caller{})
	return a.result(res, err)
}
