#!/usr/bin/env bash
# Transfers of a ledger against a function in plpgsql, 16 clients. After each run all
# balances are compared with the entries. Runs are longer than others, since each session accesses
# all of the 1,000 accounts.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

export SECONDS_PER_RUN=$LEDGER_SECONDS
run_cases ledger 16
