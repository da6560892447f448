package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
)

// serveCmd runs the service.
type serveCmd struct {
	settings
	NoMigrate bool `name:"no-migrate" help:"Do not bring the database schema up first."`
	Check     bool `help:"Only check the configuration, the database and the definitions."`
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
	a, err := openApp(c.ctx, s.settings, appOptions{noMigrate: s.NoMigrate, checkOnly: s.Check}, log)
	if err != nil {
		return err
	}
	if s.Check {
		fmt.Fprintln(c.out, "The configuration is good.")
		return a.close()
	}
	return a.serve(c.ctx)
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
