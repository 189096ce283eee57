// Which sockets still have somebody behind them, and the removal of those that
// have not.
//
// SPDX-License-Identifier: Apache-2.0

package unixsock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hiddenAge is how old a hidden socket must be before RemoveStale takes it for
// left over. Listen needs its own for less than a millisecond.
const hiddenAge = 10 * time.Second

// Alive tells whether a process listens on the socket at path: whether connect
// gets through, or would if the backlog were not full. The connection is closed
// at once. A path without a file is not alive. An error means that it can't be
// known, as where connecting is not permitted.
func Alive(path string) (bool, error) {
	dir, err := openDir(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.close()
	return dir.alive(filepath.Base(path))
}

func (d *dir) alive(name string) (bool, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: d.address(name)})
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil,
			errors.Is(err, unix.EAGAIN),     // a full backlog (net/unix/af_unix.c)
			errors.Is(err, unix.EPROTOTYPE): // a datagram socket, bound by somebody
			return true, nil
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
			return false, nil
		}
		return false, fmt.Errorf("see whether %s is served: connect: %w", filepath.Join(d.path, name), err)
	}
}

// RemoveStale removes from the directory the dead sockets whose names begin with
// prefix, and those with a hidden name that Listen makes of such a name if they
// are older than ten seconds. Neither a socket that is served nor any other file
// is touched. It returns the names removed, in order; an error with one file does
// not stop it.
func RemoveStale(directory, prefix string) (removed []string, err error) {
	if prefix == "" {
		return nil, errors.New("remove stale sockets: no prefix given")
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("remove stale sockets: %w", err)
	}
	dir, err := openDir(directory)
	if err != nil {
		return nil, fmt.Errorf("remove stale sockets: %w", err)
	}
	defer dir.close()
	if err := dir.lock(); err != nil {
		return nil, fmt.Errorf("remove stale sockets: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		hidden := strings.HasPrefix(name, "."+prefix)
		if entry.Type() != os.ModeSocket || !hidden && !strings.HasPrefix(name, prefix) {
			continue
		}
		gone, err := dir.removeDead(name, hidden)
		if err != nil {
			errs = append(errs, err)
		}
		if gone {
			removed = append(removed, name)
		}
	}
	return removed, errors.Join(errs...)
}

// removeDead looks once more, now under the lock: the name may mean another file
// than when the directory was read.
func (d *dir) removeDead(name string, hidden bool) (bool, error) {
	st, err := d.stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false, nil
	}
	if hidden && time.Since(time.Unix(st.Mtim.Unix())) < hiddenAge {
		return false, nil
	}
	if alive, err := d.alive(name); alive || err != nil {
		return false, err
	}
	if err := d.remove(name); err != nil {
		return false, err
	}
	return true, nil
}
