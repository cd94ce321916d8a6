#!/usr/bin/env bash
# Fetches llama.cpp, which benches/engine measures the CPU engine beside, as a Python package into an environment of its own,
# pinned, and the model of tools.sh. What is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$PWD/.cache/llama
if ! "$environment/bin/python3" -c 'import xllamacpp' 2>/dev/null; then
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r scripts/llama-requirements.txt
fi
echo "tools: llama.cpp: $environment"
