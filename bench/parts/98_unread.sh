#!/usr/bin/env bash
# Unread counts against SELECT 1 and reads of the counter alone; marks against UPDATE and UPSERT of
# a table of watermarks.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases unread 64
run_cases unread_mark 64
