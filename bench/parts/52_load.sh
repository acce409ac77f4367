#!/usr/bin/env bash
# A million keys with their counts: into a table like the totals by a plain INSERT, by
# dc_load, and by a plain INSERT into the counter table. Then the same by dc_incr_many, for both
# values of the setting `totals`: how large the shard table is a minute later, the worker being at work.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

like_totals="CREATE TABLE plain (key text COLLATE \"C\" PRIMARY KEY, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0,
    value bigint GENERATED ALWAYS AS (inc - dec) STORED, updated_at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 80);"

# load NAME SETUP STATEMENT CHECK: records how long the statement takes; CHECK is what is off
load() {
    local name=$1 setup=$2 statement=$3 check=$4 seconds wrong
    sql bench "SET client_min_messages = warning; DROP TABLE IF EXISTS plain, loaded, inserted; $setup; CHECKPOINT" >/dev/null
    seconds=$(sql bench "\\timing on
        $statement" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | awk '{ print $1 / 1000 }')
    wrong=$(sql bench "SELECT ($check) - sum(n) FROM source")
    [[ $wrong == 0 ]] || die "load, $name: the sum is $wrong off"
    [[ $round -gt 0 ]] || return 0
    record load "$name" any seconds "$round" "$seconds"
    say 'load, round %d, %-8s %.2f s' "$round" "$name" "$seconds"
}

# shard_bytes: of the table and its index
shard_bytes() {
    sql bench "SELECT pg_total_relation_size('many_shard')"
}

fresh_database bench/cases/load
sql bench "INSERT INTO source SELECT 'key:' || i, i FROM generate_series(1, $LOAD_KEYS) AS i ORDER BY random(); VACUUM ANALYZE source;"
# Round 0 brings the table into memory.
for ((round = 0; round <= LOAD_ROUNDS; round++)); do
    load insert "$like_totals" 'INSERT INTO plain (key, inc) SELECT key, n FROM source;' 'SELECT sum(value) FROM plain'
    load dc_load "SELECT dc_create('loaded')" "SELECT dc_load('loaded', array_agg(key), array_agg(n)) FROM source;" "SELECT dc_sum('loaded')"
    load into "SELECT dc_create('inserted')" 'INSERT INTO inserted (key, inc) SELECT key, n FROM source;' "SELECT dc_sum('inserted')"
done
sql bench 'DROP TABLE IF EXISTS plain, loaded, inserted;' >/dev/null

# space TOTALS: how large the shard table is a minute after all keys were counted at once
space() {
    local totals=$1 start before bytes limit minute='' small=''
    sql bench "SELECT dc_create('many', totals => '$totals');" >/dev/null
    sql bench "SELECT dc_incr_many('many', array_agg(key), array_agg(n)) FROM source;" >/dev/null
    start=$SECONDS
    before=$(shard_bytes)
    limit=$((LOAD_MINUTE + 120))
    while [[ -z $minute || (-z $small && $((SECONDS - start)) -lt $limit) ]]; do
        sleep 1
        bytes=$(shard_bytes)
        [[ -n $small || $bytes -ge 10000000 ]] || small=$((SECONDS - start))
        [[ -n $minute || $((SECONDS - start)) -lt $LOAD_MINUTE ]] || minute=$bytes
    done
    [[ $(sql bench "SELECT dc_sum('many') - sum(n) FROM source") == 0 ]] || die 'load: the sum of increments is off'
    record load "$totals" any mb_before 1 "$(awk -v b="$before" 'BEGIN { print b / 1000000 }')"
    record load "$totals" any mb_minute 1 "$(awk -v b="$minute" 'BEGIN { print b / 1000000 }')"
    record load "$totals" any seconds_small 1 "${small:-$limit}"
    say 'load, %s: shard table %d MB, after %d s %d MB; under 10 MB after %s s' "$totals" $((before / 1000000)) "$LOAD_MINUTE" $((minute / 1000000)) "${small:->$limit}"
    sql bench "SELECT dc_drop('many');" >/dev/null
}

sql bench 'ALTER SYSTEM SET dcounter.worker = on;'
sql bench 'SELECT pg_reload_conf();' >/dev/null
space direct
space compacted
sql postgres 'ALTER SYSTEM RESET ALL;'
sql postgres 'SELECT pg_reload_conf();' >/dev/null
