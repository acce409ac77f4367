#!/usr/bin/env bash
# Counting with a trend against without, of one key and of many; and reading it against dc_top.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_turns trend 64
run_turns trend_zipf 64
run_cases trending 1
