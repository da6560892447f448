package callbacks

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	yaml "go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"vobo/internal/fault"
)

// Limits of the file of secrets.
const (
	maxSecretsBytes = 256 << 10
	maxSecretsDepth = 16
	maxSecretNames  = 1000
	maxKeysInUse    = 8    // of one list: two while they are exchanged, and some room
	maxHeaderSecret = 4096 // bytes of a token, password or header
	maxPEMBytes     = 1 << 20
	maxComplaints   = 50
)

// LoadSecrets reads the file at path, which only its owner may read (0600). Files that
// it names lie beside it. Fault invalid-input tells everything that is wrong, one
// PATH:LINE:COLUMN a line, and never shows what the file holds.
func LoadSecrets(path string) (*Secrets, error) {
	b, err := readPrivate(path, "file of webhook secrets", maxSecretsBytes)
	if err != nil {
		return nil, err
	}
	r := &secretsReader{path: path}
	s := r.read(b)
	if len(r.complaints) > 0 {
		return nil, fault.New(fault.InvalidInput, "%s", strings.Join(r.complaints, "\n"))
	}
	return s, nil
}

// secretsReader reads one file. Its words never quote the file: what stands in the
// wrong place may be a secret.
type secretsReader struct {
	path       string
	complaints []string
}

func (r *secretsReader) complain(n *yaml.Node, format string, args ...any) {
	line, column := 1, 1
	if n != nil {
		line, column = max(n.Line, 1), max(n.Column, 1)
	}
	r.complainAt(line, column, format, args...)
}

func (r *secretsReader) complainAt(line, column int, format string, args ...any) {
	if len(r.complaints) < maxComplaints {
		r.complaints = append(r.complaints, fmt.Sprintf("%s:%d:%d: ", r.path, line, column)+fmt.Sprintf(format, args...))
	}
}

func (r *secretsReader) read(b []byte) *Secrets {
	s := &Secrets{credentials: map[string]*Credential{}, sources: map[string]*Source{}}
	if len(b) > maxSecretsBytes {
		r.complain(nil, "The file is larger than %d KiB.", maxSecretsBytes>>10)
		return s
	}
	if i := bytes.Index(append([]byte("\n"), b...), []byte("\n%")); i >= 0 {
		r.complainAt(1+bytes.Count(b[:i], []byte("\n")), 1, "YAML directives are not allowed. Leave the line out.")
		return s
	}
	root := r.document(b)
	if root == nil {
		return s
	}
	parts := r.fields(root, "signing", "credentials", "sources")
	for name, n := range parts {
		if isNull(n) {
			delete(parts, name) // a heading of which every entry is commented out
		}
	}
	s.signing = r.signing(parts["signing"])
	r.named(parts["credentials"], func(name string, n *yaml.Node) {
		if c := r.credential(n); c != nil {
			s.credentials[name] = c
		}
	})
	r.named(parts["sources"], func(name string, n *yaml.Node) {
		if source := r.source(n); source != nil {
			s.sources[name] = source
		}
	})
	return s
}

// document returns the root of the one document; nil where there is none, which is an
// error unless the file is empty.
func (r *secretsReader) document(b []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(b),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxSecretsDepth), loaderlimits.AliasNone())))
	if err != nil {
		r.notYAML(err)
		return nil
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.notYAML(err)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		r.complain(&second, "A second YAML document begins here. Write everything in one.")
		return nil
	case !errors.Is(err, io.EOF):
		r.notYAML(err)
		return nil
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return nil
	}
	if root := document.Content[0]; !isNull(root) {
		return root
	}
	return nil
}

// isNull tells a value that is left out, or a plain null.
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}

// notYAML tells where reading failed. The reader's own words may quote the file.
func (r *secretsReader) notYAML(err error) {
	line, column := 1, 1
	var one *yaml.LoadError
	var several *yaml.LoadErrors
	if errors.As(err, &several) && len(several.Errors) > 0 {
		one = several.Errors[0]
	} else if !errors.As(err, &one) {
		one = nil
	}
	if one != nil {
		line, column = max(one.Mark.Line, 1), max(one.Mark.Column, 1)
	}
	r.complainAt(line, column, "This is not YAML, or YAML with aliases or nested too deep. Look at quotes, colons and indentation.")
}

// plain tells whether a node has neither anchor nor tag, and complains if it has.
func (r *secretsReader) plain(n *yaml.Node) bool {
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || n.Kind == yaml.AliasNode {
		r.complain(n, "Anchors, aliases and tags are not allowed. Write the value out.")
		return false
	}
	return true
}

// pairs calls f for each key and value of a mapping; no key stands twice.
func (r *secretsReader) pairs(n *yaml.Node, f func(key, value *yaml.Node)) {
	if n == nil || !r.plain(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.complain(n, "Names with values must stand here.")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !r.plain(key):
		case key.Kind != yaml.ScalarNode:
			r.complain(key, "A name must be a text.")
		case seen[key.Value]:
			r.complain(key, "This name stands here twice.")
		default:
			seen[key.Value] = true
			f(key, value)
		}
	}
}

// fields returns the values of a mapping that has no other names than these.
func (r *secretsReader) fields(n *yaml.Node, allowed ...string) map[string]*yaml.Node {
	found := map[string]*yaml.Node{}
	known := "only " + allowed[0] + " may"
	if last := len(allowed) - 1; last > 0 {
		known = strings.Join(allowed[:last], ", ") + " and " + allowed[last] + " may"
	}
	r.pairs(n, func(key, value *yaml.Node) {
		for _, name := range allowed {
			if key.Value == name {
				found[name] = value
				return
			}
		}
		r.complain(key, "This name is not known here: %s stand here.", known)
	})
	return found
}

// secretName is what the definition language takes for the name of a credential or source.
var secretName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

func (r *secretsReader) named(n *yaml.Node, f func(name string, value *yaml.Node)) {
	count := 0
	r.pairs(n, func(key, value *yaml.Node) {
		count++
		switch {
		case count == maxSecretNames+1:
			r.complain(key, "There are more than %d names.", maxSecretNames)
		case count > maxSecretNames:
		case !secretName.MatchString(key.Value):
			r.complain(key, "A name begins with a letter and has at most 63 letters, digits, hyphens and underscores.")
		default:
			f(key.Value, value)
		}
	})
}

// text returns a text of visible characters, not empty and not too long; ok is false
// after a complaint.
func (r *secretsReader) text(n *yaml.Node, what string) (_ string, ok bool) {
	switch {
	case n == nil:
		return "", false
	case !r.plain(n):
		return "", false
	case n.Kind != yaml.ScalarNode, n.ShortTag() != "!!str":
		r.complain(n, "%s must be a text. Put it in quotes.", what)
		return "", false
	case n.Value == "":
		r.complain(n, "%s is empty.", what)
		return "", false
	case len(n.Value) > maxHeaderSecret:
		r.complain(n, "%s is longer than %d bytes.", what, maxHeaderSecret)
		return "", false
	}
	for _, c := range []byte(n.Value) {
		if c < ' ' || c == 0x7f {
			r.complain(n, "%s holds a control character or a line break.", what)
			return "", false
		}
	}
	return n.Value, true
}

// keys reads a list of keys with parse, each once.
func (r *secretsReader) keys(n *yaml.Node, parse func(text string) error) {
	if n == nil || !r.plain(n) {
		return
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxKeysInUse {
		r.complain(n, "A list of 1 to %d keys must stand here.", maxKeysInUse)
		return
	}
	seen := map[string]bool{}
	for _, item := range n.Content {
		text, ok := r.text(item, "A key")
		switch {
		case !ok:
		case seen[text]:
			r.complain(item, "This key stands here twice.")
		default:
			seen[text] = true
			if err := parse(text); err != nil {
				r.complain(item, "%s", fault.As(err).Message)
			}
		}
	}
}

func (r *secretsReader) signing(n *yaml.Node) []signingKey {
	var keys []signingKey
	r.keys(n, func(text string) error {
		key, err := parseSigningKey(text)
		keys = append(keys, key)
		return err
	})
	return keys
}

func (r *secretsReader) source(n *yaml.Node) *Source {
	fields := r.fields(n, "secrets")
	if fields["secrets"] == nil {
		r.complain(n, "A source needs secrets: a list of keys whsec_… or whpk_….")
		return nil
	}
	source := &Source{}
	r.keys(fields["secrets"], func(text string) error {
		key, err := parseVerifyKey(text)
		source.keys = append(source.keys, key)
		return err
	})
	return source
}

func (r *secretsReader) credential(n *yaml.Node) *Credential {
	fields := r.fields(n, "bearer", "basic", "header", "mtls", "signing")
	c := &Credential{signing: r.signing(fields["signing"])}
	kinds := 0
	for _, kind := range []struct {
		name string
		read func(*Credential, *yaml.Node)
	}{{"bearer", r.bearer}, {"basic", r.basic}, {"header", r.header}} {
		if value := fields[kind.name]; value != nil {
			if kinds++; kinds > 1 {
				r.complain(value, "Only one of bearer, basic and header may stand here.")
				continue
			}
			kind.read(c, value)
		}
	}
	if fields["mtls"] != nil {
		r.mtls(c, fields["mtls"])
	}
	if len(fields) == 0 {
		r.complain(n, "A credential needs at least one of bearer, basic, header, mtls and signing.")
	}
	return c
}

func (r *secretsReader) bearer(c *Credential, n *yaml.Node) {
	token, ok := r.text(n, "The token")
	if !ok {
		return
	}
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			r.complain(n, "The token holds a space or a character outside ASCII.")
			return
		}
	}
	c.Header = [2]string{"Authorization", "Bearer " + token}
}

func (r *secretsReader) basic(c *Credential, n *yaml.Node) {
	fields := r.fields(n, "user", "password")
	if fields["user"] == nil || fields["password"] == nil {
		r.complain(n, "basic needs user and password.")
		return
	}
	user, ok := r.text(fields["user"], "The user")
	password, good := r.text(fields["password"], "The password")
	switch {
	case !ok || !good:
	case strings.Contains(user, ":"):
		r.complain(fields["user"], "The user holds a colon, which basic cannot carry (RFC 7617).")
	default:
		c.Header = [2]string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
	}
}

var headerToken = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")

// reservedHeader tells the headers that the service sets, or that change what a request is.
func reservedHeader(name string) bool {
	switch name = strings.ToLower(name); name {
	case "host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
		"keep-alive", "accept-encoding", "idempotency-key", "vobo-attempt":
		return true
	}
	return strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "proxy-")
}

func (r *secretsReader) header(c *Credential, n *yaml.Node) {
	fields := r.fields(n, "name", "value")
	if fields["name"] == nil || fields["value"] == nil {
		r.complain(n, "header needs name and value.")
		return
	}
	name, ok := r.text(fields["name"], "The header's name")
	value, good := r.text(fields["value"], "The header's value")
	switch {
	case !ok || !good:
	case !headerToken.MatchString(name):
		r.complain(fields["name"], "The header's name has a character that HTTP does not allow.")
	case reservedHeader(name):
		r.complain(fields["name"], "The service sets this header itself. Name another.")
	case strings.TrimSpace(value) != value:
		r.complain(fields["value"], "The header's value begins or ends with a space.")
	default:
		c.Header = [2]string{name, value}
	}
}

func (r *secretsReader) mtls(c *Credential, n *yaml.Node) {
	fields := r.fields(n, "certificate", "key", "ca")
	if (fields["certificate"] == nil) != (fields["key"] == nil) || len(fields) == 0 {
		r.complain(n, "mtls needs certificate and key (files in PEM), and may name ca, who signed the receiver's certificate.")
		return
	}
	certificate, ca := r.pem(fields["certificate"], "certificate", false), r.pem(fields["ca"], "CA certificate", false)
	key := r.pem(fields["key"], "key", true)
	if certificate != nil && key != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			r.complain(fields["certificate"], "The certificate and the key are not PEM, or do not belong together.")
		}
		c.Certificate = &pair
	}
	if ca != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			r.complain(fields["ca"], "The CA file holds no certificate in PEM.")
		}
	}
	sum := sha256.New()
	for _, part := range [][]byte{certificate, ca} {
		fmt.Fprintf(sum, "%d:", len(part))
		sum.Write(part)
	}
	c.ID = hex.EncodeToString(sum.Sum(nil)[:16])
}

// pem reads a file that the file of secrets names. Its path is not shown: it may be a
// secret that stands in the wrong place.
func (r *secretsReader) pem(n *yaml.Node, what string, private bool) []byte {
	path, ok := r.text(n, "The path of the "+what)
	if !ok {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(r.path), path)
	}
	b, problem := readPEM(path, private)
	if problem != "" {
		r.complain(n, "The %s file %s.", what, problem)
	}
	return b
}

func readPEM(path string, private bool) (_ []byte, problem string) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "does not exist; the path is seen from the folder of this file"
	}
	if err != nil {
		return nil, "cannot be opened"
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return nil, "is not a file"
	case private && info.Mode().Perm()&0o077 != 0:
		return nil, "may be read by others; run chmod 600 on it"
	}
	b, err := io.ReadAll(io.LimitReader(f, maxPEMBytes+1))
	if err != nil || len(b) == 0 || len(b) > maxPEMBytes {
		return nil, "is empty, larger than 1 MiB, or cannot be read"
	}
	return b, ""
}
