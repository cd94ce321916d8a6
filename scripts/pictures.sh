#!/usr/bin/env bash
# Takes the screenshots of the dashboard for README and the book, in both themes: docs/images/page-VIEW-THEME.webp. Starts a
# world with three replicas, sends them requests for a while, and uses the browser of scripts/tools.sh. `longboat` must be in
# PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'kill -INT "$up" 2>/dev/null; wait; rm -rf "$folder"' EXIT
sed 's/replicas: 1/replicas: 3/' examples/single-node/service.yaml >"$folder/service.yaml"
sed 's/replicas: 1/replicas: 2/' examples/prefill-decode/service.yaml >"$folder/prefill-decode.yaml"
longboat up "$folder/service.yaml" "$folder/prefill-decode.yaml" --engine sim --port 0 --timeout 600 >"$folder/out" 2>"$folder/err" &
up=$!
until grep -q 'Press Ctrl-C' "$folder/err"; do kill -0 "$up" && sleep 1; done
page=$(sed -n 's/^dashboard: //p' "$folder/err")
gateway=$(sed -n 's/^gateway: //p' "$folder/err")
# Asks a service: name, model, topic, text.
ask() {
  curl -s "$gateway/default/$1/v1/chat/completions" -H 'Content-Type: application/json' -o /dev/null -d '{"model": "'"$2"'",
    "messages": [{"role": "system", "content": "'"$(printf "You are guide number $3 and know every harbour on this coast. %.0s" {1..12})"'"},
    {"role": "user", "content": "'"$4"'"}], "max_tokens": 400, "stream": true}' &
}
# Four conversations with different beginnings, so that the prefix cache has an effect.
for turn in $(seq 160); do
  ask qwen Qwen/Qwen2.5-0.5B-Instruct "$((turn % 4))" "Where do we sail on day $turn?"
  ask qwen-pd Qwen/Qwen2.5-7B-Instruct "$((turn % 3))" "Where do we sail on day $turn?"
  sleep 0.7
done &
PAGE=$page node scripts/pictures.mjs
