// What operators configure, changed while devices come and go and kubelet restarts.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rdma-relay/rdma-relay/internal/cdiname"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// byName is a resource of n slots over network devices.
func byName(name string, slots int, ifNames ...string) string {
	return fmt.Sprintf(`{"resourceName":%q,"rdmaHcaMax":%d,"selectors":{"ifNames":["%s"]}}`, name, slots, strings.Join(ifNames, `","`))
}

// Whatever the order in which kubelet goes and the file changes, what is in force at
// the end is what kubelet has.
func TestEveryKindOfReloadWhileKubeletRestarts(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("keep", 10), entry("a", 10))
		n.publish(fakedaemon.HCAs(2)...)
		n.eventually(fakekubelet.All(listed("rdma/keep", 10, 10), listed("rdma/a", 10, 10)))
		for i, step := range []struct {
			entries []string
			want    map[string]int
		}{
			{[]string{entry("keep", 10), entry("a", 10), entry("added", 5)}, map[string]int{"a": 10, "added": 5}},
			{[]string{entry("keep", 10), entry("renamed", 10), entry("added", 5)}, map[string]int{"renamed": 10, "added": 5}},
			{[]string{entry("keep", 10), entry("renamed", 3), entry("added", 50)}, map[string]int{"renamed": 3, "added": 50}},
			{[]string{entry("keep", 10), byName("renamed", 3, "ens9np0"), entry("added", 50)}, map[string]int{"renamed": 0, "added": 50}},
			{[]string{entry("keep", 10), byName("renamed", 3, "ens1np0"), entry("added", 2, `"sharing":"perDevice"`)}, map[string]int{"renamed": 3, "added": 4}},
			{[]string{entry("keep", 10)}, nil},
		} {
			if i%2 == 0 {
				n.configure(step.entries...)
				must(t, n.Restart())
			} else {
				must(t, n.Stop())
				n.configure(step.entries...)
				must(t, n.Start())
			}
			conds := []func(fakekubelet.State) bool{listed("rdma/keep", 10, 10)}
			for name, slots := range step.want {
				conds = append(conds, listed("rdma/"+name, slots, slots))
			}
			n.eventually(fakekubelet.All(conds...))
			n.until("one socket for each resource", func() bool { return len(n.sockets()) == len(conds) })
		}
	})
}

// R57: a name that doesn't exist is said once, harms nobody, and is forgotten when the
// interface comes.
func TestR57_InterfaceThatDoesNotExistUnderReload(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("other", 10))
	n.publish(fakedaemon.HCAs(2)...)
	n.eventually(listed("rdma/other", 10, 10))
	n.configure(entry("other", 10), byName("some", 5, "ens0np0", "ens1np0", "ens7np0"), byName("none", 5, "ens7np0"))
	n.eventually(fakekubelet.All(listed("rdma/some", 5, 5), listed("rdma/none", 0, 0)))
	const missing = "selectors.ifNames: this node has no RDMA device with the network device ens7np0"
	for _, name := range []string{"rdma/some", "rdma/none"} {
		if hints := n.report(name).Hints; !slices.Contains(hints, missing) {
			t.Errorf("%s: hints %q", name, hints)
		}
	}
	for range 3 { // nothing has changed, so nothing is said
		n.publish(fakedaemon.HCAs(2)...)
		n.settled()
	}
	if said := strings.Count(n.logs.String(), missing); said != 2 {
		t.Errorf("said %d times, want once for each resource:\n%s", said, n.logs.tail())
	}
	n.publish(append(fakedaemon.HCAs(2), fakedaemon.HCA(7))...)
	n.eventually(fakekubelet.All(listed("rdma/some", 5, 5), listed("rdma/none", 5, 5)))
	for _, name := range []string{"rdma/some", "rdma/none"} {
		if hints := strings.Join(n.report(name).Hints, "\n"); strings.Contains(hints, "ens7np0") {
			t.Errorf("%s: hints %q", name, hints)
		}
	}
	n.undisturbed("rdma/other")
}

// R47: an overlap that a new file brings is told as one of the first file is.
func TestR47_OverlapsUnderReload(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("a", 10), byName("b", 5, "ens0np0"))
	n.publish(fakedaemon.HCAs(2)...)
	n.eventually(fakekubelet.All(listed("rdma/a", 10, 10), listed("rdma/b", 5, 5)))
	if shared := fmt.Sprint(n.report("rdma/a").Shared); shared != "[{mlx5_0 [rdma/a rdma/b]}]" {
		t.Errorf("shared: %s", shared)
	}
	n.configure(`{"resourceName":"x","sharing":"exclusive","selectors":{"ifNames":["ens0np0"]}}`, entry("a", 10), byName("b", 5, "ens0np0"))
	n.eventually(fakekubelet.All(listed("rdma/x", 1, 1), listed("rdma/a", 10, 10), listed("rdma/b", 0, 0)))
	for _, name := range []string{"rdma/a", "rdma/b"} {
		r := n.report(name)
		if taken := fmt.Sprint(r.Taken); taken != "[{mlx5_0 rdma/x}]" || len(r.Shared) != 0 {
			t.Errorf("%s: taken %s, shared %v", name, taken, r.Shared)
		}
	}
	if said := strings.Count(n.logs.String(), "rdma/x has 1 device selected here, exclusively"); said != 2 {
		t.Errorf("said %d times, want once for each resource:\n%s", said, n.logs.tail())
	}
}

// named gives devices their CDI names.
func named(devices ...*discoveryv1.Device) []*discoveryv1.Device {
	for _, d := range devices {
		d.CdiName = cdiname.Qualified(cdiname.Device(d))
	}
	return devices
}

// R64, and the switch from files to names while the resource is served.
func TestR64_CDINamesUnderReload(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 10))
	n.publish()
	n.eventually(listed(hca, 0, 0))
	answer := func() (files, names int) {
		t.Helper()
		a, err := n.Allocate(t.Context(), hca, "3")
		must(t, err)
		return len(a.GetDevices()), len(a.GetCdiDevices())
	}
	n.publish(named(fakedaemon.HCA(0))...)
	n.eventually(listed(hca, 10, 10))
	if files, names := answer(); files != 4 || names != 0 {
		t.Errorf("%d files, %d names", files, names)
	}
	n.configure(entry("hca", 10, `"cdi":true`))
	n.until("names", func() bool { files, names := answer(); return files == 0 && names == 1 })
	n.publish(named(fakedaemon.HCAs(3)...)...)
	n.until("more names", func() bool { _, names := answer(); return names == 3 })
	n.publish(fakedaemon.HCAs(3)...) // the daemon has lost its directory
	n.eventually(listed(hca, 10, 0))
	n.refused(codes.FailedPrecondition, []string{"3"}, "it has no CDI name")
	n.publish(named(fakedaemon.HCAs(3)...)...)
	n.eventually(listed(hca, 10, 10))
	n.undisturbed(hca)
}
