#!/usr/bin/env bash
# make bench: runs bench/cases/* and writes doc/benchmarks.md.
#   --quick           one round of two seconds, printed only
#   ROUNDS=5 SECONDS_PER_RUN=4 CLIENTS='1 16 64'
#   CASES='dc_incr insert'  only these cases (part of the folder name)
#   REFERENCE=50_dc_incr    the case that the others are compared with
# Rounds are interleaved (every case once, then all again), so that a machine
# which slows down slows all cases alike.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh
# shellcheck source=bench/pgbench.sh
source bench/pgbench.sh

export ROUNDS=${ROUNDS:-5} SECONDS_PER_RUN=${SECONDS_PER_RUN:-4}
export CLIENTS=${CLIENTS:-1 16 64} CASES=${CASES:-} REFERENCE=${REFERENCE:-50_dc_incr}
if [[ ${1:-} == --quick ]]; then
    ROUNDS=1 SECONDS_PER_RUN=2
elif [[ $# -gt 0 ]]; then
    die "unknown option $1"
fi

if [[ ${DC_STAGE:-} != user ]]; then
    bash test/deps.sh build bench
    build_and_install
    make_work disk
    in_work_folder bench/bench.sh "$@"
    mkdir -p results
    cp "$DC_WORK/out/bench.tsv" results/
    if [[ ${1:-} != --quick && -z $CASES ]]; then
        mkdir -p doc
        cp "$DC_WORK/out/benchmarks.md" doc/
        echo 'written: doc/benchmarks.md'
    fi
    exit
fi

use_postgres
results=$DC_WORK/out/bench.tsv

# The cases to run, the reference always among them.
selected() {
    local folder name word
    for folder in bench/cases/*/; do
        name=$(basename "$folder")
        [[ -z $CASES || $name == "$REFERENCE" ]] && echo "$name" && continue
        for word in $CASES; do
            [[ $name != *"$word"* ]] || { echo "$name" && break; }
        done
    done
}

restart() {
    "$BINDIR/pg_ctl" -D "$DC_DATA" -l "$DC_LOG" -w -t 120 restart >/dev/null
}

# use_settings FILE: the server runs with the settings of FILE (or none), and
# is restarted when they are not those it has
use_settings() {
    local wanted
    wanted=$(cat "$1" 2>/dev/null || true)
    if [[ $wanted != "$(cat "$DC_DATA/case.conf")" ]]; then
        echo "$wanted" >"$DC_DATA/case.conf"
        restart
    fi
}

# run_case NAME CLIENTS: one run in a fresh database; sets rate
run_case() {
    local folder=bench/cases/$1 counted
    use_settings "$folder/postgresql.conf"
    sql postgres 'DROP DATABASE IF EXISTS bench;' 2>/dev/null
    sql postgres 'CREATE DATABASE bench;'
    sql bench 'CREATE EXTENSION dcounter;'
    sql bench "$(cat "$folder/setup.sql")" >/dev/null
    # What earlier runs left to write or to clean must not cost this one.
    sql bench 'VACUUM ANALYZE;'
    sql bench 'CHECKPOINT;'
    PGDATABASE=bench run_pgbench "$folder/run.sql" "$2" "$SECONDS_PER_RUN"
    counted=$(sql bench "$(cat "$folder/count.sql")")
    [[ $counted == "$transactions" ]] ||
        die "$1, $2 clients: $transactions transactions committed, $counted counted"
}

start_cluster bench 'max_connections = 200' 'shared_buffers = 256MB' 'max_wal_size = 4GB' \
    'checkpoint_timeout = 30min' 'fsync = on' 'synchronous_commit = on' "include_if_exists = 'case.conf'"
: >"$DC_DATA/case.conf"
mapfile -t cases < <(selected)
for ((round = 1; round <= ROUNDS; round++)); do
    for clients in $CLIENTS; do
        for name in "${cases[@]}"; do
            run_case "$name" "$clients"
            printf '%s\t%s\t%s\t%s\n' "$name" "$clients" "$round" "$rate" >>"$results"
            printf 'round %d, %3d clients, %-24s %10.0f /s\n' "$round" "$clients" "$name" "$rate" >&2
        done
    done
done

export DC_DATA
bash bench/report.sh table "$results"
bash bench/report.sh page "$results" >"$DC_WORK/out/benchmarks.md"
