package callbacks

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Secrets is what the file of VOBO_WEBHOOK_SECRETS holds: how webhooks out are signed
// and prove who sends them, and how webhook sources sign. Its zero value holds nothing.
// It is not changed once it is loaded, and safe for concurrent use.
type Secrets struct {
	signing     []signingKey
	credentials map[string]*Credential
	sources     map[string]*Source
}

// Credential proves to a receiver who calls. Its fields are secret.
type Credential struct {
	Header      [2]string        // name and value; bearer and basic are Authorization; an empty name: none
	Certificate *tls.Certificate // mTLS; nil: none
	RootCAs     *x509.CertPool   // nil: the system's
	ID          string           // changes whenever the certificate or the roots do; "" without both

	signing []signingKey // nil: those of all webhooks
}

// Source is a webhook source: who signs with one of its keys is system:NAME.
type Source struct{ keys []verifyKey }

// Names lists the names of the credentials and of the sources, sorted.
func (s *Secrets) Names() (credentials, sources []string) {
	return slices.Sorted(maps.Keys(s.credentials)), slices.Sorted(maps.Keys(s.sources))
}

// Credential returns the credential of that name, or nil.
func (s *Secrets) Credential(name string) *Credential { return s.credentials[name] }

// Source returns the source of that name, or nil; Verify of a nil source refuses all.
func (s *Secrets) Source(name string) *Source { return s.sources[name] }

// Sign returns the value of webhook-signature for a request that uses the credential:
// one signature per key, in the order of the file, v1 for HMAC and v1a for ed25519. A
// credential without keys of its own, an unknown one and "" sign with those of all
// webhooks. "" where there is no key. The timestamp is that of webhook-timestamp, in
// Unix seconds; body is what goes over the wire, byte for byte.
func (s *Secrets) Sign(credential, id string, timestamp int64, body []byte) string {
	keys := s.signing
	if c := s.credentials[credential]; c != nil && len(c.signing) > 0 {
		keys = c.signing
	}
	stamp := strconv.FormatInt(timestamp, 10)
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.sign(id, stamp, body)
	}
	return strings.Join(all, " ")
}

// Verify checks a call against the headers webhook-id, webhook-timestamp and
// webhook-signature, the raw body and the receiver's clock. One signature of one of the
// source's keys is enough, so that either side can change its key; versions that are
// not known count for nothing. Every failure is fault.Unauthorized with one and the same
// message, also that of a nil source. A replay inside the window passes: the id is the
// idempotency key.
//
// The work is bounded whatever is sent: one HMAC per secret, and at most
// maxPublicChecks checks of ed25519.
func (s *Source) Verify(id, timestamp, signature string, body []byte, now time.Time) error {
	keys := nobodysKeys
	if s != nil {
		keys = s.keys
	}
	if verifies(keys, id, timestamp, signature, body, now) && s != nil {
		return nil
	}
	return unsigned()
}

// nobodysKeys stand for those of an unknown source, which then takes as long to refuse
// as a known one. Nothing passes by them.
var nobodysKeys = []verifyKey{{secret: make([]byte, minWebhookSecret)}}

// SecretsHolder holds the present secrets; a file that changed replaces them while requests run.
type SecretsHolder struct{ present atomic.Pointer[Secrets] }

// Secrets returns the present ones, never nil.
func (h *SecretsHolder) Secrets() *Secrets {
	if h == nil {
		return &Secrets{}
	}
	if s := h.present.Load(); s != nil {
		return s
	}
	return &Secrets{}
}

// Set replaces them.
func (h *SecretsHolder) Set(s *Secrets) { h.present.Store(s) }
