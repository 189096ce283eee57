// Hosts that change between scans and during them.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestR27_VirtualFunctionsThatComeAndGo(t *testing.T) {
	host := newHost(t, fakehost.HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", TotalVFs: 8})
	scanner := newScanner(t, host.Root())
	expect(t, "at first", namesOf(scan(t, scanner)), "mlx5_0")
	vfs, err := host.AddVFs("mlx5_0", 4)
	must(t, err)
	expect(t, "with four", len(scan(t, scanner).GetDevices()), 5)
	must(t, host.Remove(vfs[1]))
	must(t, host.Remove(vfs[3]))
	s := scan(t, scanner)
	expect(t, "with two", namesOf(s), strings.Join([]string{"mlx5_0", vfs[0], vfs[2]}, " "))
	expect(t, "index", device(t, s, vfs[2]).GetParent().GetVfIndex(), uint32(2))
	expect(t, "remembered", len(scanner.devices.keys), 3)
}

// churn calls change again and again while the test scans, for a moment.
func churn(t *testing.T, scanner *Scanner, change func() error, check func(s *discoveryv1.Snapshot)) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := change(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	end := time.Now().Add(time.Second)
	for n := 0; n < 3 || time.Now().Before(end); n++ {
		check(scan(t, scanner))
	}
	close(stop)
	wg.Wait()
}

func TestR29_RenamedDeviceIsNeverListedTwice(t *testing.T) {
	host := newHost(t, hca(0), hca(1))
	scanner := newScanner(t, host.Root())
	names := [2]string{"mlx5_0", "rocep59s0f0"}
	n := 0
	churn(t, scanner, func() error {
		n++
		return host.Rename(names[(n-1)%2], names[n%2])
	}, func(s *discoveryv1.Snapshot) {
		on := 0
		for _, d := range s.GetDevices() {
			if d.GetParent().GetPciAddress() == "0000:3b:00.0" {
				on++
			}
		}
		if on > 1 {
			t.Errorf("%d devices on one function: %s", on, namesOf(s))
		}
		expect(t, "the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
	})
	d := device(t, scan(t, scanner), names[n%2])
	expect(t, "files at the end", files(d), "uverbs0 umad0:1 issm0:1 rdma_cm")
	expect(t, "reasons at the end", codes(d.GetReasons()), "")
}

func TestR41_OneBadFunctionDoesNotSpoilTheRest(t *testing.T) {
	host := newHost(t, hca(1), hca(2), hca(3))
	driver := filepath.Join(host.FunctionDir("mlx5_2"), "driver")
	target, err := os.Readlink(driver)
	must(t, err)
	must(t, os.Remove(driver))
	scanner := newScanner(t, host.Root())
	others := func(s *discoveryv1.Snapshot) {
		t.Helper()
		for _, name := range []string{"mlx5_1", "mlx5_3"} {
			expect(t, name+" reasons", codes(device(t, s, name).GetReasons()), "")
			expect(t, name+" state", device(t, s, name).GetPorts()[0].GetState(), discoveryv1.PortState_PORT_STATE_ACTIVE)
		}
	}
	s := scan(t, scanner)
	expect(t, "unbound", codes(device(t, s, "mlx5_2").GetReasons()), "DRIVER_UNBOUND")
	others(s)

	state := filepath.Join(host.DeviceDir("mlx5_2"), "ports/1/state")
	n := 0
	churn(t, scanner, func() error {
		n++
		switch n % 6 {
		case 0:
			return os.Symlink(target, driver)
		case 1:
			return os.WriteFile(state, nil, 0o600) // half written
		case 2:
			return os.Remove(state)
		case 3:
			return os.WriteFile(state, []byte("4: ACTIVE\n"), 0o600)
		case 4:
			return os.Rename(host.DeviceDir("mlx5_2"), host.DeviceDir("mlx5_2")+"-away")
		default:
			return errorsOf(os.Rename(host.DeviceDir("mlx5_2")+"-away", host.DeviceDir("mlx5_2")), removeIfThere(driver))
		}
	}, others)

	must(t, host.Remove("mlx5_2"))
	must(t, host.Add(hca(2)))
	s = scan(t, scanner)
	expect(t, "bound", codes(device(t, s, "mlx5_2").GetReasons()), "")
	others(s)
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func removeIfThere(p string) error {
	if err := os.Remove(p); !os.IsNotExist(err) {
		return err
	}
	return nil
}

func TestHungDeviceIsToldOfAndTheOthersGoOn(t *testing.T) {
	host := newHost(t, hca(0), hca(1))
	scanner := newScanner(t, host.Root())
	before := device(t, scan(t, scanner), "mlx5_0")
	due := make(chan struct{}, 8)
	scanner.devices.due = func() { due <- struct{}{} }
	scanner.devices.patience, scanner.devices.deadline = time.Millisecond, 200*time.Millisecond

	hang := make(chan struct{})
	v, err := openView(host.Root())
	must(t, err)
	l, err := v.list(nil)
	must(t, err)
	a := scanner.devices.do(t.Context(), v, l.rdma[0].key(), time.Time{}, func(last *facts) *facts { <-hang; return last })
	v.release()
	if !a.overdue { // as it is on a busy machine; then nobody need be told
		<-due
	}
	scanner.devices.patience = time.Minute // for the others
	must(t, host.SetPortState("mlx5_1", 1, fakehost.StateDown))
	s := scan(t, scanner)
	d := device(t, s, "mlx5_0")
	expect(t, "reasons", codes(d.GetReasons()), "NOT_ANSWERING")
	expect(t, "last facts", d.GetNodeGuid()+files(d), before.GetNodeGuid()+files(before))
	expect(t, "reasons before, untouched", codes(before.GetReasons()), "")
	expect(t, "the other's state", device(t, s, "mlx5_1").GetPorts()[0].GetState(), discoveryv1.PortState_PORT_STATE_DOWN)
	close(hang)
	<-due // it has returned
	expect(t, "reasons when it is back", codes(device(t, scan(t, scanner), "mlx5_0").GetReasons()), "")
}

func TestDeviceThatHasNeverAnsweredIsListedByItsPlace(t *testing.T) {
	e := entry{name: "mlx5_0", path: "devices/pci0000:3a/0000:3b:00.0/infiniband/mlx5_0", parent: "devices/pci0000:3a/0000:3b:00.0"}
	s := assemble(&listing{hasRDMA: true, cm: &char{}}, []result{{entry: e, answer: answer[*facts]{overdue: true}}})
	d := device(t, s, "mlx5_0")
	expect(t, "address", d.GetParent().GetPciAddress(), "0000:3b:00.0")
	expect(t, "reasons", codes(d.GetReasons()), "NOT_ANSWERING")
}
