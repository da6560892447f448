package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"vobo/internal/approval"
	"vobo/internal/callbacks"
	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/store"
	"vobo/timers"
)

const (
	grace          = 25 * time.Second // for requests and attempts under way when the process is told to stop
	maxHeaderBytes = 16 << 10
	wakeTopic      = "effects"
)

// app is a running service.
type app struct {
	cfg      settings
	log      *slog.Logger
	store    *store.Store
	service  *approval.Service
	timers   *timers.Timers
	server   *http.Server
	listener net.Listener
	unlock   func() error
	stopWake context.CancelFunc
}

// openApp checks, migrates, publishes and listens; nothing serves before serve.
func openApp(ctx context.Context, cfg settings, o appOptions, log *slog.Logger) (_ *app, err error) {
	a := &app{cfg: cfg, log: log, unlock: func() error { return nil }, stopWake: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if path, ok := cfg.sqlitePath(); ok {
		release, err := store.LockFile(path)
		if err != nil {
			return a, err
		}
		a.unlock = release
	}
	out, err := openOutward(cfg)
	if err != nil {
		return a, err
	}
	if a.store, err = store.Open(ctx, store.Config{URL: cfg.DatabaseURL, DirectURL: cfg.DirectURL, Sinks: sinkNames(out.sinks)}); err != nil {
		return a, err
	}
	if !o.noMigrate {
		if err = a.store.Migrate(ctx); err != nil {
			return a, err
		}
	}
	if err = a.store.Ping(ctx); err != nil {
		return a, err
	}
	if err = a.store.SyncSinks(ctx, sinkNames(out.sinks)); err != nil {
		return a, err
	}
	a.warn(ctx)
	ring, err := openRing(ctx, a.store, cfg.database, cfg.ringSetting)
	if err != nil {
		return a, err
	}
	if a.service, err = newService(ctx, cfg, a.store, ring, out, log); err != nil {
		return a, err
	}
	if err = prepare(ctx, a.service, a.store, cfg, o.definitions); err != nil {
		return a, err
	}
	if a.listener, err = net.Listen("tcp", cfg.Addr); err != nil {
		return a, fmt.Errorf("VOBO_ADDR: %w", err)
	}
	handler, err := newHandler(a.service, cfg, o, log)
	if err != nil {
		return a, err
	}
	a.server = newServer(handler, log)
	return a, a.startLoops(ring, out.secrets)
}

// newServer bounds what a slow or hostile client can hold.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// appOptions are what demo and serve do differently.
type appOptions struct {
	noMigrate   bool
	demo        bool
	public      bool              // demo: other machines may reach it
	definitions map[string][]byte // published besides the configured ones
}

func (a *app) startLoops(ring *callbacks.Holder, secrets *callbacks.SecretsHolder) (err error) {
	source, err := a.cfg.ringSource()
	if err != nil {
		return err
	}
	a.service.Run()
	files := []timers.Reload{{Name: "key ring", Do: func() error { return reloadRing(context.Background(), a.store, ring, source) }}}
	a.timers, err = timers.Start(a.service, timers.Config{
		SweepEvery: a.cfg.SweepEvery, Log: a.log, Reload: append(files, a.cfg.reloadSecrets(secrets)...),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	a.stopWake = func() { cancel(); <-done }
	go func() {
		defer close(done)
		if err := a.store.Wake(ctx, func(topic string) {
			if topic == wakeTopic {
				a.service.Wake()
			}
		}); err != nil && ctx.Err() == nil {
			a.log.Warn("news of other replicas does not arrive; due effects are found by looking", "error", err)
		}
	}()
	return nil
}

// serve answers until ctx ends, then lets what is under way finish.
func (a *app) serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- a.server.Serve(a.listener) }()
	a.log.Info("listening", "addr", a.listener.Addr().String(), "base_url", a.cfg.BaseURL)
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		a.log.Info("stopping")
	}
	return errors.Join(err, a.close())
}

// close stops in the order in which nothing is lost: no new requests, no new passes,
// events that wait, attempts under way, connections.
func (a *app) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var errs []error
	if a.server != nil {
		errs = append(errs, a.server.Shutdown(ctx))
	} else if a.listener != nil {
		errs = append(errs, a.listener.Close())
	}
	if a.timers != nil {
		a.timers.Stop()
	}
	a.stopWake()
	if a.timers != nil {
		errs = append(errs, a.service.Stop(ctx))
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(append(errs, a.unlock())...)
}

func (a *app) warn(ctx context.Context) {
	warnings, err := a.store.Warnings(ctx)
	if err != nil {
		a.log.Warn("the database's settings could not be read", "error", err)
	}
	for _, w := range warnings {
		a.log.Warn(w)
	}
}

func newService(ctx context.Context, cfg settings, st *store.Store, ring *callbacks.Holder, out *outward, log *slog.Logger) (*approval.Service, error) {
	var err error
	var mailer *deliver.Mailer
	if cfg.SMTPURL != "" {
		if mailer, err = deliver.NewMailer(cfg.SMTPURL, cfg.MailFrom); err != nil {
			return nil, fmt.Errorf("VOBO_SMTP_URL: %w", err)
		}
	}
	source, err := cfg.ringSource()
	if err != nil {
		return nil, err
	}
	return approval.New(ctx, approval.Config{
		Store: st, Ring: ring, Secrets: out.secrets, Sinks: out.sinks, Mailer: mailer, Webhooks: out.webhooks, BaseURL: cfg.BaseURL,
		MailFrom: cfg.MailFrom, Vars: variables(os.Environ()), Zone: serverZone(), Clock: time.Now, Log: log,
		ReloadRing: func() error { return reloadRing(context.Background(), st, ring, source) },
	})
}

// openRing reads the key ring, or makes it where the file is missing and the database
// knows none, and has the database remember it.
func openRing(ctx context.Context, st *store.Store, d database, r ringSetting) (*callbacks.Holder, error) {
	source, err := ringSource(d, r)
	if err != nil {
		return nil, err
	}
	known, err := st.Ring(ctx)
	if err != nil {
		return nil, err
	}
	ring, err := callbacks.LoadKeyRing(source)
	if errors.Is(err, fs.ErrNotExist) && len(known) == 0 {
		ring, err = callbacks.CreateKeyRingFile(source, rand.Reader)
	}
	if err != nil {
		return nil, fmt.Errorf("VOBO_KEYRING: %w", err)
	}
	if err := rememberRing(ctx, st, ring); err != nil {
		return nil, fmt.Errorf("VOBO_KEYRING: %w", err)
	}
	return callbacks.NewHolder(ring), nil
}

func rememberRing(ctx context.Context, st *store.Store, ring *callbacks.Ring) error {
	var rows []store.RingFingerprint
	for _, f := range ring.Fingerprints() {
		rows = append(rows, store.RingFingerprint{Kid: f.Kid, Status: string(f.Status), SHA256: f.SHA256[:]})
	}
	return st.SetRing(ctx, rows)
}

func reloadRing(ctx context.Context, st *store.Store, ring *callbacks.Holder, source string) error {
	if err := ring.Reload(source); err != nil {
		return err
	}
	return rememberRing(ctx, st, ring.Ring())
}

// prepare syncs people and publishes definitions; a refused file stops the start.
func prepare(ctx context.Context, svc *approval.Service, st *store.Store, cfg settings, more map[string][]byte) error {
	if cfg.People != "" {
		people, err := readPeople(cfg.People)
		if err != nil {
			return fmt.Errorf("VOBO_PEOPLE: %w", err)
		}
		if _, err := st.SyncPeople(ctx, people); err != nil {
			return err
		}
	}
	files, err := definitionFiles(cfg.Definitions)
	if err != nil {
		return fmt.Errorf("VOBO_DEFINITIONS: %w", err)
	}
	for name, source := range more {
		files = append(files, definitionFile{name, source})
	}
	for _, f := range files {
		if _, err := svc.Publish(ctx, starter, f.name, f.source); err != nil {
			if d, ok := errors.AsType[*approval.DefinitionError](err); ok {
				return fmt.Errorf("VOBO_DEFINITIONS: %s was refused:\n%s", f.name, d.Problems)
			}
			return fmt.Errorf("VOBO_DEFINITIONS: %s: %w", f.name, fault.As(err))
		}
	}
	return nil
}

// starter publishes what the configuration names.
var starter = approval.Caller{Kind: "system", ID: "system:configuration", Roles: []string{"admin"}}
