package callbacks

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vobo/internal/fault"
)

func writeFile(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificatePEM makes a certificate and its key.
func certificatePEM(t testing.TB, name string) (certificate, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)
}

func base64Of(n, size int) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(n)}, size))
}

// secretsFolder holds what a file of secrets may name.
func secretsFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	certificate, key := certificatePEM(t, "vobo")
	_, otherKey := certificatePEM(t, "other")
	ca, _ := certificatePEM(t, "authority")
	writeFile(t, filepath.Join(dir, "cert.pem"), certificate, 0o644)
	writeFile(t, filepath.Join(dir, "key.pem"), key, 0o600)
	writeFile(t, filepath.Join(dir, "other-key.pem"), otherKey, 0o600)
	writeFile(t, filepath.Join(dir, "open-key.pem"), key, 0o644)
	writeFile(t, filepath.Join(dir, "ca.pem"), ca, 0o644)
	writeFile(t, filepath.Join(dir, "text.pem"), "not PEM", 0o600)
	writeFile(t, filepath.Join(dir, "empty.pem"), "", 0o600)
	return dir
}

func wholeSecrets() string {
	return "# secrets\n" +
		"signing: [whsec_" + base64Of(1, 32) + ", whsec_" + base64Of(2, 32) + "]\n" +
		"credentials:\n" +
		"  core: {bearer: TOKEN-1}\n" +
		"  bank: {basic: {user: u, password: \"p:ü w\"}}\n" +
		"  erp: {header: {name: X-Api-Key, value: v}}\n" +
		"  gov: {mtls: {certificate: cert.pem, key: key.pem, ca: ca.pem}}\n" +
		"  inner: {mtls: {ca: ca.pem}, bearer: T}\n" +
		"  esign: {bearer: T, signing: [whsk_" + base64Of(3, 32) + "]}\n" +
		"  sign-only: {signing: [whsec_" + base64Of(4, 24) + "]}\n" +
		"sources:\n" +
		"  esign:\n    secrets:\n      - whsec_" + base64Of(5, 32) + "\n      - whsec_" + base64Of(6, 64) + "\n" +
		"  Partner_2: {secrets: [whpk_" + base64Of(7, 32) + "]}\n"
}

func TestAFileOfSecretsHoldsCredentialsKeysAndSources(t *testing.T) {
	t.Parallel()
	dir := secretsFolder(t)
	s, err := LoadSecrets(writeFile(t, filepath.Join(dir, "secrets.yaml"), wholeSecrets(), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	credentials, sources := s.Names()
	if want := []string{"bank", "core", "erp", "esign", "gov", "inner", "sign-only"}; !slices.Equal(credentials, want) {
		t.Errorf("credentials %q", credentials)
	}
	if want := []string{"Partner_2", "esign"}; !slices.Equal(sources, want) {
		t.Errorf("sources %q", sources)
	}
	for name, want := range map[string][2]string{
		"core": {"Authorization", "Bearer TOKEN-1"}, "bank": {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("u:p:ü w"))}, "erp": {"X-Api-Key", "v"}, "gov": {}, "inner": {"Authorization", "Bearer T"}, "sign-only": {},
	} {
		if got := s.Credential(name).Header; got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	gov, inner := s.Credential("gov"), s.Credential("inner")
	if gov.Certificate == nil || gov.RootCAs == nil || inner.Certificate != nil || inner.RootCAs == nil || gov.ID == "" || inner.ID == "" || gov.ID == inner.ID || s.Credential("core").ID != "" {
		t.Errorf("gov %+v, inner %+v", gov, inner)
	}
	if s.Credential("nobody") != nil || s.Source("nobody") != nil {
		t.Error("an unknown name is found")
	}
	for credential, versions := range map[string]string{"": "v1 v1", "core": "v1 v1", "nobody": "v1 v1", "esign": "v1a", "sign-only": "v1"} {
		var got []string
		for word := range strings.FieldsSeq(s.Sign(credential, "w-1", 1, []byte("{}"))) {
			version, _, _ := strings.Cut(word, ",")
			got = append(got, version)
		}
		if strings.Join(got, " ") != versions {
			t.Errorf("%q signs %q, want %q", credential, got, versions)
		}
	}
	for n := 5; n <= 6; n++ {
		secret := bytes.Repeat([]byte{byte(n)}, map[int]int{5: 32, 6: 64}[n])
		sign := SignWebhook([][]byte{secret}, callID, callNow.Unix(), nil)
		if err := s.Source("esign").Verify(callID, stampAt(0), sign, nil, callNow); err != nil {
			t.Errorf("secret %d: %v", n, err)
		}
	}
}

func TestAnEmptyFileOfSecretsHoldsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, text := range []string{"", "\n", "# nothing yet\n", "---\n", "{}\n", "~\n", "signing:\ncredentials: ~\nsources: # none\n"} {
		s, err := LoadSecrets(writeFile(t, filepath.Join(dir, fmt.Sprint(i)), text, 0o600))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if c, names := s.Names(); len(c)+len(names) != 0 || s.Sign("", "w", 1, nil) != "" {
			t.Errorf("%q holds something", text)
		}
	}
	var holder *SecretsHolder
	if holder.Secrets() == nil || holder.Secrets().Sign("x", "w", 1, nil) != "" || (&SecretsHolder{}).Secrets().Source("x") != nil {
		t.Error("a holder of nothing holds something")
	}
}

// badSecrets are files with one thing wrong, and the place that must be named. CANARY
// stands for secrets.
func badSecrets() map[string]string {
	all := badKeys()
	maps.Copy(all, badCredentials())
	maps.Copy(all, badYAML())
	return all
}

func badKeys() map[string]string {
	good := "whsec_" + base64Of(1, 32)
	return map[string]string{
		"signing: [" + good + "]\nCANARY: x":                       ":2:1:",
		"signing: whsec_CANARY":                                    ":1:10:",
		"signing: []":                                              ":1:10:",
		"signing: {a: CANARY}":                                     ":1:10:",
		"signing: [whsec_CANARY]":                                  ":1:11:",
		"signing: [CANARY]":                                        ":1:11:",
		"signing: [whsec_" + base64Of(1, 23) + "]":                 ":1:11:",
		"signing: [whsec_" + base64Of(1, 65) + "]":                 ":1:11:",
		"signing: [whpk_" + base64Of(1, 32) + "]":                  ":1:11:",
		"signing: [whsk_CANARY]":                                   ":1:11:",
		"signing: [whsk_" + base64Of(1, 64) + "]":                  ":1:11:",
		"signing: [" + good + ", " + good + "]":                    "twice",
		"signing: [" + good + ", [CANARY]]":                        "must be a text",
		"signing: [" + strings.Repeat(good+", ", 9) + "]":          ":1:10:",
		"signing: [12345]":                                         ":1:11:",
		"signing: [null]":                                          ":1:11:",
		"signing: [\"\"]":                                          ":1:11:",
		"signing: [!secret CANARY]":                                "tags",
		"signing: [&a CANARY]":                                     "Anchors",
		"sources:\n  s: {}":                                        ":2:6:",
		"sources:\n  s: {secrets: []}":                             ":2:16:",
		"sources:\n  s: {secrets: [CANARY]}":                       ":2:17:",
		"sources:\n  s: {secrets: [whsk_" + base64Of(1, 32) + "]}": ":2:17:",
		"sources:\n  s: {secrets: [whpk_" + base64Of(1, 31) + "]}": ":2:17:",
		"sources:\n  s: {secrets: [whsec_" + base64Of(1, 32) + "], name: CANARY}": "not known",
		"sources:\n  s: [whsec_CANARY]":                                           ":2:6:",
		"signing: [CANARY":                                                        ":",
	}
}

func badCredentials() map[string]string {
	return map[string]string{
		"credentials:\n  CANARY\n":                                                                 ":2:3:",
		"credentials:\n  a b: {bearer: CANARY}":                                                    ":2:3:",
		"credentials:\n  1a: {bearer: CANARY}":                                                     ":2:3:",
		"credentials:\n  a: {bearer: CANARY}\n  a: {bearer: CANARY}":                               ":3:",
		"credentials:\n  a: CANARY":                                                                ":2:6:",
		"credentials:\n  a: {}":                                                                    ":2:6:",
		"credentials:\n  a: {token: CANARY}":                                                       ":2:7:",
		"credentials:\n  a: {bearer: CANARY, basic: {user: u, password: CANARY}}":                  "Only one",
		"credentials:\n  a: {bearer: \"CAN ARY\"}":                                                 ":2:15:",
		"credentials:\n  a: {bearer: \"CANARY\\r\\nX: y\"}":                                        "line break",
		"credentials:\n  a: {bearer: CANARYü}":                                                     "ASCII",
		"credentials:\n  a: {bearer: 12345}":                                                       "quotes",
		"credentials:\n  a: {bearer: true}":                                                        "quotes",
		"credentials:\n  a: {bearer: }":                                                            "quotes",
		"credentials:\n  a: {bearer: \"\"}":                                                        "empty",
		"credentials:\n  a: {bearer: |\n    CANARY\n  }":                                           ":",
		"credentials:\n  a:\n    bearer: |\n      CANARY\n":                                        "line break",
		"credentials:\n  a: {bearer: " + strings.Repeat("CANARY", 1000) + "}":                      "longer",
		"credentials:\n  a: {basic: CANARY}":                                                       ":2:14:",
		"credentials:\n  a: {basic: {user: u}}":                                                    "user and password",
		"credentials:\n  a: {basic: {user: \"u:CANARY\", password: CANARY}}":                       "colon",
		"credentials:\n  a: {basic: {user: u, password: CANARY, realm: CANARY}}":                   "not known",
		"credentials:\n  a: {header: {name: X-Key}}":                                               "name and value",
		"credentials:\n  a: {header: {name: \"X Key\", value: CANARY}}":                            "HTTP",
		"credentials:\n  a: {header: {name: Host, value: CANARY}}":                                 "Name another",
		"credentials:\n  a: {header: {name: Webhook-Signature, value: CANARY}}":                    "Name another",
		"credentials:\n  a: {header: {name: X-Key, value: \" CANARY\"}}":                           "space",
		"credentials:\n  a: {header: {name: X-Key, value: \"CANARY\\nX: y\"}}":                     "line break",
		"credentials:\n  a: {mtls: {certificate: cert.pem}}":                                       "certificate and key",
		"credentials:\n  a: {mtls: {}}":                                                            "certificate and key",
		"credentials:\n  a: {mtls: {certificate: CANARY.pem, key: key.pem}}":                       "does not exist",
		"credentials:\n  a: {mtls: {certificate: cert.pem, key: other-key.pem}}":                   "belong together",
		"credentials:\n  a: {mtls: {certificate: cert.pem, key: open-key.pem}}":                    "chmod 600",
		"credentials:\n  a: {mtls: {certificate: text.pem, key: key.pem}}":                         "not PEM",
		"credentials:\n  a: {mtls: {certificate: empty.pem, key: key.pem}}":                        "empty",
		"credentials:\n  a: {mtls: {certificate: ., key: key.pem}}":                                "not a file",
		"credentials:\n  a: {mtls: {certificate: cert.pem, key: key.pem, ca: text.pem}}":           "no certificate",
		"credentials:\n  a: {mtls: {certificate: \"-----BEGIN CERTIFICATE----- CANARY\", key: x}}": "does not exist",
	}
}

func badYAML() map[string]string {
	good := "whsec_" + base64Of(1, 32)
	return map[string]string{
		"unknown: 1": ":1:1:",
		"signing: &a [" + good + "]\ncredentials: *a": "aliases",
		"CANARY":                  ":1:1:",
		"- CANARY":                ":1:1:",
		"credentials: [CANARY]":   ":1:14:",
		"signing: \"CANARY":       ":",
		"signing: 'CANARY' x":     ":",
		"a: b: CANARY":            ":",
		"\tCANARY: x":             ":",
		"CANARY: \x00":            ":",
		"CANARY: \xff\xfe":        ":",
		"? {CANARY: x}\n: y":      "text",
		"<<: {CANARY: x}":         ":1:1:",
		"signing: *CANARY":        ":",
		"{}\n---\nCANARY: x":      "second",
		"# x\n%YAML 1.2\n---\n{}": ":2:1:",
		"%TAG ! CANARY\n---\n{}":  ":",
		"credentials: " + strings.Repeat("[", 100) + "CANARY":                                   ":",
		"credentials: {a: {bearer: x}, b: {bearer: x}}\n" + strings.Repeat("#CANARY\n", 40<<10): "larger",
	}
}

func TestABadFileOfSecretsNamesLineAndColumnAndShowsNoSecret(t *testing.T) {
	t.Parallel()
	dir := secretsFolder(t)
	for text, want := range badSecrets() {
		_, err := LoadSecrets(writeFile(t, filepath.Join(dir, "secrets.yaml"), text, 0o600))
		if fault.CodeOf(err) != fault.InvalidInput || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "secrets.yaml:") {
			t.Errorf("%.80q: %v, want %q", text, err, want)
			continue
		}
		if strings.Contains(strings.ToUpper(err.Error()), "CANARY") || strings.Contains(err.Error(), "whsec_"+base64Of(1, 4)[:4]) {
			t.Errorf("%.80q: the message shows a secret: %v", text, err)
		}
	}
	t.Logf("%d bad files", len(badSecrets()))
}

func TestAllErrorsOfAFileOfSecretsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	text := "signing: [whsec_CANARY]\ncredentials:\n  a: {bearer: \"CAN ARY\"}\n  b: {}\n  c: {header: {name: Host, value: CANARY}, signing: [CANARY]}\nsources:\n  s: {secrets: [CANARY, CANARY2]}\nextra: 1\n"
	path := writeFile(t, filepath.Join(t.TempDir(), "secrets.yaml"), text, 0o600)
	_, err := LoadSecrets(path)
	if err == nil {
		t.Fatal("it was taken")
	}
	var places []string
	for line := range strings.SplitSeq(fault.As(err).Message, "\n") {
		place, _, _ := strings.Cut(strings.TrimPrefix(line, path+":"), ": ")
		places = append(places, place)
	}
	slices.Sort(places)
	if want := []string{"1:11", "3:15", "4:6", "5:22", "5:54", "7:17", "7:25", "8:1"}; !slices.Equal(places, want) {
		t.Errorf("errors at %q, want %q:\n%s", places, want, fault.As(err).Message)
	}
}

func TestAFileOfSecretsThatOthersMayReadIsRefused(t *testing.T) {
	t.Parallel()
	dir := secretsFolder(t)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o660: false, 0o666: false, 0o601: false} {
		_, err := LoadSecrets(writeFile(t, filepath.Join(dir, fmt.Sprintf("%o", mode)), wholeSecrets(), mode))
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	for _, path := range []string{"", dir, filepath.Join(dir, "missing")} {
		if _, err := LoadSecrets(path); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// The transport of a credential is kept by its ID: it must change with what it stands for.
func TestTheIDOfACredentialFollowsItsFiles(t *testing.T) {
	t.Parallel()
	dir := secretsFolder(t)
	path := writeFile(t, filepath.Join(dir, "secrets.yaml"), "credentials: {gov: {mtls: {certificate: cert.pem, key: key.pem, ca: ca.pem}}}", 0o600)
	id := func() string {
		s, err := LoadSecrets(path)
		if err != nil {
			t.Fatal(err)
		}
		return s.Credential("gov").ID
	}
	first := id()
	if again := id(); again != first {
		t.Errorf("unchanged files: %s, then %s", first, again)
	}
	ca, _ := certificatePEM(t, "new authority")
	writeFile(t, filepath.Join(dir, "ca.pem"), ca, 0o644)
	second := id()
	certificate, key := certificatePEM(t, "vobo")
	writeFile(t, filepath.Join(dir, "cert.pem"), certificate, 0o644)
	writeFile(t, filepath.Join(dir, "key.pem"), key, 0o600)
	if third := id(); second == first || third == second || third == first {
		t.Errorf("IDs %s, %s, %s", first, second, third)
	}
}

func TestSecretsAreReplacedWhileCallsRun(t *testing.T) {
	t.Parallel()
	var holder SecretsHolder
	older := &Secrets{signing: []signingKey{{secret: bytes.Repeat([]byte{1}, 32)}}}
	newer := &Secrets{signing: []signingKey{{secret: bytes.Repeat([]byte{2}, 32)}}}
	holder.Set(older)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 200 {
				if got := holder.Secrets(); got != older && got != newer {
					t.Error("secrets from nowhere")
				}
			}
		})
	}
	holder.Set(newer)
	calls.Wait()
	if holder.Secrets() != newer {
		t.Error("the new ones are not used")
	}
}

func FuzzSecretsFile(f *testing.F) {
	f.Add(wholeSecrets())
	for text := range badSecrets() {
		if len(text) < 1<<10 {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &secretsReader{path: "secrets.yaml"}
		s := r.read([]byte(text))
		for _, complaint := range r.complaints {
			for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(" \n\t{}[]:,\"'", c) }) {
				if len(word) > 24 && strings.Contains(complaint, word) {
					t.Fatalf("%q shows %q", complaint, word)
				}
			}
		}
		if len(r.complaints) > 0 {
			return
		}
		credentials, sources := s.Names()
		for _, name := range credentials {
			if c := s.Credential(name); strings.ContainsAny(c.Header[0]+c.Header[1], "\r\n\x00") || c.Header[0] == "" && c.ID == "" && len(c.signing) == 0 {
				t.Fatalf("credential %q of %q: %q", name, text, c.Header)
			}
		}
		for _, name := range sources {
			if len(s.Source(name).keys) == 0 {
				t.Fatalf("source %q of %q has no key", name, text)
			}
		}
	})
}
