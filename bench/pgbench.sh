# shellcheck shell=bash
# Running pgbench and reading its report; sourced by demo.sh and bench.sh.

# run_pgbench SCRIPT CLIENTS SECONDS: sets rate (transactions a second, without
# the time to connect) and transactions (committed). A failed transaction ends
# the script: every number here is about transactions that all succeed.
# shellcheck disable=SC2034 # both are for the caller
run_pgbench() {
    local log=$DC_WORK/pgbench.log threads=2
    [[ $2 -ge 2 ]] || threads=1
    if ! "$BINDIR/pgbench" -n -M prepared -f "$1" -c "$2" -j "$threads" -T "$3" \
        -d "$PGDATABASE" >"$log" 2>&1; then
        cat "$log" >&2
        die "pgbench failed on $1"
    fi
    rate=$(sed -n 's/^tps = \([0-9.]*\) (without.*/\1/p' "$log")
    transactions=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$log")
    grep -qE '^number of failed transactions: 0 ' "$log" || {
        cat "$log" >&2
        die "transactions of $1 failed"
    }
}
