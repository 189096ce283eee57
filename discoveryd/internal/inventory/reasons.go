// What limits a device or a node, in words: one sentence with the remedy.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const (
	noSubsystem    = "The kernel has no RDMA subsystem; it comes with the driver of an RDMA device (ib_core)."
	netnsExclusive = "RDMA devices are exclusive to one network name space and can't be shared; run 'rdma system set netns shared' on the host."
	noRDMADevice   = "This network function has no RDMA device; load its RDMA driver (such as mlx5_ib) if it should have one."
	driverUnbound  = "No driver is bound to the PCI function; bind its driver."
	notAnswering   = "The driver has not answered in time and the facts are the last ones known; see the kernel log."
	noPorts        = "The device has no port; see its driver's messages in the kernel log."
	noRDMACM       = "/dev/infiniband/rdma_cm is missing; load the module rdma_ucm (modprobe rdma_ucm)."
	noRDMACMFile   = "/dev/infiniband/rdma_cm is missing although the module rdma_ucm is there; see udev or the mount of /dev."
)

func noUverbs(module, told, manages bool) string {
	switch {
	case module && !told && manages:
		return "The device has management files only, as for the planes of a multi-plane card; they go with the other RDMA device on its function."
	case !module:
		return "There is no uverbs device; load the module ib_uverbs (modprobe ib_uverbs)."
	case told:
		return "The uverbs device has no file in /dev/infiniband; see udev or the mount of /dev."
	}
	return "There is no uverbs device; see the driver's messages in the kernel log."
}

func noUmad(module bool) string {
	if !module {
		return "There is no umad device; load the module ib_umad (modprobe ib_umad) if management datagrams are needed."
	}
	return "The umad devices have no files in /dev/infiniband; see udev or the mount of /dev."
}

func filesMissing(missing, other []string) string {
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, "is not there: "+some(missing))
	}
	if len(other) > 0 {
		parts = append(parts, "is not the device that the kernel means: "+some(other))
	}
	return "A file that the kernel tells of " + strings.Join(parts, "; ") + "; see udev or the mount of /dev."
}

func notPermitted(paths []string) string {
	return "The daemon may not look at " + some(paths) + "; see the security module's (SELinux, AppArmor) log."
}

func unreadable(notes []string) string {
	return "A file of the device can't be understood (" + some(notes) + "); see the kernel log."
}

func tooManyOf(things []string) string {
	return "There are more " + strings.Join(things, " and more ") + " than a snapshot may hold; the rest was left out."
}

// some lists the first few.
func some(things []string) string {
	const enough = 4
	if more := len(things) - enough; more > 0 {
		return strings.Join(things[:enough], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(things, ", ")
}

// reasons collects reasons, one for each code.
type reasons []*discoveryv1.Reason

func (r *reasons) add(code discoveryv1.ReasonCode, message string) {
	*r = append(*r, &discoveryv1.Reason{Code: code, Message: message})
}

func (r reasons) sorted() []*discoveryv1.Reason {
	slices.SortStableFunc(r, func(a, b *discoveryv1.Reason) int { return cmp.Compare(a.GetCode(), b.GetCode()) })
	return slices.CompactFunc(r, func(a, b *discoveryv1.Reason) bool { return a.GetCode() == b.GetCode() })
}

// compareNatural orders umad2 before umad10.
func compareNatural(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
