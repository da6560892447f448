package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// ResolveBody says what a person found out about an effect.
type ResolveBody struct {
	Outcome string `json:"outcome" enum:"succeeded,failed"`
	Result  any    `json:"result,omitempty"`
	Reason  string `json:"reason"`
}

type effectQuery struct {
	Paging
	Status   string `query:"status" doc:"one or more, comma-separated"`
	Instance string `query:"instance_id"`
}

func (a *API) effects() {
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/effects", "List effects", nil, list[approval.EffectView]{}, "effects"), a.effectList)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/effects/{id}/retry", "Try a dead or unknown effect again", ReasonBody{}, approval.EffectView{}, "effects"), a.retryEffect)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/effects/{id}/resolve", "Say what became of a dead or unknown effect", ResolveBody{}, approval.EffectView{}, "effects"), a.resolveEffect)
}

var effectStatuses = []string{"waiting", "running", "retrying", "succeeded", "dead", "unknown", "cancelled"}

func (a *API) effectList(ctx context.Context, in *effectQuery) (*answer, error) {
	f := store.EffectFilter{Instance: in.Instance}
	if in.Status != "" {
		for s := range strings.SplitSeq(in.Status, ",") {
			if !slices.Contains(effectStatuses, s) {
				return nil, a.fail(fault.New(fault.Malformed, "status is one of %s.", strings.Join(effectStatuses, ", ")))
			}
			f.Status = append(f.Status, fsm.EffectStatus(s))
		}
	}
	p, err := in.Paging.paging()
	if err != nil {
		return nil, a.fail(err)
	}
	page, err := a.svc.Effects(ctx, callerOf(ctx), f, p)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(listOf(page))
}

func (a *API) retryEffect(ctx context.Context, in *byIDSent) (*answer, error) {
	reason, idem, err := reasonOf(in, "POST /v1/effects/"+in.ID+"/retry")
	if err != nil {
		return nil, a.fail(err)
	}
	v, err := a.svc.RetryEffect(ctx, callerOf(ctx), in.ID, reason, idem)
	return a.effectAnswer(v, err)
}

func (a *API) resolveEffect(ctx context.Context, in *byIDSent) (*answer, error) {
	b, err := readBody(in.RawBody)
	if err != nil {
		return nil, a.fail(err)
	}
	r := approval.ResolveRequest{Outcome: b.text("outcome", true), Result: b.any("result"), Reason: b.text("reason", true)}
	if err := b.done(); err != nil {
		return nil, a.fail(err)
	}
	idem, err := idempotency(in.keyPresent, in.IdempotencyKey, "POST /v1/effects/"+in.ID+"/resolve", in.RawBody)
	if err != nil {
		return nil, a.fail(err)
	}
	v, err := a.svc.ResolveEffect(ctx, callerOf(ctx), in.ID, r, idem)
	return a.effectAnswer(v, err)
}

func (a *API) effectAnswer(v *approval.EffectView, err error) (*answer, error) {
	if err != nil {
		return nil, a.fail(err)
	}
	out, err := ok(v)
	if v.Replayed {
		out.Replayed = "true"
	}
	return out, err
}
