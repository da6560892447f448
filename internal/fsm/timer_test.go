package fsm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/simulate"
)

const daily = `
name: daily
version: 1
title: Daily
initial: here
data: {type: object, properties: {due: {type: string}, quiet: {type: boolean, default: false}}}
states:
  here:
    owner: ["group:risk"]
    deadlines:
      - {after: P1D, remind: owner, every: P1D, times: 10, when: "!data.quiet"}
      - {at: data.due, offset: -P1D, tell: ["group:managers"], effects: [note]}
      - {at: data.due, fire: end}
    events:
      go: {to: over, by: [owner]}
      move: {to: stay, by: [owner], form: {type: object, properties: {due: {type: string}}}, set: {due: input.due}}
      clear: {to: stay, by: [owner], unset: [due]}
      hush: {to: stay, by: [owner], set: {quiet: true}}
      end: {to: over, by: [timer]}
  over: {final: true}
effects:
  note:
    email: {to: ["someone@example.org"], subject: "Soon", body: "."}
    reversible: false
`

func dailyBundle(t *testing.T, data string) *bundle {
	b := newBundle(t, parse(t, strings.Replace(daily, "data.due, fire: end}\n", "data.due, fire: end}\n      - {after: P90D, fire: end}\n", 1)))
	b.start("rosa@example.com", data)
	return b
}

// fire offers a live deadline by rule, now.
func (b *bundle) fire(rule string) fsm.Step {
	b.t.Helper()
	for i := range b.w.Deadlines {
		if b.w.Deadlines[i].Rule == rule {
			return b.w.Fire(simulate.Due(&b.w.Deadlines[i]), nil, b.now)
		}
	}
	b.t.Fatalf("no deadline %s", rule)
	return fsm.Step{}
}

func (b *bundle) due(rule string) string {
	for _, d := range b.w.Deadlines {
		if d.Rule == rule {
			return d.DueAt.Format("01-02 15:04")
		}
	}
	return "none"
}

func TestDownTimeGivesOneCatchUpAndThenTheOldRhythm(t *testing.T) { // field report B13
	t.Parallel()
	b := dailyBundle(t, `{}`)
	b.now = b.now.Add(108 * time.Hour)
	b.accepted(b.fire("here/0"))
	if got := b.mails("reminder"); !slices.Equal(got, []string{"ana", "luis"}) {
		t.Errorf("reminded %v", got)
	}
	if got := b.due("here/0"); got != "12-05 09:00" {
		t.Errorf("the next one is at %s", got)
	}
	b.refused(b.fire("here/0"), fault.Conflict)
}

func TestAReminderDueWithTheExpiryIsNotSent(t *testing.T) { // field report B13
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.accepted(b.raise("rosa@example.com", "submit"))
	b.now = b.now.AddDate(0, 0, 5)
	reminder := simulate.Due(&b.w.Deadlines[0])
	expiry := simulate.Due(&b.w.Deadlines[2])
	b.accepted(b.w.Fire(reminder, nil, b.now))
	b.state("expired")
	if got := append(b.mails("reminder"), b.mails("escalated")...); len(got) != 0 {
		t.Errorf("stale mails to %v", got)
	}
	b.refused(b.w.Fire(expiry, nil, b.now), fault.Conflict)
}

func TestADeadlineIsLookedAtAgainUnderTheLock(t *testing.T) { // field report B14
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.accepted(b.raise("rosa@example.com", "submit"))
	offered := simulate.Due(&b.w.Deadlines[0])
	b.refused(b.w.Fire(offered, nil, b.now.Add(24*time.Hour-time.Millisecond)), fault.Conflict)
	b.w.Instance.Status = fsm.Suspended
	b.refused(b.w.Fire(offered, nil, b.now.Add(24*time.Hour)), fault.Conflict)
	b.w.Instance.Status = fsm.Running
	b.accepted(b.w.Fire(offered, nil, b.now.Add(24*time.Hour)))
	b.refused(b.w.Fire(offered, nil, b.now.Add(24*time.Hour)), fault.Conflict)
	rows := len(b.w.History)
	b.accepted(b.raise("ana@example.com", "approve"))
	b.refused(b.w.Fire(offered, nil, b.now.Add(240*time.Hour)), fault.Conflict)
	if len(b.w.History) != rows+1 {
		t.Error("a stale deadline wrote something")
	}
}

func TestAReminderBringsAFreshLinkAndTheOlderOneDies(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "supplier.v1.yaml"))
	b.start("rosa@example.com", supplierData)
	old := b.link("eva@example.com")
	b.accepted(b.raise("ana@example.com", "approve", b.input(`{"limit":1}`)))
	b.pass(24 * time.Hour)
	if got := b.mails("reminder"); !slices.Equal(got, []string{"luis", "eva"}) {
		t.Errorf("reminded %v; who has voted is left alone", got)
	}
	mail := b.effect("reminder").Frozen.TaskMail
	if mail.ReminderK != 1 || mail.ReminderN != 3 {
		t.Errorf("reminder %d of %d", mail.ReminderK, mail.ReminderN)
	}
	b.refused(b.click(old, "eva@example.com", "approve", b.input(`{"limit":1}`)), fault.TokenRevoked)
	b.accepted(b.click(b.link("eva@example.com"), "eva@example.com", "approve", b.input(`{"limit":1}`)))
	b.state("signing")
}

func TestAnEscalationAddsOwnersAndTellsBoth(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	b.start("rosa@example.com", onboardingData)
	b.accepted(b.raise("rosa@example.com", "submit"))
	b.refused(b.raise("marta@example.com", "approve"), fault.NotPermitted)
	b.pass(48 * time.Hour)
	if got := b.mails("escalated"); !slices.Equal(got, []string{"marta"}) {
		t.Errorf("escalated to %v", got)
	}
	if got := b.mails("told"); !slices.Equal(got, []string{"ana", "luis"}) {
		t.Errorf("told %v", got)
	}
	if owners := b.w.Tasks[1].Owners; !slices.Equal(owners, []string{"group:risk", "escalation group:managers"}) {
		t.Errorf("owners %v", owners)
	}
	b.accepted(b.click(b.link("marta@example.com"), "marta@example.com", "approve"))
	b.state("waiting_docs")
}

func TestAtDeadlinesFollowTheirData(t *testing.T) {
	t.Parallel()
	b := dailyBundle(t, `{"due":"2026-12-20"}`)
	if got := b.due("here/1") + " " + b.due("here/2"); got != "12-19 00:00 12-20 00:00" {
		t.Errorf("due %s", got)
	}
	if task := b.w.Tasks[0]; task.DueAt == nil || task.DueAt.Day() != 20 {
		t.Errorf("task due %v", task.DueAt)
	}
	b.accepted(b.raise("ana@example.com", "move", b.input(`{"due":"2026-12-10T15:00:00+01:00"}`)))
	if got := b.due("here/1") + " " + b.due("here/2"); got != "12-09 14:00 12-10 14:00" {
		t.Errorf("moved to %s", got)
	}
	b.accepted(b.raise("ana@example.com", "clear"))
	if got := b.due("here/1") + " " + b.due("here/2"); got != "none none" {
		t.Errorf("without a date still due %s", got)
	}
	b.accepted(b.raise("ana@example.com", "move", b.input(`{"due":"2026-12-02T09:00:00Z"}`)))
	b.at(time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC))
	if b.effect("note").Frozen.Email.To != "someone@example.org" || !slices.Contains(b.mails("told"), "marta") {
		t.Error("nobody was told")
	}
	b.accepted(b.raise("ana@example.com", "hush"))
	if got := b.due("here/1"); got != "none" {
		t.Errorf("a deadline that has been done is set again: %s", got)
	}
	b.refused(b.raise("ana@example.com", "move", b.input(`{"due":"tomorrow"}`)), fault.GuardRejected)
	b.at(time.Date(2026, 12, 2, 9, 0, 0, 0, time.UTC))
	b.state("over")
}

func TestADateThatIsPastOnEntryFiresAtTheNextSweep(t *testing.T) { // field report B19
	t.Parallel()
	b := dailyBundle(t, `{"due":"2026-11-01"}`)
	b.refused(b.raise("ana@example.com", "go"), fault.TokenExpired)
	b.accepted(b.fire("here/2"))
	b.state("over")
}

func TestADeadlineWhoseConditionDoesNotHoldPassesOver(t *testing.T) {
	t.Parallel()
	b := dailyBundle(t, `{"quiet":true}`)
	b.now = b.now.Add(24 * time.Hour)
	step := b.accepted(b.fire("here/0"))
	if len(b.mails("reminder")) != 0 || !strings.Contains(step.Transition.Reason, "condition") {
		t.Errorf("reason %q, mails %v", step.Transition.Reason, b.mails("reminder"))
	}
	if got := b.due("here/0"); got != "12-02 09:00" {
		t.Errorf("next at %s", got)
	}
}

const whole = `
name: whole
version: 1
title: Whole
initial: first
data: {type: object, properties: {n: {type: integer}}}
events:
  expire: {to: over, by: [timer], except: [second]}
deadlines:
  - {after: P2D, fire: expire}
  - {after: P1D, tell: ["group:managers"], every: P1D, times: 5}
states:
  first:
    owner: [requester]
    deadlines: [{after: P40D, fire: expire}]
    events: {on: {to: second, by: [requester]}}
  second:
    owner: [requester]
    deadlines: [{after: P40D, fire: back}]
    events: {on: {to: third, by: [requester]}, back: {to: first, by: [timer, requester]}}
  third:
    owner: [requester]
    deadlines: [{after: P40D, fire: expire}]
    events: {done: {to: over, by: [requester]}}
  over: {final: true}
`

func TestADeadlineOfTheWholeInstanceWaitsForAWaitThatKnowsItsEvent(t *testing.T) {
	t.Parallel()
	b := newBundle(t, parse(t, whole))
	b.start("rosa@example.com", `{}`)
	b.accepted(b.raise("rosa@example.com", "on"))
	b.pass(50 * time.Hour)
	b.state("second")
	if !b.w.Deadlines[0].Deferred {
		t.Fatalf("not deferred: %+v", b.w.Deadlines[0])
	}
	b.accepted(b.raise("rosa@example.com", "on"))
	b.state("third")
	b.refused(b.raise("rosa@example.com", "done"), fault.TokenExpired)
	b.pass(0)
	b.state("over")
	if got := b.mails("told"); len(got) != 2 {
		t.Errorf("told %v", got)
	}
}

func TestWallClockRemindersHoldAcrossTheChangeOfClocks(t *testing.T) { // field report B16
	t.Parallel()
	for _, c := range []struct{ name, start, want string }{
		{"gap", "2026-03-06T02:30:00-05:00", "03-07 02:30 -0500, 03-08 03:00 -0400, 03-09 02:30 -0400"},
		{"fold", "2026-10-30T01:30:00-04:00", "10-31 01:30 -0400, 11-01 01:30 -0400, 11-02 01:30 -0500"},
	} {
		b := newBundle(t, parse(t, strings.Replace(daily, "data.due, fire: end}\n", "data.due, fire: end}\n      - {after: P90D, fire: end}\n", 1)))
		zone, err := time.LoadLocation("America/New_York")
		if err != nil {
			t.Fatal(err)
		}
		if b.now, err = time.Parse(time.RFC3339, c.start); err != nil {
			t.Fatal(err)
		}
		b.w.Zone = zone
		b.start("rosa@example.com", `{}`)
		var fired []string
		for range 3 {
			b.now = b.w.Next().DueAt
			b.accepted(b.fire("here/0"))
			fired = append(fired, b.now.In(zone).Format("01-02 15:04 -0700"))
		}
		if got := strings.Join(fired, ", "); got != c.want {
			t.Errorf("%s: fired at %s, want %s", c.name, got, c.want)
		}
	}
}
