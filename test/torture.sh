#!/usr/bin/env bash
# make torture: the TAP tests of crashes, load and size in their long forms, on
# throwaway clusters. Prints each test and ends with "N passed, N failed".
#   DC_TORTURE=100   rounds of kill -9 (test/t/003_crash.pl)
#   DC_SEED=N        the random seed of a round that failed, as printed
#   TORTURE='003 004'   runs these tests only; "simulation" is that of regions, a million runs
#   KEEP=1           keeps the work folder
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

export DC_TORTURE=${DC_TORTURE:-100}
read -r -a tests <<<"${TORTURE:-003 004 005 007 011 013 014 015 019 020 023 024 026 027 028 030 032 043 055 062 066 067 068 080 153 159 simulation}"

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
for number in "${tests[@]}"; do
    if [[ $number == simulation ]]; then
        run_simulation
        continue
    fi
    for file in test/t/"$number"_*.pl; do
        run_tap "$file" "$DC_WORK/out/$(basename "$file" .pl).log"
    done
done
echo "$passed $failed" >"$DC_WORK/out/totals"
