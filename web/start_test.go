package web

import (
	"testing"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

const startSource = `name: onboarding
version: 1
title: Customer onboarding
initial: draft
requesters: ["role:requester"]
data:
  type: object
  required: [applicant, total]
  properties:
    applicant: {type: object, required: [name, email], properties: {name: {type: string, maxLength: 200}, email: {type: string, format: email}}}
    total: {type: number, minimum: 0}
    contract: {type: object}
states:
  draft:
    owner: [requester]
    deadlines: [{after: P30D, fire: expire}]
    events:
      document_received: {to: active, by: [requester], documents: {contract: required}}
      expire: {to: expired, by: [timer]}
  active: {final: true}
  expired: {final: true}
`

func startBundle(t *testing.T) *bundle {
	t.Helper()
	definition, problems := definitions.Parse("onboarding.yaml", []byte(startSource))
	if definition == nil {
		t.Fatal(problems)
	}
	return newBundle(t, func(_ *Config, f *fakeService) { f.defs = []*definitions.Definition{definition} })
}

func TestARequestIsStartedFromAFormOfItsData(t *testing.T) {
	t.Parallel()
	b := startBundle(t)
	wantText(t, b.get("/start", as("luis")), `href="/flow/start/onboarding"`)
	wantNoText(t, b.get("/start", as("olga")), `href="/flow/start/onboarding"`)
	w := b.get("/start/onboarding", as("luis"))
	wantText(t, w, `name="data.applicant.name"`, `name="data.total"`, "Start the request")
	wantNoText(t, w, "data.contract")
	w = b.post("/start/onboarding", "luis", form("data.total", "12,50", "data.applicant.name", "María", "once", "k2"))
	wantStatus(t, w, 422)
	wantText(t, w, `href="#data-applicant-email"`, `value="María"`, `value="k2"`)
	wantStatus(t, b.post("/start/onboarding", "luis", form("data.total", "1", "state", "active")), 422)
	wantChanges(t, b.svc, "")
	w = b.post("/start/onboarding", "luis", form("data.total", "12,50", "data.applicant.name", "María", "data.applicant.email", "m@example.com", "once", "k2"))
	wantStatus(t, w, 303)
	if to := w.Header().Get("Location"); to != "/flow"+instancePath {
		t.Errorf("leads to %s", to)
	}
	if got := string(definitions.EncodeJSON(b.svc.begun.Data)); got != `{"applicant":{"email":"m@example.com","name":"María"},"total":12.50}` || b.svc.begun.Idem.Key != "k2" {
		t.Errorf("started with %s %+v", got, b.svc.begun.Idem)
	}
}

func TestAStartThatIsRefusedKeepsTheForm(t *testing.T) {
	t.Parallel()
	b := startBundle(t)
	b.svc.refuse = &fault.Error{Code: fault.KeyInUse, Message: "There is a live request for m@example.com.", Instance: sampleID}
	w := b.post("/start/onboarding", "luis", form("data.total", "1", "data.applicant.name", "María", "data.applicant.email", "m@example.com"))
	wantStatus(t, w, 409)
	wantText(t, w, "There is a live request", `href="/flow`+instancePath+`"`, `value="María"`)
	b.svc.refuse = fault.New(fault.InvalidInput, "Not valid.").With(fault.Field{Pointer: "/data/total", Detail: "Ask the board instead"})
	w = b.post("/start/onboarding", "luis", form("data.total", "1", "data.applicant.name", "María", "data.applicant.email", "m@example.com"))
	wantStatus(t, w, 422)
	wantText(t, w, `href="#data-total"`, "Ask the board instead")
	wantChanges(t, b.svc, "")
}
