// SPDX-License-Identifier: Apache-2.0

package register

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"sync/atomic"
)

// SocketPrefix begins the name of each socket that any version of this program
// makes in kubelet's directory.
const SocketPrefix = "rdma-relay-"

// MaxNameLen is the length of the longest name that Names gives, in bytes.
const MaxNameLen = len(SocketPrefix) + labelLen + len("-01234567-0123456789.sock")

// labelLen is how much of the resource's name a socket's name shows.
const labelLen = 12

// Names makes socket names that are never used twice, in this process or in
// another: kubelet 1.37 refuses a path for good that it holds already
// (endpointStore in kubelet's pkg/kubelet/cm/devicemanager). Make it with
// NewNames; it may be used concurrently.
type Names struct {
	instance string
	count    atomic.Uint64
}

// NewNames returns Names for one process.
func NewNames() *Names {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return &Names{instance: hex.EncodeToString(b[:])}
}

// Next returns a new name for a socket of resource, of at most MaxNameLen bytes
// whatever the resource's name. Resource names hold only bytes that a file name
// may hold.
func (n *Names) Next(resource string) string {
	label := path.Base(resource)
	return fmt.Sprintf("%s%s-%s-%d.sock", SocketPrefix, label[:min(len(label), labelLen)], n.instance, n.count.Add(1))
}
