#!/usr/bin/env bash
# BULK_ROWS events of 1,000 keys counted by one statement: GROUP BY, which stores
# nothing, against dc_incr, commit included. Planner and executor settings are the
# defaults, so that the GROUP BY may be parallel.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

# The aggregates around the statements spare both the sending of rows.
group_by='SELECT sum(n) FROM (SELECT page, count(*) AS n FROM events GROUP BY page) AS pages;'
dc_incr="SELECT count(dc_incr('hits', page)) FROM events;"

# timed STATEMENT: sets seconds; the statement must return BULK_ROWS
timed() {
    local output
    output=$(sql bench "\\timing on
        $1")
    [[ $(head -n 1 <<<"$output") == "$BULK_ROWS" ]] || die "not $BULK_ROWS rows: $output"
    seconds=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output" | awk '{ print $1 / 1000 }')
}

# fresh_counter: an empty counter table hits
fresh_counter() {
    sql bench "SET client_min_messages = warning; DROP TABLE IF EXISTS hits;
        SELECT dc_create('hits'); CHECKPOINT;" >/dev/null
}

# check_hits: each page has its count, and nothing else has one
check_hits() {
    local wrong
    wrong=$(sql bench "SELECT count(*) FROM (SELECT page, count(*) AS n FROM events GROUP BY page) AS pages
        WHERE dc_get('hits', page) <> n;")
    [[ $wrong == 0 ]] || die "bulk: $wrong of the pages have a wrong count"
    wrong=$(sql bench "SELECT dc_sum('hits') - $BULK_ROWS;")
    [[ $wrong == 0 ]] || die "bulk: the sum of all pages is $wrong off"
}

fresh_database bench/cases/bulk
sql bench "INSERT INTO events SELECT '/page/' || floor(random() * 1000)
    FROM generate_series(1, $BULK_ROWS); VACUUM ANALYZE events;"
# Round 0 brings the table into memory.
for ((round = 0; round <= BULK_ROUNDS; round++)); do
    timed "$group_by"
    group_by_seconds=$seconds
    fresh_counter
    timed "$dc_incr"
    check_hits
    [[ $round -gt 0 ]] || continue
    record bulk group_by any seconds "$round" "$group_by_seconds"
    record bulk dc_incr any seconds "$round" "$seconds"
    say 'bulk, round %d: GROUP BY %.2f s, dc_incr %.2f s' "$round" "$group_by_seconds" "$seconds"
done
