#!/usr/bin/env bash
# Installs the other side of two tests into .cache/bin: the servers of the download tests (crates/fetch/tests/real), which are
# the registry of the distribution project and fake-gcs-server, and h2spec, the client of crates/extproc/tests. Builds pinned
# versions through the Go module proxy, once per version. (The S3 server is moto, from requirements.txt.) Prints one line per
# program. A missing program is an error with --strict (CI), and otherwise a warning.
. "$(dirname "$0")/setup.sh"

# have NAME MODULE PACKAGE: installs one program.
have() {
  local name=$1 module=$2 package=$3 version built
  version=$(awk -v module="$module" '$1 == module && $2 ~ /^v/ { print substr($2, 2); exit }
    $1 == "require" && $2 == module { print substr($3, 2); exit }' "scripts/$name/go.mod")
  built="$bin/$name-$version"
  if [ ! -x "$built" ]; then
    if ! command -v go >/dev/null; then
      missing "$name $version: install Go so that it can be built"
      return
    fi
    echo "tools: building $name $version (a minute or two, once)"
    if ! (cd "scripts/$name" && CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -o "$built.new" "$package"); then
      missing "$name $version: the build failed, see above"
      return
    fi
    mv "$built.new" "$built"
  fi
  ln -sf "$name-$version" "$bin/$name"
  echo "tools: $name: $built"
}

have registry github.com/distribution/distribution/v3 .
have fake-gcs-server github.com/fsouza/fake-gcs-server github.com/fsouza/fake-gcs-server
have h2spec github.com/summerwind/h2spec github.com/summerwind/h2spec/cmd/h2spec
