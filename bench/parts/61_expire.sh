#!/usr/bin/env bash
# Keys that expire: the processor time to look at WORKER_KEYS keys of which none has, against a query that counts
# those that have; and to delete a hundredth of them.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

# took STATEMENT: the processor time of it, in us, by a session that has done it before
took() {
    sql bench "SELECT cpu_us() AS before \\gset
        $1;
        SELECT cpu_us() - :before;" | tail -n 1
}

for ((round = 1; round <= WORKER_ROUNDS; round++)); do
    fresh_database bench/cases/expire/dc_maintain
    sql bench "SELECT dc_load('visits', array_agg('page:' || k), array_agg(1)) FROM generate_series(1, $WORKER_KEYS) AS k;" >/dev/null
    sql bench 'VACUUM visits; CHECKPOINT;'
    count=$(took "SELECT count(*) FROM visits WHERE updated_at < now() - interval '90 days'")
    sweep=$(took 'CALL dc_maintain()')
    record expire dc_maintain any ms "$round" "$(awk -v us="$sweep" -v n="$WORKER_KEYS" 'BEGIN { print us * 1000 / n }')"
    ms=$(recorded)
    record expire dc_maintain any ratio "$round" "$(divided "$sweep" "$count")"
    ratio=$(recorded)
    sql bench "UPDATE visits SET updated_at = now() - interval '91 days' WHERE key ~ '00\$';" >/dev/null
    sweep=$(took 'CALL dc_maintain()')
    record expire dc_maintain any delete_us "$round" "$(divided "$sweep" "$((WORKER_KEYS / 100))")"
    [[ $(sql bench 'SELECT count(*) FROM visits;') == "$((WORKER_KEYS - WORKER_KEYS / 100))" ]] || die 'the wrong keys have expired'
    say 'expire, round %d: %.0f ms of processor time a million keys, %.2f of a query that counts them; %.0f us a key that has expired' \
        "$round" "$ms" "$ratio" "$(recorded)"
done
