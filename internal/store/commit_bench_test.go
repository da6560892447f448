package store

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"vobo/internal/testkit"
)

// BenchmarkCommit is one approval: a start and a decision by token, in batches of 64 by
// two committers (SQLite: one), with a plan that costs nothing.
func BenchmarkCommit(b *testing.B) {
	for name, kind := range map[string]struct {
		url        func(testing.TB) string
		committers int
	}{"postgres": {testkit.Postgres, 2}, "sqlite": {testkit.SQLite, 1}} {
		b.Run(name, func(b *testing.B) {
			s := reopened(b, Config{URL: kind.url(b)})
			if err := s.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			p := newSimple(s)
			p.commit(b, startJob(b))
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wait sync.WaitGroup
			for range kind.committers {
				wait.Go(func() {
					for {
						n := min(64, int(left.Add(-64))+64)
						if n <= 0 {
							return
						}
						approveBatch(b, p, n)
					}
				})
			}
			wait.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "approvals/s")
		})
	}
}

func approveBatch(b *testing.B, p *simple, n int) {
	starts, decisions := make([]*Job, n), make([]*Job, n)
	for i := range starts {
		starts[i] = startJob(b)
		decisions[i] = raiseJob(b, starts[i].Event.Instance, "approve")
	}
	for _, jobs := range [][]*Job{starts, decisions} {
		if err := p.s.Commit(context.Background(), jobs, p, CommitOptions{}); err != nil {
			b.Error(err)
			return
		}
		for _, job := range jobs {
			if job.Err != nil || job.Requeue || job.Step.Refusal != nil {
				b.Error(job.Err, job.Requeue, job.Step.Refusal)
			}
		}
	}
}
