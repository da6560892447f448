package fsm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/simulate"
)

// bundle is one instance under test with a clock of its own.
type bundle struct {
	t   *testing.T
	w   *simulate.World
	now time.Time
}

var monday = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func people() []fsm.Person {
	return []fsm.Person{
		{ID: "rosa@example.com", Name: "Rosa", Roles: []string{"requester"}, Active: true},
		{ID: "ana@example.com", Name: "Ana", Groups: []string{"risk", "agent-reviewers"}, Roles: []string{"reviewer", "requester"}, Active: true},
		{ID: "luis@example.com", Name: "Luis", Groups: []string{"risk", "legal", "agent-reviewers"}, Active: true},
		{ID: "eva@example.com", Name: "Eva", Groups: []string{"legal"}, Active: true},
		{ID: "marta@example.com", Name: "Marta", Groups: []string{"managers", "on-call"}, Active: true},
		{ID: "olga@example.com", Name: "Olga", Roles: []string{"operator"}, Active: true},
		{ID: "gone@example.com", Name: "Gone", Groups: []string{"risk"}, Active: false},
	}
}

// example reads an example of the definitions package.
func example(t testing.TB, name string) *definitions.Definition {
	t.Helper()
	file := filepath.Join("..", "definitions", "testdata", name)
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(src))
}

func parse(t testing.TB, src string) *definitions.Definition {
	t.Helper()
	def, problems := definitions.Parse("test.yaml", []byte(src))
	if def == nil {
		t.Fatalf("definition refused:\n%s", problems)
	}
	return def
}

func newBundle(t *testing.T, def *definitions.Definition) *bundle {
	t.Helper()
	return &bundle{t: t, now: monday, w: &simulate.World{
		Definition: def, Directory: fsm.NewDirectory(1, people()), Zone: time.UTC,
		Vars: map[string]string{"CORE_URL": "https://core.example", "ESIGN_URL": "https://esign.example"},
	}}
}

// tree reads JSON as the edges do.
func tree(t testing.TB, text string) any {
	t.Helper()
	v, err := definitions.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	m, ok := tree(t, text).(map[string]any)
	if !ok {
		t.Fatalf("not an object: %s", text)
	}
	return m
}

func (b *bundle) startEvent(requester, data string) *fsm.Event {
	return &fsm.Event{
		Kind: fsm.KindStart, Instance: "0198-test", Actor: b.w.Person(requester), Assurance: fsm.BySession,
		Start: &fsm.StartEvent{Data: object(b.t, data), Requester: requester},
	}
}

// start starts the instance and fails the test where it is refused.
func (b *bundle) start(requester, data string) fsm.Step {
	b.t.Helper()
	return b.accepted(b.w.Fire(b.startEvent(requester, data), nil, b.now))
}

// by makes a person's event, with what options add.
func (b *bundle) by(id, event string, options ...func(*fsm.Event)) *fsm.Event {
	ev := &fsm.Event{Kind: fsm.KindRaise, Actor: b.w.Person(id), Assurance: fsm.BySession, Name: event}
	if ev.Actor.Kind == fsm.ActorSystem {
		ev.Assurance = fsm.ByKey
	}
	for _, o := range options {
		o(ev)
	}
	return ev
}

func comment(text string) func(*fsm.Event) { return func(ev *fsm.Event) { ev.Comment = text } }
func digest(d string) func(*fsm.Event)     { return func(ev *fsm.Event) { ev.Digest = d } }

func (b *bundle) input(text string) func(*fsm.Event) {
	return func(ev *fsm.Event) { ev.Input = tree(b.t, text) }
}

func document(name string) func(*fsm.Event) {
	return func(ev *fsm.Event) {
		ev.Documents = map[string]any{name: map[string]any{
			"name": "c.pdf", "media_type": "application/pdf",
			"size": json.Number("10"), "sha256": strings.Repeat("0a", 32), "uri": "mem://1",
		}}
	}
}

// raise raises an event by session or key.
func (b *bundle) raise(id, event string, options ...func(*fsm.Event)) fsm.Step {
	return b.w.Fire(b.by(id, event, options...), nil, b.now)
}

// click decides by a link.
func (b *bundle) click(token *fsm.EffectID, id, event string, options ...func(*fsm.Event)) fsm.Step {
	b.t.Helper()
	if token == nil {
		b.t.Fatalf("%s has no link", id)
	}
	ev := b.by(id, event, options...)
	ev.Token, ev.Assurance = true, fsm.ByLink
	return b.w.Fire(ev, token, b.now)
}

func (b *bundle) link(id string) *fsm.EffectID {
	if strings.HasPrefix(id, "system:") {
		return b.w.Link(id)
	}
	return b.w.Link("user:" + id)
}

// at moves the clock and fires what is due on the way, each at its own time.
func (b *bundle) at(t time.Time) {
	b.t.Helper()
	for d := b.w.Next(); d != nil && !d.DueAt.After(t); d = b.w.Next() {
		if d.DueAt.After(b.now) {
			b.now = d.DueAt
		}
		b.accepted(b.w.Fire(simulate.Due(d), nil, b.now))
	}
	b.now = t
}

func (b *bundle) pass(d time.Duration) { b.t.Helper(); b.at(b.now.Add(d)) }

// succeed gives a queued effect its success.
func (b *bundle) outcome(name string, status fsm.EffectStatus, result string) fsm.Step {
	b.t.Helper()
	e := b.effect(name)
	if e.Status == fsm.EffectWaiting {
		e.Status = fsm.EffectRunning // an attempt was started before it can end
	}
	ev := &fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{Effect: e.EffectID, Status: status}}
	if result != "" {
		ev.Result.Result = tree(b.t, result)
	}
	return b.w.Fire(ev, nil, b.now)
}

// resolve says as an operator what became of an effect.
func (b *bundle) resolve(name string, status fsm.EffectStatus) fsm.Step {
	b.t.Helper()
	return b.resolveWith(name, status, "")
}

// resolveWith says what became of an effect, with a result as JSON ("" : none).
func (b *bundle) resolveWith(name string, status fsm.EffectStatus, result string) fsm.Step {
	b.t.Helper()
	r := &fsm.ResultEvent{Effect: b.effect(name).EffectID, Status: status, Resolved: true}
	if result != "" {
		tree, err := definitions.DecodeJSON([]byte(result))
		if err != nil {
			b.t.Fatal(err)
		}
		r.Result = tree
	}
	return b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Actor: b.w.Person("olga@example.com"), Result: r}, nil, b.now)
}

// again tries an effect again as an operator.
func (b *bundle) again(name string) fsm.Step {
	b.t.Helper()
	id := b.effect(name).EffectID
	return b.w.Fire(&fsm.Event{Kind: fsm.KindRetryEffect, Actor: b.w.Person("olga@example.com"), Effect: &id}, nil, b.now)
}

func (b *bundle) cancel() fsm.Step {
	b.t.Helper()
	return b.w.Fire(&fsm.Event{Kind: fsm.KindCancel, Actor: b.w.Person("olga@example.com"), Reason: "a mistake"}, nil, b.now)
}

// queued counts how often an effect was queued.
func (b *bundle) queued(name string) int {
	n := 0
	for i := range b.w.Effects {
		if b.w.Effects[i].Name == name {
			n++
		}
	}
	return n
}

// plan gives the compensation as "name status, …; not undone", done at its end.
func (b *bundle) plan() string {
	c := b.w.Instance.Compensation
	if c == nil {
		return "none"
	}
	parts := make([]string, len(c.Items))
	for i, item := range c.Items {
		parts[i] = item.Name + " " + item.Status
	}
	text := strings.Join(parts, ", ")
	if len(c.NotUndone) > 0 {
		text += "; not undone " + strings.Join(c.NotUndone, " ")
	}
	if c.Done {
		text += "; done"
	}
	return text
}

func (b *bundle) planned(want string) {
	b.t.Helper()
	if got := b.plan(); got != want {
		b.t.Fatalf("the plan is %q, want %q", got, want)
	}
}

// effect gives the newest effect of a name.
func (b *bundle) effect(name string) *simulate.Effect {
	b.t.Helper()
	for i := len(b.w.Effects) - 1; i >= 0; i-- {
		if b.w.Effects[i].Name == name {
			return &b.w.Effects[i]
		}
	}
	b.t.Fatalf("no effect %s was queued", name)
	return nil
}

func (b *bundle) accepted(s fsm.Step) fsm.Step {
	b.t.Helper()
	if s.Refusal != nil {
		b.t.Fatalf("refused: %v %v", s.Refusal, s.Refusal.Fields)
	}
	if s.Replay > 0 {
		b.t.Fatalf("answered as a replay of %d", s.Replay)
	}
	return s
}

func (b *bundle) refused(s fsm.Step, code fault.Code) *fault.Error {
	b.t.Helper()
	if s.Refusal == nil {
		b.t.Fatalf("accepted (replay %d, %+v), want %s", s.Replay, s.Transition, code)
	}
	if s.Refusal.Code != code {
		b.t.Fatalf("refused with %v, want %s", s.Refusal, code)
	}
	return s.Refusal
}

func (b *bundle) replayed(s fsm.Step, seq int) {
	b.t.Helper()
	if s.Refusal != nil || s.Replay != seq {
		b.t.Fatalf("want a replay of %d, got %d, refusal %v", seq, s.Replay, s.Refusal)
	}
}

func (b *bundle) state(want string) {
	b.t.Helper()
	if b.w.Instance.State != want {
		b.t.Fatalf("state is %s, want %s", b.w.Instance.State, want)
	}
}

func (b *bundle) attention(reason string) *fsm.Attention {
	for i := range b.w.Instance.Attention {
		if b.w.Instance.Attention[i].Reason == reason {
			return &b.w.Instance.Attention[i]
		}
	}
	return nil
}

// mails gives the addresses of mails of a kind, in order.
func (b *bundle) mails(kind string) []string {
	var to []string
	for i := range b.w.Effects {
		if m := b.w.Effects[i].Frozen.TaskMail; m != nil && m.Kind == kind {
			to = append(to, strings.TrimSuffix(m.To, "@example.com"))
		}
	}
	return to
}

const (
	onboardingData = `{"applicant":{"name":"Ada","email":"ada@example.org"},"total":500}`
	supplierData   = `{"name":"Acme","tax_id":"B123","email":"acme@example.org","yearly":5000}`
)

func idText(id fsm.EffectID) string { return fmt.Sprintf("%d-%d", id.Seq, id.N) }
