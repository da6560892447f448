package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	demoAddr   = "127.0.0.1:8080"
	demoSeeded = "samples-made" // a file beside the database: the samples are there
	demoKey    = "api-key"
)

// demoCmd is a whole working service with sample data.
type demoCmd struct {
	Addr   string `placeholder:"HOST:PORT" help:"Listen address. Default: 127.0.0.1:8080, or a free port where that is taken."`
	Dir    string `type:"path" placeholder:"FOLDER" help:"Keep the data here. Default: a fresh folder that is removed at the end."`
	Public bool   `help:"Allow an address that other machines reach: its picker lets anybody in as anyone."`
}

// Run implements the command.
func (d *demoCmd) Run(c *console) (err error) {
	addr, err := d.address()
	if err != nil {
		return err
	}
	dir, remove, err := d.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	outside, err := startOutside(filepath.Join(dir, "outside"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, outside.close()) }()
	if unused := demoIgnores(os.Environ()); len(unused) > 0 {
		fmt.Fprintf(c.err, "The demo sets itself up and does not use %s; vobo serve does.\n", strings.Join(unused, ", "))
	}
	a, err := d.open(c.ctx, addr, dir, outside)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	go func() { served <- a.serve(ctx) }()
	if err := d.present(ctx, c, a, dir); err != nil {
		stop()
		return errors.Join(err, <-served)
	}
	return <-served
}

// demoIgnores are the settings of the service that the demo, which makes its own, leaves aside.
func demoIgnores(environ []string) (names []string) {
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case value == "", name == "VOBO_URL", name == "VOBO_API_KEY":
		case strings.HasPrefix(name, "VOBO_ENV_") && !slices.Contains(demoEnvironment, name):
		case strings.HasPrefix(name, "VOBO_"):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// demoEnvironment are the addresses of the systems that the demo plays itself.
var demoEnvironment = []string{"VOBO_ENV_CORE_URL", "VOBO_ENV_ESIGN_URL"}

// address checks that nobody else comes in by accident, and finds a port.
func (d *demoCmd) address() (string, error) {
	if d.Addr == "" {
		if addr, err := freeAddress(demoAddr); err == nil {
			return addr, nil
		}
		return freeAddress("127.0.0.1:0")
	}
	host, _, err := net.SplitHostPort(d.Addr)
	if err != nil {
		return "", wrongUsage("--addr %q is not HOST:PORT, such as %s", d.Addr, demoAddr)
	}
	if !d.Public && !isLoopback(host) {
		return "", wrongUsage("%s can be reached by other machines, and the demo lets anybody in as anyone: say --public if you want that", d.Addr)
	}
	return freeAddress(d.Addr)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// freeAddress finds the port behind :0 and tells whether an address can be listened on.
func freeAddress(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%w; --addr 127.0.0.1:0 takes any free port", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return "", err
	}
	host, _, err := net.SplitHostPort(addr)
	return net.JoinHostPort(host, port), err
}

// folder is where the data is; a fresh one goes at the end.
func (d *demoCmd) folder() (dir string, remove func() error, err error) {
	if d.Dir != "" {
		return d.Dir, func() error { return nil }, os.MkdirAll(d.Dir, 0o700)
	}
	dir, err = os.MkdirTemp("", "vobo-demo-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

func (d *demoCmd) open(ctx context.Context, addr, dir string, outside *outside) (*app, error) {
	people := filepath.Join(dir, "people.yaml")
	if err := writeNew(people, demoPeople); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"VOBO_ENV_ESIGN_URL": outside.url("/esign"), "VOBO_ENV_CORE_URL": outside.url("/core")} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	cfg := settings{
		database: database{DatabaseURL: "sqlite:" + filepath.Join(dir, "vobo.db")}, Addr: addr, People: people,
		SweepEvery: time.Second, WebhookAllow: []string{outside.addr}, Log: "warn",
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	log, err := newLogger(cfg.Log, os.Stderr, isTerminal(os.Stderr))
	if err != nil {
		return nil, err
	}
	return openApp(ctx, cfg, appOptions{demo: true, public: d.Public, definitions: bundledDefinitions()}, log)
}

// bundledDefinitions leaves out the scenarios that come beside them.
func bundledDefinitions() map[string][]byte {
	files := definitions.Bundled()
	maps.DeleteFunc(files, func(name string, _ []byte) bool { return isScenario(name) })
	return files
}

// writeNew writes a file that is not there yet; what somebody changed stays.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// present makes the samples, once, and says where to click.
func (d *demoCmd) present(ctx context.Context, c *console, a *app, dir string) error {
	made := filepath.Join(dir, demoSeeded)
	if !exists(made) {
		if err := seed(ctx, a.service); err != nil {
			return fmt.Errorf("the samples could not be made: %w", err)
		}
		if err := os.WriteFile(made, nil, 0o600); err != nil {
			return err
		}
	}
	key, err := demoAPIKey(ctx, a.store, filepath.Join(dir, demoKey))
	if err != nil {
		return err
	}
	t, err := d.tour(ctx, a)
	if err != nil {
		return err
	}
	t.key, t.dir, t.kept = key, dir, d.Dir != ""
	fmt.Fprint(c.out, t.text(a.cfg.BaseURL))
	return nil
}

// demoAPIKey makes a key for the command line, or reads the one made before.
func demoAPIKey(ctx context.Context, st *store.Store, path string) (string, error) {
	if b, err := os.ReadFile(path); err == nil {
		return strings.TrimSpace(string(b)), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	now, err := st.Now(ctx)
	if err != nil {
		return "", err
	}
	key, row := approval.NewAPIKey("demo", []string{"admin", "operator", "requester", "impersonator"}, now, nil)
	if err := st.CreateKey(ctx, row); err != nil {
		return "", err
	}
	return key, os.WriteFile(path, []byte(key+"\n"), 0o600)
}

// tour is what is said at the start.
type tour struct {
	instances, people, mails int
	more                     bool   // there are more instances than were counted
	link                     string // of a decision that is still open; "" where all are made
	who, title               string
	key, dir                 string
	kept                     bool
}

func (d *demoCmd) tour(ctx context.Context, a *app) (tour, error) {
	var t tour
	people, err := a.service.People(ctx)
	if err != nil {
		return t, err
	}
	names := map[string]string{}
	for _, p := range people {
		names[p.Email] = p.Name
	}
	t.people = len(people)
	mails, err := a.service.Mailbox(ctx, store.Paging{Limit: 500})
	if err != nil {
		return t, err
	}
	t.mails = len(mails.Items)
	// Newest first: the oldest open link is the first sample's. No other is looked at,
	// since looking counts as opening.
	for _, m := range slices.Backward(mails.Items) {
		if strings.HasPrefix(m.Subject, "Approve ") && m.Link != "" && d.stillOpen(ctx, a, m) {
			t.link, t.who, t.title = m.Link, names[m.To], m.Subject
			break
		}
	}
	all, err := a.store.Instances(ctx, store.InstanceFilter{}, store.Paging{Limit: 500})
	t.instances, t.more = len(all.Items), all.Next != ""
	return t, err
}

// stillOpen tells whether a mail's link still decides; looking is what a reader's click does too.
func (d *demoCmd) stillOpen(ctx context.Context, a *app, m approval.MailView) bool {
	_, token, _ := strings.Cut(m.Link, "/a/")
	v, err := a.service.ViewToken(ctx, token, "en")
	return err == nil && v.Closed == nil && v.Instance.Status == fsm.Running
}

// program is how this program was called: from its source, or installed.
func program() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/vobo"
	}
	return "vobo"
}

func (t tour) text(base string) string {
	var b strings.Builder
	count := fmt.Sprint(t.instances)
	if t.more {
		count += "+"
	}
	fmt.Fprintf(&b, "\nVobo is running, with %s instances, %d people and %s.\n\n", count, t.people, plural(t.mails, "mail"))
	n := 1
	line := func(what, link string) {
		fmt.Fprintf(&b, "  %d. %s\n     %s\n\n", n, what, link)
		n++
	}
	if t.link != "" {
		line(fmt.Sprintf("Decide, as %s would from the mail %q:", t.who, plain(t.title)), t.link)
	}
	line("Pick a person, and see what waits for them:", base+"/login?next="+url.QueryEscape("/inbox"))
	line("Read the mails that were sent:", base+"/dev/mail")
	fmt.Fprintf(&b, "The command line works too, in another terminal:\n     export VOBO_URL=%s VOBO_API_KEY=%s\n     %s instances list\n\n", base, t.key, program())
	fmt.Fprintf(&b, "API reference: %s/docs\n", base)
	if t.kept {
		fmt.Fprintf(&b, "The data stays in %s. Ctrl-C stops it.\n", t.dir)
	} else {
		fmt.Fprintf(&b, "Ctrl-C stops it and removes its data; --dir FOLDER keeps them.\n")
	}
	return b.String()
}
