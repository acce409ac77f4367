#!/usr/bin/env bash
# make check-memory: the stages of make check on a server that finds errors of
# memory (test/memory/build.sh), with dcounter itself under AddressSanitizer and
# UndefinedBehaviorSanitizer. A report of either, or a failed assertion, is a failed
# test. Ends with "N passed, N failed".
#   CHECK_ONLY='regress iso'     these stages only (of: regress iso pgtap tap)
#   CHECK_TAP='once owners'      of the TAP tests, those of these rooms or with these names
#   DC_MEMORY_FOLDER=...         where the server is kept, outside of the tree
#   KEEP=1                       keeps the work folder
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

folder=${DC_MEMORY_FOLDER:-/var/tmp/dcounter_memory}
export CHECK_ONLY=${CHECK_ONLY:-regress iso pgtap tap}

if [[ ${DC_STAGE:-} != user ]]; then
    unset PG_CONFIG # deps.sh: of the packaged server
    PGVERSION=15 bash test/deps.sh build test memory
    env -u COPT bash test/memory/build.sh "$folder" # COPT is for dcounter only
    make_work
    in_work_folder test/memory.sh || true
    keep_results memory "$DC_WORK/out"
    say_totals
    exit
fi

# quiet COMMAND...: its output only if it fails
quiet() {
    "$@" >"$DC_WORK/quiet.log" 2>&1 || {
        cat "$DC_WORK/quiet.log"
        return 1
    }
}

# reports_in PATH...: what the sanitizers and the server's assertions have written,
# each once
reports_in() {
    grep -rhE 'runtime error:|ERROR: AddressSanitizer|^TRAP:' "$@" 2>/dev/null |
        sed 's/^==[0-9]*==//' | sort | uniq -c
}

# The copy of the server is ours to install into.
cp -a "$folder/pgsql" "$DC_WORK/pgsql"
mkdir -p "$DC_WORK/reports" "$DC_WORK/control"
common=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:quarantine_size_mb=32
undefined='-fsanitize=undefined,float-cast-overflow -fno-sanitize=alignment -fsanitize-recover=all -fno-wrapv'
export ASAN_OPTIONS=$common:log_path=$DC_WORK/reports/asan UBSAN_OPTIONS=print_stacktrace=1
export PG_CONFIG=$DC_WORK/pgsql/bin/pg_config
use_postgres
# Each statement takes several times as long.
export PG_TEST_TIMEOUT_DEFAULT=${PG_TEST_TIMEOUT_DEFAULT:-600}

# control: the errors of control.c must all be reported
control() {
    local name found=0 total=0
    cp test/memory/control.c "$DC_WORK/control/"
    printf 'PGXS = %s\nMODULES = control\ninclude $(PGXS)\n' "$("$PG_CONFIG" --pgxs)" >"$DC_WORK/control/Makefile"
    # shellcheck disable=SC2030 # for this build only
    (cd "$DC_WORK/control" && quiet make PG_CONFIG="$PG_CONFIG" COPT="$undefined" with_llvm=no)
    ASAN_OPTIONS=$common:log_path=$DC_WORK/control/asan start_cluster control_server 'fsync = off'
    for name in read_after_pfree read_beyond_chunk read_after_delete overflow_int; do
        total=$((total + 1))
        rm -f "$DC_WORK"/control/asan.*
        : >"$DC_LOG"
        sql postgres "CREATE FUNCTION $name() RETURNS int LANGUAGE c AS '$DC_WORK/control/control';
            SELECT $name();" >/dev/null 2>&1 || true
        # a backend that has crashed takes the others with it
        until sql postgres 'SELECT 1' >/dev/null 2>&1; do sleep 0.2; done
        if [[ -n $(reports_in "$DC_LOG" "$DC_WORK"/control/asan.*) ]]; then
            found=$((found + 1))
            echo "ok - control: $name is reported"
        else
            echo "not ok - control: $name is not reported"
        fi
    done
    stop_cluster "$DC_DATA"
    passed=$((passed + found))
    failed=$((failed + total - found))
}

passed=0
failed=0
control
quiet make -j"$(nproc)" unity=yes PG_CONFIG="$PG_CONFIG" COPT="$undefined"
quiet make install unity=yes PG_CONFIG="$PG_CONFIG" COPT="$undefined"
bash test/check_stages.sh || true
read -r stages_passed stages_failed < <(cat "$DC_WORK/out/totals" 2>/dev/null || echo 0 1)
rm -f "$DC_WORK/out/totals"
passed=$((passed + stages_passed))
failed=$((failed + stages_failed))

cp -R "$DC_WORK/reports" "$DC_WORK/out/reports"
reports=$(reports_in "$DC_WORK/reports" "$DC_WORK"/check_* tmp_check/log "$DC_WORK/out" || true)
if [[ -n $reports ]]; then
    echo "$reports"
    echo 'not ok - reports of the sanitizers (in results/memory)'
    failed=$((failed + 1))
else
    echo 'ok - no report of the sanitizers'
    passed=$((passed + 1))
fi
echo "$passed $failed" >"$DC_WORK/out/totals"
