#!/usr/bin/env bash
# make check: builds, installs into a copy of the server, and runs every test on throwaway clusters.
# The last line on standard output is "N passed, N failed".
#   CHECK_ONLY='regress iso'  runs these stages only (see check_stages.sh); "neighbours", all tests of SQL beside other extensions, only so
#   CHECK_TAP='once owners'   of the TAP tests, those of these rooms or with these names
#   KEEP=1                    keeps the work folder
#   PG_CONFIG=...             the PostgreSQL to test with
#   IN_PLACE=1                installs into the folders of that PostgreSQL
#   STRICT=1                  warnings are errors
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

# What only tests of SQL need is less.
tests=sql
for stage in ${CHECK_ONLY:-all}; do
    [[ $stage =~ ^(regress|iso|pgtap|installcheck)$ ]] || tests='test'
done

[[ -n ${CHECK_ONLY:-} ]] || echo 'check: all tests take some 25 minutes on two cores; make test T=once runs those of a room'
make_work
if ! bash test/deps.sh build "$tests" || ! build_for_tests; then
    echo 'check: could not build and install'
    echo '0 passed, 1 failed'
    exit 1
fi
in_work_folder test/check_stages.sh || true

# Outputs and logs for the developer: results/*.out is what to compare with,
# or to copy to, expected/.
rm -rf results
cp -R "$DC_WORK/out" results
if [[ $(id -u) -eq 0 ]]; then
    chown -R "$(stat -c %u:%g .)" results
fi
say_totals
