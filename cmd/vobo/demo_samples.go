package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

const demoPeople = `# The people of the demo. Change them and start it again with the same --dir.
people:
  - {id: ana@example.com, name: Ana Ruiz, groups: [risk], roles: [reviewer], locale: es, timezone: Europe/Madrid}
  - {id: tom@example.com, name: Tom Becker, groups: [risk], roles: [reviewer], locale: en, timezone: Europe/Berlin}
  - {id: luis@example.com, name: Luis Ferrer, groups: [legal], roles: [reviewer], locale: es, timezone: Europe/Madrid}
  - {id: marta@example.com, name: Marta Soler, groups: [managers], roles: [operator], locale: es, timezone: Europe/Madrid}
  - {id: rosa@example.com, name: Rosa Vidal, groups: [sales], roles: [requester], locale: en, timezone: Europe/Madrid}
  - {id: nina@example.com, name: Nina Patel, groups: [agent-reviewers, on-call], roles: [reviewer], locale: en, timezone: Europe/London}
  - {id: omar@example.com, name: Omar Haddad, groups: [on-call], roles: [operator], locale: en, timezone: America/New_York}
  - {id: sam@example.com, name: Sam Okafor, groups: [platform], roles: [admin, operator], locale: en, timezone: Europe/London}
`

// sample is an instance and what happened to it.
type sample struct {
	definition, data, by string
	acts                 []act
}

// act is an event that somebody raised.
type act struct{ by, event, input, comment, documents string }

const (
	rosa   = "rosa@example.com"
	ana    = "ana@example.com"
	tom    = "tom@example.com"
	luis   = "luis@example.com"
	nina   = "nina@example.com"
	agent  = "system:billing-agent"
	writer = "system:writer"

	passport = `{"contract": {"name": "contract.pdf", "media_type": "application/pdf", "size": 48211, "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "uri": "https://files.example.com/contract.pdf"}}`
)

var submit = act{by: rosa, event: "submit"}

// samples are a dozen instances and two, in states that people meet.
var samples = []sample{
	{"onboarding", `{"applicant": {"name": "Eva Lang", "email": "eva@example.com"}, "total": 12500.00}`, rosa, []act{submit}},
	{"onboarding", `{"applicant": {"name": "Kofi Mensah", "email": "kofi@example.com"}, "total": 980.50}`, rosa, []act{submit}},
	{
		"onboarding", `{"applicant": {"name": "Ingrid Dahl", "email": "ingrid@example.com"}, "total": 4300.00}`, rosa,
		[]act{submit, {by: ana, event: "approve", comment: "Known customer."}},
	},
	{
		"onboarding", `{"applicant": {"name": "Paulo Reis", "email": "paulo@example.com"}, "total": 2100.00}`, rosa,
		[]act{submit, {by: tom, event: "approve"}, {by: rosa, event: "document_received", documents: passport}},
	},
	{
		"onboarding", `{"applicant": {"name": "Mina Sato", "email": "mina@example.com"}, "total": 88000.00}`, rosa,
		[]act{submit, {by: tom, event: "reject", comment: "The proof of address is older than three months."}},
	},
	{"onboarding", `{"applicant": {"name": "Hugo Petit", "email": "hugo@example.com"}, "total": 300.00}`, rosa, nil},
	{
		"supplier", `{"name": "Acme Paper", "tax_id": "ES-B1234567", "email": "office@acme.example.com", "yearly": 24000}`, rosa,
		[]act{{by: luis, event: "approve", input: `{"limit": 20000}`}},
	},
	{"supplier", `{"name": "Nordic Tools", "tax_id": "NO-998877", "email": "sales@nordic.example.com", "yearly": 800}`, rosa, nil},
	{
		"supplier", `{"name": "Blueprint Studio", "tax_id": "DE-55512", "email": "hello@blueprint.example.com", "yearly": 61000}`, rosa,
		[]act{{by: luis, event: "ask", comment: "Who signed the framework contract of last year?"}},
	},
	{
		"supplier", `{"name": "Harbor Logistics", "tax_id": "NL-700123", "email": "legal@slow.example.com", "yearly": 18000}`, rosa,
		[]act{{by: tom, event: "approve", input: `{"limit": 15000}`}, {by: luis, event: "approve", input: `{"limit": 15000}`}},
	},
	{"agent-action", `{"agent": "billing-agent", "tool": "refund", "arguments": {"invoice": "2026-1183", "amount": 1250.00}, "risk": "high", "confidence": 0.71}`, agent, nil},
	{"agent-action", `{"agent": "billing-agent", "tool": "send_reminder", "arguments": {"invoice": "2026-1190"}, "risk": "low", "confidence": 0.97}`, agent, nil},
	{
		"agent-action", `{"agent": "billing-agent", "tool": "refund", "arguments": {"invoice": "2026-1101", "amount": 40.00}, "risk": "medium", "confidence": 0.88}`, agent,
		[]act{{by: nina, event: "approve"}, {by: agent, event: "consume"}, {by: agent, event: "done", input: `{"refund": "R-3391"}`}},
	},
	{"report-part", `{"region": "Iberia", "month": "2026-11"}`, writer, nil},
}

// seed makes the samples through the service. It may be broken off and run again:
// every step has an idempotency key.
func seed(ctx context.Context, svc *approval.Service) error {
	s := &seeder{svc: svc, callers: map[string]approval.Caller{}, sessions: []string{}}
	var err error
	for i, sample := range samples {
		if err = s.make(ctx, i, sample); err != nil {
			err = fmt.Errorf("%s %d: %w", sample.definition, i+1, err)
			break
		}
	}
	for _, session := range s.sessions {
		err = errors.Join(err, svc.Logout(ctx, session))
	}
	return err
}

type seeder struct {
	svc      *approval.Service
	callers  map[string]approval.Caller
	sessions []string
}

func (s *seeder) make(ctx context.Context, n int, sample sample) error {
	c, err := s.caller(ctx, sample.by)
	if err != nil {
		return err
	}
	data, err := definitions.DecodeJSON([]byte(sample.data))
	if err != nil {
		return err
	}
	fields, ok := data.(map[string]any)
	if !ok {
		return errors.New("the data is no object")
	}
	res, err := s.svc.Start(ctx, c, approval.StartRequest{
		Definition: sample.definition, Data: fields,
		Idem: sampleKey(fmt.Sprintf("demo-%d", n), sample.data),
	})
	if err != nil {
		return err
	}
	id := res.View.ID
	if res.Replayed {
		var first struct{ ID string }
		if err := json.Unmarshal(res.Raw, &first); err != nil {
			return err
		}
		id = first.ID
	}
	for i, a := range sample.acts {
		if err := s.act(ctx, id, fmt.Sprintf("demo-%d-%d", n, i), a); err != nil {
			return fmt.Errorf("%s by %s: %w", a.event, a.by, err)
		}
	}
	return nil
}

func (s *seeder) act(ctx context.Context, id, key string, a act) error {
	c, err := s.caller(ctx, a.by)
	if err != nil {
		return err
	}
	r := approval.RaiseRequest{Event: a.event, Comment: a.comment, Idem: sampleKey(key, a.event+a.input)}
	if a.input != "" {
		if r.Input, err = definitions.DecodeJSON([]byte(a.input)); err != nil {
			return err
		}
	}
	if a.documents != "" {
		tree, err := definitions.DecodeJSON([]byte(a.documents))
		if err != nil {
			return err
		}
		r.Documents, _ = tree.(map[string]any)
	}
	_, err = s.svc.Raise(ctx, c, id, r)
	return err
}

func sampleKey(key, body string) approval.Idempotency {
	hash := sha256.Sum256([]byte(body))
	return approval.Idempotency{Key: key, Route: "demo", BodyHash: hash[:]}
}

// caller is a person who has logged in, or a system.
func (s *seeder) caller(ctx context.Context, id string) (approval.Caller, error) {
	if c, ok := s.callers[id]; ok {
		return c, nil
	}
	if id == agent || id == writer {
		c := approval.Caller{Kind: fsm.ActorSystem, ID: id, Name: id, Roles: []string{"requester"}, Assurance: fsm.ByKey}
		s.callers[id] = c
		return c, nil
	}
	session, _, err := s.svc.LoginAs(ctx, id)
	if err != nil {
		return approval.Caller{}, err
	}
	s.sessions = append(s.sessions, session)
	c, _, err := s.svc.Session(ctx, session)
	s.callers[id] = c
	return c, err
}
