// The directory that sockets are made in: a descriptor, so that nothing moves
// between two steps, and a lock, so that starts take turns.
//
// SPDX-License-Identifier: Apache-2.0

package unixsock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockWait bounds the wait for others who make or remove sockets in the same
	// directory; each of them needs well under a millisecond.
	lockWait  = 2 * time.Second
	lockRetry = 2 * time.Millisecond
)

// dir is an open directory.
type dir struct {
	path string
	fd   int
}

func openDir(path string) (*dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open directory", Path: path, Err: err}
	}
	return &dir{path: path, fd: fd}, nil
}

// close releases the lock too.
func (d *dir) close() { _ = unix.Close(d.fd) }

// lock takes the directory's flock. flock(2) knows no deadline, hence the retries.
func (d *dir) lock() error {
	deadline := time.Now().Add(lockWait)
	for {
		err := unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock directory %s: %w", d.path, err)
		case time.Now().After(deadline):
			return fmt.Errorf("lock directory %s: another process has held the lock for %v", d.path, lockWait)
		}
		<-time.After(lockRetry)
	}
}

// address is what to bind or connect to for name. A path that does not fit into
// sun_path is reached through the open directory.
func (d *dir) address(name string) string {
	if path := filepath.Join(d.path, name); len(path) <= MaxPath {
		return path
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.fd, name)
}

// makeWay removes a dead socket called name. Anything else there is an error.
func (d *dir) makeWay(name string) error {
	st, err := d.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%w but %s; remove it or choose another path", ErrNotSocket, kind(st.Mode))
	}
	alive, err := d.alive(name)
	if err != nil {
		return err
	}
	if alive {
		return ErrInUse
	}
	return d.remove(name)
}

// rename gives the socket its final name, which nobody may have taken meanwhile.
func (d *dir) rename(from, to string) error {
	err := unix.Renameat2(d.fd, from, d.fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// Not every file system knows the flag; a hard link does not replace either.
		if err = unix.Linkat(d.fd, from, d.fd, to, 0); err == nil {
			return d.remove(from)
		}
	}
	if errors.Is(err, unix.EEXIST) {
		return errors.New("another program has made a file there at the same moment")
	}
	return os.NewSyscallError("rename", err)
}

// remove unlinks name; that it is gone already is no error.
func (d *dir) remove(name string) error {
	err := unix.Unlinkat(d.fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: "remove", Path: filepath.Join(d.path, name), Err: err}
}

func (d *dir) stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, &fs.PathError{Op: "lstat", Path: filepath.Join(d.path, name), Err: err}
	}
	return st, nil
}

func (d *dir) identify(name string) (ID, error) {
	st, err := d.stat(name)
	return ID{Dev: st.Dev, Ino: st.Ino}, err
}

// kind names a file's type for people.
func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFREG:
		return "a regular file"
	}
	return "a special file"
}
