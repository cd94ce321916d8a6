{{/* Whether the chart makes the certificate of the webhooks: confined to namespaces, a controller cannot tell API servers to trust
one of its own, and there is no cert-manager to do it. */}}
{{- define "longboat.own" -}}
{{- if and .Values.watchNamespaces (not .Values.certManager) }}true{{ end }}
{{- end }}

{{/* That certificate as JSON, each value in base64: what the cluster has, else one that is made, once for all templates. */}}
{{- define "longboat.certificate" -}}
{{- if not (hasKey .Values "madeCertificate") }}
{{- $found := lookup "v1" "Secret" .Release.Namespace "llmisvc-webhook-chart-cert" }}
{{- if $found }}
{{- $_ := set .Values "madeCertificate" $found.data }}
{{- else }}
{{- $host := printf "llmisvc-webhook-server-service.%s.svc" .Release.Namespace }}
{{- $names := list $host }}{{ $addresses := list }}
{{- with .Values.webhookUrl }}
{{- $other := (urlParse .).hostname }}
{{- if regexMatch "^[0-9.]+$|:" $other }}{{ $addresses = list $other }}{{ else }}{{ $names = append $names $other }}{{ end }}
{{- end }}
{{- $authority := genCA "llmisvc-webhook-ca" 3650 }}
{{- $pair := genSignedCert $host $addresses $names 3650 $authority }}
{{- $_ := set .Values "madeCertificate" (dict "ca.crt" (b64enc $authority.Cert) "tls.crt" (b64enc $pair.Cert) "tls.key" (b64enc $pair.Key)) }}
{{- end }}
{{- end }}
{{- toJson .Values.madeCertificate }}
{{- end }}

{{/* The name of the Secret with the certificate, if it comes from one. */}}
{{- define "longboat.certificateSecret" -}}
{{- if .Values.certManager }}llmisvc-webhook-server-cert{{ else if include "longboat.own" . }}llmisvc-webhook-chart-cert{{ end }}
{{- end }}
