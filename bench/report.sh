#!/usr/bin/env bash
# report.sh tables|page RESULTS: from the lines of "part, case, parameter, metric,
# round, value" (tabs) that bench.sh collects, the tables alone or the page
# doc/benchmarks.md. bench.sh calls it.
set -euo pipefail

# "part, case, title" of all cases, read once
titles=$(
    for folder in bench/cases/*/*/; do
        part=${folder%/*/}
        name=${folder%/}
        printf '%s\t%s\t%s\n' "${part##*/}" "${name##*/}" "$(<"$folder/title")"
    done
)

# table NAME RESULTS
table() {
    awk -F '\t' -v table="$1" -f bench/report/results.awk -f bench/report/tables.awk \
        <(echo "$titles") "$2" bench/bars.txt
}

tables() {
    local name
    for name in one_key zipf cold held five_keys once replay ledger bulk bound_insert bound_rows bound_build rollup_insert rollup_rows rollup_read worker million stock sold_out hold sketch sketch_stored sketch_size crdt_counters crdt_sets region_local region_apply region_sent region_decode outbox_write outbox_read buffer buffer_keys cached limit presence unread unread_mark sample trend trend_zipf trending rank rank_write budget budget_settle budget_refused window window_keys window_read retention distinct distinct_new distinct_hot mix flush bars; do
        printf '\n%s\n\n' "$name"
        table "$name" "$1"
    done
}

# synced_writes: how many 8 kB writes a second reach the disk, one after another
synced_writes() {
    local file=$DC_WORK/synced count=2000
    dd if=/dev/zero of="$file" bs=8k count="$count" conv=fsync 2>/dev/null
    dd if=/dev/zero of="$file" bs=8k count="$count" conv=notrunc oflag=dsync 2>&1 |
        awk -v n="$count" '/copied/ { for (i = 2; i <= NF; i++) if ($i == "s,") printf "%.0f", n / $(i - 1) }'
    rm "$file"
}

# grouped NUMBER: 1234567 as 1,234,567
grouped() {
    sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta' <<<"$1"
}

# fill RESULTS: page.md with its {{NAME}} filled in: a table of that name, or one
# of these
fill() {
    local line
    local -A facts=(
        [processor]="$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), $(nproc) cores"
        [memory]="$(awk '/^MemTotal/ { printf "%.1f GB", $2 / 1048576 }' /proc/meminfo)"
        [kernel]="$(uname -sr)"
        [file_system]="$(stat -f -c %T "$DC_DATA")"
        [postgres]="$("$BINDIR/postgres" --version)"
        [dcounter]="dcounter $(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" dcounter.control)"
        [synced_writes]="$(synced_writes)"
        [rounds]=$ROUNDS [seconds]=$SECONDS_PER_RUN [bulk_rounds]=$BULK_ROUNDS
        [held_rounds]=$HELD_ROUNDS [held_seconds]=$HELD_SECONDS [held_window]=$HELD_WINDOW
        [bound_rounds]=$BOUND_ROUNDS [bound_build_rounds]=$BOUND_BUILD_ROUNDS [bound_seconds]=$BOUND_SECONDS
        [bound_copy_rows]=$(grouped "$BOUND_COPY_ROWS")
        [bound_update_rows]=$(grouped "$BOUND_UPDATE_ROWS")
        [bound_build_rows]=$(grouped "$BOUND_BUILD_ROWS")
        [bound_keys]=$(grouped "$BOUND_KEYS")
        [worker_rounds]=$WORKER_ROUNDS [open_seconds]=$OPEN_SECONDS [last_rounds]=$LAST_ROUNDS
        [sketch_rounds]=$SKETCH_ROUNDS [crdt_rounds]=$CRDT_ROUNDS [crdt_rows]=$(grouped "$CRDT_ROWS") [crdt_pairs]=$(grouped $((CRDT_ROWS / 10)))
        [worker_load]="$(sed -n 's/^int dc_worker_load = \([0-9]*\);/\1 %/p' src/base/guc.c)"
        [ledger_seconds]=$LEDGER_SECONDS
        [once_events]=$(grouped "$ONCE_EVENTS")
        [region_rows]=$(grouped "$REGION_ROWS")
        [region_cut]=$REGION_CUT
        [outbox_events]=$(grouped "$OUTBOX_EVENTS")
        [redis]="$(redis-benchmark --version | sed 's/^redis-benchmark/Redis/; s/ (.*//')"
        [redis_requests]=$(grouped "$REDIS_REQUESTS")
        [flush_keys]=$(grouped "$FLUSH_KEYS")
        [bulk_rows]=$(grouped "$BULK_ROWS")
        [sketch_rows]=$(grouped "$SKETCH_ROWS")
    )
    while IFS= read -r line; do
        if [[ $line =~ ^\{\{table\ (.*)\}\}$ ]]; then
            table "${BASH_REMATCH[1]}" "$1"
            continue
        fi
        while [[ $line =~ \{\{([a-z_]+)\}\} ]]; do
            line=${line//"${BASH_REMATCH[0]}"/"${facts[${BASH_REMATCH[1]}]}"}
        done
        printf '%s\n' "$line"
    done <bench/report/page.md
}

case ${1:-} in
tables) tables "$2" ;;
page) fill "$2" ;;
plot) table plot "$2" ;;
*) exit 2 ;;
esac
