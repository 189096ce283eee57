// A node: a made-up host, kubelet's directory, and our two programs between them.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// resourceConfig is one entry of the config file; its keys are those of docs/config.md.
type resourceConfig struct {
	ResourceName string              `json:"resourceName"`
	RdmaHcaMax   int                 `json:"rdmaHcaMax"`
	Selectors    map[string][]string `json:"selectors"`
	Health       string              `json:"health,omitempty"`
}

// pool is a resource of n slots over all HCAs.
func pool(name string, n int) resourceConfig {
	return resourceConfig{ResourceName: name, RdmaHcaMax: n, Selectors: map[string][]string{"vendors": {"15b3"}}}
}

// poolOf is a resource of n slots over one HCA.
func poolOf(hca int, name string, n int) resourceConfig {
	return resourceConfig{ResourceName: name, RdmaHcaMax: n, Selectors: map[string][]string{"ifNames": {netName(hca)}}}
}

// node holds what runs on a node besides kubelet.
type node struct {
	t       testing.TB
	host    *host
	plugins string   // kubelet's device-plugins directory
	ours    string   // where our sockets are; the same unless kubelet is to find them
	run     string   // config and discoveryd's socket
	flags   []string // further ones of pluginproxy
	kubelet *kubelet

	discovery, proxy *process
}

// newNode makes a node on which nothing runs.
func newNode(t testing.TB, hcas int, resources ...resourceConfig) *node {
	t.Helper()
	n := &node{t: t, host: newHost(t, hcas), plugins: shortDir(t), run: shortDir(t)}
	n.ours = n.plugins
	config, err := json.Marshal(map[string]any{"configList": resources})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.run, "config.json"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	return n
}

// startNode makes a node on which kubelet and both programs run.
func startNode(t testing.TB, hcas int, resources ...resourceConfig) *node {
	t.Helper()
	n := newNode(t, hcas, resources...)
	n.startAll()
	return n
}

func (n *node) startAll() {
	n.t.Helper()
	n.kubelet = startKubelet(n.t, n.plugins)
	n.startDiscovery()
	n.startProxy()
}

func (n *node) discoverySocket() string { return filepath.Join(n.run, "discovery.sock") }

func (n *node) startDiscovery() {
	n.t.Helper()
	n.discovery = startProcess(n.t, "discoveryd", exec.Command(binary(n.t, "discoveryd"), "serve",
		"--socket="+n.discoverySocket(),
		"--host-root="+n.host.root,
		"--allow-uids="+strconv.Itoa(os.Getuid()),
	))
}

func (n *node) startProxy() {
	n.t.Helper()
	n.proxy = n.anotherProxy()
}

// anotherProxy starts a pluginproxy that the node does not keep, as a rolling update
// does with its new pod.
func (n *node) anotherProxy() *process {
	n.t.Helper()
	return startProcess(n.t, "pluginproxy", exec.Command(binary(n.t, "pluginproxy"), append([]string{"serve",
		"--config=" + filepath.Join(n.run, "config.json"),
		"--discovery-socket=" + n.discoverySocket(),
		"--device-plugins-dir=" + n.plugins,
		"--metrics-address=127.0.0.1:0",
		"--log-level=debug",
	}, n.flags...)...))
}

// sockets returns the paths of our own sockets in kubelet's directory.
func (n *node) sockets() []string {
	n.t.Helper()
	entries, err := os.ReadDir(n.ours)
	if err != nil {
		n.t.Fatal(err)
	}
	var ours []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "rdma-relay") && e.Type() == os.ModeSocket {
			ours = append(ours, filepath.Join(n.ours, e.Name()))
		}
	}
	return ours
}

// terminate ends both programs as a node drain does.
func (n *node) terminate() {
	n.t.Helper()
	n.proxy.terminate()
	n.discovery.terminate()
}

// pause stops a process in its tracks (SIGSTOP) until the returned function is called.
func (p *process) pause() (resume func()) {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	return func() { p.signal(syscall.SIGCONT) }
}
