package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"vobo/client"
)

// An agent asks whether it may act, waits for the answer elsewhere, and uses the
// approval: exactly one call ever gets Replayed false, and that caller may act.
func Example() {
	c, err := client.New(client.Config{URL: "https://vobo.example.com", Key: os.Getenv("VOBO_API_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	in, err := c.Start(ctx, client.StartRequest{Definition: "agent-action", Data: json.RawMessage(
		`{"agent": "billing", "tool": "refund", "arguments": {"amount": 1250.00}, "risk": "high", "confidence": 0.7}`)})
	if err != nil {
		log.Fatal(err)
	}
	res, err := c.Raise(ctx, in.ID, client.EventRequest{Event: "consume", IdempotencyKey: "refund-4711"})
	switch {
	case client.Is(err, "event-not-allowed-here"):
		fmt.Println("not approved yet")
	case err != nil:
		log.Fatal(err)
	case !res.Replayed:
		fmt.Println("go")
	}
}

func ExampleClient_Instances() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items": [{"id": "0198f2", "state": "pending_approval", "key": "eva@example.com"}]}`)
	}))
	defer server.Close()
	c, err := client.New(client.Config{URL: server.URL, Key: "vobo_…"})
	if err != nil {
		log.Fatal(err)
	}
	for in, err := range c.Instances(context.Background(), client.InstanceQuery{Definition: "onboarding", Status: "running"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(in.Key, in.State)
	}
	// Output: eva@example.com pending_approval
}

func ExampleError() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"type": "/problems/already-decided", "title": "Already decided", "status": 409,
			"detail": "Ana approved this on 3 December at 10:02. Your answer was not needed.", "retryable": false}`)
	}))
	defer server.Close()
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Callback(context.Background(), "token", client.Decision{EventRequest: client.EventRequest{Event: "approve"}})
	if client.Is(err, "already-decided") {
		fmt.Println(err)
	}
	// Output: Ana approved this on 3 December at 10:02. Your answer was not needed. (409 already-decided)
}
