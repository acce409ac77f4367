#!/usr/bin/env bash
# report.sh table|page RESULTS: from lines "case, clients, round, rate" (tabs)
# the table of medians, alone or in the page doc/benchmarks.md. bench.sh calls it.
set -euo pipefail
reference=${REFERENCE:-50_dc_incr}

titles() {
    local folder
    for folder in bench/cases/*/; do
        printf '%s\t%s\n' "$(basename "$folder")" "$(cat "$folder/title")"
    done
}

# A row a case; for each number of clients the median rate, and how many times
# faster the reference was in the same run.
table() {
    awk -F '\t' -v reference="$reference" '
        function median(key,    n, i, j, v, parts) {
            n = split(substr(rates[key], 2), parts, " ")
            for (i = 2; i <= n; i++) {          # insertion sort: n is small
                v = parts[i] + 0
                for (j = i - 1; j >= 1 && parts[j] + 0 > v; j--)
                    parts[j + 1] = parts[j]
                parts[j + 1] = v
            }
            return n % 2 ? parts[(n + 1) / 2] + 0 : (parts[n / 2] + parts[n / 2 + 1]) / 2
        }
        NR == FNR { title[$1] = $2; next }
        !($1 in seen) { seen[$1] = 1; order[++cases] = $1 }
        !($2 in clients) { clients[$2] = 1; columns[++count] = $2 }
        { rates[$1, $2] = rates[$1, $2] " " $4 }
        END {
            head = "| case |"
            line = "|---|"
            for (c = 1; c <= count; c++) {
                head = head sprintf(" %d client%s /s | ratio |", columns[c], columns[c] == 1 ? "" : "s")
                line = line "---:|---:|"
            }
            print head
            print line
            for (i = 1; i <= cases; i++) {
                row = "| " title[order[i]] " |"
                for (c = 1; c <= count; c++) {
                    own = median(order[i] SUBSEP columns[c])
                    row = row sprintf(" %.0f | %.2f |", own, median(reference SUBSEP columns[c]) / own)
                }
                print row
            }
        }' <(titles) "$1"
}

page() {
    cat <<TEXT
# Benchmarks

Written by \`make bench\`; numbers of other machines differ, so look at the ratios.

| | |
|---|---|
| processor | $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), $(nproc) cores |
| memory | $(awk '/^MemTotal/ { printf "%.1f GB", $2 / 1048576 }' /proc/meminfo) |
| kernel | $(uname -sr) |
| file system | $(stat -f -c %T "$DC_DATA") |
| versions | $("$BINDIR/postgres" --version), dcounter $(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" dcounter.control) |
| settings | fsync and synchronous_commit on, shared_buffers 256MB, pgbench -M prepared on the same machine |
| runs | median of $ROUNDS interleaved rounds of $SECONDS_PER_RUN seconds |

$(table "$1")

## How to read it

- One transaction is one count, so a rate is commits a second. Each commit waits for the disk (fsync), and commits
  that wait together share one flush: therefore rates grow with the clients until something else is the limit.
- ratio: how many times faster \`$(cat "bench/cases/$reference/title")\` was than this row with as many clients, from
  the same interleaved run. Above 1.00 it is faster, below it is slower.
- \`UPDATE of one row\` is the hot row that dcounter is there to avoid: a writer holds the row until its commit is on
  disk, so each waits for all others.
- \`UPDATE, each client its own row\` and \`INSERT into a bare table\` have no conflict at all: they show what the machine
  can commit. No counter that is exact and durable can be much faster.
- After every run the count was compared with the transactions that pgbench saw committed; it was equal, or there
  would be no page.
- Every run has a fresh database, vacuumed and checkpointed before it starts.
TEXT
}

case ${1:-} in
table) table "$2" ;;
page) page "$2" ;;
*) exit 2 ;;
esac
