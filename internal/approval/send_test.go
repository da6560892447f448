package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vobo/internal/callbacks"
	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/testkit"
)

func init() {
	samples["secured"] = `
name: secured
version: 1
title: Secured
initial: open
states:
  open:
    owner: [requester]
    enter: [pay]
    deadlines: [{after: P90D, fire: expire}]
    events: {expire: {to: closed, by: [timer]}}
  closed: {final: true}
effects:
  pay:
    webhook: {url: "{{ env.CORE_URL }}/pay", credentials: bank, body: {amount: 7}}
    idempotent: true
    reversible: false
    retry: {attempts: 5, first: PT10S, max: PT10S}
`
	samples["bulk"] = `
name: bulk
version: 1
title: Bulk
initial: open
data:
  type: object
  required: [people]
  properties:
    people: {type: array, items: {type: string}}
    papers: {type: array, items: {type: object}}
states:
  open:
    owner: [requester]
    enter: [tell]
    deadlines: [{after: P90D, fire: expire}]
    events: {expire: {to: closed, by: [timer]}}
  closed: {final: true}
effects:
  tell:
    email: {to: ["{{ data.people }}"], subject: "A letter", body: "Good day.", attachments: [data.papers]}
    reversible: false
    retry: {attempts: 5, first: PT10S, max: PT10S}
`
	samples["bulk-once"] = replaced(replaced(samples["bulk"], "name: bulk", "name: bulk-once"), "reversible: false", "idempotent: false\n    reversible: false")
}

// mailing opens the bundle's service again with a mail server.
func (b *bundle) mailing() *testkit.MailServer {
	b.t.Helper()
	server := testkit.SMTP(b.t)
	mailer, err := deliver.NewMailer(server.URL(), "vobo@example.com")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(mailer.Close)
	b.svc, b.store = b.replica(func(c *Config) { c.Mailer = mailer })
	return server
}

func TestAWebhookProvesItsSenderAndSignsTheBytesOfEachAttempt(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		older, olderKey := webhookSecret()
		newer, newerKey := webhookSecret()
		common, _ := webhookSecret()
		b.secretsFile(fmt.Sprintf("signing: [%s]\ncredentials:\n  bank: {basic: {user: u, password: S3CRET}, signing: [%s, %s]}\n", common, newer, older))
		var log bytes.Buffer
		b.svc, b.store = b.replica(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		b.answer("/pay", testkit.AnswerStatus(http.StatusServiceUnavailable))
		id := b.start(admin, "secured", `{}`).ID
		b.deliver()
		b.answer("/pay", testkit.AnswerJSON(http.StatusOK, `{}`))
		b.pass(time.Minute)
		b.deliver()
		calls := b.hooks.Calls()
		if len(calls) != 2 || b.effect(id, "pay").Status != fsm.EffectSucceeded {
			t.Fatalf("%d calls, %+v", len(calls), b.effect(id, "pay"))
		}
		for i, c := range calls {
			h := c.Header
			if user, password, ok := (&http.Request{Header: h}).BasicAuth(); !ok || user != "u" || password != "S3CRET" {
				t.Errorf("call %d: Authorization %q", i, h.Get("Authorization"))
			}
			for _, key := range [][]byte{olderKey, newerKey} { // both, while they are exchanged
				err := callbacks.VerifyWebhook([][]byte{key}, h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"), c.Body, time.Now().Add(time.Duration(b.shift.Load())*time.Duration(i)))
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
		}
		if !bytes.Equal(calls[0].Body, calls[1].Body) || calls[0].Header.Get("webhook-signature") == calls[1].Header.Get("webhook-signature") {
			t.Error("the bytes changed, or the signature did not")
		}
		if shown := log.String() + string(Render(b.effect(id, "pay"))); strings.Contains(shown, "S3CRET") || strings.Contains(shown, "whsec_") {
			t.Error("a secret is in the log or the effect")
		}
	})
}

func TestAWebhookWithoutItsCredentialsWaitsForThem(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.secretsFile("credentials:\n  bank: {bearer: T0KEN}\n")
		b.need("secured")
		b.secretsFile("credentials:\n  other: {bearer: T0KEN}\n")
		id := b.start(admin, "secured", `{}`).ID
		b.deliver()
		e := b.effect(id, "pay")
		if e.Status != fsm.EffectRetrying || len(b.hooks.Calls()) != 0 || !strings.Contains(e.Attempts[0].Detail, `no credentials "bank"`) {
			t.Fatalf("%s after %+v and %d calls", e.Status, e.Attempts, len(b.hooks.Calls()))
		}
		b.secretsFile("credentials:\n  bank: {header: {name: X-Api-Key, value: k7}}\n")
		b.pass(time.Minute)
		b.deliver()
		if calls := b.hooks.Calls(); len(calls) != 1 || calls[0].Header.Get("X-Api-Key") != "k7" {
			t.Errorf("%d calls", len(calls))
		}
	})
}

func TestAWebhookMayProveItsSenderByACertificate(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		receiver := testkit.WebhookMTLS(t)
		dir := t.TempDir()
		cert, key := receiver.ClientCert()
		for name, from := range map[string]string{"cert.pem": cert, "key.pem": key, "ca.pem": receiver.CertFile()} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, "secrets.yaml")
		if err := os.WriteFile(path, []byte("credentials:\n  bank: {mtls: {certificate: cert.pem, key: key.pem, ca: ca.pem}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		secrets, err := callbacks.LoadSecrets(path)
		if err != nil {
			t.Fatal(err)
		}
		b.secrets.Set(secrets)
		b.svc, b.store = b.replica(func(c *Config) {
			c.Vars = map[string]string{"ESIGN_URL": receiver.URL, "CORE_URL": receiver.URL}
		})
		id := b.start(admin, "secured", `{}`).ID
		b.deliver()
		if e := b.effect(id, "pay"); e.Status != fsm.EffectSucceeded || len(receiver.Calls()) != 1 {
			t.Errorf("%s after %+v", e.Status, e.Attempts)
		}
	})
}

func TestAttachmentsGoOutOnlyAsTheyWereReferredTo(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := b.mailing()
		content := "the contract, as signed"
		b.answer("/c.pdf", testkit.AnswerText(http.StatusOK, content))
		b.answer("/busy.pdf", testkit.AnswerStatus(http.StatusServiceUnavailable))
		paper := func(uri, content string, size int) string {
			sum := sha256.Sum256([]byte(content))
			return fmt.Sprintf(`{"name":"c.pdf","media_type":"application/pdf","size":%d,"sha256":"%s","uri":"%s"}`, size, hex.EncodeToString(sum[:]), uri)
		}
		here := b.hooks.URL + "/c.pdf"
		for what, c := range map[string]struct {
			paper  string
			status fsm.EffectStatus
			says   string
		}{
			"right":          {paper(here, content, len(content)), fsm.EffectSucceeded, ""},
			"other bytes":    {paper(here, "another contract, as it", len(content)), fsm.EffectDead, "SHA-256"},
			"shorter":        {paper(here, content, len(content)+1), fsm.EffectDead, "size"},
			"longer":         {paper(here, content, 3), fsm.EffectDead, "could not be fetched"},
			"private":        {paper("http://10.0.0.1/c.pdf", content, len(content)), fsm.EffectDead, "could not be fetched"},
			"another scheme": {paper("s3://bucket/c.pdf", content, len(content)), fsm.EffectDead, "http and https"},
			"busy":           {paper(b.hooks.URL+"/busy.pdf", content, len(content)), fsm.EffectRetrying, "503"},
		} {
			to := strings.ReplaceAll(what, " ", "-") + "@example.org"
			id := b.start(admin, "bulk", fmt.Sprintf(`{"people":["%s"],"papers":[%s]}`, to, c.paper)).ID
			b.deliver()
			e := b.effect(id, "tell")
			if e.Status != c.status || !strings.Contains(e.Attempts[0].Detail, c.says) {
				t.Errorf("%s: %s, %q", what, e.Status, e.Attempts[0].Detail)
			}
			if got := server.MailsTo(to); (len(got) == 1) != (c.status == fsm.EffectSucceeded) {
				t.Errorf("%s: %d mails", what, len(got))
			}
		}
		raw := string(server.MailsTo("right@example.org")[0].Raw)
		if !strings.Contains(raw, "c.pdf") || !strings.Contains(raw, "dGhlIGNvbnRyYWN0LCBhcyBzaWduZWQ") {
			t.Errorf("the mail has no such attachment:\n%s", raw)
		}
	})
}

// What cannot go with a mail is not fetched at all.
func TestDocumentsThatCannotBeAttachedAreNotFetched(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.mailing()
		paper := func(size int) string {
			return fmt.Sprintf(`{"name":"c.pdf","media_type":"application/pdf","size":%d,"sha256":"%064d","uri":"%s/c.pdf"}`, size, 0, b.hooks.URL)
		}
		for what, c := range map[string]struct{ papers, says string }{
			"many":  {strings.Repeat(paper(1)+",", maxAttached) + paper(1), "at most 100"},
			"large": {paper(deliver.MaxAttachments) + "," + paper(1), "larger than 25 MiB"},
			"huge":  {paper(1<<62) + "," + paper(1<<62), "larger than 25 MiB"},
		} {
			id := b.start(admin, "bulk", fmt.Sprintf(`{"people":["%s@example.org"],"papers":[%s]}`, what, c.papers)).ID
			b.deliver()
			if e := b.effect(id, "tell"); e.Status != fsm.EffectDead || !strings.Contains(e.Reason, c.says) {
				t.Errorf("%s: %s, %q", what, e.Status, e.Reason)
			}
		}
		if n := len(b.hooks.Calls()); n != 0 {
			t.Errorf("%d documents were fetched", n)
		}
	})
	if why := unfit([]fsm.FrozenAttachment{{Name: "c.pdf", Size: -1}}); !strings.Contains(why, "its size is -1") {
		t.Errorf("a negative size: %q", why)
	}
}
