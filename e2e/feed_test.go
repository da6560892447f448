package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// cloudEvent is what the event feed sends.
type cloudEvent struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Sequence    string `json:"sequence"`
	Data        struct {
		Instance struct {
			ID         string `json:"id"`
			Definition string `json:"definition"`
			Key        string `json:"key"`
		} `json:"instance"`
		Transition row `json:"transition"`
	} `json:"data"`
}

// sinkSetup is a service whose transitions go to a sink named audit, signed.
func sinkSetup(t *testing.T, sink *testkit.WebhookReceiver, how setup) setup {
	t.Helper()
	how.definitions = []string{tortured}
	how.env = map[string]string{"VOBO_SINKS": "audit=" + sink.URL + "/feed"}
	how, _ = withSecrets(t, how, "signing: [\""+secret(1)+"\"]\n")
	return how
}

// onEachFeed is onEach with a sink for each service.
func onEachFeed(t *testing.T, test func(t *testing.T, s *service, sink *testkit.WebhookReceiver)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		sink := testkit.Webhook(t)
		test(t, serve(t, sinkSetup(t, sink, setup{})), sink)
	})
	t.Run("PostgreSQL with three replicas", func(t *testing.T) {
		t.Parallel()
		sink := testkit.Webhook(t)
		test(t, serve(t, sinkSetup(t, sink, setup{database: testkit.Postgres(t), replicas: 3})), sink)
	})
}

// decided carries instances of tortured from their start to their end.
func (s *service) decided(t *testing.T, names ...string) {
	t.Helper()
	together(6, func(n int) {
		for i := n; i < len(names); i += 6 {
			id := s.start(desk, "tortured", map[string]any{"n": names[i]}).ID
			for round := 1; round <= 2; round++ {
				s.raise(desk, id, map[string]any{"event": "go", "input": map[string]any{"a": round}})
			}
		}
	})
}

func names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", prefix, i))
	}
	return all
}

// Every transition of fifty instances reaches the sink, in order for each instance, signed
// and as the history has it, through the death of every process.
func TestTheEventFeedTellsEverythingInOrderThroughAKill(t *testing.T) {
	t.Parallel()
	onEachFeed(t, func(t *testing.T, s *service, sink *testkit.WebhookReceiver) {
		sink.Answer(func(w http.ResponseWriter, r *http.Request, _ testkit.WebhookCall) {
			select {
			case <-time.After(10 * time.Millisecond): // so that the kill comes in between
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusNoContent)
		})
		const count, rows = 50, 3
		s.decided(t, names("before", count/2)...)
		sink.WaitCalls(t, "/feed", 5)
		for _, p := range s.replicas {
			p.Kill()
		}
		early := len(sink.Calls())
		for _, p := range s.replicas {
			p.Start()
		}
		s.decided(t, names("after", count-count/2)...)
		testkit.WaitForWithin(t, leaseOver, "every event", func() bool { return len(eventIDs(t, sink)) == count*rows })
		again := s.assertFeed(t, sink)
		if t.Failed() {
			return
		}
		t.Logf("%d events, %d of them before the kill and %d twice: all there, in order", count*rows, early, again)
	})
}

func eventIDs(t *testing.T, sink *testkit.WebhookReceiver) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for _, call := range sink.Calls() {
		var e cloudEvent
		call.JSON(t, &e)
		ids[e.ID] = true
	}
	return ids
}

// assertFeed compares what came with the histories: the first copies are in order,
// dense, and equal. It returns how many copies came besides.
func (s *service) assertFeed(t *testing.T, sink *testkit.WebhookReceiver) (again int) {
	t.Helper()
	histories, next := map[string][]row{}, map[string]int{}
	bodies := map[string]string{}
	for _, call := range sink.Calls() {
		var e cloudEvent
		call.JSON(t, &e)
		seq := e.Data.Transition.Seq
		if e.SpecVersion != "1.0" || e.Type != "vobo.transition" || e.Source != s.base || e.ID != fmt.Sprintf("%s/%d", e.Subject, seq) ||
			call.Header.Get("Webhook-Id") != e.ID+"/audit" || call.Header.Get("Content-Type") != "application/cloudevents+json" {
			t.Errorf("the event %+v came under %v", e, call.Header)
		}
		if err := reference(t, secret(1)).Verify(call.Body, call.Header); err != nil {
			t.Errorf("the event %s: %v", e.ID, err)
		}
		if was, seen := bodies[e.ID]; seen {
			if again++; was != string(call.Body) {
				t.Errorf("the event %s was sent as %s and as %s", e.ID, was, call.Body)
			}
			continue
		}
		bodies[e.ID] = string(call.Body)
		if seq != next[e.Subject]+1 {
			t.Errorf("after the row %d of %s came the row %d", next[e.Subject], e.Subject, seq)
		}
		next[e.Subject] = seq
		if histories[e.Subject] == nil {
			histories[e.Subject] = each[row](s, "/v1/instances/"+e.Subject+"/history?")
		}
		if kept := histories[e.Subject][seq-1]; text(t, kept) != text(t, e.Data.Transition) || kept.Hash == "" {
			t.Errorf("the feed tells %+v, the history %+v", e.Data.Transition, kept)
		}
	}
	for id, seq := range next {
		if len(histories[id]) != seq {
			t.Errorf("%s has %d rows, of which %d came", id, len(histories[id]), seq)
		}
	}
	return again
}

// A sink that says that it is gone is switched off where everybody sees it; what happens
// meanwhile is kept, and comes in order once it is enabled again.
func TestASinkThatIsGoneIsSwitchedOffVisibly(t *testing.T) {
	t.Parallel()
	onEachFeed(t, func(t *testing.T, s *service, sink *testkit.WebhookReceiver) {
		s.decided(t, names("before", 2)...)
		sink.WaitCalls(t, "/feed", 6)
		sink.Answer(testkit.AnswerStatus(http.StatusGone))
		s.decided(t, names("gone", 3)...)
		testkit.WaitFor(t, "the sink to be disabled", func() bool { return !s.sink(t).Enabled })
		s.decided(t, names("later", 3)...)
		if now := s.sink(t); now.Waiting != 18 || !strings.Contains(now.Reason, "410") {
			t.Errorf("the disabled sink is %+v", now)
		}
		if list := s.cli("sinks", "list"); !strings.Contains(list, "audit") || !strings.Contains(list, "disabled") {
			t.Errorf("the command line shows %s", list)
		}
		if metrics := s.page(s.base + "/metrics").text(); !strings.Contains(metrics, `vobo_sink_disabled{sink="audit"} 1`) {
			t.Error("the metrics do not show it")
		}
		said := 0
		for _, p := range s.replicas {
			said += strings.Count(p.Logs(), "an endpoint of the event feed says that it is gone")
		}
		if said == 0 {
			t.Error("no log says it")
		}
		refused := len(sink.Calls())
		sink.Answer(testkit.AnswerStatus(http.StatusNoContent))
		s.cli("sinks", "enable", "audit", "--reason", "It is back.")
		testkit.WaitFor(t, "every event", func() bool { return len(eventIDs(t, sink)) == 24 && s.sink(t).Waiting == 0 })
		if now := s.sink(t); !now.Enabled || now.Dead != 0 {
			t.Errorf("the enabled sink is %+v", now)
		}
		accepted := map[string]int{}
		for _, call := range sink.Calls()[refused:] {
			accepted[call.Header.Get("Webhook-Id")]++
		}
		if len(accepted) != 18 {
			t.Errorf("%d events came after the sink was enabled, want 18", len(accepted))
		}
		s.assertFeed(t, sink)
	})
}

type sinkNow struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason"`
	Waiting int    `json:"waiting"`
	Dead    int    `json:"dead"`
}

func (s *service) sink(t *testing.T) sinkNow {
	t.Helper()
	var page struct{ Items []sinkNow }
	s.api(desk, http.MethodGet, "/v1/sinks", nil).want(t, http.StatusOK).into(t, &page)
	if len(page.Items) != 1 || page.Items[0].Name != "audit" {
		t.Fatalf("the sinks are %+v", page.Items)
	}
	return page.Items[0]
}

// cli runs a command that talks to the running service and returns what it printed.
func (s *service) cli(args ...string) string {
	s.t.Helper()
	out, errOut, status := testkit.Command(s.t, testkit.Launch{Args: args, Dir: s.dir, Env: map[string]string{"VOBO_URL": s.at, "VOBO_API_KEY": s.key}})
	if status != 0 {
		s.t.Fatalf("vobo %s: exit status %d\n%s", strings.Join(args, " "), status, errOut)
	}
	return out
}
