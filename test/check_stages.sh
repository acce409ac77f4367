#!/usr/bin/env bash
# The stages of make check. check.sh starts it, in a copy of the tree and as an
# unprivileged user. Each stage counts single tests, and one that finds test
# files but runs no test fails.
set -euo pipefail
# shellcheck source=test/lib.sh
source test/lib.sh
[[ ${DC_STAGE:-} == user ]] || die 'run test/check.sh'

passed=0
failed=0
out=$DC_WORK/out
shopt -s nullglob

# wanted STAGE: "installcheck" is all that begin with it
wanted() {
    [[ -z ${CHECK_ONLY:-} || " $CHECK_ONLY " == *" ${1%%_*} "* ]]
}

# count LOG: prints "passed failed" for TAP and for both output formats of
# pg_regress ("test x ... ok 1 ms" up to 15, TAP from 16 on). Subtests are
# indented and count with their parent; skipped tests count as neither.
count() {
    awk '
        /^ok [0-9-]/ { if (!/# SKIP/) ok++; next }
        /^not ok [0-9-]/ { if (!/# TO[D]O/) bad++; next }
        /^(test)? +[a-z0-9_]+ +\.\.\. ok / { ok++; next }
        /^(test)? +[a-z0-9_]+ +\.\.\. FAILED/ { bad++; next }
        END { printf "%d %d\n", ok, bad }' "$@"
}

# recap STAGE LOG...: for the end of the output, which test failed, or how its file ended
recap() {
    local stage=$1 log
    shift
    for log in "$@"; do
        awk -v stage="$stage" -v log_name="$(basename "$log" .log)" '
            /^not ok [0-9-]/ && !/# TO[D]O/ || /^(test)? +[a-z0-9_]+ +\.\.\. FAILED/ ||
            /^# +(Looks like|DC_SEED=|got:|expected:|Failed test|  at )/ || /^  (Parse errors|Non-zero)/ || /^Result: FAIL/ {
                if (/DC_SEED=/ || lines++ < 12) print "   " stage " " log_name ": " substr($0, 1, 300)
            }' "$log"
        tap_died "$log" | sed "s/^/   $stage $(basename "$log" .log): /"
    done >>"$out/failures"
}

# tally STAGE FILES STATUS LOG...: adds up what the logs say. A command that
# failed without a failed test (a crash, no plan) is one more failure.
tally() {
    local stage=$1 files=$2 status=$3 ok bad
    shift 3
    read -r ok bad < <(count "$@")
    if [[ $bad -eq 0 && ($status -ne 0 || ($files -gt 0 && $ok -eq 0)) ]]; then
        bad=1
        [[ $ok -gt 0 || $status -ne 0 ]] || echo "   $stage: there are test files, but no test ran"
        [[ $status -eq 0 ]] || echo "   $stage: ended with status $status"
    fi
    [[ $bad -eq 0 ]] || recap "$stage" "$@"
    passed=$((passed + ok))
    failed=$((failed + bad))
    echo "== $stage: $ok ok, $bad not ok, ended after $SECONDS s"
}

stage_lint() {
    local status=0
    bash test/lint.sh >"$out/lint.log" 2>&1 || status=$?
    cat "$out/lint.log"
    tally lint 1 "$status" "$out/lint.log"
}

# test/unit/Makefile: target check builds, runs, and prints TAP
stage_unit() {
    local status=0
    [[ -e test/unit/Makefile ]] || return 0
    make -s -C test/unit check PG_CONFIG="$PG_CONFIG" >"$out/unit.log" 2>&1 || status=$?
    [[ $status -eq 0 ]] || cat "$out/unit.log"
    tally unit 1 "$status" "$out/unit.log"
}

# installcheck STAGE FILES FOLDER MAKE-VARIABLE...: one of the two halves of
# make installcheck, so that the second runs when the first fails. Its outputs are left
# in FOLDER.
installcheck() {
    local stage=$1 files=$2 folder=$3 status=0
    shift 3
    [[ $files -gt 0 ]] || return 0
    rm -f regression.diffs
    make -s installcheck PG_CONFIG="$PG_CONFIG" "$@" >"$out/$stage.log" 2>&1 || status=$?
    cat "$out/$stage.log"
    if [[ -s regression.diffs ]]; then
        cp regression.diffs "$out/$stage.diffs"
        head -n 400 regression.diffs
    fi
    # A stage's outputs are in a folder of its own if others run the same tests.
    mkdir -p "$out/$folder"
    cp results/*.out "$out/$folder"
    tally "$stage" "$files" "$status" "$out/$stage.log"
    # once more at the end, which may be all that is shown
    if [[ -s $out/$stage.diffs ]]; then
        grep -E '^[-+@]' "$out/$stage.diffs" | head -n 40 | cut -c 1-300 | sed "s/^/   $stage: /" >>"$out/failures"
    fi
}

stage_regress() {
    local files=(test/sql/*.sql)
    installcheck regress "${#files[@]}" . ISOLATION= prepared=yes
}

stage_iso() {
    local files=(test/specs/*.spec)
    installcheck iso "${#files[@]}" . REGRESS= prepared=yes
}

# neighbour: another database, with something in every room. A worker is busy in it, too.
neighbour() {
    sql postgres 'CREATE DATABASE neighbour'
    sql neighbour 'CREATE EXTENSION dcounter'
    sql neighbour '' -f test/upgrade/fill.sql >/dev/null
}

# As packagers run it, on a server that is set up for use: with the library preloaded, so
# that a worker is there, and without prepared transactions, beside a database of others. The two halves are on servers of their own.
stage_installcheck_regress() {
    local files=(test/sql/*.sql)
    neighbour
    installcheck installcheck_regress "${#files[@]}" installcheck ISOLATION= preloaded=yes
}

stage_installcheck_iso() {
    local files=(test/specs/*.spec)
    neighbour
    installcheck installcheck_iso "${#files[@]}" installcheck REGRESS= preloaded=yes
}

stage_installcheck_pgtap() {
    pgtap installcheck_pgtap
}

# Other extensions whose libraries, and whose SQL, are beside ours. Some can be loaded by any session, most only when the server starts.
neighbour_libraries=(pg_stat_statements pg_cron pg_partman_bgw timescaledb hll vector)
session_libraries=(hll vector)
neighbour_extensions=(pg_stat_statements hll vector)

# found_libraries NAME...: those that are installed, with commas
found_libraries() {
    local name found=
    for name in "$@"; do
        [[ ! -e $("$PG_CONFIG" --pkglibdir)/$name.so ]] || found+="${found:+, }$name"
    done
    echo "$found"
}

# neighbours STAGE VARIABLE...: all tests of SQL in databases that have other extensions, too
neighbours() {
    local stage=$1 name options=()
    local tests=(test/sql/*.sql) specs=(test/specs/*.spec)
    shift
    echo "   $stage: $(sql postgres "SELECT current_setting('shared_preload_libraries') || ' | ' || current_setting('session_preload_libraries')")"
    for name in "${neighbour_extensions[@]}"; do
        [[ ! -e $("$PG_CONFIG" --sharedir)/extension/$name.control ]] || options+=("--load-extension=$name")
    done
    installcheck "${stage}_regress" "${#tests[@]}" "$stage" ISOLATION= EXTRA_REGRESS_OPTS="${options[*]}" "$@"
    installcheck "${stage}_iso" "${#specs[@]}" "$stage" REGRESS= EXTRA_REGRESS_OPTS="${options[*]}" "$@"
    pgtap "${stage}_pgtap"
}

stage_neighbours_first() {
    neighbours neighbours_first preloaded=yes
}

stage_neighbours_last() {
    neighbours neighbours_last preloaded=yes
}

stage_neighbours_session_first() {
    neighbours neighbours_session_first
}

stage_neighbours_session_last() {
    neighbours neighbours_session_last
}

# all_neighbours: a server for each order in which the libraries are loaded. Citus must be the first.
all_neighbours() {
    local others citus light
    others=$(found_libraries "${neighbour_libraries[@]}")
    light=$(found_libraries "${session_libraries[@]}")
    citus=$(found_libraries citus)
    local settings=('cron.use_background_workers = on' 'timescaledb.telemetry_level = off' 'max_worker_processes = 24')
    beside "${settings[@]}" "shared_preload_libraries = '${citus:+$citus, }${others:+$others, }dcounter'" -- neighbours_first
    beside "${settings[@]}" "shared_preload_libraries = '${citus:+$citus, }dcounter${others:+, $others}'" -- neighbours_last
    beside "session_preload_libraries = '${light:+$light, }dcounter'" -- neighbours_session_first
    beside "session_preload_libraries = 'dcounter${light:+, $light}'" -- neighbours_session_last
}

stage_pgtap() {
    pgtap pgtap
}

# pgtap STAGE: each file in a database of its own
pgtap() {
    local stage=$1 file name log status=0 logs=()
    for file in test/pgtap/*.sql; do
        name=$(basename "$file" .sql)
        log=$out/${stage}_$name.log
        logs+=("$log")
        echo "   $name"
        sql postgres "CREATE DATABASE pgtap_$name TEMPLATE template0;"
        if ! {
            sql "pgtap_$name" 'CREATE EXTENSION pgtap; CREATE EXTENSION dcounter;' &&
                PATH=$BINDIR:$PATH pg_prove -v -d "pgtap_$name" "$file"
        } >"$log" 2>&1; then
            status=1
            cat "$log"
        fi
        # a worker may be in it
        sql postgres "DROP DATABASE pgtap_$name WITH (FORCE);"
    done
    [[ ${#logs[@]} -gt 0 ]] || return 0
    tally "$stage" "${#logs[@]}" "$status" "${logs[@]}"
}

# longest_first FILE...: those first that are known to wait for minutes, then the others by their size, about as which their times
# go: so that at the end there is not one alone that has most of its time before it
longest_first() {
    local known=()
    known=(test/t/worker/{fairness,worker}.pl test/t/whole/{owners,chaos}.pl test/t/base/clock.pl test/t/region/{region_sets,region_turns}.pl
        test/t/lite/lite_pairs.pl test/t/worker/worker_{scale,idle}.pl test/t/outbox/outbox_moves.pl test/t/buffer/buffer_leave.pl)
    # shellcheck disable=SC2012 # names are plain
    { printf '%s\n' "${known[@]}" | grep -xFf <(printf '%s\n' "$@") || true; ls -S "$@"; } | awk '!seen[$0]++'
}

# One prove a file keeps the logs apart while several run at once: three for each processor, as they wait for most of their time.
# The longest takes three minutes. One that hangs is ended after DC_TAP_LIMIT (900 s), so that what comes after it is still seen.
stage_tap() {
    local files=() status=0 i
    # shellcheck disable=SC2086 # words
    mapfile -t files < <(tap_files ${CHECK_TAP:-})
    [[ ${#files[@]} -gt 0 ]] || return 0
    mapfile -t files < <(longest_first "${files[@]}")
    # shellcheck disable=SC2016 # expanded by the inner shell
    (
        tap_environment
        export OUT=$out TOTAL=${#files[@]}
        for i in "${!files[@]}"; do printf '%s\0' $((i + 1)) "${files[i]}"; done | xargs -0 -n 2 -P $((3 * $(nproc))) bash -c '
            name=$(basename "$2" .pl)
            place="$1 of $TOTAL, $(basename "$(dirname "$2")")/$name"
            status=0
            timeout -k 60 "${DC_TAP_LIMIT:-900}" prove -v "$2" >"$OUT/tap_$name.log" 2>&1 || status=$?
            if [[ $status -eq 0 ]]; then
                echo "   $place: $SECONDS s"
            else
                [[ $status -ne 124 && $status -ne 137 ]] || echo "not ok - ended by the time limit after $SECONDS s" >>"$OUT/tap_$name.log"
                echo "   $place: failed after $SECONDS s"
                cat "$OUT/tap_$name.log"
                exit 1
            fi' run
    ) || status=$?
    [[ $status -eq 0 ]] || cp -R tmp_check/log "$out/tap_server_logs"
    tally tap "${#files[@]}" "$status" "$out"/tap_*.log
}

# test/fuzz/Makefile: target check builds, runs, and prints TAP. An input with a
# finding is kept.
stage_fuzz() {
    local status=0 files=(test/fuzz/*_fuzz.c)
    [[ ${#files[@]} -gt 0 ]] || return 0
    make -s -k -C test/fuzz check >"$out/fuzz.log" 2>&1 || status=$?
    if [[ $status -ne 0 ]]; then
        cat "$out/fuzz.log"
        mkdir -p "$out/fuzz"
        cp test/fuzz/crash-* "$out/fuzz/"
    fi
    tally fuzz "${#files[@]}" "$status" "$out/fuzz.log"
}

groups=()
stages=()

# beside LINE... -- STAGE...: stages one after the other, in a tree of their own, on a server of their own with these settings (none: no
# server), beside what follows: most of the time they wait, isolation tests above all.
beside() {
    local settings=() stage some=()
    while [[ $1 != -- ]]; do
        settings+=("$1")
        shift
    done
    shift
    for stage in "$@"; do
        if wanted "$stage"; then some+=("$stage"); fi
    done
    [[ ${#some[@]} -gt 0 ]] || return 0
    # here and not beside, as what follows writes into this tree
    cp -R . "$DC_WORK/tree_${some[0]}"
    # a group of its own, which ends with this script
    set -m
    run_beside "${some[@]}" >"$out/${some[0]}_stage.log" 2>&1 &
    set +m
    DC_GROUPS+=("$!")
    groups+=("$!")
    stages+=("${some[0]}")
}

# run_beside STAGE...: in a process of its own, with the settings of beside. No autovacuum: its snapshots, and it itself, would keep
# rows and files now and then whose number a test prints. TAP tests and chaos have it.
run_beside() {
    local stage first=$1
    DC_GROUPS=() # those are not of this process
    passed=0
    failed=0
    cd "$DC_WORK/tree_$first"
    if [[ ${#settings[@]} -gt 0 ]]; then start_cluster "check_$first" 'fsync = off' 'autovacuum = off' "${settings[@]}"; fi
    for stage in "$@"; do
        "stage_$stage"
    done
    if [[ ${#settings[@]} -gt 0 ]]; then
        stop_cluster "$DC_DATA"
        cp "$DC_LOG" "$out/server_$first.log"
    fi
    echo "$passed $failed" >"$out/totals_$first"
}

# end_beside: waits for them all, shows what they said, and adds up what they counted. One that has not come to its end is a failure.
end_beside() {
    local i ok bad
    for i in "${!groups[@]}"; do
        ok=0
        bad=1
        wait "${groups[i]}" || true
        cat "$out/${stages[i]}_stage.log"
        if [[ -e $out/totals_${stages[i]} ]]; then
            read -r ok bad <"$out/totals_${stages[i]}"
        else
            echo "   ${stages[i]}: ended early" | tee -a "$out/failures"
        fi
        passed=$((passed + ok))
        failed=$((failed + bad))
    done
}

use_postgres
beside -- lint unit fuzz
# No preload except for installcheck; TAP starts servers of its own.
beside 'max_prepared_transactions = 20' -- iso pgtap
beside 'max_prepared_transactions = 20' -- regress
beside "shared_preload_libraries = 'dcounter'" 'max_prepared_transactions = 0' -- installcheck_iso
beside "shared_preload_libraries = 'dcounter'" 'max_prepared_transactions = 0' -- installcheck_regress installcheck_pgtap
# these only if they are asked for: all of SQL four times
if [[ " ${CHECK_ONLY:-} " == *' neighbours '* ]]; then all_neighbours; fi
if wanted tap; then stage_tap; fi
end_beside

echo "$passed $failed" >"$out/totals"
