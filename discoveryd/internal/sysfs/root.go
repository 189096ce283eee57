// Package sysfs reads small kernel text from a tree that may be the kernel's own
// or a recorded one, and that is not trusted: no read is longer than a page, no
// link leads out of the tree, nothing but a regular file is read, and a loop of
// links ends with an error.
//
// SPDX-License-Identifier: Apache-2.0
package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// SysfsMagic is what statfs(2) says of a mounted sysfs (include/uapi/linux/magic.h).
const SysfsMagic = unix.SYSFS_MAGIC

var (
	// ErrOutside is a link that leads out of the tree.
	ErrOutside = errors.New("link leads out of the tree")
	// ErrNotRegular is a directory, FIFO, device or link where a text was looked for.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLong is a text longer than MaxText or a directory with more than
	// MaxNames entries.
	ErrTooLong = errors.New("too long")
	// ErrNotText is a content that is not one line of printable UTF-8.
	ErrNotText = errors.New("not one line of text")
)

// maxLinks is how many links one path may lead through, as in the kernel's own
// path lookup (MAXSYMLINKS).
const maxLinks = 40

// Root is a tree. Paths are relative to it, with slashes, and canonical where
// nothing else is said: without links, "." and "..". Its methods may be used by
// several goroutines; Close only when all are done.
type Root struct {
	path string
	fd   int
	// openat2 is false where the kernel (before 5.6) or a seccomp profile lacks it.
	openat2 bool
	starved atomic.Pointer[error]
}

// Starved returns the first error that told of this process or the host, which has run
// out of files or memory, and not of the tree: what was read since is not to be
// believed. It is nil as a rule.
func (r *Root) Starved() error {
	if err := r.starved.Load(); err != nil {
		return *err
	}
	return nil
}

// Starving tells whether err is one that Starved returns.
func Starving(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// Open opens the tree at dir, which may itself be a link.
func Open(dir string) (*Root, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	r := &Root{path: dir, fd: fd}
	probe, err := unix.Openat2(fd, ".", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if r.openat2 = err == nil; r.openat2 {
		_ = unix.Close(probe)
	}
	if Starving(err) {
		r.starved.Store(&err)
	}
	return r, nil
}

// Close closes the tree.
func (r *Root) Close() error { return unix.Close(r.fd) }

// Live tells whether the tree is a mounted sysfs, not a recorded one.
func (r *Root) Live() (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(r.fd, &st); err != nil {
		return false, &fs.PathError{Op: "statfs", Path: r.path, Err: err}
	}
	return st.Type == SysfsMagic, nil
}

// OpenDir opens the directory at p. Links are followed within the tree; the
// directory's Path is the canonical one.
func (r *Root) OpenDir(p string) (*Dir, error) {
	p = clean(p)
	fd, err := r.open(r.fd, p, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		// The kernel's sysfs has no link on the canonical paths that are asked for
		// here; a recorded tree may.
		if p, err = r.Resolve(p); err != nil {
			return nil, err
		}
		fd, err = r.open(r.fd, p, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return nil, r.pathError("open", p, err)
	}
	return &Dir{root: r, fd: fd, path: p}, nil
}

// Resolve returns the canonical path of p, following all links within the tree.
// An absolute link counts from the tree's root.
func (r *Root) Resolve(p string) (string, error) {
	done, links := ".", 0
	todo := strings.Split(clean(p), "/")
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if done == "." {
				return "", r.pathError("resolve", p, ErrOutside)
			}
			done = up(done)
			continue
		}
		next := path.Join(done, name)
		target, err := readlink(r.fd, next)
		switch {
		case errors.Is(err, unix.EINVAL): // not a link
			done = next
			continue
		case err != nil:
			return "", r.pathError("resolve", next, err)
		}
		if links++; links > maxLinks {
			return "", r.pathError("resolve", p, unix.ELOOP)
		}
		if path.IsAbs(target) {
			done = "."
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return done, nil
}

// Link returns where the link at p leads, as a path in the tree; further
// links on the way are not followed. Only p itself may be a link.
func (r *Root) Link(p string) (string, error) {
	p = clean(p)
	return r.link(r.fd, p, up(p))
}

// link reads the link called name below dirfd; dir is the canonical path of the
// directory that it is in.
func (r *Root) link(dirfd int, name, dir string) (string, error) {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	n, err := unix.Readlinkat(dirfd, name, buf[:unix.PathMax])
	if err == nil {
		if target, ok := follow(dir, buf[:n]); ok {
			return target, nil
		}
		err = ErrOutside
	}
	return "", r.pathError("readlink", path.Join(dir, path.Base(name)), err)
}

// openFlags go with every open: a FIFO or a device must not make it wait.
const openFlags = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY

// open opens p below dirfd without following any link, not even on the way.
func (r *Root) open(dirfd int, p string, flags int) (fd int, err error) {
	if fd, err = r.tryOpen(dirfd, p, flags|openFlags); err != nil && Starving(err) {
		r.starve(err)
	}
	return fd, err
}

// starve remembers the first such error. In open itself, its address would make every
// open allocate.
func (r *Root) starve(err error) { r.starved.CompareAndSwap(nil, &err) }

// tryOpen lets nothing out of the tree: no way that it takes has a link or a "..".
func (r *Root) tryOpen(dirfd int, p string, flags int) (fd int, err error) {
	if !canonical(p) {
		return -1, unix.EXDEV
	}
	simple := strings.IndexByte(p, '/') < 0
	if !simple && !r.openat2 {
		return openWalking(dirfd, p, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		if simple {
			fd, err = unix.Openat(dirfd, p, flags, 0)
		} else {
			fd, err = unix.Openat2(dirfd, p, &how)
		}
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// openWalking is open without openat2: one directory at a time.
func openWalking(dirfd int, p string, flags int) (int, error) {
	at := dirfd
	for {
		name, rest, more := strings.Cut(p, "/")
		f := flags
		if more {
			f = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
		}
		fd, err := unix.Openat(at, name, f, 0)
		if err == unix.EINTR {
			continue
		}
		if at != dirfd {
			_ = unix.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, p = fd, rest
	}
}

func readlink(dirfd int, name string) (string, error) {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	n, err := unix.Readlinkat(dirfd, name, buf[:unix.PathMax])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func (r *Root) pathError(op, p string, err error) error {
	return &fs.PathError{Op: op, Path: path.Join(r.path, p), Err: err}
}

// Absent tells whether err is the kernel's way to say that there is no such fact:
// no file, no device behind it any more, or a value that is not set.
func Absent(err error) bool {
	for _, no := range []error{os.ErrNotExist, unix.ENODEV, unix.EINVAL, unix.EOPNOTSUPP} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
