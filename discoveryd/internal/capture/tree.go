// What is recorded so far, and what is being read.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxMembers bounds a recording: a host with 4,096 devices has half as many.
const maxMembers = 1 << 18

// kind tells what a member of the archive is. There are no device nodes, which only
// root could unpack.
type kind byte

const (
	aDir kind = iota
	aFile
	aLink
)

// member is one thing in the archive.
type member struct {
	path string
	kind kind
	text string // of a file; target of a link
}

// tree collects members. It may be used by several goroutines.
type tree struct {
	mu      sync.Mutex
	sealed  bool // what comes later comes too late
	members map[string]member
	notes   []string
	reading map[string]int // by path
	waiting int            // things that nobody has begun to read
	left    int            // members beyond maxMembers
}

func newTree() *tree {
	return &tree{members: map[string]member{}, reading: map[string]int{}}
}

func (t *tree) add(m member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch _, known := t.members[m.path]; {
	case t.sealed || known:
	case len(t.members) >= maxMembers:
		t.left++
	default:
		t.members[m.path] = m
	}
}

func (t *tree) dir(p string) { t.add(member{path: p, kind: aDir}) }

// file adds a file with one line of text.
func (t *tree) file(p, text string) { t.add(member{path: p, kind: aFile, text: text + "\n"}) }

// link adds a link to another path of the archive, in the relative form.
func (t *tree) link(p, target string) {
	from, to := strings.Split(path.Dir(p), "/"), strings.Split(target, "/")
	for len(from) > 0 && len(to) > 1 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	t.add(member{path: p, kind: aLink, text: strings.Repeat("../", len(from)) + strings.Join(to, "/")})
}

func (t *tree) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.sealed {
		t.notes = append(t.notes, fmt.Sprintf(format, args...))
	}
}

// begin and end stand around a read that may hang.
func (t *tree) begin(p string) { t.count(func() { t.reading[p]++ }) }
func (t *tree) end(p string)   { t.count(func() { t.reading[p]--; t.forget(p) }) }

func (t *tree) forget(p string) {
	if t.reading[p] == 0 {
		delete(t.reading, p)
	}
}

// wait says that n more things, or less, wait for a reader.
func (t *tree) wait(n int) { t.count(func() { t.waiting += n }) }

func (t *tree) count(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.sealed {
		change()
	}
}

// seal ends the collecting, and notes what is missing. Readers that hang may go on
// calling the other methods, to no effect.
func (t *tree) seal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.reading {
		t.notes = append(t.notes, p+": has not answered in time; what follows it there is missing")
	}
	if t.waiting > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d devices, network devices or functions: no time left to read them", t.waiting))
	}
	if t.left > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d files: more than an archive holds", t.left))
	}
	slices.Sort(t.notes)
	t.notes = slices.Compact(t.notes)
	t.sealed = true
}

// whole returns all members with the directories that they are in, sorted by path. It
// is for a sealed tree.
func (t *tree) whole() []member {
	all := make(map[string]member, 2*len(t.members))
	for _, m := range t.members {
		if t.place(m.path) {
			all[m.path] = m
			for dir := path.Dir(m.path); dir != "."; dir = path.Dir(dir) {
				all[dir] = member{path: dir, kind: aDir}
			}
		}
	}
	list := make([]member, 0, len(all))
	for _, m := range all {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.path, b.path) })
	return list
}

// place tells whether the member at p is in directories only: on a host that changes,
// a link may have been where a directory came, and nobody should unpack through it.
func (t *tree) place(p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if m, known := t.members[dir]; known && m.kind != aDir {
			return false
		}
	}
	return true
}

// printable tells whether a name can stand in an archive and on a terminal.
func printable(name string) bool {
	return name != "" && utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
