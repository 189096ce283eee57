// What comes through the socket is not what the protocol says.
//
// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

func TestR84_BadSnapshotIsRefusedAsAWholeAndTheLastGoodOneStands(t *testing.T) {
	doubled := fakedaemon.Snapshot("a", 6, fakedaemon.HCA(0), fakedaemon.HCA(1), fakedaemon.HCA(0))
	orphan := fakedaemon.HCA(3)
	orphan.Parent = nil
	for name, bad := range map[string]*fakedaemon.Message{
		"doubled device":  fakedaemon.Whole(doubled),
		"older again":     whole("a", 4),
		"no instance":     whole("", 6),
		"no generation":   whole("a", 0),
		"no parent":       fakedaemon.Whole(fakedaemon.Snapshot("a", 6, orphan)),
		"empty snapshot":  {Snapshot: &discoveryv1.Snapshot{}, Status: fakedaemon.Fresh()},
		"a file of /etc":  fakedaemon.Whole(fakedaemon.Snapshot("a", 6, withFile("/etc/shadow"))),
		"a way out":       fakedaemon.Whole(fakedaemon.Snapshot("a", 6, withFile("/dev/infiniband/../sda"))),
		"the directory":   fakedaemon.Whole(fakedaemon.Snapshot("a", 6, withFile("/dev/infiniband/"))),
		"a name's slash":  fakedaemon.Whole(fakedaemon.Snapshot("a", 6, named("mlx5/0"))),
		"a name too long": fakedaemon.Whole(fakedaemon.Snapshot("a", 6, named(strings.Repeat("m", 1<<20)))),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			feed := make(chan *fakedaemon.Message)
			n.daemon(fakedaemon.Feed(whole("a", 5), feed))
			n.until("the good one", has("a", 5))
			feed <- bad
			s := n.until("the refusal", func(s State) bool { return s.Rejected == 1 && !s.Connected })
			if !strings.Contains(s.Problem, "breaks the protocol") {
				t.Errorf("problem %q", s.Problem)
			}
			n.wantSnapshot("a", 5)
			n.until("the stream anew", has("a", 5))
			n.wantSnapshot("a", 5)
		})
	}
}

func withFile(path string) *discoveryv1.Device {
	d := fakedaemon.HCA(2)
	d.CharDevices[0].Path = path
	return d
}

func named(name string) *discoveryv1.Device {
	d := fakedaemon.HCA(2)
	d.Name = name
	return d
}

func TestR84_FirstMessageWithoutASnapshot(t *testing.T) {
	n := newNode(t)
	n.daemon(func(call int, stream fakedaemon.Stream) error {
		if call <= 3 {
			return errors.Join(stream.Send(&fakedaemon.Message{Status: fakedaemon.Fresh()}), wait(stream))
		}
		return errors.Join(stream.Send(whole("a", 1)), wait(stream))
	})
	s := n.until("the refusal", func(s State) bool { return strings.Contains(s.Problem, "the first message holds no snapshot") })
	if s.Snapshot != nil || s.Connected {
		t.Errorf("state %+v after a status alone", s)
	}
	n.until("a good stream", has("a", 1))
}

func wait(stream fakedaemon.Stream) error {
	<-stream.Context().Done()
	return nil
}

// A later version of the daemon says more than this one understands.
func TestR84_UnknownFieldsAndCodesAreIgnored(t *testing.T) {
	n := newNode(t)
	m := whole("a", 1)
	extra := protowire.AppendString(protowire.AppendTag(nil, 4711, protowire.BytesType), "from the future")
	m.ProtoReflect().SetUnknown(extra)
	m.Snapshot.ProtoReflect().SetUnknown(extra)
	m.Snapshot.Devices[0].ProtoReflect().SetUnknown(extra)
	m.Snapshot.Devices[0].NodeType = 99
	m.Snapshot.Devices[0].Reasons = []*discoveryv1.Reason{{Code: 999, Message: "something new"}}
	m.Status.ProtoReflect().SetUnknown(extra)
	n.daemon(fakedaemon.Say(m))
	n.until("the snapshot", has("a", 1))
	n.wantSnapshot("a", 1)
}

// Raw servers: what they write is no HTTP/2, or only nearly.
func TestR84_GarbageOnTheSocket(t *testing.T) {
	preface := []byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00") // an empty SETTINGS frame
	for name, serve := range map[string]func(net.Conn){
		"text":             func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\nhello")) },
		"zeros":            func(c net.Conn) { _, _ = c.Write(make([]byte, 64<<10)) },
		"0xff":             func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte{0xff}, 64<<10)) },
		"settings, then":   func(c net.Conn) { _, _ = c.Write(append(preface, bytes.Repeat([]byte{0xa5}, 64<<10)...)) },
		"an endless flood": func(c net.Conn) { flood(c) },
		"closed at once":   func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNodeWith(t, 200*time.Millisecond)
			d := n.daemon(fakedaemon.Say(whole("a", 1)))
			n.until("a good daemon", has("a", 1))
			d.Stop()
			var tries atomic.Int64
			stop := serveRaw(t, n.socket, func(c net.Conn) { tries.Add(1); serve(c) })
			enough := time.NewTimer(20 * time.Second)
			defer enough.Stop()
			for tries.Load() < 4 {
				_, changed := n.Get()
				tick := time.NewTimer(10 * time.Millisecond)
				select {
				case <-changed:
				case <-tick.C:
				case <-enough.C:
					t.Fatalf("only %d tries", tries.Load())
				}
			}
			n.wantSnapshot("a", 1)
			if s, _ := n.Get(); s.Connected || s.Problem == "" {
				t.Errorf("state %+v", s)
			}
			// One for the good daemon's end, perhaps one between the two, one for this.
			if got := n.logs.count("not connected"); got > 3 {
				t.Errorf("%d lines after 4 tries:\n%s", got, n.logs)
			}
			stop()
			n.daemon(fakedaemon.Say(whole("b", 1)))
			n.until("a good daemon again", has("b", 1))
		})
	}
}

func flood(c net.Conn) {
	chunk := bytes.Repeat([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}, 1000)
	for {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

// serveRaw answers each connection by serve until stop is called.
func serveRaw(t *testing.T, socket string, serve func(net.Conn)) (stop func()) {
	t.Helper()
	lis, err := net.Listen("unix", socket)
	must(t, err)
	ended := make(chan struct{})
	var conn atomic.Pointer[net.Conn]
	go func() {
		defer close(ended)
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			conn.Store(&c)
			serve(c)
			_ = c.Close()
		}
	}()
	stop = func() {
		_ = lis.Close()
		if c := conn.Load(); c != nil {
			_ = (*c).Close()
		}
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func TestR84_MessageThatIsTooBig(t *testing.T) {
	n := newNode(t)
	feed := make(chan *fakedaemon.Message)
	n.daemon(fakedaemon.Feed(whole("a", 1), feed))
	n.until("a good one", has("a", 1))
	big := whole("a", 2)
	big.Snapshot.Node.KernelRelease = strings.Repeat("x", maxMessage+1)
	feed <- big
	s := n.until("the refusal", away)
	if !strings.Contains(s.Problem, "larger than max") {
		t.Errorf("problem %q", s.Problem)
	}
	n.wantSnapshot("a", 1)
	n.until("the stream anew", has("a", 1))
	if s.Rejected != 1 {
		t.Errorf("rejected %d, want 1", s.Rejected)
	}
}

func TestR84_SnapshotOfMoreDevicesThanThereCanBe(t *testing.T) {
	n := newNode(t)
	feed := make(chan *fakedaemon.Message)
	n.daemon(fakedaemon.Feed(whole("a", 1), feed))
	n.until("a good one", has("a", 1))
	devices := make([]*discoveryv1.Device, maxDevices+1)
	for i := range devices {
		devices[i] = &discoveryv1.Device{Parent: &discoveryv1.Parent{}}
	}
	feed <- fakedaemon.Whole(fakedaemon.Snapshot("a", 2, devices...))
	n.until("the refusal", func(s State) bool { return s.Rejected == 1 && strings.Contains(s.Problem, "8193 devices") })
	n.wantSnapshot("a", 1)
}

// The newest wins, and the client keeps up with a daemon that never pauses.
func TestR84_EndlessStream(t *testing.T) {
	n := newNode(t)
	done := make(chan struct{})
	n.daemon(func(_ int, stream fakedaemon.Stream) error {
		for generation := uint64(1); ; generation++ {
			if err := stream.Send(whole("a", generation)); err != nil {
				return err
			}
			select {
			case <-done:
				return status.Error(codes.Unavailable, "enough")
			default:
			}
		}
	})
	n.until("the thousandth", func(s State) bool { return s.Snapshot.GetGeneration() >= 1000 })
	close(done)
	if s, _ := n.Get(); s.Rejected != 0 {
		t.Errorf("%d rejected", s.Rejected)
	}
}

// A daemon that dies after its first message, again and again, is not hammered.
func TestCrashLoopOfTheDaemonBacksOff(t *testing.T) {
	n := newNode(t)
	d := n.daemon(func(call int, stream fakedaemon.Stream) error { return stream.Send(whole("a", uint64(call))) })
	n.until("a few lives", func(s State) bool { return s.Snapshot.GetGeneration() >= 4 })
	second := time.NewTimer(2 * time.Second)
	before := d.Calls()
	<-second.C
	if got := d.Calls() - before; got > 12 {
		t.Errorf("%d calls in 2 s", got)
	}
}

// What gRPC can't decode is no message at all.
func TestR84_MessageThatIsNoProtobuf(t *testing.T) {
	n := newNode(t)
	bad := whole("a", 1)
	// A field of Snapshot where WatchSnapshotsResponse expects one: wrong inside.
	raw := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0xff, 0xff, 0xff})
	bad.Snapshot = nil
	bad.ProtoReflect().SetUnknown(raw)
	n.daemon(func(call int, stream fakedaemon.Stream) error {
		if call == 1 {
			return errors.Join(stream.Send(bad), wait(stream))
		}
		return errors.Join(stream.Send(whole("a", 1)), wait(stream))
	})
	n.until("a good stream", has("a", 1))
	if got := n.logs.count("unmarshal"); got != 1 {
		t.Errorf("the fault is told %d times:\n%s", got, n.logs)
	}
}

func TestCheckTakesWhatCanServeAndWhatCannot(t *testing.T) {
	function := func(address string) *discoveryv1.Device {
		return &discoveryv1.Device{Parent: &discoveryv1.Parent{Bus: discoveryv1.Bus_BUS_PCI, PciAddress: address}}
	}
	for name, s := range map[string]*discoveryv1.Snapshot{
		"no device":                         fakedaemon.Snapshot("a", 1),
		"two functions without RDMA":        fakedaemon.Snapshot("a", 1, function("0000:01:00.0"), function("0000:01:00.1")),
		"a function and what hangs off it":  fakedaemon.Snapshot("a", 1, function("0000:01:00.0"), function("0000:01:00.0")),
		"a name that looks like a function": fakedaemon.Snapshot("a", 1, function("0000:01:00.0"), named("function 0000:01:00.0")),
		"the most devices":                  fakedaemon.Snapshot("a", 1, fakedaemon.HCAs(maxDevices)...),
	} {
		if err := Check(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The daemon's own bound is 16 MiB for a snapshot, and what is so big must not be
// refused for ever.
func TestTheBiggestSnapshotIsTaken(t *testing.T) {
	n := newNode(t)
	devices := fakedaemon.HCAs(4096)
	for _, d := range devices {
		d.FirmwareVersion = strings.Repeat("x", 4000-proto.Size(d))
	}
	m := fakedaemon.Whole(fakedaemon.Snapshot("a", 1, devices...))
	if size := proto.Size(m); size < 15<<20 {
		t.Fatalf("the message has only %d bytes", size)
	}
	big, err := fakedaemon.Start(n.socket, fakedaemon.Say(m))
	must(t, err)
	defer big.Stop()
	n.until("the big one", has("a", 1))
}
