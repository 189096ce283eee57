// A recording is the host once more.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestSamples(t *testing.T) {
	found := facts{}
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, s.make(dir))
			opened := watch(t, dir)
			host := scan(t, dir)
			reads := opened()
			recording := take(t, dir)
			archive := pack(t, recording)
			replay := unpack(t, archive)
			t.Run("a scan reads what is recorded", func(t *testing.T) {
				if !s.renamed() {
					nothingElse(t, reads, recording)
				}
			})
			t.Run("the replay is the same host", func(t *testing.T) {
				again := scan(t, replay)
				found.look(again.ProtoReflect())
				a, b := without(host), without(again)
				if s.renamed() {
					a = strings.NewReplacer("rocex0c42a10300c6cf54", "rocex0000010300000001", "enx0c42a1c6cf54", "enx000001000001").Replace(a)
				}
				if d := difference(a, b); d != "" {
					t.Errorf("host and replay differ in %s\nreplay:\n%s", d, b)
				}
			})
			t.Run("a recording of it is the same", func(t *testing.T) {
				if !slices.Equal(recording.members, take(t, dir).members) {
					t.Error("a second recording of the host is another one")
				}
				// Of what is in the wrong place, a note tells what it was.
				if len(recording.Notes) == 0 && !slices.Equal(recording.members, take(t, replay).members) {
					t.Error("a recording of the replay is another one")
				}
			})
			t.Run("the archive has nothing of its making", func(t *testing.T) { anonymous(t, archive) })
		})
	}
	// All this is worth as much as the samples have facts.
	t.Run("every fact", found.complete)
}

func TestRunningHostCanBeRecorded(t *testing.T) {
	replay := unpack(t, pack(t, take(t, "/")))
	if d := difference(without(scan(t, "/")), without(scan(t, replay))); d != "" {
		t.Errorf("host and replay differ in %s", d)
	}
}

// facts are the fields that a snapshot has had.
type facts map[protoreflect.FullName]bool

func (f facts) look(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		f[field.FullName()] = true
		switch {
		case field.Kind() != protoreflect.MessageKind:
		case field.IsList():
			for i := range v.List().Len() {
				f.look(v.List().Get(i).Message())
			}
		default:
			f.look(v.Message())
		}
		return true
	})
}

// complete checks that each field was there once.
func (f facts) complete(t *testing.T) {
	elsewhere := []string{ // not from the host's files
		"Snapshot.instance_id", "Snapshot.generation", "Node.netns_mode", "Node.cdi", "Device.cdi_name",
	}
	messages := discoveryv1.File_discovery_v1_discovery_proto.Messages()
	for _, name := range []string{"Snapshot", "Node", "Module", "Device", "Parent", "Port", "NetDevice", "CharDevice", "Reason"} {
		fields := messages.ByName(protoreflect.Name(name)).Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if !f[field.FullName()] && !slices.Contains(elsewhere, name+"."+string(field.Name())) {
				t.Errorf("no replay of a sample has %s", field.FullName())
			}
		}
	}
}

// anonymous checks that an archive is sorted and tells nothing of when, where and by
// whom it was made, and that all links stay inside.
func anonymous(t *testing.T, archive []byte) {
	t.Helper()
	last := ""
	each(t, archive, func(h *tar.Header, _ []byte) {
		name := strings.TrimSuffix(h.Name, "/")
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Mode&0o7022 != 0 && h.Typeflag != tar.TypeSymlink {
			t.Errorf("%s: %+v", h.Name, h)
		}
		if h.Size > 64<<10 {
			t.Errorf("%s has %d bytes", h.Name, h.Size)
		}
		if name <= last && name != "capture.txt" {
			t.Errorf("%s comes after %s", h.Name, last)
		}
		if !filepath.IsLocal(name) || h.Linkname != "" && (path.IsAbs(h.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), h.Linkname))) {
			t.Errorf("%s leads to %q", h.Name, h.Linkname)
		}
		last = name
	})
}
