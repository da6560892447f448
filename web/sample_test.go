package web

import (
	"encoding/json"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// sampleNow is when all samples happen.
var sampleNow = time.Date(2026, 11, 30, 10, 24, 0, 0, time.UTC)

const sampleID = "0198c0de-7a11-7000-8000-00000000000a"

func number(text string) json.Number { return json.Number(text) }

// everyField is a form with a field of each kind.
func everyField() []definitions.FormField {
	return []definitions.FormField{
		{Name: "limit", Title: "Credit limit", Description: "Per year, in euros.", Type: "integer", Minimum: "1", Required: true},
		{Name: "rate", Type: "number", Maximum: "100"},
		{Name: "label", Type: "string", MaxLength: 80},
		{Name: "note", Type: "string", MaxLength: 2000},
		{Name: "urgent", Type: "boolean"},
		{Name: "risk", Type: "string", Enum: []any{"low", "medium", "high"}},
		{Name: "level", Type: "integer", Enum: []any{number("1"), number("2"), number("3"), number("4"), number("5"), number("6")}},
		{Name: "from_day", Type: "string", Format: "date"},
		{Name: "starts", Type: "string", Format: "date-time"},
		{Name: "contact", Type: "object", Fields: []definitions.FormField{{Name: "name", Type: "string", Required: true}, {Name: "mail", Type: "string", Format: "email"}}},
		{Name: "tags", Type: "array", Items: &definitions.FormField{Type: "string"}},
		{Name: "colours", Type: "array", Items: &definitions.FormField{Type: "string", Enum: []any{"red", "green"}}},
		{Name: "refused", Type: "array", Items: &definitions.FormField{Type: "object", Fields: []definitions.FormField{{Name: "line", Type: "string", Required: true}, {Name: "cents", Type: "integer"}}}},
		{Name: "arguments", Type: "object"},
	}
}

func sampleEvents() []approval.OfferedEvent {
	return []approval.OfferedEvent{
		{
			Name: "approve", Title: "Approve", To: "signing", Comment: "optional", Effect: "The contract goes out for signing. This cannot be undone.", Form: json.RawMessage(`{"type":"object"}`),
			Fields: []definitions.FormField{{Name: "limit", Title: "Credit limit", Description: "Per year, in euros.", Type: "integer", Minimum: "1", Required: true}},
		},
		{Name: "reject", Title: "Reject", To: "rejected", Comment: "required", Effect: "The supplier is told. This cannot be undone."},
		{Name: "ask", Title: "Ask a question", Comment: "required", Effect: "Ana gets your question by mail; the request stays open."},
	}
}

func sampleTask(id, title string, due time.Duration) *approval.TaskView {
	at := approval.Time{Time: sampleNow.Add(due)}
	return &approval.TaskView{
		ID: id, InstanceID: sampleID, Definition: "supplier", State: "pending_approval", Title: title, Priority: "normal", Status: "open",
		Owners: []string{"group:risk"}, Assignees: []string{"user:luis@example.com"}, DueAt: &at, CreatedAt: approval.Time{Time: sampleNow.Add(-26 * time.Hour)}, Digest: "d1",
		Events: sampleEvents(), Requester: "Ana Ruiz", ProcessTitle: "New supplier", StateLabel: "Pending approval",
		Instructions: "Check the **sanctions list** before you decide.\n\n- Name and tax id must match the register.\n- Above 100000 a year, ask legal first.",
		Facts: []fsm.Fact{
			{Path: "name", Label: "Name", Value: "Talleres Núñez S.L."},
			{Path: "tax_id", Label: "Tax id", Value: "B-77120041"},
			{Path: "yearly", Label: "Yearly", Value: number("1250000")},
			{Path: "contract", Label: "Contract", Value: map[string]any{"name": "Framework agreement.pdf", "uri": "https://files.example.com/c/8812", "media_type": "application/pdf", "size": number("284122")}},
		},
		Why: "You are asked as a member of risk.", Pending: &fsm.Pending{Have: 1, Need: 2},
		EarlierVotes: []approval.TransitionView{{Kind: fsm.TVote, Event: "approve", Actor: approval.ActorView{ID: "rosa@example.com", Name: "Rosa Gil"}, Assurance: fsm.BySession, Comment: "Register matches.", Input: json.RawMessage(`{"limit":40000}`), At: approval.Time{Time: sampleNow.Add(-3 * time.Hour)}}},
		History:      sampleHistory()[:2],
	}
}

func sampleHistory() []approval.TransitionView {
	at := func(d time.Duration) approval.Time { return approval.Time{Time: sampleNow.Add(d)} }
	return []approval.TransitionView{
		{Seq: 1, Kind: fsm.TStart, To: "pending_approval", Via: []string{"triage"}, Actor: approval.ActorView{ID: "ana@example.com", Name: "Ana Ruiz"}, Assurance: fsm.BySession, At: at(-26 * time.Hour)},
		{Seq: 2, Kind: fsm.TReminder, Actor: approval.ActorView{ID: "timer"}, Assurance: fsm.ByEngine, At: at(-2 * time.Hour)},
		{Seq: 3, Kind: fsm.TVote, Event: "approve", Actor: approval.ActorView{ID: "rosa@example.com", Name: "Rosa Gil"}, Assurance: fsm.BySession, Comment: "Register matches.", Input: json.RawMessage(`{"limit":40000}`), At: at(-1 * time.Hour)},
		{
			Seq: 4, Kind: fsm.TTransition, Event: "approve", From: "pending_approval", To: "signing", Actor: approval.ActorView{ID: "luis@example.com", Name: "Luis Pérez", For: "Marta Sanz"}, Assurance: fsm.ByLink, At: at(-20 * time.Minute),
			Changes: []fsm.Change{{Pointer: "/limit", After: number("40000")}},
		},
	}
}

func minutesOf(n int) time.Duration { return time.Duration(n) * time.Minute }

// sampleDefinition is what the sample instance runs by.
var sampleDefinition = parsed(`
name: supplier
version: 1
initial: pending_approval
data:
  type: object
  properties: {name: {type: string}, tax_id: {type: string}, yearly: {type: integer}, email: {type: string}, envelope: {type: string}, lines: {type: array}, limit: {type: integer}}
on_cancel: [tell_partner]
states:
  pending_approval:
    owner: ["group:risk"]
    enter: [ask_signature, create_account, open_account, order_badge]
    deadlines: [{after: P7D, fire: expire}]
    events:
      approve: {to: signing, by: [owner]}
      signed: {to: signing, by: ["system:esign"], correlate: {data.email: input.signer, data.envelope: input.envelope}}
      created: {to: signing, by: [effect]}
      give_up: {title: Give it up, to: failed, by: [effect], compensate: true}
      expire: {to: failed, by: [timer], compensate: true}
  signing: {final: true}
  failed: {final: failed}
effects:
  ask_signature:
    webhook: {url: "https://sign.example.com/envelopes"}
    on_success: {fire: created}
  create_account:
    webhook: {url: "https://core.example.com/accounts"}
    idempotent: true
    reversible: true
    compensate: close_account
    on_success: {fire: created}
    on_failure: {fire: give_up}
  open_account:
    webhook: {url: "https://core.example.com/accounts"}
    reversible: true
    compensate: close_account
  close_account:
    webhook: {url: "https://core.example.com/close"}
    idempotent: true
  order_badge:
    webhook: {url: "https://badges.example.com/orders"}
    reversible: true
    compensate: manual
  tell_partner:
    webhook: {url: "https://partner.example.com/hooks"}
`)

func parsed(source string) *definitions.Definition {
	definition, problems := definitions.Parse("sample.yaml", []byte(source))
	if definition == nil {
		panic(problems)
	}
	return definition
}

func closedBy(code fault.Code, message string) *fault.Error { return fault.New(code, "%s", message) }

// sample is a service in the middle of its work: links of every kind, an inbox, an instance.
func sample() *fakeService {
	luis := approval.ActorView{ID: "luis@example.com", Name: "Luis Pérez"}
	f := &fakeService{
		now: sampleNow, links: map[string]*approval.TokenView{}, results: map[string]*approval.Result{}, tasks: map[string]*approval.TaskView{},
		logins: map[string]string{"good-login": "luis@example.com"}, session: map[string]string{"luis": "luis@example.com", "olga": "olga@example.com", "vera": "vera@example.com"},
		people: []fsm.Person{
			{ID: "ana@example.com", Name: "Ana Ruiz", Groups: []string{"sales"}, Roles: []string{"requester"}, Timezone: "Europe/Madrid", Active: true},
			{ID: "luis@example.com", Name: "Luis Pérez", Groups: []string{"risk"}, Roles: []string{"reviewer", "requester"}, Timezone: "Europe/Madrid", Active: true},
			{ID: "olga@example.com", Name: "Olga Ivanova", Groups: []string{"operators"}, Roles: []string{"operator", "admin"}, Timezone: "Europe/Berlin", Active: true},
			{ID: "vera@example.com", Name: "Vera Blanco", Roles: []string{"auditor"}, Timezone: "Europe/Madrid", Active: true},
			{ID: "gone@example.com", Name: "Gone Person", Active: false},
		},
		history: sampleHistory(),
	}
	for token, closed := range map[string]error{
		"open": nil, "second": nil, "successor": nil,
		"decided":   &fault.Error{Code: fault.AlreadyDecided, Message: "Your answer was not needed.", Winner: &fault.Winner{Event: "approve", Actor: "Rosa Gil", At: sampleNow.Add(-time.Hour)}},
		"expired":   closedBy(fault.TokenExpired, "The deadline was Thu 26 Nov, 18:00. Ask Ana Ruiz (ana@example.com)."),
		"revoked":   closedBy(fault.TokenRevoked, "This link was for Luis and stopped working when the request was reassigned. Ask rosa@example.com."),
		"suspended": closedBy(fault.Suspended, "Olga Ivanova paused this request on Mon 30 Nov."),
		"changed":   closedBy(fault.ContentChanged, "The yearly amount was 900000 and is now 1250000. A fresh link was mailed to you."),
	} {
		f.links[token] = &approval.TokenView{Token: token, Instance: approval.Summary{ID: sampleID}, Task: *sampleTask("t-1", "New supplier Talleres Núñez, 1250000 a year", 56*time.Hour), Person: luis, Closed: closed}
	}
	for i, row := range []struct {
		title string
		due   time.Duration
	}{{"New supplier Talleres Núñez, 1250000 a year", 56 * time.Hour}, {"Approve the onboarding of María López", 5 * time.Hour}, {"mailer-agent wants to run send_mailing", -40 * time.Minute}, {"Audit the expenses of Jon Aguirre: 1840.20 EUR, three hotel nights and the fair in Köln", 9 * 24 * time.Hour}} {
		id := []string{"t-1", "t-2", "t-3", "t-4"}[i]
		f.tasks[id] = sampleTask(id, row.title, row.due)
		f.order = append(f.order, id)
	}
	f.tasks["t-2"].Priority, f.tasks["t-2"].ProcessTitle = "urgent", "Customer onboarding"
	f.tasks["t-3"].ProcessTitle, f.tasks["t-3"].Requester = "Agent action", "mailer-agent"
	f.tasks["t-4"].ProcessTitle, f.tasks["t-4"].Requester = "Expense claim", "Jon Aguirre"
	closed := sampleTask("t-9", "An older request", time.Hour)
	closed.Status = "done"
	f.tasks["t-9"] = closed
	f.effects, f.console, f.defs = sampleEffects(), sampleConsole(), []*definitions.Definition{sampleDefinition}
	f.view = approval.InstanceView{
		ID: sampleID, Definition: "supplier", Version: 1, State: "pending_approval", Status: fsm.Running, Attention: true, Key: "B-77120041", Requester: "ana@example.com",
		AttentionReasons: []fsm.Attention{{Reason: "unknown-effect", Ref: "4-1", Detail: "The signing service gave no answer within 20 s.", Since: sampleNow.Add(-10 * time.Minute)}, {Reason: "quarantine", Since: sampleNow}},
		Data:             json.RawMessage(`{"name":"Talleres Núñez S.L.","tax_id":"B-77120041","yearly":1250000,"email":"alta@talleres.example","lines":[{"id":"1","cents":12500},{"id":"2","cents":900}]}`),
		StartedAt:        approval.Time{Time: sampleNow.Add(-26 * time.Hour)}, EnteredAt: approval.Time{Time: sampleNow.Add(-26 * time.Hour)}, Tasks: []approval.TaskView{*f.tasks["t-1"]},
		Events: append(sampleEvents(), approval.OfferedEvent{Name: "withdraw", Title: "Withdraw", Comment: "optional", Effect: "The request ends."}), Labels: map[string]string{"region": "north"},
		Parent: "0198c0de-7a11-7000-8000-0000000000ff", Children: []approval.ChildrenView{{Effect: sampleID + "-3-1", Name: "check_sites", Total: 3, Running: 1, Ended: 1, Bad: 1}, {Effect: sampleID + "-3-2", Name: "ask_references", Total: 2, Bad: 2}},
		Compensation: &approval.CompensationView{NotUndone: []string{"welcome"}, Items: []approval.CompensationItemView{
			{Effect: sampleID + "-3-9", Name: "reserve_limit", Undo: "free_limit", Status: "succeeded"},
			{Effect: effectAccount, Name: "open_account", Undo: "close_account", Status: "failed"},
			{Effect: sampleID + "-2-2", Name: "order_badge", Undo: "manual", Status: "waiting"},
		}},
	}
	f.mails = []approval.MailView{{ID: "m-1", To: "luis@example.com", Subject: "New supplier Talleres Núñez, 1250000 a year", Text: "Ana Ruiz asks for your decision until Thu 3 Dec, 18:00.\n\nhttp://vobo.example/flow/a/open\n", HTML: "<!doctype html><html><head><title>x</title></head><body><p>Ana Ruiz asks for your decision.</p><a href=\"http://vobo.example/flow/a/open\">Read and decide</a></body></html>", At: sampleNow.Add(-time.Hour), Status: fsm.EffectSucceeded, Link: "http://vobo.example/flow/a/open", Instance: sampleID}}
	return f
}
