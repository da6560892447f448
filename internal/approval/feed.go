package approval

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/store"
)

const (
	feedPerSink  = 8 // rows under way at once to one sink, of all replicas
	feedAttempts = 24
	feedFirst    = 5 * time.Second
	feedMax      = 6 * time.Hour
	feedType     = "application/cloudevents+json"
)

// Sink is an endpoint of the event feed.
type Sink struct {
	Name string // of its credentials and signing secrets too, where the secrets file has them
	URL  string
}

// SinkView is a sink and how it fares.
type SinkView struct {
	Name       string `json:"name"`
	Host       string `json:"host"`
	Enabled    bool   `json:"enabled"`
	Reason     string `json:"reason,omitempty"`
	DisabledAt *Time  `json:"disabled_at,omitempty"`
	Waiting    int    `json:"waiting"`
	Dead       int    `json:"dead"`
	Oldest     *Time  `json:"oldest,omitempty"`
}

// feed delivers history rows to sinks, each instance's in their order, with senders of
// each sink's own: one that hangs holds up no effect and no other sink.
type feed struct {
	s *Service

	mu       sync.Mutex
	underWay int // rows
	closed   bool

	ends sync.Mutex // held while a sink is disabled: of several that say so one is told of
}

func newFeed(s *Service) *feed { return &feed{s: s} }

// close lets nothing more begin.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// take books a row; false where the service is stopping.
func (f *feed) take() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.underWay++
	f.s.outbox.flights.Add(1)
	return true
}

func (f *feed) give() {
	f.mu.Lock()
	f.underWay--
	f.mu.Unlock()
	f.s.outbox.flights.Done()
	f.s.Wake()
}

// Sinks lists the endpoints of the event feed. Operators and who oversees.
func (s *Service) Sinks(ctx context.Context, c Caller) ([]SinkView, error) {
	if !oversees(c) {
		return nil, fault.New(fault.Forbidden, "Only operators, admins, auditors and viewers may read the event feed's endpoints.")
	}
	rows, err := s.store.Sinks(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]SinkView, 0, len(rows))
	for _, r := range rows {
		k := s.sink(r.Name)
		if k == nil {
			continue
		}
		views = append(views, SinkView{
			Name: r.Name, Host: hostName(k.URL), Enabled: r.DisabledAt == nil, Reason: r.Reason, DisabledAt: timeOf(r.DisabledAt),
			Waiting: r.Waiting, Dead: r.Dead, Oldest: timeOf(r.Oldest),
		})
	}
	return views, nil
}

// sink is the configured sink of that name, or nil.
func (s *Service) sink(name string) *Sink {
	i := slices.IndexFunc(s.cfg.Sinks, func(k Sink) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &s.cfg.Sinks[i]
}

func hostName(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// EnableSink lets a disabled sink go on, with its dead rows. Operators only. Not-found.
func (s *Service) EnableSink(ctx context.Context, c Caller, name, reason string) (*SinkView, error) {
	if err := operatorOnly(c, "enable an endpoint of the event feed"); err != nil {
		return nil, err
	}
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	found := s.sink(name) != nil
	if found {
		var err error
		if found, err = s.store.EnableSink(ctx, name); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, fault.New(fault.NotFound, "There is no endpoint %q. VOBO_SINKS says which there are.", name)
	}
	line := store.AuditLine{Actor: c.ID, Action: "sink-enabled", Detail: map[string]any{"sink": name, "reason": reason}}
	if err := s.store.Audit(ctx, line); err != nil {
		return nil, err
	}
	s.outbox.wake()
	views, err := s.Sinks(ctx, Caller{ID: c.ID, Kind: c.Kind, Roles: overseers})
	if err != nil {
		return nil, err
	}
	for i := range views {
		if views[i].Name == name {
			return &views[i], nil
		}
	}
	return nil, fault.New(fault.NotFound, "The endpoint %q was removed meanwhile.", name)
}

// FeedOnce leases due rows of the feed and sends them in the background; it returns how many.
func (s *Service) FeedOnce(ctx context.Context) (int, error) {
	f := s.outbox.feed
	if len(s.cfg.Sinks) == 0 || s.outbox.stopping() {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimWithin)
	defer cancel()
	rows, err := s.store.ClaimFeed(ctx, feedPerSink*len(s.cfg.Sinks), feedPerSink, lease)
	taken := 0
	for i := range rows {
		r := &rows[i]
		if !f.take() {
			err = errors.Join(err, s.store.FeedRetry(ctx, r, 0, "Not sent: the service was stopping."))
			continue
		}
		taken++
		s.outbox.work.Go(func() {
			defer f.give()
			f.send(r)
		})
	}
	return taken, err
}

// send makes one attempt for a row and records its end.
func (f *feed) send(r *store.FeedRow) {
	ctx, cancel := context.WithTimeout(f.s.outbox.ctx, attemptFor)
	defer cancel()
	out := f.s.sendRow(ctx, r)
	ctx, cancel = context.WithTimeout(context.Background(), claimWithin)
	defer cancel()
	if err := f.s.feedEnded(ctx, r, out); err != nil {
		f.s.log.Error("the end of a delivery to the event feed could not be recorded; it comes again when its lease is over",
			"sink", r.Sink, "instance", r.Instance, "seq", r.Transition.Seq, "error", err)
	}
	f.s.metrics.attempt("feed", string(out.Class))
}

func (s *Service) sendRow(ctx context.Context, r *store.FeedRow) deliver.Outcome {
	k := s.sink(r.Sink)
	if k == nil {
		return deliver.Outcome{Class: deliver.Retry, Detail: "This process does not know the endpoint; another one may."}
	}
	req := deliver.WebhookRequest{
		ID: r.Instance + "/" + strconv.Itoa(r.Transition.Seq) + "/" + r.Sink, Attempt: r.Attempt, URL: k.URL,
		Headers: [][2]string{{"Content-Type", feedType}}, Body: s.cloudEvent(r), Idempotent: true, Timestamp: s.cfg.Clock(),
	}
	credentials := r.Sink
	if s.cfg.Secrets.Secrets().Credential(credentials) == nil {
		credentials = ""
	}
	if missing := s.prove(&req, credentials); missing != "" {
		return deliver.Outcome{Class: deliver.Retry, Detail: missing}
	}
	return s.cfg.Webhooks.Send(ctx, req)
}

// feedEvent is a history row as sinks get it: CloudEvents 1.0, structured.
type feedEvent struct {
	SpecVersion     string   `json:"specversion"`
	ID              string   `json:"id"`
	Source          string   `json:"source"`
	Type            string   `json:"type"`
	Subject         string   `json:"subject"`
	Time            Time     `json:"time"`
	DataContentType string   `json:"datacontenttype"`
	Sequence        string   `json:"sequence"` // zero-padded, so that it sorts as text
	Data            feedData `json:"data"`
}

type feedData struct {
	Instance   feedInstance   `json:"instance"`
	Transition TransitionView `json:"transition"`
}

type feedInstance struct {
	ID         string `json:"id"`
	Definition string `json:"definition"`
	Version    int    `json:"version"`
	Key        string `json:"key,omitempty"`
}

// cloudEvent is the body for a row, made of nothing that ever changes: every attempt
// sends the same bytes.
func (s *Service) cloudEvent(r *store.FeedRow) []byte {
	t := &r.Transition
	version := t.DefinitionVersion
	if version == 0 {
		version = r.Version
	}
	return marshal(feedEvent{
		SpecVersion: "1.0", ID: r.Instance + "/" + strconv.Itoa(t.Seq), Source: s.cfg.BaseURL, Type: "vobo.transition",
		Subject: r.Instance, Time: Time{t.At}, DataContentType: "application/json", Sequence: fmt.Sprintf("%010d", t.Seq),
		Data: feedData{feedInstance{r.Instance, r.Definition, version, r.Key}, transitionView(t)},
	})
}

// feedEnded writes the end of an attempt. 410 disables the sink and keeps its rows; any
// other refusal is the end of the row alone.
func (s *Service) feedEnded(ctx context.Context, r *store.FeedRow, out deliver.Outcome) error {
	switch {
	case out.Class == deliver.Success:
		return s.store.FeedDelivered(ctx, []store.FeedRow{*r})
	case out.Gone():
		return errors.Join(s.disableSink(ctx, r.Sink, out.Detail), s.store.FeedRetry(ctx, r, feedFirst, out.Detail))
	case out.Class == deliver.Permanent, r.Attempt >= feedAttempts:
		return s.store.FeedRetry(ctx, r, -1, out.Detail)
	}
	wait := deliver.Backoff(r.Attempt, feedFirst, feedMax, s.cfg.Jitter(), out.RetryAfter)
	return s.store.FeedRetry(ctx, r, wait, out.Detail)
}

// disableSink disables a sink that says it is gone. All its rows under way hear the same:
// the log says it once.
func (s *Service) disableSink(ctx context.Context, name, detail string) error {
	s.outbox.feed.ends.Lock()
	defer s.outbox.feed.ends.Unlock()
	all, err := s.store.Sinks(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(k store.Sink) bool { return k.Name == name && k.DisabledAt != nil }) {
		return nil
	}
	s.log.Error("an endpoint of the event feed says that it is gone; it gets nothing more until it is enabled", "sink", name)
	return s.store.DisableSink(ctx, name, detail)
}
