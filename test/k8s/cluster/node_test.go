// The node: containerd and kubelet.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func (c *cluster) containerdSocket() string { return c.path("containerd/c.sock") }

// startContainerd writes its configuration and that of the pods' network. CDI specs
// are looked for where containerd does by default, in /etc/cdi and /var/run/cdi.
func (c *cluster) startContainerd(ctx context.Context) error {
	runc, err := program("runc")
	if err != nil {
		return err
	}
	cni, err := program("cni")
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs", "io.containerd.nri.v1.nri"]
[grpc]
  address = %q
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE, as in a container, a score can't be lowered.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%q]
    conf_dir = %q
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false
`, c.path("containerd/root"), c.path("containerd/state"), c.containerdSocket(), pauseImage, cni, c.path("cni"), runc)
	network := fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "ipam": {
    "type": "host-local", "dataDir": %q, "subnet": %q, "routes": [{"dst": "0.0.0.0/0"}]}}]}
`, c.path("ipam"), podNetwork)
	if err := writeFile(c.path("containerd/config.toml"), config); err != nil {
		return err
	}
	if err := writeFile(c.path("cni/10-pods.conflist"), network); err != nil {
		return err
	}
	if c.containerd, err = c.start("containerd", "-c", c.path("containerd/config.toml")); err != nil {
		return err
	}
	return c.await(ctx, "containerd answers", func(ctx context.Context) error {
		if err := c.containerd.ended(); err != nil {
			return err
		}
		_, err := c.ctr(ctx, "version")
		return err
	})
}

// ctr runs containerd's own client in kubelet's containerd name space.
func (c *cluster) ctr(ctx context.Context, args ...string) (string, error) {
	path, err := program("ctr")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, append([]string{"-a", c.containerdSocket(), "-n", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (c *cluster) startNode(context.Context) error {
	pki := c.authority.path
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %s}}
authorization: {mode: Webhook}
tlsCertFile: %s
tlsPrivateKeyFile: %s
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
clusterDNS: [10.96.0.10] # nobody answers there
podLogsDir: %s
# A changed ConfigMap reaches pods with the next sync; the default is a minute.
syncFrequency: 5s
# A restart shows in the node's status as soon as it can: ten times as often as by default.
nodeStatusUpdateFrequency: 1s
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
imageMaximumGCAge: 0s
`, nodeAddress, pki("ca.crt"), pki("kubelet.crt"), pki("kubelet.key"), c.containerdSocket(), c.cgroup, filepath.Join(c.dir, "logs/pods"))
	if err := writeFile(c.path("kubelet.yaml"), config); err != nil {
		return err
	}
	return c.startKubelet()
}

// startKubelet starts it, or starts it again after a kill.
func (c *cluster) startKubelet() (err error) {
	c.kubelet, err = c.start("kubelet", "--config="+c.path("kubelet.yaml"), "--kubeconfig="+c.authority.path("node.kubeconfig"),
		"--hostname-override="+nodeName, "--node-ip="+nodeAddress, "--v=2")
	return err
}

// loadImages gives the pause image, the pod program and ours to containerd.
func (c *cluster) loadImages(ctx context.Context) error {
	pod, err := program("pod")
	if err != nil {
		return err
	}
	for _, image := range []string{pauseImage, podImage} {
		archive := c.path("image.tar")
		if err := writeImage(archive, pod); err != nil {
			return err
		}
		if _, err := c.ctr(ctx, "images", "import", "--index-name", image, archive); err != nil {
			return err
		}
	}
	for _, name := range []string{"discoveryd", "pluginproxy"} {
		archive, err := program("images/" + name + "-e2e.oci.tar")
		if err != nil {
			return err
		}
		for _, tag := range []string{"e2e", "e2e-next"} {
			if _, err := c.ctr(ctx, "images", "import", "--index-name", imageRegistry+"/"+name+":"+tag, archive); err != nil {
				return err
			}
		}
	}
	return os.Remove(c.path("image.tar"))
}
