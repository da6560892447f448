package callbacks

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
)

var webhookNow = time.Unix(1_764_500_000, 0)

// The example of the Standard Webhooks specification's reference libraries.
func TestASignatureAgreesWithTheReferenceLibraries(t *testing.T) {
	t.Parallel()
	secret, err := ParseWebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := SignWebhook([][]byte{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

// field report B07: the signature is over the bytes on the wire, not over what they mean.
func TestASignatureIsOverTheExactBytes(t *testing.T) {
	t.Parallel()
	secrets := [][]byte{bytes.Repeat([]byte{7}, 32)}
	bodies := []string{
		"{ \"b\": 1,\n \"a\": 2 }", `{"z":"\u00E9","a":"\u003C"}`, `{"q":"a & b < c > d"}`, `{"e":"🙂"}`, `{"n":1.0,"m":1e2}`, `{"a":1,"a":2}`, "{\"a\":1}\n", "", "\xff\x00",
	}
	changed := 0
	for _, body := range bodies {
		sign := SignWebhook(secrets, "w-1", webhookNow.Unix(), []byte(body))
		if err := VerifyWebhook(secrets, "w-1", "1764500000", sign, []byte(body), webhookNow); err != nil {
			t.Errorf("%q: %v", body, err)
		}
		for i := range body {
			other := []byte(body)
			other[i] ^= 1
			if err := VerifyWebhook(secrets, "w-1", "1764500000", sign, other, webhookNow); fault.CodeOf(err) != fault.Unauthorized {
				t.Errorf("%q passes as %q: %v", body, other, err)
			}
			changed++
		}
	}
	t.Logf("0 of %d changed bytes accepted", changed)
}

// field report B08, guarantee S-21
func TestATimestampMayLagFiveMinutesAndLeadOne(t *testing.T) {
	t.Parallel()
	secrets := [][]byte{bytes.Repeat([]byte{7}, 32)}
	at := func(offset int64) string { return fmt.Sprint(webhookNow.Unix() + offset) }
	for stamp, ok := range map[string]bool{
		at(0): true, at(-299): true, at(-300): true, at(-301): false, at(-601): false, at(5): true, at(60): true, at(61): false, at(299): false, at(3600): false,
		at(0) + "000": false, "-" + at(0): false, "": false, "12345678901234567890": false, " " + at(0): false, at(0) + ".0": false, "0" + at(0): false, "1e9": false, "０": false,
	} {
		sum := webhookMAC(secrets[0], "w-1", stamp, []byte("{}"))
		sign := "v1," + base64.StdEncoding.EncodeToString(sum)
		if err := VerifyWebhook(secrets, "w-1", stamp, sign, []byte("{}"), webhookNow); (err == nil) != ok || err != nil && fault.CodeOf(err) != fault.Unauthorized {
			t.Errorf("timestamp %q: %v", stamp, err)
		}
	}
}

// guarantee S-21
func TestOnlyASignatureOfOneOfOurSecretsPasses(t *testing.T) {
	t.Parallel()
	older, newer, alien := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{3}, 32)
	sign := func(id string, secrets ...[]byte) string {
		return SignWebhook(secrets, id, webhookNow.Unix(), []byte("{}"))
	}
	good := sign("w-1", newer)
	cases := map[string]struct {
		secrets  [][]byte
		id, sign string
		ok       bool
	}{
		"new secret":                       {[][]byte{older, newer}, "w-1", good, true},
		"old secret":                       {[][]byte{older, newer}, "w-1", sign("w-1", older), true},
		"signed with both, knows the old":  {[][]byte{older}, "w-1", sign("w-1", older, newer), true},
		"signed with both, knows the new":  {[][]byte{newer}, "w-1", sign("w-1", older, newer), true},
		"an unknown version beside":        {[][]byte{newer}, "w-1", "v1a,AAAA " + good, true},
		"100 wrong ones and the right one": {[][]byte{newer}, "w-1", strings.Repeat(sign("w-1", alien)+" ", 100) + good, true},
		"alien secret":                     {[][]byte{older, newer}, "w-1", sign("w-1", alien), false},
		"no secret":                        {nil, "w-1", good, false},
		"empty secret":                     {[][]byte{{}}, "w-1", SignWebhook([][]byte{{}}, "w-1", webhookNow.Unix(), []byte("{}")), false},
		"other id":                         {[][]byte{newer}, "w-2", good, false},
		"no id":                            {[][]byte{newer}, "", sign("", newer), false},
		"dot in id":                        {[][]byte{newer}, "w.1", sign("w.1", newer), false},
		"line break in id":                 {[][]byte{newer}, "w\n1", sign("w\n1", newer), false},
		"long id":                          {[][]byte{newer}, strings.Repeat("w", 256), sign(strings.Repeat("w", 256), newer), false},
		"no signature":                     {[][]byte{newer}, "w-1", "", false},
		"other version":                    {[][]byte{newer}, "w-1", "v2" + strings.TrimPrefix(good, "v1"), false},
		"upper case version":               {[][]byte{newer}, "w-1", "V1" + strings.TrimPrefix(good, "v1"), false},
		"bare signature":                   {[][]byte{newer}, "w-1", strings.TrimPrefix(good, "v1,"), false},
		"cut short":                        {[][]byte{newer}, "w-1", good[:len(good)-4], false},
		"longer than any rotation":         {[][]byte{newer}, "w-1", strings.Repeat(sign("w-1", alien)+" ", 400) + good, false},
	}
	for name, c := range cases {
		if err := VerifyWebhook(c.secrets, c.id, "1764500000", c.sign, []byte("{}"), webhookNow); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWebhookSecretsBelow24BytesAreRefused(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24)): true,
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 64)): true,
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)): false,
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)): false,
		base64.StdEncoding.EncodeToString(make([]byte, 32)):            false,
		"whsec_":      false,
		"whsec_!!!!!": false,
		"":            false,
	} {
		if _, err := ParseWebhookSecret(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
