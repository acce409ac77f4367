#!/usr/bin/env bash
# How long it takes until an increment is visible in another region: 2,000 a second, of 1,000 keys, of which
# 100 are of one key that is read there every 10 ms. The n-th of them was committed when pgbench says so, and
# is visible when the value there is n. Both servers have the default settings of the worker.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/region
log=$DC_WORK/region_delay
many=$DC_WORK/many.sql
one=$DC_WORK/one.sql
printf '%s\n' '\set key random(1, 1000)' "SELECT dc_incr('likes', 'post:' || :key);" >"$many"
echo "SELECT dc_incr('likes', 'one');" >"$one"

# watch_there SECONDS: the value of the one key there, and when it was that, until the end
watch_there() {
    PGHOST=$THERE_HOST timeout "$1" "$BINDIR/psql" -X -q -A -t -d bench <<<"SELECT dc_get('likes', 'one'), extract(epoch FROM clock_timestamp()) \\watch 0.01" \
        2>/dev/null || true
}

regions_start "$folder"
for ((round = 1; round <= ROUNDS; round++)); do
    regions_fresh "$folder"
    regions_link ""
    rm -f "$log".*
    watch_there $((REGION_SECONDS + 8)) >"$DC_WORK/seen" &
    watcher=$!
    run_pgbench "$many" 4 "$REGION_SECONDS" -R 1900 >"$DC_WORK/many.out" &
    load=$!
    run_pgbench "$one" 1 "$REGION_SECONDS" -R 100 -l --log-prefix="$log"
    # shellcheck disable=SC2154 # run_pgbench sets them
    total=$transactions
    wait "$load" || die 'the load failed'
    wait "$watcher"
    awk '{ printf "%d.%06d\n", $5, $6 }' "$log".* | sort -n >"$DC_WORK/committed"
    [[ $(tail -n 1 <(grep '|' "$DC_WORK/seen") | cut -d '|' -f 1) == "$total" ]] || die "not all $total increments have come"
    # the n-th is visible when the value is at least n for the first time
    awk -F '|' 'NR == FNR { at[NR] = $1; next } /\|/ { while (n < $1) printf "%.3f\n", ($2 - at[++n]) * 1000 }' "$DC_WORK/committed" "$DC_WORK/seen" |
        sort -n >"$DC_WORK/delays"
    for percent in 50 99; do
        record region_delay dc_incr any "p$percent" "$round" \
            "$(awk -v p="$percent" '{ d[NR] = $1 } END { print d[int(NR * p / 100 + 0.5)] / 1000 }' "$DC_WORK/delays")"
        say 'region_delay, round %d, p%d: %.2f s of %d increments' "$round" "$percent" "$(recorded)" "$total"
    done
done
regions_unlink
