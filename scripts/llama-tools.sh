#!/usr/bin/env bash
# Installs a pinned Python package of llama.cpp, with which benches/engine compares the CPU engine, in a separate Python
# environment. The benchmark also needs the model that tools.sh fetches. Keeps what is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$PWD/.cache/llama
if ! "$environment/bin/python3" -c 'import xllamacpp' 2>/dev/null; then
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r scripts/llama-requirements.txt
fi
echo "tools: llama.cpp: $environment"
