#!/usr/bin/env bash
# Puts the Helm charts together, ready for `helm install` and `helm package`: scripts/charts.sh [FOLDER], by default target/charts.
# A chart cannot refer to files outside of its folder, so each gets copies: the CRDs, rights and settings of deploy, and presets.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/target/charts}
rm -rf "$folder/longboat" "$folder/longboat-presets"
mkdir -p "$folder"
cp -R "$root/deploy/helm/." "$folder"
copy() { # FROM TO, without what kubectl alone reads; Helm creates the namespace itself
  mkdir -p "$folder/$2"
  find "$root/$1" -maxdepth 1 -name "${3:-*}.yaml" ! -name kustomization.yaml ! -name namespace.yaml \
    -exec cp {} "$folder/$2/" \;
}
copy deploy/crds longboat/definitions 'serving.kserve.io_llminferenceservice*'
copy deploy/kustomize/base longboat/base
copy deploy/kustomize/components/monitoring longboat/monitoring
copy deploy/kustomize/components/gateway longboat/gateway
copy deploy/picker longboat/picker
copy deploy/rbac longboat/rbac
copy deploy/rbac-namespaced/platform longboat/rbac-namespaced/platform
copy deploy/rbac-namespaced/watched longboat/rbac-namespaced/watched
copy presets longboat-presets/presets
copy runtimes longboat-presets/runtimes
mkdir -p "$folder/longboat/rbac-secrets"
cp "$root"/deploy/rbac-secrets/{namespace,platform}.yaml "$folder/longboat/rbac-secrets/"
echo "charts: $folder/longboat, then $folder/longboat-presets"
