// SPDX-License-Identifier: Apache-2.0

package cdiname_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rdma-relay/rdma-relay/internal/cdiname"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestNamesFollowTheHardware(t *testing.T) {
	pci := &v1.Parent{Bus: v1.Bus_BUS_PCI, PciAddress: "0000:3b:00.0", Function: v1.FunctionKind_FUNCTION_KIND_PF}
	sf := &v1.Parent{Bus: v1.Bus_BUS_AUXILIARY, PciAddress: "0000:03:00.0", AuxiliaryName: "mlx5_core.sf.2", Function: v1.FunctionKind_FUNCTION_KIND_SF}
	// mlx5's own RDMA part is an auxiliary device too, one for each function.
	aux := &v1.Parent{Bus: v1.Bus_BUS_AUXILIARY, PciAddress: "0000:03:00.0", AuxiliaryName: "mlx5_core.rdma.0", Function: v1.FunctionKind_FUNCTION_KIND_PF}
	for want, d := range map[string]*v1.Device{
		"0000:3b:00.0":                {Name: "mlx5_0", NodeGuid: "0c42:a103:00c6:cf54", Parent: pci},
		"0000:03:00.0-mlx5_core.sf.2": {Name: "mlx5_4", Parent: sf},
		"0000:03:00.0":                {Name: "mlx5_0", Parent: aux},
		"guid-0250-56ff-fe00-0001":    {Name: "rxe0", NodeGuid: "0250:56ff:fe00:0001", Parent: &v1.Parent{Bus: v1.Bus_BUS_NONE}},
		"name-siw0":                   {Name: "siw0", NodeGuid: "0000:0000:0000:0000"},
		"name-rxe0":                   {Name: "rxe0"},
	} {
		if got := cdiname.Device(d); got != want {
			t.Errorf("%v is named %q, want %q", d, got, want)
		}
	}
	if got := cdiname.Qualified("0000:3b:00.0"); got != "rdma-relay.dev/hca=0000:3b:00.0" {
		t.Errorf("qualified name %q", got)
	}
}

// legal is the CDI specification's rule for the names of devices.
var legal = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$`)

func TestNamesAreLegalWhateverTheDeviceSays(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"", "-", "a b", "a/b", "a=b", "ä", "a\x00", "rxe0-", strings.Repeat("x", 55), strings.Repeat("x", 56), strings.Repeat("=", 500), "\xff"} {
		got := cdiname.Device(&v1.Device{Name: name})
		if !legal.MatchString(got) || len(got) > cdiname.MaxBytes {
			t.Errorf("%q is named %q", name, got)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%q and %q are both named %q", name, other, got)
		}
		seen[got] = name
	}
}

func TestQualifiedNamesOfOursAreToldFromOthers(t *testing.T) {
	for text, want := range map[string]bool{
		"rdma-relay.dev/hca=0000:3b:00.0":               true,
		cdiname.Qualified(cdiname.Device(&v1.Device{})): true,
		"":                       false,
		"0000:3b:00.0":           false,
		"rdma-relay.dev/hca=":    false,
		"rdma-relay.dev/hca=a b": false,
		"rdma-relay.dev/hca=a,nvidia.com/gpu=all":         false,
		"nvidia.com/gpu=all":                              false,
		"rdma-relay.dev/hca=" + strings.Repeat("x", 55):   false,
		"rdma-relay.dev/hca-2=0000:3b:00.0":               false,
		"x" + cdiname.Qualified("0000:3b:00.0"):           false,
		cdiname.Qualified(strings.Repeat("x", 54)):        true,
		cdiname.Qualified(strings.Repeat("x", 53) + "\n"): false,
	} {
		if got := cdiname.IsQualified(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
