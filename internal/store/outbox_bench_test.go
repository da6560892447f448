package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

// BenchmarkOutbox is an effect's way through the outbox: leased as started, and its end
// written, in batches of 64 by two workers (SQLite: one); no request is made.
func BenchmarkOutbox(b *testing.B) {
	for name, kind := range map[string]struct {
		url     func(testing.TB) string
		workers int
	}{"postgres": {testkit.Postgres, 2}, "sqlite": {testkit.SQLite, 1}} {
		b.Run(name, func(b *testing.B) {
			s := reopened(b, Config{URL: kind.url(b)})
			if err := s.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			p := newSimple(s)
			for queued := 0; queued < b.N; queued += 100 {
				var effects []fsm.QueuedEffect
				for range min(100, b.N-queued) {
					effects = append(effects, mail(true))
				}
				p.queue(b, effects...)
			}
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wait sync.WaitGroup
			for range kind.workers {
				wait.Go(func() {
					for left.Load() > 0 {
						n, err := workOnce(s, 64)
						if err != nil {
							b.Error(err)
							return
						}
						left.Add(int64(-n))
					}
				})
			}
			wait.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
		})
	}
}

func workOnce(s *Store, limit int) (int, error) {
	claimed, err := s.ClaimEffects(context.Background(), limit, time.Minute)
	if err != nil || len(claimed) == 0 {
		return 0, err
	}
	ends := make([]Finish, len(claimed))
	for i := range claimed {
		ends[i] = finishOf(claimed[i], fsm.EffectSucceeded)
	}
	return s.FinishAttempts(context.Background(), ends)
}

// BenchmarkClaimBehindDeadHosts is a claim among 10,000 due effects of as many dead hosts, or
// behind 10,000 of so many as a claim may leave out.
func BenchmarkClaimBehindDeadHosts(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"postgres": testkit.Postgres, "sqlite": testkit.SQLite} {
		for _, dead := range []int{mostAvoided, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, dead), func(b *testing.B) {
				s := reopened(b, Config{URL: url(b)})
				if err := s.Migrate(b.Context()); err != nil {
					b.Fatal(err)
				}
				hosts := queueForDeadHosts(b, newSimple(s), dead)
				b.ResetTimer()
				for range b.N {
					claimed, err := s.ClaimEffects(b.Context(), 64, time.Minute, hosts)
					if err != nil || len(claimed) != 64 {
						b.Fatal(len(claimed), err)
					}
					b.StopTimer()
					if err := s.ReleaseEffects(b.Context(), claimed); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
		}
	}
}

// queueForDeadHosts queues 10,000 effects of so many dead hosts and then 100 of a good one.
func queueForDeadHosts(b *testing.B, p *simple, dead int) Hosts {
	b.Helper()
	hosts := Hosts{Usual: 100}
	for n := 0; n <= 10_000; n += 100 {
		var effects []fsm.QueuedEffect
		for i := range 100 {
			host := fmt.Sprintf("dead-%d.example", (n+i)%dead)
			if n == 10_000 {
				host = "good.example"
			} else if n+i < dead {
				hosts.Avoid = append(hosts.Avoid, host)
			}
			effects = append(effects, toHost(host))
		}
		p.queue(b, effects...)
	}
	return hosts
}
