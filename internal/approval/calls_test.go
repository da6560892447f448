package approval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// Whichever side commits last: the calls, or the wait that takes them.
func TestACallThatArrivesBeforeItsWaitIsTakenOnceInOrder(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		b.need("parcel")
		services := b.services(2)
		const rounds = 500
		early := sync.Map{} // how many calls had been answered when the wait began
		each(rounds, 8, func(i int) {
			round := &parcelRound{b: b, services: services, n: i, rnd: rand.New(rand.NewPCG(3, uint64(i)))}
			before, err := round.play()
			if err != nil {
				t.Errorf("round %d: %v", i, err)
				return
			}
			n, _ := early.LoadOrStore(before, new(int))
			round.count(n.(*int))
		})
		if t.Failed() {
			return
		}
		testkit.WaitFor(t, "no call to wait", func() bool { return len(b.calls(store.CallFilter{Status: store.CallWaiting})) == 0 })
		for _, status := range []string{store.CallRefused, store.CallExpired} {
			if all := b.calls(store.CallFilter{Status: status}); len(all) != 0 {
				t.Errorf("%d calls are %s, the first: %s", len(all), status, all[0].Detail)
			}
		}
		spread := ""
		for before := range 4 {
			if n, ok := early.Load(before); ok {
				spread += fmt.Sprintf(" %d before the wait: %d rounds;", before, *n.(*int))
			}
		}
		t.Logf("%d rounds of 3 calls, answered%s", rounds, spread)
		bound(t, "calls lost, doubled or out of order", rounds*3)
	})
}

// parcelRound is one parcel: three calls, one after another, and the wait that takes
// them begins at a random moment.
type parcelRound struct {
	b        *bundle
	services []*Service
	n        int
	rnd      *rand.Rand
}

var countMu sync.Mutex

func (r *parcelRound) count(n *int) {
	countMu.Lock()
	defer countMu.Unlock()
	*n++
}

func (r *parcelRound) play() (before int, err error) {
	b, tracking := r.b, fmt.Sprintf("T%d", r.n)
	rosa := b.as("rosa@example.com")
	at := func() *Service { return r.services[r.rnd.IntN(len(r.services))] }
	started, err := at().Start(b.ctx, rosa, StartRequest{Definition: "parcel", Data: map[string]any{"number": "P" + tracking, "tracking": tracking}})
	if err != nil {
		return 0, err
	}
	id := started.View.ID
	shipAt, spin, shipper := r.rnd.IntN(4), r.rnd.IntN(3000), at()
	shipped := make(chan error, 1)
	ship := func() {
		for range spin {
			runtime.Gosched()
		}
		_, err := shipper.Raise(b.ctx, rosa, id, RaiseRequest{Event: "ship"})
		shipped <- err
	}
	answered := 0
	for k, body := range []string{
		fmt.Sprintf(`{"event":"scanned","input":{"tracking":%q,"place":"one"}}`, tracking),
		fmt.Sprintf(`{"event":"scanned","input":{"tracking":%q,"place":"two"}}`, tracking),
		fmt.Sprintf(`{"event":"delivered","input":{"tracking":%q}}`, tracking),
	} {
		if k == shipAt {
			go ship()
		}
		res, err := at().Hook(b.ctx, HookRequest{Source: "carrier", Signed: b.signed(1, fmt.Sprintf("%s-%d", tracking, k), body)})
		if err != nil {
			return 0, err
		}
		if res.Status == store.CallWaiting {
			answered++
		}
	}
	if shipAt == 3 {
		ship()
	}
	if err := <-shipped; err != nil {
		return 0, err
	}
	return answered, r.ended(id)
}

// ended waits until the parcel is delivered, and checks its history.
func (r *parcelRound) ended(id string) error {
	want := []string{"start", "ship", "one", "two", "delivered"}
	var got []string
	done := func() bool {
		page, err := r.b.store.History(r.b.ctx, id, store.Paging{Limit: 100})
		if err != nil {
			return false
		}
		got = got[:0]
		for _, h := range page.Items {
			switch {
			case h.Kind == fsm.TStart:
				got = append(got, "start")
			case h.Event == "scanned":
				got = append(got, h.Input.(map[string]any)["place"].(string))
			default:
				got = append(got, h.Event)
			}
		}
		return len(got) >= len(want)
	}
	deadline, cancel := context.WithTimeout(r.b.ctx, testkit.Patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.Done():
			return fmt.Errorf("%s waits in vain: %v", id, got)
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s has %v, want %v", id, got, want)
	}
	return nil
}

// A call that came later is not taken by a wait that would have taken an earlier one.
func TestNoCallOvertakesAnEarlierOneWhileTheInstanceMovesOn(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		if err := b.svc.lookout.stop(b.ctx); err != nil { // the test looks by itself
			t.Fatal(err)
		}
		b.known.Store("parcel", true)
		b.publish(replaced(parcelSample, "      ship: {to: shipped, by: [requester]}\n", `      ship: {to: shipped, by: [requester]}
      delivered: {to: delivered, by: ["system:carrier"], correlate: {data.tracking: input.tracking}}
`))
		id := b.parcel("P1", "T1", false)
		b.mustCarrier("w1", `{"event":"scanned","key":"P1","input":{"tracking":"T1","place":"Bern"}}`, "waiting")
		second, err := readCall(&HookRequest{Source: "carrier", Signed: Signed{ID: "w2", Body: []byte(`{"event":"delivered","input":{"tracking":"T1"}}`)}})
		if err != nil {
			t.Fatal(err)
		}
		if second.Hashes, err = b.svc.callHashes(b.ctx, second); err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.KeepCall(b.ctx, second, callbackKept, lookFirst); err != nil {
			t.Fatal(err)
		}
		pass := &taking{s: b.svc, instance: id}
		if pass.snap, err = b.store.Snapshot(b.ctx, id, b.svc.planner); err != nil {
			t.Fatal(err)
		}
		pass.revision = pass.snap.Instance.Revision
		listed, err := pass.list(b.ctx)
		if err != nil || len(listed) != 2 || listed[0].Event != "scanned" {
			t.Fatalf("listed %+v, %v", listed, err)
		}
		if again, err := pass.give(b.ctx, &listed[0]); err != nil || again {
			t.Fatalf("the first, in packing: %t, %v", again, err)
		}
		b.raise(b.as("rosa@example.com"), id, "ship")
		if again, err := pass.give(b.ctx, &listed[1]); err != nil || !again {
			t.Errorf("the second, in shipped: %t, %v", again, err)
		}
		if _, err := b.svc.takeAll(b.ctx, id, nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := b.states(id)[2:]; !slices.Equal(got, []string{"scanned shipped→", "delivered shipped→delivered"}) {
			t.Errorf("taken as %v", got)
		}
		if n := metric(t, b.svc, "vobo_calls_total"); n != 3 { // one received, two taken
			t.Errorf("%v calls are counted", n)
		}
	})
}

// A crash after the commit and before the look, on either side.
func TestACallWhoseLookWasLostIsFoundByTheNextLook(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		if err := b.svc.lookout.stop(b.ctx); err != nil { // what it may still find is not what is shown here
			t.Fatal(err)
		}
		rosa := b.as("rosa@example.com")
		late := b.parcel("P1", "T1", true)
		call, err := readCall(&HookRequest{Source: "carrier", Signed: Signed{ID: "w1", Body: []byte(`{"event":"scanned","input":{"tracking":"T1","place":"Bern"}}`)}})
		if err != nil {
			t.Fatal(err)
		}
		if call.Hashes, err = b.svc.callHashes(b.ctx, call); err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.KeepCall(b.ctx, call, callbackKept, lookFirst); err != nil { // and the process ends
			t.Fatal(err)
		}
		early := b.parcel("P2", "T2", false)
		b.mustCarrier("w2", `{"event":"scanned","input":{"tracking":"T2","place":"Chur"}}`, "waiting")
		blind, _, stop := b.process(nil, nil)
		defer stop()
		if err := blind.lookout.stop(b.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := blind.Raise(b.ctx, rosa, early, RaiseRequest{Event: "ship"}); err != nil {
			t.Fatal(err)
		}
		if n := b.events(late, "scanned") + b.events(early, "scanned"); n != 0 {
			t.Fatalf("%d calls were taken without a look", n)
		}
		b.pass(lookFirst + time.Second)
		if n, err := b.svc.LookForCalls(b.ctx, 100); err != nil || n != 2 {
			t.Fatalf("looked at %d calls: %v", n, err)
		}
		if b.events(late, "scanned") != 1 || b.events(early, "scanned") != 1 {
			t.Errorf("taken: %d and %d", b.events(late, "scanned"), b.events(early, "scanned"))
		}
		b.pass(time.Hour)
		if n, err := b.svc.LookForCalls(b.ctx, 100); err != nil || n != 0 {
			t.Errorf("looked at %d taken calls: %v", n, err)
		}
	})
}

// A definition that is published after the call came.
func TestACallIsFoundByACorrelationThatIsPublishedLater(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		res := b.mustCarrier("w1", `{"event":"scanned","input":{"tracking":"T1","place":"Bern"}}`, "waiting")
		if !strings.Contains(res.Detail, "no published definition correlates scanned") {
			t.Errorf("it waits because %q", res.Detail)
		}
		id := b.parcel("P1", "T1", true)
		b.pass(time.Minute)
		if _, err := b.svc.LookForCalls(b.ctx, 100); err != nil {
			t.Fatal(err)
		}
		if b.events(id, "scanned") != 1 {
			t.Errorf("the call is %+v", b.calls(store.CallFilter{}))
		}
	})
}

func TestWhatBecomesOfACallIsSaidInWords(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		says := func(what string, res *HookResult, status, words string) {
			t.Helper()
			if res.Status != status || !strings.Contains(res.Detail, words) {
				t.Errorf("%s: %s, %q, want %s, %q", what, res.Status, res.Detail, status, words)
			}
		}
		id := b.parcel("P1", "T1", false)
		res := b.mustCarrier("early", `{"event":"scanned","key":"P1","input":{"place":"Bern","tracking":"T1"}}`, "waiting")
		says("early", res, "waiting", "Its wait has not begun.") // where an instance stands is told to operators only
		if calls := b.calls(store.CallFilter{Status: store.CallWaiting}); len(calls) != 1 || !strings.Contains(calls[0].Detail, "is in packing, which does not wait for scanned") {
			t.Errorf("operators see %+v", calls)
		}
		res = b.mustCarrier("unmatched", `{"event":"scanned","input":{"tracking":"T9","place":"Bern"}}`, "waiting")
		says("unmatched", res, "waiting", "No wait for scanned fits its input.")
		res = b.mustCarrier("no-key", `{"event":"scanned","key":"P9","definition":"parcel","input":{"tracking":"T9","place":"Bern"}}`, "waiting")
		says("no such key", res, "waiting", `No live instance of parcel has the business key "P9".`)
		twin, other := b.parcel("P2", "T2", true), b.parcel("P3", "T2", true)
		res = b.mustCarrier("ambiguous", `{"event":"scanned","input":{"tracking":"T2","place":"Bern"}}`, "waiting")
		says("ambiguous", res, "waiting", "2 instances wait for it")
		b.mustCarrier("refused", `{"event":"scanned","input":{"tracking":"T3"}}`, "waiting")
		refused := b.parcel("P4", "T3", false)
		b.raise(b.as("rosa@example.com"), refused, "ship")
		testkit.WaitFor(t, "the refusal", func() bool { return len(b.calls(store.CallFilter{Status: store.CallRefused})) == 1 })
		res = b.mustCarrier("refused", `{"event":"scanned","input":{"tracking":"T3"}}`, "refused")
		says("refused", res, "refused", "/place")
		if !res.Replayed || res.Instance != nil || b.calls(store.CallFilter{Status: store.CallRefused})[0].InstanceID != refused {
			t.Errorf("refused: %s", Render(res))
		}
		b.mustCarrier("alone", `{"event":"delivered","key":"P3","input":{"tracking":"T2"}}`, "waiting") // T2 fits both
		b.raise(b.as("rosa@example.com"), id, "ship")
		testkit.WaitFor(t, "the early one", func() bool { return b.events(id, "scanned") == 1 })
		b.mustCarrier("taken", `{"event":"delivered","input":{"tracking":"T1"}}`, "taken")
		res = b.mustCarrier("late", `{"event":"delivered","key":"P1","input":{"tracking":"T1"}}`, "waiting")
		says("late", res, "waiting", "No live instance has the business key")
		b.pass(callbackKept + time.Minute)
		if _, err := b.svc.LookForCalls(b.ctx, 100); err != nil {
			t.Fatal(err)
		}
		res = b.mustCarrier("late", `{"event":"delivered","key":"P1","input":{"tracking":"T1"}}`, "expired")
		says("expired", res, "expired", "")
		if n := b.events(twin, "scanned") + b.events(other, "scanned"); n != 0 {
			t.Errorf("an ambiguous call was taken %d times", n)
		}
		if n := len(b.calls(store.CallFilter{Status: store.CallWaiting})); n != 0 {
			t.Errorf("%d calls wait after their time", n)
		}
	})
}

// What is for two instances is for one as soon as the other no longer waits.
// A stranger's instance with the same business key does not hold up a call.
func TestAKeyThatSeveralHoldIsThatOfTheOneWhoseWaitTakesTheCall(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		id := b.parcel("P1", "T1", true)
		b.publish(strangerWithAKey)
		if _, err := b.svc.Start(b.ctx, b.as("rosa@example.com"), StartRequest{Definition: "stranger", Data: tree(t, `{"number":"P1"}`)}); err != nil {
			t.Fatal(err)
		}
		b.mustCarrier("keyed", `{"event":"scanned","key":"P1","input":{"place":"Bern"}}`, "taken")
		if n := b.events(id, "scanned"); n != 1 {
			t.Errorf("taken %d times", n)
		}
	})
}

const strangerWithAKey = `name: stranger
version: 1
initial: open
key: data.number
data: {type: object, required: [number], properties: {number: {type: string}}}
states:
  open:
    owner: [requester]
    deadlines: [{after: P9D, fire: expire}]
    events:
      close: {to: closed, by: [requester]}
      expire: {to: closed, by: [timer]}
  closed: {final: true}
`

func TestAnAmbiguousCallGoesToTheOneThatStillWaits(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		left, stays := b.parcel("P1", "T1", true), b.parcel("P2", "T1", true)
		b.mustCarrier("w1", `{"event":"scanned","input":{"tracking":"T1","place":"Bern"}}`, "waiting")
		if _, err := b.svc.Cancel(b.ctx, admin, left, "a duplicate", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * lookFirst)
		if _, err := b.svc.LookForCalls(b.ctx, 100); err != nil {
			t.Fatal(err)
		}
		if b.events(stays, "scanned") != 1 || b.events(left, "scanned") != 0 {
			t.Errorf("taken: %d and %d; %+v", b.events(stays, "scanned"), b.events(left, "scanned"), b.calls(store.CallFilter{}))
		}
	})
}

// guarantee R-09: each call again and again, by all replicas at once.
func TestACallThatComesAgainAndAgainIsOneEffect(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		services := b.services(3)
		calls, times := size(20, 100), 20
		ids := make([]string, calls)
		for i := range ids {
			ids[i] = b.parcel(fmt.Sprint("P", i), fmt.Sprint("T", i), true)
		}
		rnd := rand.New(rand.NewPCG(9, 20))
		order := rnd.Perm(calls * times)
		each(len(order), 16, func(k int) {
			i := order[k] % calls
			body := fmt.Sprintf(`{"event":"scanned","input":{"tracking":"T%d","place":"Bern"}}`, i)
			res, err := services[k%len(services)].Hook(b.ctx, HookRequest{Source: "carrier", Signed: b.signed(1, fmt.Sprint("w", i), body)})
			if err != nil || res.Status == store.CallRefused || res.Status == store.CallExpired {
				t.Errorf("call %d: %v, %v", i, res, err)
			}
		})
		for i, id := range ids {
			if n := b.events(id, "scanned"); n != 1 {
				t.Errorf("call %d was taken %d times", i, n)
			}
		}
		b.pass(29 * 24 * time.Hour)
		if res := b.mustCarrier("w0", `{"event":"scanned","input":{"tracking":"T0","place":"Bern"}}`, "taken"); !res.Replayed {
			t.Error("a month later it is not a replay")
		}
		bound(t, "second effects", calls*times)
	})
}

// explain says what a call must carry.
func TestExplainNamesTheCallThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.parcel("P1", "T1", true)
		x, err := b.svc.Explain(b.ctx, admin, id)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(x.Sentence, `It waits for a call scanned with tracking = "T1".`) {
			t.Errorf("it says %q", x.Sentence)
		}
		if len(x.Correlations) != 2 || !x.Correlations[0].Matched || x.Correlations[0].Pairs[0].Path != "data.tracking" {
			t.Errorf("correlations: %+v", x.Correlations)
		}
	})
}

func TestPathsInACallsInputAreRead(t *testing.T) {
	t.Parallel()
	input := map[string]any{"a": map[string]any{"b": "x", "c.d": "y"}, "l": []any{"z", map[string]any{"k": "w"}}}
	for path, want := range map[string]any{
		"a.b": "x", `a["c.d"]`: "y", "a['c.d']": "y", "l[0]": "z", "l[1].k": "w", "l[7]": nil, "l[-1]": nil, "a.q": nil, "a.b.c": nil, "q[0]": nil,
	} {
		if got := valueAt(input, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// The wait finds such a call by itself when it begins: nobody has to look again.
func TestACallThatALaterDefinitionCorrelatesIsTakenWhenItsWaitBegins(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile(hookSecrets())
		b.mustCarrier("w1", `{"event":"scanned","input":{"tracking":"T1","place":"Bern"}}`, "waiting")
		id := b.parcel("P1", "T1", false)
		b.pass(time.Minute)
		if n, err := b.svc.LookForCalls(b.ctx, 100); err != nil || n != 1 || b.events(id, "scanned") != 0 {
			t.Fatalf("looked at %d before the wait: %v", n, err)
		}
		b.raise(b.as("rosa@example.com"), id, "ship")
		testkit.WaitFor(t, "the call to be taken", func() bool { return b.events(id, "scanned") == 1 })
	})
}
