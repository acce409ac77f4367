#!/usr/bin/env bash
# Adding items to distinct tables: existing ones against SELECT 1, new ones against a plain INSERT,
# and to one key against an UPDATE of its sketch.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_turns distinct 64
run_cases distinct_new 16
run_cases distinct_hot 16
