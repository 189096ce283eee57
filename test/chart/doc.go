// Package chart tests charts/rdma-relay with the helm that tools/helm pins: what
// `make test-chart` does. It is a module of its own since it decodes the manifests with
// the types of Kubernetes.
//
// helm and the two programs are those in RDMA_RELAY_BIN, by default ../../bin.
//
// SPDX-License-Identifier: Apache-2.0
package chart
