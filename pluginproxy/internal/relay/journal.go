// The last changes: what an operator asks first about a number that isn't what it
// was yesterday.
//
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Change is one thing that became different.
type Change struct {
	At time.Time `json:"at"`
	// Kind is one of the Kind constants.
	Kind string `json:"kind"`
	// Resource is the one that it is about; empty when it is about the node.
	Resource string `json:"resource,omitempty"`
	// Text says in a few words what happened.
	Text string `json:"text"`
}

// The kinds of changes.
const (
	KindConfig       = "config"       // the file was loaded or refused
	KindDiscovery    = "discovery"    // the stream from discoveryd began or ended
	KindSnapshot     = "snapshot"     // the hardware changed
	KindResource     = "resource"     // what a resource exposes changed
	KindRegistration = "registration" // kubelet accepted a resource, or can't be had
	KindSession      = "session"      // kubelet opened or lost the list's stream
)

const (
	maxChanges    = 50
	maxChangeText = 300 // bytes
)

// journal keeps the last changes. It is safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	last []Change // oldest first
}

// add notes a change of now. When the journal is full the oldest change of the kind
// that has most of them goes, so that a port that flaps does not push out when the
// sessions began.
func (j *journal) add(kind, resource, text string) {
	if first, rest, more := strings.Cut(text, "\n"); more { // all errors of a file
		text = fmt.Sprintf("%s (and %s more)", first, plural(strings.Count(rest, "\n")+1, "line"))
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxChangeText {
		text = strings.ToValidUTF8(text[:maxChangeText], "") + "…" // no half character
	}
	change := Change{At: time.Now(), Kind: kind, Resource: resource, Text: text}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.last) == maxChanges {
		number := map[string]int{kind: 1}
		most := kind
		for _, c := range j.last {
			if number[c.Kind]++; number[c.Kind] > number[most] {
				most = c.Kind
			}
		}
		i := slices.IndexFunc(j.last, func(c Change) bool { return c.Kind == most })
		j.last = slices.Delete(j.last, i, i+1)
	}
	j.last = append(j.last, change)
}

// list returns the changes, the newest first.
func (j *journal) list() []Change {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Clone(j.last)
	slices.Reverse(all)
	return all
}
