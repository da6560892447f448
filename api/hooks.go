package api

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/store"
)

// HookBody is a call of a webhook source; CloudEvents 1.0 in structured mode do as well.
type HookBody struct {
	Event      string         `json:"event"`
	Input      any            `json:"input,omitempty"`
	Comment    string         `json:"comment,omitempty"`
	Documents  map[string]any `json:"documents,omitempty" doc:"by name: {name, media_type, size, sha256, uri}"`
	Definition string         `json:"definition,omitempty" doc:"with key: of which definition; any unless said"`
	Key        string         `json:"key,omitempty" doc:"business key of the instance; without it the input is matched by correlate"`
}

// CloudEventBody is a CloudEvent in structured mode.
type CloudEventBody struct {
	SpecVersion     string `json:"specversion" enum:"1.0"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type" doc:"its part after the last dot is the event"`
	Subject         string `json:"subject,omitempty" doc:"business key of the instance"`
	Time            string `json:"time,omitempty"`
	DataContentType string `json:"datacontenttype,omitempty" doc:"application/json"`
	DataSchema      string `json:"dataschema,omitempty"`
	Data            any    `json:"data,omitempty" doc:"the event's input"`
}

// Signature are the Standard Webhooks headers, byte for byte.
type Signature struct {
	WebhookID        string `header:"webhook-id" doc:"of this call; where it is sent again, the same one"`
	WebhookTimestamp string `header:"webhook-timestamp" doc:"Unix seconds; at most 5 minutes old, at most 1 minute ahead"`
	WebhookSignature string `header:"webhook-signature" doc:"v1,BASE64 of HMAC-SHA256 over id.timestamp.body, or v1a,BASE64 of ed25519; several with a space between while a secret is exchanged"`
}

// Resolve joins several lines of signatures. An id or a time that was sent twice could be
// read in two ways: it counts as missing.
func (s *Signature) Resolve(ctx huma.Context) []error {
	lines := map[string][]string{}
	ctx.EachHeader(func(name, value string) {
		name = http.CanonicalHeaderKey(name)
		lines[name] = append(lines[name], value)
	})
	once := func(name string) string {
		if all := lines[name]; len(all) == 1 {
			return all[0]
		}
		return ""
	}
	s.WebhookID, s.WebhookTimestamp = once("Webhook-Id"), once("Webhook-Timestamp")
	s.WebhookSignature = strings.Join(lines["Webhook-Signature"], " ")
	return nil
}

// signed is the call as it came; the body is a copy, since the server reuses its own.
func (s *Signature) signed(body []byte) *approval.Signed {
	return &approval.Signed{ID: s.WebhookID, Timestamp: s.WebhookTimestamp, Signature: s.WebhookSignature, Body: bytes.Clone(body)}
}

type hookSent struct {
	Source      string `path:"source" doc:"as the secrets file names it"`
	ContentType string `header:"Content-Type"`
	Signature
	RawBody []byte `contentType:"application/json"`
}

type callQuery struct {
	Paging
	Status   string `query:"status" doc:"waiting | taken | refused | expired"`
	Source   string `query:"source"`
	Event    string `query:"event"`
	Instance string `query:"instance_id" doc:"that took it"`
}

const cloudEvents = "application/cloudevents+json"

// hooks are the calls of webhook sources, and what operators see of them.
func (a *API) hooks() {
	op := answers(a.describe(http.MethodPost, "/v1/hooks/{source}", "Raise an event as a webhook source", HookBody{}, approval.HookResult{}, "callbacks"), http.StatusAccepted)
	op.Description = "Signed as Standard Webhooks asks; webhook-id is the idempotency key and is kept for 30 days. " +
		"The instance is found by key, or by what its wait correlates. A call that nothing waits for yet is kept and taken when its wait begins. " +
		"An unknown source and a bad signature get the same 401."
	op.RequestBody.Content[cloudEvents] = &huma.MediaType{Schema: a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[CloudEventBody](), true, "")}
	op = withoutCaller(op)
	op.Metadata[media] = []string{"application/json", cloudEvents}
	op.Security = []map[string][]string{{"webhook": {}}}
	huma.Register(a.huma, op, a.hook)
	op.RequestBody.Required = false // by huma: who calls comes before what is sent
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/callbacks", "List calls of webhook sources", nil, list[approval.CallView]{}, "callbacks"), a.callList)
}

func (a *API) hook(ctx context.Context, in *hookSent) (*answer, error) {
	kind := mediaType(in.ContentType)
	if kind == "" {
		kind = "application/json"
	}
	res, err := a.svc.Hook(ctx, approval.HookRequest{Source: in.Source, ContentType: kind, Signed: *in.signed(in.RawBody)})
	if err != nil {
		return nil, a.fail(err)
	}
	out, err := answerOf(http.StatusAccepted, res)
	if res.Replayed {
		out.Replayed = "true"
	}
	return out, err
}

var callStatuses = []string{store.CallWaiting, store.CallTaken, store.CallRefused, store.CallExpired}

func (a *API) callList(ctx context.Context, in *callQuery) (*answer, error) {
	if in.Status != "" && !slices.Contains(callStatuses, in.Status) {
		return nil, a.fail(fault.New(fault.Malformed, "status is one of %s.", strings.Join(callStatuses, ", ")))
	}
	p, err := in.Paging.paging()
	if err != nil {
		return nil, a.fail(err)
	}
	f := store.CallFilter{Source: in.Source, Status: in.Status, Event: in.Event, Instance: in.Instance}
	page, err := a.svc.Calls(ctx, callerOf(ctx), f, p)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(listOf(page))
}
