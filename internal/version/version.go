// Package version tells which build this is.
//
// SPDX-License-Identifier: Apache-2.0
package version

import "runtime/debug"

// stamp is set by the linker: -X github.com/rdma-relay/rdma-relay/internal/version.stamp=v1.2.3.
var stamp string

// String is the version stamp of this build: what the Makefile gave the linker,
// else the module version that the Go tool recorded, else "dev". It never
// changes while the process runs.
func String() string {
	if stamp != "" {
		return stamp
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
