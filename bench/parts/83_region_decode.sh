#!/usr/bin/env bash
# The cost for a walsender of increments that it does not send, which limits how much a region can
# count: transactions of one increment by 16 clients, of 100 in one, and rows that are published by
# compaction; by the processor time of a walsender that sends to pg_recvlogical. With one key, and
# with 100,000.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

script=$DC_WORK/decode.sql

# decode CASE ROUND COUNT: records what that takes a walsender for each of COUNT
decode() {
    local lsn receiver sender us
    lsn=$(sql bench 'SELECT pg_current_wal_lsn();')
    "$BINDIR/pg_recvlogical" -d bench -S decode --start -f /dev/null -o proto_version=3 -o publication_names=dcounter_own 2>"$DC_WORK/recvlogical.err" &
    receiver=$!
    until [[ $(sql bench "SELECT count(*) FROM pg_stat_replication WHERE sent_lsn >= '$lsn';") == 1 ]]; do
        kill -0 "$receiver" 2>/dev/null || die 'pg_recvlogical has ended'
        sleep 0.05
    done
    sender=$(sql bench 'SELECT pid FROM pg_stat_replication;')
    us=$(cpu_of "$sender")
    kill -INT "$receiver"
    wait "$receiver" || die 'pg_recvlogical failed'
    while [[ $(sql bench 'SELECT active FROM pg_replication_slots;') == t ]]; do sleep 0.05; done
    sql bench "SELECT pg_replication_slot_advance('decode', '$lsn');" >/dev/null # nothing is read twice
    record region_decode "$1" any rate "$2" "$(awk -v us="$us" -v n="$3" 'BEGIN { print n * 1000000 / us }')"
    say 'region_decode, round %d, %-22s %8.0f a second of processor time' "$2" "$1" "$(recorded)"
}

# increments CASE ROUND SCRIPT EACH: of a script with EACH increments a transaction
increments() {
    echo "$3" >"$script"
    run_pgbench "$script" 16 "$SECONDS_PER_RUN"
    # shellcheck disable=SC2154 # run_pgbench sets them
    decode "$1" "$2" $((transactions * $4))
}

for ((round = 1; round <= ROUNDS; round++)); do
    fresh_database bench/cases/region_compact/20_replicated
    sql bench "SELECT pg_create_logical_replication_slot('decode', 'pgoutput');" >/dev/null
    increments one_key "$round" "SELECT dc_incr('likes', 'post:42');" 1
    increments many_keys "$round" "\\set key random(1, 100000)
SELECT dc_incr('likes', 'post:' || :key);" 1
    increments many_keys_100 "$round" "SELECT count(dc_incr('likes', 'post:' || (100000 * random())::int)) FROM generate_series(1, 100);" 100
    rows=$(sql bench 'SELECT count(DISTINCT key) FROM likes_shard;')
    sql bench "$(yes "SELECT dc_compact('likes', 1000);" | head -n $((rows / 1000 + 1)))" >/dev/null
    decode compacted "$round" "$rows"
    sql bench "SELECT pg_drop_replication_slot('decode');" >/dev/null
done
