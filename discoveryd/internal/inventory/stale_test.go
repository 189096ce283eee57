// What is read again after an event, and what stands.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"testing"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func names(list ...string) map[string]struct{} {
	all := map[string]struct{}{}
	for _, name := range list {
		all[name] = struct{}{}
	}
	return all
}

// The firmware of each device is changed, which no event tells of: what has been read
// again shows it.
func TestWhatIsReadAgainAfterAnEvent(t *testing.T) {
	pf, other, bare := hca(0), hca(1), hca(2)
	pf.TotalVFs = 8
	sf := fakehost.HCA{PCI: "0000:3b:00.1", Name: "mlx5_sf", Index: 7, Aux: "mlx5_core.sf.2"}
	bare.Name, bare.Nets = fakehost.None, fakehost.Nets("ens2")
	rxe := fakehost.HCA{Name: "rxe0", Index: 8, Virtual: true}
	host := newHost(t, pf, other, bare, sf, rxe)
	vfs, err := host.AddVFs("mlx5_0", 1)
	must(t, err)
	scanner := newScanner(t, host.Root())
	const root = "devices/pci0000:00/"
	all := []string{"mlx5_0", "mlx5_1", "mlx5_sf", "rxe0", vfs[0]}
	for _, test := range []struct {
		name  string
		stale Stale
		want  []string
	}{
		{"nothing", Stale{}, nil},
		{"classes", Classes(), nil},
		{"no places", Places(nil), nil},
		{"everything", Everything(), all},
		{"a name", Devices(names("mlx5_1", "unknown")), []string{"mlx5_1"}},
		{"a function", Places(names(root + "0000:3b:00.1")), []string{"mlx5_1", "mlx5_sf"}},
		{"a device below it", Places(names(root + "0000:3b:00.1/mlx5_core.sf.2")), []string{"mlx5_1", "mlx5_sf"}},
		{"a function with virtual ones", Places(names(root + "0000:3b:00.0")), []string{"mlx5_0", vfs[0]}},
		{"a function without RDMA", Places(names(root + "0000:3b:00.2")), nil},
		{"no device", Places(names("devices/virtual")), []string{"rxe0"}},
		{"two events", Places(names("devices/virtual")).And(Devices(names("mlx5_1"))), []string{"mlx5_1", "rxe0"}},
		{"what is outside of the tree", Places(names("../..", "", "/")), nil},
	} {
		for _, name := range all {
			write(t, host, name, "fw_ver", "1\n")
		}
		scan(t, scanner)
		for _, name := range all {
			write(t, host, name, "fw_ver", "2\n")
		}
		s, err := scanner.Reread(t.Context(), test.stale)
		must(t, err)
		var got []string
		for _, name := range all {
			if device(t, s, name).GetFirmwareVersion() == "2" {
				got = append(got, name)
			}
		}
		expect(t, test.name, len(got), len(test.want))
		for _, name := range test.want {
			expect(t, test.name+", "+name, device(t, s, name).GetFirmwareVersion(), "2")
		}
	}
}

func TestWhatComesAndGoesIsSeenWhateverAnEventWasAbout(t *testing.T) {
	host := newHost(t, hca(0), hca(1))
	scanner := newScanner(t, host.Root())
	reread := func() *discoveryv1.Snapshot {
		t.Helper()
		s, err := scanner.Reread(t.Context(), Classes())
		must(t, err)
		return s
	}
	scan(t, scanner)
	must(t, host.Add(hca(2)))
	equal(t, "come", reread(), host)
	must(t, host.Remove("mlx5_1"))
	equal(t, "gone", reread(), host)
	must(t, host.Remove("mlx5_2"))
	bare := hca(2)
	bare.Name = fakehost.None
	must(t, host.Add(bare))
	equal(t, "without RDMA", reread(), host)
	must(t, host.RemoveRdmaCM())
	equal(t, "without rdma_cm", reread(), host)
}

func TestDeviceThatHangsDoesNotStand(t *testing.T) {
	host := newHost(t, hca(0))
	scanner := newScanner(t, host.Root())
	scan(t, scanner)
	e := scanner.last.results[0].entry
	_, stands := scanner.standing(Classes()).find(e)
	expect(t, "stands", stands, true)
	scanner.last.results[0].answer.fresh = false
	_, stands = scanner.standing(Classes()).find(e)
	expect(t, "stands while it hangs", stands, false)
}

// R51: to ask a kernel without RDMA for the name spaces' mode makes it load ib_core.
func TestR51_KernelWithoutRDMADevicesIsNotAskedAboutThem(t *testing.T) {
	host := newHost(t, hca(0))
	v, err := openView(host.Root())
	must(t, err)
	defer v.release()
	v.live = true
	asked := 0
	list := func() (mode discoveryv1.NetnsMode) {
		t.Helper()
		l, err := v.list(func() (discoveryv1.NetnsMode, error) {
			asked++
			return discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE, nil
		})
		must(t, err)
		return l.netns
	}
	expect(t, "with a device", list(), discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE)
	// In exclusive mode the class has only the devices of this name space.
	must(t, os.Remove(filepath.Join(host.Root(), "sys/class/infiniband/mlx5_0")))
	expect(t, "with a device elsewhere", list(), discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE)
	must(t, os.Remove(filepath.Join(host.Root(), "sys/class/infiniband_verbs/uverbs0")))
	expect(t, "without", list(), discoveryv1.NetnsMode_NETNS_MODE_UNSPECIFIED)
	expect(t, "times asked", asked, 2)
}
