#!/usr/bin/env bash
# Keys that are rarely contended: 100,000 that exist, in uniform use and by Zipf's law, and new
# ones. Rates, and for each transaction the WAL and the processor time of all server processes, the
# worker's compaction included.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_costs_cases cold 16
run_costs_cases cold_new 16
run_costs_cases cold_zipf 16 64
