#!/usr/bin/env bash
# Takes the screenshots of the dashboard for README and the book, in both themes: docs/images/page-VIEW-THEME.webp. Starts a
# world with three replicas, sends them requests for a while, and uses the browser of scripts/tools.sh. `longboat` must be in
# PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'kill -INT "$up" 2>/dev/null; wait; rm -rf "$folder"' EXIT
sed 's/replicas: 1/replicas: 3/' examples/single-node/service.yaml >"$folder/service.yaml"
longboat up "$folder/service.yaml" examples/prefill-decode --engine sim --port 0 --timeout 600 >"$folder/out" 2>"$folder/err" &
up=$!
until grep -q 'Ctrl-C stops' "$folder/err"; do kill -0 "$up" && sleep 1; done
page=$(sed -n 's/^dashboard: //p' "$folder/err")
service=$(sed -n 's/^default\/qwen serves at //p' "$folder/err" "$folder/out")
# Four conversations with different beginnings, so that the prefix cache has an effect.
for turn in $(seq 48); do
  topic=$((turn % 4))
  curl -s "$service/v1/chat/completions" -H 'Content-Type: application/json' -o /dev/null -d '{"model": "Qwen/Qwen2.5-0.5B-Instruct",
    "messages": [{"role": "system", "content": "'"$(printf "You are guide number $topic and know every harbour on this coast. %.0s" {1..12})"'"},
    {"role": "user", "content": "Where do we sail on day '"$turn"'?"}], "max_tokens": 80}' &
  sleep 1.5
done &
PAGE=$page node scripts/pictures.mjs
