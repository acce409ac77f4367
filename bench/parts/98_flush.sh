#!/usr/bin/env bash
# A flush of many keys, the first time and again, while 64 clients count at half the
# rate that they could: how long it takes, and how long their transactions take.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/flush
log=$DC_WORK/flush_log

# now: the time, in microseconds
now() {
    echo "${EPOCHREALTIME/./}"
}

# feed: counts each key once, in transactions that fit into pending_memory
feed() {
    local start
    for ((start = 0; start < FLUSH_KEYS; start += 5000)); do
        echo "SELECT count(dc_incr('views', k)) FROM generate_series($start + 1, $start + 5000) AS k;"
    done | "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d bench >/dev/null
}

# p99 FROM UNTIL: sets p99, of the transactions that were running in that time, in
# milliseconds
p99() {
    p99=$(cat "$log".* | awk -v from="$1" -v until="$2" '{ end = $5 * 1000000 + $6 } end >= from && end - $3 <= until { print $3 }' |
        sort -n | awk '{ t[NR] = $1 } END { if (NR >= 1000) print t[int(NR * 0.99)] / 1000 }')
    [[ -n $p99 ]] || die 'too few transactions for a percentile'
}

# measure CASE ROUND: feeds, waits until the load is even, and looks at the second
# before the flush and at the flush
measure() {
    local start end quiet
    feed
    sleep 1
    quiet=$(now)
    sleep 1
    start=$(now)
    sql bench "SELECT dc_flush('views');" >/dev/null
    end=$(now)
    windows+=("$1 $quiet $start $end")
}

for ((round = 1; round <= ROUNDS; round++)); do
    fresh_database "$folder"
    run_pgbench "$folder/run.sql" 64 "$SECONDS_PER_RUN" -D "keys=$FLUSH_KEYS"
    # shellcheck disable=SC2154 # run_pgbench sets them
    limit=$(awk -v r="$rate" 'BEGIN { print int(r / 2) }')
    fresh_database "$folder"
    rm -f "$log".*
    run_pgbench "$folder/run.sql" 64 12 -D "keys=$FLUSH_KEYS" -R "$limit" -l --log-prefix="$log" >"$DC_WORK/flush.out" &
    load=$!
    windows=()
    sleep 1
    measure new "$round"
    measure known "$round"
    wait "$load" || die 'the load failed'
    for window in "${windows[@]}"; do
        read -r name quiet start end <<<"$window"
        seconds=$(awk -v a="$start" -v b="$end" 'BEGIN { print (b - a) / 1000000 }')
        p99 "$quiet" "$start"
        before=$p99
        p99 "$start" "$end"
        record flush "$name" any seconds "$round" "$seconds"
        record flush "$name" any p99_before "$round" "$before"
        record flush "$name" any p99 "$round" "$p99"
        say 'flush, round %d, %-6s %.2f s; p99 of writers %.2f ms, before it %.2f ms (%d a second)' "$round" "$name" \
            "$seconds" "$p99" "$before" "$limit"
    done
done
