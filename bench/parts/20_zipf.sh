#!/usr/bin/env bash
# 10,000 keys, the k-th 1/k times as busy as the first: bench/cases/zipf.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases zipf 64
