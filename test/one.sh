#!/usr/bin/env bash
# make test T='once buffer/crash': the tests of a room, or of a name, on a throwaway cluster. Words are as in tap_files (lib.sh): a room, a name, or
# both. What has changed is built, and is installed into a copy of the server's folders, never into these. Ends with "N passed, N failed".
#   T='once stock'      which tests: a room, or the beginning of a name up to an underscore
#   KIND='regress units'  of these kinds only (of: regress specs pgtap taps units)
#   PG_CONFIG=...       the PostgreSQL to test with
#   DC_PREFIX=FOLDER    where the copies of servers are kept (/var/tmp/dcounter_servers)
#   KEEP=1              keeps the work folder
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

[[ -n ${T:-} ]] || die "which tests? make test T=once, make test T='stock once/retry'"
read -r -a words <<<"$T"

# named FILE...: those whose names begin with one of the words, a slash being an underscore
named() {
    local file name word
    for file in "$@"; do
        name=$(basename "$file")
        name=${name%.*}
        for word in "${words[@]}"; do
            word=${word//\//_}
            if [[ ${name#iso_} == "$word" || ${name#iso_} == "$word"_* ]]; then
                echo "$name"
                break
            fi
        done
    done
}

# choose: which tests, by kind
choose() {
    local file name word
    mapfile -t regress < <(named test/sql/*.sql)
    mapfile -t specs < <(named test/specs/*.spec)
    mapfile -t pgtap < <(named test/pgtap/*.sql)
    mapfile -t taps < <(tap_files "${words[@]}" 2>/dev/null)
    # those of a room have names of their own, and include its headers
    mapfile -t units < <({
        named test/unit/*_test.c
        for word in "${words[@]}"; do
            grep -lE "^#include \"([a-z]+/)+$word/" test/unit/*_test.c | xargs -r -n 1 basename -s .c
        done
    } | sort -u)
    for name in regress specs pgtap taps units; do
        [[ " ${KIND:-$name} " == *" $name "* ]] || declare -ga "$name=()"
    done
    [[ $((${#regress[@]} + ${#specs[@]} + ${#pgtap[@]} + ${#taps[@]} + ${#units[@]})) -gt 0 ]] && return
    echo "there are no tests of ${words[*]}; with such names:"
    for file in test/sql/*.sql test/specs/*.spec test/pgtap/*.sql test/t/*/*.pl test/unit/*_test.c; do
        for word in "${words[@]}"; do
            [[ $file != *"${word//\//_}"* ]] || echo "    $(basename "${file%.*}")"
        done
    done
    exit 1
}

choose
if [[ ${DC_STAGE:-} != user ]]; then
    use_postgres
    # one at a time, as all trees share the copy
    mkdir -p "${DC_PREFIX:-/var/tmp/dcounter_servers}"
    exec 9>"${DC_PREFIX:-/var/tmp/dcounter_servers}/lock"
    flock 9
    server_copy "${DC_PREFIX:-/var/tmp/dcounter_servers}/$(pg_major "$PG_CONFIG")"
    # shellcheck disable=SC2119
    bash -euo pipefail -c 'source test/lib.sh; build_and_install unity=yes' >/dev/null || die 'could not build'
    use_postgres
    make_work
    in_work_folder test/one.sh || true
    keep_results test "$DC_WORK/out"
    say_totals
    exit
fi

# regress KIND NAME...: pg_regress or pg_isolation_regress; the test "install" makes the extension
regress() {
    local program=$1 first=$2 pgxs status=0
    shift 2
    pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")/../..
    "$pgxs/src/test/$program" --inputdir=test --outputdir=. --bindir="$BINDIR" "$first" "$@" >"$DC_WORK/out/$first.log" 2>&1 || status=$?
    grep -E '^(test .* \.\.\.|ok|not ok) ' "$DC_WORK/out/$first.log" || cat "$DC_WORK/out/$first.log"
    if [[ -s regression.diffs ]]; then
        cat regression.diffs
        mv regression.diffs "$DC_WORK/out/$first.diffs"
    fi
    failed=$((failed + (status != 0)))
    passed=$((passed + $# - (status != 0)))
    cp -R results "$DC_WORK/out/"
}

use_postgres
passed=0
failed=0
for name in "${units[@]}"; do
    if make -s -C test/unit "$name" PG_CONFIG="$PG_CONFIG" && (cd test/unit && "./$name" short); then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
# all on a server that is preloaded, except for one
if [[ " ${regress[*]} " == *' not_preloaded '* ]]; then
    start_cluster not_preloaded 'fsync = off'
    regress regress/pg_regress install not_preloaded
    stop_cluster "$DC_DATA"
    mapfile -t regress < <(printf '%s\n' "${regress[@]}" | grep -vx not_preloaded)
fi
if [[ ${#regress[@]} -gt 0 || ${#specs[@]} -gt 0 || ${#pgtap[@]} -gt 0 ]]; then
    start_cluster server 'fsync = off' 'max_prepared_transactions = 20' "shared_preload_libraries = 'dcounter'"
    mkdir -p results
    [[ ${#regress[@]} -eq 0 ]] || regress regress/pg_regress install "${regress[@]}"
    [[ ${#specs[@]} -eq 0 ]] || regress isolation/pg_isolation_regress iso_install "${specs[@]}"
    for name in "${pgtap[@]}"; do
        sql postgres "CREATE DATABASE pgtap_$name TEMPLATE template0"
        sql "pgtap_$name" 'CREATE EXTENSION pgtap; CREATE EXTENSION dcounter'
        if PATH=$BINDIR:$PATH pg_prove -d "pgtap_$name" "test/pgtap/$name.sql"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done
    stop_cluster "$DC_DATA"
fi
if [[ ${#taps[@]} -gt 0 ]]; then
    tap_environment
    for file in "${taps[@]}"; do
        run_tap "$file" "$DC_WORK/out/$(basename "$file" .pl).log"
    done
fi
echo "$passed $failed" >"$DC_WORK/out/totals"
