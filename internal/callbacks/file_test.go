package callbacks

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"vobo/internal/fault"
)

// guarantee S-34: keys are made 0600 and never over an existing file.
func TestANewKeyRingFileIsForItsOwnerOnlyAndReplacesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vobo.keys")
	if _, err := LoadKeyRing(path); fault.CodeOf(err) != fault.NotFound || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing ring: %v", err)
	}
	r, err := CreateKeyRingFile(path, seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %04o", info.Mode().Perm())
	}
	if _, err := CreateKeyRingFile(path, seeded(2)); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("creating it again: %v", err)
	}
	loaded, err := LoadKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	if mint(t, loaded, testNonce(1)) != mint(t, r, testNonce(1)) {
		t.Error("the loaded ring signs otherwise")
	}
}

func TestAKeyRingThatOthersMayReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660, 0o644, 0o610, 0o601} {
		path := filepath.Join(t.TempDir(), "vobo.keys")
		if _, err := CreateKeyRingFile(path, seeded(3)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeyRing(path); fault.CodeOf(err) != fault.InvalidInput || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if _, err := LoadKeyRing(t.TempDir()); err == nil {
		t.Error("a folder passes for a key ring")
	}
}

func TestIllFormedRingsAreRefusedWithoutShowingAKey(t *testing.T) {
	t.Parallel()
	secret := base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	other := base64.RawURLEncoding.EncodeToString([]byte("fedcba9876543210fedcba9876543210"))
	weak := base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcde"))
	for name, text := range map[string]string{
		"empty":           "",
		"no magic":        "k1:active:" + secret,
		"only magic":      magic,
		"weak key":        magic + " k1:active:" + weak,
		"no active key":   magic + " k1:retired:" + secret,
		"two active keys": magic + " k1:active:" + secret + " k2:active:" + other,
		"kid twice":       magic + " k1:active:" + secret + " k1:retired:" + other,
		"key twice":       magic + " k1:active:" + secret + " k2:retired:" + secret,
		"unknown status":  magic + " k1:live:" + secret,
		"no status":       magic + " k1:" + secret,
		"bad kid":         magic + ` k"1:active:` + secret,
		"long kid":        magic + " " + strings.Repeat("k", 33) + ":active:" + secret,
		"padding":         magic + " k1:active:" + secret + "=",
		"trailing bits":   magic + " k1:active:" + secret[:len(secret)-1] + "n",
		"bad fingerprint": magic + " k1:active:" + secret + " k2:destroyed:abc",
		"huge":            magic + strings.Repeat(" ", maxRingBytes),
	} {
		_, err := ParseKeyRing([]byte(text))
		if fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), secret[:20]) || strings.Contains(err.Error(), weak[:20]) {
			t.Errorf("%s: the message shows the key: %v", name, err)
		}
	}
	r, err := LoadKeyRing("  " + magic + "  k1:active:" + secret + "  k2:retired:" + other)
	if err != nil || r.Active() != "k1" {
		t.Errorf("an inline ring: %v", err)
	}
}

func TestSavingReplacesTheFileWhollyAndKeepsItsHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "vobo.keys")
	r, err := CreateKeyRingFile(path, seeded(4))
	if err != nil {
		t.Fatal(err)
	}
	k1 := r.Active()
	if err := r.Rotate(seeded(5)); err != nil {
		t.Fatal(err)
	}
	if err := r.Destroy(k1); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.keys")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("left over by a crash"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Save(link); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the symbolic link was replaced (%v)", err)
	}
	loaded, err := LoadKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := loaded.Fingerprints(), r.Fingerprints()
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] || got[0].Status != Destroyed {
		t.Errorf("fingerprints %+v, want %+v", got, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files in the folder (%v)", len(entries), err)
	}
}

func TestWithoutRandomnessThereIsNoKey(t *testing.T) {
	t.Parallel()
	if _, err := NewKeyRing(strings.NewReader("short")); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("short randomness: %v", err)
	}
	path := filepath.Join(t.TempDir(), "vobo.keys")
	if _, err := CreateKeyRingFile(path, iotest.ErrReader(errors.New("no entropy"))); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("no randomness: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was left: %v", err)
	}
}

// field report B10: hot reload.
func TestAHolderTakesUpANewRingAndKeepsTheOldOneWhereTheNewIsBad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vobo.keys")
	r, err := CreateKeyRingFile(path, seeded(6))
	if err != nil {
		t.Fatal(err)
	}
	h := NewHolder(r)
	old := mint(t, r, testNonce(1))
	changed, err := LoadKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := changed.Rotate(seeded(7)); err != nil {
		t.Fatal(err)
	}
	if err := changed.Save(path); err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(path); err != nil {
		t.Fatal(err)
	}
	if h.Ring().Active() == r.Active() {
		t.Error("the rotation was not taken up")
	}
	if _, err := h.Ring().Verify(old, AudienceLink); err != nil {
		t.Errorf("a link under the retired key: %v", err)
	}
	if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	inUse := h.Ring()
	if err := h.Reload(path); err == nil {
		t.Error("a bad ring was taken up")
	}
	if h.Ring() != inUse {
		t.Error("the ring in use was given up for a bad one")
	}
}
