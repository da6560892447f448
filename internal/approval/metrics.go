package approval

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vobo/internal/store"
)

// metrics counts what happens; gauges are read from the database when scraped.
type metrics struct {
	s        *Service
	events   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	attempts *prometheus.CounterVec
	late     prometheus.Histogram
	batches  prometheus.Histogram

	instances, effects   *prometheus.Desc
	attention, due, aged *prometheus.Desc
}

func newMetrics(s *Service) *metrics {
	return &metrics{
		s: s,
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vobo_events_total",
			Help: "Events committed, by kind.",
		}, []string{"kind"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vobo_refusals_total",
			Help: "Events refused, by code.",
		}, []string{"code"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vobo_effect_attempts_total",
			Help: "Attempts to deliver effects, by kind and outcome class.",
		}, []string{"kind", "outcome"}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vobo_deadline_lateness_seconds",
			Help: "How long after it was due a deadline fired.", Buckets: []float64{.1, .5, 1, 2, 5, 10, 60, 600, 3600},
		}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vobo_commit_events",
			Help: "Events that shared one commit.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64},
		}),
		instances: prometheus.NewDesc("vobo_instances", "Instances, by status.", []string{"status"}, nil),
		effects:   prometheus.NewDesc("vobo_effects", "Effects not yet succeeded, by status.", []string{"status"}, nil),
		attention: prometheus.NewDesc("vobo_instances_attention", "Instances that an operator should look at.", nil, nil),
		due:       prometheus.NewDesc("vobo_deadlines_due", "Deadlines due and not yet fired.", nil, nil),
		aged:      prometheus.NewDesc("vobo_oldest_due_effect_seconds", "Age of the oldest effect that is due.", nil, nil),
	}
}

// Metrics returns what /metrics shows.
func (s *Service) Metrics() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.events, m.refusals, m.attempts, m.late, m.batches, m}
}

func (m *metrics) event(j *store.Job) {
	switch {
	case j.Step.Refusal != nil:
		m.refusals.WithLabelValues(string(j.Step.Refusal.Code)).Inc()
	case j.Step.Replay == 0:
		m.events.WithLabelValues(string(j.Event.Kind)).Inc()
	}
}

func (m *metrics) attempt(kind, outcome string) { m.attempts.WithLabelValues(kind, outcome).Inc() }

func (m *metrics) lateness(d time.Duration) { m.late.Observe(d.Seconds()) }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.instances, m.effects, m.attention, m.due, m.aged} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := m.s.store.Counts(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(m.instances, err)
		return
	}
	for status, n := range c.InstancesByStatus {
		ch <- prometheus.MustNewConstMetric(m.instances, prometheus.GaugeValue, float64(n), status)
	}
	for status, n := range c.EffectsByStatus {
		ch <- prometheus.MustNewConstMetric(m.effects, prometheus.GaugeValue, float64(n), status)
	}
	ch <- prometheus.MustNewConstMetric(m.attention, prometheus.GaugeValue, float64(c.Attention))
	ch <- prometheus.MustNewConstMetric(m.due, prometheus.GaugeValue, float64(c.DueDeadlines))
	age := 0.0
	if now, err := m.s.store.Now(ctx); err == nil && c.OldestEffect != nil {
		age = now.Sub(*c.OldestEffect).Seconds()
	}
	ch <- prometheus.MustNewConstMetric(m.aged, prometheus.GaugeValue, age)
}

// Counts are the numbers behind the metrics and the console.
func (s *Service) Counts(ctx context.Context) (store.Counts, error) { return s.store.Counts(ctx) }

// Ready tells whether the service can serve: database, migrations and key ring.
func (s *Service) Ready(ctx context.Context) error {
	if err := s.store.Ping(ctx); err != nil {
		return err
	}
	return s.checkRing(ctx)
}
