#!/usr/bin/env bash
# A link that is cut for REGION_CUT seconds, while 1,000 keys a second are counted: how long after it is
# healed until the other region has all that was committed before that. Counting continues.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/region
script=$DC_WORK/cut.sql
printf '%s\n' '\set key random(1, 1000000)' "SELECT dc_incr('likes', 'post:' || :key);" >"$script"

regions_start "$folder"
for ((round = 1; round <= ROUNDS; round++)); do
    regions_fresh "$folder"
    regions_link ""
    run_pgbench "$script" 4 $((REGION_CUT + 15)) -R 1000 >"$DC_WORK/cut.out" &
    load=$!
    sleep 3
    link_switch DISABLE
    before=$(there region_rows %)
    sleep "$REGION_CUT"
    published=$(region_rows %)
    start=$(microseconds)
    lsn=$(sql bench 'SELECT pg_current_wal_lsn();')
    there sql bench 'ALTER SUBSCRIPTION link ENABLE;'
    link_replayed "$lsn"
    record region_cut dc_incr any seconds "$round" "$(awk -v a="$start" -v b="$(microseconds)" 'BEGIN { print (b - a) / 1000000 }')"
    say 'region_cut, round %d: %d increments, caught up in %.2f s' "$round" $((${published#*|} - ${before#*|})) "$(recorded)"
    [[ $(there region_rows % | cut -d '|' -f 2) -ge ${published#*|} ]] || die 'what was committed before is not there'
    wait "$load" || die 'the load failed'
    compacted
    link_caught_up
    [[ $(region_rows %) == "$(there region_rows %)" ]] || die 'the regions differ'
done
regions_unlink
