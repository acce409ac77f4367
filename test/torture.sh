#!/usr/bin/env bash
# make torture: the TAP tests of crashes, load and size in their long forms, on
# throwaway clusters. Prints each test and ends with "N passed, N failed".
#   DC_TORTURE=100   rounds of kill -9 (test/t/counter/crash.pl)
#   DC_BUDGET_CRASHES=1000, DC_BUDGET_FAILOVERS=100   crashes and promoted standbys (test/t/budget/budget_crash.pl)
#   DC_SEED=N        the random seed of a round that failed, as printed
#   TORTURE='once buffer/crash'   runs these tests only; "simulation" is that of regions, a million runs
#   KEEP=1           keeps the work folder
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

export DC_TORTURE=${DC_TORTURE:-100}
read -r -a tests <<<"${TORTURE:-crash load_invariants foreign large worker/load stock redis outbox/load outbox/waits buffer/restart buffer/crash once ledger/ledger ledger/crash budget/crash lite/crash lite/adopt idle outbox/random serializable buffer/load bound/load bound/rollups region/mesh region/topologies region/sets region/stock limit/load region/heals region/program region/restore region/kinds simulation}"

if [[ ${DC_STAGE:-} != user ]]; then
    tap_first_half torture test/torture.sh
    exit
fi

# The regions of test/unit/regionsim_test.c, a million times
run_simulation() {
    local log=$DC_WORK/out/simulation.log ok bad
    make -s -C test/unit regions >"$log" 2>&1 || echo 'not ok - the simulation ended early' >>"$log"
    cat "$log"
    ok=$(grep -c '^ok' "$log") || true
    bad=$(grep -c '^not ok' "$log") || true
    passed=$((passed + ok)) failed=$((failed + bad))
}

# One after the other: each loads the machine.
use_postgres
tap_environment
passed=0
failed=0
for name in "${tests[@]}"; do
    if [[ $name == simulation ]]; then
        run_simulation
        continue
    fi
    while read -r file; do
        run_tap "$file" "$DC_WORK/out/$(basename "$file" .pl).log" </dev/null
    done < <(tap_files "$name")
done
echo "$passed $failed" >"$DC_WORK/out/totals"
