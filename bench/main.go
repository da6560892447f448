// Command bench measures Vobo beside its yardstick in the same run on the same
// cores: one approval over HTTP on PostgreSQL against the floor, the same row writes
// straight in PostgreSQL. It needs a PostgreSQL that is only for this and a built
// binary: `make bench` brings both.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

type options struct {
	database string
	binary   string
	seconds  time.Duration
	waiting  int
	many     int
	due      int
	effects  int
	dead     int
	good     int
	floor    string
	only     string
}

func main() {
	var o options
	flag.StringVar(&o.database, "database", os.Getenv("VOBOTEST_POSTGRES_URL"), "postgres:// of a server that is only for this")
	flag.StringVar(&o.binary, "binary", os.Getenv("VOBOTEST_BINARY"), "the vobo binary")
	flag.DurationVar(&o.seconds, "for", 15*time.Second, "how long each load lasts")
	flag.IntVar(&o.waiting, "waiting", 512, "instances kept waiting during the load")
	flag.IntVar(&o.many, "many", 100_000, "waiting instances for the memory and disk figures")
	flag.IntVar(&o.due, "due", 20_000, "deadlines due at once")
	flag.IntVar(&o.effects, "effects", 20_000, "effects of the effects' figures")
	flag.IntVar(&o.dead, "dead", 10_000, "receivers that do not answer")
	flag.IntVar(&o.good, "good", 1_000, "calls to one that does, beside them")
	flag.StringVar(&o.floor, "floor", "", "a script to run as the floor besides our own: SCRIPT DATABASE CLIENTS SECONDS")
	flag.StringVar(&o.only, "only", "", "approvals, latency, effects, dispatch, dead, correlate, deadlines, waiting, cold or sqlite; all unless said")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures one thing after another and prints a line for each.
func run(ctx context.Context, o options) error {
	if o.database == "" || o.binary == "" {
		return fmt.Errorf("-database and -binary are needed; `make bench` sets both")
	}
	for _, m := range []struct {
		name    string
		measure func(context.Context, options) error
	}{
		{"approvals", approvals},
		{"latency", latency},
		{"effects", effects},
		{"dispatch", dispatch},
		{"dead", dead},
		{"correlate", correlate},
		{"deadlines", deadlines},
		{"waiting", waiting},
		{"cold", coldStart},
		{"sqlite", sqliteApprovals},
	} {
		if o.only != "" && o.only != m.name {
			continue
		}
		if err := m.measure(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}
