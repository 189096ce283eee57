// The archive format of an initramfs (Documentation/driver-api/early-userspace/
// buffer-format.rst in the kernel).
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Archive writes an initramfs archive ("newc"). Directories above a file are made as
// needed. The first error stays and is returned by Close.
type Archive struct {
	w    io.Writer
	made map[string]bool
	ino  int
	err  error
}

// NewArchive begins an archive on w.
func NewArchive(w io.Writer) *Archive { return &Archive{w: w, made: map[string]bool{"/": true}} }

// File adds a file with this content.
func (a *Archive) File(name string, perm fs.FileMode, content []byte) {
	a.entry(name, 0o100000|uint32(perm.Perm()), content)
}

// Copy adds a file of this machine.
func (a *Archive) Copy(name string, perm fs.FileMode, from string) {
	content, err := os.ReadFile(from)
	if err != nil {
		a.err = firstOf(a.err, err)
		return
	}
	a.File(name, perm, content)
}

// Link adds a symbolic link.
func (a *Archive) Link(name, target string) { a.entry(name, 0o120777, []byte(target)) }

// Dir adds a directory.
func (a *Archive) Dir(name string) {
	name = path.Clean(name)
	if !a.made[name] {
		a.made[name] = true
		a.entry(name, 0o040755, nil)
	}
}

// Close ends the archive. A kernel takes several of them one after the other.
func (a *Archive) Close() error {
	a.header("TRAILER!!!", 0, nil)
	return a.err
}

func (a *Archive) entry(name string, mode uint32, content []byte) {
	name = path.Clean(name)
	a.Dir(path.Dir(name))
	a.header(strings.TrimPrefix(name, "/"), mode, content)
}

// header writes one entry; header with name, and content, each fill up to four bytes.
func (a *Archive) header(name string, mode uint32, content []byte) {
	a.ino++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.ino, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	a.write([]byte(head))
	a.write(make([]byte, -len(head)&3))
	a.write(content)
	a.write(make([]byte, -len(content)&3))
}

func (a *Archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
