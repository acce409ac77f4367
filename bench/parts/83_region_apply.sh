#!/usr/bin/env bash
# Applying counts of another region: rows per second of one link, for keys that are new and for keys
# that have a row, with the trigger that merges and without. Both servers compact as by default. The
# processor time is that of the process that applies, so that other work of the machine matters
# less.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/region

# published KEYS: counts each key once, in transactions of its own, while the worker compacts as in
# production. Publishes a last key after all others.
published() {
    local script=$DC_WORK/each.sql
    printf '%s\n' '\set n :n + 1' '\set key :n * 8 + :client_id' "SELECT dc_incr('likes', 'post:' || :key);" >"$script"
    logged "$DC_WORK/each.out" 'counting failed' env PGOPTIONS='-c synchronous_commit=off' "$BINDIR/pgbench" -n -M prepared \
        -c 8 -j 2 -t $(($1 / 8)) -D n=0 -f "$script" bench
    compacted
    sql bench "SELECT dc_incr('likes', 'last');" >/dev/null
    compacted
}

# apply CASE WHAT ROUND TIMES: records how long that takes there; each key is counted for the
# nth time. Round 0 is for files and caches.
apply() {
    local name=$1 what=$2 round=$3 worker sender start seconds cpu sent
    published "$REGION_ROWS"
    there sql bench 'CHECKPOINT;'
    there sql bench 'ALTER SUBSCRIPTION link ENABLE;'
    start=$(microseconds)
    until worker=$(link_worker) && sender=$(link_sender) && [[ -n $worker && -n $sender ]]; do sleep 0.01; done
    until [[ $(there region_rows last) == "1|$4" ]]; do sleep 0.02; done
    seconds=$(awk -v a="$start" -v b="$(microseconds)" 'BEGIN { print (b - a) / 1000000 }')
    cpu=$(cpu_of "$worker") sent=$(cpu_of "$sender")
    link_switch DISABLE
    [[ $(there region_rows %) == "$((REGION_ROWS + 1))|$(((REGION_ROWS + 1) * $4))" ]] || die "$name: $(there region_rows %)"
    [[ $name != trigger || $(there sql bench "SELECT dc_sum('likes'), inc FROM dc_region_check('likes') WHERE region IS NULL;") == "$(((REGION_ROWS + 1) * $4))|0" ]] ||
        die "$name: the sum there is wrong"
    [[ $round -gt 0 ]] || return 0
    record region_apply "$what" "$name" rate "$round" "$(divided "$REGION_ROWS" "$seconds")"
    record region_apply "$what" "$name" sender_us "$round" "$(divided "$sent" "$REGION_ROWS")"
    record region_apply "$what" "$name" cpu_us "$round" "$(divided "$cpu" "$REGION_ROWS")"
    say 'region_apply, round %d, %-8s %-6s %8.0f rows/s, %5.2f us of processor time a row, sent in %5.2f us' "$round" "$name" "$what" \
        "$(divided "$REGION_ROWS" "$seconds")" "$(recorded)" "$(divided "$sent" "$REGION_ROWS")"
}

regions_start "$folder"
for ((round = 0; round <= ROUNDS; round++)); do
    names=(trigger none)
    for ((i = 0; i < 2; i++)); do
        name=${names[(i + round) % 2]}
        regions_fresh "$folder"
        [[ $name == trigger ]] || there sql bench 'ALTER TABLE likes_region DISABLE TRIGGER dcounter_merge;'
        regions_link 'enabled = false'
        apply "$name" new "$round" 1
        apply "$name" known "$round" 2
    done
done
regions_unlink
