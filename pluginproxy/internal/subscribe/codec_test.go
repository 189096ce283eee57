// Messages that are small on the wire and big in memory.
//
// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

// bomb is a message whose snapshot holds as many empty devices as fit in size bytes.
func bomb(size int) []byte {
	snapshot := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), nil), size/2)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), snapshot)
}

func TestEmptyDevicesByTheMillionCostNoMemory(t *testing.T) {
	data := mem.BufferSlice{mem.SliceBuffer(bomb(maxMessage - 16))}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := newBoundedCodec().Unmarshal(data, &fakedaemon.Message{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "more than 131072 elements") {
		t.Errorf("error %v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes allocated to refuse %d", grown, len(data[0].ReadOnlyData()))
	}
}

func TestBombIsRefusedAndTheLastGoodSnapshotStands(t *testing.T) {
	n := newNode(t)
	m := &fakedaemon.Message{}
	must(t, proto.Unmarshal(bomb(2*maxElements+64), m))
	n.daemon(func(call int, stream fakedaemon.Stream) error {
		if call == 1 {
			return errors.Join(stream.Send(whole("a", 5)), stream.Send(m), wait(stream))
		}
		return errors.Join(stream.Send(whole("a", 6)), wait(stream))
	})
	n.until("the refusal", func(s State) bool {
		return s.Rejected == 1 && strings.Contains(s.Problem, "elements in one message")
	})
	n.until("the stream anew", has("a", 6))
}

func TestAsManyDevicesAsAHostMayHaveAreTaken(t *testing.T) {
	full := fakedaemon.Whole(fakedaemon.Snapshot("a", 1, fakedaemon.HCAs(maxDevices)...))
	data, err := proto.Marshal(full)
	must(t, err)
	got := &fakedaemon.Message{}
	must(t, newBoundedCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, got))
	if !proto.Equal(got, full) {
		t.Error("decoded to another message")
	}
}

func FuzzBoundedCodec(f *testing.F) {
	good, err := proto.Marshal(fakedaemon.Whole(fakedaemon.Snapshot("a", 1, fakedaemon.HCAs(2)...)))
	must(f, err)
	f.Add(good)
	f.Add(bomb(64))
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		strict, plain := &fakedaemon.Message{}, &discoveryv1.WatchSnapshotsResponse{}
		err := newBoundedCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, strict)
		if (err == nil) != (proto.Unmarshal(data, plain) == nil) {
			t.Errorf("bounded: %v", err)
		}
		if err == nil && !proto.Equal(strict, plain) {
			t.Error("decoded to another message")
		}
	})
}
