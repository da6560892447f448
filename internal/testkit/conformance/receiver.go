// Package conformance is what anybody's receiver of Standard Webhooks must do, as tests
// over HTTP.
package conformance

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"vobo/internal/testkit"
)

// Receiver is the receiver under test, as its sender knows it.
type Receiver struct {
	URL     string
	Secrets []string              // whsec_…, that it was given: the new one and the old one
	Foreign string                // a secret of the same form that it was not given
	Handled func(id string) int   // how often it did the work of a webhook-id; nil: nobody can tell
	Client  *http.Client          // nil: one of its own
	Clock   func() time.Time      // the receiver's, as near as can be
	Body    func(n int) []byte    // a body that it takes, a different one for each n; nil: any JSON
	Refused func(status int) bool // nil: 400, 401 and 403 are refusals
}

// request is one call and how it differs from a good one.
type request struct {
	id, body  string
	secret    string
	at        time.Time
	timestamp string // "": of at
	signature string // "": of the secret
	sent      string // body on the wire; "": the one that was signed
}

// demand is one thing that a receiver must do; what it does not is told by wrong.
type demand struct {
	name  string
	check func(*check)
}

var demands = []demand{
	{"each of its secrets is enough", (*check).eachSecret},
	{"two signatures while a secret is exchanged", (*check).twoSignatures},
	{"a wrong signature is refused", (*check).wrongSignature},
	{"a time that is too old or ahead is refused", (*check).wrongTime},
	{"the bytes are signed, not what they mean", (*check).rawBytes},
	{"an id that comes again is handled once", (*check).sameID},
}

// check is a receiver under one demand.
type check struct {
	Receiver
	t     *testing.T
	wrong func(format string, args ...any)
}

// Test runs every demand as a subtest.
func (r Receiver) Test(t *testing.T) {
	t.Helper()
	r = r.complete()
	for _, d := range demands {
		t.Run(d.name, func(t *testing.T) { d.check(&check{r, t, t.Errorf}) })
	}
}

// complete fills what is usual.
func (r Receiver) complete() Receiver {
	if r.Client == nil {
		r.Client = &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{Proxy: nil}}
	}
	if r.Refused == nil {
		r.Refused = func(status int) bool {
			return status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
		}
	}
	if r.Body == nil {
		r.Body = func(n int) []byte { return fmt.Appendf(nil, `{"n":%d}`, n) }
	}
	return r
}

// begun sets the ids of this run apart from those of another.
var begun = rand.Text()

func id(what string) string { return "msg_" + begun + "_" + what }

func (r *check) good(what string, n int) request {
	return request{id: id(what), body: string(r.Body(n)), secret: r.Secrets[0], at: r.Clock()}
}

// send sends a request and returns its status.
func (r *check) send(q request) int {
	r.t.Helper()
	if q.timestamp == "" {
		q.timestamp = strconv.FormatInt(q.at.Unix(), 10)
	}
	if q.signature == "" {
		q.signature = sign(r.t, q)
	}
	if q.sent == "" {
		q.sent = q.body
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.URL, bytes.NewReader([]byte(q.sent)))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header["webhook-id"] = []string{q.id} // in small letters, as many senders write them
	req.Header["webhook-timestamp"] = []string{q.timestamp}
	req.Header["webhook-signature"] = []string{q.signature}
	got, err := r.Client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := got.Body.Close(); err != nil {
			r.wrong("%v", err)
		}
	}()
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		r.t.Fatal(err)
	}
	return got.StatusCode
}

// sign is the signature that the reference library makes.
func sign(t *testing.T, q request) string {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(q.secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := hook.Sign(q.id, q.at, []byte(q.body))
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func (r *check) wantTaken(what string, q request) {
	r.t.Helper()
	if status := r.send(q); status < 200 || status > 299 {
		r.wrong("%s: answered %d, want 2xx", what, status)
		return
	}
	r.wantHandled(what, q.id, 1)
}

func (r *check) wantRefused(what string, q request) {
	r.t.Helper()
	if status := r.send(q); !r.Refused(status) {
		r.wrong("%s: answered %d, want a refusal", what, status)
	}
	r.wantHandled(what, q.id, 0)
}

// wantHandled waits for work that is to be done, since it may be done after the answer.
func (r *check) wantHandled(what, id string, n int) {
	r.t.Helper()
	if r.Handled == nil {
		return
	}
	if n > 0 {
		testkit.WaitFor(r.t, "the work of "+what, func() bool { return r.Handled(id) >= n })
	}
	if got := r.Handled(id); got != n {
		r.wrong("%s: handled %d times, want %d", what, got, n)
	}
}

func (r *check) eachSecret() {
	for n, secret := range r.Secrets {
		q := r.good(fmt.Sprintf("secret-%d", n), n)
		q.secret = secret
		r.wantTaken(fmt.Sprintf("secret %d", n+1), q)
	}
}

func (r *check) twoSignatures() {
	q := r.good("two", 1)
	mine, other := sign(r.t, q), q
	other.secret = r.Foreign
	q.signature = sign(r.t, other) + " " + mine
	r.wantTaken("the second of two signatures", q)
	q = r.good("versions", 2)
	q.signature = "v1a,bm90IG91cnM= v2,x " + sign(r.t, q)
	r.wantTaken("beside versions that it does not know", q)
}

func (r *check) wrongSignature() {
	q := r.good("foreign", 1)
	q.secret = r.Foreign
	r.wantRefused("a foreign secret", q)
	q = r.good("wrong", 1)
	good, other := sign(r.t, q), sign(r.t, r.good("other", 1))
	bare := strings.TrimPrefix(good, "v1,")
	for name, signature := range map[string]string{
		"of another id": other, "no version": bare, "another version": "v2," + bare, "a version that is for other keys": "v1a," + bare,
		"no base64": "v1,###", "empty": "v1,", "a space": " ", "cut": good[:len(good)-4], "a comma too many": "v1,," + bare, "longer": good + "AA",
	} {
		q.signature = signature
		r.wantRefused("a signature: "+name, q)
	}
}

func (r *check) wrongTime() {
	for name, shift := range map[string]time.Duration{"4 minutes ago": -4 * time.Minute, "5 seconds ahead": 5 * time.Second} {
		q := r.good("time "+strings.ReplaceAll(name, " ", "-"), 1)
		q.id = strings.ReplaceAll(q.id, " ", "-")
		q.at = q.at.Add(shift)
		r.wantTaken(name, q)
	}
	for name, shift := range map[string]time.Duration{
		"10 minutes ago": -10 * time.Minute, "a day ago": -24 * time.Hour, "10 minutes ahead": 10 * time.Minute, "a day ahead": 24 * time.Hour,
	} {
		q := r.good("untimely", 1)
		q.at = q.at.Add(shift)
		r.wantRefused(name, q)
	}
	now := r.Clock()
	for name, timestamp := range map[string]string{
		"milliseconds": strconv.FormatInt(now.UnixMilli(), 10), "negative": strconv.FormatInt(-now.Unix(), 10), "no number": "now",
		"twenty digits": strings.Repeat("9", 20), "a space": " ", "another time than was signed": strconv.FormatInt(now.Unix()+1, 10),
	} {
		q := r.good("untimely", 1)
		q.timestamp = timestamp
		r.wantRefused("a timestamp: "+name, q)
	}
}

// rawBytes sends bodies that change when they are read as JSON and written again.
// Field report B07.
func (r *check) rawBytes() {
	for name, body := range map[string]string{
		"spaces and newlines": "{ \"a\" :\t1 ,\r\n \"b\": [ 1, 2 ] }", "keys out of order": `{"z":1,"a":2}`,
		"upper-case escapes": `{"name":"\u00C9\u00E9 \u2028"}`, "raw signs": `{"name":"Ana & <Co> > all"}`,
		"an emoji": `{"name":"🙂"}`, "numbers": `{"a":1.0,"b":1e2,"c":0.10,"d":12345678901234567890}`,
		"a key twice": `{"a":1,"a":2}`, "a newline at the end": "{\"a\":1}\n",
	} {
		q := r.good("raw-"+strings.ReplaceAll(name, " ", "-"), 1)
		q.body = body
		r.wantTaken(name, q)
		for _, at := range []int{0, len(body) / 2, len(body) - 1} {
			changed := []byte(body)
			changed[at] ^= 1
			q := r.good("raw-changed", 1)
			q.body, q.sent = body, string(changed)
			r.wantRefused(fmt.Sprintf("%s, the byte %d changed", name, at), q)
		}
		q = r.good("raw-longer", 1)
		q.body, q.sent = body, body+" "
		r.wantRefused(name+", a space more", q)
	}
}

func (r *check) sameID() {
	q := r.good("again", 1)
	first := r.send(q)
	for range 4 {
		q.at = q.at.Add(time.Second) // a later attempt is signed anew
		if again := r.send(q); again != first || again < 200 || again > 299 {
			r.wrong("first answered %d, then %d", first, again)
		}
	}
	r.wantTaken("another id", r.good("again-other", 1))
	r.wantHandled("the same id", q.id, 1)
}
