#!/usr/bin/env bash
# The background worker: 64 clients on one key with and without it, and a million
# keys touched once, which it compacts while 16 clients count another key.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases worker 64

folder=bench/cases/million

# worker on|off
worker() {
    sql bench "ALTER SYSTEM SET dcounter.worker = $1;"
    sql bench "SELECT pg_reload_conf();" >/dev/null
}

# left: shard rows of the million keys
left() {
    sql bench 'SELECT count(*) FROM seen_shard;'
}

# work: milliseconds that the worker has worked
work() {
    sql bench "SELECT work_ms FROM dc_stat_worker WHERE datname = current_database() AND job = 'compaction';"
}

# While the rows are counted nobody else counts, so each count is short.
for ((round = 1; round <= WORKER_ROUNDS; round++)); do
    fresh_database "$folder"
    sql bench "SELECT count(dc_incr('seen', k)) FROM generate_series(1, $WORKER_KEYS) AS k; CHECKPOINT;" >/dev/null
    run_pgbench "$folder/run.sql" 16 "$SECONDS_PER_RUN"
    # shellcheck disable=SC2154 # run_pgbench sets them
    alone=$rate total=$transactions
    worker on
    start=$(date +%s.%N)
    run_pgbench "$folder/run.sql" 16 "$SECONDS_PER_RUN"
    total=$((total + transactions))
    ratio=$(divided "$rate" "$alone")
    record million dc_incr any ratio "$round" "$ratio"
    record million dc_incr any left "$round" "$(left)"
    while [[ $(left) != 0 ]]; do sleep 0.2; done
    seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
    record million dc_incr any seconds "$round" "$seconds"
    worked=$(divided "$(work)" 1000)
    record million dc_incr any work "$round" "$worked"
    worker off
    check_count "$folder" "$total"
    [[ $(sql bench 'SELECT count(*), sum(value) FROM seen;') == "$WORKER_KEYS|$WORKER_KEYS" ]] ||
        die 'the totals of the million keys are wrong'
    say 'million keys, round %d: compacted within %.1f s, %.1f s of work; writers meanwhile %.2f of their rate' "$round" \
        "$seconds" "$worked" "$ratio"
done
sql postgres 'ALTER SYSTEM RESET ALL;'
