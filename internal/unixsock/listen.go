// Package unixsock makes Unix stream sockets safely: one that can be reached is
// never taken from its owner, a dead one never stands in the way, and none is
// open to more users than it should be, not even for a moment.
//
// SPDX-License-Identifier: Apache-2.0
package unixsock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// MaxPath is the longest path in bytes that a socket can have: sun_path holds 108
// with the closing NUL (include/uapi/linux/un.h).
const MaxPath = 107

// What stands in the way of a socket; the errors of Listen wrap them and name
// the path.
var (
	ErrPathTooLong = errors.New("socket path is too long")
	ErrInUse       = errors.New("in use by a living process")
	ErrNotSocket   = errors.New("exists and is not a socket")
)

// Options say who may connect. Connecting needs the write permission.
type Options struct {
	// Mode is the file's permission bits; 0 stands for 0600. The umask has no say.
	Mode fs.FileMode
	// UID and GID own the file; nil leaves the process's own.
	UID, GID *int
}

// ID tells one file from all others that exist at the same time.
type ID struct {
	Dev, Ino uint64
}

// Listener is a listening socket that knows its file.
type Listener struct {
	*net.UnixListener

	path string
	id   ID
	once sync.Once
	err  error
}

// Listen makes a socket at path and listens on it. A dead socket there is
// replaced. A socket that a living process serves gives ErrInUse, any other file
// ErrNotSocket, a path of more than MaxPath bytes ErrPathTooLong.
//
// The socket is bound under a hidden name in the same directory, gets its mode,
// owner and backlog there, and is renamed then: whoever finds path can connect,
// if he may. Starts at the same path take turns by a lock on the directory, which
// is held for a moment only; waiting for it is bounded.
func Listen(path string, opts Options) (*Listener, error) {
	if len(path) > MaxPath {
		return nil, fmt.Errorf("listen on %s: %w: %d bytes, at most %d are possible", path, ErrPathTooLong, len(path), MaxPath)
	}
	l, err := listen(path, opts)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

func listen(path string, opts Options) (*Listener, error) {
	name := filepath.Base(path)
	if name == "." || name == ".." || strings.HasSuffix(path, "/") {
		return nil, errors.New("names a directory")
	}
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.close()
	if err := dir.lock(); err != nil {
		return nil, err
	}
	if err := dir.makeWay(name); err != nil {
		return nil, err
	}

	hidden := hiddenName(name)
	socket, err := dir.bind(hidden, opts)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	id, err := dir.identify(hidden)
	if err == nil {
		err = dir.rename(hidden, name)
	}
	if err != nil {
		return nil, errors.Join(err, dir.remove(hidden))
	}
	generic, err := net.FileListener(socket)
	if err != nil {
		return nil, errors.Join(err, dir.remove(name))
	}
	return &Listener{UnixListener: generic.(*net.UnixListener), path: path, id: id}, nil
}

// hiddenName is a fresh name beginning with ".name.", cut so that it can be bound
// through /proc/self/fd too.
func hiddenName(name string) string {
	return "." + name[:min(len(name), 64)] + "." + rand.Text()[:8]
}

// bind makes a listening socket called name whose file nobody can connect to
// before it has its final mode and owner: until listen, connect is refused.
func (d *dir) bind(name string, opts Options) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), name)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: d.address(name)}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind in %s: %w", d.path, err), socket.Close())
	}
	if err := d.open(fd, name, opts); err != nil {
		return nil, errors.Join(err, socket.Close(), d.remove(name))
	}
	return socket, nil
}

// open gives the bound socket its mode and owner, then lets peers in.
func (d *dir) open(fd int, name string, opts Options) error {
	uid, gid := -1, -1
	if opts.UID != nil {
		uid = *opts.UID
	}
	if opts.GID != nil {
		gid = *opts.GID
	}
	mode := uint32(opts.Mode.Perm())
	if mode == 0 {
		mode = 0o600
	}
	if err := unix.Fchownat(d.fd, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return os.NewSyscallError("chown", err)
	}
	if err := unix.Fchmodat(d.fd, name, mode, 0); err != nil {
		return os.NewSyscallError("chmod", err)
	}
	return os.NewSyscallError("listen", unix.Listen(fd, unix.SOMAXCONN))
}

// Path is where the socket was made.
func (l *Listener) Path() string { return l.path }

// ID identifies the socket's file. It stays the same while l is open.
func (l *Listener) ID() ID { return l.id }

// Present tells whether the file at Path is still this socket's. It is not when
// somebody has removed or replaced it; no peer can find the socket any more then.
func (l *Listener) Present() bool {
	id, err := Identify(l.path)
	return err == nil && id == l.id
}

// Close stops listening and removes the file if it is still this socket's.
// Closing again does nothing and returns what the first call did.
func (l *Listener) Close() error {
	l.once.Do(func() {
		// The file goes first: while the socket is open the kernel can't give its
		// inode number to another file, and nobody finds a dead socket.
		l.err = errors.Join(l.unlink(), l.UnixListener.Close())
	})
	return l.err
}

func (l *Listener) unlink() error {
	dir, err := openDir(filepath.Dir(l.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.close()
	if err := dir.lock(); err != nil {
		return err
	}
	name := filepath.Base(l.path)
	if id, err := dir.identify(name); err != nil || id != l.id {
		return nil
	}
	return dir.remove(name)
}

// Identify returns the identity of the file at path, without following a link.
func Identify(path string) (ID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return ID{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return ID{Dev: st.Dev, Ino: st.Ino}, nil
}
