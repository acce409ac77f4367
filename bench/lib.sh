# shellcheck shell=bash
# Functions shared by bench.sh and its parts. A part is a script of parts/ that bench.sh
# runs with the server up; it adds lines to RESULTS.

# shellcheck source=test/lib.sh
source test/lib.sh
# shellcheck source=bench/pgbench.sh
source bench/pgbench.sh
# shellcheck source=bench/redis.sh
source bench/redis.sh
# shellcheck source=bench/region.sh
source bench/region.sh
# shellcheck source=bench/turns.sh
source bench/turns.sh

# record PART CASE PARAMETER METRIC ROUND VALUE
record() {
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$RESULTS"
}

# recorded: the value of the last record
recorded() {
    tail -n 1 "$RESULTS" | cut -f 6
}

# divided A B: A / B
divided() {
    awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'
}

# say FORMAT ARGUMENT...: progress
say() {
    # shellcheck disable=SC2059 # the format is an argument
    printf "$1\n" "${@:2}" >&2
}

# chosen NAME: is it one of those that CASES selects?
chosen() {
    local word
    [[ -n $CASES ]] || return 0
    for word in $CASES; do
        [[ $1 != *"$word"* ]] || return 0
    done
    return 1
}

# unpack_cases: creates a folder from each file of cases, in the copy of the tree in which the parts
# run
unpack_cases() {
    local file
    for file in bench/cases/*.cases; do
        awk -v folder="${file%.cases}" '
            /^=== / { close(name); name = folder "/" $2; path = name; sub(/\/[^\/]*$/, "", path); system("mkdir -p " path); printf "" >name; next }
            { print >name }' "$file"
    done
}

# cases_of PART: the names of its cases, those that CASES selects
cases_of() {
    local folder name
    for folder in "bench/cases/$1"/*/; do
        name=$(basename "$folder")
        if [[ $name == *_dc_incr ]] || chosen "$name"; then echo "$name"; fi
    done
}

restart() {
    "$BINDIR/pg_ctl" -D "$DC_DATA" -l "$DC_LOG" -w -t 120 restart >/dev/null
}

# use_settings FILE: runs the server with the settings of FILE (or none); restarts it if they have
# changed
use_settings() {
    local wanted
    wanted=$(cat "$1" 2>/dev/null || true)
    if [[ $wanted != "$(cat "$DC_DATA/case.conf")" ]]; then
        echo "$wanted" >"$DC_DATA/case.conf"
        restart
    fi
}

# fill_wal: writes as many WAL segments as min_wal_size keeps. A new segment is
# slower to write to than a recycled one, which would cost the first runs.
fill_wal() {
    local i
    for ((i = 0; i < 64; i++)); do
        echo "SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal();"
    done | "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d postgres >/dev/null
    sql postgres 'CHECKPOINT;'
    # initdb's files are not yet on disk either
    sync
}

# fresh_database FOLDER: the database bench, new, with what setup.sql of the
# case makes, under the case's settings. With dcounter_lite instead of the extension if it has a file "lite"
fresh_database() {
    use_settings "$1/postgresql.conf"
    sql postgres 'SET client_min_messages = error; DROP DATABASE IF EXISTS bench WITH (FORCE);'
    sql postgres 'CREATE DATABASE bench;'
    export PGDATABASE=bench
    if [[ -e $1/lite ]]; then
        [[ -d lite/build ]] || bash lite/build.sh
        sql bench '' -1 -f lite/build/dcounter_lite--*.sql >/dev/null
    else
        sql bench 'CREATE EXTENSION dcounter;'
    fi
    sql bench "$(cat "$1/setup.sql")" >/dev/null
    # Writing and cleaning up after earlier runs must not slow down this one.
    sql bench 'VACUUM ANALYZE;'
    sql bench 'CHECKPOINT;'
}

# fill FOLDER: creates the events with fill.sql of the case
fill() {
    sql bench "$(cat "$1/fill.sql")" -v "events=$OUTBOX_EVENTS" >/dev/null
    sql bench 'VACUUM ANALYZE;'
    sql bench 'CHECKPOINT;'
}

# read_batches FOLDER SECONDS: its run.sql reads a hundred events; sets rate, in events
# a second
read_batches() {
    run_pgbench "$1/run.sql" 1 "$2"
    rate=$(awk -v r="$rate" 'BEGIN { print r * 100 }')
}

# hold STATEMENTS: a session that runs them, and has written its first line into
# DC_WORK/holder.out; sets holder, its process
hold() {
    "$BINDIR/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d bench >"$DC_WORK/holder.out" 2>"$DC_WORK/holder.err" <<<"$1" &
    holder=$!
    until grep -q . "$DC_WORK/holder.out"; do
        kill -0 "$holder" 2>/dev/null || die "$(cat "$DC_WORK/holder.err")"
        sleep 0.05
    done
}

# server_cpu: the processor time that all processes of the server have taken so far, in us.
# The postmaster has that of those that have ended; pgbench's have, a moment after it.
server_cpu() {
    local postmaster tick pid
    postmaster=$(head -n 1 "$DC_DATA/postmaster.pid")
    tick=$((1000000 / $(getconf CLK_TCK)))
    while sql postgres "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench';" | grep -qv '^0$'; do
        sleep 0.05
    done
    {
        awk '{ print $14 + $15 + $16 + $17 }' "/proc/$postmaster/stat"
        for pid in $(pgrep -P "$postmaster"); do
            awk '{ print $14 + $15 }' "/proc/$pid/stat" 2>/dev/null || true
        done
    } | awk -v tick="$tick" '{ sum += $1 } END { printf "%.0f", sum * tick }'
}

# check_count FOLDER TRANSACTIONS: ends the script unless the case has counted exactly this many
check_count() {
    local counted
    counted=$(sql bench "$(cat "$1/count.sql")")
    # the threads of pgbench count for one of several scripts without a lock, and lose some
    [[ $counted == "$2" || (-e $1/write.sql && $counted -gt $2 && $((counted - $2)) -le $(($2 / 1000))) ]] ||
        die "$1: $2 transactions committed, $counted counted"
}

# record_rate PART CASE CLIENTS ROUND: what run_pgbench has measured
record_rate() {
    # shellcheck disable=SC2154 # run_pgbench sets rate
    record "$1" "$2" "$3" rate "$4" "$rate"
    record "$1" "$2" "$3" latency_ms "$4" "$(awk -v c="$3" -v r="$rate" 'BEGIN { print c * 1000 / r }')"
    say '%s, round %d, %3d clients, %-24s %10.0f /s' "$1" "$4" "$3" "$2" "$rate"
}

# run_case FOLDER CLIENTS: sets rate; ends the script if it has counted wrongly
run_case() {
    local folder=$1
    if [[ -e $folder/redis.conf ]]; then
        run_redis "$folder" "$2"
        return
    fi
    fresh_database "$folder"
    if [[ -e $folder/write.sql ]]; then
        run_pgbench "$folder/run.sql@10" "$2" "$SECONDS_PER_RUN" -f "$folder/write.sql@1"
        # shellcheck disable=SC2154 # run_pgbench sets them
        transactions=$of_last_script
    else
        run_pgbench "$folder/run.sql" "$2" "$SECONDS_PER_RUN"
    fi
    # shellcheck disable=SC2154 # run_pgbench sets them
    [[ ! -e $folder/count.sql ]] || check_count "$folder" "$transactions"
    [[ ! -e $folder/keys ]] || rate=$(awk -v r="$rate" -v k="$(cat "$folder/keys")" 'BEGIN { print r * k }')
}

# run_cases PART CLIENTS...: each case with each number of clients (that its
# file "clients" names, if it has one), ROUNDS times. The rounds are interleaved,
# so that a slow phase of the machine affects all cases alike. Each round begins with another case,
# so that no case always follows the same one.
run_cases() {
    local part=$1 round clients name folder only names i
    shift
    mapfile -t names < <(cases_of "$part")
    for ((round = 1; round <= ROUNDS; round++)); do
        for clients in "$@"; do
            for ((i = 0; i < ${#names[@]}; i++)); do
                name=${names[(i + round - 1) % ${#names[@]}]}
                folder=bench/cases/$part/$name
                only=$(cat "$folder/clients" 2>/dev/null || true)
                [[ -z $only || " $only " == *" $clients "* ]] || continue
                run_case "$folder" "$clients"
                record_rate "$part" "$name" "$clients" "$round"
            done
        done
    done
}

# run_costs PART CASE CLIENTS ROUND: as run_case, and records what a transaction has cost: the WAL,
# and the processor time of all server processes, with what after.sql of the case does
run_costs() {
    local folder=bench/cases/$1/$2 lsn cpu
    if [[ -e $folder/link ]]; then
        regions_fresh "$folder"
        regions_link ""
    else
        fresh_database "$folder"
    fi
    [[ ! -e $folder/warm.sql ]] || sql bench "$(cat "$folder/warm.sql")" >/dev/null
    lsn=$(sql bench 'SELECT pg_current_wal_insert_lsn();')
    cpu=$(server_cpu)
    run_pgbench "$folder/run.sql" "$3" "$SECONDS_PER_RUN"
    [[ ! -e $folder/after.sql ]] || sql bench "$(cat "$folder/after.sql")" >/dev/null
    # shellcheck disable=SC2154 # run_pgbench sets them
    record "$1" "$2" "$3" cpu_us "$4" "$(awk -v a="$cpu" -v b="$(server_cpu)" -v n="$transactions" 'BEGIN { print (b - a) / n }')"
    record "$1" "$2" "$3" wal "$4" "$(sql bench "SELECT (pg_current_wal_insert_lsn() - '$lsn') / $transactions.0;")"
    check_count "$folder" "$transactions"
    record_rate "$1" "$2" "$3" "$4"
    [[ ! -e $folder/link ]] || regions_unlink
}

# run_costs_cases PART CLIENTS...: the cases in turn, each round beginning with another
run_costs_cases() {
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
