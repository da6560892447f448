package callbacks

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"vobo/internal/fault"
)

// testKeys are keys of both kinds: each signs, and its verify form checks.
func testKeys(t testing.TB, n byte) (shared, private signingKey, sharedText, publicText string) {
	t.Helper()
	secret := bytes.Repeat([]byte{n}, 32)
	private = signingKey{private: ed25519.NewKeyFromSeed(secret)}
	public, ok := private.private.Public().(ed25519.PublicKey)
	if !ok {
		t.Fatal("no public key")
	}
	return signingKey{secret: secret}, private,
		secretPrefix + base64.StdEncoding.EncodeToString(secret), publicKeyPrefix + base64.StdEncoding.EncodeToString(public)
}

func sourceOf(t testing.TB, texts ...string) *Source {
	t.Helper()
	s := &Source{}
	for _, text := range texts {
		key, err := parseVerifyKey(text)
		if err != nil {
			t.Fatal(err)
		}
		s.keys = append(s.keys, key)
	}
	return s
}

// verifyCase is one call to a source and whether it must pass.
type verifyCase struct {
	name, id, stamp, sign string
	body                  string
	source                *Source
	ok                    bool
}

var callNow = time.Unix(1_764_500_000, 0)

const (
	callID   = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
	callBody = `{"event":"signed","input":{"amount":1.10,"name":"Ana & <Co> 🙂"}}`
)

func stampAt(offset int64) string { return strconv.FormatInt(callNow.Unix()+offset, 10) }

// timeCases are field report B08's times, right signatures all.
func timeCases(t testing.TB) []verifyCase {
	shared, private, sharedText, publicText := testKeys(t, 1)
	var cases []verifyCase
	for _, kind := range []struct {
		key    signingKey
		source *Source
	}{{shared, sourceOf(t, sharedText)}, {private, sourceOf(t, publicText)}} {
		add := func(name, stamp string, ok bool) {
			cases = append(cases, verifyCase{"time " + name, callID, stamp, kind.key.sign(callID, stamp, []byte(callBody)), callBody, kind.source, ok})
		}
		for _, offset := range []int64{-3600, -601, -600, -302, -301, -300, -299, -100, -1, 0, 1, 5, 59, 60, 61, 62, 120, 299, 300, 301, 600, 3600, 86400} {
			add(strconv.FormatInt(offset, 10), stampAt(offset), offset >= -300 && offset <= 60)
		}
		now := stampAt(0)
		for _, stamp := range []string{
			now + "000", "-" + now, "+" + now, "", " ", "12345678901234567890", " " + now, now + " ", now + "\n", now + ".0", now + ".5", "0" + now, "1e9", "1.7645e9", "0x692c3da0", "０", "NaN", "Infinity", "null", "2025-11-30T11:33:20Z",
			strings.Repeat("9", 11), strings.Repeat("9", 400), "0", "-1", "-0", "00", now + "\x00", now[:9], now + "." + now, now + ",", now[:5] + "_" + now[5:],
		} {
			add(fmt.Sprintf("%.20q", stamp), stamp, false)
		}
	}
	return cases
}

// formCases are keys, and forms of ids and of the signature header.
func formCases(t testing.TB) []verifyCase {
	return slices.Concat(keyCases(t), headerCases(t), idCases(t))
}

// signedWith is the header of the usual call, signed with these keys.
func signedWith(keys ...signingKey) string {
	s := Secrets{signing: keys}
	return s.Sign("", callID, callNow.Unix(), []byte(callBody))
}

func keyCases(t testing.TB) []verifyCase {
	older, olderPrivate, olderText, olderPublic := testKeys(t, 1)
	newer, newerPrivate, newerText, newerPublic := testKeys(t, 2)
	alien, alienPrivate, _, _ := testKeys(t, 3)
	sign := signedWith
	var cases []verifyCase
	add := func(name string, source *Source, header string, ok bool) {
		cases = append(cases, verifyCase{name, callID, stampAt(0), header, callBody, source, ok})
	}
	one, both, public, mixed := sourceOf(t, newerText), sourceOf(t, newerText, olderText), sourceOf(t, newerPublic), sourceOf(t, olderText, newerPublic)
	for i, c := range []struct {
		source *Source
		header string
		ok     bool
	}{
		{one, sign(newer), true},
		{one, sign(older, newer), true},
		{one, sign(newer, older), true},
		{both, sign(newer), true},
		{both, sign(older), true},
		{both, sign(older, newer), true},
		{public, sign(newerPrivate), true},
		{public, sign(olderPrivate, newerPrivate), true},
		{sourceOf(t, newerPublic, olderPublic), sign(olderPrivate), true},
		{mixed, sign(older), true},
		{mixed, sign(newerPrivate), true},
		{mixed, sign(older, newerPrivate), true},
		{mixed, sign(alien, alienPrivate, newerPrivate), true},
		{mixed, sign(alien, older, alienPrivate), true},
		{one, sign(newer, newerPrivate), true},
		{one, "v2,xyz " + sign(newer), true},
		{one, "v1a,AAAA " + sign(newer), true},
		{one, "v0,AAAA v9x, ,, " + sign(newer), true},
		{one, strings.Repeat(sign(alien)+" ", 100) + sign(newer), true},
		{public, strings.Repeat("v2,AAAA ", 100) + sign(newerPrivate), true},
		{public, strings.Repeat(sign(alienPrivate)+" ", 4) + sign(newerPrivate), true},
		{one, "  " + sign(newer) + "\t", true},

		{one, sign(older), false},
		{one, sign(alien), false},
		{one, sign(newerPrivate), false},
		{public, sign(newer), false},
		{public, sign(olderPrivate), false},
		{public, sign(alienPrivate, alien), false},
		{mixed, sign(newer), false},
		{mixed, sign(olderPrivate), false},
		{nil, sign(newer), false},
		{&Source{}, sign(newer), false},
		{nil, sign(signingKey{secret: make([]byte, minWebhookSecret)}), false},
		{&Source{keys: []verifyKey{{}}}, sign(signingKey{}), false},
		{&Source{keys: []verifyKey{{secret: []byte{}}}}, sign(signingKey{}), false},
		{&Source{keys: []verifyKey{{secret: []byte("short")}}}, sign(signingKey{secret: []byte("short")}), false},
		{&Source{keys: []verifyKey{{public: ed25519.PublicKey("short")}}}, sign(newerPrivate), false},
		{one, strings.Repeat(sign(alien)+" ", 400) + sign(newer), false},
		{public, strings.Repeat(sign(alienPrivate)+" ", 80) + sign(newerPrivate), false},
	} {
		add("keys "+strconv.Itoa(i), c.source, c.header, c.ok)
	}
	return cases
}

func headerCases(t testing.TB) []verifyCase {
	shared, private, sharedText, publicText := testKeys(t, 2)
	var cases []verifyCase
	add := func(name string, source *Source, header string) {
		cases = append(cases, verifyCase{name, callID, stampAt(0), header, callBody, source, false})
	}
	for _, c := range []struct {
		source *Source
		good   string
	}{{sourceOf(t, sharedText), signedWith(shared)}, {sourceOf(t, publicText), signedWith(private)}} {
		version, text, _ := strings.Cut(c.good, ",")
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, header := range []string{
			"", " ", ",", text, "," + text, version, version + ",", version + " " + text, version + ";" + text, version + "=" + text, version + ", " + text, strings.ToUpper(version) + "," + text, "v1b," + text, "v," + text, "v11," + text, "1," + text,
			version + "," + text[:len(text)-4], version + "," + text + "AAAA", version + "," + text + "=", version + "," + strings.TrimRight(text, "="), version + "," + strings.ToLower(text), version + "," + text[:10] + "," + text[10:],
			version + "," + base64.URLEncoding.EncodeToString(raw) + "?", version + "," + fmt.Sprintf("%x", raw), version + "," + base64.StdEncoding.EncodeToString(raw[1:]), version + "," + base64.StdEncoding.EncodeToString(append(raw[:len(raw):len(raw)], 0)),
			version + "," + base64.StdEncoding.EncodeToString(make([]byte, len(raw))), version + "," + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, len(raw))), `"` + c.good + `"`, c.good + ",x", "\x00" + c.good, c.good[:20] + "\x00" + c.good[20:],
			c.good[:20] + "\n" + c.good[20:], c.good[:20] + " " + c.good[20:], strings.Replace(c.good, ",", ",,", 1), strings.ReplaceAll(c.good, ",", "，"),
		} {
			add("form "+version+" "+strconv.Itoa(i), c.source, header)
		}
		for bit := range len(raw) * 8 {
			flipped := bytes.Clone(raw)
			flipped[bit/8] ^= 1 << (bit % 8)
			add("bit "+version+" "+strconv.Itoa(bit), c.source, version+","+base64.StdEncoding.EncodeToString(flipped))
		}
	}
	return cases
}

func idCases(t testing.TB) []verifyCase {
	key, _, text, _ := testKeys(t, 2)
	source := sourceOf(t, text)
	var cases []verifyCase
	for _, id := range []string{"", " ", "a.b", "a b", "a\nb", "a\x00", "ü", strings.Repeat("a", 256), callID + ".", "." + callID, "a\u2028b", "a\x7f"} {
		header := "v1," + base64.StdEncoding.EncodeToString(webhookMAC(key.secret, id, stampAt(0), []byte(callBody)))
		cases = append(cases, verifyCase{fmt.Sprintf("id %.20q", id), id, stampAt(0), header, callBody, source, false})
	}
	for _, id := range []string{"other", strings.ToLower(callID), callID[:10], callID + "x"} {
		cases = append(cases, verifyCase{"other id " + id, id, stampAt(0), signedWith(key), callBody, source, false})
	}
	// What moves a border between id, time and body must not pass for the same text.
	moved := webhookMAC(key.secret, callID, stampAt(0), []byte("1."+callBody))
	cases = append(cases, verifyCase{"moved border", callID, stampAt(0) + ".1", "v1," + base64.StdEncoding.EncodeToString(moved), callBody, source, false})
	return cases
}

// guarantee S-21, field report B08: of more than 300 calls only the exact ones pass, and
// every refusal is the same.
func TestOnlyAnExactlySignedCallInTimePasses(t *testing.T) {
	t.Parallel()
	cases := append(timeCases(t), formCases(t)...)
	passed := 0
	for _, c := range cases {
		err := c.source.Verify(c.id, c.stamp, c.sign, []byte(c.body), callNow)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			passed++
		} else if fault.CodeOf(err) != fault.Unauthorized || err.Error() != unsigned().Error() {
			t.Errorf("%s: the refusal differs: %v", c.name, err)
		}
	}
	if len(cases) < 300 || passed < 20 {
		t.Errorf("%d cases, %d passed", len(cases), passed)
	}
	t.Logf("%d calls, %d exact ones passed, 0 others", len(cases), passed)
}

// field report B08: a call that was overheard is good for its window, not for twice that.
func TestACapturedCallPassesOnlyInItsWindow(t *testing.T) {
	t.Parallel()
	shared, _, text, _ := testKeys(t, 1)
	source := sourceOf(t, text)
	for _, ahead := range []int64{0, 60} { // dated as far ahead as it may be
		sign := shared.sign(callID, stampAt(ahead), []byte(callBody))
		for after, ok := range map[time.Duration]bool{0: true, 10 * time.Second: true, 5 * time.Minute: true, 6 * time.Minute: ahead == 60, 361 * time.Second: false, 10 * time.Minute: false, 30 * 24 * time.Hour: false} {
			if err := source.Verify(callID, stampAt(ahead), sign, []byte(callBody), callNow.Add(after)); (err == nil) != ok {
				t.Errorf("dated %d s ahead, again after %s: %v", ahead, after, err)
			}
		}
	}
}

// B07's bodies: what a JSON library would write in another way.
var rawBodies = []string{
	"{ \"b\": 1,\n \"a\": 2 }", `{"z":"\u00E9","a":"\u003C"}`, `{"q":"a & b < c > d"}`, `{"e":"🙂"}`, `{"n":1.0,"m":1e2}`, `{"a":1,"a":2}`, "{\"a\":1}\n", "", "\xff\x00", "{\"a\":\"\r\n\"}", ".", "1.2.3", `{"n":9007199254740993}`,
}

// field report B07, guarantee S-21: over the very bytes, and as the reference library
// signs and verifies, in both directions.
func TestSignaturesAgreeWithTheReferenceLibraryOverTheRawBytes(t *testing.T) {
	t.Parallel()
	shared, _, text, _ := testKeys(t, 1)
	other, _, otherText, _ := testKeys(t, 2)
	ours, source := Secrets{signing: []signingKey{shared, other}}, sourceOf(t, text)
	changed := 0
	for _, body := range rawBodies {
		for _, secret := range []string{text, otherText} {
			reference, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{}
			header.Set("webhook-id", callID)
			header.Set("webhook-timestamp", stampAt(0))
			header.Set("webhook-signature", ours.Sign("", callID, callNow.Unix(), []byte(body)))
			if err := reference.VerifyIgnoringTimestamp([]byte(body), header); err != nil {
				t.Errorf("the reference library refuses ours of %q: %v", body, err)
			}
			if err := reference.VerifyIgnoringTimestamp([]byte(body+" "), header); err == nil {
				t.Errorf("the reference library takes ours of %q for another body", body)
			}
			theirs, err := reference.Sign(callID, callNow, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if err := source.Verify(callID, stampAt(0), theirs, []byte(body), callNow); (err == nil) != (secret == text) {
				t.Errorf("theirs of %q: %v", body, err)
			}
			for i := range body {
				altered := []byte(body)
				altered[i] ^= 1
				if err := sourceOf(t, secret).Verify(callID, stampAt(0), theirs, altered, callNow); fault.CodeOf(err) != fault.Unauthorized {
					t.Errorf("%q passes as %q: %v", altered, body, err)
				}
				changed++
			}
		}
	}
	t.Logf("0 of %d changed bytes accepted", changed)
}

// A v1a signature is ed25519 over "id.timestamp.body", as the specification says.
func TestAPublicKeySignatureIsPlainEd25519(t *testing.T) {
	t.Parallel()
	_, private, _, publicText := testKeys(t, 7)
	s := Secrets{signing: []signingKey{private}}
	text, ok := strings.CutPrefix(s.Sign("", "msg_1", 1764500000, []byte(`{"a":1}`)), "v1a,")
	sign, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		t.Fatalf("signature %q (%v)", text, err)
	}
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(publicText, publicKeyPrefix))
	if err != nil || !ed25519.Verify(public, []byte(`msg_1.1764500000.{"a":1}`), sign) {
		t.Errorf("ed25519 does not verify it (%v)", err)
	}
}

// guarantee S-21: a hostile header costs a bounded number of checks.
func TestACallWithManySignaturesCostsABoundedNumberOfChecks(t *testing.T) {
	t.Parallel()
	_, alienPrivate, _, _ := testKeys(t, 9)
	_, private, _, publicText := testKeys(t, 1)
	alien := alienPrivate.sign(callID, stampAt(0), []byte(callBody))
	good := private.sign(callID, stampAt(0), []byte(callBody))
	source := sourceOf(t, publicText)
	for _, c := range []struct {
		before int
		ok     bool
	}{{0, true}, {maxPublicChecks - 1, true}, {maxPublicChecks, false}, {80, false}} {
		header := strings.Repeat(alien+" ", c.before) + good
		if err := source.Verify(callID, stampAt(0), header, []byte(callBody), callNow); (err == nil) != c.ok {
			t.Errorf("the right one after %d others: %v", c.before, err)
		}
	}
}

func FuzzWebhookVerify(f *testing.F) {
	shared, private, sharedText, publicText := testKeys(f, 1)
	source := sourceOf(f, sharedText, publicText)
	for _, c := range append(timeCases(f), formCases(f)...) {
		if !strings.HasPrefix(c.name, "bit") {
			f.Add(c.id, c.stamp, c.sign, c.body)
		}
	}
	f.Fuzz(func(t *testing.T, id, stamp, header, body string) {
		err := source.Verify(id, stamp, header, []byte(body), callNow)
		if err != nil {
			if fault.CodeOf(err) != fault.Unauthorized {
				t.Fatal(err)
			}
			return
		}
		for _, key := range []signingKey{shared, private} {
			for word := range strings.FieldsSeq(header) {
				if word == key.sign(id, stamp, []byte(body)) {
					return
				}
			}
		}
		t.Fatalf("%q %q %q %q passes without a signature of ours", id, stamp, header, body)
	})
}
