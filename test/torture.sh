#!/usr/bin/env bash
# make torture: the TAP tests of crashes, load and size in their long forms, on
# throwaway clusters. Prints each test and ends with "N passed, N failed".
#   DC_TORTURE=100   rounds of kill -9 (test/t/003_crash.pl)
#   DC_SEED=N        the random seed of a round that failed, as printed
#   TORTURE='003 004'   runs these tests only
#   KEEP=1           keeps the work folder
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

export DC_TORTURE=${DC_TORTURE:-100}
read -r -a tests <<<"${TORTURE:-003 004 005 007 011 013 014 015 019 020 023 024 026 027 028 030 032 043 055}"

if [[ ${DC_STAGE:-} != user ]]; then
    tap_first_half torture test/torture.sh
    exit
fi

# One after the other: each loads the machine.
use_postgres
tap_environment
passed=0
failed=0
for number in "${tests[@]}"; do
    for file in test/t/"$number"_*.pl; do
        run_tap "$file" "$DC_WORK/out/$(basename "$file" .pl).log"
    done
done
echo "$passed $failed" >"$DC_WORK/out/totals"
