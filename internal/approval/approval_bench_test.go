package approval

import (
	"encoding/json"
	"os"
	"testing"

	"vobo/internal/testkit"
)

// BenchmarkApproval is one approval, start and decision by link, without HTTP:
// go test ./internal/approval -run '^$' -bench Approval -cpuprofile cpu.out
func BenchmarkApproval(b *testing.B) {
	source, err := os.ReadFile("../../bench/purchase.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"postgres", "sqlite"} {
		b.Run(name, func(b *testing.B) {
			v := newBundle(b, testkit.DatabaseURLs(b)[name])
			v.publish(string(source))
			c := admin
			c.ID = "system:bench"
			v.shift.Store(0)
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					res, err := v.svc.Start(v.ctx, c, StartRequest{Definition: "bench-purchase", Data: purchase()})
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := v.svc.DecideByToken(v.ctx, res.View.Token, RouteCallback, RaiseRequest{Event: "approve", Comment: "ok"}, Caller{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			if _, err := v.store.Counts(v.ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func purchase() map[string]any {
	return map[string]any{
		"title": "Purchase order 4711", "amount": json.Number("1234.56"), "currency": "EUR", "requester": "bob@example.test",
		"department": "engineering", "items": []any{"laptop", "dock", "monitor"}, "note": "urgent, please approve this week",
	}
}
