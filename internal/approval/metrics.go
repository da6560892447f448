package approval

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vobo/internal/fsm"
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

	calls     *prometheus.CounterVec
	redrives  prometheus.Counter
	children  prometheus.Counter
	mailSetup prometheus.Counter

	instances, effects   *prometheus.Desc
	attention, due, aged *prometheus.Desc
	stuck, callsWaiting  *prometheus.Desc
	sinkRows, sinkOff    *prometheus.Desc
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
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vobo_calls_total",
			Help: "Calls of webhook sources, by what became of them.",
		}, []string{"outcome"}),
		redrives: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vobo_effects_redriven_total",
			Help: "Effects that a bulk redrive tried again.",
		}),
		children: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vobo_children_started_total",
			Help: "Instances that start effects made.",
		}),
		mailSetup: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vobo_mail_setup_failures_total",
			Help: "Attempts to mail that failed because of how this server reaches its mail server.",
		}),
		stuck:        prometheus.NewDesc("vobo_effects_stuck", "Dead and unknown effects, by kind.", []string{"status", "kind"}, nil),
		callsWaiting: prometheus.NewDesc("vobo_calls_waiting", "Calls of webhook sources that wait for their wait.", nil, nil),
		sinkRows:     prometheus.NewDesc("vobo_sink_rows", "History rows that a sink of the event feed has not got, by status.", []string{"sink", "status"}, nil),
		sinkOff:      prometheus.NewDesc("vobo_sink_disabled", "1 where a sink of the event feed is disabled.", []string{"sink"}, nil),

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
	return []prometheus.Collector{m.events, m.refusals, m.attempts, m.late, m.batches, m.calls, m.redrives, m.children, m.mailSetup, m}
}

func (m *metrics) event(j *store.Job) {
	switch {
	case j.Step.Refusal != nil:
		m.refusals.WithLabelValues(string(j.Step.Refusal.Code)).Inc()
	case j.Step.Replay == 0:
		m.events.WithLabelValues(string(j.Event.Kind)).Inc()
		if start := j.Event.Start; start != nil && start.Parent != nil {
			m.children.Inc()
		}
	}
}

// call counts what became of a call: received, replayed, or a status of store.Call.
func (m *metrics) call(outcome string) { m.calls.WithLabelValues(outcome).Inc() }

func (m *metrics) attempt(kind, outcome string) { m.attempts.WithLabelValues(kind, outcome).Inc() }

func (m *metrics) lateness(d time.Duration) { m.late.Observe(d.Seconds()) }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.instances, m.effects, m.attention, m.due, m.aged, m.stuck, m.callsWaiting, m.sinkRows, m.sinkOff} {
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
	ch <- prometheus.MustNewConstMetric(m.callsWaiting, prometheus.GaugeValue, float64(c.CallsWaiting))
	for status, kinds := range map[fsm.EffectStatus]map[string]int{fsm.EffectDead: c.DeadByKind, fsm.EffectUnknown: c.UnknownByKind} {
		for kind, n := range kinds {
			ch <- prometheus.MustNewConstMetric(m.stuck, prometheus.GaugeValue, float64(n), string(status), kind)
		}
	}
	m.collectSinks(ctx, ch)
}

func (m *metrics) collectSinks(ctx context.Context, ch chan<- prometheus.Metric) {
	if len(m.s.cfg.Sinks) == 0 {
		return
	}
	sinks, err := m.s.store.Sinks(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(m.sinkRows, err)
		return
	}
	for _, k := range sinks {
		ch <- prometheus.MustNewConstMetric(m.sinkRows, prometheus.GaugeValue, float64(k.Waiting), k.Name, "waiting")
		ch <- prometheus.MustNewConstMetric(m.sinkRows, prometheus.GaugeValue, float64(k.Dead), k.Name, "dead")
		off := 0.0
		if k.DisabledAt != nil {
			off = 1
		}
		ch <- prometheus.MustNewConstMetric(m.sinkOff, prometheus.GaugeValue, off, k.Name)
	}
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
