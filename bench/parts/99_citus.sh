#!/usr/bin/env bash
# Increments through a Citus coordinator with two workers, all on this machine: of distinct keys against an upsert, and of one key
# against UPDATE, each of a table that is distributed in the same way. The worker compacts as by default. Without Citus there is
# nothing to measure.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

if [[ ! -e $("$PG_CONFIG" --sharedir)/extension/citus.control ]]; then
    say 'citus: skipped, there is no Citus in this PostgreSQL'
    exit 0
fi

# node NAME: a server with both extensions; sets node_host
node() {
    start_cluster "citus_$1" 'max_connections = 200' 'shared_buffers = 128MB' 'min_wal_size = 512MB' 'max_wal_size = 2GB' \
        'checkpoint_timeout = 30min' 'fsync = on' 'synchronous_commit = on' 'max_prepared_transactions = 200' \
        'max_worker_processes = 24' 'wal_level = logical' "shared_preload_libraries = 'citus, dcounter'" \
        "citus.node_conninfo = 'sslmode=disable'" 'citus.enable_statistics_collection = off'
    node_host=$PGHOST
    sql postgres "ALTER SYSTEM SET citus.local_hostname = '$PGHOST'; SELECT pg_reload_conf();" >/dev/null
    sql postgres 'CREATE DATABASE bench;' 2>/dev/null
    sql bench 'CREATE EXTENSION citus;' 2>/dev/null
    fill_wal
}

hosts=()
for name in one two coordinator; do
    node "$name"
    hosts+=("$node_host")
done
sql bench "SELECT citus_set_coordinator_host('${hosts[2]}', $PGPORT);" >/dev/null
for host in "${hosts[@]:0:2}"; do
    sql bench "SELECT citus_add_node('$host', $PGPORT);" >/dev/null
done
sql bench 'CREATE EXTENSION dcounter;'
export PGDATABASE=bench

# fresh FOLDER: its table in the state of setup.sql
fresh() {
    sql bench 'SET client_min_messages = error; DROP TABLE IF EXISTS posts, likes CASCADE;'
    sql bench "$(cat "$1/setup.sql")" >/dev/null 2>&1
}

for ((round = 0; round <= ROUNDS; round++)); do # round 0 is for connections and caches
    for part in citus citus_hot; do
        for name in $(cases_of "$part"); do
            folder=bench/cases/$part/$name
            fresh "$folder"
            run_pgbench "$folder/run.sql" 16 "$SECONDS_PER_RUN"
            [[ $(sql bench "$(cat "$folder/count.sql")") == "$transactions" ]] || die "$part/$name: the sum is wrong"
            [[ $round -gt 0 ]] || continue
            record "$part" "$name" 16 rate "$round" "$rate"
            say '%s, round %d, %-12s %8.0f/s' "$part" "$round" "$name" "$rate"
        done
    done
done
