#!/usr/bin/env bash
# Sets that are changed many times, and aggregates of sets: the statements of
# cases/crdt_sets/NAME, whole.sql against tenth.sql, which does a tenth of it (and against
# distinct.sql, without sets' aggregate), each timed in interleaved rounds. No statement is
# parallel, and tables are in shared memory.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/crdt_sets

# timed STATEMENT: sets seconds. Its answer must be t.
timed() {
    local output
    output=$(sql bench "LOAD 'dcounter';
        \\timing on
        $1")
    seconds=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output" | awk '{ print $1 / 1000 }')
    [[ $(grep -v '^Time: ' <<<"$output") == t ]] || die "$1: $output"
}

# race NAME: all sides of a case. Round 0 is not recorded.
race() {
    local name=$1 sides=() file side round i
    for file in "$folder/$name"/*.sql; do
        sides+=("$(basename "$file" .sql)")
    done
    for ((round = 0; round <= CRDT_ROUNDS; round++)); do
        for ((i = 0; i < ${#sides[@]}; i++)); do
            side=${sides[(i + round) % ${#sides[@]}]}
            timed "$(cat "$folder/$name/$side.sql")"
            [[ $round -gt 0 ]] || continue
            record crdt_sets "$name" "$side" seconds "$round" "$seconds"
            say 'crdt_sets, round %d, %-16s %-8s %8.3f s' "$round" "$name" "$side" "$seconds"
        done
    done
}

fresh_database "$folder"
for path in "$folder"/*/; do
    name=$(basename "$path")
    if chosen "$name"; then race "$name"; fi
done
