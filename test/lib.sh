# shellcheck shell=bash
# Functions shared by the scripts in test/ and bench/. Source it from the top
# folder of the tree.
#
# A script has two halves. The first (root, or a developer with sudo) installs;
# then in_work_folder runs the same script again on a copy of the tree, as a
# user that may start a server: initdb refuses root, and a checkout of root's
# need not be readable for anyone else. DC_STAGE=user marks the second half.

export LC_ALL=C
# A make above us is not the parent of the makes below.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

DC_WORK=${DC_WORK:-}
DC_CLUSTERS=()
DC_GROUPS=()

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Debian's server package has the makefiles of PGXS but not the headers.
has_pgxs() {
    local pgxs headers
    pgxs=$("$1" --pgxs 2>/dev/null) && headers=$("$1" --includedir-server) &&
        [[ -e $pgxs && -e $headers/postgres.h ]]
}

pg_major() {
    "$1" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/'
}

# Prints the pg_config to use: PG_CONFIG, the newest packaged one, that of PATH.
find_pg_config() {
    local config
    if [[ -n ${PG_CONFIG:-} ]]; then
        config=$(command -v "$PG_CONFIG") && has_pgxs "$config" && echo "$config"
        return
    fi
    while read -r config; do
        if has_pgxs "$config"; then
            echo "$config"
            return
        fi
    done < <(find /usr/lib/postgresql -path '*/bin/pg_config' 2>/dev/null | sort -rV)
    config=$(command -v pg_config) && has_pgxs "$config" && echo "$config"
}

# Prints the program that is a Redis server when it is called redis-server.
# Debian has it in redis-tools, as redis-check-rdb; its package redis-server adds
# a service, which would run from then on.
find_redis() {
    command -v redis-server || command -v redis-check-rdb
}

# Sets and exports PG_CONFIG and BINDIR.
use_postgres() {
    PG_CONFIG=$(find_pg_config) || die 'no pg_config with PGXS found; set PG_CONFIG or run "make deps"'
    BINDIR=$("$PG_CONFIG" --bindir)
    export PG_CONFIG BINDIR
}

# server_copy FOLDER: makes there, or refreshes, a copy of the server that PG_CONFIG is of, and sets PG_CONFIG to that of the copy: what is
# installed then is not seen by anybody else. A server finds its other folders from where its program is.
server_copy() {
    local prefix=$1 folder
    for folder in bindir pkglibdir sharedir includedir-server pkgincludedir pgxs; do
        folder=$("$PG_CONFIG" --$folder)
        [[ $folder != *.mk ]] || folder=$(dirname "$(dirname "$(dirname "$folder")")") # pgxs/src/makefiles/pgxs.mk
        mkdir -p "$prefix$folder"
        cp -a -u "$folder/." "$prefix$folder/"
    done
    # Debian's, which names the folder of the package
    find "$prefix" -name Makefile.global -exec sed -i '/^override pkglibdir/d' {} +
    PG_CONFIG=$prefix$(readlink -f "$PG_CONFIG")
    export PG_CONFIG
}

# build_for_tests: builds the tree, and installs it into a copy of the server below DC_WORK; with IN_PLACE=1 into the server's own folders.
# With STRICT=1 warnings are errors. Sets PG_CONFIG and BINDIR; false if it could not.
build_for_tests() {
    # a shell of its own: errexit is off in a function that an "if" calls
    DC_WORK=$DC_WORK bash -euo pipefail -c '
        source test/lib.sh
        use_postgres
        [[ -n ${IN_PLACE:-} ]] || server_copy "$DC_WORK/server"
        if [[ -n ${STRICT:-} ]]; then
            COPT=$(strict_flags)
            export COPT
        fi
        build_and_install
        echo "$PG_CONFIG" >"$DC_WORK/pg_config"' || return 1
    PG_CONFIG=$(cat "$DC_WORK/pg_config")
    use_postgres
}

# strict_flags: for COPT. PostgreSQL's headers are system headers to gcc with -isystem, which silences them.
# -Wno-unused-parameter: callbacks and PG_FUNCTION_ARGS have fixed signatures. -Wno-sign-compare: core's own macros
# compare signed with unsigned.
strict_flags() {
    echo "-isystem $("$PG_CONFIG" --includedir-server) -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare"
}

# build_and_install [VARIABLE=VALUE...]: builds the tree and installs it, with sudo where the folder asks for it. The
# variables are those of make.
# shellcheck disable=SC2120 # make demo and make live do
build_and_install() {
    local sudo=()
    use_postgres
    make -j"$(nproc)" PG_CONFIG="$PG_CONFIG" "$@"
    [[ -w $("$PG_CONFIG" --pkglibdir) && -w $("$PG_CONFIG" --sharedir)/extension && -w $("$PG_CONFIG" --bindir) ]] ||
        sudo=(sudo)
    "${sudo[@]}" make install PG_CONFIG="$PG_CONFIG" "$@" >/dev/null
}

# Runs at exit: ends the groups of processes that this shell has started, stops its servers, then removes
# if this shell made it. KEEP=1 keeps the folder.
cleanup() {
    local status=$? data group
    trap - EXIT INT TERM
    for group in "${DC_GROUPS[@]}"; do
        if kill -- "-$group" 2>/dev/null; then wait "$group" || true; fi
    done
    for data in "${DC_CLUSTERS[@]}"; do
        stop_cluster "$data" immediate || true
    done
    if [[ -n $DC_WORK && ${DC_STAGE:-} != user ]]; then
        if [[ -n ${KEEP:-} ]]; then
            echo "kept: $DC_WORK" >&2
        else
            rm -rf "$DC_WORK"
        fi
    fi
    exit "$status"
}

# The account that runs servers: ours, unless we are root.
server_user() {
    local user
    if [[ $(id -u) -ne 0 ]]; then
        id -un
        return
    fi
    for user in "${CHECK_USER:-postgres}" postgres nobody; do
        if id "$user" >/dev/null 2>&1; then
            echo "$user"
            return
        fi
    done
    die 'no account to run a server under; set CHECK_USER'
}

# as_server_user COMMAND...
as_server_user() {
    if [[ $(id -u) -eq 0 ]]; then
        local user
        user=$(server_user)
        setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
    else
        "$@"
    fi
}

# make_work: creates DC_WORK, removed at exit. With "disk" it must not be in
# memory, since a benchmark of commits on tmpfs measures nothing.
# shellcheck disable=SC2120 # make bench does
make_work() {
    local base=${TMPDIR:-/tmp}
    if [[ ${1:-} == disk && -z ${TMPDIR:-} && $(stat -f -c %T "$base") == tmpfs ]]; then
        base=/var/tmp
    fi
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    DC_WORK=$(mktemp -d -p "$base")
    mkdir -p "$DC_WORK/tree" "$DC_WORK/home" "$DC_WORK/out"
}

# release_files: those of the releases before this one, below DC_WORK, for the tests of upgrades. Without the history there are none.
release_files() {
    local version commit
    while read -r version commit _; do
        [[ $version != '#' ]] || continue
        git cat-file -e "$commit" 2>/dev/null || continue
        mkdir -p "$DC_WORK/releases/$version"
        git archive "$commit" src sql Makefile dcounter.control test/regress.list | tar -xf - -C "$DC_WORK/releases/$version"
    done <sql/releases
}

# in_work_folder SCRIPT ARGS...: runs SCRIPT in a copy of the tree below
# DC_WORK as the server user. What it leaves in DC_WORK/out is for the caller.
in_work_folder() {
    tar -cf - --exclude=./.git --exclude=./results --exclude=./tmp_check \
        --exclude='*.o' --exclude='*.bc' --exclude='*.so' . | tar -xf - -C "$DC_WORK/tree"
    release_files
    chmod 755 "$DC_WORK"
    if [[ $(id -u) -eq 0 ]]; then
        chown -R "$(server_user):" "$DC_WORK"
        as_server_user test -w "$DC_WORK/out" ||
            die "$(server_user) cannot reach $DC_WORK; set TMPDIR to a public folder"
    fi
    (
        cd "$DC_WORK/tree" || exit
        # The caller's settings must not decide what the tests connect to.
        for variable in "${!PG@}"; do
            [[ $variable == PG_CONFIG ]] || unset "$variable"
        done
        export HOME=$DC_WORK/home DC_STAGE=user DC_WORK DC_RELEASES=$DC_WORK/releases
        as_server_user bash "$@"
    )
}

# start_cluster NAME [LINE...]: a new cluster below DC_WORK with LINEs added to
# postgresql.conf. Sets DC_DATA, DC_LOG and the PG* variables. It listens on a
# socket in its own folder only, so the port number cannot clash.
start_cluster() {
    local folder=$DC_WORK/$1 socket
    shift
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir -p "$folder"
    socket=$folder
    # A socket path is limited to about 107 bytes.
    [[ ${#socket} -lt 80 ]] || socket=$(mktemp -d -p /tmp)
    DC_DATA=$folder/data
    DC_LOG=$folder/server.log
    if ! "$BINDIR/initdb" -D "$DC_DATA" -U postgres -A trust -E UTF8 --locale=C \
        --no-sync >"$folder/initdb.log" 2>&1; then
        cat "$folder/initdb.log" >&2
        die 'initdb failed'
    fi
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$socket'" \
        "port = 54321" "logging_collector = off" "$@" >>"$DC_DATA/postgresql.conf"
    DC_CLUSTERS+=("$DC_DATA")
    if ! "$BINDIR/pg_ctl" -D "$DC_DATA" -l "$DC_LOG" -w -t 120 start >/dev/null; then
        cat "$DC_LOG" >&2
        die 'the server did not start'
    fi
    export PGHOST=$socket PGPORT=54321 PGUSER=postgres PGDATABASE=postgres
}

# stop_cluster DATADIR [MODE]
stop_cluster() {
    [[ -e $1/postmaster.pid ]] || return 0
    "$BINDIR/pg_ctl" -D "$1" -m "${2:-fast}" -w stop >/dev/null
}

# sql DATABASE STATEMENT [PSQL OPTION...]: unaligned rows only, first error fails
sql() {
    local database=$1 statement=$2
    shift 2
    "$BINDIR/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$database" "$@" <<<"$statement"
}

# keep_results NAME FOLDER: what a run has left is results/NAME
keep_results() {
    rm -rf "results/$1"
    mkdir -p results
    cp -R "$2" "results/$1"
}

# say_totals: prints "N passed, N failed" of the second half of a script, and fails if
# one did. No totals means that it did not come to its end.
say_totals() {
    local passed failed
    read -r passed failed < <(cat "$DC_WORK/out/totals" 2>/dev/null || echo 0 1)
    [[ ! -s $DC_WORK/out/failures ]] || sed '1i what failed:' "$DC_WORK/out/failures"
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 ]]
}

# tap_first_half NAME SCRIPT ARGS...: of a script that runs TAP tests. Their logs are
# results/NAME.
tap_first_half() {
    local name=$1
    shift
    bash test/deps.sh build test
    make_work
    build_for_tests
    in_work_folder "$@" || true
    [[ ! -d $DC_WORK/tree/tmp_check ]] || keep_results "$name" "$DC_WORK/tree/tmp_check/log"
    say_totals
}

# tap_environment: that of prove_installcheck in PGXS. 15 reads TESTDIR, later
# releases TESTDATADIR and TESTLOGDIR.
tap_environment() {
    local pgxs
    pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")/..
    mkdir -p tmp_check/log
    unset PGHOST PGUSER PGDATABASE
    export TESTDIR=$PWD TESTDATADIR=$PWD/tmp_check TESTLOGDIR=$PWD/tmp_check/log
    export PATH=$BINDIR:$PWD:$PATH PGPORT=65432 PG_REGRESS=$pgxs/test/regress/pg_regress
    export PERL5LIB=$pgxs/test/perl:$PWD/test/perl${PERL5LIB:+:$PERL5LIB}
    # a session that a test holds open ends after this, which must not depend on how fast the machine is
    export PG_TEST_TIMEOUT_DEFAULT=${PG_TEST_TIMEOUT_DEFAULT:-600}
}

# tap_files [WORD...]: the TAP tests of a room (once), of a name (crash) or of both (buffer/crash, which is test/t/buffer/buffer_crash.pl); all
# of them without a word. A word that names none is an error.
tap_files() {
    local word file room name found
    [[ $# -gt 0 ]] || printf '%s\n' test/t/*/*.pl
    for word in "$@"; do
        found=
        for file in test/t/*/*.pl; do
            room=$(basename "$(dirname "$file")")
            name=$(basename "$file" .pl)
            case $word in
                "$room" | "$name" | "$room/$name" | "$room/${name#"$room"_}") ;;
                *) continue ;;
            esac
            echo "$file"
            found=1
        done
        [[ -n $found ]] || echo "test/t: there is no $word" >&2
    done
}

# tap_died LOG: why a TAP test ended early, which it says in its own log only
tap_died() {
    local name own
    name=$(basename "$1" .log)
    own=tmp_check/log/regress_log_${name#tap_}
    if [[ -f $own ]] && grep -qE '^# Looks like your test (exited|died)|^not ok - ended by the time limit' "$1"; then
        tail -n 40 "$own" | grep -E "ERROR:|FATAL:|PANIC:|error running|timed out|time.?out|^Can't | at .* line [0-9]+\\." |
            tail -n 5 | cut -c 1-300 || true
    fi
}

# run_tap FILE LOG: adds to passed and failed. A test that ended early is a failure.
run_tap() {
    local status=0 bad
    prove -v "$1" 2>&1 | tee "$2" || status=$?
    tap_died "$2"
    bad=$(grep -c '^not ok ' "$2" || true)
    if [[ $bad -eq 0 && $status -ne 0 ]]; then bad=1; fi
    passed=$((passed + $(grep -c '^ok ' "$2" || true)))
    failed=$((failed + bad))
}
