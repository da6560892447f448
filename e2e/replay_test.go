package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// One link, many hurried clicks on all replicas, for and against: the first decides,
// the same again gets its answer, the contrary is told who was first.
func TestADecisionSentManyTimesIsTakenOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *service) {
		id := s.submitted("onboarding", "Emma").ID
		path := "/v1/callbacks/" + tokenOf(s.linkOf(ana, "Approve Emma"))
		bodies := []map[string]any{{"event": "approve"}, {"event": "reject", "comment": "No."}}
		var counts [2]tally
		together(40, func(i int) {
			got, err := s.try(s.replicas[i%len(s.replicas)].URL, noOne, http.MethodPost, path, bodies[i%2])
			counts[i%2].add(got, err)
		})
		rows := s.history(id)
		if len(rows) != 3 {
			t.Fatalf("the history has %d rows, want 3", len(rows))
		}
		won := 0
		if rows[2].Event == "reject" {
			won = 1
		}
		first := 0
		for _, got := range counts[won].answers(t) {
			var done result
			if got.want(t, http.StatusOK).into(t, &done); !done.Replayed {
				first++
			} else if got.header.Get("Idempotent-Replayed") != "true" {
				t.Error("a replay does not say so in its header")
			}
			if done.Transition.Seq != 3 || done.Transition.Actor.ID != ana {
				t.Errorf("an answer is of another decision: %+v", done)
			}
		}
		if first != 1 {
			t.Errorf("%d answers say that they decided", first)
		}
		for _, got := range counts[1-won].answers(t) {
			got.wantProblem(t, http.StatusConflict, "already-decided")
		}
		s.settled(id)
		to, subject := rosa, "Waiting docs"
		if won == 1 {
			to, subject = "emma@example.net", "Your application"
		}
		s.mailOf(to, subject) // one, no more
	}, setup{})
}

// field report B44: a start sent many times with one key starts one instance.
func TestAStartSentManyTimesStartsOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *service) {
		body := map[string]any{"definition": "supplier", "data": supplierOf("Once", 10)}
		post := func(i int, body any, key string) (answer, error) {
			return s.try(s.replicas[i%len(s.replicas)].URL, rosa, http.MethodPost, "/v1/instances", body, "Idempotency-Key", key)
		}
		var count tally
		together(24, func(i int) { count.add(post(i, body, "once")) })
		ids, kept := map[string]bool{}, ""
		for _, got := range count.answers(t) {
			if got.status == http.StatusConflict {
				got.wantProblem(t, http.StatusConflict, "in-progress")
				continue
			}
			var started instance
			got.want(t, http.StatusCreated).into(t, &started)
			ids[started.ID], kept = true, started.ID
		}
		if len(ids) != 1 {
			t.Fatalf("%d instances were started", len(ids))
		}
		for i := range s.replicas {
			again, err := post(i, body, "once")
			if err != nil {
				t.Fatal(err)
			}
			if again.want(t, http.StatusCreated); again.header.Get("Idempotent-Replayed") != "true" || !strings.Contains(again.text(), kept) {
				t.Errorf("asked again, replica %d answers %s", i, again.body)
			}
			other, err := post(i, map[string]any{"definition": "supplier", "data": supplierOf("Twice", 10)}, "once")
			if err != nil {
				t.Fatal(err)
			}
			other.wantProblem(t, http.StatusUnprocessableEntity, "idempotency-mismatch")
			taken, err := post(i, body, "another")
			if err != nil {
				t.Fatal(err)
			}
			taken.wantProblem(t, http.StatusConflict, "key-in-use")
		}
		for _, key := range []string{"", strings.Repeat("k", 256)} {
			got, err := post(0, body, key)
			if err != nil {
				t.Fatal(err)
			}
			if got.status != http.StatusBadRequest && got.status != http.StatusUnprocessableEntity {
				t.Errorf("a key of %d characters is answered with %d", len(key), got.status)
			}
		}
		s.settled(kept)
		if calls := len(s.esign.Calls()); calls != 1 {
			t.Errorf("the signing service was called %d times", calls)
		}
	}, setup{})
}
