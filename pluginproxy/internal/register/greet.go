// The route by which kubelet finds us: it watches its plugin registry, calls each
// socket that appears there, asks who it is, and tells what became of it
// (pkg/kubelet/pluginmanager). It comes to each socket once: whatever has to be
// done again needs another socket.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/session"
)

// introduction lets kubelet learn of one server, by the one route or the other.
type introduction interface {
	// services are what the server must offer beside the device-plugin API.
	services() []session.Service
	// introduce returns kubelet's verdict on the server that serves as endpoint.
	introduce(ctx context.Context, endpoint string) error
	close()
}

// introduction begins one with the kubelet of the returned generation.
func (k *Keeper) introduction(ctx context.Context) (introduction, Generation, error) {
	if k.Dir.watched {
		kubelet := k.Dir.lookForKubelet()
		return newGreeter(k.Resource, k.Dir.path, k.Timing), kubelet, nil
	}
	conn, kubelet, err := dialKubelet(ctx, k.Dir)
	if err != nil {
		return nil, kubelet, err
	}
	offer, _ := k.Session.Offer.Get()
	return &caller{conn: conn, limit: k.Timing.Register, request: &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		ResourceName: k.Resource,
		Options:      offer.Options(), // kubelet ignores them and asks the endpoint, but they are part of the API
	}}, kubelet, nil
}

// greeter answers when kubelet asks.
type greeter struct {
	registerapi.UnimplementedRegistrationServer
	resource string
	dir      string
	timing   Timing
	asked    chan struct{} // holds one when kubelet has asked
	verdict  chan error    // holds the first outcome
}

func newGreeter(resource, dir string, timing Timing) *greeter {
	return &greeter{resource: resource, dir: dir, timing: timing,
		asked: make(chan struct{}, 1), verdict: make(chan error, 1)}
}

func (g *greeter) services() []session.Service {
	return []session.Service{func(s grpc.ServiceRegistrar) { registerapi.RegisterRegistrationServer(s, g) }}
}

func (g *greeter) close() {}

// GetInfo is kubelet's question. No endpoint stands for the socket that it has called,
// so it matters not under which path kubelet sees this directory.
func (g *greeter) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	select {
	case g.asked <- struct{}{}:
	default:
	}
	return &registerapi.PluginInfo{
		Type:              registerapi.DevicePlugin,
		Name:              g.resource,
		SupportedVersions: []string{pluginapi.Version},
	}, nil
}

// NotifyRegistrationStatus is kubelet's verdict. It would ask a refused socket again,
// later and later, up to two minutes; another socket is asked at once.
func (g *greeter) NotifyRegistrationStatus(_ context.Context, status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	var err error
	if !status.GetPluginRegistered() {
		err = errors.New(status.GetError())
	}
	select {
	case g.verdict <- err:
	default:
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// introduce waits for kubelet. A directory that exists though no kubelet watches it
// looks like one to which kubelet has not come yet: all that can be told is that
// nobody calls.
func (g *greeter) introduce(ctx context.Context, endpoint string) error {
	timer := time.NewTimer(g.timing.Call)
	defer timer.Stop()
	silent := fmt.Errorf("kubelet has not called within %v; if it does not watch %s, --registration=register is the way", g.timing.Call, g.dir)
	for {
		select {
		case <-g.asked:
			timer.Reset(g.timing.Register)
			silent = fmt.Errorf("kubelet has asked for the resource's name and told no outcome within %v", g.timing.Register)
		case err := <-g.verdict:
			if err != nil {
				return fmt.Errorf("kubelet refused the registration: %s", without(endpoint, err.Error()))
			}
			return nil
		case <-timer.C:
			return unreachable{silent}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
