// Hosts that hang, change or are made to do harm.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// A port's state may be a question to firmware that never answers.
func TestAttributeThatHangsIsLeftOutAndSaid(t *testing.T) {
	h, err := fakehost.GPUNode8(t.TempDir())
	must(t, err)
	answer, returned := make(chan struct{}), make(chan struct{})
	const hung = "infiniband/mlx5_3/ports/1/state"
	r, err := Take(t.Context(), Options{Root: h.Root(), Deadline: time.Second, read: func(root *sysfs.Root, p string) (string, error) {
		if strings.HasSuffix(p, hung) {
			defer close(returned)
			<-answer
		}
		return root.Text(p)
	}})
	must(t, err)
	members := map[string]bool{}
	for _, m := range r.members {
		members[m.path] = true
	}
	archive := pack(t, r)
	close(answer) // it must not matter to the recording any more
	<-returned
	if string(archive) != string(pack(t, r)) {
		t.Error("what came late was recorded")
	}
	const at = "sys/devices/pci0000:5b/0000:5b:01.0/0000:5e:00.0/"
	if want := []string{at + hung + ": has not answered in time; what follows it there is missing"}; !slices.Equal(r.Notes, want) {
		t.Errorf("notes: %q", r.Notes)
	}
	if members[at+hung] {
		t.Error("the state is recorded")
	}
	for _, p := range []string{at + "infiniband/mlx5_3/node_guid", at + "infiniband/mlx5_3/ports/1/link_layer", at + "net/ens4np0/mtu"} {
		if !members[p] {
			t.Errorf("%s is missing", p)
		}
	}
	for _, d := range scan(t, unpack(t, archive)).GetDevices() {
		if state := d.GetPorts()[0].GetState(); (state != 4) != (d.GetName() == "mlx5_3") {
			t.Errorf("%s is %v", d.GetName(), state)
		}
	}
}

// More devices hang than there are readers.
func TestHostThatHangsAltogether(t *testing.T) {
	h, err := fakehost.GPUNode8(t.TempDir())
	must(t, err)
	for i := range maxReaders {
		must(t, h.Add(fakehost.HCA{Name: "rxe" + string(rune('A'+i)), Virtual: true, Index: 10 + i}))
	}
	answer := make(chan struct{})
	defer close(answer)
	r, err := Take(t.Context(), Options{Root: h.Root(), Deadline: 500 * time.Millisecond, read: func(root *sysfs.Root, p string) (string, error) {
		if strings.HasSuffix(p, "/node_guid") {
			<-answer
		}
		return root.Text(p)
	}})
	must(t, err)
	if r.Devices != 8+maxReaders || !strings.Contains(strings.Join(r.Notes, "\n"), "no time left to read them") {
		t.Errorf("%d devices, notes %q", r.Devices, r.Notes)
	}
}

func TestTakeEndsWithItsContext(t *testing.T) {
	h, err := fakehost.Mini(t.TempDir())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan struct{})
	defer close(answer)
	_, err = Take(ctx, Options{Root: h.Root(), Deadline: time.Hour, read: func(*sysfs.Root, string) (string, error) {
		cancel()
		<-answer
		return "", nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestNoHost(t *testing.T) {
	if _, err := Take(t.Context(), Options{Root: t.TempDir()}); !errors.Is(err, inventory.ErrNoHost) {
		t.Errorf("error %v", err)
	}
}

// Nothing outside of sys and dev/infiniband gets into the archive, and nobody who
// unpacks it writes elsewhere.
func TestLinksThatLeadOut(t *testing.T) {
	h, err := fakehost.MakeKind(t.TempDir(), "switchdev")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(h.Root(), "secret"), []byte("secret\n"), 0o600))
	outside := filepath.Join(h.Root(), "outside")
	must(t, os.MkdirAll(filepath.Join(outside, "ports/1"), 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "node_guid"), []byte("secret\n"), 0o600))
	sys := filepath.Join(h.Root(), "sys")
	for from, to := range map[string]string{
		"class/infiniband/evil0":           "../../../outside",
		"class/infiniband/evil1":           outside,
		"class/net/evil2":                  "../../../../../../../../etc",
		"class/infiniband/loop0":           "loop1",
		"class/infiniband/loop1":           "loop0",
		"class/infiniband/itself":          ".",
		"class/net/class":                  "..",
		"class/infiniband_verbs/uverbs77":  "../../../secret",
		"class/net/file":                   "../../../secret",
		"bus/pci/devices/0000:99:00.0":     "../../../../secret",
		"class/infiniband_mad/umad77":      "../infiniband",
		"class/infiniband/dangling":        "../../devices/nothing",
		"class/net/" + "\x1b[2J":           "../../devices/nothing",
		"class/infiniband/" + "\xff\xfe":   "../../devices/nothing",
		"class/misc":                       "../../outside",
		"bus/pci/devices/0000:98:00.0":     "../../../class/net",
		"class/infiniband/0000:97:00.0":    "../../class/net/0000:97:00.0/x/y",
		"devices/pci0000:00/0000:96:00.0":  "..",
		"class/net/enp150":                 "../../devices/pci0000:00/0000:96:00.0/net/enp150",
		"bus/pci/devices/0000:96:00.0":     "../../../devices/pci0000:00/0000:96:00.0",
		"class/infiniband/" + longName:     "../../devices/virtual/infiniband/" + longName,
		"class/infiniband_verbs/uverbs123": "../../devices/virtual/infiniband/../../../..",
	} {
		must(t, os.Symlink(to, filepath.Join(sys, from)))
	}
	must(t, os.Remove(filepath.Join(h.FunctionDir("mlx5_0"), "class")))
	must(t, os.Symlink("../../../../secret", filepath.Join(h.FunctionDir("mlx5_0"), "class")))
	must(t, os.Symlink("../../../secret", filepath.Join(h.DeviceDir("mlx5_0"), "board_id")))
	must(t, os.Remove(filepath.Join(h.Root(), "dev/infiniband/uverbs0")))
	must(t, os.Symlink("../../secret", filepath.Join(h.Root(), "dev/infiniband/uverbs0")))

	sound(t, take(t, h.Root()), "secret")
}

var longName = strings.Repeat("n", 200)

// sound checks an archive.
func sound(t *testing.T, r *Recording, secret string) {
	t.Helper()
	archive := pack(t, r)
	each(t, archive, func(header *tar.Header, text []byte) {
		name := strings.TrimSuffix(header.Name, "/")
		first, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{"sys", "dev", "proc", "capture.txt"}, first) || !filepath.IsLocal(name) || !printable(strings.ReplaceAll(name, "/", "")) {
			t.Errorf("there is %q", name)
		}
		if header.Typeflag == tar.TypeSymlink && (path.IsAbs(header.Linkname) || !strings.HasPrefix(path.Join(path.Dir(name), header.Linkname)+"/", "sys/")) {
			t.Errorf("%s leads to %s", name, header.Linkname)
		}
		if secret != "" && strings.Contains(string(text), secret) && name != "capture.txt" {
			t.Errorf("%s has the text of a file outside: %.40q", name, text)
		}
	})
	unpack(t, archive)
	for _, note := range r.Notes {
		if !printable(note) {
			t.Errorf("note %q", note)
		}
	}
}

func FuzzHostileTree(f *testing.F) {
	f.Add("mlx5_0", "4: ACTIVE\n", "../../devices/virtual/infiniband/mlx5_0")
	f.Add("\xff\x00", "\x00\x01\x02", "../../../etc/passwd")
	f.Add("..", strings.Repeat("0", 5000), "/")
	f.Add("enx0c42a1c6cf50", "bond0", "../../devices/pci0000:00/0000:3b:00.0/net/enx0c42a1c6cf50")
	f.Add("uverbs0", "../../../x", ".")
	f.Fuzz(func(t *testing.T, name, text, target string) {
		dir := t.TempDir()
		h, err := fakehost.Mini(dir)
		must(t, err)
		// What the file system itself refuses is no case.
		for _, class := range []string{"infiniband", "infiniband_verbs", "infiniband_mad", "net", "misc"} {
			place := filepath.Join(dir, "sys/class", class)
			_ = os.MkdirAll(place, 0o755)
			if filepath.Dir(filepath.Join(place, name)) == place {
				_ = os.Symlink(target, filepath.Join(place, name))
			}
		}
		for _, p := range []string{"node_guid", "ports/1/state", "ports/1/gid_attrs/ndevs/0", "ports/1/gids/0", "parent"} {
			_ = os.MkdirAll(filepath.Dir(filepath.Join(h.DeviceDir("mlx5_0"), p)), 0o755)
			_ = os.WriteFile(filepath.Join(h.DeviceDir("mlx5_0"), p), []byte(text), 0o600)
		}
		if filepath.Dir(filepath.Join(h.FunctionDir("mlx5_0"), "net", name)) == filepath.Join(h.FunctionDir("mlx5_0"), "net") {
			_ = os.Mkdir(filepath.Join(h.FunctionDir("mlx5_0"), "net", name), 0o755)
		}
		sound(t, take(t, dir), "")
	})
}
