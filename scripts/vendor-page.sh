#!/usr/bin/env bash
# Fetches the only third-party module of the dashboard, verified by its checksum.
set -euo pipefail
target=$(cd "$(dirname "$0")/.." && pwd)/crates/dashboard/web/vendor/htm-preact.js
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm pack --silent htm@3.1.1 >/dev/null
echo "2425b9bee11409177bcabc7f32e319926fc6690c1701c0b257c88bdff2d5ba90  htm-3.1.1.tgz" | sha256sum --check --status
tar -xzf htm-3.1.1.tgz package/preact/standalone.module.js
cp package/preact/standalone.module.js "$target"
echo "vendored: $target"
