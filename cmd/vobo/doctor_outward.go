package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// outward looks at the file of secrets and at the endpoints of the event feed.
func (d *doctor) outward(ctx context.Context) {
	if d.cfg.WebhookSecrets != "" {
		if secrets, err := d.cfg.loadSecrets(); err != nil {
			d.failed("secrets", err)
		} else {
			credentials, sources := secrets.Names()
			d.ok("secrets", "%s: %s and %s", d.cfg.WebhookSecrets, plural(len(credentials), "credential"), plural(len(sources), "source"))
		}
	}
	sinks, err := d.cfg.sinks()
	if err != nil {
		return // said with the settings
	}
	sender, err := d.cfg.webhookSender()
	if err != nil {
		return
	}
	defer sender.Close()
	for _, sink := range sinks {
		ctx, cancel := context.WithTimeout(ctx, doctorPatience)
		out := sender.Send(ctx, deliver.WebhookRequest{ID: "vobo-doctor", Attempt: 1, Method: "GET", URL: sink.URL, Idempotent: true, Timestamp: time.Now()})
		cancel()
		if out.Answered {
			d.ok("sink "+sink.Name, "%s To a GET, that is; events are sent by POST.", out.Detail)
		} else {
			d.failed("sink "+sink.Name, errors.New(out.Detail))
		}
	}
}

// deliveries says what waits for a person.
func (d *doctor) deliveries(ctx context.Context, st *store.Store) {
	counts, err := st.Counts(ctx)
	if err != nil {
		d.failed("effects", err)
		return
	}
	dead, unknown := counts.EffectsByStatus[string(fsm.EffectDead)], counts.EffectsByStatus[string(fsm.EffectUnknown)]
	if dead+unknown > 0 {
		d.note("effects", "%d dead, %d unknown: vobo effects list --status dead --status unknown", dead, unknown)
	} else {
		d.ok("effects", "none is dead or unknown")
	}
	sinks, err := st.Sinks(ctx)
	if err != nil {
		d.failed("event feed", err)
		return
	}
	for _, s := range sinks {
		switch {
		case s.DisabledAt != nil:
			d.failed("event feed", fmt.Errorf("%s is disabled since %s, with %s waiting: %s Mend it, then: vobo sinks enable %s --reason TEXT",
				s.Name, s.DisabledAt.UTC().Format("2006-01-02 15:04 MST"), plural(s.Waiting, "event"), sentence(s.Reason), s.Name))
		case s.Dead > 0:
			d.note("event feed", "%s did not get %s: vobo sinks enable %s --reason TEXT sends them again", s.Name, plural(s.Dead, "event"), s.Name)
		default:
			d.ok("event feed", "%s: %s waiting", s.Name, plural(s.Waiting, "event"))
		}
	}
}
