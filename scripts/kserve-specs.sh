#!/usr/bin/env bash
# Runs the specs of KServe's controller against Longboat's. tests/kserve-specs/README.md says what it needs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${SPECS_BUILD:-$root/.cache/kserve-specs}
package=pkg/controller/v1alpha2/llmisvc
clone=${KSERVE:?a clone of https://github.com/kserve/kserve}
export LONGBOAT=${LONGBOAT:-$root/target/debug/longboat}
export LONGBOAT_LOG_FILE=$build/longboat.log
# The API server and etcd, for the specs' own helper.
export KUBEBUILDER_ASSETS=$root/.cache/bin
export ENVTEST_DEFAULT_TIMEOUT=${PATIENCE:-60}s
# go.mod names the version of Go that the specs need. Go fetches it if it is newer than the installed one.
export GOTOOLCHAIN=auto

for program in go git; do
  command -v "$program" > /dev/null || { echo "kserve-specs.sh: no $program: install it" >&2; exit 1; }
done
for file in "$LONGBOAT" "$KUBEBUILDER_ASSETS/kube-apiserver" "$KUBEBUILDER_ASSETS/etcd"; do
  [ -x "$file" ] || { echo "kserve-specs.sh: no $file: run cargo build and scripts/tools.sh" >&2; exit 1; }
done

hook=$root/tests/kserve-specs/longboat.go
commit=$(git -C "$clone" rev-parse HEAD)
if [ "$(cat "$build/commit" 2> /dev/null)" != "$commit" ] || [ "$hook" -nt "$build/specs" ]; then
  rm -rf "$build" && mkdir -p "$build/source"
  git -C "$clone" archive HEAD go.mod go.sum pkg cmd config test/crds test/webhooks | tar x -C "$build/source"
  fixture=$build/source/$package/fixture
  cp "$hook" "$fixture"
  # The functions that set up KServe's controllers stay, unused.
  sed -i -e '/WithControllers(llmCtrlFunc, llmConfigCtrlFunc)\./d' \
    -e 's/^\tenvTest := pkgtest/\t_, _ = llmCtrlFunc, llmConfigCtrlFunc\n&/' \
    -e 's/^\tRequiredResources(ctx, envTest.Client, systemNs)$/&\n\tstartLongboat(envTest.Environment, systemNs)/' \
    "$fixture/envtest.go"
  if grep -q WithControllers "$fixture/envtest.go" || ! grep -q startLongboat "$fixture/envtest.go"; then
    echo "kserve-specs.sh: SetupTestEnv of this KServe has another form: adapt the script to $fixture/envtest.go" >&2
    exit 1
  fi
  (cd "$build/source" && go test -c -o "$build/specs" "./$package")
  echo "$commit" > "$build/commit"
fi
cd "$build/source/$package"
exec "$build/specs" -test.run TestLLMInferenceServiceController -ginkgo.succinct -ginkgo.no-color "$@"
