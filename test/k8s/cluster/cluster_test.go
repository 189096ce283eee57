// The cluster: its components in the order of their start, and its end.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// All that exists only in the cluster's own network name space.
const (
	apiAddress  = "10.96.0.1" // of the service kubernetes.default too
	nodeAddress = "10.97.0.1"
	podNetwork  = "10.98.0.0/24"
	services    = "10.96.0.0/16"
	apiURL      = "https://" + apiAddress + ":443"
	etcdURL     = "http://127.0.0.1:2379"
	etcdPeerURL = "http://127.0.0.1:2380"
	nodeName    = "node-a"
)

// cluster is the components and how to reach them.
type cluster struct {
	dir    string // logs/ stays after a failure, run/ is in memory
	cgroup string // below which kubelet keeps the pods'

	authority *authority
	client    kubernetes.Interface
	host      *sampleHost

	etcd, apiserver, controllers, scheduler, containerd, kubelet *process
}

func (c *cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir, "run"}, elem...)...)
}

// up starts everything and returns when the node is ready for pods.
func (c *cluster) up(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		c.makeCertificates, c.makeHost, c.startEtcd, c.startContainerd, c.startAPIServer, c.startControllers,
		c.loadImages, c.startNode, c.awaitNode,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// down ends everything at once: nothing here is worth a good end.
func (c *cluster) down() error {
	for _, p := range []*process{c.kubelet, c.scheduler, c.controllers, c.apiserver, c.etcd, c.containerd} {
		p.kill()
	}
	return nil
}

func (c *cluster) makeCertificates(context.Context) error {
	a, err := newAuthority(c.path("pki"))
	if err != nil {
		return err
	}
	c.authority = a
	masters := []string{"system:masters"}
	node := identity{user: "system:node:" + nodeName, groups: []string{"system:nodes"}}
	server := node
	server.names = []string{nodeName, nodeAddress}
	_, err = a.newKey("service-account")
	return errors.Join(err,
		a.sign("apiserver", identity{user: "kube-apiserver", names: []string{"localhost", "127.0.0.1", apiAddress,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}}),
		a.sign("apiserver-kubelet", identity{user: "kube-apiserver-kubelet-client", groups: masters}),
		a.sign("kubelet", server),
		a.kubeconfig("node", node),
		a.kubeconfig("admin", identity{user: "admin", groups: masters}),
		a.kubeconfig("controllers", identity{user: "system:kube-controller-manager"}),
		a.kubeconfig("scheduler", identity{user: "system:kube-scheduler"}),
	)
}

func (c *cluster) startEtcd(context.Context) (err error) {
	c.etcd, err = c.start("etcd", "--name=n", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+etcdPeerURL, "--initial-advertise-peer-urls="+etcdPeerURL, "--initial-cluster=n="+etcdPeerURL)
	return err
}

func (c *cluster) startAPIServer(ctx context.Context) (err error) {
	pki := c.authority.path
	c.apiserver, err = c.start("kube-apiserver",
		"--etcd-servers="+etcdURL,
		"--bind-address="+apiAddress, "--secure-port=443", "--advertise-address="+apiAddress,
		"--service-cluster-ip-range="+services,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file="+pki("ca.crt"), "--tls-cert-file="+pki("apiserver.crt"), "--tls-private-key-file="+pki("apiserver.key"),
		"--kubelet-client-certificate="+pki("apiserver-kubelet.crt"), "--kubelet-client-key="+pki("apiserver-kubelet.key"),
		"--kubelet-certificate-authority="+pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+pki("service-account.pub"), "--service-account-signing-key-file="+pki("service-account.key"))
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", pki("admin.kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return c.await(ctx, "API server is ready", func(ctx context.Context) error {
		if err := c.apiserver.ended(); err != nil {
			return err
		}
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *cluster) startControllers(context.Context) (err error) {
	pki := c.authority.path
	config := pki("controllers.kubeconfig")
	c.controllers, err = c.start("kube-controller-manager", "--kubeconfig="+config,
		"--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials=true",
		"--service-account-private-key-file="+pki("service-account.key"), "--root-ca-file="+pki("ca.crt"),
		"--cluster-signing-cert-file="+pki("ca.crt"), "--cluster-signing-key-file="+pki("ca.key"))
	if err != nil {
		return err
	}
	config = pki("scheduler.kubeconfig")
	c.scheduler, err = c.start("kube-scheduler", "--kubeconfig="+config,
		"--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--bind-address=127.0.0.1", "--leader-elect=false")
	return err
}

// awaitNode returns when a pod could be made.
func (c *cluster) awaitNode(ctx context.Context) error {
	return errors.Join(
		c.await(ctx, "node is ready", func(ctx context.Context) error {
			if err := c.kubelet.ended(); err != nil {
				return err
			}
			node, err := c.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("conditions %v", node.Status.Conditions)
		}),
		c.await(ctx, "default service account is there", func(ctx context.Context) error {
			_, err := c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		}))
}

// await tries until there is no error.
func (c *cluster) await(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error // before the time was up, which says more than that it is
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, patience, last)
		}
	}
}

// writeFile writes a file of a component's configuration.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
