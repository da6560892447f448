package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/smtp"
	"net/url"
	"strings"
	"time"

	"vobo/internal/callbacks"
	"vobo/internal/definitions"
	"vobo/internal/deliver"
	"vobo/internal/store"
)

const doctorPatience = 5 * time.Second // for the mail server and the service

// doctorCmd checks an installation from outside. It changes nothing.
type doctorCmd struct {
	settings
	JSON bool `help:"Print JSON."`
}

// finding is what the doctor says of one thing.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok | note | failed
	Detail string `json:"detail"`
}

// doctor collects findings.
type doctor struct {
	cfg      settings
	findings []finding
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "ok", fmt.Sprintf(format, args...)})
}

func (d *doctor) note(check, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "note", fmt.Sprintf(format, args...)})
}

func (d *doctor) failed(check string, err error) {
	d.findings = append(d.findings, finding{check, "failed", describe(err)})
}

// Run implements the command.
func (k *doctorCmd) Run(c *console) error {
	d := &doctor{cfg: k.settings}
	if err := d.cfg.check(); err != nil {
		d.failed("settings", err)
	} else {
		d.ok("settings", "complete")
	}
	d.database(c.ctx)
	d.files()
	d.outward(c.ctx)
	d.mail(c.ctx)
	d.service(c.ctx)
	bad := false
	rows := [][]string{{"CHECK", "STATE", "DETAIL"}}
	for _, f := range d.findings {
		bad = bad || f.State == "failed"
		rows = append(rows, []string{f.Check, f.State, f.Detail})
	}
	var err error
	if k.JSON {
		err = printJSON(c, d.findings)
	} else {
		err = printTable(c, rows)
	}
	if err == nil && bad {
		return errQuiet
	}
	return err
}

func (d *doctor) database(ctx context.Context) {
	if path, ok := store.SQLitePath(d.cfg.DatabaseURL); ok && !exists(path) {
		d.note("database", "%s is made at the first start", path)
		d.keyring(nil)
		return
	}
	st, err := store.Open(ctx, store.Config{URL: d.cfg.DatabaseURL, DirectURL: d.cfg.DirectURL})
	if err != nil {
		d.failed("database", err)
		return
	}
	defer func() {
		if err := st.Close(); err != nil {
			d.failed("database", err)
		}
	}()
	now, err := st.Now(ctx)
	if err != nil {
		d.failed("database", err)
		return
	}
	d.ok("database", "%s answers", st.Dialect())
	if off := time.Since(now).Abs(); off > time.Second {
		d.note("clock", "this machine and the database differ by %s; the database's counts", off.Round(time.Millisecond))
	}
	warnings, err := st.Warnings(ctx)
	if err != nil {
		d.failed("database", err)
	}
	for _, w := range warnings {
		d.note("database", "%s", w)
	}
	if !d.schema(ctx, st) {
		return
	}
	d.deliveries(ctx, st)
	known, err := st.Ring(ctx)
	if err != nil {
		d.failed("key ring", err)
		return
	}
	d.keyring(known)
}

// schema tells whether the rest of the database can be read.
func (d *doctor) schema(ctx context.Context, st *store.Store) bool {
	all, err := st.MigrationStatus(ctx)
	if err != nil {
		d.failed("schema", err)
		return false
	}
	waiting := 0
	for _, m := range all {
		if m.AppliedAt == nil {
			waiting++
		}
	}
	if waiting > 0 {
		d.note("schema", "%s to come; `vobo migrate` or the next `vobo serve` applies them", plural(waiting, "migration"))
		return false
	}
	if err := st.Ping(ctx); err != nil {
		d.failed("schema", err)
		return false
	}
	d.ok("schema", "up to date, %s", plural(len(all), "migration"))
	return true
}

// keyring compares the ring with what the database knows of it; it makes none.
func (d *doctor) keyring(known []store.RingFingerprint) {
	source, err := d.cfg.ringSource()
	if err != nil {
		return // said with the settings
	}
	ring, err := callbacks.LoadKeyRing(source)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(known) == 0:
		d.note("key ring", "%s is made at the first start", source)
		return
	case errors.Is(err, fs.ErrNotExist):
		d.failed("key ring", fmt.Errorf("%s is missing, and the database knows a ring: bring the file back from the backup", source))
		return
	case err != nil:
		d.failed("key ring", err)
		return
	}
	have := map[string][]byte{}
	for _, f := range ring.Fingerprints() {
		have[f.Kid] = f.SHA256[:]
	}
	for _, k := range known {
		if hash, ok := have[k.Kid]; !ok || !bytes.Equal(hash, k.SHA256) {
			d.failed("key ring", fmt.Errorf("the database knows the key %s, and this ring does not: VOBO_KEYRING names another ring", k.Kid))
			return
		}
	}
	d.ok("key ring", "%s, known to the database: %d", plural(len(have), "key"), len(known))
}

func (d *doctor) files() {
	if d.cfg.People != "" {
		if people, err := readPeople(d.cfg.People); err != nil {
			d.failed("people", err)
		} else {
			d.ok("people", "%s: %d", d.cfg.People, len(people))
		}
	}
	if len(d.cfg.Definitions) == 0 {
		return
	}
	files, err := definitionFiles(d.cfg.Definitions)
	if err != nil {
		d.failed("definitions", err)
		return
	}
	secrets, unread := d.cfg.loadSecrets() // an unreadable file is said where it is looked at
	for _, f := range files {
		parsed, problems := definitions.Parse(f.name, f.source)
		if parsed != nil && unread == nil {
			problems = append(problems, parsed.CheckSecrets(secrets.Names())...)
		}
		if problems.Refuses() {
			d.failed("definitions", fmt.Errorf("%s would be refused: %s", f.name, firstRefusal(problems)))
			return
		}
	}
	d.ok("definitions", "%s can be published", plural(len(files), "file"))
}

// firstRefusal is the first problem for which a definition is refused.
func firstRefusal(all definitions.Problems) string {
	for _, p := range all {
		if p.Severity != definitions.Warning {
			return fmt.Sprintf("line %d: %s", p.Line, sentence(p.Detail))
		}
	}
	return ""
}

func (d *doctor) mail(ctx context.Context) {
	if d.cfg.SMTPURL == "" {
		d.note("mail", "VOBO_SMTP_URL is not set: mails stay in the page /dev/mail")
		return
	}
	if _, err := deliver.NewMailer(d.cfg.SMTPURL, d.cfg.MailFrom); err != nil {
		d.failed("mail", err)
		return
	}
	u, err := url.Parse(d.cfg.SMTPURL)
	if err != nil {
		d.failed("mail", errors.New("VOBO_SMTP_URL cannot be read"))
		return
	}
	if err := greet(ctx, u); err != nil {
		d.failed("mail", fmt.Errorf("%s: %w", u.Host, err))
		return
	}
	d.ok("mail", "%s answers and takes the log-in", u.Host)
}

// greet connects as the mailer would, logs in where the URL says as whom, and leaves.
func greet(ctx context.Context, u *url.URL) (err error) {
	mode := u.Query().Get("tls")
	if u.Scheme == "smtps" {
		mode = "implicit"
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"implicit": "465", "none": "25"}[mode]
	}
	if port == "" {
		port = "587"
	}
	secure := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	dialer := &net.Dialer{Timeout: doctorPatience}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(doctorPatience)); err != nil {
		return errors.Join(err, conn.Close())
	}
	if mode == "implicit" {
		conn = tls.Client(conn, secure)
	}
	mta, err := smtp.NewClient(conn, u.Hostname())
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() { err = errors.Join(err, mta.Close()) }()
	if mode == "" || mode == "starttls" {
		if err := mta.StartTLS(secure); err != nil {
			return err
		}
	}
	if u.User == nil {
		return mta.Noop()
	}
	password, _ := u.User.Password()
	return mta.Auth(smtp.PlainAuth("", u.User.Username(), password, u.Hostname()))
}

// service asks whether somebody answers at the base URL.
func (d *doctor) service(ctx context.Context) {
	if d.cfg.BaseURL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.cfg.BaseURL+"/readyz", nil)
	if err != nil {
		d.failed("service", err)
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.note("service", "nothing answers at %s: not started yet?", d.cfg.BaseURL)
		return
	}
	if err := res.Body.Close(); err != nil {
		d.failed("service", err)
		return
	}
	if res.StatusCode != http.StatusOK {
		d.failed("service", fmt.Errorf("%s/readyz answers %s; its log says why", d.cfg.BaseURL, strings.ToLower(res.Status)))
		return
	}
	d.ok("service", "%s is ready", d.cfg.BaseURL)
}
