package fsm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func TestOnboardingRunsFromDraftToActivated(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	step := b.start("rosa@example.com", onboardingData)
	if step.Successor == (fsm.EffectID{}) {
		t.Error("the requester owns the draft and gets a link")
	}
	if b.w.Instance.Key != "ada@example.org" {
		t.Errorf("key %q", b.w.Instance.Key)
	}
	b.accepted(b.raise("rosa@example.com", "submit"))
	b.state("pending_approval")
	if got := b.mails("task"); !slices.Equal(got, []string{"rosa", "ana", "luis"}) {
		t.Errorf("task mails to %v", got)
	}
	if task := b.w.Tasks[1]; task.Title[""] != "Approve Ada" || len(task.Facts) != 3 || task.DueAt == nil || !task.DueAt.Equal(monday.AddDate(0, 0, 3)) {
		t.Errorf("task %+v", task)
	}
	other := b.link("luis@example.com")
	b.accepted(b.click(b.link("ana@example.com"), "ana@example.com", "approve"))
	b.state("waiting_docs")
	late := b.refused(b.click(other, "luis@example.com", "approve"), fault.AlreadyDecided)
	if late.Winner == nil || late.Winner.Actor != "Ana" || late.Winner.Event != "approve" || !late.Winner.At.Equal(b.now) {
		t.Errorf("winner %+v", late.Winner)
	}
	b.accepted(b.raise("rosa@example.com", "document_received", document("contract")))
	b.state("activated")
	if b.w.Instance.Status != fsm.Finished || len(b.w.Deadlines) != 0 {
		t.Errorf("status %s, %d deadlines", b.w.Instance.Status, len(b.w.Deadlines))
	}
	mail := b.effect("welcome").Frozen.Email
	if mail.To != "ada@example.org" || mail.Subject != "Welcome, Ada" {
		t.Errorf("welcome mail %+v", mail)
	}
	if err := fsm.VerifyChain(b.w.History); err != nil {
		t.Error(err)
	}
}

// field report B11
func TestLeavingAWaitCancelsItsRemindersEscalationsAndExpiry(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"approve", "reject", "cancel"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, example(t, "onboarding.v1.yaml"))
			b.start("rosa@example.com", onboardingData)
			b.accepted(b.raise("rosa@example.com", "submit"))
			b.now = b.now.Add(10 * time.Minute)
			var step fsm.Step
			if end == "cancel" {
				step = b.accepted(b.w.Fire(&fsm.Event{Kind: fsm.KindCancel, Actor: b.w.Person("olga@example.com"), Reason: "mistake"}, nil, b.now))
			} else {
				step = b.accepted(b.raise("ana@example.com", end, comment("no")))
			}
			want := []string{"remind owner, due 2026-12-01T09:00:00.000Z", "escalate group:managers, due 2026-12-02T09:00:00.000Z", "fire expire, due 2026-12-03T09:00:00.000Z"}
			if !slices.Equal(step.Transition.DeadlinesCancelled, want) {
				t.Errorf("cancelled %v", step.Transition.DeadlinesCancelled)
			}
			for _, d := range b.w.Deadlines {
				if d.Wait != 0 && d.Wait != b.w.Instance.Wait {
					t.Errorf("still armed: %+v", d)
				}
			}
			if end != "approve" && len(b.w.Deadlines) != 0 {
				t.Errorf("%d deadlines armed", len(b.w.Deadlines))
			}
			for _, e := range b.w.Effects {
				if e.Droppable && e.Status == fsm.EffectWaiting && e.Wait != b.w.Instance.Wait {
					t.Errorf("unsent mail of a left wait is not dropped: %s", e.Name)
				}
			}
			b.at(b.now.Add(80 * time.Hour))
			if got := b.mails("escalated"); len(got) != 0 {
				t.Errorf("escalated to %v", got)
			}
		})
	}
}

func TestExpiryWinsFromItsInstantOnSweptOrNot(t *testing.T) { // guarantee R-12
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.accepted(b.raise("rosa@example.com", "submit"))
	due := b.now.AddDate(0, 0, 3)
	link := b.link("ana@example.com")
	b.now = due
	b.refused(b.click(link, "ana@example.com", "approve"), fault.TokenExpired)
	b.refused(b.raise("ana@example.com", "approve"), fault.TokenExpired)
	b.now = due.Add(-time.Millisecond)
	b.accepted(b.click(link, "ana@example.com", "approve"))
	b.state("waiting_docs")
}

func TestAfterTheTimerLeftTheWaitTheLinkIsExpired(t *testing.T) { // field report B05
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.accepted(b.raise("rosa@example.com", "submit"))
	link := b.link("ana@example.com")
	b.pass(73 * time.Hour)
	b.state("expired")
	b.refused(b.click(link, "ana@example.com", "approve"), fault.TokenExpired)
	b.refused(b.click(link, "ana@example.com", "approve"), fault.TokenExpired)
	if got := b.w.Tasks[1].Status; got != "expired" {
		t.Errorf("task is %s", got)
	}
}

func TestSupplierGoesThroughQuorumQuestionAndSigningService(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "supplier.v1.yaml"))
	b.start("rosa@example.com", supplierData)
	b.state("pending_approval")
	if via := b.w.History[0].Via; !slices.Equal(via, []string{"triage"}) {
		t.Errorf("via %v", via)
	}
	link := b.link("ana@example.com")
	step := b.accepted(b.click(link, "ana@example.com", "ask", comment("Which bank?")))
	if step.Transition.Kind != fsm.TStay || step.Successor == (fsm.EffectID{}) {
		t.Fatalf("ask: %+v successor %v", step.Transition.Kind, step.Successor)
	}
	if mail := b.effect("question").Frozen.Email; mail.To != "rosa@example.com" || mail.Body != "Which bank?" {
		t.Errorf("question %+v", mail)
	}
	b.replayed(b.click(link, "ana@example.com", "ask", comment("Which bank?")), step.Transition.Seq)
	b.refused(b.click(link, "ana@example.com", "approve", b.input(`{"limit":5}`)), fault.AlreadyDecided)
	vote := b.accepted(b.click(&step.Successor, "ana@example.com", "approve", b.input(`{"limit":5}`)))
	if p := vote.Transition.Pending; p == nil || p.Have != 1 || p.Need != 2 {
		t.Errorf("pending %+v", p)
	}
	b.accepted(b.click(b.link("eva@example.com"), "eva@example.com", "approve", b.input(`{"limit":7}`)))
	b.state("signing")
	hook := b.effect("ask_signature")
	body, ok := hook.Frozen.Webhook.Body.(map[string]any)
	if !ok || body["notify"] != fsm.MarkerCallbackURL || body["amount"] != 5000.0 || hook.Frozen.Webhook.URL != "https://esign.example/envelopes" {
		t.Errorf("webhook %+v", hook.Frozen.Webhook)
	}
	callback := hook.Frozen.Callback
	b.refused(b.click(&callback, "system:esign", "signed"), fault.InvalidInput)
	signed := b.accepted(b.click(&callback, "system:esign", "signed", document("contract")))
	b.state("creating")
	b.replayed(b.click(&callback, "system:esign", "signed", document("contract")), signed.Transition.Seq)
	b.refused(b.click(&callback, "system:esign", "declined"), fault.AlreadyDecided)
	b.accepted(b.outcome("create_vendor", fsm.EffectSucceeded, `{"id":"V-1"}`))
	b.state("active")
	if b.w.Instance.Data["vendor_id"] != "V-1" || !strings.Contains(b.effect("welcome").Frozen.Email.Body, "V-1") {
		t.Errorf("data %v", b.w.Instance.Data)
	}
	if err := fsm.VerifyChain(b.w.History); err != nil {
		t.Error(err)
	}
}

func TestAChoiceMayEndAnInstanceAtItsStart(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "agent-action.v1.yaml"))
	b.start("ana@example.com", `{"agent":"a","tool":"rm","arguments":{},"risk":"low","confidence":0.95}`)
	b.state("granted")
	b.accepted(b.raise("ana@example.com", "consume"))
	again := b.raise("ana@example.com", "consume")
	if again.Refusal == nil && again.Replay == 0 {
		t.Error("consumed twice")
	}
	b.accepted(b.raise("ana@example.com", "done", b.input(`{"ok":true}`)))
	b.state("done")
}

func TestTheDecisionOfARunawayIsLimited(t *testing.T) {
	t.Parallel()
	b := newBundle(t, parse(t, strings.Replace(loop, "initial", "limits: {transitions: 3}\ninitial", 1)))
	b.start("rosa@example.com", `{}`)
	b.accepted(b.raise("rosa@example.com", "again"))
	b.accepted(b.raise("rosa@example.com", "again"))
	b.refused(b.raise("rosa@example.com", "again"), fault.LimitExceeded)
}

const loop = `
name: loop
version: 1
title: Loop
initial: here
data: {type: object, properties: {n: {type: integer, default: 0}}}
states:
  here:
    owner: [requester]
    deadlines: [{after: P9D, fire: end}]
    events:
      again: {to: here, by: [requester], set: {n: data.n + 1}}
      end: {to: over, by: [timer]}
  over: {final: true}
`
