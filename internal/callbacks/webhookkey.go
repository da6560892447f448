package callbacks

import (
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"vobo/internal/fault"
)

// The forms of keys, as Standard Webhooks 1.0 writes them: a word and base64.
const (
	secretPrefix     = "whsec_" // a shared secret: HMAC-SHA256, signatures v1
	privateKeyPrefix = "whsk_"  // an ed25519 private key (seed, or seed and public key): signatures v1a
	publicKeyPrefix  = "whpk_"  // an ed25519 public key
)

// signingKey makes signatures; one of the two is set.
type signingKey struct {
	secret  []byte
	private ed25519.PrivateKey
}

// verifyKey checks signatures; one of the two is set.
type verifyKey struct {
	secret []byte
	public ed25519.PublicKey
}

func (k signingKey) sign(id, timestamp string, body []byte) string {
	if k.private != nil {
		return publicVersion + base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, signedText(id, timestamp, body)))
	}
	return sharedVersion + base64.StdEncoding.EncodeToString(webhookMAC(k.secret, id, timestamp, body))
}

// parseSigningKey reads what signs webhooks out: whsec_ or whsk_. The error,
// fault.InvalidInput, does not show it.
func parseSigningKey(text string) (signingKey, error) {
	rest, ok := strings.CutPrefix(text, privateKeyPrefix)
	if !ok {
		secret, err := ParseWebhookSecret(text)
		return signingKey{secret: secret}, err
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	switch {
	case err == nil && len(raw) == ed25519.SeedSize:
		return signingKey{private: ed25519.NewKeyFromSeed(raw)}, nil
	case err == nil && len(raw) == ed25519.PrivateKeySize:
		private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if subtle.ConstantTimeCompare(private, raw) == 1 {
			return signingKey{private: private}, nil
		}
		return signingKey{}, fault.New(fault.InvalidInput, "The two halves of the private key do not belong together.")
	}
	return signingKey{}, fault.New(fault.InvalidInput, "A private key is written %s and the base64 of %d or %d bytes (ed25519).", privateKeyPrefix, ed25519.SeedSize, ed25519.PrivateKeySize)
}

// parseVerifyKey reads what checks calls in: whsec_ or whpk_. The error,
// fault.InvalidInput, does not show it.
func parseVerifyKey(text string) (verifyKey, error) {
	rest, ok := strings.CutPrefix(text, publicKeyPrefix)
	if !ok {
		secret, err := ParseWebhookSecret(text)
		return verifyKey{secret: secret}, err
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return verifyKey{}, fault.New(fault.InvalidInput, "A public key is written %s and the base64 of %d bytes (ed25519).", publicKeyPrefix, ed25519.PublicKeySize)
	}
	return verifyKey{public: raw}, nil
}
