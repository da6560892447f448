package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// load starts instances from many callers, each request with a key of its own, and
// remembers what was answered. Each instance sends one mail or makes one call.
type load struct {
	s *service

	mu         sync.Mutex
	round      int
	sent       int
	accepted   int               // in this round
	ids        map[string]string // by key: the instance, "" while nobody has answered
	unanswered []string
	repeated   int
	strange    []string
}

const callers = 8

// run begins a round; the function it returns waits until every caller has seen that
// the server is gone.
func (l *load) run() (wait func()) {
	l.mu.Lock()
	l.round++
	l.accepted = 0
	if l.ids == nil {
		l.ids = map[string]string{}
	}
	l.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		together(callers, func(int) {
			for l.one() {
			}
		})
	}()
	return func() { <-gone }
}

// one sends one request and tells whether the server is still there.
func (l *load) one() bool {
	l.mu.Lock()
	l.sent++
	key := fmt.Sprintf("load-%d", l.sent)
	l.ids[key] = ""
	l.mu.Unlock()
	got, err := l.post(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil: // the connection broke, or was refused
		l.unanswered = append(l.unanswered, key)
		return false
	case got.status == http.StatusCreated:
		l.accepted++
		l.note(key, got)
		return true
	case got.status == http.StatusServiceUnavailable: // refused, to be asked again
		l.unanswered = append(l.unanswered, key)
		return false
	}
	l.strange = append(l.strange, fmt.Sprintf("%s: %d %s", key, got.status, got.body))
	return false
}

func (l *load) post(key string) (answer, error) {
	body := map[string]any{"definition": "supplier", "data": supplierOf(key, 10)}
	if key[len(key)-1]%2 == 0 {
		body = map[string]any{"definition": "onboarding", "data": applicant(key)}
	}
	return l.s.try(l.s.replicas[0].URL, rosa, http.MethodPost, "/v1/instances", body, "Idempotency-Key", key)
}

func (l *load) note(key string, got answer) {
	var started instance
	got.into(l.s.t, &started)
	l.ids[key] = started.ID
}

func (l *load) acceptedInRound() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// repeatUnanswered asks again with the same keys: each must be taken now.
func (l *load) repeatUnanswered(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	keys := l.unanswered
	l.unanswered = nil
	l.repeated += len(keys)
	l.mu.Unlock()
	for _, key := range keys {
		got, err := l.post(key)
		if err != nil {
			t.Fatalf("asked again: %v", err)
		}
		l.note(key, got.want(t, http.StatusCreated))
	}
}

// compare fails the test unless the server has exactly the instances that were answered.
func (l *load) compare(t *testing.T) {
	t.Helper()
	for _, what := range l.strange {
		t.Errorf("neither taken nor safe to ask again: %s", what)
	}
	known, cursor := map[string]bool{}, ""
	for {
		var page struct {
			Items []instance
			Next  string
		}
		l.s.api(desk, http.MethodGet, "/v1/instances?limit=500&cursor="+cursor, nil).want(t, http.StatusOK).into(t, &page)
		for _, i := range page.Items {
			known[i.ID] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(known) != len(l.ids) {
		t.Errorf("%d instances for %d requests", len(known), len(l.ids))
	}
	for key, id := range l.ids {
		if !known[id] {
			t.Errorf("the instance of %s is lost", key)
		}
	}
}

// together runs a function in n goroutines and waits for all.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// tally counts answers from many goroutines.
type tally struct {
	mu  sync.Mutex
	all []answer
	bad []error
}

func (c *tally) add(a answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.bad = append(c.bad, err)
		return
	}
	c.all = append(c.all, a)
}

// answers returns what was counted; a request without an answer fails the test.
func (c *tally) answers(t *testing.T) []answer {
	t.Helper()
	for _, err := range c.bad {
		t.Fatalf("no answer: %v", err)
	}
	return c.all
}
