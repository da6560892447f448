package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"vobo/internal/testkit"
)

// order paints a house, which only people can undo, and tells the core of it; it is done
// once the core knows.
const order = `name: order
version: 1
title: Order
initial: working
key: data.number
data:
  type: object
  required: [number]
  properties: {number: {type: string}, receipt: {type: string}}
states:
  working:
    owner: ["role:operator"]
    enter: [paint, tell_core]
    deadlines: [{after: P1D, fire: give_up}]
    events:
      told: {to: done, by: [effect]}
      give_up: {to: failed, by: [timer, "role:operator"], compensate: true}
  done: {final: true}
  failed: {final: failed}
effects:
  paint:
    webhook: {url: "{{ env.ESIGN_URL }}/paint", body: {number: "{{ data.number }}"}}
    idempotent: true
    reversible: true
    compensate: manual
  tell_core:
    webhook: {url: "{{ env.CORE_URL }}/orders", body: {number: "{{ data.number }}"}}
    idempotent: true
    reversible: false
    on_success: {fire: told, set: {receipt: result.receipt}}
`

// refused starts orders that the core refuses, and returns each one's dead effect.
func (s *service) refused(t *testing.T, numbers ...string) (orders, dead []string) {
	t.Helper()
	s.core.Answer(testkit.AnswerText(http.StatusUnprocessableEntity, "No such customer."))
	for _, number := range numbers {
		orders = append(orders, s.start(rosa, "order", map[string]any{"number": number}).ID)
	}
	for _, id := range orders {
		dead = append(dead, s.effectOf(t, id, "tell_core", "dead"))
	}
	return orders, dead
}

// effectOf waits until an effect of an instance has a status, and returns its id.
func (s *service) effectOf(t *testing.T, id, name, status string) (effect string) {
	t.Helper()
	testkit.WaitFor(t, fmt.Sprintf("%s to be %s", name, status), func() bool {
		for _, e := range s.effects("instance_id=" + id) {
			if e.Name == name && e.Status == status {
				effect = e.ID
			}
		}
		return effect != ""
	})
	return effect
}

// What failed for good is ended by people: on the command line, one by one and as a
// list; each is tried again once.
func TestOperatorsEndEffectsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *service) {
		orders, dead := s.refused(t, "A-1", "A-2", "A-3", "A-4", "A-5")
		told := s.cli("effects", "show", dead[0])
		for _, part := range []string{"tell_core", "dead", "422", "No such customer.", "A-1", "vobo effects retry"} {
			if !strings.Contains(told, part) {
				t.Errorf("the command line does not say %q of a dead effect: %s", part, told)
			}
		}
		s.core.Answer(testkit.AnswerJSON(http.StatusOK, `{"receipt":"R-1"}`))
		before := len(s.core.Calls())
		s.cli("effects", "retry", dead[0], "--reason", "They made the customer.")
		if now := s.waitState(orders[0], "done"); now.Data["receipt"] != "R-1" {
			t.Errorf("after trying again the data is %v", now.Data)
		}
		s.cli("effects", "resolve", dead[1], "--outcome", "succeeded", "--result", `{"receipt": "by hand"}`, "--reason", "They wrote it in.")
		if now := s.waitState(orders[1], "done"); now.Data["receipt"] != "by hand" {
			t.Errorf("after it happened the data is %v", now.Data)
		}
		if plan := s.cli("effects", "redrive", "--definition", "order", "--dry-run", "--reason", "Looking."); !strings.Contains(plan, "would retry") || len(s.core.Calls()) != before+1 {
			t.Errorf("a dry run says %s, and made %d calls", plan, len(s.core.Calls())-before-1)
		}
		if done := s.cli("effects", "redrive", "--definition", "order", "--name", "tell_core", "--reason", "All are made."); !strings.Contains(done, "3 of 3 effects tried again, 0 skipped") {
			t.Errorf("the redrive says %s", done)
		}
		for _, id := range orders[2:] {
			s.waitState(id, "done")
		}
		s.allSent()
		if calls := len(s.core.Calls()); calls != before+4 {
			t.Errorf("%d calls were made for the four that were tried again", calls-before)
		}
		orders, dead = s.refused(t, "A-6")
		s.cli("effects", "resolve", dead[0], "--outcome", "failed", "--reason", "They do not want it.")
		if now := s.read(orders[0]); now.State != "working" || now.Attention {
			t.Errorf("what was given up led to %+v", now)
		}
	}, setup{definitions: []string{order}})
}

// The same on the pages, in a browser; and what no effect undoes is undone by hand, and
// said to be so.
func TestOperatorsEndEffectsInTheBrowser(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{definitions: []string{order}})
	orders, dead := s.refused(t, "B-1", "B-2", "B-3", "B-4", "B-5")
	tab := testkit.Browser(t)
	s.browseAs(t, tab, omar, "/effects?status=dead")
	tab.WaitText("B-5")
	looks(t, tab, "effects-dead")
	s.core.Answer(testkit.AnswerJSON(http.StatusOK, `{"receipt":"R-1"}`))

	end := func(effect, choice, result, reason string) {
		tab.Open(s.base + "/effects/" + effect)
		tab.Click(`#choice-` + choice)
		if result != "" {
			tab.Type("#result", result)
		}
		tab.Type("#reason", reason)
		if status := tab.Follow("form.decide button.record"); status != http.StatusOK {
			t.Errorf("%s of %s is answered with %d", choice, effect, status)
		}
	}
	tab.Open(s.base + "/effects/" + dead[0])
	tab.WaitText("422 Unprocessable Entity")
	looks(t, tab, "effect-dead")
	if status := tab.Follow("form.decide button.record"); status != http.StatusUnprocessableEntity {
		t.Errorf("no choice is answered with %d", status)
	}
	end(dead[0], "again", "", "They made the customer.")
	s.waitState(orders[0], "done")
	end(dead[1], "happened", `{"receipt": "by hand"}`, "They wrote it in.")
	if now := s.waitState(orders[1], "done"); now.Data["receipt"] != "by hand" {
		t.Errorf("after it happened the data is %v", now.Data)
	}
	tab.Open(s.base + "/effects?status=dead")
	tab.Follow(`.bulk a.button`)
	tab.WaitText("will be tried again")
	looks(t, tab, "effects-redrive")
	tab.Type("#reason", "All are made.")
	if status := tab.Follow("form.bulk-form button.record"); status != http.StatusOK {
		t.Errorf("the redrive is answered with %d", status)
	}
	for _, id := range orders[2:] {
		s.waitState(id, "done")
	}
	s.allSent()
	calls := map[string]int{}
	for _, call := range s.core.Calls() {
		calls[call.Header.Get("Webhook-Id")]++
	}
	for i, want := range []int{2, 1, 2, 2, 2} {
		if got := calls[orders[i]+"/1/2"]; got != want {
			t.Errorf("the order %d was told %d times, want %d", i+1, got, want)
		}
	}
	orders, dead = s.refused(t, "B-6")
	end(dead[0], "giveup", "", "They do not want it.")
	s.undoneByHand(t, tab, orders[0], end)
	assertClean(t, tab, s)
}

// undoneByHand cancels an order whose paint no effect undoes: it waits for a person.
func (s *service) undoneByHand(t *testing.T, tab *testkit.Tab, id string, end func(effect, choice, result, reason string)) {
	t.Helper()
	s.api(desk, http.MethodDelete, "/v1/instances/"+id, map[string]any{"reason": "Not wanted."}).want(t, http.StatusAccepted)
	manual := s.effectOf(t, id, "undo paint", "unknown")
	tab.Open(s.base + "/instances/" + id)
	tab.WaitText("an operator must undo it by hand")
	looks(t, tab, "undo-by-hand")
	end(manual, "happened", "", "Painted over.")
	s.effectOf(t, id, "undo paint", "succeeded")
	if plan := s.compensation(t, id); !plan.Done || len(plan.Items) != 1 || plan.Items[0].Status != "succeeded" {
		t.Errorf("after it was done by hand the plan is %+v", plan)
	}
	if now := s.read(id); now.Attention && now.Status != "cancelled" {
		t.Errorf("after it was done by hand: %+v", now)
	}
}

type undoing struct {
	Items []struct {
		Name   string `json:"name"`
		Undo   string `json:"undo"`
		Status string `json:"status"`
	} `json:"items"`
	Done bool `json:"done"`
}

func (s *service) compensation(t *testing.T, id string) undoing {
	t.Helper()
	var now struct {
		Compensation undoing `json:"compensation"`
	}
	s.api(desk, http.MethodGet, "/v1/instances/"+id, nil).want(t, http.StatusOK).into(t, &now)
	return now.Compensation
}

// browseAs logs a person in by the mailed link and goes on to a page.
func (s *service) browseAs(t *testing.T, tab *testkit.Tab, who, next string) {
	t.Helper()
	tab.Open(s.base + next)
	tab.Type("#email", who)
	tab.Follow("button.record")
	testkit.WaitFor(t, "the log-in mail", func() bool { return len(s.loginMails(who)) == 1 })
	tab.Open(loginLink.FindString(s.loginMails(who)[0].Text))
	if status := tab.Follow("button.record"); status != http.StatusOK {
		t.Fatalf("the log-in is answered with %d", status)
	}
}

// Operators are mailed once when effects die, by whichever replica, and not again while
// the number stays.
func TestOperatorsAreToldOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{database: testkit.Postgres(t), replicas: 3, definitions: []string{order}})
	s.refused(t, "C-1", "C-2")
	told := func(m testkit.Mail) bool {
		return len(m.To) == 1 && m.To[0] == omar && strings.Contains(m.Subject, "need a person")
	}
	count := func() (n int) {
		for _, m := range s.mail.Mails() {
			if told(m) {
				n++
			}
		}
		return n
	}
	testkit.WaitForWithin(t, leaseOver, "the mail to operators", func() bool { return count() > 0 })
	for _, p := range s.replicas { // each looks again when it starts
		p.Kill()
		p.Start()
	}
	s.refused(t, "C-3") // within a quarter of an hour
	if n := count(); n != 1 {
		t.Errorf("operators got %d mails, want 1", n)
	}
	found := s.mail.WaitMailWhere(t, "to operators", 1, told)[0]
	if !strings.Contains(found.Subject, "2 effects need a person") || !strings.Contains(found.Text, s.base+"/attention") {
		t.Errorf("the mail is %q: %s", found.Subject, found.Text)
	}
}
