#!/usr/bin/env bash
# Keys that nobody contends for, most of the time: 100,000 that exist, in uniform use and by
# Zipf's law, and new ones. Rates, and for each transaction the WAL and the processor time of
# all server processes, the worker's compaction included.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

# run_costs PART CASE CLIENTS ROUND: as run_case, and records what it has cost
run_costs() {
    local folder=bench/cases/$1/$2 lsn cpu
    fresh_database "$folder"
    [[ ! -e $folder/warm.sql ]] || sql bench "$(cat "$folder/warm.sql")" >/dev/null
    lsn=$(sql bench 'SELECT pg_current_wal_insert_lsn();')
    cpu=$(server_cpu)
    run_pgbench "$folder/run.sql" "$3" "$SECONDS_PER_RUN"
    [[ $2 != *_dc_incr ]] || sql bench "SELECT dc_compact('likes');" >/dev/null
    # shellcheck disable=SC2154 # run_pgbench sets them
    record "$1" "$2" "$3" cpu_us "$4" "$(awk -v a="$cpu" -v b="$(server_cpu)" -v n="$transactions" 'BEGIN { print (b - a) / n }')"
    record "$1" "$2" "$3" wal "$4" "$(sql bench "SELECT (pg_current_wal_insert_lsn() - '$lsn') / $transactions.0;")"
    check_count "$folder" "$transactions"
    record_rate "$1" "$2" "$3" "$4"
}

# run_part PART CLIENTS...: the two cases in turn, each round beginning with the other
run_part() {
    local part=$1 round clients names name i
    shift
    mapfile -t names < <(cases_of "$part")
    for ((round = 1; round <= ROUNDS; round++)); do
        for clients in "$@"; do
            for ((i = 0; i < ${#names[@]}; i++)); do
                name=${names[(i + round) % ${#names[@]}]}
                run_costs "$part" "$name" "$clients" "$round"
            done
        done
    done
}

run_part cold 16
run_part cold_new 16
run_part cold_zipf 16 64
