package approval

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"vobo/internal/testkit"
)

// BenchmarkOutbox is one effect from its lease to its end: claim, call of a receiver on
// the loopback address, and the end. The effects are queued before the clock runs:
// go test ./internal/approval -run '^$' -bench Outbox -benchtime 5000x -cpuprofile cpu.out
func BenchmarkOutbox(b *testing.B) {
	for _, name := range []string{"postgres", "sqlite"} {
		b.Run(name, func(b *testing.B) {
			var calls atomic.Int64
			done := make(chan struct{})
			receiver := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
				if calls.Add(1) == int64(b.N) {
					close(done)
				}
			})
			server := httptest.NewServer(receiver)
			defer server.Close()
			v := newBundle(b, testkit.DatabaseURLs(b)[name])
			v.publish(callsTo("calls", 3, server.URL))
			v.known.Store("calls", true)
			each(b.N, 16, func(int) { v.start(admin, "calls", `{}`) })
			b.ResetTimer()
			v.running(v.svc)
			<-done
			v.deliver()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
		})
	}
}
