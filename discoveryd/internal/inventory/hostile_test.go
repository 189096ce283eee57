// More of what no kernel would show: numbers, names and links that can't be, errors
// in the middle of a read, and any bytes at all in any file.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// failing is a directory whose every attribute gives an error.
type failing struct{ err error }

func (f failing) Text(string) (string, error) { return "", f.err }
func (f failing) Link(string) (string, error) { return "", f.err }

func TestAttributesThatVanishOrFailWhileTheyAreRead(t *testing.T) {
	for err, absent := range map[error]bool{
		unix.ENOENT: true, unix.ENODEV: true, unix.EINVAL: true, unix.EOPNOTSUPP: true,
		unix.EIO: false, unix.ETIMEDOUT: false, unix.EACCES: false, unix.EBUSY: false, sysfs.ErrTooLong: false, sysfs.ErrNotText: false, sysfs.ErrOutside: false,
	} {
		var optional, needed notes
		parse := func(string) bool { t.Errorf("%v: there was something to parse", err); return true }
		a := &attrs{from: failing{err}, label: "net/eth0", broken: &optional}
		expect(t, err.Error()+": text", a.text("mtu"), "")
		expect(t, err.Error()+": link", a.link("master"), "")
		a.parsed("ifindex", parse)
		if want := map[bool]int{true: 0, false: 3}[absent]; len(optional) != want {
			t.Errorf("%v: what may be absent is noted as %q", err, optional)
		}
		a = &attrs{from: failing{err}, dir: "ports/1", label: "ports/1", broken: &needed}
		a.needed("state", parse)
		if len(needed) != 1 || needed[0] != "ports/1/state: "+err.Error() {
			t.Errorf("%v: what is needed is noted as %q", err, needed)
		}
	}
}

func TestPortNumbersThatCanNotBe(t *testing.T) {
	for numbers, want := range map[string]string{
		"0": "UNREADABLE NO_PORTS", "0 1": "UNREADABLE", "255": "", "1 255": "", "01": "UNREADABLE NO_PORTS", "-1": "UNREADABLE NO_PORTS",
		"4294967296": "UNREADABLE NO_PORTS", "1 x": "UNREADABLE", "1 \xff": "UNREADABLE", "2": "",
	} {
		host := newHost(t, fakehost.HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", Ports: []fakehost.Port{}}, hca(1))
		for n := range strings.FieldsSeq(numbers) {
			write(t, host, "mlx5_0", "ports/"+n+"/state", "4: ACTIVE\n")
			write(t, host, "mlx5_0", "ports/"+n+"/link_layer", "Ethernet\n")
		}
		s := scanOf(t, host)
		expect(t, "reasons with ports "+numbers, codes(device(t, s, "mlx5_0").GetReasons()), want)
		expect(t, "the other's", codes(device(t, s, "mlx5_1").GetReasons()), "")
		if _, err := proto.Marshal(s); err != nil {
			t.Error(err)
		}
	}
}

func TestLinksOfAFunctionThatLeadAstray(t *testing.T) {
	for name, target := range map[string]string{
		"physfn": "../../../../../../../../0000:3b:00.7", "driver": "../../../../../../../etc", "physfn to no function": "../../0000:3b:00.1/net",
		"driver with a strange name": "../../../../bus/pci/drivers/\x1b[2J",
	} {
		host := newHost(t, hca(0), hca(1))
		link, _, _ := strings.Cut(name, " ")
		p := filepath.Join(host.FunctionDir("mlx5_0"), link)
		must(t, os.RemoveAll(p))
		must(t, os.Symlink(target, p))
		s := scanOf(t, host)
		d := device(t, s, "mlx5_0")
		if reasons := codes(d.GetReasons()); !strings.Contains(reasons, "UNREADABLE") || !strings.Contains(message(d, "UNREADABLE"), link) {
			t.Errorf("%s: reasons are %q: %s", name, reasons, message(d, "UNREADABLE"))
		}
		expect(t, name+": the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
	}
}

// A class entry that leads out of the tree is a fact that is left out.
func TestNetworkDeviceThatIsNowhere(t *testing.T) {
	host := newHost(t, hca(0), hca(1))
	p := filepath.Join(host.Root(), "sys/class/net/ens0")
	must(t, os.Remove(p))
	must(t, os.Symlink("../../../../../../../../devices/0000:3b:00.0/net/ens0", p))
	s := scanOf(t, host)
	expect(t, "its net", nets(device(t, s, "mlx5_0").GetPorts()[0].GetNetDevices()), "")
	expect(t, "the other's net", nets(device(t, s, "mlx5_1").GetPorts()[0].GetNetDevices()), "ens1")
	expect(t, "the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
}

func TestNamesOfGreatLength(t *testing.T) {
	long := hca(0)
	long.Name, long.Nets = strings.Repeat("m", 200), fakehost.Nets(strings.Repeat("ü", 100))
	s := scanOf(t, newHost(t, long, hca(1)))
	d := device(t, s, long.Name)
	expect(t, "net", nets(d.GetPorts()[0].GetNetDevices()), long.Nets[0].Name)
	expect(t, "the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
}

// FuzzScan puts any bytes into any file of one device. The other one must not be
// touched by it, and whatever comes out is a message.
func FuzzScan(f *testing.F) {
	host, err := fakehost.New(f.TempDir(), fakehost.PlainFiles())
	if err != nil {
		f.Fatal(err)
	}
	for n := range 2 {
		one := hca(n)
		one.Complete = true
		if err := host.Add(one); err != nil {
			f.Fatal(err)
		}
	}
	var all []string
	err = filepath.WalkDir(host.FunctionDir("mlx5_0"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, p)
		}
		return err
	})
	if err != nil || len(all) < 20 {
		f.Fatalf("%d files, %v", len(all), err)
	}
	for i := range all {
		for _, seed := range []string{"", "0", "-1\n", "4: ACTIVE\n", "\x00\xff", "../../..", strings.Repeat("9", 5000), "pci:v0000\n"} {
			f.Add(uint8(i), []byte(seed))
		}
	}
	scanner, err := New(Options{Root: host.Root()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		p := all[int(which)%len(all)]
		was, err := os.ReadFile(p)
		must(t, err)
		defer func() { must(t, os.WriteFile(p, was, 0o600)) }()
		must(t, os.WriteFile(p, content, 0o600))
		s := scan(t, scanner)
		if _, err := proto.Marshal(s); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		expect(t, "devices", namesOf(s), "mlx5_0 mlx5_1")
		expect(t, "the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
	})
}
