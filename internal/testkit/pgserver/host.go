package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"syscall"
)

// ErrMissing says that the machine has no PostgreSQL server and how to get one.
var ErrMissing = errors.New(`PostgreSQL is not installed: initdb is neither in PATH nor under /usr/lib/postgresql.
Run one of these, then the tests again:
    sudo apt-get install -y postgresql        (Debian, Ubuntu)
    sudo dnf install -y postgresql-server     (Fedora)
    brew install postgresql@17                (macOS)
or set ` + URLVariable + ` to the URL of a server whose role may create databases`)

// findBinaries returns the folder of the newest initdb that has pg_ctl beside it.
func findBinaries() (string, error) {
	var folders []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(real))
		}
	}
	debian, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	sort.Slice(debian, func(i, j int) bool { return major(debian[i]) > major(debian[j]) })
	for _, folder := range append(folders, debian...) {
		if isFile(filepath.Join(folder, "initdb")) && isFile(filepath.Join(folder, "pg_ctl")) {
			return folder, nil
		}
	}
	return "", ErrMissing
}

// major reads 15 from /usr/lib/postgresql/15/bin; 0 where there is no number.
func major(folder string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	if err != nil {
		return 0
	}
	return n
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// account is the user that a server runs as; nil is the caller itself.
type account struct{ uid, gid uint32 }

// unprivileged returns the account to drop to when the caller is root, else nil:
// PostgreSQL refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			errs = append(errs, err)
			continue
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("PostgreSQL must not run as root and there is no other user to run it: %w", errors.Join(errs...))
}

func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// attributes put a child into a session of its own, so that an interrupt from
// the terminal reaches the tests first, and under the account.
func (a *account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// Keeper is a small process that tidies up when the process that made it ends,
// also by a panic, os.Exit or SIGKILL: it reads a pipe that nobody writes to,
// and the end of its maker is the end of the pipe.
type Keeper struct {
	cmd  *exec.Cmd
	pipe *os.File
}

// RemoveAtExit removes a folder when the calling process ends. Keep the result
// reachable: a collected Keeper acts at once.
func RemoveAtExit(folder string) (*Keeper, error) { return keep(nil, `rm -rf "$1"`, folder) }

func keep(a *account, script string, args ...string) (*Keeper, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a keeper: %w", err)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", "cat >/dev/null; " + script, "sh"}, args...)...)
	cmd.Stdin, cmd.Dir, cmd.SysProcAttr = read, "/", a.attributes()
	if err := errors.Join(cmd.Start(), read.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start a keeper: %w", err), write.Close())
	}
	return &Keeper{cmd: cmd, pipe: write}, nil
}

// Close lets the keeper act now and waits until it has.
func (k *Keeper) Close() error {
	if err := k.pipe.Close(); err != nil {
		return fmt.Errorf("close a keeper: %w", err)
	}
	return k.cmd.Wait()
}
