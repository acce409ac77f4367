#!/usr/bin/env bash
# folder.sh FOLDER SUITE[+SUITE] [PACKAGE...]: a Debian in FOLDER that has the packages, and little else, made by debootstrap from where this
# machine's own packages come from. PostgreSQL comes from the second suite, if there is one, and nothing else does: experimental has no
# whole Debian. In two minutes, once: when it is there, nothing is done. For root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 suite=${2%+*} addition=
[[ $2 != *+* ]] || addition=${2#*+}
shift 2
packages=$*

# Made anew by another script, and each week, since sid moves.
stamp="$suite $addition $packages $(cksum <"$here/folder.sh") $(($(date +%s) / 604800))"
[[ $(cat "$folder.built" 2>/dev/null) != "$stamp" ]] || exit 0
echo "check-versions: a Debian $suite${addition:+ with $addition} in $folder (the output is in $folder.log)"
rm -rf --one-file-system "$folder" "$folder.built"
mkdir -p "$folder"

# where_from: the archive that the release of this machine comes from, not its updates
where_from() {
    # shellcheck disable=SC2016 # for apt to expand
    apt-get indextargets --format '$(REPO_URI) $(SUITE)' 'Created-By: Packages' 'Component: main' |
        awk '$2 !~ /security|updates|backports/ && !n++ { print $1 }'
}

# add_suite: PostgreSQL from the addition, in which all else has a lower priority than what is installed
add_suite() {
    echo "deb $(where_from) $addition main" >"$folder/etc/apt/sources.list.d/$addition.list"
    printf '%s\n' 'Package: postgresql-* libpq*' "Pin: release a=$addition" 'Pin-Priority: 600' >"$folder/etc/apt/preferences.d/$addition"
}

make_folder() {
    debootstrap --variant=minbase "$suite" "$folder" "$(where_from)"
    # how this machine gets at packages; and a release file of sid is out of date when its mirror is
    {
        apt-config dump Acquire::http::Proxy
        apt-config dump Acquire::https::Proxy
        echo 'Acquire::Check-Valid-Until "false";'
    } >"$folder/etc/apt/apt.conf.d/99check-versions"
    [[ -z $addition ]] || add_suite
    mkdir -p "$folder/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$folder/etc/postgresql-common/createcluster.conf"
    # shellcheck disable=SC2086 # words
    bash "$here/inside.sh" "$folder" env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get -q update && apt-get -q -y install --no-install-recommends "$@"' sh $packages
}

export -f make_folder add_suite where_from
export folder suite addition packages here
if ! bash -euo pipefail -c make_folder >"$folder.log" 2>&1; then
    tail -n 20 "$folder.log"
    exit 1
fi
echo "$stamp" >"$folder.built"
