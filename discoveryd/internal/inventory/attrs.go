// Attributes of one directory, with a note of each that is there but strange.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"io/fs"
	"path"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
)

// errNonsense is a text that the kernel would not print.
var errNonsense = errors.New("makes no sense")

// attrs reads attributes of one directory. One that is absent is an empty text;
// one that is there and can't be read, or makes no sense, is noted in broken.
type attrs struct {
	from   source
	dir    string // where the files are in from; empty: in from itself
	label  string // what to call dir in notes
	broken *notes
}

// source is a tree or a directory in it.
type source interface {
	Text(name string) (string, error)
	Link(name string) (string, error)
}

// notes are about attributes that are strange.
type notes []string

// add notes what is wrong, without the place of this tree. The first few say all.
func (n *notes) add(name string, err error) {
	const enough = 4
	if len(*n) < enough {
		*n = append(*n, describe(name, err))
	}
}

// text returns the text of an attribute, empty if there is none.
func (a *attrs) text(name string) string {
	text, err := a.from.Text(a.path(name))
	if err != nil && !sysfs.Absent(err) {
		a.note(name, err)
	}
	return text
}

// parsed hands the text of an attribute, if there is one that is not empty, to
// parse, which tells whether it made sense.
func (a *attrs) parsed(name string, parse func(text string) bool) {
	if text := a.text(name); text != "" && !parse(text) {
		a.note(name, errNonsense)
	}
}

// needed is parsed for an attribute that has to be there.
func (a *attrs) needed(name string, parse func(text string) bool) {
	text, err := a.from.Text(a.path(name))
	if err == nil && !parse(text) {
		err = errNonsense
	}
	if err != nil {
		a.note(name, err)
	}
}

// link returns the last element of what a link leads to, empty if there is none.
func (a *attrs) link(name string) string {
	target, err := a.from.Link(a.path(name))
	if err != nil {
		if !sysfs.Absent(err) {
			a.note(name, err)
		}
		return ""
	}
	base, clean := safeName(path.Base(target))
	if !clean {
		a.note(name, errNonsense)
	}
	return base
}

// path is where the attribute is in from.
func (a *attrs) path(name string) string {
	if a.dir == "" {
		return name
	}
	return a.dir + "/" + name
}

func (a *attrs) note(name string, err error) {
	if a.label != "" {
		name = a.label + "/" + name
	}
	a.broken.add(name, err)
}

// describe says what is wrong with an attribute, without its place in this tree.
func describe(name string, err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	name, _ = safeName(name)
	return name + ": " + err.Error()
}
