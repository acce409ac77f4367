#!/usr/bin/env bash
# build.sh FOLDER: a PostgreSQL in FOLDER/pgsql that finds errors of memory: with
# AddressSanitizer, assertions, and memory contexts whose freed and unallocated
# memory is poisoned. server.patch turns the requests that the server has for
# Valgrind into AddressSanitizer's. Made from Debian's source package, in about
# 10 minutes, once: when it is there, nothing is done.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
major=15

# What it is made of: with another patch or script it is recreated.
stamp=$(cat "$here/server.patch" "$here/build.sh" | cksum)
[[ $(cat "$folder/built" 2>/dev/null) != "$stamp" ]] || exit 0
echo "check-memory: building a PostgreSQL with AddressSanitizer in $folder (its output is in build.log there)"
mkdir -p "$folder"
rm -rf "${folder:?}"/{apt,src,build,pgsql,built,build.log}
mkdir -p "$folder"/{src,build,apt/lists/partial}

# source_of PACKAGE: its source, with lists of sources of our own, as the machine's
# stay as they are
source_of() {
    local version options=(-q -o "Dir::Etc::sourcelist=$folder/apt/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$folder/apt/lists"
        -o "Dir::Cache=$folder/apt" -o APT::Sandbox::User=root)
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg
    # shellcheck disable=SC2016 # for apt to expand
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' |
        sort -u | sed "s,^,deb-src [signed-by=$keys] ,; s,\$, main," >"$folder/apt/sources.list"
    apt-get "${options[@]}" update
    # A list may have a version that the archive has no longer.
    for version in $(apt-cache "${options[@]}" madison "$1" | awk '{ print $3 }'); do
        apt-get "${options[@]}" source "$1=$version" && return
    done
    return 1
}

build() {
    local source module
    cd "$folder/src"
    source_of "postgresql-$major"
    source=$(echo "$PWD/postgresql-$major-$major"*/)
    # Debian's tree sets the library folder, whatever --prefix says.
    sed -i '/^override pkglibdir/d' "$source/src/Makefile.global.in"
    # nothing here is embedded SQL, whose grammar takes long
    sed -i '/^SUBDIRS/s/ ecpg//' "$source/src/interfaces/Makefile"
    patch -d "$source" -p1 <"$here/server.patch"

    # With "pgsql" in the prefix no "postgresql" is appended to its folders.
    cd "$folder/build"
    "$source/configure" -q --prefix="$folder/pgsql" --enable-cassert \
        --with-openssl --with-libxml --without-readline --without-icu CC=gcc \
        CFLAGS='-O1 -g1 -fno-omit-frame-pointer -fsanitize=address'
    # what the build runs of itself need not give its memory back
    export ASAN_OPTIONS=detect_leaks=0
    make -s -j"$(nproc)"
    make -s install
    for module in postgres_fdw test_decoding; do
        make -s -C "contrib/$module" install
    done
    mkdir -p "$folder/pgsql/lib/pgxs/src/test/perl"
    cp -r "$source/src/test/perl/PostgreSQL" "$folder/pgsql/lib/pgxs/src/test/perl/"
    cp "/usr/share/postgresql/$major/extension/"pgtap* "$folder/pgsql/share/extension/"
    cd "$folder"
    chmod -R a+rX "$folder"
    rm -rf src build apt
}

# In a shell of its own, since errexit is off in a condition.
export -f build source_of
export folder here major
if ! bash -euo pipefail -c build >"$folder/build.log" 2>&1; then
    tail -n 40 "$folder/build.log"
    echo 'check-memory: could not build the server'
    exit 1
fi
echo "$stamp" >"$folder/built"
