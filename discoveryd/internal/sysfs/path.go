// Paths as texts: canonical ones, and where a link leads as far as names tell.
//
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"bytes"
	"path"
	"strings"
)

// follow is where a link in dir leads, a canonical path, as far as names tell; ok
// is false if that is outside of the tree.
func follow(dir string, target []byte) (p string, ok bool) {
	if len(target) > 0 && target[0] == '/' {
		return clean(string(target)), true
	}
	// Nearly all links of sysfs go up some directories and then down.
	from, rest := dir, target
	for bytes.HasPrefix(rest, []byte("../")) && from != "." {
		from, rest = up(from), rest[len("../"):]
	}
	if from == "." {
		p = string(rest)
	} else {
		p = from + "/" + string(rest)
	}
	if len(rest) > 0 && canonical(p) {
		return p, true
	}
	p = path.Join(dir, string(target))
	return p, p != ".." && !strings.HasPrefix(p, "../")
}

// up is the directory that a canonical path is in.
func up(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "."
	}
	return p[:i]
}

// canonical tells a path without empty elements, "." and "..", or "." alone. It is
// fs.ValidPath for names that need not be UTF-8.
func canonical(p string) bool {
	if p == "." {
		return true
	}
	for more := true; more; {
		var name string
		name, p, more = strings.Cut(p, "/")
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}

// clean makes p relative and canonical in form; ".." can't climb above the root.
func clean(p string) string {
	if canonical(p) {
		return p
	}
	p = path.Clean("/" + p)[1:]
	if p == "" {
		return "."
	}
	return p
}
