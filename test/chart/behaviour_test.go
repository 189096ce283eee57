// What the values do, report by report.
//
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHelmLintsTheChart(t *testing.T) {
	if out, stderr, err := run(t, "helm", "lint", "--strict", chartDir); err != nil {
		t.Errorf("%s%s", out, stderr)
	}
}

// Combinations that can't work fail with a sentence, and misspelt values do, too.
func TestBadValuesAreRefused(t *testing.T) {
	for _, test := range []struct {
		set  []string
		want string
	}{
		{[]string{"metrics.enabled=false", "metrics.podMonitor.enabled=true"}, "metrics.podMonitor.enabled needs metrics.enabled"},
		{[]string{"metrics.serviceMonitor.enabled=true", "metrics.podMonitor.enabled=true"}, "everything is scraped twice"},
		{[]string{"networkPolicy.enabled=true", "hostNetwork=true"}, "no effect with hostNetwork"},
		{[]string{"namespace.create=true"}, "needs a namespaceOverride"},
		{[]string{"namespace.create=true", "namespaceOverride=rdma-relay"}, "needs a namespaceOverride"},
		{[]string{"nfd.enabled=true", "affinity.nodeAffinity.x=y"}, "nfd.enabled and affinity.nodeAffinity"},
		{[]string{"nfd.enabled=true", "nfd.labels=null"}, "at least one of nfd.labels"},
		{[]string{"config.inline.configList[0].resourceName=a", "config.inline.configList[0].rdmaHcaMax=1",
			"config.inline.configList[0].selectors.vendors[0]=15b3", "config.inline.configList[0].cdi=true"}, "resource a has cdi: true, which needs cdi.enabled"},
		{[]string{"updateStrategy.rollingUpdate.maxSurge=1"}, "exactly one of maxSurge and maxUnavailable"},
		{[]string{"updateStrategy.rollingUpdate.maxUnavailable=0"}, "exactly one of maxSurge and maxUnavailable"},
		{[]string{"updateStrategy.rollingUpdate.maxUnavailable=0%", "updateStrategy.rollingUpdate.maxSurge=10%", "hostNetwork=true"}, "the same host port"},
		{[]string{"discovery.securityContext.runAsGroup=7"}, "discovery.securityContext.runAsGroup"},
		{[]string{"kubelet.devicePluginsDir=/var/lib/kubelet/"}, "volumes of every pod"},
		{[]string{"proxy.extraArgs[0]=--registration=watcher"}, "--registration=watcher is set by a value of this chart"},
		{[]string{"discovery.extraArgs[0]=--host-root=/x"}, "--host-root=/x is set by a value"},
		{[]string{"metrics.enabled=false", "metrics.webConfig.existingSecret=web"}, "there is no port to protect"},
		{[]string{"metrics.webConfig.existingSecret=web", "metrics.webConfig.probePort=9837"}, "probePort must not be metrics.port"},
		{[]string{"metrics.webConfig.existingSecret=web", "metrics.podMonitor.enabled=true"}, "metrics.podMonitor.endpoint must say how"},
		{[]string{"metrics.serviceMonitor.endpoint.port=x"}, "metrics.serviceMonitor.endpoint.port is set by this chart"},
		{[]string{"proxy.extraArgs[0]=--probe-address=:1"}, "--probe-address=:1 is set by a value"},
		// The schema.
		{[]string{"metrics.webConfig.key=../web.yml"}, "/metrics/webConfig/key"},
		{[]string{"metrics.webConfig.secret=web"}, "'secret' not allowed"},
		{[]string{"proxy.image.tagg=1"}, "'tagg' not allowed"},
		{[]string{"kubelet.registration=both"}, "/kubelet/registration"},
		{[]string{"kubelet.devicePluginsDir=/" + strings.Repeat("d", 58)}, "/kubelet/devicePluginsDir"},
		{[]string{"metrics.port=80"}, "/metrics/port"},
		{[]string{"config.inline.configList[0].resourceName=a", "config.inline.configList[0].rdmaHcaMax=1",
			"config.inline.configList[0].selectors.vendor[0]=15b3"}, "'vendor' not allowed"},
		{[]string{"updateStrategy.type=Recreate"}, "/updateStrategy/type"},
		{[]string{"proxy.staleAfter=soon"}, "/proxy/staleAfter"},
	} {
		args := []string{}
		for _, s := range test.set {
			args = append(args, "--set="+s)
		}
		_, err := template(t, "x", args...)
		if err == nil {
			t.Errorf("%q is taken", test.set)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: want a word of %q:\n%s", test.set, test.want, err)
		}
	}
}

func TestR69_TolerationsSelectorAndAffinityCanBeSetAndEmptied(t *testing.T) {
	pod, _, _ := mustTemplate(t, "x").pod(t)
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Operator != corev1.TolerationOpExists || pod.Affinity != nil {
		t.Errorf("by default: %+v, %+v", pod.Tolerations, pod.Affinity)
	}
	pod, _, _ = mustTemplate(t, "x", "--set-json=tolerations=[]", "--set-json=nodeSelector=null").pod(t)
	if len(pod.Tolerations) != 0 || len(pod.NodeSelector) != 0 {
		t.Errorf("emptied: %+v, %+v", pod.Tolerations, pod.NodeSelector)
	}
	pod, _, _ = mustTemplate(t, "x", "--set=nfd.enabled=true", `--set-json=affinity={"podAffinity":{}}`).pod(t)
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 3 || pod.Affinity.PodAffinity == nil {
		t.Errorf("with NFD: %+v", pod.Affinity)
	}
}

func TestR70_PullSecretsPriorityResourcesAndImages(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	pod, discovery, proxy := mustTemplate(t, "x", "--set=imagePullSecrets[0].name=pull", "--set=priorityClassName=",
		"--set=global.imageRegistry=mirror.example.com", "--set=proxy.image.digest="+digest, "--set-json=proxy.resources=null").pod(t)
	if len(pod.ImagePullSecrets) != 1 || pod.PriorityClassName != "" || len(proxy.Resources.Limits) != 0 || len(discovery.Resources.Requests) != 2 {
		t.Errorf("%+v, %q, %+v, %+v", pod.ImagePullSecrets, pod.PriorityClassName, proxy.Resources, discovery.Resources)
	}
	if discovery.Image != "mirror.example.com/rdma-relay/discoveryd:0.1.0" || proxy.Image != "mirror.example.com/rdma-relay/pluginproxy@"+digest {
		t.Errorf("images %s and %s", discovery.Image, proxy.Image)
	}
	pod, _, _ = mustTemplate(t, "x").pod(t)
	if pod.PriorityClassName != "system-node-critical" {
		t.Errorf("priority class %q", pod.PriorityClassName)
	}
}

func TestR71_UpdateStrategy(t *testing.T) {
	s := mustTemplate(t, "x").daemonSet(t).Spec.UpdateStrategy
	if s.RollingUpdate.MaxUnavailable.String() != "1" || s.RollingUpdate.MaxSurge.String() != "0" {
		t.Errorf("by default %+v", s.RollingUpdate)
	}
	s = mustTemplate(t, "x", "--set=updateStrategy.rollingUpdate.maxUnavailable=25%").daemonSet(t).Spec.UpdateStrategy
	if s.RollingUpdate.MaxUnavailable.String() != "25%" {
		t.Errorf("%+v", s.RollingUpdate)
	}
	s = mustTemplate(t, "x", "--set=updateStrategy.type=OnDelete").daemonSet(t).Spec.UpdateStrategy
	if s.Type != "OnDelete" || s.RollingUpdate != nil {
		t.Errorf("%+v", s)
	}
}

func TestR72_NoNamespaceIsFixed(t *testing.T) {
	for _, o := range mustTemplate(t, "x", "--set=namespaceOverride=elsewhere", "--set=metrics.podMonitor.enabled=true", "--set=openshift.scc=privileged") {
		if o.Namespace != "elsewhere" {
			t.Errorf("%s %s is in %s", o.Kind, o.Name, o.Namespace)
		}
		if strings.Contains(o.text, "rdma-system") || strings.Contains(o.text, "kube-system") {
			t.Errorf("%s %s names a namespace of its own", o.Kind, o.Name)
		}
	}
}

// R74: the socket between the two follows the user and group of the proxy.
func TestR74_UserAndGroupOfTheProxy(t *testing.T) {
	pod, discovery, proxy := mustTemplate(t, "x", "--set=proxy.securityContext.runAsUser=65532", "--set=proxy.securityContext.runAsGroup=65533").pod(t)
	if uids, _ := flagOf(discovery, "allow-uids"); uids != "0,65532" {
		t.Errorf("--allow-uids=%s", uids)
	}
	if *discovery.SecurityContext.RunAsGroup != 65533 || *discovery.SecurityContext.RunAsUser != 0 || *proxy.SecurityContext.RunAsUser != 65532 {
		t.Errorf("%+v, %+v", discovery.SecurityContext, proxy.SecurityContext)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod is in a name space of the host, or has a token:\n%+v", pod)
	}
}

func TestStatusPageIsToldTheNameOfTheNode(t *testing.T) {
	_, _, proxy := mustTemplate(t, "x", "--set=proxy.env[0].name=A").pod(t)
	if e := proxy.Env; len(e) != 2 || e[0].Name != "NODE_NAME" || e[0].ValueFrom.FieldRef.FieldPath != "spec.nodeName" || e[1].Name != "A" {
		t.Errorf("environment %+v", e)
	}
}

// Kubelet's probes know no password, so they have a port of their own; all of the Secret
// is there, since the file names others beside it.
func TestProtectedMetricsHaveAPortForTheProbes(t *testing.T) {
	pod, _, proxy := mustTemplate(t, "x", "--set=metrics.webConfig.existingSecret=web", "--set=metrics.webConfig.key=config.yml").pod(t)
	config, _ := flagOf(proxy, "web-config-file")
	address, _ := flagOf(proxy, "probe-address")
	if config != "/etc/rdma-relay-web/config.yml" || address != ":9838" {
		t.Errorf("--web-config-file=%s --probe-address=%s", config, address)
	}
	for _, probe := range []*corev1.Probe{proxy.LivenessProbe, proxy.ReadinessProbe} {
		if got := probe.HTTPGet; got.Port.String() != "probes" || got.Scheme != "" {
			t.Errorf("probe %+v", got)
		}
	}
	if i := slices.IndexFunc(proxy.Ports, func(p corev1.ContainerPort) bool { return p.Name == "probes" && p.ContainerPort == 9838 }); i < 0 {
		t.Errorf("ports %+v", proxy.Ports)
	}
	mount := slices.IndexFunc(proxy.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPath == "/etc/rdma-relay-web" && m.ReadOnly && m.SubPath == ""
	})
	volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "web" })
	if mount < 0 || volume < 0 || proxy.VolumeMounts[mount].Name != pod.Volumes[volume].Name {
		t.Errorf("mounts %+v of volumes %+v", proxy.VolumeMounts, pod.Volumes)
	}

	pod, _, proxy = mustTemplate(t, "x").pod(t)
	if _, ok := flagOf(proxy, "probe-address"); ok || len(proxy.Ports) != 1 || proxy.LivenessProbe.HTTPGet.Port.String() != "metrics" || len(pod.Volumes) != 5 {
		t.Errorf("without: %+v, volumes %+v", proxy, pod.Volumes)
	}
}

func TestEachContainerHasOnlyWhatItNeeds(t *testing.T) {
	pod, discovery, proxy := mustTemplate(t, "x").pod(t)
	for _, c := range []corev1.Container{discovery, proxy} {
		s := c.SecurityContext
		if *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.SeccompProfile.Type != "RuntimeDefault" ||
			len(s.Capabilities.Add) != 0 || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: %+v", c.Name, s)
		}
	}
	writable := map[string][]string{}
	for _, c := range []corev1.Container{discovery, proxy} {
		for _, m := range c.VolumeMounts {
			if !m.ReadOnly {
				writable[c.Name] = append(writable[c.Name], m.MountPath)
			}
			if m.MountPropagation != nil {
				t.Errorf("%s: %+v", c.Name, m)
			}
		}
	}
	if !slices.Equal(writable["discoveryd"], []string{"/run/rdma-relay"}) || !slices.Equal(writable["pluginproxy"], []string{"/var/lib/kubelet/device-plugins"}) {
		t.Errorf("writable: %v", writable)
	}
	if len(pod.Volumes) != 5 {
		t.Errorf("volumes %+v", pod.Volumes)
	}
	// Kubernetes before 1.30 does not know this field.
	_, discovery, _ = mustTemplate(t, "x", "--kube-version=1.29.0").pod(t)
	for _, m := range discovery.VolumeMounts {
		if m.RecursiveReadOnly != nil {
			t.Errorf("%+v", m)
		}
	}
}

// R78: no probe asks whether kubelet is there, but for readiness.
func TestR78_Probes(t *testing.T) {
	_, discovery, proxy := mustTemplate(t, "x").pod(t)
	if proxy.LivenessProbe.HTTPGet.Path != "/healthz" || proxy.ReadinessProbe.HTTPGet.Path != "/readyz" || proxy.StartupProbe != nil {
		t.Errorf("proxy: %+v, %+v", proxy.LivenessProbe, proxy.ReadinessProbe)
	}
	socket, _ := flagOf(discovery, "socket")
	want := []string{"/usr/bin/discoveryd", "probe", "--socket=" + socket, "--timeout=4s"}
	for _, p := range []*corev1.Probe{discovery.LivenessProbe, discovery.StartupProbe} {
		if !slices.Equal(p.Exec.Command, want) {
			t.Errorf("discovery: %q", p.Exec.Command)
		}
		if p.TimeoutSeconds <= 4 {
			t.Error("kubelet gives up before the probe does")
		}
	}
}

func TestR80_MetricsPortIsTheSameEverywhereMovedOrOff(t *testing.T) {
	all := mustTemplate(t, "x", "--set=metrics.port=12345", "--set=metrics.serviceMonitor.enabled=true")
	_, _, proxy := all.pod(t)
	address, _ := flagOf(proxy, "metrics-address")
	service := all.kind("Service")[0].typed.(*corev1.Service)
	if address != ":12345" || proxy.Ports[0].ContainerPort != 12345 || service.Spec.Ports[0].Port != 12345 || service.Spec.Ports[0].TargetPort.String() != "metrics" {
		t.Errorf("%s, %+v, %+v", address, proxy.Ports, service.Spec.Ports)
	}
	if len(all.kind("ServiceMonitor")) != 1 || len(mustTemplate(t, "x")) != 3 {
		t.Error("monitors are not off by default")
	}
	_, _, proxy = mustTemplate(t, "x", "--set=metrics.enabled=false").pod(t)
	if address, ok := flagOf(proxy, "metrics-address"); address != "" || !ok || len(proxy.Ports) != 0 || proxy.LivenessProbe != nil {
		t.Errorf("off: %q, %+v", address, proxy.Ports)
	}
}

// Different nodes with different configurations: several releases in one namespace.
func TestTwoReleasesSideBySideShareNoName(t *testing.T) {
	seen := map[string]bool{}
	for _, release := range []string{"rail-nodes", "storage-nodes"} {
		all := mustTemplate(t, release, "--set=metrics.service.enabled=true", "--set=openshift.scc=privileged", "--set=networkPolicy.enabled=true")
		for _, o := range all {
			if name := o.Kind + " " + o.Name; seen[name] {
				t.Errorf("both have %s", name)
			} else {
				seen[name] = true
			}
		}
		if got := all.daemonSet(t).Spec.Selector.MatchLabels["app.kubernetes.io/instance"]; got != release {
			t.Errorf("the selector of %s asks for %s", release, got)
		}
	}
}

// Helm reads numbers as floats; 1e+06 would be refused.
func TestLargeNumbersReachTheConfigurationAsTheyAre(t *testing.T) {
	all := mustTemplate(t, "x", `--set-json=config.inline.configList=[{"resourceName":"a","rdmaHcaMax":100000,"selectors":{"vendors":["15b3"]}}]`)
	text := all.kind("ConfigMap")[0].typed.(*corev1.ConfigMap).Data["config.json"]
	if !strings.Contains(text, `"rdmaHcaMax": 100000,`) || !json.Valid([]byte(text)) {
		t.Errorf("%s", text)
	}
}

// R72: whoever sees no pods reads why.
func TestR72_NotesTellWhatToLookAt(t *testing.T) {
	for _, test := range []struct {
		set  string
		want []string
	}{
		{"nameOverride=", []string{"daemonset/relay-rdma-relay", "pod-security.kubernetes.io/enforce=privileged", "pluginproxy status --metrics-address=:9837"}},
		{"namespaceOverride=elsewhere", []string{"kubectl -n elsewhere rollout", "label namespace elsewhere"}},
		{"metrics.enabled=false", []string{"no metrics, no probes"}},
		{"kubelet.registration=watcher", []string{"Kubelet has to watch /var/lib/kubelet/plugins_registry"}},
		{"config.existingConfigMap.name=rdma-devices", []string{"ConfigMap rdma-devices, key config.json"}},
	} {
		out, stderr, err := run(t, "helm", "install", "relay", chartDir, "--dry-run=client", "--namespace=rdma-relay", "--kubeconfig=/dev/null", "--set="+test.set)
		if err != nil {
			t.Fatalf("%s: %s", test.set, stderr)
		}
		_, notes, _ := strings.Cut(out, "NOTES:")
		for _, w := range test.want {
			if !strings.Contains(notes, w) {
				t.Errorf("%s: no %q in the notes:\n%s", test.set, w, notes)
			}
		}
	}
}
