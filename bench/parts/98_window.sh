#!/usr/bin/env bash
# Windowed counters: counting and reading against a plain counter, and dropping rows against a
# DELETE of as many, and against the TRUNCATE of a plain table.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_turns window 64
run_turns window_keys 64
run_cases window_read 1

# seconds_of STATEMENT, in a session of its own
seconds_of() {
    sql bench "\\timing on
        $1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | awk '{ s += $1 } END { print s / 1000 }'
}

# retention ROUND: rows of buckets whose time is up a day from now. Each table has been written out
# to disk before, as it is when its time comes. A plain table with the same keys shows what the server's part is.
retention() {
    local name statement
    for name in 10_delete 20_truncate 30_rotate; do
        fresh_database "bench/cases/retention/$name"
        sql bench "CALL fill($WINDOW_ROWS); CHECKPOINT;" >/dev/null
        statement=$(cat "bench/cases/retention/$name/run.sql")
        record retention "$name" any seconds "$1" "$(seconds_of "$statement")"
        say 'retention, %d rows, round %d, %-12s %.2f s' "$WINDOW_ROWS" "$1" "$name" "$(recorded)"
    done
}

for ((round = 1; round <= WINDOW_ROUNDS; round++)); do
    retention "$round"
done
