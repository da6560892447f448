package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"vobo/internal/testkit"
)

// secret is a signing secret of its own for each byte.
func secret(n byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
}

// secretsFile writes a file of secrets, at once as a whole.
func secretsFile(t testing.TB, path, text string) {
	t.Helper()
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		t.Fatal(err)
	}
}

// withSecrets is a setup with a file of secrets, and where that is.
func withSecrets(t testing.TB, how setup, text string) (setup, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	secretsFile(t, path, text)
	env := map[string]string{"VOBO_WEBHOOK_SECRETS": path}
	for name, value := range how.env {
		env[name] = value
	}
	how.env = env
	return how, path
}

// reference is the reference library with one secret.
func reference(t testing.TB, with string) *standardwebhooks.Webhook {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(with)
	if err != nil {
		t.Fatal(err)
	}
	return hook
}

// signedCall is the headers of a call that the reference library signed.
func signedCall(t testing.TB, with, id string, body []byte) http.Header {
	t.Helper()
	now := time.Now()
	signature, err := reference(t, with).Sign(id, now, body)
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{
		"Content-Type": {"application/json"}, "Webhook-Id": {id},
		"Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {signature},
	}
}

// hookAnswer is what a source is told.
type hookAnswer struct {
	ID         string      `json:"id"`
	Status     string      `json:"status"`
	Detail     string      `json:"detail"`
	Instance   *instance   `json:"instance"`
	Transition *transition `json:"transition"`
	Replayed   bool        `json:"replayed"`
}

// hook calls as the source "carrier" at one of the replicas.
func (s *service) hook(t testing.TB, replica int, id string, body any) (answer, error) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	at := s.replicas[replica%len(s.replicas)].URL
	return send(direct, http.MethodPost, at+"/v1/hooks/carrier", text, signedCall(t, secret(7), id, text))
}

const carrierSecrets = "sources: {carrier: {secrets: [\"%s\"]}}\n"

// parcel travels when it is shipped, is seen on its way and arrives; a system that was
// given a callback may report it lost.
const parcel = `name: parcel
version: 1
title: Parcel
initial: packing
key: data.number
data:
  type: object
  required: [number]
  properties: {number: {type: string}, tracking: {type: string}}
states:
  packing:
    owner: [requester]
    deadlines: [{after: P1D, fire: lost}]
    events:
      ship: {to: travelling, by: [owner], form: {type: object, required: [tracking], properties: {tracking: {type: string}}}, set: {tracking: input.tracking}}
      lost: {to: lost, by: [timer]}
  travelling:
    owner: ["role:operator"]
    enter: [insure]
    deadlines: [{after: P1D, fire: lost}]
    events:
      seen: {to: stay, by: ["system:carrier"], correlate: {data.tracking: input.tracking}}
      delivered: {to: arrived, by: ["system:carrier"], correlate: {data.tracking: input.tracking}, effects: [book]}
      claimed: {to: lost, by: ["system:insurer"], effects: [book]}
      lost: {to: lost, by: [timer]}
  arrived: {final: true}
  lost: {final: true}
effects:
  insure:
    webhook: {url: "{{ env.ESIGN_URL }}/policies", body: {number: "{{ data.number }}", notify: "{{ callback.url }}"}}
    callback: {events: [claimed], as: "system:insurer"}
    idempotent: true
    reversible: false
  book:
    webhook: {url: "{{ env.CORE_URL }}/booked", body: {number: "{{ data.number }}"}}
    idempotent: true
    reversible: false
`

// ship starts a parcel and lets it travel.
func (s *service) ship(t testing.TB, number string) string {
	t.Helper()
	id := s.start(rosa, "parcel", map[string]any{"number": number}).ID
	s.raise(rosa, id, map[string]any{"event": "ship", "input": map[string]any{"tracking": "T-" + number}})
	return id
}

// oneCall is a callback that is to be sent many times.
type oneCall struct {
	instance string
	send     func(replica int) (answer, error)

	mu    sync.Mutex
	first int // answers that are no replays
	seqs  map[int]int
}

func (c *oneCall) note(t *testing.T, got answer, err error) {
	if err != nil {
		t.Errorf("no answer: %v", err)
		return
	}
	var told hookAnswer
	if err := json.Unmarshal(got.body, &told); err != nil || got.status >= 300 || told.Transition == nil {
		t.Errorf("a duplicate is answered %d %s", got.status, got.body)
		return
	}
	if header := got.header.Get("Idempotent-Replayed") == "true"; header != told.Replayed {
		t.Errorf("replayed is %t, the header says %t", told.Replayed, header)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !told.Replayed {
		c.first++
	}
	c.seqs[told.Transition.Seq]++
}

// guarantee R-09: a hundred callbacks, half of them signed and half by their own token,
// each twenty times, shuffled, over three replicas.
func TestDuplicatesOfCallbacksHaveOneEffect(t *testing.T) {
	t.Parallel()
	const count, times = 100, 20
	how, _ := withSecrets(t, setup{database: testkit.Postgres(t), replicas: 3, definitions: []string{parcel}}, fmt.Sprintf(carrierSecrets, secret(7)))
	s := serve(t, how)
	calls := s.callsOfEachKind(t, count)
	var turns []*oneCall
	for range times {
		turns = append(turns, calls...)
	}
	rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	together(12, func(n int) {
		for i := n; i < len(turns); i += 12 {
			got, err := turns[i].send(rand.IntN(3))
			turns[i].note(t, got, err)
		}
	})
	s.allSent()
	for i, c := range calls {
		if c.first != 1 || len(c.seqs) != 1 || c.seqs[3] != times {
			t.Errorf("the callback %d: %d first answers, rows %v", i, c.first, c.seqs)
		}
		if rows := s.history(c.instance); len(rows) != 3 {
			t.Errorf("the callback %d left %d rows", i, len(rows))
		}
	}
	booked := map[string]int{}
	for _, call := range s.core.Calls() {
		booked[call.Header.Get("Webhook-Id")]++
	}
	for key, n := range booked {
		if n != 1 {
			t.Errorf("%s was booked %d times", key, n)
		}
	}
	if len(booked) != count {
		t.Errorf("%d bookings for %d callbacks", len(booked), count)
	}
	if t.Failed() {
		return
	}
	t.Logf("%d calls of %d callbacks: %d effects, %d replays with the first answer (0 of %d doubled, < %.2f %% at 95 %%)",
		len(turns), count, len(booked), len(turns)-count, len(turns), 300/float64(len(turns)))
}

func (s *service) callsOfEachKind(t *testing.T, count int) []*oneCall {
	t.Helper()
	calls := make([]*oneCall, count)
	together(8, func(n int) {
		for i := n; i < count; i += 8 {
			number := fmt.Sprintf("P-%d", i)
			calls[i] = &oneCall{instance: s.ship(t, number), seqs: map[int]int{}}
			id := fmt.Sprintf("msg_%d", i)
			calls[i].send = func(replica int) (answer, error) {
				return s.hook(t, replica, id, map[string]any{"event": "delivered", "input": map[string]any{"tracking": "T-" + number}})
			}
		}
	})
	notify := map[string]string{}
	for _, call := range s.esign.WaitCalls(t, "/policies", count) {
		var policy struct{ Number, Notify string }
		call.JSON(t, &policy)
		notify[policy.Number] = strings.TrimPrefix(policy.Notify, s.base)
	}
	for i := 1; i < count; i += 2 {
		path := notify[fmt.Sprintf("P-%d", i)]
		calls[i].send = func(replica int) (answer, error) {
			return s.try(s.replicas[replica].URL, noOne, http.MethodPost, path, map[string]any{"event": "claimed", "comment": "It is gone."})
		}
	}
	return calls
}

// A call may come before the wait that it is for, after it, or at the very moment: it is
// kept, and taken once, in order, whichever of the two is committed last.
func TestACallBeforeItsWaitIsTakenOnce(t *testing.T) {
	t.Parallel()
	how, _ := withSecrets(t, setup{definitions: []string{parcel}}, fmt.Sprintf(carrierSecrets, secret(7)))
	onEach(t, func(t *testing.T, s *service) {
		const rounds = 60
		var early [rounds]int // calls of each round that found no wait
		together(6, func(n int) {
			for i := n; i < rounds; i += 6 {
				early[i] = s.race(t, i)
			}
		})
		sum := 0
		for i := range rounds {
			sum += early[i]
		}
		for _, c := range each[heldCall](s, "/v1/callbacks?") {
			if c.Status != "taken" || c.Seq == 0 {
				t.Errorf("the call %s is %s: %s", c.WebhookID, c.Status, c.Detail)
			}
		}
		if n := len(each[heldCall](s, "/v1/callbacks?")); n != 2*rounds {
			t.Errorf("%d calls were kept, want %d", n, 2*rounds)
		}
		if sum == 0 || sum == 2*rounds {
			t.Errorf("%d of %d calls were early: nothing raced", sum, 2*rounds)
		}
		if t.Failed() {
			return
		}
		t.Logf("%d calls, %d of them before their wait: 0 lost, 0 doubled, 0 out of order (< %.1f %% at 95 %%)", 2*rounds, sum, 300/float64(2*rounds))
	}, how)
}

// heldCall is a row of the list of callbacks.
type heldCall struct {
	WebhookID  string `json:"webhook_id"`
	Event      string `json:"event"`
	Status     string `json:"status"`
	Detail     string `json:"detail"`
	InstanceID string `json:"instance_id"`
	Seq        int    `json:"seq"`
}

// race ships a parcel while its two calls come, each at another replica, and returns
// how many of them were early.
func (s *service) race(t *testing.T, i int) (early int) {
	number := fmt.Sprintf("R-%d", i)
	input := map[string]any{"tracking": "T-" + number}
	id := s.start(rosa, "parcel", map[string]any{"number": number}).ID
	// Not every number of turns gives a race; all together do.
	head := time.Duration(rand.IntN(30)) * time.Millisecond
	together(2, func(side int) {
		if side == i%2 {
			timer := time.NewTimer(head)
			<-timer.C
		}
		if side == 0 {
			got, err := s.try(s.replicas[i%len(s.replicas)].URL, rosa, http.MethodPost, "/v1/instances/"+id+"/events", map[string]any{"event": "ship", "input": input})
			if err != nil || got.status != http.StatusOK {
				t.Errorf("to ship %s: %v %s", number, err, got.body)
			}
			return
		}
		for n, event := range []string{"seen", "delivered"} {
			got, err := s.hook(t, i+1+n, number+"-"+event, map[string]any{"event": event, "input": input})
			var told hookAnswer
			if err == nil {
				err = json.Unmarshal(got.body, &told)
			}
			if err != nil || got.status != http.StatusAccepted {
				t.Errorf("the call %s of %s: %v %d %s", event, number, err, got.status, got.body)
				return
			}
			if told.Status == "waiting" {
				early++
			}
		}
	})
	s.waitState(id, "arrived")
	var events []string
	for _, row := range s.history(id) {
		events = append(events, row.Event)
	}
	if got := strings.Join(events, " "); strings.TrimSpace(got) != "ship seen delivered" {
		t.Errorf("the history of %s is %q", number, got)
	}
	return early
}

// A secret is exchanged while the service runs: within five seconds each call out carries
// a signature of either secret, and a source may sign with either.
func TestSecretsAreExchangedWhileItRuns(t *testing.T) {
	t.Parallel()
	before := "signing: [\"" + secret(1) + "\"]\n" + fmt.Sprintf(carrierSecrets, secret(7))
	during := "signing: [\"" + secret(2) + "\", \"" + secret(1) + "\"]\nsources: {carrier: {secrets: [\"" + secret(8) + "\", \"" + secret(7) + "\"]}}\n"
	after := "signing: [\"" + secret(2) + "\"]\n" + fmt.Sprintf(carrierSecrets, secret(8))
	how, path := withSecrets(t, setup{definitions: []string{parcel}}, before)
	s := serve(t, how)
	n := 0
	signatures := func() testkit.WebhookCall { // of one more call
		n++
		s.ship(t, fmt.Sprintf("S-%d", n))
		return s.esign.WaitCalls(t, "/policies", n)[n-1]
	}
	assertSigned(t, "before", signatures(), true, false)
	s.assertSource(t, "before", true, false)
	for _, step := range []struct {
		name, file string
		old, fresh bool
	}{{"during", during, true, true}, {"after", after, false, true}} {
		secretsFile(t, path, step.file)
		changed := time.Now()
		var call testkit.WebhookCall
		testkit.WaitForWithin(t, 5*time.Second, "the new file to be taken up", func() bool {
			call = signatures()
			return verifies(t, secret(1), call) == step.old && verifies(t, secret(2), call) == step.fresh
		})
		t.Logf("%s: taken up within %s", step.name, time.Since(changed).Round(time.Millisecond))
		assertSigned(t, step.name, call, step.old, step.fresh)
		s.assertSource(t, step.name, step.old, step.fresh)
	}
}

func verifies(t testing.TB, with string, call testkit.WebhookCall) bool {
	t.Helper()
	return reference(t, with).Verify(call.Body, call.Header) == nil
}

// assertSigned checks a call out against the old and the new secret.
func assertSigned(t *testing.T, when string, call testkit.WebhookCall, old, fresh bool) {
	t.Helper()
	want := 0
	for _, is := range []bool{old, fresh} {
		if is {
			want++
		}
	}
	if got := len(strings.Fields(call.Header.Get("Webhook-Signature"))); got != want {
		t.Errorf("%s: %d signatures, want %d", when, got, want)
	}
	if verifies(t, secret(1), call) != old || verifies(t, secret(2), call) != fresh {
		t.Errorf("%s: the old secret fits: %t, the new one: %t", when, verifies(t, secret(1), call), verifies(t, secret(2), call))
	}
	if call.Header.Get("Idempotency-Key") != call.Header.Get("Webhook-Id") {
		t.Errorf("%s: the idempotency key is %q, the id %q", when, call.Header.Get("Idempotency-Key"), call.Header.Get("Webhook-Id"))
	}
}

// assertSource calls with the old and the new secret of the source.
func (s *service) assertSource(t *testing.T, when string, old, fresh bool) {
	t.Helper()
	for n, accepted := range map[byte]bool{7: old, 8: fresh} {
		body := []byte(`{"event": "seen", "key": "nobody"}`)
		got, err := send(direct, http.MethodPost, s.at+"/v1/hooks/carrier", body, signedCall(t, secret(n), fmt.Sprintf("%s-%d", when, n), body))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: http.StatusAccepted, false: http.StatusUnauthorized}[accepted]; got.status != want {
			t.Errorf("%s: a call signed with the secret %d is answered %d, want %d", when, n, got.status, want)
		}
	}
}
