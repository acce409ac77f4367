#!/usr/bin/env bash
# The rank of a key among a million against count(*) and Redis' ZREVRANK; increments with ranks against without.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases rank 1
run_cases rank_write 64
