#!/usr/bin/env bash
# make chaos: all rooms at once under random transactions and faults (test/t/036_chaos.pl,
# test/perl/DcChaos), on throwaway clusters. make owners ("chaos.sh owners"): the same
# with an owner who does his worst to his own tables (test/t/037_owners.pl,
# test/perl/DcHostile). A run is one or more legs of some minutes, each with a new cluster and
# a seed of its own, and ends with the first that fails. Prints each test and ends with
# "N passed, N failed".
#   CHAOS_TIME=7200, OWNERS_TIME=7200   seconds in all (120)
#   CHAOS_LEG=600, OWNERS_LEG=600       seconds of a leg (300)
#   DC_SEED=N         the seed of the first leg: that of one that failed, as printed
#   GO_ON=1           does not end with the first leg that fails
#   DC_CHAOS_FAULTS='clock back;signals', DC_CHAOS_WITHOUT='skew'   fewer faults, fewer rooms
#   OWNERS_ROUNDS='attack;restart', OWNERS_FOCUS='stk', OWNERS_WITHOUT='sleep;types'   fewer
#                     rounds, one room, and without some of what the owner does
#   KEEP=1            keeps the work folder
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

kind=${1:-chaos}
case $kind in
chaos) number=036 seconds=${CHAOS_TIME:-120} longest=${CHAOS_LEG:-300} ;;
owners) number=037 seconds=${OWNERS_TIME:-120} longest=${OWNERS_LEG:-300} ;;
*) die "there is no \"$kind\"" ;;
esac
test=${number}_$kind

if [[ ${DC_STAGE:-} != user ]]; then
    bash test/deps.sh build test
    build_and_install
    make_work
    in_work_folder test/chaos.sh "$kind" || true
    if [[ -d $DC_WORK/tree/tmp_check ]]; then
        rm -rf "results/$kind"
        mkdir -p results
        cp -R "$DC_WORK/tree/tmp_check/log" "results/$kind"
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
end=$((SECONDS + seconds))
while [[ ($failed -eq 0 || -n ${GO_ON:-}) && ($SECONDS -lt $end || $passed -eq 0) ]]; do
    left=$((end - SECONDS))
    left=$((left < longest ? left : longest))
    log=$DC_WORK/out/${kind}_$seed.log
    # what the last leg has left
    rm -rf tmp_check/t_"$test"_*
    status=0
    DC_SEED=$seed CHAOS_TIME=$left OWNERS_TIME=$left prove -v "test/t/$test.pl" 2>&1 | tee "$log" || status=$?
    ok=$(grep -c '^ok ' "$log" || true)
    bad=$(grep -c '^not ok ' "$log" || true)
    if [[ $bad -eq 0 && $status -ne 0 ]]; then bad=1; fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    if [[ -n ${GO_ON:-} && $bad -gt 0 ]]; then
        mkdir -p "tmp_check/log/$seed"
        mv tmp_check/log/*"$test"* "tmp_check/log/$seed"
    fi
    seed=$((seed + 1))
    # shorter than its end takes
    if [[ $((end - SECONDS)) -lt 30 ]]; then break; fi
done
echo "$passed $failed" >"$DC_WORK/out/totals"
