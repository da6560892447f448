package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func TestFourEyesHoldOnEveryPath(t *testing.T) { // guarantee S-07
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("ana@example.com", onboardingData)
	b.accepted(b.raise("ana@example.com", "submit"))
	if link := b.link("ana@example.com"); link == nil {
		t.Fatal("the requester of the group may still reject and so has a link")
	} else {
		b.refused(b.click(link, "ana@example.com", "approve"), fault.EventNotAllowed)
	}
	b.refused(b.raise("ana@example.com", "approve"), fault.NotPermitted)
	asKey := b.by("ana@example.com", "approve")
	asKey.Actor.Via, asKey.Assurance = "system:bot", fsm.Impersonated
	b.refused(b.w.Fire(asKey, nil, b.now), fault.NotPermitted)
	delegate := b.by("luis@example.com", "approve")
	delegate.Actor.For = "ana@example.com"
	b.refused(b.w.Fire(delegate, nil, b.now), fault.NotPermitted)
	standing := b.by("ana@example.com", "approve")
	standing.Actor.For = "luis@example.com"
	b.refused(b.w.Fire(standing, nil, b.now), fault.NotPermitted)
	admin := b.by("ana@example.com", "approve")
	admin.Actor.Roles = []string{"admin", "operator"}
	b.refused(b.w.Fire(admin, nil, b.now), fault.NotPermitted)
	b.accepted(b.raise("luis@example.com", "approve"))
}

func TestWhoStartedItForSomebodyElseIsExcludedToo(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	ev := b.startEvent("rosa@example.com", onboardingData)
	ev.Actor, ev.Start.StartedBy = b.w.Person("ana@example.com"), "ana@example.com"
	b.accepted(b.w.Fire(ev, nil, b.now))
	b.accepted(b.raise("rosa@example.com", "submit"))
	b.refused(b.raise("ana@example.com", "approve"), fault.NotPermitted)
	if b.w.Instance.StartedBy != "ana@example.com" || b.w.Instance.Requester != "rosa@example.com" {
		t.Errorf("%+v", b.w.Instance)
	}
}

func TestWhoDidOneThingMayNotDoTheOther(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "agent-action.v1.yaml"))
	b.start("rosa@example.com", `{"agent":"a","tool":"t","arguments":{"x":1},"risk":"high","confidence":0.5}`)
	b.accepted(b.raise("ana@example.com", "edit", b.input(`{"arguments":{"x":2}}`)))
	b.refused(b.raise("ana@example.com", "approve"), fault.NotPermitted)
	b.accepted(b.raise("luis@example.com", "approve"))
	b.state("granted")
}

func TestOnlyRequestersStart(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.refused(b.w.Fire(b.startEvent("luis@example.com", onboardingData), nil, b.now), fault.NotPermitted)
	key := b.startEvent("system:crm", onboardingData)
	b.refused(b.w.Fire(key, nil, b.now), fault.NotPermitted)
	key.Actor.Roles = []string{"requester"}
	b.accepted(b.w.Fire(key, nil, b.now))
}

const lonely = `
name: lonely
version: 1
title: Lonely
initial: here
data: {type: object, properties: {who: {type: string}}}
states:
  here:
    owner: ["user:{{ data.who }}"]
    deadlines: [{after: P1D, escalate: ["group:managers"]}, {after: P2D, fire: end}]
    events:
      go: {to: over, by: [owner], not: [requester]}
      end: {to: over, by: [timer]}
  over: {final: true}
`

func TestAnOwnerThatComesOutEmptyIsEscalatedAtOnce(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{}`:                         "nobody is named",
		`{"who":"rosa@example.com"}`: "all are excluded",
		`{"who":"gone@example.com"}`: "deactivated",
		`{"who":"nobody"}`:           "unknown and without an address",
	} {
		b := newBundle(t, parse(t, lonely))
		b.start("rosa@example.com", data)
		if b.attention("no-owner") == nil {
			t.Errorf("%s: no attention", want)
		}
		if got := b.mails("task"); !slices.Equal(got, []string{"marta"}) {
			t.Errorf("%s: mails to %v", want, got)
		}
		if len(b.w.Deadlines) != 1 {
			t.Errorf("%s: the escalation is still armed", want)
		}
		b.accepted(b.raise("marta@example.com", "go"))
		if b.attention("no-owner") != nil {
			t.Errorf("%s: attention stays", want)
		}
	}
	b := newBundle(t, parse(t, strings.Replace(lonely, "group:managers", "group:none", 1)))
	b.start("rosa@example.com", `{}`)
	if got := b.mails("task"); !slices.Equal(got, []string{"olga"}) {
		t.Errorf("without an escalation operators are asked, but mails went to %v", got)
	}
}

func TestLargeGroupsAreToldWithoutALink(t *testing.T) {
	t.Parallel()
	for _, size := range []int{50, 51} {
		b := newBundle(t, parse(t, board))
		crew := []fsm.Person{{ID: "rosa@example.com", Roles: []string{"requester"}, Active: true}}
		for i := range size {
			crew = append(crew, fsm.Person{ID: fmt.Sprintf("m%02d@example.com", i), Groups: []string{"board"}, Active: true})
		}
		b.w.Directory = fsm.NewDirectory(1, crew)
		b.start("rosa@example.com", `{}`)
		links := 0
		for _, a := range b.w.Assignees {
			if a.Nonce != nil {
				links++
			}
		}
		want := 50
		if size > 50 {
			want = 0
		}
		if links != want || len(b.mails("task")) != size {
			t.Errorf("%d members: %d links, %d mails", size, links, len(b.mails("task")))
		}
		if size > 50 && !b.w.Effects[0].Frozen.TaskMail.OnlyInbox {
			t.Error("the mail does not say that there is no link")
		}
		b.accepted(b.raise("m07@example.com", "reject", comment("x")))
	}
}

func TestTheTableOfTokenOutcomesIsFollowedInItsOrder(t *testing.T) {
	t.Parallel()
	fresh := func() (*bundle, *fsm.EffectID) {
		b := newBundle(t, example(t, "onboarding.v1.yaml"))
		b.start("rosa@example.com", onboardingData)
		b.accepted(b.raise("rosa@example.com", "submit"))
		return b, b.link("ana@example.com")
	}
	deactivate := func(b *bundle) {
		all := people()
		all[1].Active = false
		b.w.Directory = fsm.NewDirectory(2, all)
	}
	later := func(b *bundle, d time.Duration) { b.now = b.now.Add(d) }
	for name, c := range map[string]struct {
		given func(*bundle)
		event string
		want  fault.Code
	}{
		"revoked before left": {func(b *bundle) { b.accepted(b.raise("luis@example.com", "approve")); deactivate(b) }, "approve", fault.TokenRevoked},
		"left by somebody":    {func(b *bundle) { b.accepted(b.raise("luis@example.com", "approve")) }, "nonsense", fault.AlreadyDecided},
		"cancelled": {func(b *bundle) {
			b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindCancel, Actor: b.w.Person("olga@example.com")}, nil, b.now))
		}, "approve", fault.AlreadyDecided},
		"expired before superseded":     {func(b *bundle) { b.pass(25 * time.Hour); later(b, 48*time.Hour) }, "approve", fault.TokenExpired},
		"superseded before suspended":   {func(b *bundle) { b.pass(25 * time.Hour); b.w.Instance.Status = fsm.Suspended }, "approve", fault.TokenRevoked},
		"suspended before not allowed":  {func(b *bundle) { b.w.Instance.Status = fsm.Suspended }, "nonsense", fault.Suspended},
		"not allowed":                   {func(*bundle) {}, "expire", fault.EventNotAllowed},
		"form before guard, no comment": {func(*bundle) {}, "reject", fault.InvalidInput},
	} {
		b, link := fresh()
		c.given(b)
		rows := len(b.w.History)
		b.refused(b.click(link, "ana@example.com", c.event), c.want)
		if len(b.w.History) != rows {
			t.Errorf("%s: something was written", name)
		}
	}
}

func TestByKeyTheOrderBeginsWithTheEventTheWaitDoesNotKnow(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.now = b.now.AddDate(0, 0, 31)
	said := b.refused(b.raise("ana@example.com", "approve"), fault.EventNotAllowedHere)
	if !strings.Contains(said.Message, "draft") || !strings.Contains(said.Message, "submit") {
		t.Errorf("it does not name state and events: %s", said.Message)
	}
	b.refused(b.raise("ana@example.com", "submit"), fault.TokenExpired)
	b.now = monday
	b.w.Instance.Status = fsm.Suspended
	b.refused(b.raise("ana@example.com", "submit"), fault.Suspended)
	b.w.Instance.Status = fsm.Running
	b.refused(b.raise("ana@example.com", "submit"), fault.NotPermitted)
	b.refused(b.raise("rosa@example.com", "submit", func(ev *fsm.Event) { ev.IfRevision = 7 }), fault.RevisionMismatch)
	b.refused(b.raise("rosa@example.com", "submit", b.input(`{"x":1}`)), fault.InvalidInput)
	b.accepted(b.raise("rosa@example.com", "submit", func(ev *fsm.Event) { ev.IfRevision = 1 }))
}

func TestATaskOfAnEarlierWaitIsAnsweredAsItsLinkWouldBe(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.accepted(b.raise("rosa@example.com", "submit"))
	wait := func(ev *fsm.Event) { ev.Wait = 2 }
	b.accepted(b.raise("ana@example.com", "approve", wait))
	b.replayed(b.raise("ana@example.com", "approve", wait), 3)
	b.refused(b.raise("ana@example.com", "reject", wait, comment("x")), fault.AlreadyDecided)
	b.refused(b.raise("luis@example.com", "approve", wait), fault.AlreadyDecided)
}

func TestDocumentsAreReferencesOfFiveFields(t *testing.T) {
	t.Parallel()
	good := `{"name":"c.pdf","media_type":"application/pdf","size":10,"sha256":"` + strings.Repeat("0", 64) + `","uri":"mem://1"}`
	for text, pointer := range map[string]string{
		`{"contract":` + good + `}`: "",
		`{}`:                        "/documents/contract",
		`{"contract":"c.pdf"}`:      "/documents/contract",
		`{"contract":` + good + `,"other":` + good + `}`:                              "/documents/other",
		`{"contract":` + strings.Replace(good, "c.pdf", "", 1) + `}`:                  "/documents/contract/name",
		`{"contract":` + strings.Replace(good, "application/", "", 1) + `}`:           "/documents/contract/media_type",
		`{"contract":` + strings.Replace(good, "10", "-1", 1) + `}`:                   "/documents/contract/size",
		`{"contract":` + strings.Replace(good, "10", `"10"`, 1) + `}`:                 "/documents/contract/size",
		`{"contract":` + strings.Replace(good, "10", "1.5", 1) + `}`:                  "/documents/contract/size",
		`{"contract":` + strings.Replace(good, "000", "00g", 1) + `}`:                 "/documents/contract/sha256",
		`{"contract":` + strings.Replace(good, "mem://1", "1", 1) + `}`:               "/documents/contract/uri",
		`{"contract":` + strings.Replace(good, `"name"`, `"extra":1,"name"`, 1) + `}`: "/documents/contract/extra",
	} {
		b := newBundle(t, example(t, "onboarding.v1.yaml"))
		b.start("rosa@example.com", onboardingData)
		b.accepted(b.raise("rosa@example.com", "submit"))
		b.accepted(b.raise("ana@example.com", "approve"))
		step := b.raise("rosa@example.com", "document_received", func(ev *fsm.Event) { ev.Documents = object(t, text) })
		if pointer == "" {
			b.accepted(step)
			continue
		}
		if r := b.refused(step, fault.InvalidInput); len(r.Fields) != 1 || r.Fields[0].Pointer != pointer {
			t.Errorf("%s: %v, want %s", text, r.Fields, pointer)
		}
	}
}

func TestAPanicWhilePlanningIsARefusalAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.w.Instance.State = "no_such_state"
	b.refused(b.raise("rosa@example.com", "submit"), fault.Internal)
	b.refused(fsm.Plan(&fsm.Snapshot{}, &fsm.Event{Kind: fsm.KindStart}, b.now), fault.Internal)
	b.refused(fsm.Plan(&fsm.Snapshot{Definition: b.w.Definition}, &fsm.Event{Kind: "other"}, b.now), fault.Internal)
}
