#!/usr/bin/env bash
# make chaos: all rooms at once under random transactions and faults (test/t/whole/chaos.pl,
# test/perl/DcChaos), on throwaway clusters. make owners ("chaos.sh owners"): the same
# with an owner who does the worst possible to their own tables (test/t/whole/owners.pl,
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
chaos) seconds=${CHAOS_TIME:-120} longest=${CHAOS_LEG:-300} ;;
owners) seconds=${OWNERS_TIME:-120} longest=${OWNERS_LEG:-300} ;;
*) die "there is no \"$kind\"" ;;
esac
test=$kind

if [[ ${DC_STAGE:-} != user ]]; then
    tap_first_half "$kind" test/chaos.sh "$kind"
    exit
fi

use_postgres
tap_environment
passed=0
failed=0
seed=${DC_SEED:-$((RANDOM * 32768 + RANDOM))}
end=$((SECONDS + seconds))
while [[ ($failed -eq 0 || -n ${GO_ON:-}) && ($SECONDS -lt $end || $passed -eq 0) ]]; do
    left=$((end - SECONDS))
    left=$((left < longest ? left : longest))
    # what the last leg has left
    rm -rf tmp_check/t_"$test"_*
    before=$failed
    DC_SEED=$seed CHAOS_TIME=$left OWNERS_TIME=$left run_tap "test/t/whole/$test.pl" "$DC_WORK/out/${kind}_$seed.log"
    if [[ -n ${GO_ON:-} && $failed -gt $before ]]; then
        mkdir -p "tmp_check/log/$seed"
        mv tmp_check/log/*"$test"* "tmp_check/log/$seed"
    fi
    seed=$((seed + 1))
    # shorter than its end takes
    if [[ $((end - SECONDS)) -lt 30 ]]; then break; fi
done
echo "$passed $failed" >"$DC_WORK/out/totals"
