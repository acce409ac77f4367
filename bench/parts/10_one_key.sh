#!/usr/bin/env bash
# One key: bench/cases/one_key with each number of CLIENTS.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

# shellcheck disable=SC2086,SC2153 # a list
run_cases one_key $CLIENTS
