package conformance

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func testSecret(n byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
}

// flaw is what is wrong with a receiver; the zero one is right.
type flaw struct {
	oneSecret, oneSignature, anySignature, unversioned bool
	anyTime, noFuture, wideFuture                      bool
	reserialised, trimmed, twice, refusesAgain         bool
}

// double is a receiver with a flaw.
type double struct {
	flaw
	mu   sync.Mutex
	seen map[string]int
}

func (d *double) handled(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[id]
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	sent, errAt := strconv.ParseInt(at, 10, 64)
	if err != nil || errAt != nil || !d.timely(sent) || !d.fits(id+"."+at+"."+d.read(body), r.Header.Get("webhook-signature")) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[id] > 0 && d.refusesAgain {
		w.WriteHeader(http.StatusConflict)
		return
	}
	if d.seen[id] == 0 || d.twice {
		d.seen[id]++
	}
	w.WriteHeader(http.StatusNoContent)
}

func (d *double) timely(sent int64) bool {
	ahead := time.Until(time.Unix(sent, 0))
	switch {
	case d.anyTime:
		return true
	case d.noFuture && ahead > 0, !d.wideFuture && ahead > 5*time.Minute:
		return false
	}
	return ahead >= -5*time.Minute
}

func (d *double) read(body []byte) string {
	var tree any
	switch {
	case d.trimmed:
		return strings.TrimSpace(string(body))
	case d.reserialised && json.Unmarshal(body, &tree) == nil:
		if again, err := json.Marshal(tree); err == nil {
			return string(again)
		}
	}
	return string(body)
}

func (d *double) fits(text, signatures string) bool {
	offered := strings.Fields(signatures)
	if d.oneSignature && len(offered) > 1 {
		offered = offered[:1]
	}
	for n, key := range [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, one := range offered {
			if d.anySignature || one == want || d.unversioned && afterComma(one) == afterComma(want) {
				return !d.oneSecret || n == 0
			}
		}
	}
	return false
}

func afterComma(signature string) string { return signature[strings.LastIndex(signature, ",")+1:] }

// complaints runs every demand against a receiver and returns the names of those that it
// does not meet.
func complaints(t *testing.T, with flaw) (unmet []string) {
	t.Helper()
	d := &double{flaw: with, seen: map[string]int{}}
	server := httptest.NewServer(d)
	defer server.Close()
	r := Receiver{URL: server.URL, Secrets: []string{testSecret(1), testSecret(2)}, Foreign: testSecret(9), Clock: time.Now, Handled: d.handled}.complete()
	for _, demand := range demands {
		var wrong []string
		demand.check(&check{r, t, func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }})
		if len(wrong) > 0 {
			unmet = append(unmet, demand.name)
		}
	}
	return unmet
}

// A right receiver meets every demand; each usual mistake is found, by the demand that is
// about it.
func TestTheSuiteFindsWhatReceiversDoWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flaw
		demand string
	}{
		"nothing":                               {},
		"it knows one secret only":              {flaw{oneSecret: true}, "each of its secrets is enough"},
		"it reads the first signature only":     {flaw{oneSignature: true}, "two signatures while a secret is exchanged"},
		"it takes any signature":                {flaw{anySignature: true}, "a wrong signature is refused"},
		"it ignores the version of a signature": {flaw{unversioned: true}, "a wrong signature is refused"},
		"it takes any time":                     {flaw{anyTime: true}, "a time that is too old or ahead is refused"},
		"it takes no clock but its own":         {flaw{noFuture: true}, "a time that is too old or ahead is refused"},
		"it takes any time ahead":               {flaw{wideFuture: true}, "a time that is too old or ahead is refused"},
		"it signs what it read":                 {flaw{reserialised: true}, "the bytes are signed, not what they mean"},
		"it trims the body":                     {flaw{trimmed: true}, "the bytes are signed, not what they mean"},
		"it handles what comes again":           {flaw{twice: true}, "an id that comes again is handled once"},
		"it refuses what comes again":           {flaw{refusesAgain: true}, "an id that comes again is handled once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unmet := strings.Join(complaints(t, c.flaw), "; ")
			if c.demand == "" && unmet != "" || !strings.Contains(unmet, c.demand) {
				t.Errorf("not met: %q, want %q", unmet, c.demand)
			}
		})
	}
}
