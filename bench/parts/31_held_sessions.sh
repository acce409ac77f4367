#!/usr/bin/env bash
# The costs for a new session while a snapshot is held for HELD_SECONDS, 16 clients count
# one key, and others 2,000 new keys a second: a read, its first increment, and a round of
# compaction; before the snapshot, at its end, and when the writers have gone.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/held_sessions
sessions=9

# write SECONDS: both kinds of writers, in the background
write() {
    "$BINDIR/pgbench" -n -M prepared -f "$folder/run.sql" -c 16 -j 2 -T "$1" bench >"$DC_WORK/hot.log" 2>&1 &
    writers=$!
    "$BINDIR/pgbench" -n -M prepared -f "$folder/new.sql" -c 4 -R 2000 -T "$1" bench >"$DC_WORK/new.log" 2>&1 &
    others=$!
}

written() {
    wait "$writers" && wait "$others" || die "pgbench failed: $(cat "$DC_WORK/hot.log" "$DC_WORK/new.log")"
}

# measure WHEN ROUND: medians of several new sessions. They have run a first statement with another
# key before, to fill their caches.
measure() {
    local i
    for ((i = 0; i < sessions; i++)); do
        "$BINDIR/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d bench <<'SQL'
SET synchronous_commit = off;
SELECT timed($$SELECT dc_get('likes', 'other')$$) \g /dev/null
CALL timed_incr('other', NULL) \g /dev/null
SELECT 'get', timed($$SELECT dc_get('likes', 'post:42')$$);
SQL
        "$BINDIR/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d bench <<'SQL'
SET synchronous_commit = off;
SELECT timed($$SELECT dc_get('likes', 'other')$$) \g /dev/null
CALL timed_incr('other', NULL) \g /dev/null
CALL timed_incr('post:42', NULL) \gset
\echo incr|:ms
SELECT timed($$SELECT dc_compact('likes')$$) \g /dev/null
SELECT 'compact', timed($$SELECT dc_compact('likes')$$);
SQL
    done >"$DC_WORK/sessions.txt"
    for i in get incr compact; do
        record held_sessions dc_incr "$1" "${i}_ms" "$2" \
            "$(grep "^$i|" "$DC_WORK/sessions.txt" | cut -d '|' -f 2 | sort -g | sed -n "$(((sessions + 1) / 2))p")"
        say 'held_sessions, round %d, %-6s %s %.3f ms' "$2" "$1" "$i" "$(recorded)"
    done
}

for ((round = 1; round <= HELD_ROUNDS; round++)); do
    fresh_database "$folder"
    write "$((HELD_WINDOW + 5))"
    sleep 5
    measure before "$round"
    written
    hold "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT dc_sum('likes'); SELECT pg_sleep(3600);"
    write "$((HELD_SECONDS + 10))"
    sleep "$HELD_SECONDS"
    measure held "$round"
    written
    measure gone "$round"
    sql bench "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'PgSleep';" >/dev/null
    wait "$holder" || true
done
