# shellcheck shell=bash
# Running pgbench and reading its report; sourced by demo.sh and lib.sh.

# logged LOG MESSAGE COMMAND...: COMMAND writes to LOG; if it fails, that is shown, and
# the script ends with MESSAGE
logged() {
    local log=$1 message=$2
    shift 2
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        die "$message"
    }
}

# call_pgbench SCRIPT CLIENTS SECONDS [OPTION...]: sets rate (committed a second,
# without the time to connect), transactions (committed), serialization and
# deadlocks (transactions that failed so, and were not tried again), of_last_script
# (transactions of the last script, if there are several).
# shellcheck disable=SC2034 # they are for the caller
call_pgbench() {
    local script=$1 clients=$2 seconds=$3 threads=2 log
    shift 3
    log=$(mktemp -p "$DC_WORK" pgbench.XXXXXX)
    [[ $clients -ge 2 ]] || threads=1
    # -d would be the database from PostgreSQL 17 on, and before it writes a line for
    # each message, which takes longer than the quick transactions
    logged "$log" "pgbench failed on $script" "$BINDIR/pgbench" -n -M prepared --failures-detailed --max-tries=1 \
        -f "$script" -c "$clients" -j "$threads" -T "$seconds" "$@" "$PGDATABASE"
    read_pgbench "$log"
    rm "$log"
}

# read_pgbench LOG: as call_pgbench, from the output of a run
# shellcheck disable=SC2034
read_pgbench() {
    rate=$(sed -n 's/^tps = \([0-9.]*\) (without.*/\1/p' "$1")
    transactions=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$1")
    serialization=$(sed -n 's/^number of serialization failures: \([0-9]*\).*/\1/p' "$1")
    deadlocks=$(sed -n 's/^number of deadlock failures: \([0-9]*\).*/\1/p' "$1")
    of_last_script=$(sed -n 's/^ - \([0-9]*\) transactions (.*/\1/p' "$1" | tail -n 1)
    [[ -n $rate && -n $transactions && -n $serialization && -n $deadlocks ]] || {
        cat "$1" >&2
        die "pgbench's report has no rate"
    }
}

# run_pgbench SCRIPT CLIENTS SECONDS [OPTION...]: as call_pgbench, and a failed
# transaction ends the script
run_pgbench() {
    call_pgbench "$@"
    [[ $serialization == 0 && $deadlocks == 0 ]] ||
        die "$1: $serialization serialization failures, $deadlocks deadlocks"
}
