// Package k8s runs kubelet's own device manager, in this process, against the two
// real binaries: what `make e2e-kubelet` does. It is a module of its own since
// kubelet's packages are 1,200 and a cold compile of them takes ten minutes.
//
// The binaries are those in RDMA_RELAY_BIN, by default ../../bin; they look at a
// made-up host below --host-root. Which Kubernetes release is built in is said by
// go.mod; gomod.sh makes one for another release:
//
//	./gomod.sh v1.36.3 /tmp/k136/go.mod
//	go test -tags kubelet136 -modfile=/tmp/k136/go.mod .
//
// facts_test.go holds what kubelet does by itself, with a plugin of a few lines in
// the place of ours; docs/kubelet-versions.md tells the outcome.
//
// SPDX-License-Identifier: Apache-2.0
package k8s
