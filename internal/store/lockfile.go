//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"

	"vobo/internal/fault"
)

// LockFile guards a SQLite file against a second server: it locks PATH.lock until
// release or the end of the process, however that comes. A second holder gets fault
// conflict. Readers and other commands need no lock.
func LockFile(path string) (release func() error, err error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The lock file %s cannot be made. Check that its folder exists and may be written.", name)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		closed := f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fault.New(fault.Conflict, "Another vobo server has the database %s open. Stop it first, or use PostgreSQL to run several.", path), closed)
		}
		return nil, errors.Join(fault.Wrap(err, fault.Unavailable, "The lock file %s cannot be locked. Put the database on a local disk.", name), closed)
	}
	return f.Close, nil
}
