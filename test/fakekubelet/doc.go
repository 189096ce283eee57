// SPDX-License-Identifier: Apache-2.0

// Package fakekubelet is the device-plugin side of a kubelet in one process, for tests and demos of device plugins: the Registration
// server, the client that dials back and lists, the book-keeping behind capacity and allocatable, Allocate as called at pod admission,
// and verbs for whatever can go wrong between a kubelet and a plugin.
//
// It follows pkg/kubelet/cm/devicemanager of Kubernetes v1.37.2 (ByPath) and v1.36.3 (ByName), including what looks like a mistake there:
//
//   - Start wipes every socket of the directory and nothing else; a plugin has to bind again.
//   - Register dials the plugin inside the call, asks GetDevicePluginOptions and only then answers.
//   - ListAndWatch is called once for each Register. When it ends, the resource turns unhealthy and nobody calls again. After
//     Options.StopGrace its capacity becomes 0.
//   - A failed Register leaves its connection open, and drops an older client of the same book-keeping key from the books.
//   - ByPath refuses a second Register on a path that it holds, and every later one; ByName stops whatever endpoint is current when it
//     reaps an old one.
//
// With Options.PluginsRegistry it also plays kubelet's plugin manager: it dials each socket that appears there, asks GetInfo, registers it and
// tells it the outcome; it never comes back to one whose session is lost before the socket has been removed and made anew.
//
// A Kubelet is the whole node: it outlives the kubelet processes that Start makes and Stop or Kill ends, and so do the recorded
// sessions, lists and registrations, the pods and the checkpoint file. State is a snapshot of it all; Wait blocks until a condition on
// that snapshot holds. All methods may be called from any goroutine.
//
// What it leaves out: fsync of the checkpoint, the 10 s tick of the node status (numbers change at once), pod and
// container life cycle, metrics.
package fakekubelet
