{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "rdma-relay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Room for the longest suffix, "-dashboard", and a bit: names end at 63. */}}
{{- define "rdma-relay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "rdma-relay.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rdma-relay.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "rdma-relay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "rdma-relay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rdma-relay.labels" -}}
{{ include "rdma-relay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: root, and optionally suffix, labels, annotations. */}}
{{- define "rdma-relay.metadata" -}}
name: {{ include "rdma-relay.fullname" .root }}{{ with .suffix }}-{{ . }}{{ end }}
namespace: {{ include "rdma-relay.namespace" .root }}
labels:
  {{- include "rdma-relay.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "rdma-relay.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rdma-relay.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rdma-relay.configMapName" -}}
{{- default (printf "%s-config" (include "rdma-relay.fullname" .)) .Values.config.existingConfigMap.name -}}
{{- end -}}

{{- define "rdma-relay.configKey" -}}
{{- if .Values.config.existingConfigMap.name -}}{{ .Values.config.existingConfigMap.key }}{{- else -}}config.json{{- end -}}
{{- end -}}

{{/* An image reference: root and image. */}}
{{- define "rdma-relay.image" -}}
{{- $registry := default .image.registry .root.Values.global.imageRegistry -}}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest -}}@{{ .image.digest }}{{- else -}}:{{ default .root.Chart.AppVersion .image.tag }}{{- end -}}
{{- end -}}

{{/* A directory of kubelet: the one value is host path, mount path and flag. */}}
{{- define "rdma-relay.kubeletDir" -}}
{{- if eq .Values.kubelet.registration "watcher" -}}
{{- .Values.kubelet.pluginsRegistryDir -}}
{{- else -}}
{{- .Values.kubelet.devicePluginsDir -}}
{{- end -}}
{{- end -}}

{{/* Host mounts that are only read: root, name, path. */}}
{{- define "rdma-relay.readOnlyMount" -}}
- name: {{ .name }}
  mountPath: {{ .path }}
  readOnly: true
  {{- if and .root.Values.discovery.recursiveReadOnly (semverCompare ">=1.30.0-0" .root.Capabilities.KubeVersion.Version) }}
  recursiveReadOnly: {{ .root.Values.discovery.recursiveReadOnly }}
  {{- end }}
{{- end -}}

{{/* affinity with the wish for a label of Node Feature Discovery. */}}
{{- define "rdma-relay.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- if .Values.nfd.enabled -}}
{{- $terms := list -}}
{{- range .Values.nfd.labels -}}
{{- $terms = append $terms (dict "matchExpressions" (list (dict "key" . "operator" "In" "values" (list "true")))) -}}
{{- end -}}
{{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) -}}
{{- end -}}
{{- with $affinity }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The endpoint of both kinds of monitors. */}}
{{- define "rdma-relay.endpoint" -}}
- port: metrics
  path: /metrics
  {{- with .interval }}
  interval: {{ . }}
  {{- end }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  relabelings:
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: node
    {{- with .relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .endpoint }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
