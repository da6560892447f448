package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"vobo/internal/fault"
)

// database is the setting of every command that uses the database directly.
type database struct {
	DatabaseURL string `name:"database-url" env:"VOBO_DATABASE_URL" default:"sqlite:vobo.db" help:"sqlite:PATH or postgres://…"`
	DirectURL   string `name:"database-direct-url" env:"VOBO_DATABASE_DIRECT_URL" help:"PostgreSQL beside a pooler: for LISTEN and migrations."`
}

// ringSetting is the setting of commands that need the key ring.
type ringSetting struct {
	Keyring string `name:"keyring" env:"VOBO_KEYRING" help:"File (0600) of the keys that sign links, or the ring itself. Default: vobo.keys beside a SQLite file."`
}

// settings is everything that the service can be told.
type settings struct {
	database
	ringSetting
	Addr           string        `env:"VOBO_ADDR" default:"127.0.0.1:8080" help:"Listen address."`
	BaseURL        string        `name:"base-url" env:"VOBO_BASE_URL" help:"What links begin with; may have a path. Default: http:// and the address."`
	TrustedProxies []string      `name:"trusted-proxies" env:"VOBO_TRUSTED_PROXIES" help:"CIDRs whose X-Forwarded-* count."`
	SMTPURL        string        `name:"smtp-url" env:"VOBO_SMTP_URL" help:"smtp://user:pass@host:587?tls=starttls|implicit|none. Default: the mailbox page."`
	MailFrom       string        `name:"mail-from" env:"VOBO_MAIL_FROM" help:"Sender's address of all mails."`
	Definitions    []string      `env:"VOBO_DEFINITIONS" help:"Folders or files published at start."`
	People         string        `env:"VOBO_PEOPLE" help:"YAML file of people and groups, synced at start."`
	SweepEvery     time.Duration `name:"sweep-every" env:"VOBO_SWEEP_EVERY" default:"1s" help:"How often due deadlines are looked for."`
	WebhookAllow   []string      `name:"webhook-allow" env:"VOBO_WEBHOOK_ALLOW" help:"Hosts or CIDRs that webhooks may reach although they are private or plain http."`
	WebhookSecrets string        `name:"webhook-secrets" env:"VOBO_WEBHOOK_SECRETS" help:"File (0600) of credentials of webhooks out and secrets of webhook sources in, by name."`
	Sinks          []string      `env:"VOBO_SINKS" help:"Endpoints of the event feed: URL, or NAME=URL."`
	Log            string        `env:"VOBO_LOG" help:"Level and format: info,text or info,json."`
}

// laterSettings are known by name but not supported yet.
var laterSettings = []string{"VOBO_DOCUMENTS", "VOBO_OIDC_ISSUER", "VOBO_OIDC_CLIENT_ID", "VOBO_OIDC_CLIENT_SECRET"}

// checkEnvironment refuses a VOBO_* variable that no command knows: it is misspelt.
func checkEnvironment(model *kong.Application, environ []string) error {
	known := []string{"VOBO_URL", "VOBO_API_KEY"}
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		for _, f := range n.Flags {
			known = append(known, f.Envs...)
		}
		for _, child := range n.Children {
			visit(child)
		}
	}
	visit(model.Node)
	var problems []error
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case !strings.HasPrefix(name, "VOBO_"), strings.HasPrefix(name, "VOBO_ENV_"), slices.Contains(known, name):
		case slices.Contains(laterSettings, name):
			problems = append(problems, fmt.Errorf("%s is not supported yet: unset it", name))
		default:
			problems = append(problems, fmt.Errorf("%s is not a setting%s", name, nearest(name, known)))
		}
	}
	return errors.Join(problems...)
}

func nearest(name string, known []string) string {
	best, distance := "", min(4, 1+(len(name)-len("VOBO_"))/3)
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return "; vobo serve --help lists them"
	}
	return ": did you mean " + best + "?"
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// sqlitePath is the file of a SQLite URL.
func (d database) sqlitePath() (string, bool) { return strings.CutPrefix(d.DatabaseURL, "sqlite:") }

// ringSource is where the key ring is: a path, or the ring itself.
func (s settings) ringSource() (string, error) { return ringSource(s.database, s.ringSetting) }

func ringSource(d database, r ringSetting) (string, error) {
	if r.Keyring != "" {
		return r.Keyring, nil
	}
	if path, ok := d.sqlitePath(); ok {
		return filepath.Join(filepath.Dir(path), "vobo.keys"), nil
	}
	return "", errors.New("VOBO_KEYRING is required with PostgreSQL: name a file that all replicas share, or the ring itself")
}

// baseOf is what links begin with where only the listen address is known.
func baseOf(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("VOBO_ADDR %q is not host:port", addr)
	}
	return baseFor(host, port), nil
}

func baseFor(host, port string) string {
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// check completes the settings and refuses contradictions before anything listens.
func (s *settings) check() error {
	var problems []error
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		problems = append(problems, fmt.Errorf("VOBO_ADDR %q is not host:port", s.Addr))
	}
	if s.BaseURL == "" && err == nil {
		s.BaseURL = baseFor(host, port)
	}
	if u, err := url.Parse(s.BaseURL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		problems = append(problems, fmt.Errorf("VOBO_BASE_URL %q is not an http or https address", s.BaseURL))
	}
	s.BaseURL = strings.TrimRight(s.BaseURL, "/")
	for _, p := range s.TrustedProxies {
		if _, err := netip.ParsePrefix(p); err != nil {
			problems = append(problems, fmt.Errorf("VOBO_TRUSTED_PROXIES: %q is not a CIDR", p))
		}
	}
	if s.SMTPURL != "" && s.MailFrom == "" {
		problems = append(problems, errors.New("VOBO_MAIL_FROM is required with VOBO_SMTP_URL"))
	}
	if s.MailFrom == "" {
		s.MailFrom = "vobo@localhost"
	}
	if !strings.HasPrefix(s.DatabaseURL, "sqlite:") && !strings.HasPrefix(s.DatabaseURL, "postgres://") && !strings.HasPrefix(s.DatabaseURL, "postgresql://") {
		problems = append(problems, errors.New("VOBO_DATABASE_URL begins with sqlite: or postgres://"))
	}
	if s.SweepEvery < 10*time.Millisecond || s.SweepEvery > time.Hour {
		problems = append(problems, fmt.Errorf("VOBO_SWEEP_EVERY %s is not between 10ms and 1h", s.SweepEvery))
	}
	if _, err := s.ringSource(); err != nil {
		problems = append(problems, err)
	}
	if _, err := s.sinks(); err != nil {
		problems = append(problems, err)
	}
	if _, err := newLogger(s.Log, os.Stderr, false); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// basePath is the path prefix of the base URL, "" for none.
func (s settings) basePath() string {
	u, err := url.Parse(s.BaseURL)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.Path, "/")
}

// variables are what env.NAME is in definitions.
func variables(environ []string) map[string]string {
	vars := map[string]string{}
	for _, pair := range environ {
		if rest, ok := strings.CutPrefix(pair, "VOBO_ENV_"); ok {
			name, value, _ := strings.Cut(rest, "=")
			vars[name] = value
		}
	}
	return vars
}

// newLogger reads VOBO_LOG: a level, a format, or both.
func newLogger(setting string, w *os.File, terminal bool) (*slog.Logger, error) {
	level, format := slog.LevelInfo, "json"
	if terminal {
		format = "text"
	}
	for part := range strings.SplitSeq(setting, ",") {
		switch part {
		case "":
		case "text", "json":
			format = part
		default:
			if err := level.UnmarshalText([]byte(part)); err != nil {
				return nil, fmt.Errorf("VOBO_LOG %q: use debug, info, warn or error, and text or json", setting)
			}
		}
	}
	o := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, o)), nil
	}
	return slog.New(slog.NewJSONHandler(w, o)), nil
}

// describe gives the words of an error for a terminal.
func describe(err error) string {
	if all, joined := err.(interface{ Unwrap() []error }); joined && err.Error() == errors.Join(all.Unwrap()...).Error() {
		var lines []string
		for _, one := range all.Unwrap() {
			lines = append(lines, describe(one))
		}
		return strings.Join(lines, "\n")
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err.Error()
	}
	text := e.Message
	if setting, last := strings.CutSuffix(err.Error(), e.Error()); last {
		text = setting + text // what the error was wrapped in names the setting
	}
	if e.Code == fault.Internal && e.Cause != nil {
		text += " " + e.Cause.Error()
	}
	for _, f := range e.Fields {
		text += "\n  " + strings.TrimSpace(f.Pointer+" "+f.Detail)
	}
	return text
}
