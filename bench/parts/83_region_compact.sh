#!/usr/bin/env bash
# Compaction of a replicated counter against that of one of a single database: keys that are counted once
# each, for the first time and again. Both servers' settings are alike; nobody else does anything. The
# processor time is that of the session that compacts.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

# compact CASE WHAT ROUND: records what that takes
compact() {
    local output us
    count_all "$REGION_ROWS"
    sql bench 'VACUUM likes_shard; CHECKPOINT;'
    output=$(sql bench "\\timing on
        SELECT cpu_us() AS before \\gset
        SELECT dc_compact('likes');
        SELECT cpu_us() - :before;")
    us=$(grep -v '^Time' <<<"$output" | tail -n 1)
    [[ $(grep -v '^Time' <<<"$output" | head -n 1) == "$REGION_ROWS" ]] || die "$1: not all is compacted"
    [[ $3 -gt 0 ]] || return 0
    record region_compact "$1" "$2" cpu_us "$3" "$(divided "$us" "$REGION_ROWS")"
    say 'region_compact, round %d, %-14s %-6s %5.2f us of processor time a key' "$3" "$1" "$2" "$(recorded)"
}

mapfile -t names < <(cases_of region_compact)
for ((round = 0; round <= ROUNDS; round++)); do
    for ((i = 0; i < ${#names[@]}; i++)); do
        name=${names[(i + round) % ${#names[@]}]}
        fresh_database "bench/cases/region_compact/$name"
        compact "$name" new "$round"
        compact "$name" known "$round"
    done
done
