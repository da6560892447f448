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
	Signature
	Sent
}

type byTokenAndEvent struct {
	Token string `path:"token"`
	Event string `path:"event"`
	Signature
	Sent
}

// decisions are the token routes: no cookie is read, the URL is the capability. Where
// the callback asks for it (verify), the call must be signed as well.
func (a *API) decisions() {
	op := withoutCaller(a.describe(http.MethodPost, "/v1/callbacks/{token}",
		"Decide as the holder of a one-time token", DecideBody{}, approval.Result{}, "callbacks"))
	op.Description = verified
	huma.Register(a.huma, op, a.callback)
	op.RequestBody.Required = false // by huma: whether the token is authentic comes before what is sent
	op = withoutCaller(a.describe(http.MethodPost, "/v1/callbacks/{token}/{event}",
		"Raise an event with any JSON as its input", nil, approval.Result{}, "callbacks"))
	op.Description = verified
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {}}}
	huma.Register(a.huma, op, a.callbackEvent)
	op.RequestBody.Required = false
}

const verified = "Where the definition's callback has verify, the call carries the Standard Webhooks headers of that source, too."

func (a *API) callback(ctx context.Context, in *byToken) (*answer, error) {
	signed := in.signed(in.RawBody)
	r, err := raiseRequest(in.RawBody, true)
	if err != nil {
		return nil, a.fail(a.svc.ClosedOr(ctx, in.Token, approval.RouteCallback, signed, err))
	}
	r.Signed = signed
	return a.decide(ctx, in.Token, "POST /v1/callbacks", r, &in.Sent)
}

func (a *API) callbackEvent(ctx context.Context, in *byTokenAndEvent) (*answer, error) {
	r := approval.RaiseRequest{Event: in.Event, Signed: in.signed(in.RawBody)}
	if len(in.RawBody) > 0 {
		var err error
		if r.Input, err = definitions.DecodeJSON(in.RawBody); err != nil {
			return nil, a.fail(a.svc.ClosedOr(ctx, in.Token, approval.RouteCallback, r.Signed, err))
		}
	}
	return a.decide(ctx, in.Token, "POST /v1/callbacks/"+in.Event, r, &in.Sent)
}

func (a *API) decide(ctx context.Context, token, route string, r approval.RaiseRequest, in *Sent) (*answer, error) {
	var err error
	if r.Idem, err = idempotency(in.keyPresent, in.IdempotencyKey, route, in.RawBody); err != nil {
		return nil, a.fail(a.svc.ClosedOr(ctx, token, approval.RouteCallback, r.Signed, err))
	}
	res, err := a.svc.DecideByToken(ctx, token, approval.RouteCallback, r, approval.Caller{})
	return a.result(res, err)
}
