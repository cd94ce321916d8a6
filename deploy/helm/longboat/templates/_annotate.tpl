{{/* With certManager, adds the annotation that makes cert-manager write its CA into an object: (list OBJECT ROOT). */}}
{{- define "longboat.inject" -}}
{{- $object := first . }}{{- $root := last . }}
{{- if $root.Values.certManager }}
{{- $annotations := default dict $object.metadata.annotations }}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/llmisvc-serving-cert" $root.Release.Namespace) }}
{{- $_ := set $object.metadata "annotations" $annotations }}
{{- end }}
{{- end }}

{{/* Sets the address and, if the chart creates the certificate, the CA of a webhook: (list CLIENTCONFIG ROOT PATH). */}}
{{- define "longboat.client" -}}
{{- $client := first . }}{{- $root := index . 1 }}
{{- if $root.Values.webhookUrl }}
{{- $_ := set $client "url" (printf "%s%s" $root.Values.webhookUrl (last .)) }}
{{- $_ := unset $client "service" }}
{{- else }}
{{- $_ := set $client.service "namespace" $root.Release.Namespace }}
{{- end }}
{{- if include "longboat.own" $root }}
{{- $_ := set $client "caBundle" (index (include "longboat.certificate" $root | fromJson) "ca.crt") }}
{{- end }}
{{- end }}
