#!/usr/bin/env bash
# Presence: heartbeats and reads against SELECT 1 and a table; the worker's share of a core while
# members without heartbeats expire, PRESENCE_LEAVE of them per second.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_turns presence 64

folder=bench/cases/presence_expiry

# enter FROM COUNT: so many members, in rooms of a hundred
enter() {
    echo "SELECT count(dc_enter('chat', 'room ' || i / 100, 'member ' || i)) FROM generate_series($1, $1 + $2 - 1) AS i;"
}

# expired: how many have left
expired() {
    sql bench 'SELECT expired FROM dc_stat_presence;'
}

# All that leave in a second enter together, some seconds before, so that the worker is alone then.
for ((round = 1; round <= ROUNDS; round++)); do
    fresh_database "$folder"
    ttl=$((PRESENCE_SECONDS + 20))
    sql bench "SELECT dc_presence_alter('chat', '$ttl s'); ALTER SYSTEM SET dcounter.worker = on;"
    sql bench 'SELECT pg_reload_conf();' >/dev/null
    begin=$(date +%s.%N)
    for ((i = 0; i < PRESENCE_SECONDS; i++)); do
        enter $((i * PRESENCE_LEAVE + 1)) "$PRESENCE_LEAVE" | "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d bench >/dev/null
        # the next ones a second later
        sleep "$(awk -v b="$begin" -v i="$i" -v now="$(date +%s.%N)" 'BEGIN { left = b + i + 1 - now; print (left > 0 ? left : 0) }')"
    done
    [[ $(sql bench 'SELECT members FROM dc_stat_presence;') == $((PRESENCE_SECONDS * PRESENCE_LEAVE)) && $(expired) == 0 ]] ||
        die 'they have left too early'
    pid=$(sql postgres "SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'bench';")
    while [[ $(expired) == 0 ]]; do sleep 0.1; done
    first=$(expired)
    before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    start=$(date +%s.%N)
    sleep $((PRESENCE_SECONDS - 2))
    left=$(($(expired) - first))
    after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
    record presence_expiry dc_enter any left "$round" "$(divided "$left" "$seconds")"
    record presence_expiry dc_enter any percent "$round" "$(awk -v a="$before" -v b="$after" -v n="$left" -v each="$PRESENCE_LEAVE" 'BEGIN { print (b - a) / n * each }')"
    say 'presence, round %d: %.0f members a second leave, for %.1f %% of a core at %d' "$round" "$(divided "$left" "$seconds")" "$(recorded)" "$PRESENCE_LEAVE"
    sql postgres 'ALTER SYSTEM RESET dcounter.worker;'
done
sql postgres 'SELECT pg_reload_conf();' >/dev/null
