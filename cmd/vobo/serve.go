package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime/debug"

	"vobo/internal/callbacks"
	"vobo/internal/definitions"
	"vobo/internal/deliver"
	"vobo/internal/store"
)

// serveCmd runs the service.
type serveCmd struct {
	settings
	NoMigrate bool `name:"no-migrate" help:"Do not bring the database schema up first."`
	Check     bool `help:"Only check the configuration, the database and the definitions; nothing is changed."`
}

// Run implements the command.
func (s *serveCmd) Run(c *console) error {
	if err := s.check(); err != nil {
		return err
	}
	log, err := newLogger(s.Log, os.Stderr, isTerminal(os.Stderr))
	if err != nil {
		return err
	}
	if s.Check {
		return checkOnly(c, s.settings)
	}
	collectLess()
	a, err := openApp(c.ctx, s.settings, appOptions{noMigrate: s.NoMigrate}, log)
	if err != nil {
		return err
	}
	return a.serve(c.ctx)
}

// collectLess lets the heap grow to four times what lives before it is collected: a
// service whose instances wait in the database holds a few MiB, and collecting those
// at every doubling took an eighth of its time. GOGC says otherwise.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// checkOnly looks at everything that a start would use and changes nothing.
func checkOnly(c *console, cfg settings) error {
	var problems []error
	source, err := cfg.ringSource()
	if err == nil {
		_, err = callbacks.LoadKeyRing(source)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing file is made at the first start
		problems = append(problems, fmt.Errorf("VOBO_KEYRING: %w", err))
	}
	if cfg.People != "" {
		if _, err := readPeople(cfg.People); err != nil {
			problems = append(problems, fmt.Errorf("VOBO_PEOPLE: %w", err))
		}
	}
	secrets, err := cfg.loadSecrets()
	if err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, checkDefinitions(cfg.Definitions, secrets)...)
	if cfg.SMTPURL != "" {
		if _, err := deliver.NewMailer(cfg.SMTPURL, cfg.MailFrom); err != nil {
			problems = append(problems, fmt.Errorf("VOBO_SMTP_URL: %w", err))
		}
	}
	problems = append(problems, checkDatabase(c, cfg))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	fmt.Fprintln(c.out, "The configuration is good.")
	return nil
}

// checkDatabase asks a database that is there; a SQLite file is made at the first start.
func checkDatabase(c *console, cfg settings) error {
	if path, ok := cfg.sqlitePath(); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return withStore(c, cfg.database, func(ctx context.Context, st *store.Store) error {
		if _, err := st.Now(ctx); err != nil {
			return fmt.Errorf("VOBO_DATABASE_URL: %w", err)
		}
		return nil
	})
}

// checkDefinitions looks at definitions as publishing would; without secrets (nil) it
// leaves out whether those have what they need.
func checkDefinitions(paths []string, secrets *callbacks.Secrets) (problems []error) {
	files, err := definitionFiles(paths)
	if err != nil {
		return []error{fmt.Errorf("VOBO_DEFINITIONS: %w", err)}
	}
	vars := variables(os.Environ())
	for _, f := range files {
		d, found := definitions.Parse(f.name, f.source)
		if d != nil {
			found = append(found, d.CheckEnv(vars)...)
			if secrets != nil {
				found = append(found, d.CheckSecrets(secrets.Names())...)
			}
		}
		if found.Refuses() {
			problems = append(problems, fmt.Errorf("VOBO_DEFINITIONS: %s was refused:\n%s", f.name, found))
		}
	}
	return problems
}

// versionCmd prints the version.
type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run(c *console) error {
	fmt.Fprintln(c.out, "vobo", version())
	return nil
}

// release is set by the linker in release builds.
var release = ""

// version is the release, else the revision it was built from.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "dev-" + s.Value[:12]
			}
		}
	}
	return "dev"
}

func stack() string { return string(debug.Stack()) }

func ipNet(p netip.Prefix) *net.IPNet {
	bits := 32
	if p.Addr().Is6() {
		bits = 128
	}
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), bits)}
}
