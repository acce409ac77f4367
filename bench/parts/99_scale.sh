#!/usr/bin/env bash
# Many tables and many databases: how much of a core the worker of a database takes whose
# tables nobody writes to, and whether queries get their parallel workers while dcounter maintains
# many databases, on a server with PostgreSQL's own limits.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/scale

# cpu PID: hundredths of a second of processor time
cpu() {
    awk '{ print $14 + $15 }' "/proc/$1/stat"
}

# worker_of DATABASE: its process
worker_of() {
    sql postgres "SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = '$1';"
}

# Each table has been used, and the pauses of idle tables have grown to their length.
idle() {
    local i pid before after
    fresh_database "$folder"
    for ((i = 1; i <= SCALE_TABLES; i++)); do
        echo "SELECT dc_create('t$i'); SELECT dc_incr('t$i', 'key');"
    done | "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d bench >/dev/null
    sql bench 'VACUUM ANALYZE; CHECKPOINT;'
    sleep "$SCALE_SETTLE"
    pid=$(worker_of bench)
    before=$(cpu "$pid")
    sleep "$SCALE_SECONDS"
    after=$(cpu "$pid")
    [[ $(sql bench "SELECT value FROM t$SCALE_TABLES;") == 1 ]] || die 'a table was not compacted'
    record scale idle any percent 1 "$(awk -v a="$before" -v b="$after" -v s="$SCALE_SECONDS" 'BEGIN { print (b - a) / s }')"
    say 'scale, %d idle tables: %.2f %% of a core' "$SCALE_TABLES" "$(recorded)"
}

# write_to_all: one increment in each database, again and again, while there is the file
write_to_all() {
    local i
    while [[ -e $DC_WORK/writing ]]; do
        for ((i = 1; i <= SCALE_DATABASES; i++)); do
            printf '\\c scale_%d\n%s\n' "$i" "SELECT dc_incr('c', 'key');"
        done
    done | "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d postgres >/dev/null
}

# All of them are written to.
databases() {
    local i writer plan planned=0 launched=0 most=0 now
    fresh_database "$folder"
    for ((i = 1; i <= SCALE_DATABASES; i++)); do
        echo "CREATE DATABASE scale_$i TEMPLATE bench;"
    done | "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d postgres
    sql bench 'CREATE TABLE big AS SELECT n FROM generate_series(1, 1000000) AS n; ANALYZE big;'
    touch "$DC_WORK/writing"
    write_to_all &
    writer=$!
    sleep 5
    for ((i = 0; i < 5 * SCALE_SECONDS; i++)); do
        plan=$(sql bench 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT count(*) FROM big;')
        planned=$((planned + $(sed -n 's/.*Workers Planned: //p' <<<"$plan")))
        launched=$((launched + $(sed -n 's/.*Workers Launched: //p' <<<"$plan")))
        now=$(sql postgres "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker';")
        most=$((now > most ? now : most))
    done
    rm "$DC_WORK/writing"
    wait "$writer"
    record scale databases any planned 1 "$planned"
    record scale databases any launched 1 "$launched"
    say 'scale, %d databases: %d parallel workers planned, %d launched, beside up to %d of dcounter' "$SCALE_DATABASES" \
        "$planned" "$launched" "$most"
    for ((i = 1; i <= SCALE_DATABASES; i++)); do
        sql postgres "DROP DATABASE scale_$i WITH (FORCE);"
    done
}

idle
databases
