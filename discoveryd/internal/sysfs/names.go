// The names in a directory.
//
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// MaxNames is how many names of a directory are taken at most.
const MaxNames = 1 << 16

// Names returns the names of all entries, sorted. To read a directory again, open
// it again.
func (d *Dir) Names() ([]string, error) { return d.Match(nil) }

// Match returns the names of the entries that want takes, sorted, as Names; nil
// takes all. A network device's directory has fifty entries, of which few matter:
// what want refuses costs no memory. want must not keep its argument.
func (d *Dir) Match(want func(name []byte) bool) ([]string, error) {
	var names []string
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for {
		n, err := unix.Getdents(d.fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, d.root.pathError("read directory", d.path, err)
		}
		// Only a call that gives nothing tells the end: a signal cuts others short
		// (fs/readdir.c, filldir64).
		if n <= 0 {
			slices.Sort(names)
			return names, nil
		}
		names = entries(buf[:n], want, names)
		if len(names) > MaxNames {
			return nil, d.root.pathError("read directory", d.path, ErrTooLong)
		}
	}
}

// entries adds the names in what getdents64(2) gave, apart from "." and "..".
func entries(b []byte, want func(name []byte) bool, names []string) []string {
	const lengthAt, nameAt = 16, 19 // struct linux_dirent64: ino, off, reclen, type, name
	for len(b) >= nameAt {
		length := int(binary.NativeEndian.Uint16(b[lengthAt:]))
		if length < nameAt || length > len(b) {
			break
		}
		name := b[nameAt:length]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		b = b[length:]
		if len(name) == 0 || string(name) == "." || string(name) == ".." {
			continue
		}
		if want == nil || want(name) {
			names = append(names, string(name))
		}
	}
	return names
}

// Names returns the names of all entries of the directory at p, sorted; none if
// it does not exist.
func (r *Root) Names(p string) ([]string, error) { return r.Match(p, nil) }

// Match is Names for the names that want takes.
func (r *Root) Match(p string, want func(name []byte) bool) ([]string, error) {
	d, err := r.OpenDir(p)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Match(want)
}
