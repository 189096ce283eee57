// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the Registration service on kubelet.sock: what it refuses and in which order it works.

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/validate/content"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// registry answers Register on one bind of kubelet.sock.
type registry struct {
	pluginapi.UnimplementedRegistrationServer
	p    *process
	bind int
}

// Register records the call and its outcome around what kubelet does (plugin/v1beta1/server.go, Register).
func (r *registry) Register(ctx context.Context, req *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if !r.p.enter() {
		return nil, status.Error(codes.Unavailable, "kubelet is gone")
	}
	defer r.p.wg.Done()
	k := r.p.k
	reg := &Registration{
		Resource: req.GetResourceName(),
		Endpoint: req.GetEndpoint(),
		Version:  req.GetVersion(),
		Boot:     r.p.boot,
		Bind:     r.bind,
		At:       time.Now(),
	}
	k.update(func() { k.registrations = append(k.registrations, reg) })

	err := r.register(ctx, req)

	k.update(func() {
		reg.Answered = time.Now()
		reg.Err = err
	})
	k.log.Debug("register", "resource", reg.Resource, "endpoint", reg.Endpoint, "error", err)
	if err != nil {
		return nil, err
	}
	return &pluginapi.Empty{}, nil
}

func (r *registry) register(ctx context.Context, req *pluginapi.RegisterRequest) error {
	k := r.p.k
	if err := k.linger(ctx, beforeRegister); err != nil {
		return err
	}
	if err := k.takeRefusal(); err != nil {
		return err
	}
	if req.GetVersion() != pluginapi.Version {
		return status.Errorf(codes.Unknown, "requested API version %q is not supported by kubelet. Supported version is %q",
			req.GetVersion(), pluginapi.SupportedVersions)
	}
	if !isExtendedResourceName(req.GetResourceName()) {
		return status.Errorf(codes.Unknown, "the ResourceName %q is invalid", req.GetResourceName())
	}
	if err := r.p.connect(ctx, req.GetResourceName(), filepath.Join(k.dir, req.GetEndpoint())); err != nil {
		return err
	}
	return k.linger(ctx, beforeAnswer)
}

// isExtendedResourceName is the rule of pkg/apis/core/v1/helper IsExtendedResourceName: not a native name, not a quota name, and the
// quota name made of it must be a label key.
func isExtendedResourceName(name string) bool {
	const quotaPrefix = "requests."
	if !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/") || strings.HasPrefix(name, quotaPrefix) {
		return false
	}
	return len(content.IsLabelKey(quotaPrefix+name)) == 0
}
