package callbacks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"hash"
	"runtime"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"vobo/internal/fault"
)

// forge assembles a token from raw header and payload text, signed with the ring's own
// key: what is refused, is refused in spite of a good signature.
func forge(r *Ring, header, payload string) string {
	return forgeWith(r.active().secret, sha256.New, header, payload)
}

func forgeWith(secret []byte, h func() hash.Hash, header, payload string) string {
	text := b64(header) + "." + b64(payload)
	mac := hmac.New(h, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func unb64(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// genuine is one real token, taken apart.
type genuine struct {
	ring                       *Ring
	token, header, payload     string
	headerPart, bodyPart, sign string
}

func takeApart(t *testing.T) genuine {
	t.Helper()
	r := newRing(t, 20)
	token := mint(t, r, testNonce(20))
	parts := strings.Split(token, ".")
	g := genuine{ring: r, token: token, headerPart: parts[0], bodyPart: parts[1], sign: parts[2]}
	g.header, g.payload = unb64(t, parts[0]), unb64(t, parts[1])
	if forge(r, g.header, g.payload) != token {
		t.Fatal("the forger cannot rebuild the genuine token: the table would prove nothing")
	}
	return g
}

// headerForgeries: alg, kid, typ and the headers that point to keys elsewhere.
func headerForgeries(g genuine) []string {
	kid := g.ring.Active()
	var out []string
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "HS384", "HS512", "hs256", "HS256 ", "RS256", "RS384", "RS512", "PS256", "ES256", "EdDSA", "HS1", "A128KW", "dir"} {
		h := fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, alg, kid)
		out = append(out, forge(g.ring, h, g.payload), b64(h)+"."+g.bodyPart+".", b64(h)+"."+g.bodyPart+"."+g.sign)
	}
	for _, k := range []string{
		"../../dev/null", "../../../../etc/passwd", "/dev/null", "", " ", kid + " ", " " + kid, strings.ToUpper(kid), "k000000000000",
		"' OR 1=1--", "x' UNION SELECT 'a'--", "1;SELECT pg_sleep(5)--", "\u0000", kid + "\u0000", "http://127.0.0.1/key", "file:///dev/null", "%00", "*", "null", strings.Repeat("k", 200),
	} {
		out = append(out, forge(g.ring, fmt.Sprintf(`{"alg":"HS256","kid":%q,"typ":"JWT"}`, k), g.payload))
	}
	for _, extra := range []string{
		`"jku":"http://127.0.0.1:1/jwks"`, `"x5u":"http://127.0.0.1:1/x"`, `"jwk":{"kty":"oct","k":"AAAA"}`, `"x5c":["AAAA"]`, `"x5t":"AAAA"`,
		`"crit":["exp"]`, `"crit":[]`, `"b64":false`, `"zip":"DEF"`, `"cty":"JWT"`, `"enc":"A128GCM"`, `"alg":"none"`, `"kid":"other"`, `"typ":"at+jwt"`,
	} {
		out = append(out, forge(g.ring, strings.TrimSuffix(g.header, "}")+","+extra+"}", g.payload), forge(g.ring, "{"+extra+","+g.header[1:], g.payload))
	}
	for _, h := range []string{
		`{"alg":"HS256","typ":"JWT"}`, fmt.Sprintf(`{"alg":"HS256","kid":%q}`, kid), fmt.Sprintf(`{"kid":%q,"typ":"JWT"}`, kid),
		fmt.Sprintf(`{"typ":"JWT","alg":"HS256","kid":%q}`, kid), fmt.Sprintf(`{"alg":"HS256","kid":%q,"typ":"jwt"}`, kid), fmt.Sprintf(`{"alg":"HS256","kid":%q,"typ":"JOSE"}`, kid),
		fmt.Sprintf(`{"alg":"HS256","kid":[%q],"typ":"JWT"}`, kid), `{"alg":["HS256"],"kid":"` + kid + `","typ":"JWT"}`, `{"ALG":"HS256","kid":"` + kid + `","typ":"JWT"}`,
		g.header + " ", " " + g.header, g.header + "x", "{}", "null", "[]", "1", `"x"`, "",
	} {
		out = append(out, forge(g.ring, h, g.payload))
	}
	return out
}

// claimForgeries: every claim missing, twice, of another type, form or value.
func claimForgeries(g genuine) []string {
	var out []string
	replace := func(old, new string) {
		if !strings.Contains(g.payload, old) {
			panic("nothing to replace: " + old)
		}
		out = append(out, forge(g.ring, g.header, strings.Replace(g.payload, old, new, 1)))
	}
	for _, v := range []string{`"Vobo"`, `"vobo "`, `""`, `null`, `["vobo"]`, `1`, `"https://evil.example"`, `"\u0076obo"`} {
		replace(`"iss":"vobo"`, `"iss":`+v)
	}
	for _, v := range []string{
		`"vobo:callback"`, `"vobo:session"`, `"vobo:link "`, `"VOBO:LINK"`, `""`, `null`, `[]`, `["vobo:session"]`, `["vobo:callback"]`, `["vobo:link","vobo:callback"]`,
		`["vobo:link","vobo:link"]`, `[["vobo:link"]]`, `[1]`, `[null]`, `["vobo:link"`, `{"vobo:link":1}`, `1`, `true`, `"\u0076obo:link"`, `"01981f2e-0000-7a40-9d1e-0b5c2f6a8e11"`,
	} {
		replace(`"aud":"vobo:link"`, `"aud":`+v)
	}
	for _, v := range []string{`"1764500000"`, `1764500000.0`, `1.7645e9`, `-1`, `null`, `01764500000`, `+1764500000`, `1764586400`, `99999999999999999999`, `1e99`, `[]`, `true`, ` 1764500000`, ``} {
		replace(`"iat":1764500000`, `"iat":`+v)
	}
	for _, v := range []string{`"2080076000"`, `2080076000.0`, `2.080076e9`, `1e99`, `-2080076000`, `0`, `null`, `1`, `1764499999`, `1764500000`, `2080075999`, `2080076001`, `9223372036854775807`, `9223372036854775808`, `[2080076000]`, `true`, `02080076000`} {
		replace(`"exp":2080076000`, `"exp":`+v)
	}
	jti := g.payload[strings.Index(g.payload, `"jti":"`)+7:]
	jti = jti[:strings.Index(jti, `"`)]
	for _, v := range []string{``, `"`, jti + "=", jti[:42], jti + "A", jti[:42] + "!", jti[:42] + `\n`, jti[:20] + `","jti":"` + jti[20:], jti[:41] + "\u00e9", strings.Repeat("A", 600)} {
		replace(`"jti":"`+jti, `"jti":"`+v)
	}
	for _, v := range []string{`""`, `null`, `1`, `["` + testInstance + `"]`, `"a/b"`, `"a b"`, `"../x"`, `"a\u0000"`, `"` + strings.Repeat("a", 65) + `"`} {
		replace(`"iid":"`+testInstance+`"`, `"iid":`+v)
	}
	for _, v := range []string{`"3"`, `3.0`, `3e0`, `-3`, `null`, `03`, `[]`, ``, `99999999999999999999`} {
		replace(`"inc":3`, `"inc":`+v)
	}
	for _, claim := range []string{`"iss":"vobo",`, `"aud":"vobo:link",`, `"iat":1764500000,`, `"exp":2080076000,`, `"jti":"` + jti + `",`, `"iid":"` + testInstance + `",`, `,"inc":3`} {
		replace(claim, ``)           // missing
		replace(claim, claim+claim)  // twice
		replace(claim, claim[:1]+"") // garbled
	}
	for _, extra := range []string{`,"nbf":4102444800`, `,"nbf":0`, `,"sub":"ana@example.com"`, `,"inc":3`, `,"admin":true`, `,"ISS":"vobo"`, `,"":""`} {
		replace(`"inc":3}`, `"inc":3`+extra+`}`)
	}
	for _, p := range []string{g.payload + " ", " " + g.payload, "\n" + g.payload, g.payload + "{}", g.payload + "\x00", strings.ReplaceAll(g.payload, ",", ", "), strings.ReplaceAll(g.payload, ":", " :"), `{}`, `null`, `[]`, `"x"`, `1`, ``, `{`, strings.Repeat("[", 300), "\xef\xbb\xbf" + g.payload, "\xff\xfe"} {
		out = append(out, forge(g.ring, g.header, p))
	}
	return out
}

// envelopeForgeries: parts, encoding, other keys and other kinds of signatures.
func envelopeForgeries(t *testing.T, g genuine) []string {
	t.Helper()
	h, b, s := g.headerPart, g.bodyPart, g.sign
	out := []string{
		"", ".", "..", "...", h, h + ".", h + "." + b, h + "." + b + ".", "." + b + "." + s, h + ".." + s, h + "." + b + "." + s + ".", h + "." + b + "." + s + "." + s, h + "." + b + "..." + s,
		g.token + "=", g.token + "==", h + "=." + b + "." + s, h + "." + b + "=." + s, g.token + " ", " " + g.token, g.token + "\n", "\n" + g.token, g.token + "\r\n", g.token + "\x00", g.token + "%00", g.token + "%0a", g.token + "/", g.token + "?x", g.token + "A", g.token[:len(g.token)-1],
		h + ".\n" + b + "." + s, h[:10] + "\n" + h[10:] + "." + b + "." + s, h + "." + b[:10] + "\r\n" + b[10:] + "." + s, h + "." + b + "." + s[:10] + "\n" + s[10:],
		strings.ReplaceAll(g.token, ".", ","), strings.ToUpper(g.token), strings.ToLower(g.token), "Bearer " + g.token, g.token + g.token, b + "." + h + "." + s, h + "." + h + "." + s, h + "." + b + "." + b,
		strings.Repeat(".", 1024), strings.Repeat(".", 1<<20), strings.Repeat("A", 1<<20), h + "." + strings.Repeat("A", 1<<20) + "." + s, h + "." + strings.Repeat("A", 900) + "." + s,
		h + "." + b64(strings.Repeat("[", 600)) + "." + s, "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..AAAA.AAAA.AAAA", h + "." + b + "." + strings.Repeat("A", 43), h + "." + b + "." + s[:42] + string(nextChar(s[42])),
		`{"payload":"` + b + `","protected":"` + h + `","signature":"` + s + `"}`, "\u2024" + g.token, strings.ReplaceAll(g.token, ".", "\u2024"),
	}
	other := newRing(t, 21)
	public := newRing(t, 22)
	out = append(out,
		mint(t, other, testNonce(20)), // another environment's ring
		forgeWith(other.active().secret, sha256.New, g.header, g.payload),
		forgeWith(nil, sha256.New, g.header, g.payload), forgeWith([]byte{}, sha256.New, g.header, g.payload),
		forgeWith(make([]byte, 32), sha256.New, g.header, g.payload), forgeWith([]byte("secret"), sha256.New, g.header, g.payload),
		forgeWith([]byte(g.ring.Active()), sha256.New, g.header, g.payload),
		forgeWith(g.ring.active().secret, sha512.New, g.header, g.payload), forgeWith(g.ring.active().secret, sha512.New384, g.header, g.payload), forgeWith(g.ring.active().secret, sha256.New224, g.header, g.payload),
		forgeWith([]byte(base64.RawURLEncoding.EncodeToString(g.ring.active().secret)), sha256.New, g.header, g.payload),
	)
	for _, f := range public.Fingerprints() {
		out = append(out, forgeWith(f.SHA256[:], sha256.New, g.header, g.payload))
	}
	for _, f := range g.ring.Fingerprints() {
		out = append(out, forgeWith(f.SHA256[:], sha256.New, g.header, g.payload)) // what the database remembers
	}
	return append(out, asymmetricForgeries(t, g)...)
}

func nextChar(c byte) byte {
	if c == 'A' {
		return 'B'
	}
	return 'A'
}

// asymmetricForgeries sign with private keys, and with HMAC keyed by their public ones.
func asymmetricForgeries(t *testing.T, g genuine) []string {
	t.Helper()
	random := seeded(23)
	rsaKey, err := rsa.GenerateKey(random, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(random)
	if err != nil {
		t.Fatal(err)
	}
	kid := g.ring.Active()
	var out []string
	for alg, key := range map[string]crypto.Signer{"RS256": rsaKey, "PS256": rsaKey, "ES256": ecKey, "EdDSA": edKey} {
		text := b64(fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, alg, kid)) + "." + g.bodyPart
		sig, err := jwt.GetSigningMethod(alg).Sign(text, key)
		if err != nil {
			t.Fatal(err)
		}
		encoded := base64.RawURLEncoding.EncodeToString(sig)
		out = append(out, text+"."+encoded, g.headerPart+"."+g.bodyPart+"."+encoded)
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		out = append(out, forgeWith(der, sha256.New, g.header, g.payload), forgeWith(asPEM, sha256.New, g.header, g.payload))
	}
	return out
}

// field report B09, guarantee S-09
func TestNoForgedTokenIsAcceptedAndAllGetTheSameAnswer(t *testing.T) {
	t.Parallel()
	g := takeApart(t)
	vectors := append(headerForgeries(g), claimForgeries(g)...)
	vectors = append(vectors, envelopeForgeries(t, g)...)
	seen := map[string]bool{}
	for _, v := range vectors {
		if v == g.token {
			t.Fatalf("vector %d is the genuine token", len(seen))
		}
		seen[v] = true
		c, err := g.ring.Verify(v, AudienceLink)
		if c != nil || err == nil {
			t.Errorf("accepted: %.300q", v)
			continue
		}
		if e := fault.As(err); e.Code != fault.InvalidToken || e.Error() != invalidToken().Error() || e.Cause != nil || len(e.Fields) != 0 {
			t.Errorf("another answer (%v) for %.300q", err, v)
		}
	}
	if _, err := g.ring.Verify(g.token, AudienceLink); err != nil {
		t.Errorf("the genuine token: %v", err)
	}
	t.Logf("0 of %d forged tokens accepted", len(seen))
	if len(seen) < 200 {
		t.Errorf("only %d vectors; the guarantee asks for 200", len(seen))
	}
}

// field report B09: an aud that is an array is read, not skipped.
func TestAnAudienceArrayMustHoldExactlyOneOfOurs(t *testing.T) {
	t.Parallel()
	g := takeApart(t)
	for aud, ok := range map[string]bool{
		`["vobo:link"]`:                         true,
		`["https://elsewhere","vobo:link"]`:     true,
		`["https://elsewhere"]`:                 false,
		`["vobo:callback"]`:                     false,
		`["vobo:callback","vobo:link"]`:         false,
		`[]`:                                    false,
		`["vobo:link"],"aud":["vobo:callback"]`: false,
	} {
		token := forge(g.ring, g.header, strings.Replace(g.payload, `"vobo:link"`, aud, 1))
		if _, err := g.ring.Verify(token, AudienceLink); (err == nil) != ok {
			t.Errorf("aud %s: %v", aud, err)
		}
	}
}

// guarantee S-10
func TestNoBitFlipOfATokenIsAccepted(t *testing.T) {
	t.Parallel()
	r := newRing(t, 30)
	flips := 0
	for n := range uint64(100) {
		token := []byte(mint(t, r, testNonce(n)))
		for i := range token {
			for bit := range 8 {
				token[i] ^= 1 << bit
				if _, err := r.Verify(string(token), AudienceLink); err == nil {
					t.Errorf("token %d passes with bit %d of byte %d flipped", n, bit, i)
				}
				token[i] ^= 1 << bit
				flips++
			}
		}
		if _, err := r.Verify(string(token), AudienceLink); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("0 of %d flips accepted", flips)
}

// guarantee S-10: bad tokens cost little memory.
func TestABadTokenCostsLittleMemory(t *testing.T) {
	r := newRing(t, 31)
	token := mint(t, r, testNonce(1))
	for name, bad := range map[string]string{
		"a megabyte of dots": strings.Repeat(".", 1<<20),
		"bad signature":      token[:len(token)-4] + "AAAA",
		"bad claims":         forge(r, `{"alg":"HS256","kid":"`+r.Active()+`","typ":"JWT"}`, strings.Repeat("[", 500)),
	} {
		const runs = 200
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if _, err := r.Verify(bad, AudienceLink); err == nil {
				t.Fatalf("%s: accepted", name)
			}
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > 64<<10 {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

// guarantee S-10
func FuzzTokenParse(f *testing.F) {
	r := newRing(f, 40)
	good := mint(f, r, testNonce(40))
	f.Add(good)
	f.Add("")
	f.Add("..")
	f.Add(strings.Replace(good, ".", "..", 1))
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, token string) {
		c, err := r.Verify(token, AudienceLink, AudienceCallback)
		if token == good {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if c != nil || fault.CodeOf(err) != fault.InvalidToken {
			t.Fatalf("%q: %v", token, err)
		}
	})
}

// FuzzClaims feeds the reader of claims what a good signature would vouch for.
func FuzzClaims(f *testing.F) {
	r := newRing(f, 41)
	header := `{"alg":"HS256","kid":"` + r.Active() + `","typ":"JWT"}`
	good := mint(f, r, testNonce(41))
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(good, ".")[1])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(payload))
	f.Add(strings.Replace(string(payload), `"vobo:link"`, `["x","vobo:link"]`, 1))
	f.Add(`{"iss":"vobo","aud":[`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := r.Verify(forge(r, header, payload), AudienceLink)
		if err == nil && (c.Audience != AudienceLink || c.Expires != c.IssuedAt+FarCap || !validInstanceID(c.InstanceID) || c.Incarnation < 0) {
			t.Fatalf("%q read as %+v", payload, c)
		}
	})
}
