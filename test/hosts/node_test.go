// Both programs on one host, as processes, and a kubelet.
//
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const patience = 30 * time.Second

// binaries is the directory into which TestMain builds the programs.
var binaries string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hostsbin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries = dir
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", dir, "./discoveryd", "./pluginproxy")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entry is one resource of a configuration.
type entry struct {
	ResourceName string         `json:"resourceName"`
	RdmaHcaMax   int            `json:"rdmaHcaMax"`
	Sharing      string         `json:"sharing,omitempty"`
	CharDevices  []string       `json:"charDevices,omitempty"`
	Selectors    map[string]any `json:"selectors"`
	Health       string         `json:"health,omitempty"`
	Exclude      map[string]any `json:"exclude,omitempty"`
}

// pool is a resource of two slots.
func pool(name, selector string, values ...string) entry {
	return entry{ResourceName: name, RdmaHcaMax: 2, Selectors: map[string]any{selector: values}}
}

// node is a host on which both programs run.
type node struct {
	t       testing.TB
	dir     string
	kubelet *fakekubelet.Kubelet
}

// newNode is an empty place for a host.
func newNode(t testing.TB) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "h") // t.TempDir's paths are too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &node{t: t, dir: dir}
}

func (n *node) root() string            { return n.path("host") }
func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// run runs a program to its end, and returns what it printed.
func (n *node) run(program string, args ...string) string {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(binaries, program), args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("%s %s: %v\n%s%s", program, args[0], err, out, errs.String())
	}
	return string(out)
}

// start runs a program until the test's end, when it must end well.
func (n *node) start(program string, args ...string) {
	n.t.Helper()
	cmd := exec.Command(filepath.Join(binaries, program), args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	must(n.t, cmd.Start())
	n.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			n.t.Errorf("%s: %v\n%s", program, err, log.String())
		}
	})
}

// configure writes the configuration.
func (n *node) configure(entries ...entry) {
	n.t.Helper()
	text, err := json.MarshalIndent(map[string]any{"configList": entries}, "", " ")
	must(n.t, err)
	must(n.t, os.WriteFile(n.path("config.json"), text, 0o600))
}

// serve starts both programs and a kubelet, and returns when kubelet has a list of each
// resource.
func (n *node) serve(entries ...entry) {
	n.t.Helper()
	n.configure(entries...)
	n.kubelet = fakekubelet.New(n.path("dp"), fakekubelet.Options{})
	n.t.Cleanup(func() { must(n.t, n.kubelet.Close()) })
	must(n.t, n.kubelet.Start())
	n.start("discoveryd", "serve", "--host-root="+n.root(), "--socket="+n.path("d.sock"), "--allow-uids="+strconv.Itoa(os.Getuid()))
	n.start("pluginproxy", "serve", "--config="+n.path("config.json"), "--discovery-socket="+n.path("d.sock"), "--device-plugins-dir="+n.path("dp"), "--metrics-address=")
	n.await(func(s fakekubelet.State) bool {
		return !slices.ContainsFunc(entries, func(e entry) bool { return len(s.ResponsesOf("rdma/"+e.ResourceName)) == 0 })
	})
}

// await waits for a state of kubelet.
func (n *node) await(cond func(fakekubelet.State) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	must(n.t, n.kubelet.Wait(ctx, cond))
}

// check is what pluginproxy says of the configuration on this host.
func (n *node) check() string {
	n.t.Helper()
	return n.run("pluginproxy", "check", "--config="+n.path("config.json"), "--discovery-socket="+n.path("d.sock"))
}

// allocate is what a container with these slots gets: the files, and the variables.
func (n *node) allocate(resource string, ids ...string) (files, variables []string) {
	n.t.Helper()
	answer, err := n.kubelet.Allocate(n.t.Context(), "rdma/"+resource, ids...)
	must(n.t, err)
	for _, d := range answer.GetDevices() {
		if d.GetHostPath() != d.GetContainerPath() || d.GetPermissions() != "rw" {
			n.t.Errorf("%s has a device %v", resource, d)
		}
		files = append(files, filepath.Base(d.GetHostPath()))
	}
	for name, value := range answer.GetEnvs() {
		variables = append(variables, name+"="+value)
	}
	slices.Sort(variables)
	return files, variables
}

// scan is what discoveryd sees of the host.
func (n *node) scan() *discoveryv1.Snapshot {
	n.t.Helper()
	snapshot := &discoveryv1.Snapshot{}
	must(n.t, protojson.Unmarshal([]byte(n.run("discoveryd", "list", "-o", "json", "--host-root="+n.root())), snapshot))
	return snapshot
}

// story is all that there is to tell of the host with the configuration. gets is what a
// pod gets of each resource: the RDMA devices, and the files.
func (n *node) story(entries ...entry) (story string, gets map[string]string) {
	n.t.Helper()
	n.serve(entries...)
	snapshot := n.scan()
	var b strings.Builder
	b.WriteString(tell(snapshot))
	sections := n.sections()
	if len(sections) != len(entries) {
		n.t.Fatalf("check tells of %d resources:\n%s", len(sections), n.check())
	}
	state := n.kubelet.State()
	gets = map[string]string{}
	for i, e := range entries {
		slots := firstSlots(state, "rdma/"+e.ResourceName)
		text, err := json.Marshal(e)
		must(n.t, err)
		fmt.Fprintf(&b, "\n%s: %d slots\n", text, len(slots))
		if len(slots) > 0 {
			files, variables := n.allocate(e.ResourceName, slots[0])
			_, names, _ := strings.Cut(variables[len(variables)-1], "=")
			gets[e.ResourceName] = names + ": " + strings.Join(files, " ")
			fmt.Fprintf(&b, "  a pod gets %s\n  and %s\n", strings.Join(files, " "), strings.Join(variables, "\n  and "))
		}
		n.explained(sections[i], snapshot, len(slots) > 0)
	}
	return b.String(), gets
}

// sections are what check says of each resource.
func (n *node) sections() []string {
	n.t.Helper()
	return strings.Split(strings.TrimSpace(n.check()), "\n\n")
}

// explained checks that each device is told to be selected or left out, and that a
// resource without devices has a hint.
func (n *node) explained(section string, s *discoveryv1.Snapshot, some bool) {
	n.t.Helper()
	for _, d := range s.GetDevices() {
		name := d.GetName()
		if name == "" {
			name = d.GetParent().GetPciAddress()
		}
		if !regexp.MustCompile(`(?m)(selected|left out).*\b` + regexp.QuoteMeta(name) + `\b`).MatchString(section) {
			n.t.Errorf("nothing is said of %s:\n%s", name, section)
		}
	}
	if selected := strings.Contains(section, "selected  "); selected != some {
		n.t.Errorf("kubelet has slots: %v, but\n%s", some, section)
	}
	if !some && !strings.Contains(section, "hint:") {
		n.t.Errorf("no hint:\n%s", section)
	}
}

// firstSlots are the IDs that kubelet has of a resource, in the order of the list.
func firstSlots(s fakekubelet.State, resource string) (ids []string) {
	all := s.ResponsesOf(resource)
	for _, d := range all[len(all)-1].Devices {
		ids = append(ids, d.ID)
	}
	return ids
}
