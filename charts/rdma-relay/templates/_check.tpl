{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* What the schema can't say: combinations that could not work. */}}
{{- define "rdma-relay.check" -}}
{{- $v := .Values -}}
{{- if not $v.metrics.enabled -}}
{{- range $name, $on := dict "service" $v.metrics.service.enabled "podMonitor" $v.metrics.podMonitor.enabled "serviceMonitor" $v.metrics.serviceMonitor.enabled "prometheusRule" $v.metrics.prometheusRule.enabled "dashboard" $v.metrics.dashboard.enabled -}}
{{- if $on -}}{{- fail (printf "metrics.%s.enabled needs metrics.enabled: nothing would answer" $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.metrics.podMonitor.enabled $v.metrics.serviceMonitor.enabled -}}
{{- fail "metrics.podMonitor.enabled and metrics.serviceMonitor.enabled: choose one, or everything is scraped twice" -}}
{{- end -}}
{{- if $v.metrics.webConfig.existingSecret -}}
{{- if not $v.metrics.enabled -}}{{- fail "metrics.webConfig.existingSecret needs metrics.enabled: there is no port to protect" -}}{{- end -}}
{{- if eq (int $v.metrics.webConfig.probePort) (int $v.metrics.port) -}}{{- fail "metrics.webConfig.probePort must not be metrics.port: one is protected and the other is not" -}}{{- end -}}
{{- range $name, $monitor := dict "podMonitor" $v.metrics.podMonitor "serviceMonitor" $v.metrics.serviceMonitor -}}
{{- if and $monitor.enabled (not $monitor.endpoint) -}}{{- fail (printf "metrics.%s.endpoint must say how Prometheus gets past metrics.webConfig: scheme, tlsConfig, basicAuth" $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $monitor := dict "podMonitor" $v.metrics.podMonitor "serviceMonitor" $v.metrics.serviceMonitor -}}
{{- range $field := list "port" "path" "interval" "scrapeTimeout" "relabelings" "metricRelabelings" -}}
{{- if hasKey $monitor.endpoint $field -}}{{- fail (printf "metrics.%s.endpoint.%s is set by this chart or by metrics.%s.%s" $name $field $name $field) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled $v.hostNetwork -}}
{{- fail "networkPolicy.enabled has no effect with hostNetwork: network policies don't apply to the host's network" -}}
{{- end -}}
{{- if and $v.namespace.create (or (not $v.namespaceOverride) (eq $v.namespaceOverride .Release.Namespace)) -}}
{{- fail "namespace.create needs a namespaceOverride that is not the release's own namespace: Helm needs that one before it can install" -}}
{{- end -}}
{{- if and $v.nfd.enabled $v.affinity.nodeAffinity -}}
{{- fail "nfd.enabled and affinity.nodeAffinity: choose one, or write the labels of Node Feature Discovery into your own affinity" -}}
{{- end -}}
{{- if and $v.nfd.enabled (not $v.nfd.labels) -}}
{{- fail "nfd.enabled needs at least one of nfd.labels" -}}
{{- end -}}
{{- if and (not $v.cdi.enabled) (not $v.config.existingConfigMap.name) -}}
{{- range $v.config.inline.configList -}}
{{- if .cdi -}}{{- fail (printf "config.inline: resource %s has cdi: true, which needs cdi.enabled: nobody would write the CDI specs" .resourceName) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $v.updateStrategy.type "RollingUpdate" -}}
{{- $rolling := default dict $v.updateStrategy.rollingUpdate -}}
{{- $surge := not (has (toString (default 0 $rolling.maxSurge)) (list "0" "0%")) -}}
{{- $unavailable := not (has (toString (ternary $rolling.maxUnavailable 1 (hasKey $rolling "maxUnavailable"))) (list "0" "0%")) -}}
{{- if eq $surge $unavailable -}}
{{- fail "updateStrategy.rollingUpdate: exactly one of maxSurge and maxUnavailable must be above 0; Kubernetes refuses anything else" -}}
{{- end -}}
{{- if and $surge $v.hostNetwork $v.metrics.enabled -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge with hostNetwork: old and new pod would want the same host port; set maxSurge to 0 or metrics.enabled to false" -}}
{{- end -}}
{{- end -}}
{{- with $v.discovery.securityContext.runAsGroup -}}
{{- if ne (int .) (int $v.proxy.securityContext.runAsGroup) -}}
{{- fail "discovery.securityContext.runAsGroup must be left out or be that of the proxy: it becomes the group of the socket between the two" -}}
{{- end -}}
{{- end -}}
{{- if eq (clean (include "rdma-relay.kubeletDir" .)) "/var/lib/kubelet" -}}
{{- fail "kubelet: name the directory of the sockets, not /var/lib/kubelet itself, which holds the volumes of every pod" -}}
{{- end -}}
{{- range $program, $flags := dict "discovery" (list "socket" "host-root" "resync-interval" "allow-uids" "cdi-dir" "log-level" "log-format") "proxy" (list "config" "discovery-socket" "device-plugins-dir" "plugins-registry-dir" "registration" "metrics-address" "web-config-file" "probe-address" "stale-after" "log-level" "log-format") -}}
{{- range $arg := (index $v $program).extraArgs -}}
{{- if has (trimPrefix "--" (first (splitList "=" $arg))) $flags -}}
{{- fail (printf "%s.extraArgs: %s is set by a value of this chart" $program $arg) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
