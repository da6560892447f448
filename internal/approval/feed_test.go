package approval

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"vobo/internal/callbacks"
	"vobo/internal/fault"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// feeding opens the bundle's service again with sinks at paths of its receiver.
func (b *bundle) feeding(names ...string) {
	b.t.Helper()
	for _, name := range names {
		b.sinks = append(b.sinks, Sink{Name: name, URL: b.hooks.URL + "/" + name})
		b.answer("/"+name, testkit.AnswerStatus(http.StatusNoContent))
	}
	b.svc, b.store = b.replica(nil)
	if err := b.store.SyncSinks(b.ctx, b.names()); err != nil {
		b.t.Fatal(err)
	}
}

// fed are the calls that a sink got.
func (b *bundle) fed(name string) []testkit.WebhookCall {
	return slices.DeleteFunc(b.hooks.Calls(), func(c testkit.WebhookCall) bool { return c.Path != "/"+name })
}

// seqs lists the history rows that a sink was sent of an instance, in the order sent.
func (b *bundle) seqs(name, instance string) []int {
	b.t.Helper()
	var all []int
	for _, c := range b.fed(name) {
		var e feedEvent
		c.JSON(b.t, &e)
		if e.Subject != instance {
			continue
		}
		n, err := strconv.Atoi(e.Sequence)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func webhookSecret() (text string, key []byte) {
	key = make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		panic(err)
	}
	return "whsec_" + base64.StdEncoding.EncodeToString(key), key
}

func TestEverySinkGetsEveryHistoryRowOnceAsASignedCloudEvent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		common, commonKey := webhookSecret()
		own, ownKey := webhookSecret()
		b.secretsFile("signing: [" + common + "]\ncredentials:\n  audit: {bearer: T0KEN, signing: [" + own + "]}\n")
		b.feeding("audit", "lake")
		rosa := b.as("rosa@example.com")
		id := b.start(rosa, "notes", `{"title":"Chairs & tables"}`).ID
		b.raise(rosa, id, "close")
		b.rest()
		history := b.history(id)
		for name, key := range map[string][]byte{"audit": ownKey, "lake": commonKey} {
			calls := b.fed(name)
			if len(calls) != len(history) {
				t.Fatalf("%s got %d calls for %d rows", name, len(calls), len(history))
			}
			for i, c := range calls {
				h := c.Header
				if err := callbacks.VerifyWebhook([][]byte{key}, h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"), c.Body, time.Now()); err != nil {
					t.Errorf("%s, call %d: %v", name, i, err)
				}
				if got := h.Get("Authorization"); (got == "Bearer T0KEN") != (name == "audit") {
					t.Errorf("%s is told %q", name, got)
				}
				if h.Get("Content-Type") != "application/cloudevents+json" || h.Get("webhook-id") != fmt.Sprintf("%s/%d/%s", id, i+1, name) {
					t.Errorf("%s: headers %v", name, h)
				}
				b.checkEvent(c.Body, id, &history[i])
			}
		}
	})
}

// checkEvent checks a body against CloudEvents 1.0 and the history row.
func (b *bundle) checkEvent(body []byte, id string, row *TransitionView) {
	b.t.Helper()
	var e map[string]any
	if err := json.Unmarshal(body, &e); err != nil {
		b.t.Fatal(err)
	}
	for key, want := range map[string]string{
		"specversion": "1.0", "id": fmt.Sprintf("%s/%d", id, row.Seq), "source": "http://vobo.test", "type": "vobo.transition",
		"subject": id, "datacontenttype": "application/json", "sequence": fmt.Sprintf("%010d", row.Seq),
	} {
		if e[key] != want {
			b.t.Errorf("%s is %v, want %s", key, e[key], want)
		}
	}
	at, ok := e["time"].(string)
	if _, err := time.Parse(time.RFC3339, at); !ok || err != nil {
		b.t.Errorf("time is %v", e["time"])
	}
	var data struct {
		Data struct {
			Instance   feedInstance
			Transition json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &data); err != nil {
		b.t.Fatal(err)
	}
	if in := data.Data.Instance; in.ID != id || in.Definition != "notes" || in.Version != 1 {
		b.t.Errorf("the instance is %+v", in)
	}
	if want := Render(row); !bytes.Equal(data.Data.Transition, want) {
		b.t.Errorf("the row is %s, want %s", data.Data.Transition, want)
	}
}

// field report B28, for the feed; guarantee R-20: order.
func TestARowThatFailsHoldsUpItsInstanceAloneAndComesAgainWithTheSameBytes(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.feeding("lake")
		rosa := b.as("rosa@example.com")
		first, second := b.start(rosa, "notes", `{"title":"x"}`).ID, b.start(rosa, "notes", `{"title":"y"}`).ID
		b.answer("/lake", func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
			if strings.HasPrefix(c.Header.Get("webhook-id"), first) && c.Header.Get("Vobo-Attempt") != "3" {
				testkit.AnswerStatus(http.StatusInternalServerError)(w, r, c)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
		b.raise(rosa, first, "close")
		b.raise(rosa, second, "close")
		b.rest()
		if got := b.seqs("lake", first); !slices.Equal(got, []int{1}) {
			t.Errorf("of the one that fails %v", got)
		}
		if got := b.seqs("lake", second); !slices.Equal(got, upTo(len(b.history(second)))) {
			t.Errorf("of the other %v", got)
		}
		for range 4 {
			b.pass(time.Minute)
			b.rest()
		}
		want := append([]int{1, 1}, 1)
		if got := b.seqs("lake", first); !slices.Equal(got[:3], want) || got[len(got)-1] != len(b.history(first)) || !slices.IsSorted(got) {
			t.Errorf("of the one that failed twice %v", got)
		}
		var bodies [][]byte
		for i, c := range b.fed("lake") {
			if c.Header.Get("webhook-id") == first+"/1/lake" {
				bodies = append(bodies, c.Body)
				if n := c.Header.Get("Vobo-Attempt"); n != strconv.Itoa(len(bodies)) {
					t.Errorf("call %d says attempt %s", i, n)
				}
			}
		}
		if len(bodies) != 3 || !bytes.Equal(bodies[0], bodies[1]) || !bytes.Equal(bodies[0], bodies[2]) {
			t.Errorf("%d attempts with other bytes", len(bodies))
		}
	})
}

func TestASinkThatIsGoneGetsNothingUntilItIsEnabled(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.feeding("lake", "audit")
		b.answer("/lake", testkit.AnswerStatus(http.StatusGone))
		rosa := b.as("rosa@example.com")
		id := b.start(rosa, "notes", `{"title":"x"}`).ID
		b.rest()
		b.raise(rosa, id, "close")
		b.pass(time.Hour)
		b.rest()
		rows := len(b.history(id))
		if n := len(b.fed("lake")); n != 1 || len(b.fed("audit")) != rows {
			t.Errorf("%d calls after 410, the other sink got %d of %d", n, len(b.fed("audit")), rows)
		}
		lake := b.sink("lake")
		if lake.Enabled || lake.Waiting != rows || !strings.Contains(lake.Reason, "410") || lake.DisabledAt == nil || lake.Host == "" {
			t.Errorf("the sink is %+v", lake)
		}
		_, err := b.svc.Sinks(b.ctx, rosa)
		wantCode(t, "a requester looks", err, fault.Forbidden)
		_, err = b.svc.EnableSink(b.ctx, rosa, "lake", "please")
		wantCode(t, "a requester enables", err, fault.Forbidden)
		_, err = b.svc.EnableSink(b.ctx, admin, "lake", "")
		wantCode(t, "without a reason", err, fault.InvalidInput)
		_, err = b.svc.EnableSink(b.ctx, admin, "sea", "it is back")
		wantCode(t, "an unknown one", err, fault.NotFound)

		b.answer("/lake", testkit.AnswerStatus(http.StatusNoContent))
		v, err := b.svc.EnableSink(b.ctx, admin, "lake", "it is back")
		if err != nil || !v.Enabled || v.Reason != "" {
			t.Fatalf("enabled: %+v, %v", v, err)
		}
		b.pass(time.Hour)
		b.rest()
		if got := b.seqs("lake", id)[1:]; !slices.Equal(got, upTo(rows)) || b.sink("lake").Waiting != 0 {
			t.Errorf("after it is enabled %v, %+v", got, b.sink("lake"))
		}
		lines, err := b.store.AuditLines(b.ctx, "", store.Paging{})
		if err != nil || !slices.ContainsFunc(lines.Items, func(l store.AuditLine) bool {
			return l.Action == "sink-enabled" && l.Actor == admin.ID && l.Detail["reason"] == "it is back"
		}) {
			t.Errorf("the audit has no line of it: %+v, %v", lines.Items, err)
		}
	})
}

func (b *bundle) sink(name string) SinkView {
	b.t.Helper()
	all, err := b.svc.Sinks(b.ctx, admin)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, v := range all {
		if v.Name == name {
			return v
		}
	}
	b.t.Fatalf("there is no sink %s in %+v", name, all)
	return SinkView{}
}

func TestARowThatIsRefusedOrWornOutIsDeadAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.feeding("lake")
		for mode, answer := range map[string]testkit.WebhookAnswer{
			"refused":  testkit.AnswerStatus(http.StatusUnprocessableEntity),
			"worn out": testkit.AnswerStatus(http.StatusInternalServerError),
		} {
			before := b.sink("lake").Dead
			rosa := b.as("rosa@example.com")
			id := b.start(rosa, "notes", `{"title":"x"}`).ID
			b.raise(rosa, id, "close")
			b.answer("/lake", func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
				if c.Header.Get("webhook-id") == id+"/1/lake" {
					answer(w, r, c)
					return
				}
				w.WriteHeader(http.StatusNoContent)
			})
			for range feedAttempts + 1 {
				b.rest()
				b.pass(feedMax)
			}
			got := b.seqs("lake", id)
			if first := slices.Index(got, 2); mode == "refused" && first != 1 || mode == "worn out" && first != feedAttempts {
				t.Errorf("%s: sent %v", mode, got)
			}
			if !slices.Equal(got[slices.Index(got, 2):], upTo(len(b.history(id)))[1:]) || b.sink("lake").Dead != before+1 {
				t.Errorf("%s: sent %v, %+v", mode, got, b.sink("lake"))
			}
		}
	})
}

func TestASinkThatHangsHoldsUpNeitherEffectsNorOtherSinks(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.feeding("lake", "audit")
		held := make(chan struct{})
		b.answer("/lake", func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
			<-held
			w.WriteHeader(http.StatusNoContent)
		})
		rosa := b.as("rosa@example.com")
		var ids []string
		for range 40 {
			ids = append(ids, b.start(rosa, "notes", `{"title":"x"}`).ID)
		}
		testkit.WaitFor(t, "effects and the other sink", func() bool {
			for _, pass := range []func() error{
				func() error { _, err := b.svc.DispatchOnce(b.ctx); return err },
				func() error { _, err := b.svc.FeedOnce(b.ctx); return err },
			} {
				if err := pass(); err != nil {
					t.Fatal(err)
				}
			}
			calls := map[string]int{}
			for _, p := range b.called() {
				calls[p]++
			}
			return calls["/note"] == len(ids) && calls["/audit"] >= len(ids)
		})
		if n := len(b.fed("lake")); n > feedPerSink {
			t.Errorf("%d calls at once to the sink that hangs", n)
		}
		close(held)
		b.rest()
	})
}

// http-api.md: Retry-After is a minimum.
func TestASinkMayAskForMoreTime(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.feeding("lake")
		b.answer("/lake", testkit.AnswerRetryAfter(http.StatusServiceUnavailable, 600))
		b.start(b.as("rosa@example.com"), "notes", `{"title":"x"}`)
		b.rest()
		b.pass(9 * time.Minute)
		b.rest()
		if n := len(b.fed("lake")); n != 1 {
			t.Errorf("%d calls within ten minutes", n)
		}
		b.answer("/lake", testkit.AnswerStatus(http.StatusNoContent))
		b.pass(2 * time.Minute)
		b.rest()
		if n := len(b.fed("lake")); n < 2 {
			t.Errorf("%d calls after them", n)
		}
	})
}

// Sinks that never answer take none of the senders of another one.
func TestSinksThatHangHoldUpNoOther(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.feeding("a1", "a2", "a3", "a4", "good")
		gate := make(chan struct{})
		t.Cleanup(func() { close(gate) })
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			b.answer("/"+name, func(w http.ResponseWriter, _ *http.Request, _ testkit.WebhookCall) {
				<-gate
				w.WriteHeader(http.StatusNoContent)
			})
		}
		const instances = 20
		for range instances {
			b.start(b.as("rosa@example.com"), "notes", `{"title":"x"}`)
		}
		testkit.WaitFor(t, "the sink that answers to get everything", func() bool {
			if _, err := b.svc.FeedOnce(b.ctx); err != nil {
				t.Fatal(err)
			}
			return len(b.fed("good")) == instances
		})
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			if n := len(b.fed(name)); n > feedPerSink {
				t.Errorf("%d calls at once to %s", n, name)
			}
		}
	})
}

func TestTheLogSaysOnceThatASinkIsGone(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		var log bytes.Buffer
		b.feeding("lake")
		b.svc, b.store = b.replica(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		const atOnce = 4
		var all sync.WaitGroup
		all.Add(atOnce)
		b.answer("/lake", func(w http.ResponseWriter, _ *http.Request, _ testkit.WebhookCall) {
			all.Done()
			all.Wait()
			w.WriteHeader(http.StatusGone)
		})
		for range atOnce {
			b.start(b.as("rosa@example.com"), "notes", `{"title":"x"}`)
		}
		b.rest()
		if n := strings.Count(log.String(), "says that it is gone"); n != 1 || len(b.fed("lake")) != atOnce {
			t.Errorf("said %d times after %d calls:\n%s", n, len(b.fed("lake")), log.String())
		}
	})
}
