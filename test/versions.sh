#!/usr/bin/env bash
# make check-versions: make check on the PostgreSQL of other releases of Debian, each in a folder that debootstrap makes. The
# build is strict, and each is tested preloaded and not. Ends with "N passed, N failed". Where a folder cannot be made, it says
# why, and that this version was not tested.
#   VERSIONS=17                      this one only (of: 17 18)
#   CHECK_ONLY='regress iso'         these stages only (of: unit regress iso pgtap installcheck tap)
#   DC_VERSIONS_FOLDER=...           where the folders are kept
#   MAKE_ONLY=1                      makes the folders, and tests nothing
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

base=${DC_VERSIONS_FOLDER:-/var/tmp/dcounter_versions}
only=${CHECK_ONLY:-unit regress iso pgtap installcheck tap}
declare -A suites=([17]=trixie [18]=sid)
passed=0
failed=0
untested=()

# make_folder MAJOR: or says why it cannot be
make_folder() {
    local major=$1
    [[ $(id -u) -eq 0 ]] || { echo 'only root can make it' && return 1; }
    bash test/deps.sh versions || return 1
    unshare --mount true 2>&1 || { echo 'nothing can be mounted here' && return 1; }
    mkdir -p "$base"
    flock "$base/$major.lock" bash test/versions/folder.sh "$base/$major" "${suites[$major]}" "$major"
}

# test_version MAJOR: in its folder, in a copy of the tree
test_version() {
    local major=$1 folder=$base/$1 status=0
    local config=/usr/lib/postgresql/$major/bin/pg_config
    rm -rf "$folder/dcounter"
    mkdir "$folder/dcounter"
    tar -cf - --exclude=./.git --exclude=./results --exclude=./tmp_check --exclude='*.o' --exclude='*.bc' --exclude='*.so' . |
        tar -xf - --no-same-owner -C "$folder/dcounter"
    # shellcheck disable=SC2016 # for the inner shell
    bash test/versions/inside.sh "$folder" env -i PATH="$PATH" HOME=/root PG_CONFIG="$config" CHECK_ONLY="$only" \
        DC_TORTURE="${DC_TORTURE:-}" unity=yes bash -c 'cd /dcounter && source test/lib.sh && COPT=$(strict_flags) && export COPT &&
            bash test/check.sh' || status=$?
    [[ ! -d $folder/dcounter/results ]] || keep_results "version_$major" "$folder/dcounter/results"
    rm -rf "$folder/dcounter"
    return "$status"
}

# run MAJOR LOG: its last line is the totals
run() {
    if ! make_folder "$1" >"$2" 2>&1; then
        echo 'not tested' >>"$2"
    elif [[ -z ${MAKE_ONLY:-} ]]; then
        test_version "$1" >>"$2" 2>&1 || true
    fi
}

make_work
logs=$DC_WORK/out
for major in ${VERSIONS:-17 18}; do
    [[ -n ${suites[$major]:-} ]] || die "there is no PostgreSQL $major to be tested"
    # beside each other, since they wait much of the time; each a group, which ends with this script
    set -m
    run "$major" "$logs/$major.log" &
    set +m
    DC_GROUPS+=("$!")
done
for group in "${DC_GROUPS[@]}"; do
    wait "$group" || true
done
DC_GROUPS=()
[[ -z ${MAKE_ONLY:-} ]] || { cat "$logs"/*.log && exit 0; }

for major in ${VERSIONS:-17 18}; do
    sed "s/^/$major: /" "$logs/$major.log"
    last=$(tail -n 1 "$logs/$major.log")
    if [[ $last == 'not tested' ]]; then
        untested+=("$major")
    elif [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
done

# pg_upgrade through them all, with what was built and installed for each
if [[ -z ${VERSIONS:-} && ${#untested[@]} -eq 0 ]]; then
    bash test/versions/upgrade.sh "$base/17" "$base/18" | tee "$logs/upgrade.log" || true
    passed=$((passed + $(grep -c '^ok ' "$logs/upgrade.log" || true)))
    failed=$((failed + $(grep -c '^not ok ' "$logs/upgrade.log" || true)))
    tail -n 1 "$logs/upgrade.log" | grep -q '^1\.\.' || failed=$((failed + 1))
fi

[[ ${#untested[@]} -eq 0 ]] || echo "check-versions: NOT TESTED, for the reason above: PostgreSQL ${untested[*]}"
echo "$passed $failed" >"$logs/totals"
say_totals
