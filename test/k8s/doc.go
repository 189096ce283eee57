// Package k8s runs kubelet's own device manager against the real binaries.
//
// SPDX-License-Identifier: Apache-2.0
package k8s
