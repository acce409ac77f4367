#!/usr/bin/env bash
# The live page of examples/live, by its server and clients of it (bench/live.mjs), with the default settings and with those of
# make live: how long after a click another client is notified; and how long after the database
# begins to restart, or has crashed and begins to start, the page is live again. Without a browser,
# which test/t/examples/live.pl and live_restart.pl test.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

if ! command -v node >/dev/null || [[ ! -e examples/live/node_modules/ws ]]; then
    say 'live: no node, or no npm packages in examples/live: left out'
    exit
fi
server='' watcher=''
trap '[[ -z $server ]] || kill "$server"; [[ -z $watcher ]] || kill "$watcher"' EXIT

# start_live: the server of the page; sets url and server
start_live() {
    local out=$DC_WORK/live.out
    : >"$out"
    PGUSER=web PGDATABASE=bench PORT=0 node examples/live/server.mjs >"$out" 2>&1 &
    server=$!
    until grep -q '^http' "$out"; do
        kill -0 "$server" || die "$(cat "$out")"
        sleep 0.1
    done
    url=$(grep '^http' "$out")
}

stop_live() {
    kill "$server"
    wait "$server" || true
    server=''
}

# restarted_after MODE: sets seconds, from the beginning of a restart in this mode until a socket is told that the page is live; and
# after, how many of them since the database accepts connections
restarted_after() {
    local begin=$EPOCHREALTIME accepts live=''
    "$BINDIR/pg_ctl" -D "$DC_DATA" -l "$DC_LOG" -w -t 120 -m "$1" restart >/dev/null
    accepts=$EPOCHREALTIME
    until [[ -n $live ]]; do
        sleep 0.1
        live=$(awk -v b="$begin" '$1 == "away" && $2 >= b { away = 1 } away && $1 == "live" { print $2; exit }' "$DC_WORK/restarts")
    done
    seconds=$(awk -v a="$begin" -v b="$live" 'BEGIN { print b - a }')
    after=$(awk -v a="$accepts" -v b="$live" 'BEGIN { print (b > a ? b - a : 0) }')
}

for ((round = 1; round <= LIVE_ROUNDS; round++)); do
    for name in 10_default 20_200_ms; do
        fresh_database "bench/cases/live/$name"
        start_live
        node bench/live.mjs delays "$url" 50 "$LIVE_SECONDS" | sort -n >"$DC_WORK/delays"
        for percent in 50 99; do
            record live "$name" any "p$percent" "$round" \
                "$(awk -v p="$percent" '{ d[NR] = $1 } END { print d[int(NR * p / 100 + 0.5)] / 1000 }' "$DC_WORK/delays")"
            say 'live, round %d, %-10s p%d: %.2f s of %d clicks' "$round" "$name" "$percent" "$(recorded)" "$(wc -l <"$DC_WORK/delays")"
        done
        stop_live
    done

    start_live
    node bench/live.mjs restarts "$url" >"$DC_WORK/restarts" &
    watcher=$!
    sleep 2 # it is connected then
    for mode in fast immediate fast immediate; do
        restarted_after "$mode"
        record live restart "$mode" seconds "$round" "$seconds"
        record live restart "$mode" after "$round" "$after"
        say 'live, round %d, %-10s live again after %.2f s, %.2f s after connections are accepted' "$round" "$mode" "$seconds" "$after"
    done
    kill "$watcher"
    wait "$watcher" || true
    watcher=''
    stop_live
done
