#!/usr/bin/env bash
# Counters that merge against jsonb of the same size: the statements of
# cases/crdt_counters/NAME/SIDE.sql in interleaved rounds, by the processor time of the session, so
# that other work of the machine matters less. The time for reading the table (read_SIDE.sql) is
# subtracted where single calls are compared. No statement is parallel, and tables are in shared
# memory.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/crdt_counters
pairs=$((CRDT_ROWS / 10))

# timed STATEMENT: sets us, processor time, and answer
timed() {
    local output
    output=$(sql bench "LOAD 'dcounter';
        SELECT cpu_us() AS before \\gset
        $1
        SELECT cpu_us() - :before;")
    us=$(tail -n 1 <<<"$output")
    answer=$(head -n 1 <<<"$output")
}

# race NAME ROWS ANSWER: all sides of a case, each with that answer. Round 0 is not recorded.
race() {
    local name=$1 sides=() file side round i
    chosen "$name" || return 0
    for file in "$folder/$name"/*.sql; do
        sides+=("$(basename "$file" .sql)")
    done
    for ((round = 0; round <= CRDT_ROUNDS; round++)); do
        for ((i = 0; i < ${#sides[@]}; i++)); do
            side=${sides[(i + round) % ${#sides[@]}]}
            timed "$(cat "$folder/$name/$side.sql")"
            [[ $answer == "$3" ]] || die "$name/$side: the answer is '$answer', not '$3'"
            [[ $round -gt 0 ]] || continue
            record crdt_counters "$name" "$side" row_us "$round" "$(divided "$us" "$2")"
            say 'crdt_counters, round %d, %-16s %-12s %8.3f us' "$round" "$name" "$side" "$(recorded)"
        done
    done
}

# median_of NAME SIDE: of the rounds
median_of() {
    awk -F '\t' -v n="$1" -v s="$2" '$1 == "crdt_counters" && $2 == n && $3 == s && $4 == "row_us" { print $6 }' "$RESULTS" |
        sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# call NAME SIDE READING: microseconds of a call, without what reading a row takes
call() {
    chosen "$1" || return 0
    record crdt_counters "$1" "$2" call_us 1 "$(awk -v a="$(median_of "$1" "$2")" -v b="$(median_of "$1" "$3")" 'BEGIN { print a - b }')"
    say 'crdt_counters, %s, %s: %s us a call' "$1" "$2" "$(recorded)"
}

# table_of NAME QUERY: a table, analysed and in memory
table_of() {
    sql bench "CREATE TABLE $1 AS $2;" && sql bench "VACUUM ANALYZE $1; SELECT pg_prewarm('$1');" >/dev/null
}

fresh_database "$folder"
# Each side has seen more of half of the nodes.
table_of pairs_jsonb "SELECT a, b FROM generate_series(1, $pairs) AS i,
    LATERAL (SELECT jsonb_object_agg('eu-west-' || n, 1000000 + (i * n) % 99991 + i % 2 * n % 2) AS a,
        jsonb_object_agg('eu-west-' || n, 1000000 + (i * (n + 1)) % 99991) AS b FROM generate_series(1, 10) AS n) AS nodes"
table_of pairs_dc 'SELECT a::text::dc_gcounter AS a, b::text::dc_gcounter AS b FROM pairs_jsonb'
[[ $(sql bench "SELECT count(*) FROM (SELECT row_number() OVER () AS i, dc_merge(a, b)::jsonb AS m FROM pairs_dc) AS d
        JOIN (SELECT row_number() OVER () AS i, merge_sql(a, b) AS m FROM pairs_jsonb) AS j USING (i) WHERE d.m = j.m;") == "$pairs" ]] ||
    die 'the merges differ'
race 10_merge "$pairs" "$pairs"
call 10_merge dc_merge read_dc
for side in concat sql plpgsql; do
    call 10_merge "$side" read_jsonb
done
sql bench 'DROP TABLE pairs_jsonb, pairs_dc;'

table_of counters_jsonb "SELECT jsonb_build_object('eu', 1 + (i * 2654435761) % 1000003, 'us', i, 'asia', 1 + (i * 40503) % 999983) AS c FROM generate_series(1, $CRDT_ROWS::bigint) AS i"
table_of counters_dc 'SELECT c::text::dc_gcounter AS c FROM counters_jsonb'
race 20_aggregate "$CRDT_ROWS" "$(sql bench "$(cat "$folder/20_aggregate/group_by.sql")")"
