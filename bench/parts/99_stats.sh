#!/usr/bin/env bash
# The statistics of many counter tables, each asked for by a new session: those from
# shared memory, and those that are read from all shard tables.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

# timed VIEW: seconds, with connecting
timed() {
    local start=${EPOCHREALTIME/./}
    sql bench "SELECT * FROM $1;" >/dev/null
    divided "$((${EPOCHREALTIME/./} - start))" 1000000
}

fresh_database bench/cases/stats
sql bench "CALL create_tables($STATS_TABLES);"
for ((round = 1; round <= ROUNDS; round++)); do
    for view in dc_stat_counters dc_stat_shards; do
        record stats "$view" "$STATS_TABLES" seconds "$round" "$(timed "$view")"
        say 'statistics of %d tables, round %d, %-16s %.3f s' "$STATS_TABLES" "$round" "$view" "$(recorded)"
    done
    record stats dc_stat_counters "$STATS_TABLES" missing "$round" \
        "$(sql bench 'SELECT count(*) FROM dc_stat_counters WHERE increments IS DISTINCT FROM 10;')"
done
