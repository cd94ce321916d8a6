#!/usr/bin/env bash
# Makes a release of the commit that is checked out: scripts/release.sh FOLDER. FOLDER then has what scripts/package.sh packs, a
# bill of materials of each program (CycloneDX), the image in its two forms and the charts as OCI archives, and the checksums of
# all. The programs are static, are built from a clean clone, and name their own dependencies (`cargo auditable`). What was made is
# tried: the programs of the tarball answer in an empty chroot, the entry points of the image start in its file system, and Helm
# pulls the charts from a registry.
#
# The clone and the build stay in CARGO_TARGET_DIR (by default target/release-build), so Cargo builds only what has changed since
# the last run. TARGET is the Rust target: x86_64-unknown-linux-musl, or one with GNU's libc, which is then linked statically. PROFILE
# is Cargo's: dist, or release, which takes half as long to build. CONTRIBUTING.md says where the other programs come from.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,10s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$root/.cache/bin:$PATH
target=${TARGET:-x86_64-unknown-linux-musl}
profile=${PROFILE:-dist}
need() { command -v "$1" >/dev/null || { echo "release.sh: no $1: $2" >&2; exit 1; }; }
need cargo-auditable "cargo install cargo-auditable"
need cargo-cyclonedx "cargo install cargo-cyclonedx"
need buildah "apt-get install buildah"
need jq "apt-get install jq"
need helm scripts/tools.sh
need registry scripts/store-tools.sh
case $target in
  *-musl) need musl-gcc "apt-get install musl-tools" ;;
  *-gnu) export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" ;;
esac
[ -z "$(git -C "$root" status --porcelain)" ] || { echo "release.sh: uncommitted changes: commit or stash them first" >&2; exit 1; }
revision=$(git -C "$root" rev-parse HEAD)
# The time of the commit, so that the same commit makes the same files.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH

scratch=$(mktemp -d)
servers=()
store=(buildah --storage-driver vfs --root "$scratch/storage" --runroot "$scratch/run")
finish() {
  [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true
  "${store[@]}" umount --all >/dev/null 2>&1 || true
  rm -rf "$scratch"
}
trap finish EXIT

# --- the programs
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/release-build}
source=$CARGO_TARGET_DIR/source
[ -d "$source" ] || git clone --quiet --no-checkout "file://$root" "$source"
git -C "$source" fetch --quiet "file://$root" "$revision"
git -C "$source" checkout --quiet --force --detach "$revision"
git -C "$source" clean --quiet -ffdx
cd "$source"
# One after the other: built together, they would share what the engine's libraries change in others (crates/engine/Cargo.toml).
cargo auditable build --profile "$profile" --locked --target "$target" -p longboat
cargo auditable build --profile "$profile" --locked --target "$target" -p longboat -p longboat-engine --bin longboat-engine \
  --features longboat-engine/llguidance
built=$CARGO_TARGET_DIR/$target/$profile
programs=("$built/longboat" "$built/longboat-engine")
for program in "${programs[@]}"; do
  # A static program has no interpreter that a chroot would lack.
  if readelf --program-headers --wide "$program" | grep -q INTERP; then
    echo "release.sh: $program is not static" >&2
    exit 1
  fi
done
version=$("$built/longboat" version | awk '{ print $2 }')
"$root/scripts/package.sh" "$folder" "${programs[@]}" >/dev/null
cargo cyclonedx --format json --describe binaries --target "$target" --quiet
cargo cyclonedx --format json --describe binaries --target "$target" --quiet --manifest-path crates/engine/Cargo.toml --features llguidance
mv crates/longboat/longboat_bin.cdx.json "$folder/longboat-$version.cdx.json"
mv crates/engine/longboat-engine_bin.cdx.json "$folder/longboat-engine-$version.cdx.json"

# --- the image: no base, so nothing in it comes from elsewhere but the certificates of public authorities
content=$scratch/image
scripts/image-root.sh "$content" "${programs[@]}" /etc/ssl/certs/ca-certificates.crt
for image in longboat storage-initializer; do
  entry=/longboat
  [ "$image" = longboat ] || entry=/storage-initializer/scripts/initializer-entrypoint
  archive=oci-archive:$folder/$image-$version.oci.tar
  container=$("${store[@]}" from scratch)
  "${store[@]}" copy --quiet "$container" "$content" / >/dev/null
  "${store[@]}" config --user 1000:1000 --env HOME=/tmp --entrypoint "[\"$entry\"]" \
    --label org.opencontainers.image.version="$version" --label org.opencontainers.image.revision="$revision" "$container"
  "${store[@]}" commit --quiet --disable-compression=false --timestamp "$SOURCE_DATE_EPOCH" "$container" "$archive:$version" >/dev/null
  "${store[@]}" rm "$container" >/dev/null
  # Each entry point starts, with nothing but the files of the archive.
  container=$("${store[@]}" from --quiet "$archive")
  files=$("${store[@]}" mount "$container")
  for name in "$entry" /longboat-engine /manager /app/epp /app/pd-sidecar; do
    if ! unshare --map-root-user --root="$files" --wd=/ "$name" --help >/dev/null 2>"$scratch/words"; then
      echo "release.sh: $name does not start in the image $image: $(cat "$scratch/words")" >&2
      exit 1
    fi
  done
  "${store[@]}" umount "$container" >/dev/null
  "${store[@]}" rm "$container" >/dev/null
done

# --- the charts: pushed to a registry of this machine, pulled from it, and saved as the registry has them
cat >"$scratch/registry.yaml" <<EOF
version: 0.1
storage: {filesystem: {rootdirectory: $scratch/registry}}
http: {addr: "127.0.0.1:0"}
EOF
OTEL_TRACES_EXPORTER=none registry serve "$scratch/registry.yaml" >"$scratch/registry.log" 2>&1 &
servers+=($!)
address=
for _ in $(seq 100); do
  address=$(grep -o 'listening on [^ "]*' "$scratch/registry.log" | cut -d' ' -f3 || true)
  [ -z "$address" ] || break
  sleep 0.1
done
[ -n "$address" ] || { echo "release.sh: the registry does not start: $(cat "$scratch/registry.log")" >&2; exit 1; }
layout=$scratch/charts
mkdir -p "$layout/blobs/sha256"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
entries=()
for chart in longboat longboat-presets; do
  package=$folder/$chart-$version.tgz
  helm push --plain-http "$package" "oci://$address/charts" 2>/dev/null
  helm pull --plain-http "oci://$address/charts/$chart" --version "$version" --destination "$scratch" >/dev/null 2>&1
  cmp "$package" "$scratch/$chart-$version.tgz"
  base=http://$address/v2/charts/$chart
  curl --silent --fail --header 'Accept: application/vnd.oci.image.manifest.v1+json' "$base/manifests/$version" >"$scratch/manifest"
  for digest in $(jq --raw-output '.config.digest, .layers[].digest' "$scratch/manifest"); do
    curl --silent --fail --output "$layout/blobs/sha256/${digest#sha256:}" "$base/blobs/$digest"
  done
  digest=$(sha256sum "$scratch/manifest" | cut -d' ' -f1)
  cp "$scratch/manifest" "$layout/blobs/sha256/$digest"
  entries+=("$(jq --null-input --arg digest "sha256:$digest" --arg name "$chart:$version" --argjson size "$(stat -c %s "$scratch/manifest")" \
    '{mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $digest, size: $size,
      annotations: {"org.opencontainers.image.ref.name": $name}}')")
done
printf '%s\n' "${entries[@]}" | jq --slurp '{schemaVersion: 2, manifests: .}' >"$layout/index.json"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"$SOURCE_DATE_EPOCH" -C "$layout" -cf "$folder/charts-$version.oci.tar" .

# --- the tarball, where there is nothing else
empty=$scratch/empty
mkdir -p "$empty/tmp"
tar -xzf "$folder/longboat-$version"-linux-*.tar.gz -C "$empty" --strip-components=1
cp examples/single-node/service.yaml "$empty/service.yaml"
inside=(env --ignore-environment HOME=/tmp unshare --map-root-user --root="$empty" --wd=/)
"${inside[@]}" /bin/longboat render /service.yaml >"$scratch/objects"
grep -q '^kind: Deployment' "$scratch/objects" || { echo "release.sh: \`longboat render\` prints no Deployment in an empty chroot" >&2; exit 1; }
"${inside[@]}" /bin/longboat-engine --version >/dev/null
# A port that was free a moment ago.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${inside[@]}" /bin/longboat sim --model m --port "$port" >"$scratch/sim.log" 2>&1 &
servers+=($!)
answer=$(curl --silent --fail --retry 50 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$port/v1/completions" \
  --header 'Content-Type: application/json' --data '{"model": "m", "prompt": "Hello"}' | jq --raw-output '.choices[0].text')
[ -n "$answer" ] || { echo "release.sh: the program of the tarball answers nothing in an empty chroot: $(cat "$scratch/sim.log")" >&2; exit 1; }

(cd "$folder" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
