// What a message would cost is known before it is paid for.
//
// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxElements bounds the messages and listed texts inside one message: 16 for each of
// maxDevices, where a device with one port has about 12. Two bytes are enough for an
// empty device, which takes over a hundred times as many in memory, so that a bound
// on the bytes alone is none on the memory.
const maxElements = 16 * maxDevices

// boundedCodec is gRPC's codec with maxElements. It is safe for concurrent use.
type boundedCodec struct{ encoding.CodecV2 }

func newBoundedCodec() boundedCodec {
	return boundedCodec{encoding.GetCodecV2(grpcproto.Name)}
}

// Unmarshal fails, with nothing allocated, when data holds too many elements.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(proto.Message); ok {
		whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer whole.Free()
		if _, err := countElements(whole.ReadOnlyData(), m.ProtoReflect().Descriptor(), maxElements); err != nil {
			return err
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

// countElements takes each element in data from left and returns what is left then.
// What the schema does not know is kept as it is and costs no more than its bytes.
// Broken data ends the count; decoding it will say what is wrong.
func countElements(data []byte, schema protoreflect.MessageDescriptor, left int) (int, error) {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return left, nil
		}
		size := protowire.ConsumeFieldValue(number, wire, data[n:])
		if size < 0 {
			return left, nil
		}
		value := data[n : n+size]
		data = data[n+size:]
		field := schema.Fields().ByNumber(number)
		if field == nil || wire != protowire.BytesType || field.Message() == nil && !field.IsList() {
			continue
		}
		if left--; left < 0 {
			return 0, fmt.Errorf("more than %d elements in one message", maxElements)
		}
		if inner := field.Message(); inner != nil {
			value, _ = protowire.ConsumeBytes(value)
			var err error
			if left, err = countElements(value, inner, left); err != nil {
				return 0, err
			}
		}
	}
	return left, nil
}
