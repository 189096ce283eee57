// Package cluster brings up a real one-node Kubernetes on this machine and installs
// the chart on it: what `make e2e-cluster` does. etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, containerd and kubelet are the real ones,
// collected or built by build.sh; the host's RDMA devices are a sample tree of
// test/fakehost's kind, with real character devices.
//
// Everything runs in name spaces of its own (process IDs, network, mounts), which the
// test binary makes by starting itself once more; see sandbox_test.go. When that
// process ends, however it does, the kernel ends all the rest. It needs root.
//
// The tests have the build tag "cluster", so that `go test ./...` of this module
// leaves them alone.
//
// SPDX-License-Identifier: Apache-2.0
package cluster
