# shellcheck shell=bash
# Cases that run in turns of TURN_SECONDS; sourced by lib.sh. For calls that take a few
# microseconds: from one run of some seconds to the next the speed of a shared machine changes by
# more than the differences to be measured. Here each case has a database of its own on one server,
# and a pgbench, which is stopped (SIGSTOP) while the other cases have their turn. So a slow second
# is shared by all. A case with redis.conf has a Redis server, and a redis-benchmark, and the server
# reports how much it has done.
#
# First each case has WARM_SECONDS that do not count: a new session takes a fault for each page of shared memory that it sees
# for the first time, which takes as long as a call here, and sessions are pooled where calls are as quick as these.

# turns_begin PART: the server with the settings of cases/PART/turns.conf, and the databases bench_NAME
turns_begin() {
    local name lines
    use_settings "bench/cases/$1/turns.conf"
    for name in $(cases_of "$1"); do
        if [[ -e bench/cases/$1/$name/redis.conf ]]; then
            mapfile -t lines <"bench/cases/$1/$name/redis.conf"
            start_redis "${lines[@]}"
            continue
        fi
        sql postgres "SET client_min_messages = error; DROP DATABASE IF EXISTS \"bench_$name\" WITH (FORCE);"
        sql postgres "CREATE DATABASE \"bench_$name\";"
        sql "bench_$name" 'CREATE EXTENSION dcounter;'
        sql "bench_$name" "$(cat "bench/cases/$1/$name/setup.sql")" >/dev/null
        sql "bench_$name" 'VACUUM ANALYZE;'
    done
    sql postgres 'CHECKPOINT;'
}

turns_end() {
    local name
    for name in $(cases_of "$1"); do
        if [[ -e bench/cases/$1/$name/redis.conf ]]; then
            stop_redis
        else
            sql postgres "DROP DATABASE \"bench_$name\" WITH (FORCE);"
        fi
    done
}

# turns_start FOLDER DATABASE CLIENTS SECONDS LOG: a pgbench that is stopped as soon as all its clients are connected; sets
# turns_pid
turns_start() {
    if [[ -e $1/redis.conf ]]; then
        turns_start_redis "$1" "$3"
        return
    fi
    rm -f "$5".[0-9]*
    "$BINDIR/pgbench" -n -M prepared --failures-detailed --max-tries=1 --log --aggregate-interval=1 --log-prefix="$5" \
        -f "$1/run.sql" -c "$3" -j 2 -T "$4" "$2" >"$5" 2>&1 &
    turns_pid=$!
    while [[ $(sql postgres "SELECT count(*) FROM pg_stat_activity WHERE datname = '$2' AND application_name = 'pgbench';") != "$3" ]]; do
        kill -0 "$turns_pid" 2>/dev/null || die "$(cat "$5")"
        sleep 0.02
    done
    kill -STOP "$turns_pid"
}

# turns_start_redis FOLDER CLIENTS: the same, calls of script.lua; sets turns_redis, how many there were before
turns_start_redis() {
    local socket=$DC_WORK/redis/socket sha
    sha=$(redis-cli -s "$socket" SCRIPT LOAD "$(cat "$1/script.lua")")
    [[ $(redis-cli -s "$socket" EVALSHA "$sha" 1 key | head -n 1) == [01] ]] || die 'the script failed'
    redis-benchmark -s "$socket" -c "$2" -n 1000000000 -q EVALSHA "$sha" 1 key >/dev/null 2>&1 &
    turns_pid=$!
    until [[ $(redis-cli -s "$socket" INFO clients | tr -d '\r' | sed -n 's/^connected_clients://p') -ge $2 ]]; do
        kill -0 "$turns_pid" 2>/dev/null || die 'redis-benchmark does not run'
        sleep 0.02
    done
    kill -STOP "$turns_pid"
    turns_redis=$(redis_calls)
}

redis_calls() {
    redis-cli -s "$DC_WORK/redis/socket" INFO commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\),.*/\1/p'
}

# turns_warm FOLDER: warms up the process turns_pid; sets turns_warmed, the second in which that
# ended. Counting begins in a later second.
turns_warm() {
    kill -CONT "$turns_pid"
    sleep "$WARM_SECONDS"
    kill -STOP "$turns_pid"
    turns_warmed=$(date +%s)
    [[ ! -e $1/redis.conf ]] || turns_redis=$(redis_calls)
}

# turns_result FOLDER DATABASE LOG WARMED: the end of what turns_start has started; sets transactions, and counts them in turns_counted
# shellcheck disable=SC2154 # read_pgbench sets them
turns_result() {
    local name
    if [[ -e $1/redis.conf ]]; then
        transactions=$(($(redis_calls) - turns_redis))
        kill -KILL "$turns_pid"
        wait "$turns_pid" 2>/dev/null || true
        return
    fi
    name=$(basename "$1")
    # it takes this as the end of its time, as from its own timer
    kill -ALRM "$turns_pid"
    kill -CONT "$turns_pid"
    wait "$turns_pid" || die "$(cat "$3")"
    read_pgbench "$3"
    [[ $serialization == 0 && $deadlocks == 0 ]] || die "$name: $serialization serialization failures, $deadlocks deadlocks"
    turns_counted[$name]=$((${turns_counted[$name]:-0} + transactions))
    [[ ! -e $1/count.sql || $(sql "$2" "$(cat "$1/count.sql")") == "${turns_counted[$name]}" ]] ||
        die "$name: ${turns_counted[$name]} transactions committed, not as many counted"
    transactions=$((transactions - $(cat "$3".[0-9]* | awk -v warmed="$4" '$1 <= warmed { n += $2 } END { print n + 0 }')))
}

# run_turns PART CLIENTS: each case, ROUNDS times; a round is TURNS turns of each
run_turns() {
    local part=$1 clients=$2 names pids warmed round turn i name total
    declare -A turns_counted=()
    mapfile -t names < <(cases_of "$part")
    turns_begin "$part"
    # until then no pgbench ends by itself
    total=$(awk -v n="${#names[@]}" -v t="$TURNS" -v s="$TURN_SECONDS" -v w="$WARM_SECONDS" 'BEGIN { printf "%d", n * (t * s * 1.1 + w + 15) + 30 }')
    for ((round = 1; round <= ROUNDS; round++)); do
        pids=()
        warmed=()
        for name in "${names[@]}"; do
            turns_start "bench/cases/$part/$name" "bench_$name" "$clients" "$total" "$DC_WORK/turns_$name.log"
            pids+=("$turns_pid")
        done
        for ((i = 0; i < ${#names[@]}; i++)); do
            turns_pid=${pids[i]}
            turns_warm "bench/cases/$part/${names[i]}"
            warmed+=("$turns_warmed")
        done
        sleep 1
        for ((turn = 1; turn <= TURNS; turn++)); do
            for ((i = 0; i < ${#names[@]}; i++)); do
                kill -CONT "${pids[(i + turn) % ${#names[@]}]}"
                sleep "$TURN_SECONDS"
                kill -STOP "${pids[(i + turn) % ${#names[@]}]}"
            done
        done
        for ((i = 0; i < ${#names[@]}; i++)); do
            turns_pid=${pids[i]}
            turns_result "bench/cases/$part/${names[i]}" "bench_${names[i]}" "$DC_WORK/turns_${names[i]}.log" "${warmed[i]}"
            # shellcheck disable=SC2034 # record_rate takes it
            rate=$(awk -v n="$transactions" -v t="$TURNS" -v s="$TURN_SECONDS" 'BEGIN { print n / (t * s) }')
            record_rate "$part" "${names[i]}" "$clients" "$round"
        done
    done
    turns_end "$part"
}
