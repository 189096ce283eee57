// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the hands of the watcher route: registering what is there and unregistering what is not, once each period
// (pkg/kubelet/pluginmanager/reconciler, operationexecutor). Nothing in it looks at sessions: one that ends is not renewed.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	// getInfoTimeout and notifyTimeout are those of operationexecutor/operation_generator.go.
	getInfoTimeout = time.Second
	notifyTimeout  = 5 * time.Second

	// After the first failure an operation on a path rests for half a period, after each further one twice as long up to the limit: 500 ms
	// and 122 s of pkg/util/goroutinemap/exponentialbackoff with the real period of one second.
	maxRestPeriods = 122
)

// registered is a plugin in the watcher's books.
type registered struct {
	incarnation    int
	name, endpoint string
}

// operation is what was done last with a path.
type operation struct {
	running bool
	rest    time.Duration // grows with each failure
	until   time.Time     // no new operation before
}

// reconcile compares what is there with what is registered until the process ends.
func (w *watcher) reconcile() {
	for {
		for _, path := range w.unwanted() {
			w.do(path, w.unregister)
		}
		for _, path := range w.missing() {
			w.do(path, w.register)
		}
		if pause(w.ctx, w.p.k.opts.ReconcilePeriod) != nil {
			return
		}
	}
}

// unwanted returns the registered paths whose socket is gone or another one now.
func (w *watcher) unwanted() []string {
	w.p.k.mu.Lock()
	defer w.p.k.mu.Unlock()
	return slices.DeleteFunc(sortedKeys(w.actual), func(path string) bool {
		return w.desired[path] == w.actual[path].incarnation
	})
}

// missing returns the paths whose socket is not registered.
func (w *watcher) missing() []string {
	w.p.k.mu.Lock()
	defer w.p.k.mu.Unlock()
	return slices.DeleteFunc(sortedKeys(w.desired), func(path string) bool {
		return w.desired[path] == w.actual[path].incarnation
	})
}

// do runs f for a path in the background unless something runs for it already or it rests after a failure.
func (w *watcher) do(path string, f func(path string) error) {
	busy := false
	w.p.k.update(func() {
		op := w.operations[path]
		if op == nil {
			op = &operation{}
			w.operations[path] = op
		}
		busy = op.running || time.Now().Before(op.until)
		op.running = op.running || !busy
	})
	if busy {
		return
	}
	w.p.spawn(func() {
		err := f(path)
		w.p.k.update(func() {
			if err == nil {
				delete(w.operations, path)
				return
			}
			op, period := w.operations[path], w.p.k.opts.ReconcilePeriod
			op.running = false
			op.rest = min(max(period/2, 2*op.rest), maxRestPeriods*period)
			op.until = time.Now().Add(op.rest)
		})
	})
}

// unregister disconnects the plugin whose client is in the books, if one is.
func (w *watcher) unregister(path string) error {
	var c *client
	w.p.k.update(func() {
		r := w.actual[path]
		delete(w.actual, path)
		c = w.p.books.lookup(r.name, r.endpoint)
	})
	if c != nil {
		c.disconnect()
	}
	return nil
}

// register asks who is at the socket, registers it and tells it the outcome. It records one Registration.
func (w *watcher) register(path string) error {
	k := w.p.k
	reg := &Registration{Watcher: true, Endpoint: path, Boot: w.p.boot, At: time.Now()}
	k.update(func() {
		reg.Bind = len(k.binds)
		k.registrations = append(k.registrations, reg)
	})
	err := w.registerSocket(path, reg)
	k.update(func() {
		reg.Answered = time.Now()
		reg.Err = err
	})
	k.log.Debug("register by watcher", "resource", reg.Resource, "endpoint", path, "error", err)
	return err
}

func (w *watcher) registerSocket(path string, reg *Registration) error {
	k, ctx := w.p.k, w.p.ctx
	k.mu.Lock()
	incarnation := w.desired[path]
	k.mu.Unlock()
	l, err := w.p.dial(ctx, path)
	if err != nil {
		return fmt.Errorf("dial %s: %w", path, err)
	}
	defer l.close()
	api := registerapi.NewRegistrationClient(l.conn)
	info, err := getInfo(ctx, api)
	if err != nil {
		return fmt.Errorf("get plugin info at %s: %w", path, err)
	}
	r := registered{incarnation: incarnation, name: info.GetName(), endpoint: info.GetEndpoint()}
	if r.endpoint == "" {
		r.endpoint = path
	}
	k.update(func() { reg.Resource = r.name })
	if err := validate(info); err != nil {
		return errors.Join(err, notify(ctx, api, err))
	}
	// In the books before it is connected, so that a removal in between is dealt with.
	k.update(func() { w.actual[path] = r })
	if err := w.connect(r); err != nil {
		k.update(func() { delete(w.actual, path) })
		return errors.Join(err, notify(ctx, api, err))
	}
	if err := notify(ctx, api, nil); err != nil {
		_ = w.unregister(path)
		return fmt.Errorf("tell the outcome: %w", err)
	}
	return nil
}

// connect is the part that both routes share, with the faults of Register.
func (w *watcher) connect(r registered) error {
	k, ctx := w.p.k, w.p.ctx
	if err := k.linger(ctx, beforeRegister); err != nil {
		return err
	}
	if err := k.takeRefusal(); err != nil {
		return err
	}
	if err := w.p.connect(ctx, r.name, r.endpoint); err != nil {
		return err
	}
	return k.linger(ctx, beforeAnswer)
}

func getInfo(ctx context.Context, api registerapi.RegistrationClient) (*registerapi.PluginInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, getInfoTimeout)
	defer cancel()
	return api.GetInfo(ctx, &registerapi.InfoRequest{})
}

// notify tells the plugin that it is registered, or why not.
func notify(ctx context.Context, api registerapi.RegistrationClient, outcome error) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	status := &registerapi.RegistrationStatus{PluginRegistered: outcome == nil}
	if outcome != nil {
		status.Error = outcome.Error()
	}
	_, err := api.NotifyRegistrationStatus(ctx, status)
	return err
}

// validate is the choice of the handler by type and the check of devicemanager's handler.
func validate(info *registerapi.PluginInfo) error {
	switch {
	case info.GetType() != registerapi.DevicePlugin:
		return fmt.Errorf("no handler registered for plugin type: %s", info.GetType())
	case !slices.Contains(info.GetSupportedVersions(), pluginapi.Version):
		return fmt.Errorf("manager version, %s, is not among plugin supported versions %v", pluginapi.Version, info.GetSupportedVersions())
	case !isExtendedResourceName(info.GetName()):
		return fmt.Errorf("invalid name of device plugin socket: the ResourceName %q is invalid", info.GetName())
	}
	return nil
}
