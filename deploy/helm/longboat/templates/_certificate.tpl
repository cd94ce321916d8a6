{{/* Whether the chart creates the webhooks' certificate. It must with watchNamespaces and without cert-manager: such a controller
may not write its CA into the webhook configurations. */}}
{{- define "longboat.own" -}}
{{- if and .Values.watchNamespaces (not .Values.certManager) }}true{{ end }}
{{- end }}

{{/* The webhooks' certificate as JSON with base64 values: the one in the cluster, or else a new one, the same for all templates. */}}
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

{{/* The name of the Secret with the certificate. Empty if the controller creates its own CA. */}}
{{- define "longboat.certificateSecret" -}}
{{- if .Values.certManager }}llmisvc-webhook-server-cert{{ else if include "longboat.own" . }}llmisvc-webhook-chart-cert{{ end }}
{{- end }}
