package callbacks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"vobo/internal/fault"
)

// Webhook signatures follow Standard Webhooks 1.0 (standardwebhooks.com): HMAC-SHA256
// over "id.timestamp.body", the body being the very bytes on the wire.
const (
	// WebhookPast and WebhookFuture are how far a timestamp may lie behind and ahead of
	// the receiver's clock. They differ on purpose: a window as wide ahead as behind
	// would let a call dated ahead be replayed for twice the time.
	WebhookPast   = 5 * time.Minute
	WebhookFuture = time.Minute

	secretPrefix       = "whsec_"
	minWebhookSecret   = 24
	maxWebhookSecret   = 64
	maxSignatureHeader = 8 << 10
	maxWebhookID       = 255
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
	all := make([]string, len(secrets))
	for i, secret := range secrets {
		sum := webhookMAC(secret, id, strconv.FormatInt(timestamp, 10), body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(sum)
	}
	return strings.Join(all, " ")
}

// VerifyWebhook checks a call against the headers webhook-id, webhook-timestamp and
// webhook-signature, the raw body and the receiver's clock. It passes if one v1
// signature is that of one of the secrets. Every failure is fault.Unauthorized with
// one and the same message. Its work is one HMAC per secret, however many signatures
// are sent. A replay inside the window passes: the id is the idempotency key.
func VerifyWebhook(secrets [][]byte, id, timestamp, signature string, body []byte, now time.Time) error {
	if !validWebhookID(id) || !freshTimestamp(timestamp, now) || len(signature) > maxSignatureHeader {
		return unsigned()
	}
	var offered [][]byte
	for _, word := range strings.Fields(signature) {
		if text, ok := strings.CutPrefix(word, "v1,"); ok {
			if sum, err := base64.StdEncoding.Strict().DecodeString(text); err == nil && len(sum) == sha256.Size {
				offered = append(offered, sum)
			}
		}
	}
	for _, secret := range secrets {
		if len(secret) < minWebhookSecret {
			continue
		}
		want := webhookMAC(secret, id, timestamp, body)
		for _, sum := range offered {
			if hmac.Equal(sum, want) {
				return nil
			}
		}
	}
	return unsigned()
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
