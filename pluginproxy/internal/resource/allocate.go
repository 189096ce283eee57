// Allocate: from slot IDs to device nodes and environment.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
)

// Allocate answers one container's request. Its errors are gRPC statuses that
// name the resource and the ID: InvalidArgument for an empty request and doubled
// IDs, NotFound for an ID that the resource never has, FailedPrecondition where
// the ID is right and its hardware or its CDI name isn't there. A slot that is unhealthy can be
// had: kubelet doesn't ask for one, and its port may come up again.
func (r *Resource) Allocate(ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	if len(ids) == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "resource %s: no device ID in the request", r.Name)
	}
	asked := make(map[string]bool, len(ids))
	chosen := make([]bool, len(r.hcas))
	for _, id := range ids {
		if asked[id] {
			return nil, status.Errorf(codes.InvalidArgument, "resource %s: device ID %q stands twice in the request", r.Name, clip(id))
		}
		asked[id] = true
		device, err := r.lookUp(id)
		if err != nil {
			return nil, err
		}
		if device != wholePool {
			chosen[device] = true
		}
	}
	var devices []*facts
	for i, f := range r.hcas {
		if chosen[i] || r.cfg.Sharing == config.SharingPool {
			devices = append(devices, f)
		}
	}
	if r.cfg.CDI {
		var err error
		if devices, err = r.nameable(devices); err != nil {
			return nil, err
		}
	}
	return r.answer(devices), nil
}

// nameable leaves out of a pool what has no CDI name now; a name that no spec
// explains would fail the container. Nobody can do without the device of a slot.
func (r *Resource) nameable(devices []*facts) ([]*facts, error) {
	var named []*facts
	for _, f := range devices {
		if f.cdi != "" {
			named = append(named, f)
		}
	}
	if len(named) == 0 || r.cfg.Sharing != config.SharingPool && len(named) < len(devices) {
		i := slices.IndexFunc(devices, func(f *facts) bool { return f.cdi == "" })
		return nil, status.Errorf(codes.FailedPrecondition, "resource %s: device %s: %s", r.Name, devices[i].label, devices[i].noCDI)
	}
	return named, nil
}

// wholePool stands for all devices of a resource.
const wholePool = -1

// lookUp finds the device behind an ID: an index in hcas, or wholePool.
func (r *Resource) lookUp(id string) (int, error) {
	base, slot := r.split(id)
	switch {
	case base == "" && r.cfg.Sharing != config.SharingPool, slot < 0 || slot >= r.cfg.Max:
		return 0, status.Errorf(codes.NotFound, "resource %s has no device ID %q", r.Name, clip(id))
	case len(r.hcas) == 0:
		return 0, status.Errorf(codes.FailedPrecondition, "resource %s: device ID %q: no RDMA device is there now", r.Name, clip(id))
	case r.cfg.Sharing == config.SharingPool:
		return wholePool, nil
	}
	device, there := r.byID[base]
	if !there {
		return 0, status.Errorf(codes.FailedPrecondition, "resource %s: device ID %q: its RDMA device is not there now", r.Name, clip(id))
	}
	return device, nil
}

// split takes an ID apart into the device's and the slot's part; slot is -1 where
// the ID can't be one of this resource.
func (r *Resource) split(id string) (base string, slot int) {
	if len(id) > config.MaxIDBytes {
		return "", -1
	}
	number := id
	switch r.cfg.Sharing {
	case config.SharingExclusive:
		return id, 0
	case config.SharingPerDevice:
		i := strings.LastIndexByte(id, '-')
		if i < 0 {
			return "", -1
		}
		base, number = id[:i], id[i+1:]
	}
	// "007" and "+7" are no IDs of ours.
	if number != "0" && (number == "" || number[0] < '1' || number[0] > '9') {
		return "", -1
	}
	slot, err := strconv.Atoi(number)
	if err != nil {
		return "", -1
	}
	return base, slot
}

// answer gives a container the devices.
func (r *Resource) answer(devices []*facts) *pluginapi.ContainerAllocateResponse {
	var names, addresses []string
	for _, f := range devices {
		names = append(names, f.name)
		if f.pci != "" {
			addresses = append(addresses, f.pci)
		}
	}
	suffix := r.cfg.EnvSuffix()
	response := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{
		"PCIDEVICE_" + suffix:  joinSorted(addresses),
		"RDMADEVICE_" + suffix: joinSorted(names),
	}}
	if r.cfg.CDI {
		for _, f := range devices {
			response.CdiDevices = append(response.CdiDevices, &pluginapi.CDIDevice{Name: f.cdi})
		}
		return response
	}
	response.Devices = r.nodes(devices)
	return response
}

// nodes are the files of the kinds that the resource gives, each once: rdma_cm is
// one for all devices.
func (r *Resource) nodes(devices []*facts) []*pluginapi.DeviceSpec {
	var specs []*pluginapi.DeviceSpec
	given := map[string]bool{}
	for _, kind := range r.cfg.CharDevices {
		for _, f := range devices {
			for _, e := range f.files {
				if e.kind != kind || given[e.path] {
					continue
				}
				given[e.path] = true
				specs = append(specs, &pluginapi.DeviceSpec{ContainerPath: e.path, HostPath: e.path, Permissions: r.cfg.Permissions})
			}
		}
	}
	return specs
}

// joinSorted joins the words, each once: scalable functions share an address.
func joinSorted(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ",")
}
