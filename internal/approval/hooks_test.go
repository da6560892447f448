package approval

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"vobo/internal/callbacks"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// parcelSample waits for calls of a carrier, found by its tracking number or its own.
const parcelSample = `
name: parcel
version: 1
title: Parcel
key: data.number
initial: packing
data:
  type: object
  required: [number, tracking]
  properties:
    number: {type: string}
    tracking: {type: string}
    place: {type: string}
    weight: {type: number}
states:
  packing:
    owner: [requester]
    deadlines: [{after: P20D, fire: expire}]
    events:
      ship: {to: shipped, by: [requester]}
      expire: {to: lost, by: [timer]}
  shipped:
    owner: ["role:operator"]
    deadlines: [{after: P20D, fire: expire}]
    events:
      scanned:
        to: stay
        by: ["system:carrier"]
        correlate: {data.tracking: input.tracking}
        form: {type: object, required: [place], properties: {place: {type: string}, tracking: {type: string}, weight: {type: number}}}
        set: {place: input.place}
      delivered:
        to: delivered
        by: ["system:carrier"]
        correlate: {data.tracking: input.tracking}
        when: data.place != "void"
      expire: {to: lost, by: [timer]}
  delivered: {final: true}
  lost: {final: failed}
`

// sourceSecret is the secret of the source with that number.
func sourceSecret(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func secretText(n byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(sourceSecret(n))
}

// hookSecrets lets carrier (with an older secret too) and esign call.
func hookSecrets() string {
	return fmt.Sprintf("sources:\n  carrier: {secrets: [%s, %s]}\n  esign: {secrets: [%s]}\n", secretText(1), secretText(2), secretText(3))
}

// signed is a call as its source signs it now.
func (b *bundle) signed(secret byte, id, body string) Signed {
	return signedAt(secret, id, body, b.svc.cfg.Clock())
}

func signedAt(secret byte, id, body string, at time.Time) Signed {
	stamp := at.Unix()
	return Signed{
		ID: id, Timestamp: fmt.Sprint(stamp), Body: []byte(body),
		Signature: callbacks.SignWebhook([][]byte{sourceSecret(secret)}, id, stamp, []byte(body)),
	}
}

// carrier calls as the carrier.
func (b *bundle) carrier(id, body string) (*HookResult, error) {
	return b.svc.Hook(b.ctx, HookRequest{Source: "carrier", ContentType: "application/json", Signed: b.signed(1, id, body)})
}

// mustCarrier is carrier where the call is accepted with a status.
func (b *bundle) mustCarrier(id, body, status string) *HookResult {
	b.t.Helper()
	res, err := b.carrier(id, body)
	if err != nil {
		b.t.Fatalf("call %s: %v", id, err)
	}
	if res.Status != status {
		b.t.Fatalf("call %s is %s (%s), want %s", id, res.Status, res.Detail, status)
	}
	return res
}

// parcel starts a parcel, shipped or not.
func (b *bundle) parcel(number, tracking string, shipped bool) string {
	b.t.Helper()
	rosa := b.as("rosa@example.com")
	id := b.start(rosa, "parcel", fmt.Sprintf(`{"number":%q,"tracking":%q}`, number, tracking)).ID
	if shipped {
		b.raise(rosa, id, "ship")
	}
	return id
}

func (b *bundle) calls(f store.CallFilter) []CallView {
	b.t.Helper()
	page, err := b.svc.Calls(b.ctx, admin, f, store.Paging{Limit: 500})
	if err != nil {
		b.t.Fatal(err)
	}
	return page.Items
}

func TestACallFindsItsInstanceByCorrelationOrByBusinessKey(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		id, other := b.parcel("P1", "T1", true), b.parcel("P2", "T2", true)
		res := b.mustCarrier("w1", `{"event":"scanned","input":{"tracking":"T1","place":"Bern"}}`, "taken")
		if res.Instance == nil || res.Instance.ID != id || res.Transition == nil || res.Transition.Event != "scanned" || res.Replayed {
			t.Fatalf("the call was answered %s", Render(res))
		}
		if row := res.Transition; row.Actor.ID != "system:carrier" || row.Assurance != fsm.ByCallback {
			t.Errorf("the history says %+v, %s", row.Actor, row.Assurance)
		}
		b.mustCarrier("w2", `{"event":"delivered","key":"P1","definition":"parcel","input":{"tracking":"T1"}}`, "taken")
		if v := b.instance(id); v.State != "delivered" || !strings.Contains(string(v.Data), `"Bern"`) {
			t.Errorf("%s with %s", v.State, v.Data)
		}
		if v := b.instance(other); v.Revision != 2 {
			t.Errorf("the other parcel is at revision %d", v.Revision)
		}
		if all := b.calls(store.CallFilter{Instance: id}); len(all) != 2 || all[0].Status != store.CallTaken || all[0].Seq == 0 {
			t.Errorf("operators see %+v", all)
		}
		_, err := b.svc.Calls(b.ctx, b.as("rosa@example.com"), store.CallFilter{}, store.Paging{})
		wantCode(t, "somebody lists calls", err, fault.Forbidden)
	})
}

// CloudEvents 1.0, structured mode: type, subject and data.
func TestACallMayBeACloudEvent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		id := b.parcel("P1", "T1", true)
		cloud := `{"specversion":"1.0","id":"e-1","source":"//carrier","type":"com.carrier.parcel.scanned","subject":"P1","traceparent":"x","data":{"tracking":"T1","place":"Bern"}}`
		for i, media := range []string{"application/cloudevents+json; charset=utf-8", "application/json"} {
			res, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", ContentType: media, Signed: b.signed(2, fmt.Sprintf("c%d", i), cloud)})
			if err != nil || res.Status != store.CallTaken || res.Instance.ID != id {
				t.Errorf("%s: %v, %v", media, res, err)
			}
		}
		rows := len(b.history(id))
		for what, body := range map[string]string{
			"version":     strings.Replace(cloud, `"1.0"`, `"0.3"`, 1),
			"no id":       strings.Replace(cloud, `"id":"e-1",`, "", 1),
			"no source":   strings.Replace(cloud, `"source":"//carrier",`, "", 1),
			"type":        strings.Replace(cloud, "parcel.scanned", "parcel.", 1),
			"binary data": strings.Replace(cloud, `"data":{`, `"data_base64":"eA==","data":{`, 1),
			"subject":     strings.Replace(cloud, `"P1"`, "1", 1),
		} {
			_, err := b.carrier("bad "+what, body)
			if fault.CodeOf(err) != fault.Unauthorized { // the id holds a space: not even read
				t.Errorf("%s with an ill-formed id: %v", what, err)
			}
			_, err = b.carrier("bad-"+strings.ReplaceAll(what, " ", "-"), body)
			wantCode(t, what, err, fault.InvalidInput)
		}
		b.unchanged("ill-formed CloudEvents", id, rows)
		if n := len(b.calls(store.CallFilter{})); n != 2 {
			t.Errorf("%d calls are kept, want the 2 that were accepted", n)
		}
	})
}

func TestACallThatCannotBeReadIsNotKept(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		for i, c := range []struct {
			body string
			code fault.Code
		}{
			{`{`, fault.Malformed},
			{`{"event":"scanned","event":"delivered"}`, fault.Malformed},
			{`[]`, fault.InvalidInput},
			{`{"input":{}}`, fault.InvalidInput},
			{`{"event":7}`, fault.InvalidInput},
			{`{"event":"scanned","state":"delivered"}`, fault.InvalidInput}, // guarantee S-28
			{`{"event":"scanned","definition":"parcel"}`, fault.InvalidInput},
			{`{"event":"scanned","documents":[]}`, fault.InvalidInput},
			{`{"event":"` + strings.Repeat("x", 300) + `"}`, fault.InvalidInput},
			{`{"event":"scanned","input":"` + strings.Repeat("x", maxCallBody) + `"}`, fault.TooLarge},
		} {
			_, err := b.carrier(fmt.Sprintf("w%d", i), c.body)
			wantCode(t, fmt.Sprintf("%.60s", c.body), err, c.code)
		}
		_, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", ContentType: "text/xml", Signed: b.signed(1, "x", "{}")})
		wantCode(t, "XML", err, fault.Unsupported)
		if all := b.calls(store.CallFilter{}); len(all) != 0 {
			t.Errorf("kept: %+v", all)
		}
	})
}

// field report B07: what is signed is the bytes on the wire.
func TestACallIsVerifiedOverItsExactBytes(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		id := b.parcel("P1", "T1", true)
		var last string
		for i, body := range []string{
			"{ \"input\": {\"place\": \"Bern\",\n \"tracking\": \"T1\"}, \"event\": \"scanned\" }",
			`{"input":{"tracking":"T1","place":"\u0042ern \u00E9\u003C"},"event":"scanned"}`,
			`{"event":"scanned","input":{"tracking":"T1","place":"a & b < c > d"}}`,
			`{"event":"scanned","input":{"tracking":"T1","place":"🙂"}}`,
			`{"event":"scanned","input":{"tracking":"T1","place":"x","weight":1.0}}`,
			`{"event":"scanned","input":{"tracking":"T1","place":"y","weight":1e2}}`,
			"{\"event\":\"scanned\",\"input\":{\"tracking\":\"T1\",\"place\":\"z\"}}\n",
		} {
			b.mustCarrier(fmt.Sprintf("w%d", i), body, "taken")
			last = body
		}
		rows, kept := len(b.history(id)), len(b.calls(store.CallFilter{}))
		changed := 0
		call := b.signed(1, "w-changed", last)
		for i := range last {
			other := call
			other.Body = []byte(last)
			other.Body[i] ^= 1
			_, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: other})
			if code := fault.CodeOf(err); code != fault.Unauthorized {
				t.Fatalf("byte %d changed: %v", i, err)
			}
			changed++
		}
		_, err := b.carrier("twice", `{"event":"scanned","event":"scanned","input":{"tracking":"T1","place":"q"}}`)
		wantCode(t, "duplicate keys", err, fault.Malformed)
		b.unchanged("changed bytes", id, rows)
		if n := len(b.calls(store.CallFilter{})); n != kept {
			t.Errorf("%d calls are kept, want %d", n, kept)
		}
		bound(t, "changed bytes accepted", changed)
	})
}

// field report B08, guarantee S-21: tolerance, and a replay is answered from the store.
func TestAReplayedCallGivesTheStoredResultAndNoSecondEffect(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		id := b.parcel("P1", "T1", true)
		now := b.svc.cfg.Clock()
		body := `{"event":"scanned","input":{"tracking":"T1","place":"Bern"}}`
		for offset, ok := range map[int]bool{-298: true, -302: false, 5: true, 299: false, 3600: false} {
			call := signedAt(1, fmt.Sprintf("w%d", offset), body, now.Add(time.Duration(offset)*time.Second))
			_, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: call})
			if (err == nil) != ok || err != nil && fault.CodeOf(err) != fault.Unauthorized {
				t.Errorf("a call dated %d s off: %v", offset, err)
			}
		}
		for _, stamp := range []string{fmt.Sprint(now.UnixMilli()), "-1764500000", "", "12345678901234567890", "soon"} {
			call := b.signed(1, "w-stamp", body)
			call.Timestamp = stamp
			_, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: call})
			wantCode(t, "timestamp "+stamp, err, fault.Unauthorized)
		}
		captured := signedAt(1, "captured", body, now)
		first, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: captured})
		if err != nil || first.Status != store.CallTaken {
			t.Fatalf("the first: %v, %v", first, err)
		}
		rows := len(b.history(id))
		b.pass(10 * time.Second)
		again, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: captured})
		if err != nil || !again.Replayed || again.ID != first.ID || string(Render(again.Transition)) != string(Render(first.Transition)) {
			t.Errorf("again: %v, %v, want %s", again, err, Render(first))
		}
		_, err = b.carrier("captured", `{"event":"delivered","input":{"tracking":"T1"}}`)
		wantCode(t, "its id with another body", err, fault.IdempotencyMismatch)
		b.pass(10 * time.Minute)
		_, err = b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: captured})
		wantCode(t, "at twice the window", err, fault.Unauthorized)
		b.unchanged("replays", id, rows)
	})
}

func TestAnUnknownSourceAndABadSignatureGetOneAnswer(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		body := `{"event":"scanned"}`
		_, unknown := b.svc.Hook(b.ctx, HookRequest{Source: "nobody", Signed: b.signed(1, "w1", body)})
		_, alien := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: b.signed(9, "w1", body)})
		_, others := b.svc.Hook(b.ctx, HookRequest{Source: "esign", Signed: b.signed(1, "w1", body)})
		want := wantCode(t, "an unknown source", unknown, fault.Unauthorized)
		for what, err := range map[string]error{"another key": alien, "another source's key": others} {
			if got := wantCode(t, what, err, fault.Unauthorized); got.Message != want.Message {
				t.Errorf("%s: %q, want %q", what, got.Message, want.Message)
			}
		}
		b.secretsFile("sources:\n  carrier: {secrets: [" + secretText(9) + "]}\n") // the file was replaced
		if res, err := b.svc.Hook(b.ctx, HookRequest{Source: "carrier", Signed: b.signed(9, "w1", body)}); err != nil || res.Status != store.CallWaiting {
			t.Errorf("the new secret: %v, %v", res, err)
		}
	})
}

// A definition that needs a secret of this server is refused where it is not there.
func TestADefinitionIsRefusedWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		source := replaced(samples["review"], `as: "system:esign"}`, `as: "system:esign", verify: esign}`)
		_, err := b.svc.Publish(b.ctx, admin, "review.yaml", []byte(source))
		refused := wantCode(t, "without the source", err, fault.InvalidDefinition)
		if len(refused.Fields) != 1 || !strings.Contains(refused.Fields[0].Detail, "esign") || !strings.Contains(refused.Fields[0].Detail, "line ") {
			t.Errorf("refused with %+v", refused.Fields)
		}
		if !b.svc.Lint([]byte(source)).Refuses() {
			t.Error("lint lets it pass")
		}
		b.secretsFile(hookSecrets())
		b.publish(source)
	})
}

// `verify`: the URL alone does not decide, and tells nothing.
func TestACallbackThatMustBeSignedIsToldNothingUnsigned(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		b.known.Store("review", true)
		b.publish(replaced(samples["review"], `as: "system:esign"}`, `as: "system:esign", verify: esign}`))
		id := b.review()
		token, body := b.callback(id), `{"event":"signed"}`
		rows := len(b.history(id))
		alien, changed := b.signed(1, "w1", body), b.signed(3, "w1", body)
		changed.Body = []byte(`{"event":"pinged"}`)
		for what, call := range map[string]*Signed{"no signature": nil, "another source": &alien, "another body": &changed} {
			_, err := b.decide(token, RouteCallback, RaiseRequest{Event: "signed", Signed: call})
			wantCode(t, what, err, fault.Unauthorized)
			_, err = b.decide(token, RouteCallback, RaiseRequest{Event: "nonsense", Comment: strings.Repeat("x", MaxComment+1), Signed: call})
			wantCode(t, what+", ill-formed", err, fault.Unauthorized)
		}
		b.unchanged("unsigned callbacks", id, rows)
		good := b.signed(3, "w1", body)
		first := b.mustDecide(token, RouteCallback, RaiseRequest{Event: "signed", Signed: &good})
		if first.Instance.State != "approved" {
			t.Errorf("signed: %s", first.Instance.State)
		}
		if again := b.mustDecide(token, RouteCallback, RaiseRequest{Event: "signed", Signed: &good}); !again.Replayed {
			t.Error("the same again is not a replay")
		}
		for _, event := range []string{"signed", "pinged"} { // decided: still nothing is told
			_, err := b.decide(token, RouteCallback, RaiseRequest{Event: event})
			wantCode(t, "unsigned afterwards", err, fault.Unauthorized)
			wantCode(t, "ill-formed and unsigned afterwards", b.svc.ClosedOr(b.ctx, token, RouteCallback, nil, fault.New(fault.Malformed, "x")), fault.Unauthorized)
		}
		wantCode(t, "ill-formed and signed afterwards", b.svc.ClosedOr(b.ctx, token, RouteCallback, &good, fault.New(fault.Malformed, "x")), fault.AlreadyDecided)
	})
}
