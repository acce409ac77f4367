#!/usr/bin/env bash
# Idempotent increments, 16 clients: new events against dc_incr and against a table with a unique
# index. Then replays: ONCE_EVENTS new events, all of them nine times more, each time in another
# order, and as many again of which each is sent ten times at once, by different clients. The total
# must be exact.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases once 16

folder=bench/cases/replay
each=$((ONCE_EVENTS / 16))

# send SCRIPT TIMES: 16 clients, each TIMES times; n is the number of a client's
# transaction, from 0; sets rate
send() {
    local log=$DC_WORK/replay.log
    logged "$log" "pgbench failed on $1" "$BINDIR/pgbench" -n -M prepared --max-tries=1 --failures-detailed \
        -f "$folder/$1" -c 16 -j 2 -t "$2" -D n=-1 -D each="$each" bench
    read_pgbench "$log"
    # shellcheck disable=SC2154 # read_pgbench sets it
    [[ $transactions == $((16 * $2)) ]] || die "$1: $transactions transactions, not $((16 * $2))"
}

# check_total EVENTS: each of them has been counted once
check_total() {
    local counted
    counted=$(sql bench "SELECT dc_get('likes', 'post:42');")
    [[ $counted == "$1" ]] || die "replays: $1 events, $counted counted"
}

for ((round = 1; round <= ROUNDS; round++)); do
    fresh_database "$folder"
    send new.sql "$each"
    record replay new 16 rate "$round" "$rate"
    say 'replay, round %d: new events %.0f /s' "$round" "$rate"
    check_total $((each * 16))
    send again.sql $((each * 9))
    record replay again 16 rate "$round" "$rate"
    say 'replay, round %d: known events %.0f /s' "$round" "$rate"
    check_total $((each * 16))
    # as many events again
    send storm.sql $((each * 10))
    record replay storm 16 rate "$round" "$rate"
    say 'replay, round %d: each event ten times at once %.0f /s' "$round" "$rate"
    check_total $((each * 32))
    applied=$(sql bench 'SELECT last_value FROM applied;')
    [[ $applied == $((each * 16)) ]] || die "replays: $((each * 16)) events, $applied answers that one was applied"
done
# or the script would have ended
record replay total any wrong 1 0
