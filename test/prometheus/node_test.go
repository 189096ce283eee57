// A node that a real Prometheus watches: a recorded host, a fake kubelet, both programs
// with a protected metrics port, all on 127.0.0.1 and ports that the kernel chose.
//
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const (
	within = 60 * time.Second

	// The adapter that goes down, and its resource.
	adapter, adapterNet, adapterResource = "mlx5_3", "ens4np0", "rdma/hca_storage"

	config = `{"configList": [
  {"resourceName": "hca_pool", "rdmaHcaMax": 64, "selectors": {"vendors": ["15b3"]}},
  {"resourceName": "hca_storage", "sharing": "perDevice", "rdmaHcaMax": 10, "selectors": {"ifNames": ["` + adapterNet + `"]}}
]}`

	user, password = "prometheus", "secret"
	// The hash of the password, cheap to check.
	webConfig = `tls_server_config: {cert_file: tls.crt, key_file: tls.key}
basic_auth_users: {prometheus: $2a$04$ahL/xj3Tr0m3eX0RLVQi9uqal6vfabAH1mDqH2mdIds0QZgmaWwHK}
`
)

// node is all that runs, below one directory.
type node struct {
	dir     string
	host    *fakehost.Host
	kubelet *fakekubelet.Kubelet
	metrics string // the protected address
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "prom") // t.TempDir's paths are too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{dir: dir}
	n.host, err = fakehost.GPUNode8(n.path("host"), fakehost.PlainFiles())
	must(t, err)
	n.kubelet = fakekubelet.New(n.path("kubelet"), fakekubelet.Options{})
	t.Cleanup(func() { must(t, n.kubelet.Close()) })
	must(t, n.kubelet.Start())
	n.write(t, "config.json", config)
	n.write(t, "web.yml", webConfig)
	n.certificate(t)

	start(t, program(t, "discoveryd"), "serve", "--host-root="+n.host.Root(), "--socket="+n.path("discovery.sock"), "--allow-uids="+strconv.Itoa(os.Getuid()))
	proxy := start(t, program(t, "pluginproxy"), "serve", "--config="+n.path("config.json"), "--discovery-socket="+n.path("discovery.sock"),
		"--device-plugins-dir="+n.kubelet.Dir(), "--metrics-address=127.0.0.1:0", "--web-config-file="+n.path("web.yml"))
	n.metrics = proxy.finds(t, `msg="serving metrics and health" address=(127\.0\.0\.1:\d+)`)
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(n.path(name), []byte(text), 0o600))
}

// certificate makes one for 127.0.0.1 that is its own authority.
func (n *node) certificate(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	n.write(t, "tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	n.write(t, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// program is where make build has put one of ours.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	must(t, err)
	return path
}

// process is a program that runs until the test ends.
type process struct {
	name  string
	mu    sync.Mutex
	text  bytes.Buffer
	ended chan struct{}
}

func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(path), ended: make(chan struct{})}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = p, p
	must(t, cmd.Start())
	go func() { defer close(p.ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(within):
			_ = cmd.Process.Kill()
			<-p.ended
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.name, p)
		}
	})
	return p
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// String is the log so far.
func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// finds waits until the log matches, and returns what the parentheses hold.
func (p *process) finds(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	until(t, p.name+" says "+pattern, func() error {
		select {
		case <-p.ended:
			t.Fatalf("%s has ended:\n%s", p.name, p)
		default:
		}
		if found = re.FindStringSubmatch(p.String()); found == nil {
			return fmt.Errorf("it says\n%s", p)
		}
		return nil
	})
	return found[1]
}

// until tries until there is no error.
func until(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s: %v", within, what, err)
		}
	}
}

// promtool runs it to its end; input may be empty.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
