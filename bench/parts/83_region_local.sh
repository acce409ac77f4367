#!/usr/bin/env bash
# The cost of replicating a counter for its writers: 16 clients that count one key, and 100,000
# keys. Against a counter of one database on the same server with the same settings. Processor time
# is that of all processes of this server, including compaction by the worker and decoding by the
# walsender.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

regions_start bench/cases/region
run_costs_cases region_local 16
run_costs_cases region_many 16
