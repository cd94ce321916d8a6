#!/usr/bin/env bash
# Packs programs that are already built for a release: scripts/package.sh FOLDER LONGBOAT [LONGBOAT-ENGINE].
# FOLDER then has a tarball with the programs, manual pages, completions, licence and changelog, both charts as `helm push` takes
# them, and the checksums of all. `scripts/tools.sh` fetches Helm.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1")
programs=("${@:2}")
longboat=$(realpath "$2")
root=$(cd "$(dirname "$0")/.." && pwd)
version=$("$longboat" version | awk '{ print $2 }')
name=longboat-$version-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

content=$scratch/$name
mkdir -p "$content/bin" "$content/completions"
install -m 755 "${programs[@]}" "$content/bin/"
"$longboat" man "$content/man/man1" 2>/dev/null
for shell in bash elvish fish zsh; do "$longboat" completion "$shell" >"$content/completions/longboat.$shell"; done
cp "$root/LICENSE" "$root/CHANGELOG.md" "$root/SECURITY.md" "$content/"
# The same content makes the same tarball.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"$(git -C "$root" log -1 --format=%ct)" \
  -C "$scratch" -cf - "$name" | gzip -n >"$folder/$name.tar.gz"

"$root/scripts/charts.sh" "$scratch/charts" >/dev/null
for chart in longboat longboat-presets; do
  "$root/.cache/bin/helm" package "$scratch/charts/$chart" --destination "$folder" >/dev/null
done
(cd "$folder" && sha256sum -- *.tar.gz *.tgz >SHA256SUMS)

# What was packed works: the program of the tarball answers, and its manual and the charts can be read.
tar -xzf "$folder/$name.tar.gz" -C "$scratch" --one-top-level=unpacked
unpacked=$scratch/unpacked/$name
[ "$("$unpacked/bin/longboat" version)" = "longboat $version" ]
grep -q '^\.TH longboat 1' "$unpacked/man/man1/longboat.1"
bash -n "$unpacked/completions/longboat.bash"
for chart in "$folder"/*.tgz; do "$root/.cache/bin/helm" template test "$chart" >/dev/null; done
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
cat "$folder/SHA256SUMS"
