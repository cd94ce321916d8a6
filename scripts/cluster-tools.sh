#!/usr/bin/env bash
# Installs the servers of the cluster tests (tests/cluster) into .cache/bin: real, pinned versions of etcd and kube-apiserver.
# Takes them from KUBEBUILDER_ASSETS if that is set and they are new enough. Otherwise builds them through the Go module proxy,
# once per version. Prints one line per server. A missing server is an error with --strict (CI), and otherwise a warning.
. "$(dirname "$0")/setup.sh"

# Prints the version that a program reports: 3.6.16, 1.34.4.
version_of() {
  "$1" --version 2>/dev/null | grep -Eo '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1
}

# Whether version $1 is $2 or newer.
at_least() {
  [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# have NAME MODULE MINIMUM [LDFLAGS]: installs one server.
have() {
  local name=$1 module=$2 minimum=$3 flags="-s -w ${4:-}" wanted assets built
  wanted=$(awk -v module="$module" '$1 == module && $2 ~ /^v/ { print substr($2, 2); exit }
    $1 == "require" && $2 == module { print substr($3, 2); exit }' "scripts/$name/go.mod")
  assets="${KUBEBUILDER_ASSETS:-}/$name"
  built="$cache/bin/$name-$wanted"
  if [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$assets" ] && at_least "$(version_of "$assets")" "$minimum"; then
    ln -sf "$assets" "$cache/bin/$name"
    echo "tools: $name: $assets"
    return
  fi
  if [ ! -x "$built" ]; then
    if ! command -v go >/dev/null; then
      missing "$name $minimum or newer: install Go so that it can be built, or set KUBEBUILDER_ASSETS to a folder with it"
      return
    fi
    echo "tools: building $name $wanted (some minutes, once)"
    if ! (cd "scripts/$name" && CGO_ENABLED=0 nice go build -trimpath -ldflags "${flags//VERSION/$wanted}" -o "$built.new" .); then
      missing "$name $wanted: the build failed, see above"
      return
    fi
    mv "$built.new" "$built"
  fi
  ln -sf "$name-$wanted" "$cache/bin/$name"
  echo "tools: $name: $built"
}

# etcd 3.4, which distributions package, lacks the watches that clients of Kubernetes 1.34 need.
have etcd go.etcd.io/etcd/server/v3 3.6.0
minor=$(sed -n 's/^\tk8s.io\/kubernetes v1\.\([0-9]*\)\..*$/\1/p' scripts/kube-apiserver/go.mod)
have kube-apiserver k8s.io/kubernetes 1.34.0 "-X k8s.io/component-base/version.gitVersion=vVERSION \
  -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
