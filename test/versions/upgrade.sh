#!/usr/bin/env bash
# upgrade.sh FOLDER17 FOLDER18 FOLDER19: pg_upgrade of a cluster of this machine's PostgreSQL 15, in which every room has counted, by 17
# and 18 to 19, and from 15 to 19 at once, as TAP. Each server is in the place where its package has it: an older one comes into the folder
# of the next with the libraries that are not there. The folders have dcounter for theirs; 15 gets it here. For root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$here/../..
test_number=0
bad=0

# ok STATUS NAME
ok() {
    local word=ok
    test_number=$((test_number + 1))
    [[ $1 -eq 0 ]] || { word='not ok' && bad=1; }
    echo "$word $test_number - $2"
}

# libraries_for FOLDER ROOT FILE...: those of ROOT that programs and libraries FILE need and FOLDER has not. Names of libraries have
# their version, so that they disturb nobody there.
libraries_for() {
    local folder=$1 root=$2 name path
    shift 2
    while read -r name; do
        path=$(chroot "$root" /sbin/ldconfig -p | awk -v name="$name" '$1 == name && !n++ { print $NF }')
        [[ -n $path ]] || continue
        cp -L "$root$path" "$folder/usr/local/lib/"
    done < <(chroot "$folder" ldd "$@" 2>/dev/null | awk '/not found/ { print $1 }' | sort -u)
    chroot "$folder" /sbin/ldconfig
}

# bring MAJOR ROOT FOLDER: the server of ROOT into FOLDER
bring() {
    local major=$1 root=$2 folder=$3 place files
    for place in "usr/lib/postgresql/$major" "usr/share/postgresql/$major"; do
        rm -rf "${folder:?}/$place"
        mkdir -p "$folder/$place"
        cp -a "$root/$place/." "$folder/$place/"
    done
    # what a library that came needs in turn comes with the next round
    for _ in 1 2 3; do
        mapfile -t files < <(cd "$folder" && find "usr/lib/postgresql/$major/bin" "usr/lib/postgresql/$major/lib" usr/local/lib \
            \( -name '*.so*' -o -path '*/bin/*' \) ! -name 'llvmjit*' -type f -printf '/%p\n')
        libraries_for "$folder" "$root" "${files[@]}"
    done
}

# in_folder FOLDER ARGS...: upgrade_inside.sh as its user postgres
in_folder() {
    local folder=$1
    shift
    cp "$here/upgrade_inside.sh" "$folder/upgrade/"
    rm -rf "$folder/upgrade/sql"
    cp -r "$tree/test/upgrade" "$folder/upgrade/sql"
    chmod a+rX "$folder/upgrade" "$folder/upgrade/upgrade_inside.sh"
    chmod -R a+rX "$folder/upgrade/sql"
    bash "$here/inside.sh" "$folder" setpriv --reuid=postgres --regid=postgres --clear-groups env -i PATH="$PATH" HOME=/upgrade LC_ALL=C \
        bash /upgrade/upgrade_inside.sh "$@"
}

# next MAJOR FOLDER NEXT: the server and its cluster go from FOLDER to NEXT, with what has been said of it
next() {
    local major=$1 folder=$2 next=$3
    bring "$major" "$folder" "$next"
    cp -a "$folder/upgrade/data$major" "$folder/upgrade"/*.out "$next/upgrade/"
    chroot "$next" chown -R postgres: /upgrade
}

f17=$1 f18=$2 f19=$3
[[ -n ${KEEP:-} ]] || trap 'rm -rf "$f17/upgrade" "$f18/upgrade" "$f19/upgrade"' EXIT
for folder in "$f17" "$f18" "$f19"; do
    rm -rf "$folder/upgrade"
    mkdir -p "$folder/upgrade"
    chroot "$folder" chown postgres: /upgrade
done

bring 15 / "$f17"
make -s -j"$(nproc)" -C "$tree" install DESTDIR="$f17" PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config >&2
status=0 && in_folder "$f17" fill 15 || status=$?
ok "$status" 'pg_upgrade: 15 has counted in every room'
status=0 && in_folder "$f17" upgrade 15 17 || status=$?
ok "$status" 'pg_upgrade: 15 to 17, and all values are there'
next 17 "$f17" "$f18"
status=0 && in_folder "$f18" upgrade 17 18 || status=$?
ok "$status" 'pg_upgrade: 17 to 18, and all values are there'
next 18 "$f18" "$f19"
status=0 && in_folder "$f18" more 18 || status=$?
ok "$status" 'pg_upgrade: 18 goes on counting in every room as 15 does'
status=0 && in_folder "$f19" upgrade 18 19 || status=$?
ok "$status" 'pg_upgrade: 18 to 19, and all values are there'
# Upgrading copies the files, so the cluster of 15 is as it was.
rm -rf "$f19/upgrade/data19"
next 15 "$f17" "$f19"
status=0 && in_folder "$f19" upgrade 15 19 || status=$?
ok "$status" 'pg_upgrade: 15 to 19, and all values are there'
status=0 && in_folder "$f19" more 19 || status=$?
ok "$status" 'pg_upgrade: 19 goes on counting in every room as 15 does'
status=0 && in_folder "$f19" regions 15 19 || status=$?
ok "$status" 'regions: one on 15 and one on 19 have the counts and units of both'
echo "1..$test_number"
exit "$bad"
