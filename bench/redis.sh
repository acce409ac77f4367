# shellcheck shell=bash
# Running redis-benchmark against a Redis server of its own; sourced by lib.sh.
# The server writes its append-only file, as a counter needs it, and no dumps.

# start_redis LINE...: a server with an empty folder below DC_WORK and LINEs in its
# configuration. Sets redis_pid and redis_port; stop_redis ends it.
start_redis() {
    local folder=$DC_WORK/redis try
    rm -rf "$folder"
    mkdir -p "$folder"
    # Debian's redis-tools has the server under another name
    ln -s "$(find_redis)" "$folder/redis-server"
    for try in 1 2 3 4 5; do
        redis_port=$((20000 + (RANDOM + try) % 10000))
        printf '%s\n' 'bind 127.0.0.1' "port $redis_port" "unixsocket $folder/socket" "dir $folder" 'save ""' \
            'appendonly yes' "$@" >"$folder/redis.conf"
        "$folder/redis-server" "$folder/redis.conf" >"$folder/log" 2>&1 </dev/null &
        redis_pid=$!
        # shellcheck disable=SC2064 # this pid
        trap "kill $redis_pid 2>/dev/null; cleanup" EXIT
        until [[ $(redis-cli -s "$folder/socket" ping 2>/dev/null) == PONG ]]; do
            # another program may have the port
            kill -0 "$redis_pid" 2>/dev/null || continue 2
            sleep 0.05
        done
        return
    done
    cat "$folder/log" >&2
    die 'redis-server does not start'
}

stop_redis() {
    kill "$redis_pid"
    wait "$redis_pid" || true
    trap cleanup EXIT
    rm -rf "$DC_WORK/redis"
}

# run_redis FOLDER CLIENTS: INCR of one key, or script.lua with one, by the files of the case: redis.conf,
# and options of redis-benchmark (PORT and SOCKET stand for those of the server).
# Sets rate, in increments or calls a second.
run_redis() {
    local options requests=$REDIS_REQUESTS lines try
    mapfile -t lines <"$1/redis.conf"
    # else it would be over before it has begun
    [[ $(cat "$1/options") != *-P* ]] || requests=$((requests * 8))
    # a connection may fail, and then redis-benchmark gives up
    for try in 1 2 3; do
        start_redis "${lines[@]}"
        options=$(cat "$1/options")
        options=${options//PORT/-p $redis_port}
        options=${options//SOCKET/-s $DC_WORK/redis/socket}
        if [[ -e $1/script.lua ]]; then
            call_lua "$options" "$2" "$requests" "$1/script.lua"
        else
            call_redis "$options" "$2" "$requests"
        fi
        stop_redis
        [[ -z $rate ]] || return 0
        say '%s: try %d failed' "$1" "$try"
    done
    die "redis-benchmark's report has no rate"
}

# call_redis OPTIONS CLIENTS REQUESTS: sets rate, "" if it failed
# shellcheck disable=SC2034 # it is for the caller
call_redis() {
    local counted
    # shellcheck disable=SC2086 # a list
    rate=$(redis-benchmark $1 -c "$2" -n "$3" --csv -t incr | awk -F '"' '$2 == "INCR" { print $4 }') || rate=
    [[ -n $rate ]] || return 0
    counted=$(redis-cli -s "$DC_WORK/redis/socket" get counter:__rand_int__)
    # each connection may be ahead by what it has in its pipeline
    [[ $counted -ge $3 && $counted -lt $(($3 + $2 * 16)) ]] || die "Redis: $3 increments, $counted counted"
}

# call_lua OPTIONS CLIENTS REQUESTS SCRIPT: sets rate, "" if it failed
# shellcheck disable=SC2034 # it is for the caller
call_lua() {
    local sha
    sha=$(redis-cli -s "$DC_WORK/redis/socket" SCRIPT LOAD "$(cat "$4")")
    # shellcheck disable=SC2086 # a list
    rate=$(redis-benchmark $1 -c "$2" -n "$3" --csv EVALSHA "$sha" 1 key | awk -F '"' '$2 ~ /^[Ee][Vv][Aa][Ll]/ { print $4 }') || rate=
    [[ -n $rate ]] || return 0
    [[ $(redis-cli -s "$DC_WORK/redis/socket" EVALSHA "$sha" 1 key | head -n 1) == [01] ]] || die 'the script failed'
}
