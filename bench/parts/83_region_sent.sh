#!/usr/bin/env bash
# Bytes that are sent to another region: for increments, and for keys that are compacted, with a row of
# this region already and without. Counts the output of pgoutput, plus the protocol's header of 30
# bytes for each message.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/region
header=30

# sent CASE BINARY PER: what was to be sent since the last time, in bytes for each of PER
sent() {
    local bytes messages format=text
    [[ $2 == false ]] || format=binary
    IFS='|' read -r messages bytes < <(sql bench "SELECT coalesce(sum(length(data)), 0), coalesce(sum(length(data) + $header), 0) FROM pg_logical_slot_get_binary_changes('sent', NULL, NULL,
        'proto_version', '3', 'binary', '$2', 'publication_names', 'dcounter_own');")
    record region_sent "$1" "$format" message_bytes 1 "$(divided "$messages" "$3")"
    record region_sent "$1" "$format" bytes 1 "$(divided "$bytes" "$3")"
    say 'region_sent, binary %-5s %-10s %6.1f bytes' "$2" "$1" "$(recorded)"
}

sql postgres 'ALTER SYSTEM SET dcounter.worker = off;'
restart
for binary in true false; do
    fresh_database "$folder"
    sql bench "SELECT pg_create_logical_replication_slot('sent', 'pgoutput');" >/dev/null
    count_all "$REGION_ROWS"
    sent increments "$binary" "$REGION_ROWS"
    sql bench "SELECT dc_compact('likes');" >/dev/null
    sent new "$binary" "$REGION_ROWS"
    count_all "$REGION_ROWS"
    sql bench "SELECT dc_compact('likes');" >/dev/null
    sent known "$binary" "$REGION_ROWS"
    sql bench "SELECT pg_drop_replication_slot('sent');" >/dev/null
done
sql postgres 'ALTER SYSTEM RESET dcounter.worker;'
restart
