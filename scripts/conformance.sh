#!/usr/bin/env bash
# Runs the conformance suite of the Gateway API, or of its inference extension, against `longboat up`. tests/conformance/README.md
# says what it needs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
module=$root/tests/conformance
build=${CONFORMANCE_BUILD:-$root/.cache/conformance}
longboat=${LONGBOAT:-$root/target/debug/longboat}
PATH=$root/.cache/bin:$PATH
# go.mod names the version of Go that the suite needs. Go fetches it if it is newer than the installed one.
export GOTOOLCHAIN=auto
what=${1:-gateway-api}
case $what in gateway-api|inference-extension) ;; *) echo "usage: conformance.sh [gateway-api | inference-extension]" >&2; exit 2 ;; esac

if [ "${2:-}" != inside ]; then
  for program in go kubectl unshare python3; do
    command -v "$program" > /dev/null || { echo "conformance.sh: no $program: install it, or run scripts/tools.sh" >&2; exit 1; }
  done
  [ -x "$longboat" ] || { echo "conformance.sh: no $longboat: run cargo build, or set LONGBOAT" >&2; exit 1; }
  mkdir -p "$build"
  cd "$module"
  go mod download
  images=sigs.k8s.io/gateway-api-conformance-images
  if [ ! -x "$build/suite" ] || [ go.sum -nt "$build/suite" ]; then
    go test -c -o "$build/suite" .
    # A copy of the module, because the back end is changed.
    rm -rf "$build/copy" && cp -r "$(go list -m -f '{{.Dir}}' $images)" "$build/copy" && chmod -R u+w "$build/copy"
    python3 echo_address.py "$build/copy/echo-basic"
    cp go.mod "$build/echo.mod" && cp go.sum "$build/echo.sum"
    go mod edit -replace "$images=$build/copy" "$build/echo.mod"
    go build -modfile "$build/echo.mod" -o "$build/echo-basic" $images/echo-basic
  fi
  if [ "$what" = inference-extension ] && [ ! -x "$build/extension-suite" ]; then
    clone=${EXTENSION:?a clone of https://github.com/kubernetes-sigs/gateway-api-inference-extension}
    rm -rf "$build/extension" && mkdir "$build/extension"
    git -C "$clone" archive HEAD | tar x -C "$build/extension"
    git -C "$clone" log -1 --format=%H > "$build/extension-commit"
    python3 picker_address.py "$build/extension"
    (cd "$build/extension" && GOWORK=off go build -o "$build/lwepp" ./cmd/lwepp)
    (cd "$build/extension/conformance" && GOWORK=off go test -c -o "$build/extension-suite" .)
  fi
  exec unshare --map-root-user --net "$root/scripts/conformance.sh" "$what" inside
fi

cd "$module"
ip link set lo up
work=$(mktemp -d)
crds=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/experimental
# The DNS server of the suite's base is only used by tests of UDPRoutes. Its arguments mean nothing here.
printf '#!/bin/sh\nexec sleep infinity\n' > "$work/idle" && chmod +x "$work/idle"
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: empty, namespace: default}\n' > "$work/empty.yaml"
images=(--image "echo-basic=$build/echo-basic" --image "coredns=$work/idle")
[ "$what" = gateway-api ] || images+=(--image "lwepp=$build/lwepp")
"$longboat" up "$work/empty.yaml" --engine sim --state "$work/state" --port 80 --allow-host '*' --cors-origin '*' \
  "${images[@]}" > "$work/up.log" 2>&1 &
up=$!
trap 'kill -TERM $up 2> /dev/null; wait $up 2> /dev/null || true; rm -rf "$work"' EXIT
export KUBECONFIG=$work/state/kubeconfig
for _ in $(seq 240); do
  kubectl get gatewayclass longboat > /dev/null 2>&1 && break
  kill -0 $up || { cat "$work/up.log" >&2; exit 1; }
  sleep 0.5
done
for file in "$crds"/gateway.networking.k8s.io_*.yaml; do
  case $file in *_vap_*) ;; *) kubectl apply --server-side --force-conflicts -f "$file" > /dev/null ;; esac
done
patience=${PATIENCE:-30}
limits=
for name in GatewayMustHaveAddress GatewayMustHaveCondition GatewayStatusMustHaveListeners GatewayListenersMustHaveConditions \
  ListenerSetMustHaveCondition ListenerSetListenersMustHaveConditions HTTPRouteMustNotHaveParents HTTPRouteMustHaveCondition \
  RouteMustHaveParents MaxTimeToConsistency LatestObservedGenerationSet DefaultTestTimeout; do
  limits="$limits$name:$patience;"
done
report=$work/report.yaml
case $what in
  gateway-api)
    suite=$build/suite published=gateway-http.yaml
    own=(-conformance-profiles=GATEWAY-HTTP -usable-address=127.200.0.1 -unusable-address=192.0.2.1)
    ;;
  inference-extension)
    suite=$build/extension-suite published=gateway-inference.yaml
    own=(-allow-crds-mismatch=true)
    kubectl apply --server-side --force-conflicts -f "$build/extension/config/crd/bases" > /dev/null
    # The suite waits for a pod of the gateway beside its Gateways. That of local mode is a part of `up`.
    kubectl create namespace inference-conformance-infra > /dev/null
    kubectl run -n inference-conformance-infra stand-in --image=coredns > /dev/null
    ;;
esac
status=0
"$suite" -test.v -test.timeout 90m -gateway-class=longboat "${own[@]}" \
  -organization=longboat -project=longboat -url=https://longboat.dev -version="$("$longboat" --version | cut -d' ' -f2)" \
  -contact=https://longboat.dev -timeout-config-overrides="${limits}NamespacesMustBeReady:180" \
  ${TESTS:+-run-test="$TESTS"} -report-output="$report" > "$build/log" 2>&1 || status=$?
cp "$work/up.log" "$build/up.log"
[ ! -f "$report" ] || sed -n '/^profiles/,/supportedFeatures/p' "$report"
if [ -z "${TESTS:-}" ] && [ -f "$report" ]; then
  cp "$report" "$root/docs/conformance/$published"
fi
echo "the whole output is in $build/log, that of up in $build/up.log"
exit $status
