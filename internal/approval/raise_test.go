package approval

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/store"
)

func init() {
	samples["invoice"] = `
name: invoice
version: 1
title: Invoice
initial: open
key: data.number
data:
  type: object
  required: [number]
  properties: {number: {type: string}, paid: {type: integer}}
states:
  open:
    owner: ["group:risk"]
    deadlines: [{after: P90D, fire: expire}]
    events:
      check: {to: checked, by: [owner]}
      expire: {to: gone, by: [timer]}
  checked:
    owner: ["group:risk"]
    deadlines: [{after: P90D, fire: expire}]
    events:
      paid:
        to: done
        by: ["system:payment"]
        form: {type: object, required: [amount], properties: {amount: {type: integer, minimum: 1}}}
        set: {paid: input.amount}
      expire: {to: gone, by: [timer]}
  done: {final: true}
  gone: {final: failed}
`
	samples["payment"] = `
name: payment
version: 1
title: Payment
initial: open
data:
  type: object
  required: [invoice, amount]
  properties: {invoice: {type: string}, amount: {type: integer}, told: {type: string}}
states:
  open:
    owner: [requester]
    enter: [tell]
    deadlines: [{after: P90D, fire: expire}]
    events:
      ok: {to: done, by: [effect]}
      expire: {to: failed, by: [timer, effect]}
  done: {final: true}
  failed: {final: failed}
effects:
  tell:
    event: {definition: invoice, key: "{{ data.invoice }}", event: paid, input: {amount: "{{ data.amount }}"}}
    reversible: false
    retry: {attempts: 10, first: PT10S, max: PT10S}
    on_success: {fire: ok, set: {told: result.state}}
    on_failure: {fire: expire}
`
}

func (b *bundle) payment(data string) string {
	b.t.Helper()
	b.need("invoice")
	return b.start(b.as("rosa@example.com"), "payment", data).ID
}

func TestAnEventEffectWaitsForItsInstanceAndActsAsItsDefinition(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		ana := b.as("ana@example.com")
		id := b.payment(`{"invoice":"R1","amount":7}`)
		b.rest()
		if e := b.effect(id, "tell"); e.Status != fsm.EffectRetrying {
			t.Fatalf("with no invoice it is %s", e.Status)
		}
		invoice := b.start(admin, "invoice", `{"number":"R1"}`).ID
		b.pass(time.Minute)
		b.rest() // the invoice does not take it yet
		if e := b.effect(id, "tell"); e.Status != fsm.EffectRetrying || len(e.Attempts) != 2 {
			t.Fatalf("with an invoice that is not checked it is %s after %d", e.Status, len(e.Attempts))
		}
		b.raise(ana, invoice, "check")
		b.pass(time.Minute)
		b.rest()
		v := b.instance(invoice)
		row := b.history(invoice)[2]
		if v.State != "done" || !strings.Contains(string(v.Data), `"paid":7`) || row.Actor.ID != "system:payment" || row.Actor.Via != "instance:"+id {
			t.Fatalf("the invoice is in %s with %s by %+v", v.State, v.Data, row.Actor)
		}
		sender := b.instance(id)
		if sender.State != "done" || !strings.Contains(string(sender.Data), `"told":"done"`) {
			t.Errorf("the sender is in %s with %s", sender.State, sender.Data)
		}
		var result Summary
		history := b.history(id)
		if err := json.Unmarshal(history[1].Input, &result); err != nil {
			t.Fatal(err)
		}
		if result.ID != invoice || result.Key != "R1" || result.State != "done" || result.Status != fsm.Finished || result.Revision != 3 {
			t.Errorf("the result is %+v", result)
		}
	})
}

func TestAnEventThatIsRefusedForGoodEndsItsEffectWithTheReason(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("invoice")
		invoice := b.start(admin, "invoice", `{"number":"R1"}`).ID
		b.raise(b.as("ana@example.com"), invoice, "check")
		id := b.payment(`{"invoice":"R1","amount":0}`)
		b.rest()
		e := b.effect(id, "tell")
		if v := b.instance(id); v.State != "failed" || e.Status != fsm.EffectDead || !strings.Contains(e.Attempts[0].Detail, "/amount") {
			t.Errorf("%s, the effect is %s: %+v", v.State, e.Status, e.Attempts)
		}
		if b.instance(invoice).Revision != 2 {
			t.Error("the refusal left a row")
		}
	})
}

// guarantee R-03, for events: the end of the attempt is lost, the event is not raised again
// and its success is found, also where the target has ended by it.
func TestAnEventWhoseAttemptWasLostIsNotRaisedTwice(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("invoice")
		invoice := b.start(admin, "invoice", `{"number":"R1"}`).ID
		b.raise(b.as("ana@example.com"), invoice, "check")
		id := b.payment(`{"invoice":"R1","amount":7}`)
		var k breaker
		faulty, _, stop := b.process(nil, func(point string) error {
			if point == store.PointBegin && b.instance(invoice).State == "done" {
				return errCrash // the target has taken it; the sender never hears of it
			}
			return k.fail(point)
		})
		if _, err := faulty.DispatchOnce(b.ctx); err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		stop()
		if v := b.instance(id); v.State != "open" || b.instance(invoice).State != "done" {
			t.Fatalf("the sender is in %s, the target in %s", v.State, b.instance(invoice).State)
		}
		again := b.start(admin, "invoice", `{"number":"R1"}`).ID // the key lives again
		for range 2 {
			b.pass(lease + time.Second)
			b.rest()
		}
		if v := b.instance(id); v.State != "done" || b.events(invoice, "paid") != 1 || b.instance(again).Revision != 1 {
			t.Errorf("the sender is in %s, the other invoice at %d", v.State, b.instance(again).Revision)
		}
	})
}

// A defect in handling the target is not the target's refusal.
func TestAnEventWhoseTargetIsBrokenIsTriedAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("invoice")
		invoice := b.start(admin, "invoice", `{"number":"R1"}`).ID
		b.raise(b.as("ana@example.com"), invoice, "check")
		b.write("UPDATE instances SET state = 'nowhere' WHERE id = '" + invoice + "'")
		id := b.payment(`{"invoice":"R1","amount":7}`)
		b.rest()
		if e := b.effect(id, "tell"); e.Status != fsm.EffectRetrying {
			t.Fatalf("it is %s: %+v", e.Status, e.Attempts)
		}
		b.write("UPDATE instances SET state = 'checked' WHERE id = '" + invoice + "'")
		b.pass(time.Minute)
		b.rest()
		if v := b.instance(id); v.State != "done" || b.instance(invoice).State != "done" {
			t.Errorf("the sender is in %s, the target in %s", v.State, b.instance(invoice).State)
		}
	})
}
