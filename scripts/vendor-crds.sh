#!/usr/bin/env bash
# Fetches the CRDs of other projects into deploy/crds, from releases. The embedded API server serves them, and the schemas of our
# own CRDs contain those of an HTTPRoute and of an InferencePool. The versions are those whose Go types KServe embeds
# (github.com/kserve/kserve, go.mod). Later ones have fields that KServe's CRDs refuse, and lack some that they accept.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
arguments=()
fetch() { # OWNER/REPOSITORY VERSION PATH LABEL
  local file=$folder/${#arguments[@]}.yaml
  curl -fsSL --retry 3 -o "$file" "https://raw.githubusercontent.com/$1/$2/config/crd/$3"
  arguments+=("$file=$4 $2")
}
for kind in gatewayclasses gateways httproutes; do
  fetch kubernetes-sigs/gateway-api v1.5.1 "experimental/gateway.networking.k8s.io_$kind.yaml" "Gateway API"
done
extension=kubernetes-sigs/gateway-api-inference-extension
pools='inferencepools.yaml'
fetch $extension v1.5.0 "bases/inference.networking.k8s.io_$pools" "Gateway API Inference Extension"
# The last release with the older kind.
fetch $extension v1.4.0 "bases/inference.networking.x-k8s.io_$pools" "Gateway API Inference Extension"
fetch kubernetes-sigs/lws v0.8.0 bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml LeaderWorkerSet
fetch kedacore/keda v2.18.0 bases/keda.sh_scaledobjects.yaml KEDA
for kind in servingruntimes clusterservingruntimes; do
  fetch kserve/kserve v0.20.0 "full/serving.kserve.io_$kind.yaml" KServe
done
cd "$root" && cargo run --quiet -p longboat-api --example vendor -- "${arguments[@]}"
