# Part of the scripts that install tools into .cache/bin. Goes to the root of the repository and makes that folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
strict=false
[ "${1:-}" = --strict ] && strict=true
cache=$PWD/.cache
bin=$cache/bin
mkdir -p "$bin"
# Go's compiler collects garbage less often: a fifth less CPU time for the tools that are built here.
export GOGC=${GOGC:-400}

# missing WHAT: an error with --strict (CI), and otherwise a warning.
missing() {
  echo "tools: MISSING: $*" >&2
  if $strict; then exit 1; fi
}
