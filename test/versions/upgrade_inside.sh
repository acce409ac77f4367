#!/usr/bin/env bash
# upgrade_inside.sh fill MAJOR | upgrade OLD NEW | more MAJOR | regions ONE OTHER: steps of upgrade.sh, in /upgrade, where data15 and so on
# are the clusters. What check.sql says of one is what it must say of the next.
set -euo pipefail
cd /upgrade

bin() {
    echo "/usr/lib/postgresql/$1/bin"
}

# Checksums are the default from 18 on; a cluster is upgraded to one that has as many.
make_cluster() {
    local checksums=()
    [[ $1 -lt 18 ]] || checksums=(--no-data-checksums)
    "$(bin "$1")/initdb" -D "data$1" -U postgres -A trust -E UTF8 --locale=C --no-sync "${checksums[@]}" >initdb.log
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '/upgrade'" "port = 543$1" 'fsync = off' 'wal_level = logical' 'jit = off' \
        "shared_preload_libraries = 'dcounter'" 'max_prepared_transactions = 20' >>"data$1/postgresql.conf"
}

start() {
    "$(bin "$1")/pg_ctl" -D "data$1" -l "server$1.log" -w start >/dev/null || { tail -n 20 "server$1.log" && return 1; }
}

stop() {
    "$(bin "$1")/pg_ctl" -D "data$1" -m fast -w stop >/dev/null
}

# A step that fails must not leave a server.
stop_all() {
    local data
    for data in data*; do
        if [[ -e $data/postmaster.pid ]]; then "$(bin "${data#data}")/pg_ctl" -D "$data" -m immediate -w stop >/dev/null || true; fi
    done
}
trap stop_all EXIT

run() {
    local major=$1
    shift
    "$(bin "$major")/psql" -X -q -v ON_ERROR_STOP=1 -h /upgrade -p "543$major" -U postgres "$@"
}

# check MAJOR DATABASE: all values, except for the units that a region may sell: in a cluster with
# another identity it has a new epoch, and gets those of the old one when the other regions say so
# (doc/regions-recovery.md)
check() {
    run "$1" -d "$2" -f sql/check.sql | grep -v '^region stock'
}

# count_in MAJOR: in a region of two counters, one key at a time
count_in() {
    run "$1" -d postgres -A -t -c "SELECT dc_incr('likes', 'a', $1), dc_decr('likes', 'b'), dc_take('seats', 'a')" >/dev/null
}

# join MAJOR OTHER: the link from the region of another server
join() {
    run "$1" -d postgres >/dev/null \
        <<<"SELECT dc_region_join('r$2', 'host=/upgrade port=543$2 dbname=postgres user=postgres', trust_owners => true) \\gexec"
}

# strip_options OLD NEW: Debian's 15 and 17 mark each column with an option, pg_attver, that its 18.6 does not know, so that no
# cluster with a table can be upgraded, whether it has dcounter or not. It says nothing of values.
strip_options() {
    local database
    if grep -aq pg_attver "$(bin "$2")/postgres" || ! grep -aq pg_attver "$(bin "$1")/postgres"; then return; fi
    echo "# pg_attver of columns, which $2 does not know, is taken out before"
    start "$1"
    run "$1" -d postgres -c 'ALTER DATABASE template0 ALLOW_CONNECTIONS true'
    for database in $(run "$1" -d postgres -A -t -c 'SELECT datname FROM pg_database'); do
        run "$1" -d "$database" -c "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text ~ '^{pg_attver=[0-9]+}\$'"
    done
    run "$1" -d postgres -c 'ALTER DATABASE template0 ALLOW_CONNECTIONS false'
    stop "$1"
}

case $1 in
fill)
    make_cluster "$2"
    start "$2"
    run "$2" -d postgres -c 'CREATE DATABASE rooms' -c 'CREATE DATABASE again'
    for database in rooms again; do
        run "$2" -d "$database" -c 'CREATE EXTENSION dcounter'
        run "$2" -d "$database" -f sql/fill.sql
    done
    # what an upgraded database must say is what one says that was not
    run "$2" -d again -f sql/more.sql
    check "$2" again >more.out
    check "$2" rooms >check.out
    run "$2" -d postgres -c 'DROP DATABASE again WITH (FORCE)'
    # what is in memory is not taken over
    run "$2" -d rooms -A -t -c 'SELECT dc_flush()' >/dev/null
    stop "$2"
    ;;
upgrade)
    make_cluster "$3"
    strip_options "$2" "$3"
    status=0
    "$(bin "$3")/pg_upgrade" -b "$(bin "$2")" -B "$(bin "$3")" -d "data$2" -D "data$3" -U postgres -s /upgrade >upgrade.log 2>&1 || status=$?
    if [[ $status -ne 0 ]]; then
        tail -n 30 upgrade.log
        find "data$3/pg_upgrade_output.d" -name '*.log' -exec tail -n 20 {} + | tail -n 80
        exit "$status"
    fi
    start "$3"
    check "$3" rooms >now.out
    run "$3" -d rooms -A -t -c 'SELECT count(*) FROM dc_stat_worker WHERE failures > 0' >failures.out
    stop "$3"
    diff check.out now.out
    diff <(echo 0) failures.out
    ;;
more)
    start "$2"
    run "$2" -d rooms -f sql/more.sql
    check "$2" rooms >now.out
    stop "$2"
    diff more.out now.out
    ;;
regions)
    for major in "$2" "$3"; do
        rm -rf "data$major"
        make_cluster "$major"
        start "$major"
        run "$major" -d postgres -A -t -c 'CREATE EXTENSION dcounter' -c "SELECT dc_region_init('r$major')" \
            -c "SELECT dc_create('likes'), dc_stock_create('seats')" -c "SELECT dc_replicate('likes'), dc_replicate('seats')" \
            -c "SELECT dc_restock('seats', 'a', 10)" >/dev/null
        count_in "$major"
    done
    join "$2" "$3"
    join "$3" "$2"
    for major in "$2" "$3"; do
        run "$major" -d postgres -c 'CALL dc_region_wait_copied()'
        count_in "$major"
    done
    # a count of each before the link, and one after; a region shows the units that it has itself
    expected="$((2 * ($2 + $3)))|-4|8"
    for major in "$2" "$3"; do
        for _ in {1..240}; do
            now=$(run "$major" -d postgres -A -t -c "SELECT dc_get('likes', 'a'), dc_get('likes', 'b'), dc_get('seats', 'a')")
            [[ $now != "$expected" ]] || break
            sleep 0.5
        done
        [[ $now == "$expected" ]] || { echo "$major: $now and not $expected" && tail -n 20 "server$major.log" && exit 1; }
    done
    stop "$2"
    stop "$3"
    ;;
esac
