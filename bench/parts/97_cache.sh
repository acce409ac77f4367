#!/usr/bin/env bash
# Cached reads against SELECT 1, and ten of them for each increment against a table
# with one row a key.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases cached 64
run_cases mix 64
