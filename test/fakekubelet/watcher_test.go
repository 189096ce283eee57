// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows the watcher route.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// registration is the plugin's side of the watcher route.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	info     registerapi.PluginInfo
	told     chan *registerapi.RegistrationStatus
	deafness error // what the plugin answers to the outcome
}

func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: r.info.Type, Name: r.info.Name, Endpoint: r.info.Endpoint, SupportedVersions: r.info.SupportedVersions}, nil
}

func (r *registration) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	r.told <- s
	return &registerapi.RegistrationStatusResponse{}, r.deafness
}

// watched is a plugin in the registry that does not listen yet.
func watched(t *testing.T, dir, name string) (*plugin, *registration) {
	t.Helper()
	r := &registration{told: make(chan *registerapi.RegistrationStatus, 1000)}
	r.info.Type, r.info.Name, r.info.SupportedVersions = registerapi.DevicePlugin, widget, []string{"v1alpha9", pluginapi.Version}
	p := newPlugin(dir, name, "w", 3)
	p.registration = r
	return p, r
}

// startWatching runs a kubelet that watches a registry of its own.
func startWatching(t *testing.T, mode fakekubelet.Bookkeeping) (k *fakekubelet.Kubelet, registry string) {
	t.Helper()
	registry = shortDir(t)
	k = start(t, fakekubelet.Options{
		Bookkeeping:     mode,
		PluginsRegistry: registry,
		ReconcilePeriod: 5 * time.Millisecond,
	})
	return k, registry
}

func accepted(n int) func(fakekubelet.State) bool {
	return func(s fakekubelet.State) bool {
		got := 0
		for _, r := range s.Registrations {
			if r.Accepted() {
				got++
			}
		}
		return got == n
	}
}

func TestWatcherRegistersASocketWhereverItAppears(t *testing.T) {
	k, registry := startWatching(t, fakekubelet.ByPath)
	check(t, os.Mkdir(filepath.Join(registry, "sub"), 0o755))
	p, r := watched(t, filepath.Join(registry, "sub"), "p.sock")
	p.listen(t)
	defer p.stop()
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	if s := <-r.told; !s.PluginRegistered || s.Error != "" {
		t.Errorf("told %v", s)
	}
	reg := k.State().Registrations[0]
	if !reg.Watcher || reg.Resource != widget || reg.Endpoint != p.path {
		t.Errorf("recorded %+v", reg)
	}
}

func TestWatcherLeavesDotFilesAlone(t *testing.T) {
	k, registry := startWatching(t, fakekubelet.ByPath)
	hidden, _ := watched(t, registry, ".hidden.sock")
	hidden.listen(t)
	defer hidden.stop()
	check(t, os.Rename(hidden.path, filepath.Join(registry, ".other.sock")))
	shown, _ := watched(t, registry, "shown.sock")
	shown.listen(t)
	defer shown.stop()
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	if n := len(k.State().Registrations); n != 1 {
		t.Errorf("%d registrations", n)
	}
	check(t, os.Rename(filepath.Join(registry, ".other.sock"), filepath.Join(registry, "renamed.sock")))
	wait(t, k, accepted(2)) // a rename into sight counts as coming
}

func TestWatcherTellsWhyItRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*registration, *fakekubelet.Kubelet)
		want  string
	}{
		{"type", func(r *registration, _ *fakekubelet.Kubelet) { r.info.Type = "Toaster" }, "no handler registered"},
		{"version", func(r *registration, _ *fakekubelet.Kubelet) { r.info.SupportedVersions = []string{"v1"} }, "not among plugin supported versions"},
		{"name", func(r *registration, _ *fakekubelet.Kubelet) { r.info.Name = "widget" }, "invalid"},
		{"endpoint", func(r *registration, k *fakekubelet.Kubelet) {
			r.info.Endpoint = "/nowhere.sock"
			k.SetDialTimeout(200 * time.Millisecond) // enough for GetInfo, else it is tried again
		}, "failed to dial device plugin"},
		{"fault", func(_ *registration, k *fakekubelet.Kubelet) { k.RefuseNext(1, errors.New("not today")) }, "not today"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, registry := startWatching(t, fakekubelet.ByPath)
			p, r := watched(t, registry, "p.sock")
			tc.spoil(r, k)
			p.listen(t)
			defer p.stop()
			s := <-r.told
			if s.PluginRegistered || !strings.Contains(s.Error, tc.want) {
				t.Errorf("told %v", s)
			}
			// It is tried again, with growing pauses.
			wait(t, k, func(s fakekubelet.State) bool { return len(s.Registrations) >= 2 })
		})
	}
}

func TestWatcherComesBackOnlyWhenTheSocketIsMadeAnew(t *testing.T) {
	for _, mode := range []fakekubelet.Bookkeeping{fakekubelet.ByPath, fakekubelet.ByName} {
		t.Run(mode.String(), func(t *testing.T) {
			k, registry := startWatching(t, mode)
			p, _ := watched(t, registry, "p.sock")
			p.listen(t)
			wait(t, k, fakekubelet.Listed(widget, 3, 3))
			check(t, k.DropStream(widget))
			wait(t, k, fakekubelet.All(fakekubelet.Listed(widget, 3, 0), reaped(1)))
			other, r := watched(t, registry, "other.sock")
			r.info.Name = "test.example/other"
			other.listen(t)
			defer other.stop()
			wait(t, k, accepted(2)) // a whole period went by
			if n := len(k.State().SessionsOf(widget)); n != 1 {
				t.Errorf("%d sessions", n)
			}
			p.stop() // unlinks
			p.listen(t)
			defer p.stop()
			wait(t, k, fakekubelet.Listed(widget, 3, 3))
		})
	}
}

func TestWatcherUnregistersWhenTheSocketGoes(t *testing.T) {
	k, registry := startWatching(t, fakekubelet.ByPath)
	p, _ := watched(t, registry, "p.sock")
	p.listen(t)
	defer p.stop()
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	check(t, os.Remove(p.path))
	wait(t, k, fakekubelet.All(fakekubelet.Listed(widget, 3, 0), ended(1)))
	if x := k.State().Sessions[0]; x.Ended.IsZero() || !x.PluginEnded.IsZero() {
		t.Errorf("session %+v", x)
	}
}

func TestWatcherFindsSocketsAgainAfterARestart(t *testing.T) {
	k, registry := startWatching(t, fakekubelet.ByPath)
	p, _ := watched(t, registry, "p.sock")
	p.listen(t)
	defer p.stop()
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	check(t, k.Kill())
	check(t, k.Start())
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	endOld, err := k.Replace()
	check(t, err)
	defer endOld()
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	if n := len(k.State().LiveSessions(widget)); n != 2 {
		t.Errorf("%d live sessions, want one at the old kubelet and one at the new", n)
	}
}

func TestWatcherDeregistersAPluginThatDoesNotTakeTheOutcome(t *testing.T) {
	k, registry := startWatching(t, fakekubelet.ByPath)
	p, r := watched(t, registry, "p.sock")
	r.deafness = errors.New("not listening")
	p.listen(t)
	defer p.stop()
	wait(t, k, func(s fakekubelet.State) bool {
		return len(s.Registrations) > 0 && s.Registrations[0].Refused() && s.Resources[widget].Stopped
	})
}

func TestR12WithoutAWatcherTheRegistryIsADeadEnd(t *testing.T) {
	registry := shortDir(t)
	check(t, os.Mkdir(registry, 0o755))
	k := start(t, fakekubelet.Options{})
	p, _ := watched(t, registry, "p.sock")
	p.listen(t)
	defer p.stop()
	registered(t, k, 2) // the other route works meanwhile
	if n := len(k.State().Registrations); n != 1 {
		t.Errorf("%d registrations", n)
	}
}
