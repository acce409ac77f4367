#!/usr/bin/env bash
# Rate limits against SELECT 1, an UPSERT into an unlogged table, and Redis.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_turns limit 64
