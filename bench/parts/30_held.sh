#!/usr/bin/env bash
# A snapshot held for HELD_SECONDS while 16 clients count one key: the rate second
# by second, and in the last HELD_WINDOW seconds the mean time to read the count;
# beside it the same without the snapshot. Also writes SERIES (case, with or
# without, second, rate).
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

clients=16

# open_snapshot FOLDER: a transaction that has read the count, and stays. Its
# psql reads from descriptor 3 and writes to 4.
open_snapshot() {
    local fifos
    fifos=$(mktemp -d -p "$DC_WORK")
    mkfifo "$fifos/in" "$fifos/out"
    "$BINDIR/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d bench <"$fifos/in" >"$fifos/out" &
    holder=$!
    exec 3>"$fifos/in" 4<"$fifos/out"
    rm -r "$fifos"
    echo 'BEGIN ISOLATION LEVEL REPEATABLE READ;' >&3
    ask_snapshot "$1"
    first=$answer
}

# ask_snapshot FOLDER: sets answer to the count in the snapshot
ask_snapshot() {
    cat "$1/count.sql" >&3
    read -r -t 120 answer <&4 || die "$1: the transaction with the snapshot has gone"
}

# close_snapshot FOLDER: it must still see what it saw first
close_snapshot() {
    ask_snapshot "$1"
    [[ $answer == "$first" ]] || die "$1: the snapshot saw '$first', then '$answer'"
    echo 'COMMIT;' >&3
    exec 3>&-
    wait "$holder" || die "$1: the transaction with the snapshot failed"
    exec 4<&-
}

# read_series LOG: "second rate" from pgbench's progress lines
read_series() {
    sed -n 's/^progress: \([0-9.]*\) s, \([0-9.]*\) tps.*/\1 \2/p' "$1"
}

# run_held NAME free|held ROUND
run_held() {
    local folder=bench/cases/one_key/$1 log=$DC_WORK/held.log writers last
    fresh_database "$folder"
    [[ $2 == free ]] || open_snapshot "$folder"
    "$BINDIR/pgbench" -n -M prepared --failures-detailed -f "$folder/run.sql" -c "$clients" -j 2 \
        -T "$HELD_SECONDS" -P 1 bench >"$log" 2>&1 &
    writers=$!
    sleep "$((HELD_SECONDS - HELD_WINDOW))"
    run_pgbench "$folder/count.sql" 1 "$HELD_WINDOW"
    # shellcheck disable=SC2154 # run_pgbench sets rate
    record held "$1" "$2" read_ms "$3" "$(awk -v r="$rate" 'BEGIN { print 1000 / r }')"
    wait "$writers" || {
        cat "$log" >&2
        die "pgbench failed on $folder/run.sql"
    }
    [[ $2 == free ]] || close_snapshot "$folder"
    read_pgbench "$log"
    # shellcheck disable=SC2154 # read_pgbench sets them
    [[ $serialization == 0 && $deadlocks == 0 ]] || die "$folder: transactions failed"
    # shellcheck disable=SC2154
    check_count "$folder" "$transactions"
    last=$(read_series "$log" | awk -v from="$((HELD_SECONDS - HELD_WINDOW))" '
        $1 > from + 0.5 { sum += $2 * ($1 - before); time += $1 - before }
        { before = $1 }
        END { if (time) print sum / time }')
    [[ -n $last ]] || die "$folder: pgbench reported no rate in the last $HELD_WINDOW seconds"
    record held "$1" "$2" rate "$3" "$rate"
    record held "$1" "$2" rate_last "$3" "$last"
    read_series "$log" | awk -v OFS='\t' -v name="$1" -v how="$2" '{ print name, how, int($1 + 0.5), $2 }' >>"$SERIES"
    say 'held, round %d, snapshot %s, %-20s %10.0f /s, at the end %.0f /s' "$3" "$2" "$1" "$rate" "$last"
}

mapfile -t names < <(cases_of one_key | grep -xE '10_update_one_row|20_update_own_row|40_sql_shards|50_dc_incr')
for ((round = 1; round <= HELD_ROUNDS; round++)); do
    for name in "${names[@]}"; do
        run_held "$name" free "$round"
        run_held "$name" held "$round"
    done
done
