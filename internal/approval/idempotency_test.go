package approval

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// idem is an Idempotency-Key as the edge hands it on.
func idem(key, route, body string) Idempotency {
	sum := sha256.Sum256([]byte(body))
	return Idempotency{Key: key, Route: route, BodyHash: sum[:]}
}

// raw is the answer of a start byte for byte.
func (r *StartResult) bytes() string {
	if r.Raw != nil {
		return string(r.Raw)
	}
	return string(Render(r.View))
}

func (r *Result) bytes() string {
	if r.Raw != nil {
		return string(r.Raw)
	}
	return string(Render(r))
}

// guarantee R-10, field report B44: start with each kind of key, n rounds of each
func TestAnIdempotencyKeyAnswersItsOwnRequestAndNoOther(t *testing.T) {
	t.Parallel()
	rounds := 500
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.need("duel")
		rosa, olga := b.as("rosa@example.com"), Caller{Kind: fsm.ActorSystem, ID: "system:other", Roles: []string{"requester"}, Assurance: fsm.ByKey}
		start := func(c Caller, title string, i Idempotency) (*StartResult, error) {
			return b.svc.Start(b.ctx, c, StartRequest{Definition: "duel", Data: map[string]any{"title": title}, Idem: i})
		}
		var wrong tally
		each(rounds, 8, func(i int) {
			key := fmt.Sprintf("key-%d", i)
			bad, err := b.svc.Start(b.ctx, rosa, StartRequest{Definition: "duel", Data: map[string]any{}, Idem: idem(key, "POST /v1/instances", "bad")})
			if fault.CodeOf(err) != fault.InvalidInput {
				wrong.add("ill-formed: %+v, %v", bad, err)
			}
			first, err := start(rosa, "a", idem(key, "POST /v1/instances", "a"))
			if err != nil || first.Replayed { // the refusal burnt nothing
				wrong.add("after a refusal: %+v, %v", first, err)
				return
			}
			if again, err := start(rosa, "a", idem(key, "POST /v1/instances", "a")); err != nil || !again.Replayed || again.bytes() != first.bytes() {
				wrong.add("the same again: %+v, %v", again, err)
			}
			if _, err := start(rosa, "b", idem(key, "POST /v1/instances", "b")); fault.CodeOf(err) != fault.IdempotencyMismatch {
				wrong.add("another body: %v", err)
			}
			if other, err := start(olga, "a", idem(key, "POST /v1/instances", "a")); err != nil || other.Replayed || other.View.ID == first.View.ID {
				wrong.add("another caller: %+v, %v", other, err)
			}
			if other, err := start(rosa, "a", idem(key, "POST /v1/else", "a")); err != nil || other.Replayed {
				wrong.add("another endpoint: %+v, %v", other, err)
			}
			if free, err := start(rosa, "a", Idempotency{}); err != nil || free.Replayed {
				wrong.add("without a key: %+v, %v", free, err)
			}
		})
		wrong.check(t, "R-10 keys that answered wrongly, six uses each", rounds)
		want := fmt.Sprint(4 * rounds)
		if n := b.query(b.raw(), "SELECT count(*) FROM instances")[0]; n != want {
			t.Errorf("%s instances, want %s", n, want)
		}
	})
}

// guarantee R-10: at once, on all replicas
func TestOneKeyAtOnceStartsOneInstance(t *testing.T) {
	t.Parallel()
	const rounds, width = 100, 8
	eachDatabase(t, func(t *testing.T, b *bundle) {
		services := b.services(3)
		b.need("onboarding")
		rosa := b.as("rosa@example.com")
		var wrong tally
		var inProgress atomic.Int32
		each(rounds, 4, func(i int) {
			data := strings.ReplaceAll(eva, "eva@", fmt.Sprintf("eva%d@", i))
			var mu sync.Mutex
			answers, firsts := map[string]bool{}, 0
			together(width, func(p int) {
				r := StartRequest{Definition: "onboarding", Data: tree(t, data), Idem: idem(fmt.Sprint("k", i), "POST /v1/instances", data)}
				for {
					res, err := services[p%len(services)].Start(b.ctx, rosa, r)
					if fault.CodeOf(err) == fault.InProgress {
						inProgress.Add(1)
						continue // as a client does, who has the same answer to expect
					}
					if err != nil {
						wrong.add("%v", err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					answers[res.bytes()] = true
					if !res.Replayed {
						firsts++
					}
					return
				}
			})
			if firsts != 1 || len(answers) != 1 {
				wrong.add("%d first answers, %d different ones", firsts, len(answers))
			}
		})
		t.Logf("%d answers were in-progress", inProgress.Load())
		wrong.check(t, "R-10 keys with more than one first answer", rounds)
		if n := b.query(b.raw(), "SELECT count(*) FROM instances")[0]; n != fmt.Sprint(rounds) {
			t.Errorf("%s instances, want %d", n, rounds)
		}
	})
}

// field report B44
func TestAKeyOfADecisionSurvivesTheDecisionAndIsKeptThirtyDays(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.review()
		ana := b.as("ana@example.com")
		raise := func(comment, key string) (*Result, error) {
			return b.svc.Raise(b.ctx, ana, id, RaiseRequest{Event: "reject", Comment: comment, Idem: idem(key, "POST /v1/instances/"+id+"/events", comment)})
		}
		_, err := raise("", "k")
		wantCode(t, "no comment", err, fault.InvalidInput)
		first, err := raise("no", "k")
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{0, 29 * 24 * time.Hour} {
			b.pass(after)
			if _, err := b.svc.PruneOnce(b.ctx, 1000); err != nil {
				t.Fatal(err)
			}
			again, err := raise("no", "k")
			if err != nil || !again.Replayed || again.bytes() != first.bytes() {
				t.Errorf("again after %s: %+v, %v\nwant %s", after, again, err, first.bytes())
			}
		}
		_, err = raise("never", "k")
		wantCode(t, "another body", err, fault.IdempotencyMismatch)
		for what, key := range map[string]string{"empty": "", "300 characters": strings.Repeat("k", 300)} {
			_, err := raise("no", key)
			wantCode(t, "a key "+what, err, fault.Malformed)
		}
		b.unchanged("keys", id, 2)
	})
}

// http-api.md: a business key has one live instance, and is free again at its end.
func TestABusinessKeyHasOneLiveInstance(t *testing.T) {
	t.Parallel()
	const width = 16
	eachDatabase(t, func(t *testing.T, b *bundle) {
		services := b.services(3)
		b.need("onboarding")
		rosa := b.as("rosa@example.com")
		var mu sync.Mutex
		var won string
		var lost []*fault.Error
		together(width, func(p int) {
			res, err := services[p%len(services)].Start(b.ctx, rosa, StartRequest{Definition: "onboarding", Data: tree(t, eva)})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				lost = append(lost, fault.As(err))
			} else {
				won = res.View.ID
			}
		})
		if len(lost) != width-1 {
			t.Fatalf("%d of %d were refused", len(lost), width)
		}
		for _, f := range lost {
			if f.Code != fault.KeyInUse || f.Instance != won {
				t.Errorf("a loser is told %v of %q, want %q", f, f.Instance, won)
			}
		}
		if _, err := b.svc.Cancel(b.ctx, admin, won, "over", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		if again := b.start(rosa, "onboarding", eva); again.ID == won || again.Key != "eva@example.com" {
			t.Errorf("after its end: %+v", again)
		}
	})
}
