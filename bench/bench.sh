#!/usr/bin/env bash
# make bench: runs bench/parts/* and writes doc/benchmarks.md, doc/rate.svg and
# doc/snapshot.svg. README.md has the settings (environment variables).
#   --quick   everything once and short, printed only
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=bench/lib.sh
source bench/lib.sh

quick=
if [[ ${1:-} == --quick ]]; then
    quick=1
elif [[ $# -gt 0 ]]; then
    die "unknown option $1"
fi

# setting NAME FULL QUICK: sets NAME to one of these, unless the caller has set it
setting() {
    local value=$2
    [[ -z $quick ]] || value=$3
    export "$1=${!1:-$value}"
}

setting ROUNDS 5 1
setting SECONDS_PER_RUN 4 1
# of what runs in turns (turns.sh)
setting TURNS 8 2
setting TURN_SECONDS 0.5 0.2
setting WARM_SECONDS 12 1.5
setting CLIENTS '1 16 64' '1 16 64'
setting HELD_ROUNDS 1 1
setting HELD_SECONDS 60 3
HELD_WINDOW=$((HELD_SECONDS >= 30 ? 10 : (HELD_SECONDS + 2) / 3))
setting BULK_ROUNDS 5 1
setting BULK_ROWS 5000000 500000
setting LOAD_ROUNDS 3 1
setting LOAD_KEYS 1000000 20000
setting LOAD_MINUTE 60 3
setting BOUND_ROUNDS 5 1
setting BOUND_COPY_ROWS 1000000 50000
setting BOUND_UPDATE_ROWS 300000 20000
setting BOUND_BUILD_ROUNDS 3 1
setting BOUND_BUILD_ROWS 10000000 200000
setting BOUND_KEYS 10000 1000
setting BOUND_SECONDS 10 2
setting WORKER_ROUNDS 3 1
setting WORKER_KEYS 1000000 20000
setting ONCE_EVENTS 32000 3200
setting LEDGER_SECONDS 10 1
setting OPEN_SECONDS 10 2
setting LAST_ROUNDS 200 3
setting SKETCH_ROUNDS 5 1
setting SKETCH_ROWS 5000000 200000
setting WINDOW_ROUNDS 3 1
setting WINDOW_ROWS 10000000 100000
setting CRDT_ROUNDS 5 1
setting CRDT_ROWS 1000000 20000
setting REGION_ROWS 200000 20000
setting REGION_CUT 60 5
setting RESTORE_KEYS 1000000 20000
setting REGION_SECONDS 20 5
setting OUTBOX_EVENTS 2000000 200000
setting REDIS_REQUESTS 400000 50000
setting FLUSH_KEYS 100000 100000
setting PRESENCE_LEAVE 100000 20000
setting PRESENCE_SECONDS 10 4
setting LIVE_ROUNDS 3 1
setting LIVE_SECONDS 30 5
setting STATS_TABLES 2000 2000
setting SCALE_TABLES 2000 200
setting SCALE_SETTLE 150 5
setting SCALE_DATABASES 50 6
setting SCALE_SECONDS 60 3
setting LITE_KEYS 1000000 20000
setting PARTS '' ''
setting CASES '' ''
export HELD_WINDOW

# shellcheck disable=SC2031 # in_work_folder sets it for the second half only
if [[ ${DC_STAGE:-} != user ]]; then
    bash test/deps.sh build bench live
    [[ -n ${NO_INSTALL:-} ]] || build_and_install
    make_work disk
    status=0
    in_work_folder bench/bench.sh "$@" || status=$?
    mkdir -p results
    cp "$DC_WORK"/out/*.tsv results/
    [[ $status -eq 0 ]] || exit "$status"
    if [[ -z $quick && -z $PARTS && -z $CASES ]]; then
        mkdir -p doc
        cp "$DC_WORK"/out/{benchmarks.md,rate.svg,snapshot.svg} doc/
        echo 'written: doc/benchmarks.md, doc/rate.svg, doc/snapshot.svg'
    else
        # Some parts were not run, or not for as long as they should be.
        cp "$DC_WORK"/out/{benchmarks.md,*.svg} results/ 2>/dev/null || true
    fi
    exit
fi

use_postgres
unpack_cases
export RESULTS=$DC_WORK/out/bench.tsv SERIES=$DC_WORK/out/held.tsv

start_cluster bench 'max_connections = 200' 'shared_buffers = 256MB' 'min_wal_size = 1GB' 'max_wal_size = 4GB' \
    'checkpoint_timeout = 30min' 'fsync = on' 'synchronous_commit = on' "include_if_exists = 'case.conf'"
export DC_DATA DC_LOG
: >"$DC_DATA/case.conf"
fill_wal

failed=() # parts: the others are run, and no page is made
for part in bench/parts/*.sh; do
    name=$(basename "$part" .sh)
    if [[ -z $PARTS || " $PARTS " == *" ${name#*_} "* ]]; then
        bash "$part" || failed+=("$name")
        say '%s done, %d s since the start' "$name" "$SECONDS"
    fi
done
[[ -s $RESULTS ]] || die "no part of bench/parts is named in PARTS=$PARTS"

bash bench/report.sh tables "$RESULTS"
[[ ${#failed[@]} -eq 0 ]] || die "parts that failed: ${failed[*]}"
bash bench/report.sh page "$RESULTS" >"$DC_WORK/out/benchmarks.md"
bash bench/plot.sh "$RESULTS" "$SERIES" "$DC_WORK/out"
