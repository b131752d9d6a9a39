{{/* Prefix of all names: the release, with the word assay in it. */}}
{{- define "assay.name" -}}
{{- if contains "assay" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-assay" (.Release.Name | trunc 34 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* DaemonSet and Service. */}}
{{- define "assay.daemon" -}}{{ include "assay.name" . }}d{{- end }}
{{- define "assay.nightly" -}}{{ include "assay.name" . }}-nightly{{- end }}
{{/* Of what belongs to no namespace. */}}
{{- define "assay.nightlyNodes" -}}{{ .Release.Namespace }}-{{ include "assay.nightly" . }}{{- end }}

{{/* The name that certificates are for. */}}
{{- define "assay.host" -}}{{ include "assay.daemon" . }}.{{ .Release.Namespace }}.svc{{- end }}

{{- define "assay.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}

{{- define "assay.labels" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What pods are found by; never changes. */}}
{{- define "assay.podLabels" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "assay.daemonLabels" -}}
{{ include "assay.podLabels" . }}
app.kubernetes.io/component: assayd
{{- end }}

{{- define "assay.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.daemon.userId }}
runAsGroup: {{ .Values.daemon.userId }}
fsGroup: {{ .Values.daemon.userId }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "assay.hardened" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "assay.tlsPath" -}}/etc/assay/tls{{- end }}

{{/* assayd.toml: the chart's own keys, and daemon.config's. */}}
{{- define "assay.config" -}}
{{- $d := .Values.daemon -}}
listen = {{ printf "%s:%d" $d.bindAddress (int $d.grpcPort) | toJson }}
metrics-listen = {{ printf "%s:%d" $d.bindAddress (int $d.metricsPort) | toJson }}
health-listen = {{ printf "%s:%d" $d.bindAddress (int $d.healthPort) | toJson }}
{{- /* kubelet's probes speak no TLS. Where there are certificates, the other ports keep theirs. */}}
insecure = true
state-dir = "/var/lib/assay"
{{- if .Values.tls.enabled }}
metrics-tls = true
{{- range $key, $file := dict "tls-cert" "tls.crt" "tls-key" "tls.key" "tls-client-ca" "ca.crt" }}
{{ $key }} = {{ printf "%s/%s" (include "assay.tlsPath" $) $file | toJson }}
{{- end }}
{{- end }}
{{- range $key, $value := $d.config }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- end }}
