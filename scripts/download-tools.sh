#!/usr/bin/env bash
# Installs pinned versions of the downloaders with which benches/fetch compares `longboat fetch` (huggingface_hub, boto3), in a
# separate Python environment. Keeps what is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$PWD/.cache/downloads
if ! "$environment/bin/python3" -c 'import boto3, hf_transfer, huggingface_hub' 2>/dev/null; then
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r scripts/download-requirements.txt
fi
echo "tools: downloaders: $environment"
