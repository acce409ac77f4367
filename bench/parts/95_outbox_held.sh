#!/usr/bin/env bash
# The outbox under a held snapshot: two databases with the same events, in one of which
# a snapshot is held. A consumer in each reads for a time, from the beginning again
# and again; then both are measured in turns.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/outbox_read/20_dc_fetch

# read_all STATE SECONDS: sets rate, in events a second
read_all() {
    export PGDATABASE=bench
    [[ $1 == held ]] || PGDATABASE=bench_free
    sql "$PGDATABASE" "SELECT dc_seek('c', 'beginning');" >/dev/null
    read_batches "$folder" "$2"
}

fresh_database "$folder"
fill "$folder"
sql postgres 'DROP DATABASE IF EXISTS bench_free WITH (FORCE);'
sql postgres 'CREATE DATABASE bench_free TEMPLATE bench;'

hold 'BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT pg_backend_pid();
    SELECT pg_sleep(3600);'

end=$((SECONDS + HELD_SECONDS))
while ((SECONDS < end)); do
    read_all free 2
    read_all held 2
done
for ((round = 1; round <= ROUNDS; round++)); do
    for state in free held; do
        read_all "$state" "$SECONDS_PER_RUN"
        record outbox_held dc_fetch "$state" rate "$round" "$rate"
        say 'outbox, round %d, %s: %10.0f events/s' "$round" "$state" "$rate"
    done
done
sql postgres "SELECT pg_terminate_backend($(head -n 1 "$DC_WORK/holder.out"));" >/dev/null
wait "$holder" 2>/dev/null || true
sql postgres 'DROP DATABASE bench_free WITH (FORCE);'
