#!/usr/bin/env bash
# What it costs those who count that a counter is replicated: 16 clients that count one key, and 100,000
# keys. Against a counter of one database on the same server with the same settings. Processor time
# is that of all processes of this server, with what the worker compacts and what the walsender decodes.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

regions_start bench/cases/region
run_costs_cases region_local 16
run_costs_cases region_many 16
