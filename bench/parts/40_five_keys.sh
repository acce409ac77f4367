#!/usr/bin/env bash
# Transactions of 5 random keys out of 20, 32 clients, at each isolation level:
# do any fail? The UPDATEs do, and show what happens without dcounter; their failed transactions are
# not retried. deadlock_timeout is short, because the UPDATEs would only wait for it.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

# deadlocks_seen: as the server counted them, once all sessions have reported
deadlocks_seen() {
    local others=1 try
    for ((try = 0; try < 100 && others > 0; try++)); do
        others=$(sql postgres "SELECT count(*) FROM pg_stat_activity WHERE datname = 'bench'
            AND backend_type = 'client backend';")
        [[ $others == 0 ]] || sleep 0.1
    done
    sql postgres "SELECT deadlocks FROM pg_stat_database WHERE datname = 'bench';"
}

# run_level CASE LEVEL ROUND
run_level() {
    local folder=bench/cases/five_keys/$1 seen
    fresh_database "$folder"
    export PGOPTIONS="-c deadlock_timeout=100ms -c default_transaction_isolation=${2/ /\\ }"
    [[ $(sql bench 'SHOW transaction_isolation;') == "$2" ]] || die "the isolation level is not $2"
    call_pgbench "$folder/run.sql" 32 "$SECONDS_PER_RUN"
    unset PGOPTIONS
    seen=$(deadlocks_seen)
    # shellcheck disable=SC2154 # call_pgbench sets these
    [[ $seen -ge $deadlocks ]] || seen=$deadlocks
    # shellcheck disable=SC2154
    check_count "$folder" "$transactions"
    # shellcheck disable=SC2154
    record five_keys "$1" "$2" rate "$3" "$rate"
    record five_keys "$1" "$2" deadlocks "$3" "$seen"
    # shellcheck disable=SC2154
    record five_keys "$1" "$2" serialization "$3" "$serialization"
    record five_keys "$1" "$2" failures "$3" "$((seen + serialization))"
    say 'five_keys, round %d, %-16s %-12s %8.0f /s, %d deadlocks, %d serialization failures' \
        "$3" "$2" "$1" "$rate" "$seen" "$serialization"
}

for ((round = 1; round <= ROUNDS; round++)); do
    for level in 'read committed' 'repeatable read' serializable; do
        for name in $(cases_of five_keys); do
            run_level "$name" "$level" "$round"
        done
    done
done
