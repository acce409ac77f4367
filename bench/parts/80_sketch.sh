#!/usr/bin/env bash
# Sketches against postgresql-hll of the same precision and against plain
# aggregates: the statements of cases/sketch/NAME/SIDE.sql, each timed in
# interleaved rounds; what is stored, memory, and sizes. No statement is
# parallel, and tables are in shared memory.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/sketch
groups_50=$((SKETCH_ROWS / 50))
groups_10=$((SKETCH_ROWS / 5))

# timed STATEMENTS [BEFORE]: sets seconds, of the first one, and answer, of the
# last. Both libraries are loaded before, as they are in sessions that last, and
# the statements BEFORE are run.
timed() {
    local output
    output=$(sql bench "LOAD 'dcounter'; LOAD 'hll';
        ${2:-}
        \\timing on
        $1")
    seconds=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output" | awk 'NR == 1 { print $1 / 1000 }')
    answer=$(grep -v '^Time: ' <<<"$output" | tail -n 1)
}

# near NUMBER: ends the script unless the answer is within five standard errors
near() {
    awk -v a="$answer" -v n="$1" 'BEGIN { exit !(a > 0.95 * n && a < 1.05 * n) }' ||
        die "$2: the answer is '$answer', not about $1"
}

# race NAME ANSWER: all sides of a case. Round 0 is not recorded.
race() {
    local name=$1 sides=() before='' file side round i
    chosen "$name" || return 0
    for file in "$folder/$name"/*.sql; do
        side=$(basename "$file" .sql)
        [[ $side == reset || $side == before ]] || sides+=("$side")
    done
    for ((round = 0; round <= SKETCH_ROUNDS; round++)); do
        for ((i = 0; i < ${#sides[@]}; i++)); do
            side=${sides[(i + round) % ${#sides[@]}]}
            if [[ -e $folder/$name/reset.sql ]]; then
                sql bench "$(cat "$folder/$name/reset.sql")"
            fi
            [[ ! -e $folder/$name/before.sql ]] || before=$(cat "$folder/$name/before.sql")
            timed "$(cat "$folder/$name/$side.sql")" "$before"
            [[ $side == sum ]] || near "$2" "$name/$side"
            [[ $round -gt 0 ]] || continue
            record sketch "$name" "$side" seconds "$round" "$seconds"
            say 'sketch, round %d, %-16s %-12s %8.3f s' "$round" "$name" "$side" "$seconds"
        done
    done
}

# table_of NAME QUERY: a table, analysed and in memory
table_of() {
    sql bench "CREATE TABLE $1 AS $2;" && sql bench "VACUUM ANALYZE $1; SELECT pg_prewarm('$1');" >/dev/null
}

# hash_memory STATEMENT: sets kilobytes, the peak of its hash aggregate, which
# must not have gone to disk
hash_memory() {
    local plan
    plan=$(sql bench "SET work_mem = '2GB'; SET enable_sort = off; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $1")
    kilobytes=$(sed -n 's/.*Batches: 1  Memory Usage: \([0-9]*\)kB.*/\1/p' <<<"$plan")
    [[ -n $kilobytes ]] || die "not a hash aggregate in memory: $plan"
}

# stored SIDE TABLE: bytes of a value and of the whole table, a group
stored() {
    record sketch_memory stored "$1" value_bytes 1 "$(sql bench "SELECT round(avg(pg_column_size(h)), 1) FROM $2;")"
    record sketch_memory stored "$1" table_bytes 1 "$(sql bench "SELECT pg_table_size('$2') / $groups_50;")"
}

# memory SIDE GROUPS STATEMENT: of a hash aggregate over so many groups
memory() {
    hash_memory "$3"
    record sketch_memory hash_aggregate "$1" mb 1 "$(awk -v k="$kilobytes" 'BEGIN { print k / 1024 }')"
    record sketch_memory hash_aggregate "$1" group_bytes 1 "$((kilobytes * 1024 / $2))"
    say 'sketch, %s: %d kB for %d groups of 10' "$1" "$kilobytes" "$2"
}

# size SIDE ITEMS SETS AGGREGATE: bytes of the largest of so many sets
size() {
    local bytes
    bytes=$(sql bench "CREATE TEMP TABLE sizes AS
        SELECT $4 AS h FROM generate_series(1, $3::bigint) AS s, generate_series(1, $2::bigint) AS i GROUP BY s;
        SELECT max(pg_column_size(h)) FROM sizes;")
    [[ $largest -ge $bytes ]] || largest=$bytes
    [[ -z ${5:-} ]] || record sketch_size "$1" "$2" bytes 1 "$bytes"
}

# sizes SIDE AGGREGATE: of some numbers of items, and the largest of any number,
# for which those between are tried in steps of a seventh
sizes() {
    local n k largest=0
    for n in 10 100 1000 10000 100000 1000000 10000000; do
        [[ $n -le $((2 * SKETCH_ROWS)) ]] || continue
        size "$1" "$n" $((n > 100000 ? 1 : n > 1000 ? 5 : 100)) "$2" show
        for ((k = n * 8 / 7; k < n * 10 && k < SKETCH_ROWS; k = k * 8 / 7)); do
            size "$1" "$k" 1 "$2"
        done
    done
    record sketch_size "$1" any bytes 1 "$largest"
    say 'sketch, %s: at most %d bytes' "$1" "$largest"
}

fresh_database "$folder"
# Different numbers of up to 7 digits, in no order
number="(i * 2654435761) % $SKETCH_ROWS"
table_of numbers "SELECT $number AS x FROM generate_series(1, $SKETCH_ROWS::bigint) AS i"
table_of texts "SELECT 'user:' || lpad(x::text, 9, '0') AS x FROM numbers"
table_of groups_50 "SELECT (x % $groups_50)::int AS g, x FROM numbers"
race 10_bigint "$SKETCH_ROWS"
race 20_text "$SKETCH_ROWS"
race 30_groups "$groups_50"

table_of sparse_dc 'SELECT g, dc_hll_agg(x) AS h FROM groups_50 GROUP BY g'
table_of sparse_hll 'SELECT g, hll_add_agg(hll_hash_bigint(x), 14) AS h FROM groups_50 GROUP BY g'
stored dc_hll sparse_dc
stored hll sparse_hll
race 40_union_sparse "$SKETCH_ROWS"
sql bench 'DROP TABLE sparse_dc, sparse_hll, texts;'

# A hundred copies of each
table_of dense_dc "SELECT b, h FROM (SELECT x / 50000 AS b, dc_hll_agg(x) AS h FROM numbers GROUP BY b) AS bases, generate_series(1, 100)"
table_of dense_hll "SELECT b, h FROM (SELECT x / 50000 AS b, hll_add_agg(hll_hash_bigint(x), 14) AS h FROM numbers GROUP BY b) AS bases, generate_series(1, 100)"
race 50_union_dense "$SKETCH_ROWS"
sql bench 'DROP TABLE dense_dc, dense_hll;'

table_of groups_10 "SELECT (x % $groups_10)::int AS g, x FROM numbers UNION ALL SELECT (x % $groups_10)::int, -x FROM numbers"
if chosen memory; then
    memory dc_hll "$groups_10" 'SELECT g, dc_hll_agg(x) FROM groups_10 GROUP BY g'
    # As many groups would not fit into any memory
    memory hll "$((groups_10 / 500))" "SELECT g, hll_add_agg(hll_hash_bigint(x), 14) FROM groups_10 WHERE g < $groups_10 / 500 GROUP BY g"
fi
sql bench 'DROP TABLE groups_10, groups_50;'

if chosen size; then
    sizes dc_hll_12 'dc_hll_agg(s * 100000000 + i, 12)'
    sizes dc_hll_14 'dc_hll_agg(s * 100000000 + i, 14)'
    sizes hll_14 'hll_add_agg(hll_hash_bigint(s * 100000000 + i), 14)'
fi

table_of million_dc 'SELECT dc_hll_agg(-i) AS h FROM generate_series(1, 1000000) AS i'
table_of million_hll 'SELECT hll_add_agg(hll_hash_integer(-i), 14) AS h FROM generate_series(1, 1000000) AS i'
race 60_variable 20000
race 70_row_new 20000
race 80_row_million 1020000

# w1, w2, ...: Zipf's law with exponent 1, as near as matters. w1 is a twentieth.
table_of words "SELECT 'w' || floor(1000000 ^ random()) AS word
    FROM setseed(0.5), generate_series(1, $SKETCH_ROWS)"
most=$(sql bench "SELECT count(*) FROM words WHERE word = 'w1';")
race 90_cms "$most"
race 95_topk "$most"
