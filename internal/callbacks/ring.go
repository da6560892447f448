// Package callbacks mints and verifies the signed one-time tokens behind links and
// system callbacks, with their key ring, and signs and verifies webhooks, with the file
// of secrets. It is pure: no clock, no database, and randomness is handed in.
//
// A token's secret is never stored and can still be rebuilt: the database keeps a
// nonce and a key's id, the ring keeps the key, and jti = HMAC-SHA256(key, nonce).
// Neither of the two alone makes or finds a token.
//
// A Ring is not changed while it is shared: the server reads a ring, the command
// line changes a ring of its own and saves it, a Holder swaps whole rings.
package callbacks

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"io"
	"slices"
	"strings"

	"vobo/internal/fault"
)

// Status is where a key stands in its life: active → retired → destroyed.
type Status string

// The statuses of a key.
const (
	Active    Status = "active"    // issues new tokens; exactly one key of a ring is active
	Retired   Status = "retired"   // verifies and rebuilds what it issued; issues nothing new
	Destroyed Status = "destroyed" // its bytes are gone; every token under it is refused
)

// KeySize is the length in bytes of a key that this package makes and the least that
// it accepts (RFC 7518 section 3.2: at least the size of the hash).
const KeySize = 32

// maxKeys bounds a ring: far above any sane number of rotations.
const maxKeys = 256

// Fingerprint is what the database may remember of a key.
type Fingerprint struct {
	Kid    string
	Status Status
	SHA256 [32]byte // of the key's bytes
}

// key is one entry of the ring; secret is nil once destroyed.
type key struct {
	kid    string
	status Status
	secret []byte
	sum    [32]byte
	header string // base64url of the JOSE header of its tokens
}

// Ring is an ordered set of keys, the oldest first.
type Ring struct {
	keys     []*key
	byHeader map[string]*key // the keys that verify, by the header segment of their tokens
}

// NewKeyRing returns a ring of one new, active key read from rand.
func NewKeyRing(rand io.Reader) (*Ring, error) {
	r := &Ring{byHeader: map[string]*key{}}
	if err := r.Rotate(rand); err != nil {
		return nil, err
	}
	return r, nil
}

// Fingerprints lists the keys, the oldest first, destroyed ones included.
func (r *Ring) Fingerprints() []Fingerprint {
	out := make([]Fingerprint, 0, len(r.keys))
	for _, k := range r.keys {
		out = append(out, Fingerprint{Kid: k.kid, Status: k.status, SHA256: k.sum})
	}
	return out
}

// Active returns the id of the key that issues new tokens.
func (r *Ring) Active() string { return r.active().kid }

func (r *Ring) active() *key {
	for _, k := range slices.Backward(r.keys) {
		if k.status == Active {
			return k
		}
	}
	return nil // unreachable: NewKeyRing and ParseKeyRing refuse a ring without one
}

// Rotate adds a new active key read from rand and retires the one before it.
// Links under the retired key go on working until it is destroyed.
func (r *Ring) Rotate(rand io.Reader) error {
	if len(r.keys) >= maxKeys {
		return fault.New(fault.LimitExceeded, "The key ring holds %d keys, the most it may.", maxKeys)
	}
	secret := make([]byte, KeySize)
	if _, err := io.ReadFull(rand, secret); err != nil {
		return fault.Wrap(err, fault.Unavailable, "No random bytes for a new key.")
	}
	sum := sha256.Sum256(secret)
	k := newKey("k"+hex.EncodeToString(sum[:6]), Active, secret, sum)
	if err := r.admissible(k); err != nil {
		return err
	}
	for _, old := range r.keys {
		if old.status == Active {
			old.status = Retired
		}
	}
	r.add(k)
	return nil
}

// Retire makes sure that kid issues nothing new. The active key is refused with
// fault.Conflict (a ring must be able to issue: rotate first), a destroyed one too;
// an unknown one is fault.NotFound.
func (r *Ring) Retire(kid string) error {
	k, err := r.find(kid)
	if err != nil {
		return err
	}
	switch k.status {
	case Active:
		return fault.New(fault.Conflict, "Key %s is the active one. Rotate first: that retires it.", kid)
	case Destroyed:
		return fault.New(fault.Conflict, "Key %s is destroyed already.", kid)
	}
	return nil
}

// Destroy wipes kid: at once every token under it is refused, and none can be rebuilt.
// The active key is refused with fault.Conflict, an unknown one with fault.NotFound;
// destroying a destroyed key changes nothing.
func (r *Ring) Destroy(kid string) error {
	k, err := r.find(kid)
	if err != nil {
		return err
	}
	if k.status == Active {
		return fault.New(fault.Conflict, "Key %s is the active one. Rotate first, then destroy it.", kid)
	}
	delete(r.byHeader, k.header)
	clear(k.secret)
	k.secret, k.status = nil, Destroyed
	return nil
}

// Knows tells whether a token names a key of this ring that verifies. It does not verify.
func (r *Ring) Knows(token string) bool {
	head, _, _ := strings.Cut(token, ".")
	return r.byHeader[head] != nil
}

func (r *Ring) find(kid string) (*key, error) {
	for _, k := range r.keys {
		if k.kid == kid {
			return k, nil
		}
	}
	return nil, fault.New(fault.NotFound, "The key ring has no key %q. See `vobo keyring list`.", kid)
}

// signing returns the key kid if its bytes are still there.
func (r *Ring) signing(kid string) (*key, error) {
	k, err := r.find(kid)
	if err != nil {
		return nil, err
	}
	if k.status == Destroyed {
		return nil, fault.New(fault.TokenRevoked, "Key %s is destroyed; what it issued cannot be rebuilt. Issue a new link.", kid)
	}
	return k, nil
}

func (r *Ring) admissible(k *key) error {
	for _, other := range r.keys {
		if other.kid == k.kid {
			return fault.New(fault.InvalidInput, "Key %s is in the key ring twice.", k.kid)
		}
		if subtle.ConstantTimeCompare(other.sum[:], k.sum[:]) == 1 {
			return fault.New(fault.InvalidInput, "Keys %s and %s of the key ring are the same.", other.kid, k.kid)
		}
	}
	return nil
}

func (r *Ring) add(k *key) {
	r.keys = append(r.keys, k)
	if k.status != Destroyed {
		r.byHeader[k.header] = k
	}
}

func newKey(kid string, status Status, secret []byte, sum [32]byte) *key {
	header := `{"alg":"HS256","kid":"` + kid + `","typ":"` + tokenType + `"}`
	return &key{
		kid: kid, status: status, secret: secret, sum: sum,
		header: base64.RawURLEncoding.EncodeToString([]byte(header)),
	}
}
