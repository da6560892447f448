package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/testkit"
)

var full = flag.Bool("full", false, "run the torture test with 200 kills and 20,000 acknowledged operations")

// tortured is decided twice by a system; each decision sends a mail, a call that may be
// repeated and a call that may not.
const tortured = `name: tortured
version: 1
title: Tortured
initial: first
key: data.n
data:
  type: object
  required: [n]
  properties: {n: {type: string}, a: {type: integer}, b: {type: integer}}
states:
  first:
    owner: ["system:desk"]
    task: {title: "First of {{ data.n }}"}
    deadlines: [{after: P1D, fire: expire}]
    events:
      go: {to: second, by: [owner], form: {type: object, required: [a], properties: {a: {type: integer}}}, set: {a: input.a}, effects: [told, called, called_once]}
      expire: {to: expired, by: [timer]}
  second:
    owner: ["system:desk"]
    task: {title: "Second of {{ data.n }}"}
    deadlines: [{after: P1D, fire: expire}]
    events:
      go: {to: done, by: [owner], form: {type: object, required: [a], properties: {a: {type: integer}}}, set: {b: input.a}, effects: [called]}
      expire: {to: expired, by: [timer]}
  done: {final: true, enter: [told]}
  expired: {final: true}
effects:
  told:
    email: {to: ["{{ data.n }}@example.net"], subject: "Told {{ data.n }}", body: "On and on."}
    reversible: false
  called:
    webhook: {url: "{{ env.CORE_URL }}/called", body: {n: "{{ data.n }}"}}
    idempotent: true
    reversible: false
  called_once:
    webhook: {url: "{{ env.ESIGN_URL }}/once", body: {n: "{{ data.n }}"}}
    idempotent: false
    reversible: false
`

// prescribed are the effects of each move of a tortured instance, by its number: 1 is the start.
var prescribed = map[int][]string{1: nil, 2: {"told", "called", "called_once"}, 3: {"called", "told"}}

// op is one thing that a client wanted, and how it ended.
type op struct {
	Client   int    `json:"client"`
	Kind     string `json:"kind"` // start | go | bogus
	Instance string `json:"instance,omitempty"`
	Key      string `json:"key"`
	Outcome  string `json:"outcome"` // acked | refused | unknown (the client gave up)
	Seq      int    `json:"seq,omitempty"`
	Asked    int    `json:"asked"` // times
	Replayed bool   `json:"replayed,omitempty"`
}

// ackJournal keeps what was acknowledged: on disk before it counts.
type ackJournal struct {
	mu   sync.Mutex
	file *os.File
	ops  []op
	bad  []string
}

func newAckJournal(t *testing.T) *ackJournal {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "acks"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return &ackJournal{file: file}
}

func (j *ackJournal) add(o op) {
	line, err := json.Marshal(o)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.bad = append(j.bad, err.Error())
		return
	}
	j.ops = append(j.ops, o)
}

func (j *ackJournal) strange(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bad = append(j.bad, fmt.Sprintf(format, args...))
}

func (j *ackJournal) count(match func(op) bool) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range j.ops {
		if match(o) {
			n++
		}
	}
	return n
}

func acked(o op) bool { return o.Outcome == "acked" }

// torture is sixteen clients against two replicas of which one is always about to die.
type torture struct {
	s       *service
	journal *ackJournal
	over    atomic.Bool
	next    atomic.Int64
	pace    time.Duration // between two instances of a client
}

const tortureClients = 16

// guarantee R-01: replicas are killed at random under load. No acknowledged decision is
// lost or doubled, no half of one is left, and each effect that it prescribes goes out:
// a call that may not be repeated at most once.
func TestKillsLoseNothingAndDoubleNothing(t *testing.T) {
	t.Parallel()
	kills, least := 15, 1
	if *full {
		kills, least = 200, 20_000
	}
	s := serve(t, setup{database: testkit.Postgres(t), replicas: 2, definitions: []string{tortured}})
	slow := func(w http.ResponseWriter, r *http.Request, _ testkit.WebhookCall) {
		select {
		case <-time.After(time.Duration(rand.IntN(60)) * time.Millisecond): // so that kills come in between
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	}
	s.core.Answer(slow)
	s.esign.Answer(slow)
	run := &torture{s: s, journal: newAckJournal(t), pace: 400 * time.Millisecond}
	clients := make(chan struct{})
	go func() {
		defer close(clients)
		together(tortureClients, run.client)
	}()
	died := 0
	for died < kills || run.journal.count(acked) < least {
		await(t, time.Second+time.Duration(rand.Int64N(int64(2*time.Second))))
		victim := s.replicas[rand.IntN(len(s.replicas))]
		victim.Kill()
		victim.Start()
		died++
	}
	run.over.Store(true)
	<-clients
	run.settle(t)
	run.judge(t, died)
}

// await lets an interval pass that is part of what is tried.
func await(t *testing.T, interval time.Duration) {
	t.Helper()
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// client carries instances from their start to their end until the test is over.
func (r *torture) client(n int) {
	beat := time.NewTicker(r.pace)
	defer beat.Stop()
	for !r.over.Load() {
		r.instance(n, fmt.Sprintf("n-%d", r.next.Add(1)))
		<-beat.C
	}
}

func (r *torture) instance(client int, name string) {
	started, ok := r.ask(client, op{Kind: "start", Key: name}, func(base string) (answer, error) {
		body := map[string]any{"definition": "tortured", "data": map[string]any{"n": name}}
		return r.s.try(base, desk, http.MethodPost, "/v1/instances", body, "Idempotency-Key", name)
	}, http.StatusCreated)
	if !ok {
		return
	}
	var first struct{ ID, Token string }
	if err := json.Unmarshal(started.body, &first); err != nil || first.ID == "" {
		r.journal.strange("a start answers %s", started.body)
		return
	}
	if rand.IntN(8) == 0 {
		r.ask(client, op{Kind: "bogus", Instance: first.ID, Key: name + "-bogus"}, func(base string) (answer, error) {
			return r.s.try(base, desk, http.MethodPost, "/v1/instances/"+first.ID+"/events", map[string]any{"event": "expire"}, "Idempotency-Key", name+"-bogus")
		}, http.StatusForbidden, http.StatusConflict)
	}
	for round := 1; round <= 2; round++ {
		if !r.decide(client, first.ID, first.Token, name, round) {
			return
		}
		first.Token = "" // of the wait that is over
	}
}

// decide makes one decision: by the link where there is one, else with a key; now and
// then as two clicks at once.
func (r *torture) decide(client int, id, token, name string, round int) bool {
	body := map[string]any{"event": "go", "input": map[string]any{"a": round}}
	key := fmt.Sprintf("%s-%d", name, round)
	send := func(base string) (answer, error) {
		if token != "" {
			return r.s.try(base, noOne, http.MethodPost, "/v1/callbacks/"+token, body)
		}
		return r.s.try(base, desk, http.MethodPost, "/v1/instances/"+id+"/events", body, "Idempotency-Key", key)
	}
	clicks := 1
	if rand.IntN(8) == 0 {
		clicks = 2
	}
	var seqs [2]int
	together(clicks, func(i int) {
		got, ok := r.ask(client, op{Kind: "go", Instance: id, Key: key}, send, http.StatusOK)
		var done result
		if !ok {
			return
		}
		if err := json.Unmarshal(got.body, &done); err != nil || done.Transition.Seq != round+1 {
			r.journal.strange("the decision %d of %s answers %s", round, id, got.body)
			return
		}
		seqs[i] = done.Transition.Seq
	})
	return seqs[0] != 0
}

// ask asks until there is an answer, the same again wherever it is not known what became
// of it; one time in ten the client gives up instead. The journal has the end.
func (r *torture) ask(client int, o op, send func(base string) (answer, error), good ...int) (answer, bool) {
	o.Client, o.Outcome = client, "unknown"
	for limit := time.Now().Add(testkit.Patience); time.Now().Before(limit); {
		o.Asked++
		got, err := send(r.s.replicas[rand.IntN(len(r.s.replicas))].URL)
		if err != nil || got.status == http.StatusServiceUnavailable || got.status == http.StatusTooManyRequests || isInProgress(got) {
			if rand.IntN(10) == 0 && !r.over.Load() {
				r.journal.add(o)
				return got, false
			}
			pause := time.NewTimer(20 * time.Millisecond)
			<-pause.C
			continue
		}
		for _, status := range good {
			if got.status != status {
				continue
			}
			o.Outcome, o.Replayed = "acked", got.header.Get("Idempotent-Replayed") == "true"
			if status >= 300 {
				o.Outcome = "refused"
			}
			r.journal.add(o)
			return got, true
		}
		r.journal.strange("%s %s: %d %s", o.Kind, o.Key, got.status, got.body)
		return got, false
	}
	r.journal.strange("%s %s: nobody answered", o.Kind, o.Key)
	return answer{}, false
}

func isInProgress(a answer) bool {
	var problem struct{ Type string }
	return a.status == http.StatusConflict && json.Unmarshal(a.body, &problem) == nil && problem.Type == "/problems/in-progress"
}

// settle waits until nothing is under way; leases of the killed run out.
func (r *torture) settle(t *testing.T) {
	t.Helper()
	testkit.WaitForWithin(t, leaseOver, "the end of all effects", func() bool {
		return len(r.s.effects("status=waiting,running,retrying")) == 0
	})
}
