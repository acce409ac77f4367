#!/usr/bin/env bash
# make check-versions: make check on the PostgreSQL of other releases of Debian, each in a folder that debootstrap makes. The
# build is strict, and each is tested preloaded and not. With 15, which make check itself is for, come the Debian packages
# in a folder that has nothing else (test/package.sh), and the unit tests on another processor (test/s390x.sh). Ends with "N passed,
# N failed". Where a folder cannot be made, it says why, and that this was not tested.
#   VERSIONS=17                      this one only (of: 15 17 18 19)
#   CHECK_ONLY='regress iso'         these stages only (of: unit regress iso pgtap installcheck tap for all but 15, package s390x for 15)
#   DC_VERSIONS_FOLDER=...           where the folders are kept
#   MAKE_ONLY=1                      makes the folders, and tests nothing
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

base=${DC_VERSIONS_FOLDER:-/var/tmp/dcounter_versions}
declare -A suites=([package]=bookworm [s390x]=bookworm [17]=trixie [18]=sid [19]=sid+experimental)
stages=() # of make check
names=()  # of what is tested: each has a folder
passed=0
failed=0
untested=()

# choose: stages and names
choose() {
    local stage major extra=()
    for stage in ${CHECK_ONLY:-unit regress iso pgtap installcheck tap package s390x}; do
        if [[ -n ${suites[$stage]:-} ]]; then extra+=("$stage"); else stages+=("$stage"); fi
    done
    for major in ${VERSIONS:-15 17 18 19}; do
        if [[ $major == 15 ]]; then
            names+=("${extra[@]}")
        elif [[ -z ${suites[$major]:-} ]]; then
            die "there is no PostgreSQL $major to be tested"
        elif [[ ${#stages[@]} -gt 0 ]]; then
            names+=("$major")
        fi
    done
}

# packages NAME: what its folder begins with. What the tests of packages install themselves is not there; for others, the tree's
# own deps.sh adds what is missing.
packages() {
    case $1 in
    package) ;;
    s390x) echo gcc libc6-dev make gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user ;;
    *) echo gcc libc6-dev make perl libpq-dev "postgresql-$1" "postgresql-server-dev-$1" \
        libtap-parser-sourcehandler-pgtap-perl ;;
    esac
}

# make_folder NAME: or says why it cannot be
make_folder() {
    local name=$1
    [[ $(id -u) -eq 0 ]] || { echo 'only root can make it' && return 1; }
    bash test/deps.sh versions || return 1
    unshare --mount true 2>&1 || { echo 'nothing can be mounted here' && return 1; }
    mkdir -p "$base"
    # shellcheck disable=SC2046 # words
    flock "$base/$name.lock" bash test/versions/folder.sh "$base/$name" "${suites[$name]}" $(packages "$name")
}

# in_copy NAME COMMAND...: in its folder, with a copy of the tree as /dcounter
in_copy() {
    local name=$1 folder=$base/$1 status=0
    shift
    rm -rf "$folder/dcounter"
    mkdir "$folder/dcounter"
    tar -cf - --exclude=./.git --exclude=./results --exclude=./tmp_check --exclude='*.o' --exclude='*.bc' --exclude='*.so' . |
        tar -xf - --no-same-owner -C "$folder/dcounter"
    bash test/versions/inside.sh "$folder" env -i PATH="$PATH" HOME=/root "$@" || status=$?
    [[ ! -d $folder/dcounter/results ]] || keep_results "version_$name" "$folder/dcounter/results"
    rm -rf "$folder/dcounter"
    return "$status"
}

# test_name NAME
test_name() {
    case $1 in
    package)
        git rev-parse -q --verify HEAD >/dev/null || { echo 'packages are built of the last commit, and there is no history here' && return 1; }
        bash test/package.sh "$base/$1"
        ;;
    s390x)
        in_copy "$1" bash /dcounter/test/s390x.sh /dcounter
        ;;
    *)
        in_copy "$1" PG_CONFIG="/usr/lib/postgresql/$1/bin/pg_config" CHECK_ONLY="${stages[*]}" DC_TORTURE="${DC_TORTURE:-}" unity=yes IN_PLACE=1 STRICT=1 \
            bash /dcounter/test/check.sh
        ;;
    esac
}

# run NAME LOG: its last line is the totals
run() {
    if ! make_folder "$1" >"$2" 2>&1; then
        echo 'not tested' >>"$2"
    elif [[ -z ${MAKE_ONLY:-} ]]; then
        test_name "$1" >>"$2" 2>&1 || true
    fi
}

# run_beside NAME...: beside each other, since they wait much of the time; each a group, which ends with this script
run_beside() {
    local name group
    for name in "$@"; do
        set -m
        run "$name" "$logs/$name.log" &
        set +m
        DC_GROUPS+=("$!")
    done
    for group in "${DC_GROUPS[@]}"; do
        wait "$group" || true
    done
    DC_GROUPS=()
}

choose
make_work
logs=$DC_WORK/out
for ((i = 0; i < ${#names[@]}; i += 2)); do
    run_beside "${names[@]:i:2}"
done
[[ -z ${MAKE_ONLY:-} ]] || { cat "$logs"/*.log && exit 0; }

for name in "${names[@]}"; do
    sed "s/^/$name: /" "$logs/$name.log"
    last=$(tail -n 1 "$logs/$name.log")
    if [[ $last == 'not tested' ]]; then
        untested+=("$name")
    elif [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
done

# pg_upgrade through them all, with what was built and installed for each
if [[ -z ${VERSIONS:-} && ${#stages[@]} -gt 0 && " ${untested[*]} " != *' 1'[789]' '* ]]; then
    bash test/versions/upgrade.sh "$base/17" "$base/18" "$base/19" | tee "$logs/upgrade.log" || true
    passed=$((passed + $(grep -c '^ok ' "$logs/upgrade.log" || true)))
    failed=$((failed + $(grep -c '^not ok ' "$logs/upgrade.log" || true)))
    tail -n 1 "$logs/upgrade.log" | grep -q '^1\.\.' || failed=$((failed + 1))
fi

[[ ${#untested[@]} -eq 0 ]] || echo "check-versions: NOT TESTED, for the reason above: ${untested[*]} (numbers are versions of PostgreSQL)"
echo "$passed $failed" >"$logs/totals"
say_totals
