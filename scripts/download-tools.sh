#!/usr/bin/env bash
# Fetches the downloaders that benches/fetch measures `longboat fetch` beside (huggingface_hub, boto3) into an environment of their
# own, pinned. What is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$PWD/.cache/downloads
if ! "$environment/bin/python3" -c 'import boto3, hf_transfer, huggingface_hub' 2>/dev/null; then
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r scripts/download-requirements.txt
fi
echo "tools: downloaders: $environment"
