#!/usr/bin/env bash
# make chaos: all rooms at once under random transactions and faults (test/t/036_chaos.pl,
# test/perl/DcChaos), on throwaway clusters. A run is one or more legs of some minutes,
# each with a new cluster and a seed of its own, and ends with the first that
# fails. Prints each test and ends with "N passed, N failed".
#   CHAOS_TIME=7200   seconds in all (120)
#   CHAOS_LEG=600     seconds of a leg (300)
#   DC_SEED=N         the seed of the first leg: that of one that failed, as printed
#   DC_CHAOS_FAULTS='clock back;signals', DC_CHAOS_WITHOUT='skew'   fewer faults, fewer rooms
#   KEEP=1            keeps the work folder
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

export CHAOS_TIME=${CHAOS_TIME:-120} CHAOS_LEG=${CHAOS_LEG:-300}

if [[ ${DC_STAGE:-} != user ]]; then
    bash test/deps.sh build test
    build_and_install
    make_work
    in_work_folder test/chaos.sh || true
    if [[ -d $DC_WORK/tree/tmp_check ]]; then
        rm -rf results/chaos
        mkdir -p results
        cp -R "$DC_WORK/tree/tmp_check/log" results/chaos
    fi
    read -r passed failed < <(cat "$DC_WORK/out/totals" 2>/dev/null || echo 0 1)
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 ]]
    exit
fi

use_postgres
pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")/..
mkdir -p tmp_check/log
export TESTDIR=$PWD TESTDATADIR=$PWD/tmp_check TESTLOGDIR=$PWD/tmp_check/log
export PATH=$BINDIR:$PWD:$PATH PGPORT=65432 PG_REGRESS=$pgxs/test/regress/pg_regress
export PERL5LIB=$pgxs/test/perl:$PWD/test/perl${PERL5LIB:+:$PERL5LIB}
passed=0
failed=0
seed=${DC_SEED:-$((RANDOM * 32768 + RANDOM))}
end=$((SECONDS + CHAOS_TIME))
while [[ $failed -eq 0 && ($SECONDS -lt $end || $passed -eq 0) ]]; do
    left=$((end - SECONDS))
    log=$DC_WORK/out/chaos_$seed.log
    # what the last leg has left
    rm -rf tmp_check/t_036_chaos_*
    status=0
    DC_SEED=$seed CHAOS_TIME=$((left < CHAOS_LEG ? left : CHAOS_LEG)) prove -v test/t/036_chaos.pl 2>&1 | tee "$log" || status=$?
    ok=$(grep -c '^ok ' "$log" || true)
    bad=$(grep -c '^not ok ' "$log" || true)
    if [[ $bad -eq 0 && $status -ne 0 ]]; then bad=1; fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    seed=$((seed + 1))
    # shorter than its end takes
    if [[ $((end - SECONDS)) -lt 30 ]]; then break; fi
done
echo "$passed $failed" >"$DC_WORK/out/totals"
