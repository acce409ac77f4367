#!/usr/bin/env bash
# dcounter_lite: one key, the stock, uncontended keys and idempotent increments, each with its
# baseline. Then a million keys move to the extension and back.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases lite 16 64
run_cases lite_stock 64
run_costs_cases lite_cold 16
run_cases lite_once 16 64

# seconds STATEMENTS: sets seconds, which they took in one transaction
seconds() {
    local start
    start=$(date +%s%N)
    sql bench "BEGIN; $1 COMMIT;" >/dev/null
    seconds=$(divided $(($(date +%s%N) - start)) 1000000000)
}

folder=$DC_WORK/adopt/lite_adopt
mkdir -p "$folder"
: >"$folder/lite"
cat >"$folder/setup.sql" <<SQL
SELECT dc_create('likes');
SELECT dc_load('likes', ARRAY(SELECT 'post:' || k FROM generate_series(1, $LITE_KEYS) AS k), ARRAY(SELECT k FROM generate_series(1, $LITE_KEYS) AS k));
SQL
for ((round = 1; round <= ROUNDS; round++)); do
    fresh_database "$folder"
    before=$(sql bench "SELECT dc_sum('likes');")
    seconds "SELECT dcounter_lite.leave();
        SET LOCAL client_min_messages = error;
        DROP SCHEMA dcounter_lite CASCADE;
        DO \$\$ DECLARE f regprocedure; BEGIN
            FOR f IN SELECT oid FROM pg_proc WHERE proname LIKE 'dc\_%' AND pronamespace = 'public'::regnamespace LOOP EXECUTE format('DROP ROUTINE %s', f); END LOOP;
        END \$\$;
        CREATE EXTENSION dcounter;
        SELECT dc_adopt('likes');"
    record lite_adopt to_extension any seconds "$round" "$seconds"
    [[ $(sql bench "SELECT dc_sum('likes');") == "$before" ]] || die 'the extension has other values'
    seconds "DROP EXTENSION dcounter;
        $(cat lite/build/dcounter_lite--*.sql)
        SELECT dc_adopt('likes');"
    record lite_adopt to_lite any seconds "$round" "$seconds"
    [[ $(sql bench "SELECT dc_sum('likes');") == "$before" ]] || die 'dcounter_lite has other values'
    say 'lite, round %d: %d keys back in %.1f s' "$round" "$LITE_KEYS" "$seconds"
done
