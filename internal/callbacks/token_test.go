package callbacks

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"vobo/internal/fault"
)

const (
	testInstance = "01981f2e-7c3b-7a40-9d1e-0b5c2f6a8e11"
	testIssued   = 1_764_500_000
)

// seeded returns deterministic random bytes.
func seeded(n uint64) *rand.ChaCha8 {
	return rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), 7})
}

func newRing(t testing.TB, seed uint64) *Ring {
	t.Helper()
	r, err := NewKeyRing(seeded(seed))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testNonce(n uint64) []byte {
	nonce := make([]byte, 16)
	seeded(1000 + n).Read(nonce)
	return nonce
}

func mint(t testing.TB, r *Ring, nonce []byte) string {
	t.Helper()
	token, err := r.Mint(r.Active(), nonce, AudienceLink, testInstance, 3, testIssued)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAMintedTokenIsVerifiedAndFindsItsRow(t *testing.T) {
	t.Parallel()
	r := newRing(t, 1)
	kid, hash, err := r.Seal(testNonce(1))
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Verify(mint(t, r, testNonce(1)), AudienceLink, AudienceCallback)
	if err != nil {
		t.Fatal(err)
	}
	want := Claims{Audience: AudienceLink, InstanceID: testInstance, JTIHash: hash, Kid: kid, Incarnation: 3, IssuedAt: testIssued, Expires: testIssued + FarCap}
	if *c != want {
		t.Errorf("claims %+v, want %+v", *c, want)
	}
}

func TestATokenIsRebuiltByteForByteFromWhatIsStored(t *testing.T) {
	t.Parallel()
	r := newRing(t, 2)
	first := mint(t, r, testNonce(2))
	again, err := ParseKeyRing(r.text())
	if err != nil {
		t.Fatal(err)
	}
	if second := mint(t, again, testNonce(2)); second != first {
		t.Errorf("rebuilt %s, first was %s", second, first)
	}
	if len(first) > 480 {
		t.Errorf("a token has %d bytes; links should stay below 480", len(first))
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(first, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(payload), `{"iss":"vobo","aud":"vobo:link","iat":1764500000,"exp":2080076000,"jti":"`) || !strings.HasSuffix(string(payload), `","iid":"`+testInstance+`","inc":3}`) {
		t.Errorf("payload %s", payload)
	}
}

// guarantee P14: neither the database nor the ring alone makes or finds a token.
// guarantee D5
func TestNeitherTheDatabaseNorTheKeyAloneSuffices(t *testing.T) {
	t.Parallel()
	r, other := newRing(t, 3), newRing(t, 4)
	kid, hash, err := r.Seal(testNonce(3))
	if err != nil {
		t.Fatal(err)
	}
	token := mint(t, r, testNonce(3))

	// The database: kid, nonce, hash; and a ring of the thief's own under the same kid.
	forged := strings.Replace(string(other.text()), other.Active(), kid, 1)
	thief, err := ParseKeyRing([]byte(forged))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(mint(t, thief, testNonce(3)), AudienceLink); fault.CodeOf(err) != fault.InvalidToken {
		t.Errorf("a token made from the database alone: %v", err)
	}
	if h, err := thief.SealWith(kid, testNonce(3)); err != nil || h == hash {
		t.Errorf("another key finds the same row (%v)", err)
	}

	// The key: an authentic token, but of no nonce that the database knows.
	c, err := r.Verify(mint(t, r, testNonce(99)), AudienceLink)
	if err != nil {
		t.Fatal(err)
	}
	if c.JTIHash == hash {
		t.Error("a guessed nonce finds the row")
	}
	if c, err := r.Verify(token, AudienceLink); err != nil || c.JTIHash != hash {
		t.Errorf("the genuine token: %v", err)
	}
}

func TestAnAudienceIsNotAcceptedForAnother(t *testing.T) {
	t.Parallel()
	r := newRing(t, 5)
	link := mint(t, r, testNonce(5))
	callback, err := r.Mint(r.Active(), testNonce(5), AudienceCallback, testInstance, 0, testIssued)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token string
		aud   []Audience
		ok    bool
	}{
		{link, []Audience{AudienceLink}, true},
		{link, []Audience{AudienceCallback}, false},
		{link, nil, false},
		{callback, []Audience{AudienceCallback}, true},
		{callback, []Audience{AudienceLink}, false},
		{callback, []Audience{AudienceLink, AudienceCallback}, true},
	} {
		if _, err := r.Verify(c.token, c.aud...); (err == nil) != c.ok {
			t.Errorf("for %v: %v", c.aud, err)
		}
	}
}

// field report B10, guarantee S-13: rotation keeps links alive until their key is destroyed.
func TestLinksOutliveRotationUntilTheirKeyIsDestroyed(t *testing.T) {
	t.Parallel()
	r := newRing(t, 6)
	k1 := r.Active()
	old := mint(t, r, testNonce(6))
	if err := r.Rotate(seeded(60)); err != nil {
		t.Fatal(err)
	}
	k2 := r.Active()
	if k1 == k2 {
		t.Fatal("rotation left the old key active")
	}
	fresh := mint(t, r, testNonce(61))
	if kid, _, err := r.Seal(testNonce(62)); err != nil || kid != k2 {
		t.Errorf("new tokens are sealed under %s (%v), not the new key", kid, err)
	}
	for name, token := range map[string]string{"old": old, "fresh": fresh} {
		if _, err := r.Verify(token, AudienceLink); err != nil {
			t.Errorf("%s token after rotation: %v", name, err)
		}
	}
	if again, err := r.Mint(k1, testNonce(6), AudienceLink, testInstance, 3, testIssued); err != nil || again != old {
		t.Errorf("a retired key no longer rebuilds what it issued: %v", err)
	}
	if err := r.Destroy(k2); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("destroying the active key: %v", err)
	}
	if err := r.Retire(k2); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("retiring the only active key: %v", err)
	}
	if err := r.Destroy(k1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(old, AudienceLink); fault.CodeOf(err) != fault.InvalidToken {
		t.Errorf("a token under a destroyed key: %v", err)
	}
	if _, err := r.Mint(k1, testNonce(6), AudienceLink, testInstance, 3, testIssued); fault.CodeOf(err) != fault.TokenRevoked {
		t.Errorf("minting under a destroyed key: %v", err)
	}
	if _, err := r.Verify(fresh, AudienceLink); err != nil {
		t.Errorf("the other key's token: %v", err)
	}
	prints := r.Fingerprints()
	if len(prints) != 2 || prints[0].Status != Destroyed || prints[0].SHA256 == [32]byte{} || prints[1].Status != Active {
		t.Errorf("fingerprints %+v", prints)
	}
	if strings.Contains(string(r.text()), base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0}, 32))) {
		t.Error("the destroyed key is written as zeros")
	}
}

func TestArgumentsOutOfRangeAreRefusedNotMinted(t *testing.T) {
	t.Parallel()
	r := newRing(t, 7)
	kid := r.Active()
	cases := map[string]struct {
		kid      string
		nonce    []byte
		aud      Audience
		instance string
		inc, iat int64
		want     fault.Code
	}{
		"unknown key":          {"k-none", testNonce(1), AudienceLink, testInstance, 0, 0, fault.NotFound},
		"short nonce":          {kid, testNonce(1)[:15], AudienceLink, testInstance, 0, 0, fault.InvalidInput},
		"long nonce":           {kid, make([]byte, 65), AudienceLink, testInstance, 0, 0, fault.InvalidInput},
		"unknown audience":     {kid, testNonce(1), "vobo:session", testInstance, 0, 0, fault.InvalidInput},
		"no instance":          {kid, testNonce(1), AudienceLink, "", 0, 0, fault.InvalidInput},
		"quote in instance":    {kid, testNonce(1), AudienceLink, `a","inc":9`, 0, 0, fault.InvalidInput},
		"long instance":        {kid, testNonce(1), AudienceLink, strings.Repeat("a", 65), 0, 0, fault.InvalidInput},
		"negative incarnation": {kid, testNonce(1), AudienceLink, testInstance, -1, 0, fault.InvalidInput},
		"negative time":        {kid, testNonce(1), AudienceLink, testInstance, 0, -1, fault.InvalidInput},
		"far time":             {kid, testNonce(1), AudienceLink, testInstance, 0, maxUnix, fault.InvalidInput},
	}
	for name, c := range cases {
		if _, err := r.Mint(c.kid, c.nonce, c.aud, c.instance, c.inc, c.iat); fault.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func BenchmarkMint(b *testing.B) {
	r := newRing(b, 8)
	nonce := testNonce(8)
	b.ReportAllocs()
	for b.Loop() {
		mint(b, r, nonce)
	}
}

func BenchmarkVerify(b *testing.B) {
	r := newRing(b, 9)
	token := mint(b, r, testNonce(9))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Verify(token, AudienceLink); err != nil {
			b.Fatal(err)
		}
	}
}
