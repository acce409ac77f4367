#!/usr/bin/env bash
# Counting the rows that a source has: a build against a GROUP BY of them; and 16 clients that insert
# while a session builds, while the worker builds, and while the worker verifies.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/bound_build

# The aggregate around it spares the sending of rows.
group_by='SELECT sum(n) FROM (SELECT post_id, count(*) AS n FROM likes GROUP BY post_id) AS posts;'

# seconds_of STATEMENT
seconds_of() {
    sql bench "\\timing on
        $1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | awk '{ print $1 / 1000 }'
}

# state: of the counter
state() {
    sql bench "SELECT state FROM dc_stat_drift WHERE counter = 'post_likes'::regclass;"
}

# check: ends the script unless the counter is exact
check() {
    local wrong
    [[ $(state) == exact ]] || die "$1: the counter is $(state)"
    wrong=$(sql bench "SELECT count(*) FROM dc_source_check('post_likes');")
    [[ $wrong == 0 ]] || die "$1: $wrong keys differ"
}

# build_once ROUND: round 0 brings the table into memory
build_once() {
    local plain serial build
    plain=$(seconds_of "$group_by")
    serial=$(seconds_of "SET max_parallel_workers_per_gather = 0; $group_by" | tail -n 1)
    sql bench "SELECT dc_create('post_likes'); SELECT dc_bind('post_likes', 'likes', key => 'post_id', build => 'none'); CHECKPOINT;" >/dev/null
    build=$(seconds_of "CALL dc_build('post_likes');")
    check build
    [[ $(sql bench "SELECT dc_sum('post_likes');") == "$BOUND_BUILD_ROWS" ]] || die 'build: not all rows are counted'
    sql bench "SELECT dc_unbind('post_likes'); SELECT dc_drop('post_likes');" >/dev/null
    [[ $1 -gt 0 ]] || return 0
    record bound_build group_by any seconds "$1" "$plain"
    record bound_build group_by_serial any seconds "$1" "$serial"
    record bound_build dc_build any seconds "$1" "$build"
    say 'bound_build, round %d: GROUP BY %.2f s (%.2f s without parallel workers), dc_build %.2f s' "$1" "$plain" "$serial" "$build"
}

# written: how many rows were inserted so far, and when that was, in microseconds
written() {
    sql bench "SELECT last_value, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM likes_id_seq;"
}

# rate_between A B: rows a second, from two answers of written
rate_between() {
    awk -v a="$1" -v b="$2" 'BEGIN { split(a, x, "|"); split(b, y, "|"); print (y[1] - x[1]) * 1000000 / (y[2] - x[2]) }'
}

# The work in the measured window. Each of these sets during, the rate of the writers at that time.

by_session() {
    local start=$SECONDS a
    a=$(written)
    until [[ $((SECONDS - start)) -ge $BOUND_SECONDS ]]; do
        sql bench "CALL dc_build('post_likes');"
    done
    during=$(rate_between "$a" "$(written)")
}

# Builds follow each other; what is measured is from the beginning of the worker's scan to the end.
by_worker() {
    local built inserted=0 us=0
    until [[ $us -ge $((BOUND_SECONDS * 1000000)) ]]; do
        sql bench "SELECT dc_unbind('post_likes'); SELECT dc_bind('post_likes', 'likes', key => 'post_id', build => 'worker', lock_timeout => '10 s');" >/dev/null
        built=$(sql bench 'SELECT * FROM built();')
        inserted=$((inserted + ${built%|*}))
        us=$((us + ${built#*|}))
    done
    during=$(divided "$((inserted * 1000000))" "$us")
}

rows_checked() {
    sql bench "SELECT rows_checked FROM dc_stat_drift WHERE counter = 'post_likes'::regclass;"
}

# The window begins when the worker does: it looks for work every few seconds.
verify() {
    local before start=$SECONDS a
    before=$(rows_checked)
    sql postgres 'ALTER SYSTEM SET dcounter.verify_rate = 20000;'
    sql postgres 'SELECT pg_reload_conf();' >/dev/null
    until [[ $(rows_checked) -gt $before ]]; do
        [[ $((SECONDS - start)) -lt 120 ]] || die 'verify: the worker checks nothing'
        sleep 0.2
    done
    before=$(rows_checked)
    a=$(written)
    sleep "$BOUND_SECONDS"
    during=$(rate_between "$a" "$(written)")
    sql postgres 'ALTER SYSTEM RESET dcounter.verify_rate;'
    sql postgres 'SELECT pg_reload_conf();' >/dev/null
    checked=$(($(rows_checked) - before))
}

# rate_alone: of the writers, for as long as a window
rate_alone() {
    local a
    a=$(written)
    sleep "$BOUND_SECONDS"
    rate_between "$a" "$(written)"
}

# writers NAME WHAT ROUND: the rate of 16 clients during WHAT, against the mean of before and after
# it
writers() {
    local name=$1 load before after
    "$BINDIR/pgbench" -n -M prepared -f "$folder/run.sql" -D "keys=$BOUND_KEYS" -c 16 -j 2 -T 3600 bench >"$DC_WORK/writers.out" 2>&1 &
    load=$!
    sleep 1
    before=$(rate_alone)
    "$2"
    after=$(rate_alone)
    kill -0 "$load" 2>/dev/null || die "writers: $(cat "$DC_WORK/writers.out")"
    kill "$load"
    wait "$load" 2>/dev/null || true
    until [[ $(sql postgres "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench';") == 0 ]]; do sleep 0.05; done
    check "$name"
    record bound_writers "$name" any ratio "$3" "$(awk -v r="$during" -v x="$before" -v y="$after" 'BEGIN { print 2 * r / (x + y) }')"
    say 'bound_writers, round %d, %-10s %.0f /s; before it %.0f, after it %.0f; ratio %.3f' "$3" "$name" "$during" "$before" "$after" "$(recorded)"
}

fresh_database "$folder"
sql bench "INSERT INTO likes (post_id, fan) SELECT abs(hashint4(i) % $BOUND_KEYS), i FROM generate_series(1, $BOUND_BUILD_ROWS) AS i; VACUUM ANALYZE likes; CHECKPOINT;"
for ((round = 0; round <= BOUND_BUILD_ROUNDS; round++)); do
    build_once "$round"
done

# build_sets ROUND: four grouping sets of two measures at once, against GROUP BY of the finest
build_sets() {
    local plain build
    plain=$(seconds_of "SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM (SELECT post_id, fan % 20, count(*), sum(fan) FROM likes GROUP BY 1, 2) AS finest;" | tail -n 1)
    sql bench "SELECT dc_create('post_likes'); SELECT dc_bind('post_likes', 'likes', key => 'post_id, fan % 20', value => '1 AS n, fan', group_by => 'CUBE (1, 2)', build => 'none'); CHECKPOINT;" >/dev/null
    build=$(seconds_of "CALL dc_build('post_likes');")
    check build_sets
    sql bench "SELECT dc_unbind('post_likes'); SELECT dc_drop('post_likes');" >/dev/null
    record bound_build group_by_finest any seconds "$1" "$plain"
    record bound_build dc_build_sets any seconds "$1" "$build"
    say 'bound_build, round %d: GROUP BY of the finest %.2f s, dc_build of four sets %.2f s' "$1" "$plain" "$build"
}

for ((round = 1; round <= BOUND_BUILD_ROUNDS; round++)); do
    build_sets "$round"
done

# Verifying goes by an index.
sql bench "CREATE INDEX ON likes (post_id); SELECT dc_create('post_likes'); SELECT dc_bind('post_likes', 'likes', key => 'post_id', build => 'now'); VACUUM ANALYZE likes; CHECKPOINT;" >/dev/null
during='' checked=''
for ((round = 1; round <= BOUND_ROUNDS; round++)); do
    writers dc_build by_session "$round"
    writers worker by_worker "$round"
    writers verify verify "$round"
    say 'bound_writers, round %d: %d rows a second verified' "$round" $((checked / BOUND_SECONDS))
done
