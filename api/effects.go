package api

import (
	"context"
	"fmt"
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
	Outcome string `json:"outcome" enum:"succeeded,failed" doc:"succeeded: it happened; failed: given up"`
	Result  any    `json:"result,omitempty" doc:"what it gave, as its answer would have said"`
	Reason  string `json:"reason"`
}

// RedriveBody tries dead or unknown effects again in bulk.
type RedriveBody struct {
	Status     []string `json:"status,omitempty" enum:"dead,unknown" doc:"dead unless said"`
	Definition string   `json:"definition,omitempty"`
	Name       string   `json:"name,omitempty" doc:"of the effect, as the definition names it"`
	Kind       string   `json:"kind,omitempty" enum:"email,webhook,start,event,stop,task-mail,notice-mail"`
	Host       string   `json:"host,omitempty" doc:"of a webhook, with the port where its URL names one"`
	Instance   string   `json:"instance_id,omitempty"`
	Before     string   `json:"before,omitempty" format:"date-time" doc:"queued before"`
	Limit      int      `json:"limit,omitempty" doc:"effects at most: 500 unless said, at most 10000"`
	DryRun     bool     `json:"dry_run,omitempty" doc:"true: only say what would be tried again"`
	Reason     string   `json:"reason"`
}

type effectQuery struct {
	Paging
	Status     string `query:"status" doc:"one or more, comma-separated"`
	Instance   string `query:"instance_id"`
	Name       string `query:"name" doc:"as the definition names it"`
	Definition string `query:"definition"`
	Kind       string `query:"kind" doc:"email | webhook | start | event | stop | manual | task-mail | notice-mail"`
	Host       string `query:"host" doc:"of a webhook, with the port where its URL names one"`
	Before     string `query:"before" doc:"queued before"`
}

const maxRedrive = 10_000

func (a *API) effects() {
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/effects", "List effects", nil, list[approval.EffectView]{}, "effects"), a.effectList)
	op := a.describe(http.MethodGet, "/v1/effects/{id}", "Read an effect", nil, approval.EffectView{}, "effects")
	op.Description = "Who oversees the instance also gets the request as it is sent, with secrets masked, and the beginning of every answer."
	huma.Register(a.huma, op, a.effect)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/effects/{id}/retry", "Try a dead or unknown effect again", ReasonBody{}, approval.EffectView{}, "effects"), a.retryEffect)
	huma.Register(a.huma, a.describe(http.MethodPost, "/v1/effects/{id}/resolve", "Say what became of a dead or unknown effect", ResolveBody{}, approval.EffectView{}, "effects"), a.resolveEffect)
	op = a.describe(http.MethodPost, "/v1/effects/redrive", "Try all dead or unknown effects that fit a filter again", RedriveBody{}, approval.RedriveResult{}, "effects")
	op.Description = "Each effect is tried again once; one that changed meanwhile is skipped and named. Send dry_run first."
	huma.Register(a.huma, op, a.redrive)
}

var (
	effectStatuses = []string{"waiting", "running", "retrying", "succeeded", "dead", "unknown", "cancelled"}
	effectKinds    = []string{"email", "webhook", "start", "event", "stop", "manual", "task-mail", "notice-mail"}
	redriven       = []string{"dead", "unknown"}
)

func (a *API) effectList(ctx context.Context, in *effectQuery) (*answer, error) {
	f := store.EffectFilter{Instance: in.Instance, Name: in.Name, Definition: in.Definition, Kind: in.Kind, Host: in.Host}
	if in.Status != "" {
		for s := range strings.SplitSeq(in.Status, ",") {
			if !slices.Contains(effectStatuses, s) {
				return nil, a.fail(fault.New(fault.Malformed, "status is one of %s.", strings.Join(effectStatuses, ", ")))
			}
			f.Status = append(f.Status, fsm.EffectStatus(s))
		}
	}
	if in.Kind != "" && !slices.Contains(effectKinds, in.Kind) {
		return nil, a.fail(fault.New(fault.Malformed, "kind is one of %s.", strings.Join(effectKinds, ", ")))
	}
	var err error
	if f.Before, err = timeParameter("before", in.Before); err != nil {
		return nil, a.fail(err)
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

func (a *API) effect(ctx context.Context, in *ByID) (*answer, error) {
	v, err := a.svc.Effect(ctx, callerOf(ctx), in.ID)
	return a.effectAnswer(v, err)
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

func (a *API) redrive(ctx context.Context, in *Sent) (*answer, error) {
	r, err := redriveRequest(in.RawBody)
	if err != nil {
		return nil, a.fail(err)
	}
	idem, err := idempotency(in.keyPresent, in.IdempotencyKey, "POST /v1/effects/redrive", in.RawBody)
	if err != nil {
		return nil, a.fail(err)
	}
	res, err := a.svc.Redrive(ctx, callerOf(ctx), r, idem)
	if err != nil {
		return nil, a.fail(err)
	}
	out, err := ok(res)
	if res.Replayed {
		out.Replayed = "true"
	}
	return out, err
}

func redriveRequest(raw []byte) (approval.RedriveRequest, error) {
	b, err := readBody(raw)
	if err != nil {
		return approval.RedriveRequest{}, err
	}
	r := approval.RedriveRequest{
		Definition: b.text("definition", false), Name: b.text("name", false), Kind: b.oneOf("kind", effectKinds), Host: b.text("host", false),
		Instance: b.text("instance_id", false), Before: b.moment("before"), Limit: b.whole("limit"), DryRun: b.flag("dry_run"), Reason: b.text("reason", true),
	}
	if r.Limit > maxRedrive {
		b.wrong("limit", fmt.Sprintf("Use at most %d; do it again for more.", maxRedrive))
	}
	r.Status = b.statuses("status")
	return r, b.done()
}

// statuses reads one status that can be tried again, or a list of them.
func (b *body) statuses(name string) (out []fsm.EffectStatus) {
	v, ok := b.get(name)
	if !ok {
		return nil
	}
	all, isList := v.([]any)
	if !isList {
		all = []any{v}
	}
	for _, one := range all {
		s, isText := one.(string)
		if !isText || !slices.Contains(redriven, s) {
			b.wrong(name, "Use dead, unknown, or a list of them.")
			return nil
		}
		out = append(out, fsm.EffectStatus(s))
	}
	return out
}
