package callbacks

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/golang-jwt/jwt/v5"
)

// The fixed text around the values of a token's claims, in their one order.
const (
	claimIss = `{"iss":"` + issuer + `","aud":`
	claimIat = `,"iat":`
	claimExp = `,"exp":`
	claimJti = `,"jti":"`
	claimIid = `","iid":"`
	claimInc = `","inc":`
)

var errShape = errors.New("callbacks: not the claims of a token of ours")

// claimSet reads claims in the canonical form only: what encoding/json forgives
// (members twice, in other case, unknown, null; numbers as 1.0 or 1e9) is refused.
type claimSet struct {
	Claims
	size int // bytes read
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *claimSet) UnmarshalJSON(b []byte) error {
	c.size = len(b)
	s := scanner{rest: b}
	s.literal(claimIss)
	c.Audience = s.audience()
	s.literal(claimIat)
	c.IssuedAt = s.integer()
	s.literal(claimExp)
	c.Expires = s.integer()
	s.literal(claimJti)
	jti := s.base64Bytes()
	s.literal(claimIid)
	c.InstanceID = s.instanceID()
	s.literal(claimInc)
	c.Incarnation = s.integer()
	s.literal("}")
	if s.failed || len(s.rest) != 0 || c.Expires != c.IssuedAt+FarCap || c.Expires > maxUnix {
		return errShape
	}
	c.JTIHash = sha256.Sum256(jti[:])
	return nil
}

// scanner consumes rest from the left; after a failure it consumes nothing.
type scanner struct {
	rest   []byte
	failed bool
}

func (s *scanner) literal(text string) {
	rest, ok := bytes.CutPrefix(s.rest, []byte(text))
	if s.failed = s.failed || !ok; !s.failed {
		s.rest = rest
	}
}

// take consumes up to the first byte that stop accepts.
func (s *scanner) take(stop func(byte) bool) []byte {
	if s.failed {
		return nil
	}
	n := 0
	for n < len(s.rest) && !stop(s.rest[n]) {
		n++
	}
	word := s.rest[:n]
	s.rest = s.rest[n:]
	return word
}

func (s *scanner) integer() int64 {
	digits := s.take(func(c byte) bool { return c < '0' || c > '9' })
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		s.failed = true
	}
	return n
}

func (s *scanner) base64Bytes() (out [32]byte) {
	text := s.take(func(c byte) bool { return c == '"' })
	if len(text) != base64.RawURLEncoding.EncodedLen(len(out)) {
		s.failed = true
		return out
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(out[:], text); err != nil {
		s.failed = true
	}
	return out
}

func (s *scanner) instanceID() string {
	id := string(s.take(func(c byte) bool { return c == '"' }))
	s.failed = s.failed || !validInstanceID(id)
	return id
}

// audience reads a string, or an array that names exactly one audience of ours.
func (s *scanner) audience() Audience {
	if !s.failed && len(s.rest) > 0 && s.rest[0] == '[' {
		array := s.take(func(c byte) bool { return c == ']' })
		s.literal("]")
		return s.audienceOf(append(array[:len(array):len(array)], ']'))
	}
	s.literal(`"`)
	one := string(s.take(func(c byte) bool { return c == '"' }))
	s.literal(`"`)
	s.failed = s.failed || !knownAudience(one)
	return Audience(one)
}

func (s *scanner) audienceOf(array []byte) Audience {
	var all []string
	if s.failed || json.Unmarshal(array, &all) != nil {
		s.failed = true
		return ""
	}
	var ours []Audience
	for _, a := range all {
		if knownAudience(a) {
			ours = append(ours, Audience(a))
		}
	}
	if len(ours) != 1 {
		s.failed = true
		return ""
	}
	return ours[0]
}

// The parser checks no claims: time and audience are checked elsewhere. These methods
// only make a claimSet a jwt.Claims.

// GetExpirationTime implements jwt.Claims.
func (c *claimSet) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuedAt implements jwt.Claims.
func (c *claimSet) GetIssuedAt() (*jwt.NumericDate, error) { return nil, nil }

// GetNotBefore implements jwt.Claims.
func (c *claimSet) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuer implements jwt.Claims.
func (c *claimSet) GetIssuer() (string, error) { return issuer, nil }

// GetSubject implements jwt.Claims.
func (c *claimSet) GetSubject() (string, error) { return "", nil }

// GetAudience implements jwt.Claims.
func (c *claimSet) GetAudience() (jwt.ClaimStrings, error) {
	return jwt.ClaimStrings{string(c.Audience)}, nil
}
