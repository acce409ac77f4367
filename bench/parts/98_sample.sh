#!/usr/bin/env bash
# Sampled counting against SELECT 1 and against counting exactly.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_turns sample 64
