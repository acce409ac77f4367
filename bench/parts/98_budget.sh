#!/usr/bin/env bash
# Reserving units of one key of a budget, and settling half of them, against a row that is updated and against holds; refusals.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases budget 64
run_cases budget_settle 64
run_cases budget_refused 64
