// Package cdi keeps the CDI spec that tells container runtimes which files each
// RDMA device has. It is one file, so that all of it changes at one moment, and the
// package touches no other file in the directory but what it began itself.
//
// What counts is what the file says, not what was done: a snapshot names only those
// CDI devices that the file in place describes as they are, whoever wrote it and
// whatever has failed.
//
// SPDX-License-Identifier: Apache-2.0
package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/rdma-relay/rdma-relay/internal/cdiname"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// FileName is the spec's file, named as the CDI library names that of a vendor and
// a class.
const FileName = cdiname.Vendor + "-" + cdiname.Class + ".json"

// Specs keeps the spec in one directory. A nil Specs keeps none. Place and Remove
// are for one goroutine at a time; Run may go on beside them.
type Specs struct {
	path   string
	log    *slog.Logger
	placed chan struct{} // mailbox of one: Place has returned

	mu      sync.Mutex // guards what is below, and the file while it is being looked at
	file    onDisk
	ours    *owned // the file that this process has written; nil for none
	began   bool   // that put was called
	problem string
	said    bool // that the spec is in place
}

// New is for the directory dir, which may not exist yet. Nothing is done before
// Place.
func New(dir string, log *slog.Logger) *Specs {
	path := filepath.Join(dir, FileName)
	return &Specs{path: path, log: log.With("file", path), placed: make(chan struct{}, 1)}
}

// Place makes the spec say what the snapshot says, and gives the devices of the
// snapshot the CDI names under which they can be had from then on. It never fails:
// what could not be done is in the snapshot and, once, in the log.
func (s *Specs) Place(snapshot *discoveryv1.Snapshot) {
	if s == nil {
		return
	}
	s.mu.Lock()
	wanted := describe(snapshot)
	there, err := s.put(wanted)
	s.say(err)
	for name, d := range wanted.devices {
		if there == nil || there[name] {
			d.CdiName = cdiname.Qualified(name)
		}
	}
	if snapshot.GetNode() == nil {
		snapshot.Node = &discoveryv1.Node{}
	}
	snapshot.Node.Cdi = &discoveryv1.Cdi{Problem: s.problem}
	s.mu.Unlock()
	select {
	case s.placed <- struct{}{}:
	default:
	}
}

// put makes the file say what is wanted. there tells which devices the file
// describes, where these are not all; nil stands for all.
func (s *Specs) put(wanted *spec) (there map[string]bool, err error) {
	if err := makeDir(filepath.Dir(s.path)); err != nil {
		return map[string]bool{}, err
	}
	content, err := wanted.encode()
	if err != nil {
		return map[string]bool{}, err
	}
	s.file.look(s.path)
	first := !s.began
	s.began = true
	switch same := s.file.says(content); {
	case s.ours.isAt(s.path):
		if same {
			return nil, nil
		}
	case !first && held(s.path):
		// Two daemons run while a new one takes over. The newest one's file stands, so
		// that they don't write in turns; if that daemon ends first, its file goes, and
		// this one's comes back.
		return wanted.names(s.file.content), nil
	case same && content == nil:
		return nil, nil
	}
	if err := s.replace(content); err != nil {
		return wanted.compare(s.file.content), err
	}
	return nil, nil
}

// replace writes the file, or removes it where there is nothing to say. A file that
// says the right thing is written anew if it is not this process's own: it goes
// when its owner does. Where it can't be written it will do as it is.
func (s *Specs) replace(content []byte) error {
	if content == nil {
		if err := remove(s.path); err != nil {
			return err
		}
		s.own(nil)
		s.file = onDisk{}
		return nil
	}
	written, err := write(s.path, content)
	if err != nil {
		if s.file.says(content) {
			return nil
		}
		return err
	}
	s.own(written)
	// Not what is at the path now: that may be somebody else's already.
	s.file = onDisk{exists: true, id: written.id, content: content}
	return nil
}

// own takes a file for this process's own, in the place of the one before.
func (s *Specs) own(file *owned) {
	s.ours.forget()
	s.ours = file
}

// say logs a problem when it comes, changes and goes, and keeps it. The text is
// the same as long as the problem is.
func (s *Specs) say(err error) {
	problem := ""
	if err != nil {
		problem = "the CDI spec can't be kept: " + err.Error()
	}
	switch {
	case problem != "" && problem != s.problem:
		s.log.Warn("CDI spec can't be kept; this is tried again", "error", err)
	case problem == "" && (s.problem != "" || !s.said):
		s.log.Info("CDI spec is in place")
		s.said = true
	}
	s.problem = problem
}

// Remove takes the file away if this process has written it. A daemon that was
// started meanwhile has a file of its own under the same name, and keeps it.
func (s *Specs) Remove() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.own(nil)
	if !s.ours.isAt(s.path) {
		return
	}
	if err := remove(s.path); err != nil {
		s.log.Warn("CDI spec not removed", "error", err)
	}
	sweep(filepath.Dir(s.path))
}

// disturbed tells whether the file is not as Place has left it.
func (s *Specs) disturbed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.file.unchanged(s.path)
}

// broken tells whether there is a problem.
func (s *Specs) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem != ""
}

// plain is the error without the names of hidden files, which are new each time.
func plain(doing, path string, err error) error {
	var where *fs.PathError
	if errors.As(err, &where) {
		err = where.Err
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}
