#!/usr/bin/env bash
# folder.sh FOLDER SUITE MAJOR: a Debian in FOLDER that has PostgreSQL MAJOR and what its tests need, made by debootstrap from where this
# machine's own packages come from. In two minutes, once: when it is there, nothing is done. For root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 suite=$2 major=$3

# Made anew by another script, and each week, since sid moves.
stamp="$suite $major $(cksum <"$here/folder.sh") $(($(date +%s) / 604800))"
[[ $(cat "$folder.built" 2>/dev/null) != "$stamp" ]] || exit 0
echo "check-versions: a Debian $suite with PostgreSQL $major in $folder (the output is in $folder.log)"
rm -rf --one-file-system "$folder" "$folder.built"
mkdir -p "$folder"

# where_from: the archive that the release of this machine comes from, not its updates
where_from() {
    # shellcheck disable=SC2016 # for apt to expand
    apt-get indextargets --format '$(REPO_URI) $(SUITE)' 'Created-By: Packages' 'Component: main' |
        awk '$2 !~ /security|updates|backports/ && !n++ { print $1 }'
}

# packages: what the stages of SQL need; the tree's own deps.sh adds what is missing
packages() {
    echo gcc libc6-dev make perl libpq-dev "postgresql-$major" "postgresql-server-dev-$major" "postgresql-$major-pgtap" \
        libtap-parser-sourcehandler-pgtap-perl
}

make_folder() {
    debootstrap --variant=minbase "$suite" "$folder" "$(where_from)"
    # how this machine gets at packages; and a release file of sid is out of date when its mirror is
    {
        apt-config dump Acquire::http::Proxy
        apt-config dump Acquire::https::Proxy
        echo 'Acquire::Check-Valid-Until "false";'
    } >"$folder/etc/apt/apt.conf.d/99check-versions"
    mkdir -p "$folder/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$folder/etc/postgresql-common/createcluster.conf"
    # shellcheck disable=SC2046 # words
    bash "$here/inside.sh" "$folder" env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get -q update && apt-get -q -y install --no-install-recommends "$@"' sh $(packages)
}

export -f make_folder where_from packages
export folder suite major here
if ! bash -euo pipefail -c make_folder >"$folder.log" 2>&1; then
    tail -n 20 "$folder.log"
    exit 1
fi
echo "$stamp" >"$folder.built"
