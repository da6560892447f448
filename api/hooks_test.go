package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"vobo/internal/approval"
	"vobo/internal/testkit"
)

const payment = `
name: payment
version: 1
initial: due
key: data.number
requesters: ["role:requester"]
data: {type: object, required: [number], properties: {number: {type: string}, iban: {type: string}}}
states:
  due:
    owner: ["system:bot"]
    deadlines: [{after: P1D, fire: lapse}]
    events:
      paid: {to: paid, by: ["system:bank"], correlate: {data.iban: input.iban}}
      seen: {to: stay, by: ["system:bank"]}
      lapse: {to: lapsed, by: [timer]}
  paid: {final: true}
  lapsed: {final: true}
`

const signing = `
name: signing
version: 1
initial: asked
requesters: ["role:requester"]
data: {type: object, properties: {to: {type: string}}}
states:
  asked:
    owner: ["system:bot"]
    enter: [ask]
    deadlines: [{after: P1D, fire: lapse}]
    events:
      signed: {to: signed, by: ["system:bank"]}
      lapse: {to: lapsed, by: [timer]}
  signed: {final: true}
  lapsed: {final: true}
effects:
  ask:
    webhook: {url: "RECEIVER/envelopes", body: {notify: "{{ callback.url }}", one: "{{ callback.urls.signed }}"}}
    callback: {events: [signed], as: "system:bank", verify: bank}
    idempotent: true
    reversible: false
`

// hookCall is a call as a webhook source makes it, and what a test spoils of it.
type hookCall struct {
	source, id, stamp, secret, body, kind string
	header                                http.Header // instead of the signature's own
	prefix                                string      // of the signatures
}

func goodCall(id, body string) hookCall {
	return hookCall{source: "bank", id: id, stamp: strconv.FormatInt(time.Now().Unix(), 10), secret: bankSecret, body: body, kind: "application/json"}
}

// sign is HMAC-SHA256 over id.timestamp.body, as Standard Webhooks 1.0 describes it.
func (h hookCall) sign() string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h.secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.id + "." + h.stamp + "." + h.body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// hookServer is the API on a real server, with the client's address known.
type hookServer struct {
	*bundle
	url string
}

func newHookServer(t *testing.T) *hookServer {
	t.Helper()
	b := newBundle(t)
	_, err := b.svc.Publish(t.Context(), approval.Caller{ID: "system:boss", Roles: []string{"admin"}}, "payment.yaml", []byte(payment))
	b.must(err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := approval.Client{IP: r.Header.Get("Test-Client")} // "": not counted
		b.e.ServeHTTP(w, r.WithContext(approval.WithClient(r.Context(), client)))
	}))
	t.Cleanup(s.Close)
	return &hookServer{b, s.URL}
}

// send makes the call to a path of the server and gives status and body.
func (s *hookServer) send(path string, h hookCall, headers ...string) (int, string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(h.body))
	s.must(err)
	if h.header != nil {
		r.Header = h.header.Clone()
	} else {
		r.Header.Set("webhook-id", h.id)
		r.Header.Set("webhook-timestamp", h.stamp)
		r.Header.Set("webhook-signature", h.prefix+h.sign())
	}
	if h.kind != "" {
		r.Header.Set("Content-Type", h.kind)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	s.must(err)
	defer func() { s.must(res.Body.Close()) }()
	return res.StatusCode, s.text(res), res.Header
}

func (s *hookServer) hook(h hookCall, headers ...string) (int, string) {
	s.t.Helper()
	status, text, _ := s.send("/v1/hooks/"+h.source, h, headers...)
	return status, text
}

// kept counts the calls that were kept.
func (s *hookServer) kept() int {
	s.t.Helper()
	var page struct{ Items []json.RawMessage }
	s.must(json.Unmarshal([]byte(s.text(s.call("boss", "GET", "/v1/callbacks?limit=500", ""))), &page))
	return len(page.Items)
}

func (s *hookServer) pay(number, iban string) string {
	s.t.Helper()
	var v approval.InstanceView
	s.must(json.Unmarshal([]byte(s.text(s.call("bot", "POST", "/v1/instances", `{"definition":"payment","data":{"number":"`+number+`","iban":"`+iban+`"}}`))), &v))
	if v.ID == "" {
		s.t.Fatalf("payment %s was not started", number)
	}
	return v.ID
}

// guarantee S-21, over HTTP: only an exact call passes, and every other one gets the same answer.
func TestOnlyAnExactlySignedCallIsTaken(t *testing.T) {
	t.Parallel()
	s := newHookServer(t)
	now := time.Now()
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	body := `{"event": "paid", "input": {"iban": "ES91"}}`
	with := func(change func(*hookCall)) hookCall {
		h := goodCall("m-1", body)
		change(&h)
		return h
	}
	without := func(name string) hookCall {
		h := goodCall("m-1", body)
		h.header = http.Header{"Webhook-Id": {h.id}, "Webhook-Timestamp": {h.stamp}, "Webhook-Signature": {h.sign()}}
		if name != "" {
			h.header.Del(name)
		}
		return h
	}
	twice := func(name, other string) hookCall {
		h := without("")
		h.header[name] = append(h.header[name], other)
		return h
	}
	signedAs := func(sent, signed string) hookCall { // sent is on the wire, signed was signed
		h := goodCall("m-1", signed)
		h.header = http.Header{"Webhook-Id": {h.id}, "Webhook-Timestamp": {h.stamp}, "Webhook-Signature": {h.sign()}}
		h.body = sent
		return h
	}
	alien := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	cases := map[string]hookCall{
		"an alien secret":      with(func(h *hookCall) { h.secret = alien }),
		"an unknown source":    with(func(h *hookCall) { h.source = "bunk" }),
		"an odd source":        with(func(h *hookCall) { h.source = "..%2Fbank" }),
		"a source of NUL":      with(func(h *hookCall) { h.source = "%00" }),
		"an upper-case source": with(func(h *hookCall) { h.source = "BANK" }),
		"301 s old":            with(func(h *hookCall) { h.stamp = at(-301 * time.Second) }),
		"an hour ahead":        with(func(h *hookCall) { h.stamp = at(time.Hour) }),
		"299 s ahead":          with(func(h *hookCall) { h.stamp = at(299 * time.Second) }),
		"milliseconds":         with(func(h *hookCall) { h.stamp = at(0) + "000" }),
		"a negative time":      with(func(h *hookCall) { h.stamp = "-" + at(0) }),
		"20 digits":            with(func(h *hookCall) { h.stamp = "12345678901234567890" }),
		"a time with a point":  with(func(h *hookCall) { h.stamp = at(0) + ".0" }),
		"no time":              without("Webhook-Timestamp"),
		"an empty time":        with(func(h *hookCall) { h.stamp = "" }),
		"no id":                without("Webhook-Id"),
		"an empty id":          with(func(h *hookCall) { h.id = "" }),
		"a dot in the id":      with(func(h *hookCall) { h.id = "m.1" }),
		"an id of 256":         with(func(h *hookCall) { h.id = strings.Repeat("m", 256) }),
		"no signature":         without("Webhook-Signature"),
		"two ids":              twice("Webhook-Id", "m-2"),
		"the id twice":         twice("Webhook-Id", "m-1"),
		"two times":            twice("Webhook-Timestamp", at(0)),
		"another version":      with(func(h *hookCall) { h.prefix = "x" }),
		"a key as the version": with(func(h *hookCall) { h.prefix = "v1a," }),
		"a space for the comma": with(func(h *hookCall) {
			h.header = without("").header
			h.header.Set("Webhook-Signature", "v1 "+h.sign()[3:])
		}),
		"cut short": with(func(h *hookCall) { h.header = without("").header; h.header.Set("Webhook-Signature", h.sign()[:20]) }),
		"400 alien ones before": with(func(h *hookCall) {
			h.prefix = strings.Repeat("v1,"+base64.StdEncoding.EncodeToString(make([]byte, 32))+" ", 400)
		}),
		"whitespace was taken out":      signedAs(`{"event":"paid","input":{"iban":"ES91"}}`, body),
		"keys in another order":         signedAs(`{"input": {"iban": "ES91"}, "event": "paid"}`, body),
		"a trailing newline":            signedAs(body+"\n", body),
		"the trailing newline was lost": signedAs(body, body+"\n"),
		"escapes were read":             signedAs(`{"event": "paid", "input": {"iban": "é"}}`, `{"event": "paid", "input": {"iban": "\u00E9"}}`),
		"an empty body for a signed":    signedAs("", body),
	}
	var first string
	for name, h := range cases {
		status, text := s.hook(h)
		if status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if first == "" {
			first = text
		}
		if text != first {
			t.Errorf("%s has an answer of its own: %s", name, text)
		}
	}
	if n := s.kept(); n != 0 {
		t.Errorf("%d refused calls were kept", n)
	}
	for name, h := range map[string]hookCall{
		"299 s old":                with(func(h *hookCall) { h.id, h.stamp = "g-1", at(-299*time.Second) }),
		"5 s ahead":                with(func(h *hookCall) { h.id, h.stamp = "g-2", at(5*time.Second) }),
		"the older secret":         with(func(h *hookCall) { h.id, h.secret = "g-3", olderSecret }),
		"an unknown version first": with(func(h *hookCall) { h.id, h.prefix = "g-4", "v9,AAAA v1a,AAAA " }),
		"charset":                  with(func(h *hookCall) { h.id, h.kind = "g-5", "application/json; charset=utf-8" }),
		"no content type":          with(func(h *hookCall) { h.id, h.kind = "g-6", "" }),
		"an id of 255":             with(func(h *hookCall) { h.id = strings.Repeat("g", 255) }),
	} {
		if status, text := s.hook(h); status != http.StatusAccepted || !strings.Contains(text, `"status":"waiting"`) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	lines := goodCall("g-8", body)
	lines.header = http.Header{"Webhook-Id": {lines.id}, "Webhook-Timestamp": {lines.stamp}, "Webhook-Signature": {"v1,AAAA", lines.sign()}}
	if status, text := s.hook(lines); status != http.StatusAccepted {
		t.Errorf("signatures in two lines: %d %s", status, text)
	}
	if n := s.kept(); n != 8 {
		t.Errorf("%d calls were kept, want 8", n)
	}
	t.Logf("%d spoilt calls refused, 8 good ones kept", len(cases))
}

// field report B07: what is signed are the bytes, whatever they mean.
func TestACallIsVerifiedOverItsExactBytes(t *testing.T) {
	t.Parallel()
	s := newHookServer(t)
	changed := 0
	for i, c := range []struct {
		body   string
		status int
	}{
		{"{ \"event\" : \"paid\",\r\n\t\"input\": { \"iban\": \"x\" } }", 202},
		{`{"input":{"z":1,"a":2},"event":"paid"}`, 202},
		{`{"event":"paid","input":{"a":"\u00E9\u003C\uD83D\uDE42"}}`, 202},
		{`{"event":"paid","input":{"a":"R&D <b> 1 > 0"}}`, 202},
		{`{"event":"paid","input":{"a":"🙂"}}`, 202},
		{`{"event":"paid","input":{"a":1.0,"b":1e2,"c":12345678901234567890.10}}`, 202},
		{"{\"event\":\"paid\",\"input\":{}}\n", 202},
		{`{"event":"paid","input":{"a":1,"a":2}}`, 400},
		{`{"event":"paid","event":"paid"}`, 400},
		{"{\"event\":\"paid\",\"input\":\"\xff\"}", 400},
		{`{"event":"paid","input":"\u0000"}`, 400},
		{`{"event":"paid"} {}`, 400},
		{`["paid"]`, 422},
		{`{"event":"paid","until":1}`, 422},
		{`{"input":{}}`, 422},
		{"", 400},
	} {
		h := goodCall("b-"+strconv.Itoa(i), c.body)
		before := s.kept()
		for at := 0; at < len(c.body); at += 1 + len(c.body)/6 {
			spoilt := h
			spoilt.header = http.Header{"Webhook-Id": {h.id}, "Webhook-Timestamp": {h.stamp}, "Webhook-Signature": {h.sign()}}
			b := []byte(c.body)
			b[at] ^= 1
			spoilt.body = string(b)
			if status, text := s.hook(spoilt); status != http.StatusUnauthorized {
				t.Errorf("%q with byte %d changed: %d %s", c.body, at, status, text)
			}
			changed++
		}
		if n := s.kept(); n != before {
			t.Errorf("%q: a changed byte was kept", c.body)
		}
		if status, text := s.hook(h); status != c.status {
			t.Errorf("%q: %d %s, want %d", c.body, status, text, c.status)
		}
		if n := s.kept() - before; (n == 1) != (c.status == 202) {
			t.Errorf("%q: %d calls were kept", c.body, n)
		}
	}
	t.Logf("0 of %d changed bytes accepted", changed)
}

// field report B08: a replay inside the window is the stored outcome, and a captured call is
// worthless outside it.
func TestAReplayedCallIsTheStoredOutcome(t *testing.T) {
	t.Parallel()
	s := newHookServer(t)
	id := s.pay("P-1", "ES91")
	h := goodCall("w-1", `{"event":"paid","input":{"iban":"ES91"}}`)
	status, text, head := s.send("/v1/hooks/bank", h)
	var first approval.HookResult
	s.must(json.Unmarshal([]byte(text), &first))
	if status != 202 || first.Status != "taken" || first.Replayed || first.Instance == nil || first.Instance.ID != id || first.Instance.State != "paid" || first.Transition == nil || head.Get("Idempotent-Replayed") != "" {
		t.Fatalf("first: %d %s", status, text)
	}
	if first.Transition.Actor.ID != "system:bank" || first.Transition.Assurance != "callback" {
		t.Errorf("recorded as %+v, %s", first.Transition.Actor, first.Transition.Assurance)
	}
	for range 3 {
		status, text, head := s.send("/v1/hooks/bank", h)
		var again approval.HookResult
		s.must(json.Unmarshal([]byte(text), &again))
		if status != 202 || !again.Replayed || head.Get("Idempotent-Replayed") != "true" || again.ID != first.ID || again.Transition == nil || again.Transition.Hash != first.Transition.Hash {
			t.Errorf("again: %d %s", status, text)
		}
	}
	other := goodCall("w-1", `{"event":"paid","input":{"iban":"ES92"}}`)
	if status, text := s.hook(other); status != 422 || !strings.Contains(text, "/problems/idempotency-mismatch") {
		t.Errorf("another body: %d %s", status, text)
	}
	old := h
	old.stamp = strconv.FormatInt(time.Now().Add(-601*time.Second).Unix(), 10) // as it was captured, twice the window ago
	if status, text := s.hook(old); status != 401 {
		t.Errorf("outside the window: %d %s", status, text)
	}
	var history struct{ Items []approval.TransitionView }
	s.must(json.Unmarshal([]byte(s.text(s.call("boss", "GET", "/v1/instances/"+id+"/history", ""))), &history))
	if len(history.Items) != 2 {
		t.Errorf("%d rows of history, want the start and one payment", len(history.Items))
	}
}

func TestACallFindsItsInstanceByKeyByCorrelationAndAsACloudEvent(t *testing.T) {
	t.Parallel()
	s := newHookServer(t)
	for i, c := range []struct{ number, iban, kind, body string }{
		{"K-1", "", "application/json", `{"event":"paid","key":"K-1"}`},
		{"K-2", "", "application/json", `{"event":"paid","definition":"payment","key":"K-2","comment":"Thanks."}`},
		{"K-3", "DE1", "application/json", `{"event":"paid","input":{"iban":"DE1"}}`},
		{"K-4", "", "application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"/bank","type":"com.bank.transfer.paid","subject":"K-4","data":{"n":1}}`},
		{"K-5", "DE5", "application/cloudevents+json; charset=UTF-8", `{"specversion":"1.0","id":"1","source":"/bank","type":"paid","data":{"iban":"DE5"}}`},
	} {
		id := s.pay(c.number, c.iban)
		h := goodCall("c-"+strconv.Itoa(i), c.body)
		h.kind = c.kind
		status, text := s.hook(h)
		var res approval.HookResult
		s.must(json.Unmarshal([]byte(text), &res))
		if status != 202 || res.Status != "taken" || res.Instance == nil || res.Instance.ID != id || res.Instance.State != "paid" {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
	for name, c := range map[string]struct {
		kind, body string
		status     int
	}{
		"another kind":       {"text/plain", `{"event":"paid"}`, 415},
		"a batch":            {"application/cloudevents-batch+json", `[]`, 415},
		"a form":             {"application/x-www-form-urlencoded", `event=paid`, 415},
		"another version":    {"application/cloudevents+json", `{"specversion":"0.3","id":"1","source":"/b","type":"paid"}`, 422},
		"binary data":        {"application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"/b","type":"paid","data_base64":"AA=="}`, 422},
		"no id":              {"application/cloudevents+json", `{"specversion":"1.0","source":"/b","type":"paid"}`, 422},
		"not a cloud event":  {"application/cloudevents+json", `{"event":"paid","key":"K-1"}`, 422},
		"too large, no sign": {"application/json", `"` + strings.Repeat("x", MaxBody) + `"`, 413},
	} {
		h := goodCall("x", c.body)
		h.kind = c.kind
		if c.status == 413 {
			h.header = http.Header{}
		}
		if status, text := s.hook(h); status != c.status {
			t.Errorf("%s: %d %s, want %d", name, status, text, c.status)
		}
	}
}

// Bad signatures count as other failed authentications do; good calls never do.
func TestBadSignaturesAreLimitedAndGoodCallsAreNot(t *testing.T) {
	t.Parallel()
	s := newHookServer(t)
	from := func(address string) []string { return []string{"Test-Client", address} }
	for i := range 60 {
		if status, text := s.hook(goodCall("ok-"+strconv.Itoa(i), `{"event":"paid","key":"none"}`), from("192.0.2.1")...); status != 202 {
			t.Fatalf("good call %d: %d %s", i, status, text)
		}
	}
	bad := goodCall("bad", `{"event":"paid","key":"none"}`)
	bad.secret = olderSecret[:len(olderSecret)-4] + "AAAA"
	limited := 0
	for range 40 {
		status, text, head := s.send("/v1/hooks/bank", bad, from("192.0.2.1")...)
		switch status {
		case 401:
		case 429:
			if head.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			limited++
		default:
			t.Fatalf("%d %s", status, text)
		}
	}
	if limited < 5 || limited > 12 {
		t.Errorf("%d of 40 bad calls were limited, want about 10", limited)
	}
	if status, text := s.hook(goodCall("after", `{"event":"paid","key":"none"}`), from("192.0.2.1")...); status != 202 {
		t.Errorf("a good call from there: %d %s", status, text)
	}
	if status, _ := s.hook(bad, from("192.0.2.2")...); status != 401 {
		t.Errorf("another address: %d", status)
	}
}

// A callback with verify wants the source's signature, too; until it is there an authentic
// token is told nothing.
func TestACallbackThatMustBeSignedSaysNothingUnsigned(t *testing.T) {
	t.Parallel()
	s := newHookServer(t)
	receiver := testkit.Webhook(t)
	_, err := s.svc.Publish(t.Context(), approval.Caller{ID: "system:boss", Roles: []string{"admin"}}, "signing.yaml", []byte(strings.ReplaceAll(signing, "RECEIVER", receiver.URL)))
	s.must(err)
	path := func() (whole, one string) {
		s.t.Helper()
		sent := len(receiver.Calls())
		if r := s.call("bot", "POST", "/v1/instances", `{"definition":"signing","data":{}}`); r.StatusCode != 201 {
			t.Fatal(s.text(r))
		}
		if _, err := s.svc.DispatchOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got struct{ Notify, One string }
		receiver.WaitCalls(t, "/envelopes", sent+1)[sent].JSON(t, &got)
		return strings.TrimPrefix(got.Notify, "http://vobo.test"), strings.TrimPrefix(got.One, "http://vobo.test")
	}
	whole, _ := path()
	unsigned := hookCall{kind: "application/json", header: http.Header{}}
	for name, body := range map[string]string{"good": `{"event":"signed"}`, "ill-formed": `{`, "no event": `{}`, "nothing": "", "a wrong event": `{"event":"lapse"}`} {
		unsigned.body = body
		if status, text, _ := s.send(whole, unsigned); status != 401 || strings.Contains(text, "asked") {
			t.Errorf("%s, unsigned: %d %s", name, status, text)
		}
		alien := goodCall("v-0", body)
		alien.secret = "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
		if status, text, _ := s.send(whole, alien); status != 401 {
			t.Errorf("%s, signed by another: %d %s", name, status, text)
		}
	}
	if status, text, _ := s.send(whole, goodCall("v-1", `{"event":"signed","input":{"a":1}}`)); status != 200 {
		t.Errorf("signed: %d %s", status, text)
	}
	if status, text, _ := s.send(whole, unsigned); status != 401 {
		t.Errorf("decided, unsigned: %d %s", status, text)
	}
	if status, text, _ := s.send(whole, goodCall("v-2", `{"event":"signed","input":{"a":2}}`)); status != 409 {
		t.Errorf("another decision, signed: %d %s", status, text)
	}
	_, one := path()
	if status, text, _ := s.send(one, goodCall("v-3", `{"any": ["thing", 1.0]}`)); status != 200 {
		t.Errorf("its own JSON, signed: %d %s", status, text)
	}
	if status, text, _ := s.send("/v1/callbacks/nonsense", goodCall("v-4", `{"event":"signed"}`)); status != 404 {
		t.Errorf("a bad token, signed: %d %s", status, text)
	}
}
