package callbacks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"vobo/internal/fault"
)

// Audience parts the uses of tokens: a token of one is refused where another is asked.
type Audience string

// The audiences.
const (
	AudienceLink     Audience = "vobo:link"     // a person's link: page and API
	AudienceCallback Audience = "vobo:callback" // a system's callback: API only
)

const (
	issuer    = "vobo"
	tokenType = "JWT"

	// MaxTokenLength bounds a token in bytes; a longer one is refused unread.
	MaxTokenLength = 1024

	// FarCap is how many seconds after its making a token's exp lies: ten years. It
	// only satisfies readers that insist on an exp; what ends a token is its wait.
	FarCap = 315_576_000

	// MinNonce and MaxNonce bound a nonce in bytes. A nonce is so short that it can
	// never be the signing input of a token, which the same key signs.
	MinNonce = 16
	MaxNonce = 64

	maxInstanceID = 64
	maxUnix       = 253_402_300_799 // 9999-12-31T23:59:59Z
)

// Claims is what an authentic token says. That it is authentic means only that this
// ring made it: the row found by JTIHash decides what it may still do, and must agree
// with InstanceID, Incarnation and IssuedAt.
type Claims struct {
	Audience    Audience
	InstanceID  string
	JTIHash     [32]byte // SHA-256 of the jti; the row is found by it
	Kid         string
	Incarnation int64 // raised after a restore
	IssuedAt    int64 // Unix seconds
	Expires     int64 // Unix seconds; the far cap, not the deadline
}

// Seal derives what the database keeps of a new token from a fresh nonce: the active
// key's id and SHA-256(jti). The nonce must be random, 16 to 64 bytes, used once.
func (r *Ring) Seal(nonce []byte) (kid string, jtiHash [32]byte, err error) {
	k := r.active()
	jti, err := k.jti(nonce)
	if err != nil {
		return "", [32]byte{}, err
	}
	return k.kid, sha256.Sum256(jti[:]), nil
}

// SealWith derives SHA-256(jti) again for a token issued under kid. An unknown key is
// fault.NotFound, a destroyed one fault.TokenRevoked.
func (r *Ring) SealWith(kid string, nonce []byte) ([32]byte, error) {
	k, err := r.signing(kid)
	if err != nil {
		return [32]byte{}, err
	}
	jti, err := k.jti(nonce)
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(jti[:]), nil
}

func (k *key) jti(nonce []byte) (jti [32]byte, err error) {
	if len(nonce) < MinNonce || len(nonce) > MaxNonce {
		return jti, fault.New(fault.InvalidInput, "A nonce has %d to %d bytes, not %d.", MinNonce, MaxNonce, len(nonce))
	}
	h := hmac.New(sha256.New, k.secret)
	h.Write(nonce)
	h.Sum(jti[:0])
	return jti, nil
}

// Mint signs the token of a row: an RFC 7519 JWT, HS256, with the fixed claims iss,
// aud, iat, exp, jti, iid, inc. The same arguments give the same bytes, for as long as
// the key is not destroyed. It carries no name and no address. Errors: as SealWith;
// fault.InvalidInput for arguments out of range.
func (r *Ring) Mint(kid string, nonce []byte, aud Audience, instanceID string, incarnation, issuedAtUnix int64) (string, error) {
	k, err := r.signing(kid)
	if err != nil {
		return "", err
	}
	jti, err := k.jti(nonce)
	if err != nil {
		return "", err
	}
	if !knownAudience(string(aud)) || !validInstanceID(instanceID) || incarnation < 0 || issuedAtUnix < 0 || issuedAtUnix > maxUnix-FarCap {
		return "", fault.New(fault.InvalidInput, "A token needs a known audience, an instance's id, and an incarnation and a time that are not negative.")
	}
	payload := make([]byte, 0, 256)
	payload = append(payload, claimIss...)
	payload = strconv.AppendQuote(payload, string(aud))
	payload = append(payload, claimIat...)
	payload = strconv.AppendInt(payload, issuedAtUnix, 10)
	payload = append(payload, claimExp...)
	payload = strconv.AppendInt(payload, issuedAtUnix+FarCap, 10)
	payload = append(payload, claimJti...)
	payload = base64.RawURLEncoding.AppendEncode(payload, jti[:])
	payload = append(payload, claimIid...)
	payload = append(payload, instanceID...)
	payload = append(payload, claimInc...)
	payload = strconv.AppendInt(payload, incarnation, 10)
	payload = append(payload, '}')

	token := make([]byte, 0, 512)
	token = append(token, k.header...)
	token = append(token, '.')
	token = base64.RawURLEncoding.AppendEncode(token, payload)
	signature, err := jwt.SigningMethodHS256.Sign(string(token), k.secret)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "The token could not be signed.")
	}
	token = append(token, '.')
	return string(base64.RawURLEncoding.AppendEncode(token, signature)), nil
}

var parser = jwt.NewParser(
	jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
	jwt.WithStrictDecoding(),
	jwt.WithoutClaimsValidation(),
)

var errUnknownKey = errors.New("callbacks: unknown key")

// Verify tells what an authentic token for one of the audiences says. Whatever else it
// is given, of whatever size, is fault.InvalidToken with one and the same message.
//
// A token passes only in the very form that Mint writes (its aud may also be an array
// that holds one audience of ours): the header segment must be the one of a key that
// is not destroyed, so that no alg, typ, jku or crit is ever interpreted; every claim
// must be there once, in order, in canonical JSON. Time is not looked at.
func (r *Ring) Verify(token string, aud ...Audience) (*Claims, error) {
	if c := r.verify(token, aud); c != nil {
		return c, nil
	}
	return nil, invalidToken()
}

func invalidToken() error {
	return fault.New(fault.InvalidToken, "This link is not valid. Use the newest message you got, or open your inbox.")
}

func (r *Ring) verify(token string, aud []Audience) *Claims {
	if len(token) > MaxTokenLength || !isTokenText(token) {
		return nil
	}
	head, rest, _ := strings.Cut(token, ".")
	k := r.byHeader[head]
	if k == nil {
		return nil
	}
	body, _, ok := strings.Cut(rest, ".")
	if !ok {
		return nil
	}
	var claims claimSet
	t, err := parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
		if t.Header["kid"] != k.kid || t.Header["typ"] != tokenType {
			return nil, errUnknownKey
		}
		return k.secret, nil
	})
	if err != nil || !t.Valid {
		return nil
	}
	// White space around the claims would pass the JSON decoder, unseen by claimSet.
	if base64.RawURLEncoding.EncodedLen(claims.size) != len(body) {
		return nil
	}
	claims.Kid = k.kid
	if !slices.Contains(aud, claims.Audience) {
		return nil
	}
	return &claims.Claims
}

// isTokenText tells whether s has only what a compact JWS may have. (Go's base64
// decoder, even the strict one, skips line ends.)
func isTokenText(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != ""
}

func knownAudience(s string) bool {
	return s == string(AudienceLink) || s == string(AudienceCallback)
}

func validInstanceID(s string) bool {
	if s == "" || len(s) > maxInstanceID {
		return false
	}
	for i := range len(s) {
		if !isAlnum(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}
