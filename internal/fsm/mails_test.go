package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"vobo/internal/fsm"
)

const posting = `
name: posting
version: 1
title: Posting
initial: one
data:
  type: object
  properties:
    people: {type: array, items: {type: string}}
    watchers: {type: array, items: {type: string}}
    one: {type: string}
    contract: {}
    papers: {type: array, items: {}}
states:
  one:
    owner: [requester]
    enter: [post]
    deadlines: [{after: P9D, fire: late}]
    events: {late: {to: gone, by: [timer]}}
  gone: {final: true}
effects:
  post:
    email:
      to: ["{{ data.people }}", "{{ data.one }}"]
      cc: ["group:legal", "{{ data.watchers }}"]
      subject: {en: "Hello", es: "Hola"}
      body: "."
      attachments: [data.contract, data.papers]
    reversible: false
`

// posted gives what was queued as "address subject: problem".
func posted(b *bundle) []string {
	var all []string
	for i := range b.w.Effects {
		e := &b.w.Effects[i]
		if m := e.Frozen.Email; m != nil {
			line := m.To + " " + m.Subject
			if m.Problem != "" {
				line += ": " + m.Problem
			}
			if len(m.Cc) > 0 {
				line += fmt.Sprintf(" cc %v", m.Cc)
			}
			all = append(all, line)
		}
	}
	return all
}

func postingBundle(t *testing.T, data string) *bundle {
	b := newBundle(t, parse(t, posting))
	crew := people()
	for i := range crew {
		if crew[i].Name == "Eva" {
			crew[i].Locale = "es"
		}
	}
	b.w.Directory = fsm.NewDirectory(1, crew)
	b.start("rosa@example.com", data)
	return b
}

func TestEveryPersonGetsAMailOfTheirOwnInTheirLanguage(t *testing.T) {
	t.Parallel()
	b := postingBundle(t, `{"people":["a@example.org","luis@example.com"],"one":"A@example.org","watchers":["a@example.org","w@example.org"]}`)
	want := []string{"a@example.org Hello", "luis@example.com Hello", "eva@example.com Hola", "w@example.org Hello"}
	if got := posted(b); !slices.Equal(got, want) {
		t.Errorf("posted %q", got)
	}
}

func TestOneMalformedRecipientHarmsNobodyElse(t *testing.T) { // field report B25
	t.Parallel()
	long := strings.Repeat("x", 290) + "@example.org"
	for _, bad := range []string{"not an address", "x@y\\u200f", "", long, "effect", "timer", "did:go", "a b@example.org", "Ana <ana@example.org>", "@example.org", "a@", " a@example.org"} {
		b := postingBundle(t, fmt.Sprintf(`{"people":["a@example.org","%s","b@example.org"]}`, bad))
		var good, broken []*fsm.FrozenEmail
		for i := range b.w.Effects {
			if m := b.w.Effects[i].Frozen.Email; m != nil && !strings.HasSuffix(m.To, "@example.com") {
				if m.Problem != "" {
					broken = append(broken, m)
				} else {
					good = append(good, m)
				}
			}
		}
		if len(good) != 2 || good[0].To != "a@example.org" || good[1].To != "b@example.org" {
			t.Errorf("%q: good ones are %q", bad, posted(b))
		}
		if len(broken) != 1 || !strings.Contains(broken[0].Problem, "no mail address") || len(broken[0].To) > 260 {
			t.Errorf("%q: %q", bad, posted(b))
		}
	}
}

func TestAMailForNobodyIsOneEffectThatSaysSo(t *testing.T) {
	t.Parallel()
	b := postingBundle(t, `{"people":[]}`)
	if got := posted(b); len(got) != 3 || !strings.Contains(got[0], "Nobody with a mail address") {
		t.Errorf("posted %q", got)
	}
}

const paper = `{"name":"c.pdf","media_type":"application/pdf","size":12,"sha256":"` + "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a" + `","uri":"https://d.example/c"}`

func TestAttachmentsAreTheDocumentsThatAreThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data    string
		n       int
		problem string
	}{
		{`{"one":"a@example.org"}`, 0, ""},
		{`{"one":"a@example.org","contract":` + paper + `}`, 1, ""},
		{`{"one":"a@example.org","contract":` + paper + `,"papers":[` + paper + `,null,` + paper + `]}`, 3, ""},
		{`{"one":"a@example.org","contract":"c.pdf"}`, 0, "The attachment contract is no document"},
		{`{"one":"a@example.org","papers":[{"name":"c.pdf"}]}`, 0, "The attachment papers is no document: "},
	} {
		b := postingBundle(t, c.data)
		m := b.w.Effects[0].Frozen.Email
		if len(m.Attachments) != c.n || !strings.HasPrefix(m.Problem, c.problem) || c.problem == "" && m.Problem != "" {
			t.Errorf("%s: %+v", c.data, m)
		}
		for _, a := range m.Attachments {
			if a.Name != "c.pdf" || a.MediaType != "application/pdf" || a.Size != 12 || len(a.SHA256) != 64 || a.URI != "https://d.example/c" {
				t.Errorf("%+v", a)
			}
		}
	}
}

const asking = `
name: asking
version: 1
title: Asking
initial: one
data: {type: object, properties: {note: {type: string}}}
states:
  one:
    owner: ["user:ana@example.com", "user:luis@example.com"]
    enter: [post]
    task: {title: T, on_undeliverable: escalate}
    deadlines:
      - {after: P1D, remind: owner}
      - {after: P2D, escalate: ["user:eva@example.com"]}
      - {after: P3D, escalate: ["user:marta@example.com"]}
      - {after: P9D, fire: late}
    events:
      ok: {to: gone, by: [owner]}
      late: {to: gone, by: [timer]}
      lost: {to: gone, by: [effect]}
  gone: {final: true}
effects:
  post: {email: {to: ["x@example.org", "y@example.org"], subject: S, body: B}, reversible: false, on_undeliverable: lost}
`

// bounce lets the newest mail of a kind to somebody become dead.
func (b *bundle) bounce(to string, status fsm.EffectStatus) fsm.Step {
	b.t.Helper()
	for i := len(b.w.Effects) - 1; i >= 0; i-- {
		e := &b.w.Effects[i]
		if m := e.Frozen.TaskMail; m != nil && m.To == to || e.Frozen.Email != nil && e.Frozen.Email.To == to {
			e.Status = fsm.EffectRunning
			return b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{Effect: e.EffectID, Status: status, Detail: "550 no such user"}}, nil, b.now)
		}
	}
	b.t.Fatalf("no mail to %s", to)
	return fsm.Step{}
}

func askingBundle(t *testing.T, replace ...string) *bundle {
	b := newBundle(t, parse(t, strings.NewReplacer(replace...).Replace(asking)))
	b.start("rosa@example.com", `{}`)
	return b
}

func TestAMailThatCannotBeDeliveredMovesOnAtOnce(t *testing.T) {
	t.Parallel()
	b := askingBundle(t)
	b.accepted(b.bounce("y@example.org", fsm.EffectUnknown))
	b.state("one")
	step := b.accepted(b.bounce("x@example.org", fsm.EffectDead))
	b.state("gone")
	if step.Transition.Event != "lost" || step.Transition.Actor.ID != "effect:post" || b.attention("dead-effect") == nil {
		t.Errorf("%+v", step.Transition)
	}
	b = askingBundle(t, "on_undeliverable: lost", "on_undeliverable: escalate", "lost: {to: gone, by: [effect]}", "")
	step = b.accepted(b.bounce("x@example.org", fsm.EffectDead))
	b.state("one")
	if step.Transition.Kind != fsm.TEscalation || !slices.Contains(b.mails("escalated"), "eva") || !strings.Contains(step.Transition.Reason, "cannot be delivered") {
		t.Errorf("%+v, escalated to %v", step.Transition, b.mails("escalated"))
	}
	b.accepted(b.bounce("y@example.org", fsm.EffectDead))
	if got := b.mails("escalated"); !slices.Equal(got, []string{"eva", "marta"}) {
		t.Errorf("escalated to %v", got)
	}
	b.accepted(b.raise("ana@example.com", "ok"))
}

func TestTaskMailsCountAsUndeliverableOnlyWhenNobodyCanBeReached(t *testing.T) {
	t.Parallel()
	b := askingBundle(t)
	b.accepted(b.bounce("ana@example.com", fsm.EffectDead))
	if len(b.mails("escalated")) > 0 {
		t.Fatal("Luis can be reached")
	}
	step := b.accepted(b.bounce("luis@example.com", fsm.EffectDead))
	if step.Transition.Kind != fsm.TEscalation || !slices.Equal(b.mails("escalated"), []string{"eva"}) {
		t.Fatalf("%+v, escalated to %v", step.Transition, b.mails("escalated"))
	}
	b.accepted(b.bounce("eva@example.com", fsm.EffectDead))
	if got := b.mails("escalated"); !slices.Equal(got, []string{"eva", "marta"}) {
		t.Errorf("escalated to %v", got)
	}
	b.accepted(b.bounce("marta@example.com", fsm.EffectDead))
	b.state("one") // nobody is left; the deadline ends it
}

func TestANewerMailThatArrivesMakesSomebodyReachable(t *testing.T) {
	t.Parallel()
	b := askingBundle(t)
	b.accepted(b.bounce("ana@example.com", fsm.EffectDead))
	b.pass(24 * 3600e9) // both are reminded
	b.accepted(b.bounce("luis@example.com", fsm.EffectDead))
	if len(b.mails("escalated")) > 0 {
		t.Error("Ana's reminder is under way")
	}
	b.accepted(b.bounce("ana@example.com", fsm.EffectDead))
	if !slices.Equal(b.mails("escalated"), []string{"eva"}) {
		t.Errorf("escalated to %v", b.mails("escalated"))
	}
}

func TestASystemThatOwnsTheWaitIsReachedWithoutMail(t *testing.T) {
	t.Parallel()
	b := askingBundle(t, `, "user:luis@example.com"]`, `, "system:crm"]`)
	b.accepted(b.bounce("ana@example.com", fsm.EffectDead))
	if len(b.mails("escalated")) > 0 {
		t.Error("the system can answer")
	}
}

func TestTaskMailsThatCannotBeDeliveredMayFireAnEvent(t *testing.T) {
	t.Parallel()
	b := askingBundle(t, "on_undeliverable: escalate", "on_undeliverable: lost")
	b.accepted(b.bounce("ana@example.com", fsm.EffectDead))
	step := b.accepted(b.bounce("luis@example.com", fsm.EffectDead))
	b.state("gone")
	if step.Transition.Event != "lost" || step.Transition.Actor.Kind != fsm.ActorEffect {
		t.Errorf("%+v", step.Transition)
	}
}

func TestALateBounceMovesNothing(t *testing.T) {
	t.Parallel()
	b := askingBundle(t, "ok: {to: gone", "again: {to: one, by: [owner]}\n      ok: {to: gone")
	first := b.effect("post").EffectID
	b.accepted(b.raise("ana@example.com", "again"))
	for i := range b.w.Effects {
		if b.w.Effects[i].EffectID == first {
			b.w.Effects[i].Status = fsm.EffectRunning
		}
	}
	b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{Effect: first, Status: fsm.EffectDead}}, nil, b.now))
	b.state("one")
}
