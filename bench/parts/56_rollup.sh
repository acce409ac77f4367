#!/usr/bin/env bash
# Reading roll-ups: the count of all rows, a month and a year by days of one key; and correcting old rows against new ones.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/rollup_read

# read_one NAME ROUND STATEMENT: records the mean latency of one client, prepared, and the processor time of the server
read_one() {
    local cpu
    echo "$3" >"$DC_WORK/read.sql"
    cpu=$(server_cpu)
    run_pgbench "$DC_WORK/read.sql" 1 "$SECONDS_PER_RUN"
    # shellcheck disable=SC2154 # run_pgbench sets rate
    record rollup_read "$1" any cpu_ms "$2" "$(awk -v a="$cpu" -v b="$(server_cpu)" -v n="$rate" -v s="$SECONDS_PER_RUN" 'BEGIN { print (b - a) / 1000 / n / s }')"
    say 'rollup_read, round %d, %-8s %.3f ms of the processor' "$2" "$1" "$(recorded)"
    record rollup_read "$1" any ms "$2" "$(divided 1000 "$rate")"
    say 'rollup_read, round %d, %-8s %.3f ms' "$2" "$1" "$(recorded)"
}

# corrections NAME ROUND FROM: 2,000 rows from an id on get another amount and day
corrections() {
    local ms
    ms=$(sql bench "\\timing on
        UPDATE orders SET amount = amount + 1, at = at + interval '1 day' WHERE id >= $3 AND id < $3 + 2000;" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p')
    record rollup_read "$1" any ms "$2" "$ms"
    say 'rollup_read, round %d, %-8s %.1f ms' "$2" "$1" "$ms"
}

fresh_database "$folder"
sql bench "INSERT INTO orders (tenant, amount, at) SELECT i % 20, i % 100, '2026-01-01'::timestamptz + i * (interval '365 days' / $BOUND_COPY_ROWS) FROM generate_series(0, $BOUND_COPY_ROWS - 1) AS i; VACUUM ANALYZE; CHECKPOINT;"
for ((round = 1; round <= ROUNDS; round++)); do
    read_one dc_get "$round" "SELECT dc_get('orders_count', 'all');"
    read_one month "$round" "SELECT count(*), sum(value) FROM dc_get_many('by_day', ARRAY(SELECT jsonb_build_array(7, date '2026-03-01' + d) FROM generate_series(0, 30) AS d));"
    read_one year "$round" "SELECT count(*), sum(value) FROM dc_scan('by_day', '[7]');"
    corrections old "$round" "$((BOUND_COPY_ROWS / 2 + round * 2000))"
    corrections new "$round" "$((BOUND_COPY_ROWS - round * 2000))"
done
