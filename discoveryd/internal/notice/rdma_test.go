// RDMA notifications, as far as a kernel without RDMA goes; test/vm has one with.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/vishvananda/netlink/nl"
)

func attribute(kind int, value ...byte) []byte { return nl.NewRtAttr(kind, value).Serialize() }

func TestWhetherTheKernelTellsOfRDMADevices(t *testing.T) {
	join := func(parts ...[]byte) (all []byte) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	for _, test := range []struct {
		name   string
		answer []byte
		want   bool
	}{
		{"6.12", join(attribute(nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1), attribute(rdmaMonitorMode, 1)), true},
		{"6.12, switched off", join(attribute(nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1), attribute(rdmaMonitorMode, 0)), false},
		{"6.1", attribute(nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1), false},
		{"empty value", attribute(rdmaMonitorMode), false},
		{"half an attribute", []byte{8, 0, 103}, false},
		{"nothing", nil, false},
	} {
		if got := monitors(test.answer); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestNotificationNamesItsDevice(t *testing.T) {
	message := func(parts ...[]byte) (all []byte) {
		m := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT|28, 0)
		for _, part := range parts {
			m.AddRawData(part)
		}
		return m.Serialize()
	}
	index, name := attribute(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 1, 0, 0, 0), attribute(nl.RDMA_NLDEV_ATTR_DEV_NAME, []byte("mlx5_0\x00")...)
	for _, test := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"named", message(index, name), "mlx5_0"},
		{"nameless", message(index), ""},
		{"two in one", append(message(index, name), message(index, name)...), ""},
		{"cut short", message(index, name)[:30], ""},
		{"nothing", nil, ""},
	} {
		if got := rdmaName(test.message); got != test.want {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}

// R51: a kernel without RDMA is not an error that is tried again and again.
func TestR51_KernelWithoutRDMAIsQuiet(t *testing.T) {
	speaks, err := rdmaSpeaks()
	if err != nil || speaks {
		t.Skipf("this kernel has RDMA: speaks %v, error %v", speaks, err)
	}
	synctest.Test(t, func(t *testing.T) {
		r, n := NewRDMA(), New()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx, n, func() { t.Error("it can't listen") }) }()
		for _, is := range []bool{false, true, true, false, true} {
			r.Present(is)
			synctest.Wait()
		}
		select {
		case err := <-done:
			t.Errorf("ended: %v", err)
		default:
		}
		cancel()
		if err := <-done; err != nil || n.Events() > 0 {
			t.Errorf("%d events, error %v", n.Events(), err)
		}
	})
}
