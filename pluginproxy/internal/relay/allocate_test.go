// What a pod gets, through kubelet.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// refused checks an Allocate that must fail, with all these words in its error.
func (n *node) refused(want codes.Code, ids []string, words ...string) {
	n.t.Helper()
	answer, err := n.Allocate(context.Background(), hca, ids...)
	if status.Code(err) != want {
		n.t.Errorf("Allocate %q: %v, %v; want %v", ids, answer, err, want)
		return
	}
	for _, word := range append(words, hca) {
		if !strings.Contains(err.Error(), word) {
			n.t.Errorf("Allocate %q: %v lacks %q", ids, err, word)
		}
	}
}

func TestAllocateGivesThePoolsFilesAndNames(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 10))
	n.publish(fakedaemon.HCAs(2)...)
	n.eventually(listed(hca, 10, 10))
	grants, err := n.AllocatePod(context.Background(), fakekubelet.Pod{
		UID: "pod", Containers: []fakekubelet.Container{{Name: "main", Limits: map[string]int{hca: 1}}},
	})
	must(t, err)
	var paths []string
	for _, d := range grants[0].Response.GetDevices() {
		if d.GetHostPath() != d.GetContainerPath() || d.GetPermissions() != "rw" {
			t.Errorf("device %v", d)
		}
		paths = append(paths, strings.TrimPrefix(d.GetHostPath(), "/dev/infiniband/"))
	}
	if got := strings.Join(paths, " "); got != "uverbs0 uverbs1 rdma_cm umad0 umad1 issm0 issm1" {
		t.Errorf("files %q", got)
	}
	envs := grants[0].Response.GetEnvs()
	if envs["PCIDEVICE_RDMA_HCA"] != "0000:3b:00.0,0000:3b:01.0" || envs["RDMADEVICE_RDMA_HCA"] != "mlx5_0,mlx5_1" {
		t.Errorf("environment %v", envs)
	}
	n.until("the count", func() bool { return n.report(hca).Counters.AllocationsOK == 1 })
}

func TestR46_AllocateForWhatIsNotThere(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := newNode(t, b)
		n.configure(entry("hca", 10, `"health":"active"`))
		must(t, n.Start())
		// After the first change no other list goes out as long as the test lasts.
		n.serve(relay.Options{ListInterval: time.Hour})

		if _, err := n.Allocate(context.Background(), hca, "0"); err == nil {
			t.Error("Allocate before any snapshot succeeds")
		}
		n.publish(fakedaemon.HCA(0))
		n.eventually(listed(hca, 10, 10))
		n.refused(codes.NotFound, []string{"999999"}, "999999")
		n.refused(codes.NotFound, []string{"0", "10"}, `"10"`)
		n.refused(codes.InvalidArgument, nil)
		n.refused(codes.InvalidArgument, []string{"0", "0"}, `"0"`, "twice")
		n.refused(codes.NotFound, []string{strings.Repeat("9", 100_000)})
		if _, err := n.Allocate(context.Background(), hca, "0", "9"); err != nil {
			t.Errorf("Allocate of what is there: %v", err)
		}

		n.publish(fakedaemon.Down(fakedaemon.HCA(0)))
		n.eventually(listed(hca, 10, 0)) // the change that goes out at once
		n.publish()
		n.settled()
		if got := n.State(); got.Capacity(hca) != 10 {
			t.Fatalf("kubelet has %d devices: the list was sent already", got.Capacity(hca))
		}
		n.refused(codes.FailedPrecondition, []string{"0"}, `"0"`, "no RDMA device")

		must(t, n.Restart()) // and with the list of none at kubelet
		n.eventually(listed(hca, 0, 0))
		n.refused(codes.FailedPrecondition, []string{"0"}, `"0"`, "no RDMA device")
		if c := n.report(hca).Counters; c.AllocationsOK != 1 || c.AllocationsRefused != 7 {
			t.Errorf("%d allocations, %d refused; want 1 and 7", c.AllocationsOK, c.AllocationsRefused)
		}
		n.publish(fakedaemon.HCA(0))
		n.eventually(listed(hca, 10, 10))
		if _, err := n.Allocate(context.Background(), hca, "0"); err != nil {
			t.Errorf("Allocate after the hardware's return: %v", err)
		}
	})
}

func TestAllocationsAreTimed(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	n.configure(entry("hca", 10))
	must(t, n.Start())
	times := make(chan time.Duration, 1)
	n.serve(relay.Options{ObserveAllocation: func(d time.Duration) { times <- d }})
	n.publish(fakedaemon.HCA(0))
	n.eventually(listed(hca, 10, 10))
	_, err := n.Allocate(context.Background(), hca, "0")
	must(t, err)
	select {
	case d := <-times:
		if d < 0 || d > within {
			t.Errorf("an allocation took %v", d)
		}
	case <-time.After(within):
		t.Error("no time was observed")
	}
}
