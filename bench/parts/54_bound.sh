#!/usr/bin/env bash
# The cost of a bound counter for the writers of its source: one-row inserts of one key by
# 16 clients, a COPY, and an UPDATE of a column that does not concern the counter. Against the
# same table without a trigger, with a hand-written trigger, and with a foreign key.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

rows=$DC_WORK/likes.copy

# counted CASE ROWS: ends the script unless the counter of a bound table has just these rows
counted() {
    [[ $1 == *_bound ]] || return 0
    [[ $(sql bench "SELECT dc_sum('post_likes'), count(*) FROM likes;") == "$2|$2" ]] ||
        die "$1: not $2 rows are counted"
}

# measure PART CASE ROUND ROWS STATEMENT: records how long the statement takes, the processor time
# of all server processes, and its WAL. Round 0 is for files and caches.
measure() {
    local part=$1 name=$2 round=$3 count=$4 lsn cpu seconds
    lsn=$(sql bench 'SELECT pg_current_wal_insert_lsn();')
    cpu=$(server_cpu)
    seconds=$(sql bench "\\timing on
        $5" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | awk '{ print $1 / 1000 }')
    # the postmaster has the session's time a moment after its end
    sleep 0.5
    cpu=$(awk -v a="$cpu" -v b="$(server_cpu)" -v n="$count" 'BEGIN { print (b - a) / n }')
    counted "$name" "$count"
    [[ $round -gt 0 ]] || return 0
    record "$part" "$name" any seconds "$round" "$seconds"
    record "$part" "$name" any cpu_us "$round" "$cpu"
    record "$part" "$name" any wal "$round" "$(sql bench "SELECT (pg_current_wal_insert_lsn() - '$lsn') / $count.0;")"
    say '%s, round %d, %-16s %.2f s, %.2f us of processor time a row' "$part" "$round" "$name" "$seconds" "$cpu"
}

# statement PART: what is measured
statement() {
    case $1 in
    bound_copy) echo "COPY likes (post_id, fan) FROM '$rows';" ;;
    bound_update) echo 'UPDATE likes SET seen = seen + 1;' ;;
    rollup_rows) echo "INSERT INTO comments (post_id, author_id, category, amount, at) SELECT abs(hashint4(i) % 1000), abs(hashint4(i + 7) % 5000), i % 20, i % 100, '2026-01-01'::timestamptz + i % 60 * interval '1 day' FROM generate_series(1, $BOUND_UPDATE_ROWS) AS i;" ;;
    esac
}

# run_part PART ROWS: its cases in turn, each round beginning with another
run_part() {
    local part=$1 count=$2 round names name i
    mapfile -t names < <(cases_of "$part")
    for ((round = 0; round <= BOUND_ROUNDS; round++)); do
        for ((i = 0; i < ${#names[@]}; i++)); do
            name=${names[(i + round) % ${#names[@]}]}
            fresh_database "bench/cases/$part/$name"
            if [[ $part == bound_update ]]; then
                sql bench "INSERT INTO likes (post_id, fan) SELECT i % 1000, i FROM generate_series(1, $count) AS i; VACUUM ANALYZE likes; CHECKPOINT;"
            fi
            measure "$part" "$name" "$round" "$count" "$(statement "$part")"
        done
    done
}

# above NAME: records the processor time of a row of rollup_rows that NAME costs above none, of each round
above() {
    local round
    for ((round = 1; round <= BOUND_ROUNDS; round++)); do
        record rollup_above "$1" any cpu_us "$round" "$(awk -F '\t' -v name="$1" -v round="$round" '
            $1 == "rollup_rows" && $4 == "cpu_us" && $5 == round { cpu[$2] = $6 } END { print cpu[name] - cpu["10_plain"] }' "$RESULTS")"
    done
}

run_costs_cases bound_insert 16

sql postgres "COPY (SELECT abs(hashint4(i) % 1000), i FROM generate_series(1, $BOUND_COPY_ROWS) AS i) TO '$rows';"
run_part bound_copy "$BOUND_COPY_ROWS"
rm "$rows"
run_part bound_update "$BOUND_UPDATE_ROWS"

# Roll-ups: several keys of a row, and keys of several columns.
run_costs_cases rollup_insert 16
run_part rollup_rows "$BOUND_UPDATE_ROWS"
for name in 20_key 30_pair 35_date; do above "$name"; done
