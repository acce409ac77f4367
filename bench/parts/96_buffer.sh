#!/usr/bin/env bash
# Buffered increments against SELECT 1, exact ones and Redis: one key; 16 keys a
# statement.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases buffer 64
run_cases buffer_keys 64
