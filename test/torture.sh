#!/usr/bin/env bash
# make torture: the TAP tests of crashes, load and size in their long forms, on
# throwaway clusters. Prints each test and ends with "N passed, N failed".
#   DC_TORTURE=100   rounds of kill -9 (test/t/003_crash.pl)
#   DC_SEED=N        the random seed of a round that failed, as printed
#   TORTURE='003 004'   runs these tests only
#   KEEP=1           keeps the work folder
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

export DC_TORTURE=${DC_TORTURE:-100}
read -r -a tests <<<"${TORTURE:-003 004 005 007 011 013 014 015 019 020 023 024 026 027 028 030 032 043}"

if [[ ${DC_STAGE:-} != user ]]; then
    bash test/deps.sh build test
    build_and_install
    make_work
    in_work_folder test/torture.sh || true
    if [[ -d $DC_WORK/tree/tmp_check ]]; then
        rm -rf results/torture
        mkdir -p results
        cp -R "$DC_WORK/tree/tmp_check/log" results/torture
    fi
    read -r passed failed < <(cat "$DC_WORK/out/totals" 2>/dev/null || echo 0 1)
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 ]]
    exit
fi

# As in check_stages.sh, but one after the other: each loads the machine.
use_postgres
pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")/..
mkdir -p tmp_check/log
export TESTDIR=$PWD TESTDATADIR=$PWD/tmp_check TESTLOGDIR=$PWD/tmp_check/log
export PATH=$BINDIR:$PWD:$PATH PGPORT=65432 PG_REGRESS=$pgxs/test/regress/pg_regress
export PERL5LIB=$pgxs/test/perl:$PWD/test/perl${PERL5LIB:+:$PERL5LIB}
passed=0
failed=0
for number in "${tests[@]}"; do
    for file in test/t/"$number"_*.pl; do
        log=$DC_WORK/out/$(basename "$file" .pl).log
        status=0
        prove -v "$file" 2>&1 | tee "$log" || status=$?
        ok=$(grep -c '^ok ' "$log" || true)
        bad=$(grep -c '^not ok ' "$log" || true)
        if [[ $bad -eq 0 && $status -ne 0 ]]; then bad=1; fi
        passed=$((passed + ok))
        failed=$((failed + bad))
    done
done
echo "$passed $failed" >"$DC_WORK/out/totals"
