// Several RDMA devices on one PCI function.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import "github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"

// A function is given whole. A multi-plane card has a second RDMA device for the
// management of its planes: it has umad and issm files and no uverbs
// (drivers/infiniband/core/uverbs_main.c takes none of RDMA_DEVICE_TYPE_SMI), so that
// nobody could be given it by itself (R33). The function's slots are those of the
// first device by name that has uverbs; the files of the others go with it.

// adopt gives the device the files of another on the same function.
func (f *facts) adopt(other *facts) {
	f.files = append(f.files, other.files...)
	other.unusable = "by itself, but its files are given with those of " + f.label + ", which is on the same function"
}

// isCompanion tells whether the device lacks nothing but uverbs, and has files that
// are its own.
func (f *facts) isCompanion() bool {
	return f.onlyLacksUverbs && f.pci != "" && (f.has(config.Umad) || f.has(config.Issm))
}
