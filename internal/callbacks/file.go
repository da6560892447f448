package callbacks

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vobo/internal/fault"
)

// magic begins every written key ring. What does not begin with it is a path.
const magic = "vobo-keys-v1"

// maxRingBytes bounds what is read of a key ring.
const maxRingBytes = 64 << 10

const fileComment = "# Keys of Vobo's links. Whoever has them and the database can decide for others: keep this file secret.\n"

// ParseKeyRing reads a key ring as Save writes it: the word vobo-keys-v1, then one
// entry kid:status:key per key, parted by white space, the oldest first; key is
// base64url (of a destroyed key: the SHA-256 of what it was, in hex). Lines that
// begin with # are comments. It refuses with fault.InvalidInput: keys below 32
// bytes, a ring without exactly one active key, anything twice, anything unknown.
// Its messages never show a key.
func ParseKeyRing(b []byte) (*Ring, error) {
	if len(b) > maxRingBytes {
		return nil, fault.New(fault.InvalidInput, "The key ring is larger than %d KiB.", maxRingBytes>>10)
	}
	var words []string
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			words = append(words, strings.Fields(line)...)
		}
	}
	if len(words) == 0 || words[0] != magic {
		return nil, fault.New(fault.InvalidInput, "This is no key ring: it does not begin with %s.", magic)
	}
	if len(words)-1 > maxKeys {
		return nil, fault.New(fault.InvalidInput, "The key ring holds %d keys; at most %d are allowed.", len(words)-1, maxKeys)
	}
	r := &Ring{byHeader: map[string]*key{}}
	active := 0
	for i, word := range words[1:] {
		k, err := parseEntry(word)
		if err != nil {
			return nil, fault.New(fault.InvalidInput, "Entry %d of the key ring: %s.", i+1, err)
		}
		if err := r.admissible(k); err != nil {
			return nil, err
		}
		if k.status == Active {
			active++
		}
		r.add(k)
	}
	if active != 1 {
		return nil, fault.New(fault.InvalidInput, "The key ring has %d active keys; it needs exactly one.", active)
	}
	return r, nil
}

func parseEntry(word string) (*key, error) {
	parts := strings.Split(word, ":")
	if len(parts) != 3 {
		return nil, errors.New("not of the form kid:status:key")
	}
	kid, status, text := parts[0], Status(parts[1]), parts[2]
	if !validKid(kid) {
		return nil, errors.New("the key's id is not 1 to 32 letters, digits, - or _")
	}
	switch status {
	case Active, Retired:
		secret, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("key %s is not base64url without padding", kid)
		}
		if len(secret) < KeySize {
			return nil, fmt.Errorf("key %s has %d bytes; at least %d are needed", kid, len(secret), KeySize)
		}
		return newKey(kid, status, secret, sha256.Sum256(secret)), nil
	case Destroyed:
		var sum [32]byte
		if n, err := hex.Decode(sum[:], []byte(text[:min(len(text), 64)])); err != nil || n != 32 || len(text) != 64 {
			return nil, fmt.Errorf("destroyed key %s has no SHA-256 of 64 hex digits", kid)
		}
		return newKey(kid, status, nil, sum), nil
	}
	return nil, fmt.Errorf("key %s has a status that is not active, retired or destroyed", kid)
}

func validKid(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlnum(c) && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// text is the written form of the ring; ParseKeyRing reads it.
func (r *Ring) text() []byte {
	var b bytes.Buffer
	b.WriteString(magic + "\n")
	for _, k := range r.keys {
		value := hex.EncodeToString(k.sum[:])
		if k.status != Destroyed {
			value = base64.RawURLEncoding.EncodeToString(k.secret)
		}
		fmt.Fprintf(&b, "%s:%s:%s\n", k.kid, k.status, value)
	}
	return b.Bytes()
}

// LoadKeyRing reads a key ring given inline (it begins with vobo-keys-v1) or as the
// path of a file, which must be a regular file that only its owner may read. A
// missing file is fault.NotFound (and errors.Is fs.ErrNotExist); a readable-by-others
// or ill-formed one is fault.InvalidInput.
func LoadKeyRing(pathOrInline string) (*Ring, error) {
	if IsInline(pathOrInline) {
		return ParseKeyRing([]byte(pathOrInline))
	}
	b, err := readSecretFile(pathOrInline)
	if err != nil {
		return nil, err
	}
	r, err := ParseKeyRing(b)
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidInput, "Key ring %s: %s", pathOrInline, fault.As(err).Message)
	}
	return r, nil
}

// IsInline tells whether a setting holds a key ring itself and not a path.
func IsInline(pathOrInline string) bool {
	return strings.HasPrefix(strings.TrimSpace(pathOrInline), magic)
}

func readSecretFile(path string) ([]byte, error) {
	if path == "" {
		return nil, fault.New(fault.InvalidInput, "No key ring is named. Set VOBO_KEYRING to a file.")
	}
	b, err := readPrivate(path, "key ring", maxRingBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(err, fault.NotFound, "There is no key ring at %s.", path)
	}
	return b, err
}

// readPrivate reads a file, of which what says what it is, that only its owner may
// read; at most one byte more than limit. fault.InvalidInput.
func readPrivate(path, what string, limit int64) (_ []byte, err error) {
	unreadable := func(err error) error {
		return fault.Wrap(err, fault.InvalidInput, "The %s %s cannot be read.", what, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.InvalidInput, "The %s %s is not a file.", what, path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fault.New(fault.InvalidInput, "Others may read the %s %s (mode %04o). Run: chmod 600 %s", what, path, mode, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, unreadable(err)
	}
	return b, nil
}

// CreateKeyRingFile makes a ring of one new key and writes it to path, which must not
// exist (else fault.Conflict). The file is readable by its owner only and is on disk,
// with its folder's entry, when this returns: a token is never issued under a key
// that a crash could lose.
func CreateKeyRingFile(path string, rand io.Reader) (*Ring, error) {
	r, err := NewKeyRing(rand)
	if err != nil {
		return nil, err
	}
	if err := writeNew(path, append([]byte(fileComment), r.text()...)); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fault.Wrap(err, fault.Conflict, "There is a key ring at %s already.", path)
		}
		return nil, fault.Wrap(err, fault.InvalidInput, "The key ring %s cannot be written.", path)
	}
	return r, nil
}

// Save replaces the file at path by this ring, atomically: a reader, or a crash, sees
// the old ring or the new one. A symbolic link is followed, not replaced.
func (r *Ring) Save(path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	temp := path + ".new"
	// A left-over of a crash between write and rename holds nothing that is in use.
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.InvalidInput, "The key ring %s cannot be written.", path)
	}
	if err := writeNew(temp, append([]byte(fileComment), r.text()...)); err != nil {
		return fault.Wrap(err, fault.InvalidInput, "The key ring %s cannot be written.", path)
	}
	if err := os.Rename(temp, path); err != nil {
		return fault.Wrap(errors.Join(err, os.Remove(temp)), fault.InvalidInput, "The key ring %s cannot be replaced.", path)
	}
	if err := syncFolder(path); err != nil {
		return fault.Wrap(err, fault.InvalidInput, "The key ring %s may not outlive a power cut.", path)
	}
	return nil
}

// writeNew writes a file that did not exist, mode 0600, and syncs it and its folder;
// where it fails it leaves no file of its own behind.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return syncFolder(path)
}

func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
