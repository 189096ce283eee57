// A recording is the host once more.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"bytes"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestReplayIsTheSameHost(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, s.make(dir))
			replay := unpack(t, pack(t, take(t, dir)))
			a, b := without(scan(t, dir)), without(scan(t, replay))
			if s.name == "names made of addresses" {
				a = strings.NewReplacer("rocex0c42a10300c6cf54", "rocex0000010300000001", "enx0c42a1c6cf54", "enx000001000001").Replace(a)
			}
			if d := difference(a, b); d != "" {
				t.Errorf("host and replay differ in %s\nreplay:\n%s", d, b)
			}
		})
	}
}

func TestRunningHostCanBeRecorded(t *testing.T) {
	replay := unpack(t, pack(t, take(t, "/")))
	if d := difference(without(scan(t, "/")), without(scan(t, replay))); d != "" {
		t.Errorf("host and replay differ in %s", d)
	}
}

func TestRecordingOfARecordingIsTheSame(t *testing.T) {
	for _, s := range samples() {
		if strings.HasPrefix(s.name, "state is ") || s.name == "something else in place of a file" {
			continue // of these a note tells what they were
		}
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, s.make(dir))
			first := pack(t, take(t, dir))
			if !bytes.Equal(first, pack(t, take(t, dir))) {
				t.Error("a second recording of the host is another one")
			}
			if !bytes.Equal(first, pack(t, take(t, unpack(t, first)))) {
				t.Error("a recording of the replay is another one")
			}
		})
	}
}

// The comparison above is worth as much as the hosts have facts.
func TestSamplesHaveEveryFact(t *testing.T) {
	found := map[protoreflect.FullName]bool{}
	var look func(m protoreflect.Message)
	look = func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			found[f.FullName()] = true
			switch {
			case f.Kind() != protoreflect.MessageKind:
			case f.IsList():
				for i := range v.List().Len() {
					look(v.List().Get(i).Message())
				}
			default:
				look(v.Message())
			}
			return true
		})
	}
	for _, s := range samples() {
		dir := t.TempDir()
		must(t, s.make(dir))
		look(scan(t, unpack(t, pack(t, take(t, dir)))).ProtoReflect())
	}
	elsewhere := []string{ // not from the host's files
		"Snapshot.instance_id", "Snapshot.generation", "Node.netns_mode", "Node.cdi", "Device.cdi_name",
	}
	messages := discoveryv1.File_discovery_v1_discovery_proto.Messages()
	for _, name := range []string{"Snapshot", "Node", "Module", "Device", "Parent", "Port", "NetDevice", "CharDevice", "Reason"} {
		fields := messages.ByName(protoreflect.Name(name)).Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if !found[f.FullName()] && !slices.Contains(elsewhere, name+"."+string(f.Name())) {
				t.Errorf("no replay of a sample has %s", f.FullName())
			}
		}
	}
}

func TestArchiveHasNothingOfItsMaking(t *testing.T) {
	for _, s := range samples() {
		dir := t.TempDir()
		must(t, s.make(dir))
		last := ""
		each(t, pack(t, take(t, dir)), func(h *tar.Header, _ []byte) {
			name := strings.TrimSuffix(h.Name, "/")
			if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Mode&0o7022 != 0 && h.Typeflag != tar.TypeSymlink {
				t.Errorf("%s: %s: %+v", s.name, h.Name, h)
			}
			if h.Size > 64<<10 {
				t.Errorf("%s: %s has %d bytes", s.name, h.Name, h.Size)
			}
			if name <= last && name != "capture.txt" {
				t.Errorf("%s: %s comes after %s", s.name, h.Name, last)
			}
			if !filepath.IsLocal(name) || h.Linkname != "" && (path.IsAbs(h.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), h.Linkname))) {
				t.Errorf("%s: %s leads to %q", s.name, h.Name, h.Linkname)
			}
			last = name
		})
	}
}
