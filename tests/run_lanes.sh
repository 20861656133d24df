#!/usr/bin/env bash
# Runs the whole suite once per lane: embedded (SQLite, in-process store) always; the same suite on
# PostgreSQL + Redis when DATABASE_URL and REDIS_URL are given. A lane that cannot run says so in one line.
# REQUIRE_LANES="embedded services" makes a missing lane an error (CI). BIN: where pytest is.
set -u
cd "$(dirname "$0")/.."
bin=${BIN:-.venv/bin}
database_url=${DATABASE_URL:-}
redis_url=${REDIS_URL:-}
required=${REQUIRE_LANES:-}
failed=0
ran=""

lane() { # name, then environment assignments
  local name=$1 data
  shift
  data=$(mktemp -d)
  printf '\n=== lane %s\n' "$name"
  if env -u DATABASE_URL -u REDIS_URL -u CELERY_BROKER_URL SLUICE_LANE="$name" DATA_DIR="$data" "$@" \
    "$bin/pytest" -q -n auto --dist worksteal $PYTEST_ARGS; then
    ran="$ran $name"
  else
    failed=1
    printf '=== lane %s FAILED\n' "$name"
  fi
  rm -rf "$data"
}

PYTEST_ARGS="$*"
lane embedded
if [ -n "$database_url" ] && [ -n "$redis_url" ]; then
  lane services DATABASE_URL="$database_url" REDIS_URL="$redis_url"
else
  printf '\n=== lane services did not run: set DATABASE_URL and REDIS_URL\n'
fi
for name in $required; do
  case " $ran " in
    *" $name "*) ;;
    *) printf '=== lane %s was required and did not pass\n' "$name"; failed=1 ;;
  esac
done
exit $failed
