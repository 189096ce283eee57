// A recording of this host, as users attach it to a report.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
	"google.golang.org/protobuf/encoding/protojson"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestRecordingGivesTheSameDevices(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	rxe(t, "rxe1", "d1")
	carrier(t, "d1", false)
	must(t, netlink.RdmaLinkAdd("roce0", "rxe", netdevOf(t, "virtio_net")))
	must(t, netlink.RdmaLinkAdd("roce1", "rxe", netdevOf(t, "e1000e")))
	var live *discoveryv1.Snapshot
	eventually(t, "three ports active and one down", func() bool {
		live = list(t, "/")
		return linkOf(live, "roce0", 1).State == "ACTIVE" && linkOf(live, "roce1", 1).State == "ACTIVE" && linkOf(live, "rxe1", 1).State == "DOWN"
	})

	dir := t.TempDir()
	file := filepath.Join(dir, "host.tar.gz")
	command(t, "/bin/discoveryd", "capture", "-o", file)
	recording, err := os.ReadFile(file)
	must(t, err)
	unpack(t, recording, filepath.Join(dir, "host"))
	recorded := list(t, filepath.Join(dir, "host"))
	if !equal(deviceNames(recorded), deviceNames(live)) {
		t.Errorf("recorded devices %v, live %v", deviceNames(recorded), deviceNames(live))
	}
	for _, name := range deviceNames(live) {
		if got, want := linkOf(recorded, name, 1), linkOf(live, name, 1); got != want {
			t.Errorf("recorded %+v, live %+v", got, want)
		}
		if got, want := device(recorded, name), device(live, name); len(got.GetCharDevices()) != len(want.GetCharDevices()) || reasons(got.GetReasons()) != reasons(want.GetReasons()) {
			t.Errorf("recorded %v, live %v", got, want)
		}
		if device(recorded, name).GetNodeGuid() == device(live, name).GetNodeGuid() {
			t.Errorf("the GUID of %s was not replaced", name)
		}
	}

	out, err := openPort("rdma-relay.files")
	must(t, err)
	defer out.Close()
	_, err = out.Write(recording)
	must(t, err)
}

// list is one scan of a host.
func list(t *testing.T, root string) *discoveryv1.Snapshot {
	t.Helper()
	s := &discoveryv1.Snapshot{}
	must(t, protojson.Unmarshal([]byte(command(t, "/bin/discoveryd", "list", "--host-root="+root, "-o", "json")), s))
	return s
}

// unpack unpacks a tar archive as tar xzf does.
func unpack(t *testing.T, packed []byte, dir string) {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	archive := tar.NewReader(plain)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		path := filepath.Join(dir, h.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch h.Typeflag {
		case tar.TypeDir:
			must(t, os.MkdirAll(path, 0o755))
		case tar.TypeSymlink:
			must(t, os.Symlink(h.Linkname, path))
		case tar.TypeReg:
			content, err := io.ReadAll(archive)
			must(t, err)
			must(t, os.WriteFile(path, content, 0o644))
		default:
			t.Fatalf("entry %s of type %c", h.Name, h.Typeflag)
		}
	}
}
