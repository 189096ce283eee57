// Why a device is limited, and that it is told.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestR24_MissingRdmaCMIsNamedWithItsModule(t *testing.T) {
	host := newHost(t, hca(0))
	must(t, host.RemoveRdmaCM())
	scanner := newScanner(t, host.Root())
	s := scan(t, scanner)
	d := device(t, s, "mlx5_0")
	expect(t, "reasons", codes(d.GetReasons()), "NO_RDMA_CM")
	for _, word := range []string{"/dev/infiniband/rdma_cm", "modprobe rdma_ucm"} {
		if text := message(d, "NO_RDMA_CM"); !strings.Contains(text, word) {
			t.Errorf("%q does not say %q", text, word)
		}
	}
	// A live host has a sys/dev, which has nothing to do with it.
	must(t, os.MkdirAll(filepath.Join(host.Root(), "sys/dev/char"), 0o755))
	expect(t, "reasons with sys/dev", codes(device(t, scan(t, scanner), "mlx5_0").GetReasons()), "NO_RDMA_CM")
	expect(t, "module", s.GetNode().GetModules()[2].String(), (&discoveryv1.Module{Name: "rdma_ucm"}).String())

	must(t, host.AddRdmaCM())
	s = scan(t, scanner)
	expect(t, "reasons later", codes(device(t, s, "mlx5_0").GetReasons()), "")
	expect(t, "module later", s.GetNode().GetModules()[2].GetPresent(), true)
}

func TestR25_DriverThatIsLoadedLater(t *testing.T) {
	host := newHost(t, fakehost.HCA{PCI: "0000:3b:00.0", Name: fakehost.None, Nets: fakehost.Nets("ens1f0np0")})
	scanner := newScanner(t, host.Root())
	s := scan(t, scanner)
	d := device(t, s, "0000:3b:00.0")
	expect(t, "reasons", codes(d.GetReasons()), "NO_RDMA_DEVICE")
	expect(t, "net", nets(d.GetOtherNetDevices()), "ens1f0np0")
	must(t, host.Add(fakehost.HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", Nets: fakehost.Nets("ens1f0np0")}))
	s = scan(t, scanner)
	expect(t, "devices", namesOf(s), "mlx5_0")
	expect(t, "reasons later", codes(device(t, s, "mlx5_0").GetReasons()), "")
}

func TestR51_NoRDMAAtAllIsAQuietReadyNode(t *testing.T) {
	host := newHost(t)
	scanner := newScanner(t, host.Root())
	s := scan(t, scanner)
	expect(t, "devices", len(s.GetDevices()), 0)
	expect(t, "reasons", codes(s.GetNode().GetReasons()), "NO_RDMA_SUBSYSTEM")
	must(t, host.Add(hca(0)))
	s = scan(t, scanner)
	expect(t, "devices later", namesOf(s), "mlx5_0")
	expect(t, "reasons later", codes(s.GetNode().GetReasons()), "")
}

func TestReasonsOfOneDevice(t *testing.T) {
	for name, test := range map[string]struct {
		hca   func(*fakehost.HCA)
		spoil func(t *testing.T, host *fakehost.Host)
		want  string
	}{
		"all well":        {want: ""},
		"driver unbound":  {hca: func(h *fakehost.HCA) { h.Driver = fakehost.None }, want: "DRIVER_UNBOUND"},
		"no uverbs":       {hca: func(h *fakehost.HCA) { h.Chars = fakehost.Chars(0, "umad") }, want: "NO_UVERBS"},
		"no MAD support":  {hca: func(h *fakehost.HCA) { h.Chars = fakehost.Chars(0, "uverbs") }, want: ""},
		"no ports":        {hca: func(h *fakehost.HCA) { h.Ports = []fakehost.Port{} }, want: "NO_PORTS"},
		"uverbs file":     {spoil: removeFile("dev/infiniband/uverbs0"), want: "NO_UVERBS DEVICE_FILE_MISSING"},
		"umad file":       {spoil: removeFile("dev/infiniband/umad0"), want: "NO_UMAD DEVICE_FILE_MISSING"},
		"issm file":       {spoil: removeFile("dev/infiniband/issm0"), want: "DEVICE_FILE_MISSING"},
		"all files":       {spoil: removeFile("dev/infiniband"), want: "NO_UVERBS NO_RDMA_CM NO_UMAD DEVICE_FILE_MISSING"},
		"no dev at all":   {spoil: removeFile("dev"), want: "NO_UVERBS NO_RDMA_CM NO_UMAD DEVICE_FILE_MISSING"},
		"ib_uverbs":       {spoil: removeFile("sys/class/infiniband_verbs"), want: "NO_UVERBS"},
		"ib_umad":         {spoil: removeFile("sys/class/infiniband_mad"), want: "NO_UMAD"},
		"state unread":    {hca: func(h *fakehost.HCA) { h.Ports = []fakehost.Port{{State: fakehost.None}} }, want: "UNREADABLE"},
		"state nonsense":  {hca: func(h *fakehost.HCA) { h.Ports = []fakehost.Port{{State: "up"}} }, want: "UNREADABLE"},
		"vendor nonsense": {hca: func(h *fakehost.HCA) { h.Vendor = "Mellanox" }, want: "UNREADABLE"},
		"state unknown":   {hca: func(h *fakehost.HCA) { h.Ports = []fakehost.Port{{State: "9: NEW"}} }, want: ""},
		"uverbs is a directory": {spoil: func(t *testing.T, host *fakehost.Host) {
			removeFile("dev/infiniband/uverbs0")(t, host)
			must(t, os.Mkdir(filepath.Join(host.Root(), "dev/infiniband/uverbs0"), 0o700))
		}, want: "NO_UVERBS DEVICE_FILE_MISSING"},
		"uverbs of nobody": {spoil: func(t *testing.T, host *fakehost.Host) {
			fn := host.FunctionDir("mlx5_0") // on which there is another one: it is not obvious whose this is
			writeFile(t, filepath.Join(fn, "infiniband_verbs/uverbs0/ibdev"), "\x00\xff")
			writeFile(t, filepath.Join(fn, "infiniband_verbs/uverbs9/ibdev"), "smi9\n")
			must(t, os.Symlink("../../devices/pci0000:00/0000:3b:00.0/infiniband_verbs/uverbs9", filepath.Join(host.Root(), "sys/class/infiniband_verbs/uverbs9")))
		}, want: "NO_UVERBS UNREADABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			broken, well := hca(0), hca(1)
			if test.hca != nil {
				test.hca(&broken)
			}
			host := newHost(t, broken, well)
			if test.spoil != nil {
				test.spoil(t, host)
			}
			s := scanOf(t, host)
			d := device(t, s, "mlx5_0")
			expect(t, "reasons", codes(d.GetReasons()), test.want)
			for _, r := range d.GetReasons() {
				if !strings.HasSuffix(r.GetMessage(), ".") || strings.Contains(r.GetMessage(), host.Root()) {
					t.Errorf("%q is no sentence that holds everywhere", r.GetMessage())
				}
			}
			if test.hca != nil {
				expect(t, "the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
			}
			for _, missing := range []string{"uverbs0", "umad0", "issm0"} {
				if strings.Contains(message(d, "DEVICE_FILE_MISSING"), missing) == strings.Contains(files(d), missing) && strings.Contains(test.want, "FILE_MISSING") {
					t.Errorf("%s is neither listed nor named as missing, or both: %q", missing, files(d))
				}
			}
		})
	}
}

func removeFile(name string) func(*testing.T, *fakehost.Host) {
	return func(t *testing.T, host *fakehost.Host) {
		t.Helper()
		must(t, os.RemoveAll(filepath.Join(host.Root(), name)))
	}
}

func TestFileThatMayNotBeSeenIsNotAbsent(t *testing.T) {
	host := newHost(t, hca(0))
	v, err := openView(host.Root())
	must(t, err)
	defer v.release()
	v.dev.Close()
	v.dev, v.devErr = nil, unix.EACCES
	l, err := v.list(nil)
	must(t, err)
	f := v.readDevice(l, l.rdma[0])
	d := finish(l, answer[*facts]{value: f, known: true})
	expect(t, "reasons", codes(d.GetReasons()), "NOT_PERMITTED")
	expect(t, "files", files(d), "uverbs0 umad0:1 issm0:1 rdma_cm")
}

func TestExclusiveNetnsModeIsToldOnNodeAndDevices(t *testing.T) {
	host := newHost(t, hca(0), fakehost.HCA{PCI: "0000:5f:00.0", Name: fakehost.None, Index: 1})
	v, err := openView(host.Root())
	must(t, err)
	defer v.release()
	v.live = true // so that the kernel is asked
	for _, test := range []struct {
		mode discoveryv1.NetnsMode
		err  error
		want string
	}{
		{discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE, nil, "NETNS_EXCLUSIVE"},
		{discoveryv1.NetnsMode_NETNS_MODE_SHARED, nil, ""},
		{0, unix.EPROTONOSUPPORT, ""},
		{0, errors.New("any"), ""},
	} {
		l, err := v.list(func() (discoveryv1.NetnsMode, error) { return test.mode, test.err })
		must(t, err)
		expect(t, "mode", node(l, false).GetNetnsMode(), test.mode)
		expect(t, "node", codes(node(l, false).GetReasons()), test.want)
		d := finish(l, answer[*facts]{value: unread(l.rdma[0])})
		expect(t, "device", strings.Contains(codes(d.GetReasons()), "NETNS_EXCLUSIVE"), test.want != "")
	}
}

func TestOnlyNetworkFunctionsAreListedWithoutRDMADevice(t *testing.T) {
	bare := func(function, class, driver string, list ...fakehost.Net) fakehost.HCA {
		return fakehost.HCA{PCI: "0000:5f:00." + function, Name: fakehost.None, Class: class, Driver: driver, Nets: append([]fakehost.Net{}, list...)}
	}
	s := scanOf(t, newHost(t, hca(0),
		bare("0", "0x010802", "nvme"), bare("1", "0x020000", "e1000e", fakehost.Net{Name: "eno1"}), bare("2", "0x020700", fakehost.None),
		bare("3", "0x0c0600", "mlx4_core"), bare("4", "0x00ff00", "cloud", fakehost.Net{Name: "eth9"}), bare("5", "garbage", "odd")))
	expect(t, "devices", namesOf(s), "(0000:5f:00.1) (0000:5f:00.2) (0000:5f:00.3) (0000:5f:00.4) mlx5_0")
	expect(t, "unbound", codes(device(t, s, "0000:5f:00.2").GetReasons()), "NO_RDMA_DEVICE DRIVER_UNBOUND")
	expect(t, "bound", codes(device(t, s, "0000:5f:00.1").GetReasons()), "NO_RDMA_DEVICE")
	expect(t, "net", nets(device(t, s, "0000:5f:00.4").GetOtherNetDevices()), "eth9")
}
