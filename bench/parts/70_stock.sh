#!/usr/bin/env bash
# Stock: takes of one key, refusals of one that is sold out, holds; takes while
# a session keeps a unit in an open transaction; the last units of a key, which must
# all be sold, and no more.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases stock 64
run_cases sold_out 64
run_cases hold 64

# The WAL of holds that are confirmed in part, without other writers: two transactions
for ((round = 1; round <= ROUNDS; round++)); do
    for name in 40_dc_hold_part 50_dc_hold_all; do
        fresh_database "bench/cases/hold/$name"
        sql bench 'SELECT dc_worker_stop();' >/dev/null
        run_pgbench "bench/cases/hold/$name/run.sql" 1 "$SECONDS_PER_RUN"
        sql bench 'CHECKPOINT;'
        before=$(sql bench 'SELECT wal_records FROM pg_stat_wal;')
        run_pgbench "bench/cases/hold/$name/run.sql" 1 "$SECONDS_PER_RUN"
        # shellcheck disable=SC2154 # run_pgbench sets it
        record hold "$name" 1 wal_records "$round" "$(sql bench "SELECT (wal_records - $before) / $transactions.0 FROM pg_stat_wal;")"
        say 'hold, round %d: %s: %.1f WAL records' "$round" "$name" "$(recorded)"
    done
done

folder=bench/cases/stock/30_dc_take

# hold_a_unit SECONDS: takes one, and keeps its transaction open; sets holder
hold_a_unit() {
    hold "BEGIN;
        SELECT dc_take('seats', 42);
        SELECT pg_sleep($1);
        COMMIT;"
    [[ $(cat "$DC_WORK/holder.out") == t ]] || die 'there is no unit to hold'
}

for ((round = 1; round <= ROUNDS; round++)); do
    fresh_database "$folder"
    run_pgbench "$folder/run.sql" 64 "$SECONDS_PER_RUN"
    # shellcheck disable=SC2154 # run_pgbench sets them
    alone=$rate total=$transactions
    hold_a_unit "$OPEN_SECONDS"
    run_pgbench "$folder/run.sql" 64 "$OPEN_SECONDS"
    total=$((total + transactions + 1))
    wait "$holder" || die 'the transaction that holds a unit failed'
    check_count "$folder" "$total"
    record stock_open dc_take any ratio "$round" "$(divided "$rate" "$alone")"
    say 'stock, round %d: with a unit held open %.2f of the rate' "$round" "$(recorded)"
done

# Each client tries 40 times: far more than there are units.
fresh_database "$folder"
sql bench 'CREATE TABLE sold (key bigint NOT NULL);'
echo "INSERT INTO sold SELECT :key WHERE dc_take('seats', :key);" >"$DC_WORK/last.sql"
wrong=0
for ((round = 1; round <= LAST_ROUNDS; round++)); do
    sql bench "SELECT dc_restock('seats', $round + 1000, 1000);" >/dev/null
    logged "$DC_WORK/last.log" 'pgbench failed on the last units' \
        "$BINDIR/pgbench" -n -f "$DC_WORK/last.sql" -c 64 -j 2 -t 40 -D key=$((round + 1000)) bench
    [[ $(sql bench "SELECT count(*), dc_get('seats', $round + 1000), dc_take('seats', $round + 1000) FROM sold WHERE key = $round + 1000;") == '1000|0|f' ]] ||
        wrong=$((wrong + 1))
done
record stock_last dc_take any wrong 1 "$wrong"
say 'stock: the last 1,000 units, 64 clients: %d of %d times not 1,000 sold' "$wrong" "$LAST_ROUNDS"
