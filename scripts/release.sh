#!/usr/bin/env bash
# Makes a release of the commit that is checked out: scripts/release.sh FOLDER. FOLDER then has what scripts/package.sh packs, a
# bill of materials of each program (CycloneDX), and the image as an OCI archive. The programs are static, are built from a clean
# clone, and name their own dependencies (`cargo auditable`). What was made is tried: the program of the tarball answers a request
# in an empty chroot, and each entry point of the image starts in the image's file system.
#
# Needs cargo-auditable, cargo-cyclonedx and Buildah; CONTRIBUTING.md says where they come from. TARGET is the Rust target;
# CARGO_TARGET_DIR keeps the build for the next run.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
for program in cargo-auditable cargo-cyclonedx buildah; do
  PATH=$root/.cache/bin:$PATH command -v "$program" >/dev/null || { echo "release.sh: no $program: install it" >&2; exit 1; }
done
PATH=$root/.cache/bin:$PATH
target=${TARGET:-x86_64-unknown-linux-musl}
# GNU's libc can be linked statically too; musl always is.
case $target in *-gnu) export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" ;; esac

[ -z "$(git -C "$root" status --porcelain)" ] || { echo "release.sh: uncommitted changes: commit or stash them first" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git clone --quiet --no-local --depth 1 "file://$root" "$scratch/source"
cd "$scratch/source"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/release-build}
# The time of the commit, so that the same commit makes the same files.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

cargo auditable build --release --locked --target "$target" -p longboat -p longboat-engine
built=$CARGO_TARGET_DIR/$target/release
for program in longboat longboat-engine; do
  # A static program has no interpreter that a chroot would lack.
  ! readelf --program-headers --wide "$built/$program" | grep -q INTERP || { echo "release.sh: $program is not static" >&2; exit 1; }
done
"$root/scripts/package.sh" "$folder" "$built/longboat" "$built/longboat-engine" >/dev/null

cargo cyclonedx --format json --describe binaries --target "$target" --quiet
version=$("$built/longboat" version | awk '{ print $2 }')
mv crates/longboat/longboat_bin.cdx.json "$folder/longboat-$version.cdx.json"
mv crates/engine/longboat-engine_bin.cdx.json "$folder/longboat-engine-$version.cdx.json"

image=$scratch/image
"$root/scripts/image-root.sh" "$image" "$built/longboat" "$built/longboat-engine" /etc/ssl/certs/ca-certificates.crt
store=(buildah --storage-driver vfs --root "$scratch/storage" --runroot "$scratch/run")
for name in longboat storage-initializer; do
  entry=/longboat
  [ "$name" = longboat ] || entry=/storage-initializer/scripts/initializer-entrypoint
  container=$("${store[@]}" from scratch)
  "${store[@]}" copy --quiet "$container" "$image" / >/dev/null
  "${store[@]}" config --user 1000:1000 --env HOME=/tmp --entrypoint "[\"$entry\"]" \
    --label org.opencontainers.image.version="$version" --label org.opencontainers.image.revision="$(git rev-parse HEAD)" "$container"
  "${store[@]}" commit --quiet --timestamp "$SOURCE_DATE_EPOCH" "$container" "oci-archive:$folder/$name-$version.oci.tar:$version" >/dev/null
  "${store[@]}" rm "$container" >/dev/null
done

# Each entry point starts as the user of the image, with nothing but the image's files.
inside() { unshare --map-root-user --root="$1" --wd=/ "${@:2}"; }
for entry in /longboat /longboat-engine /manager /app/epp /app/pd-sidecar /storage-initializer/scripts/initializer-entrypoint; do
  inside "$image" "$entry" --help >/dev/null 2>&1 || { echo "release.sh: $entry does not start in the image" >&2; exit 1; }
done
# The program of the tarball serves a model where there is nothing else. The simulator needs no download.
empty=$scratch/empty
mkdir -p "$empty"/{proc,dev,tmp}
tar -xzf "$folder"/longboat-"$version"-linux-*.tar.gz -C "$empty" --strip-components=1
cp examples/single-node/service.yaml "$empty/service.yaml"
answer=$(unshare --map-root-user --mount --pid --fork sh -c 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" &&
  HOME=/tmp exec chroot "$0" /bin/longboat up /service.yaml --engine sim --port 0 --prompt "Hello" --once' "$empty")
[ -n "$answer" ] || { echo "release.sh: the program of the tarball answered nothing in an empty chroot" >&2; exit 1; }
(cd "$folder" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
