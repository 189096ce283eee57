// One open directory of the tree, and the texts and links in it.
//
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"path"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// MaxText is the longest text in bytes that is read: sysfs gives a page.
const MaxText = 4096

// Dir is an open directory. Several goroutines may use it, but only one lists its
// names.
type Dir struct {
	root *Root
	fd   int
	path string
}

// Path is the directory's canonical path in the tree.
func (d *Dir) Path() string { return d.path }

// Close closes the directory.
func (d *Dir) Close() { _ = unix.Close(d.fd) }

// Open opens the directory called name, which may have several elements, without
// following links.
func (d *Dir) Open(name string) (*Dir, error) {
	fd, err := d.root.open(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, d.root.pathError("open", path.Join(d.path, name), err)
	}
	return &Dir{root: d.root, fd: fd, path: d.path + "/" + name}, nil
}

// buffer takes what one system call returns.
type buffer [8192]byte

// buffers are kept: on the stack they would make each reader's stack grow.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// Text returns the content of the file called name, without the newline at its
// end. The file may be in a directory below; no link is followed. The error does
// not name the file: most are of attributes that may well be absent.
func (d *Dir) Text(name string) (string, error) {
	fd, err := d.root.open(d.fd, name, unix.O_RDONLY)
	return text(fd, err)
}

// Text returns the content of the file at the canonical path p, as Dir.Text.
func (r *Root) Text(p string) (string, error) {
	fd, err := r.open(r.fd, clean(p), unix.O_RDONLY)
	return text(fd, err)
}

// text reads what was opened and closes it.
func text(fd int, err error) (string, error) {
	if err == unix.ELOOP {
		return "", ErrNotRegular
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	// One read gets it all: kernfs answers each read with the whole text, and a
	// regular file is shorter only at its end.
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	n, err := unix.Read(fd, buf[:MaxText+1])
	for err == unix.EINTR {
		n, err = unix.Read(fd, buf[:MaxText+1])
	}
	switch {
	case n > MaxText:
		return "", ErrTooLong
	case n <= 0 && !regular(fd):
		return "", ErrNotRegular
	case err != nil:
		return "", err
	}
	return line(buf[:n])
}

// regular tells a regular file from a FIFO, a directory or a device, which have
// nothing to say when they are not waited for. It is asked only about files that
// gave no text: it costs as much as the read.
func regular(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// line takes the one line of text out of what the kernel printed.
func line(b []byte) (string, error) {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	for rest := b; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return "", ErrNotText
		}
		rest = rest[size:]
	}
	return string(b), nil
}

// Link returns where the link called name leads, as Root.Link.
func (d *Dir) Link(name string) (string, error) {
	return d.root.link(d.fd, name, d.path)
}

// Stat is lstat(2) of the entry called name.
func (d *Dir) Stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, d.root.pathError("lstat", path.Join(d.path, name), err)
	}
	return st, nil
}

// Exists tells whether there is something at p, a canonical path.
func (r *Root) Exists(p string) bool {
	var st unix.Stat_t
	return unix.Fstatat(r.fd, clean(p), &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}
