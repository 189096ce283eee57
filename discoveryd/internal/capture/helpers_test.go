// Hosts to record, and what the tests do with a recording.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/hosts"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sample is a host to record.
type sample struct {
	name string
	make func(dir string) error
}

// renamed tells whether the recording has other names than the host.
func (s sample) renamed() bool { return s.name == "names made of addresses" }

// samples are all hosts of test/fakehost and test/hosts, and some in trouble.
func samples() (list []sample) {
	add := func(name string, build func(dir string) (*fakehost.Host, error), change func(h *fakehost.Host) error) {
		list = append(list, sample{name, func(dir string) error {
			h, err := build(dir)
			if err == nil && change != nil {
				err = change(h)
			}
			return err
		}})
	}
	for _, kind := range fakehost.Kinds() {
		add(kind.Name, func(dir string) (*fakehost.Host, error) { return kind.Make(dir, fakehost.PlainFiles()) }, nil)
	}
	for _, host := range hosts.All() {
		add(host.Name, host.Make, nil)
	}
	mini := func(dir string) (*fakehost.Host, error) { return fakehost.Mini(dir) }
	add("smallest tree", mini, nil)
	add("no RDMA", func(dir string) (*fakehost.Host, error) { return fakehost.New(dir) }, nil)
	add("eight HCAs", func(dir string) (*fakehost.Host, error) { return fakehost.GPUNode8(dir) }, nil)
	add("virtual functions", func(dir string) (*fakehost.Host, error) { return fakehost.MakeKind(dir, "switchdev") }, func(h *fakehost.Host) error {
		_, err := h.AddVFs("mlx5_0", 3)
		return err
	})
	add("driver unbound", mini, func(h *fakehost.Host) error { return h.UnbindDriver("mlx5_0") })
	add("files missing", mini, func(h *fakehost.Host) error { return errors.Join(h.RemoveChar("umad0"), h.RemoveRdmaCM()) })
	add("something else in place of a file", mini, func(h *fakehost.Host) error {
		return errors.Join(h.RemoveChar("uverbs0"), os.Mkdir(filepath.Join(h.Root(), "dev/infiniband/uverbs0"), 0o755))
	})
	for name, text := range map[string]string{"garbage": "4: \xff\x00ACTIVE", "a novel": strings.Repeat("x", 1<<20), "nothing": "", "nonsense": "maybe", "two lines": "4: ACTIVE\n1: DOWN"} {
		add("state is "+name, mini, func(h *fakehost.Host) error {
			return os.WriteFile(filepath.Join(h.DeviceDir("mlx5_0"), "ports/1/state"), []byte(text), 0o600)
		})
	}
	add("state is a directory", mini, func(h *fakehost.Host) error {
		state := filepath.Join(h.DeviceDir("mlx5_0"), "ports/1/state")
		return errors.Join(os.Remove(state), os.Mkdir(state, 0o755))
	})
	add("strange ports", mini, func(h *fakehost.Host) error {
		ports := filepath.Join(h.DeviceDir("mlx5_0"), "ports")
		return errors.Join(os.Mkdir(filepath.Join(ports, "0"), 0o755), os.Mkdir(filepath.Join(ports, "255"), 0o755), os.Mkdir(filepath.Join(ports, "x"), 0o755))
	})
	add("directories for links", mini, func(h *fakehost.Host) error {
		class := filepath.Join(h.Root(), "sys/class/infiniband")
		return errors.Join(os.Remove(filepath.Join(class, "mlx5_0")), os.Rename(h.DeviceDir("mlx5_0"), filepath.Join(class, "mlx5_0")),
			os.Remove(filepath.Join(class, "mlx5_0/device")), os.Symlink("../../../devices/pci0000:00/0000:3b:00.0", filepath.Join(class, "mlx5_0/device")))
	})
	add("names made of addresses", func(dir string) (*fakehost.Host, error) {
		h, err := fakehost.New(dir)
		return h, errors.Join(err, h.Add(fakehost.HCA{PCI: "0000:3b:00.0", Name: "rocex0c42a10300c6cf54", Complete: true, NodeGUID: "0c42:a103:00c6:cf54",
			Nets: []fakehost.Net{{Name: "enx0c42a1c6cf54", Address: "0c:42:a1:c6:cf:54"}}}))
	}, nil)
	return list
}

// take records the host at root.
func take(t testing.TB, root string) *Recording {
	t.Helper()
	r, err := Take(t.Context(), Options{Root: root})
	must(t, err)
	return r
}

// pack is the archive.
func pack(t testing.TB, r *Recording) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, r.Write(&b))
	return b.Bytes()
}

// unpack puts the archive into a new directory, as tar does: never through a link.
func unpack(t testing.TB, archive []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	each(t, archive, func(h *tar.Header, text []byte) {
		switch h.Typeflag {
		case tar.TypeDir:
			must(t, root.MkdirAll(strings.TrimSuffix(h.Name, "/"), 0o755))
		case tar.TypeReg:
			must(t, root.WriteFile(h.Name, text, 0o600))
		case tar.TypeSymlink:
			must(t, root.Symlink(h.Linkname, h.Name))
		default:
			t.Fatalf("%s: type %q", h.Name, h.Typeflag)
		}
	})
	return dir
}

// each goes through an archive.
func each(t testing.TB, archive []byte, see func(h *tar.Header, text []byte)) {
	t.Helper()
	unzip, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	for r := tar.NewReader(unzip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		see(h, text)
	}
}

func scan(t testing.TB, root string) *discoveryv1.Snapshot {
	t.Helper()
	scanner, err := inventory.New(inventory.Options{Root: root})
	must(t, err)
	s, err := scanner.Scan(t.Context())
	must(t, err)
	return s
}

// without is the snapshot with everything that a recording replaces numbered in
// order, so that two can be compared; and in words.
func without(s *discoveryv1.Snapshot) string {
	s = proto.CloneOf(s)
	s.Node.NetnsMode = discoveryv1.NetnsMode_NETNS_MODE_UNSPECIFIED // it is the running kernel's
	numbers := map[string]string{"": ""}
	number := func(text *string) {
		if _, known := numbers[*text]; !known && strings.Trim(*text, "0:") != "" {
			numbers[*text] = fmt.Sprintf("GUID %d", len(numbers))
		}
		if n, known := numbers[*text]; known {
			*text = n
		}
	}
	for _, d := range s.GetDevices() {
		number(&d.NodeGuid)
		number(&d.SysImageGuid)
	}
	return prototext.Format(s)
}

// difference is the first line that differs.
func difference(a, b string) string {
	one, two := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(one), len(two)) {
		// The text format pads at random.
		if strings.Join(strings.Fields(one[i]), " ") != strings.Join(strings.Fields(two[i]), " ") {
			return fmt.Sprintf("line %d: %q and %q", i+1, one[i], two[i])
		}
	}
	if len(one) != len(two) {
		return fmt.Sprintf("%d and %d lines", len(one), len(two))
	}
	return ""
}
