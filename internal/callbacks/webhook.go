package callbacks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"vobo/internal/fault"
)

// Webhook signatures follow Standard Webhooks 1.0 (standardwebhooks.com): HMAC-SHA256
// (v1) or ed25519 (v1a) over "id.timestamp.body", the body being the very bytes on the wire.
const (
	// WebhookPast and WebhookFuture are how far a timestamp may lie behind and ahead of
	// the receiver's clock. They differ on purpose: a window as wide ahead as behind
	// would let a call dated ahead be replayed for twice the time.
	WebhookPast   = 5 * time.Minute
	WebhookFuture = time.Minute

	sharedVersion = "v1,"
	publicVersion = "v1a,"

	minWebhookSecret   = 24
	maxWebhookSecret   = 64
	maxSignatureHeader = 8 << 10
	maxWebhookID       = 255

	// maxPublicChecks bounds the ed25519 checks of one call. Unlike an HMAC they cannot
	// be shared between the signatures that a call offers.
	maxPublicChecks = 16
)

// ParseWebhookSecret reads a secret of the form whsec_BASE64, 24 to 64 bytes decoded.
// The error, fault.InvalidInput, does not show it.
func ParseWebhookSecret(text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(text, secretPrefix)
	secret, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(secret) < minWebhookSecret || len(secret) > maxWebhookSecret {
		return nil, fault.New(fault.InvalidInput, "A webhook secret is written whsec_ and the base64 of %d to %d bytes.", minWebhookSecret, maxWebhookSecret)
	}
	return secret, nil
}

// SignWebhook returns the value of webhook-signature: one signature per secret, so that
// a receiver may hold the old or the new one while they are exchanged. The timestamp is
// that of the attempt, in Unix seconds, as sent in webhook-timestamp.
func SignWebhook(secrets [][]byte, id string, timestamp int64, body []byte) string {
	var s Secrets
	for _, secret := range secrets {
		s.signing = append(s.signing, signingKey{secret: secret})
	}
	return s.Sign("", id, timestamp, body)
}

// VerifyWebhook is Source.Verify for a source that has these secrets.
func VerifyWebhook(secrets [][]byte, id, timestamp, signature string, body []byte, now time.Time) error {
	s := &Source{}
	for _, secret := range secrets {
		s.keys = append(s.keys, verifyKey{secret: secret})
	}
	return s.Verify(id, timestamp, signature, body, now)
}

// verifies tells whether a call is signed with one of the keys, and in time.
func verifies(keys []verifyKey, id, timestamp, signature string, body []byte, now time.Time) bool {
	if !validWebhookID(id) || !freshTimestamp(timestamp, now) || len(signature) > maxSignatureHeader {
		return false
	}
	shared, public := offeredSignatures(signature)
	var text []byte
	checks := 0
	for _, key := range keys {
		switch {
		case len(key.public) == ed25519.PublicKeySize:
			if text == nil {
				text = signedText(id, timestamp, body)
			}
			for _, sign := range public {
				if checks++; checks > maxPublicChecks {
					return false
				}
				if ed25519.Verify(key.public, text, sign) {
					return true
				}
			}
		case len(key.secret) >= minWebhookSecret:
			want := webhookMAC(key.secret, id, timestamp, body)
			for _, sum := range shared {
				if hmac.Equal(sum, want) {
					return true
				}
			}
		}
	}
	return false
}

// offeredSignatures reads webhook-signature: words of version, comma and base64, parted
// by spaces. What is not of a known version and of its length counts for nothing.
func offeredSignatures(header string) (shared, public [][]byte) {
	for word := range strings.FieldsSeq(header) {
		if text, ok := strings.CutPrefix(word, sharedVersion); ok {
			if sum, err := base64.StdEncoding.Strict().DecodeString(text); err == nil && len(sum) == sha256.Size {
				shared = append(shared, sum)
			}
		}
		if text, ok := strings.CutPrefix(word, publicVersion); ok {
			if sign, err := base64.StdEncoding.Strict().DecodeString(text); err == nil && len(sign) == ed25519.SignatureSize {
				public = append(public, sign)
			}
		}
	}
	return shared, public
}

// signedText is what every signature is over (webhookMAC writes it in pieces).
func signedText(id, timestamp string, body []byte) []byte {
	return append([]byte(id+"."+timestamp+"."), body...)
}

func unsigned() error {
	return fault.New(fault.Unauthorized, "The call is not signed as Standard Webhooks asks, or its time is off. Check the secret and the sender's clock.")
}

func webhookMAC(secret []byte, id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// validWebhookID refuses what would make the signed text ambiguous or a log unsafe.
func validWebhookID(id string) bool {
	if id == "" || len(id) > maxWebhookID {
		return false
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == '.' {
			return false
		}
	}
	return true
}

func freshTimestamp(text string, now time.Time) bool {
	if text == "" || len(text) > 11 || text[0] == '0' && text != "0" {
		return false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return false
	}
	age := now.Sub(time.Unix(seconds, 0))
	return age <= WebhookPast && age >= -WebhookFuture
}
