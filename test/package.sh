#!/usr/bin/env bash
# make check-package FOLDER=...: the Debian packages, in a system that debootstrap has made in a folder, as root. It needs nothing
# else in it; make check-versions makes one and calls this, by hand it is
#   debootstrap --variant=minbase bookworm FOLDER
# Builds them of the last commit, twice, looks at them with lintian, installs them by the steps of the Containerfile over those of the release
# before, starts the server that the container would start, with the live page beside it, runs the tests that autopkgtest would run, and
# removes them. A server of 18 or later then has the extension from the folder of an extension image. Then the archive for PGXN is
# installed there, by hand and by PGXN's client.
#   test/package.sh FOLDER [VERSIONS]   packages for these versions of PostgreSQL from one source ('18 19'); without: that of the Debian
#   CHECK_PACKAGE=short   neither the whole of installcheck, nor the second build, nor one with clang, which take minutes
#   unity=yes             each folder is compiled as one unit, which takes half the time
#   REUSE=1               the packages that the last run has built, for work on the steps after that
# Prints "ok - ..." or "not ok - ..." for each step, and "N passed, N failed" at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
folder=${1:?which folder? see the head of $0}
majors=${2:-}
[[ $(id -u) -eq 0 ]] || { echo "$0: only root can change to another root folder" >&2; exit 1; }
[[ -x $folder/usr/bin/apt-get ]] || { echo "$0: no Debian in $folder" >&2; exit 1; }
passed=0
failed=0
logs=$folder/var/log/dcounter

# What it mounts is seen by it only, and what it starts ends with it, servers too. Processes that have lost their parent are its own.
if [[ ${DC_STAGE:-} != package ]]; then
    DC_STAGE=package exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc bash test/package.sh "$@"
fi
trap 'exit 130' INT
trap 'exit 143' TERM

# inside [USER] COMMAND: a line of shell in the folder, in /build/tree
inside() {
    local user=root
    if [[ $# -gt 1 ]]; then
        user=$1
        shift
    fi
    # shellcheck disable=SC2016 # expanded inside
    chroot "$folder" setpriv --reuid="$user" --regid="$(chroot "$folder" id -g "$user")" --init-groups -- \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/build USER="$user" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive ${majors:+PG_SUPPORTED_VERSIONS="$majors"} ${unity:+unity="$unity"} \
        sh -euc 'cd /build/tree; eval "$1"' sh "$1"
}

# step NAME [USER] COMMAND
step() {
    local name=$1 log=$logs/$((passed + failed + 1)).log
    shift
    if inside "$@" >"$log" 2>&1 </dev/null; then
        echo "ok - package: $name"
        passed=$((passed + 1))
    else
        tail -n 40 "$log" | sed 's/^/    /'
        echo "not ok - package: $name"
        failed=$((failed + 1))
    fi
}

mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
rm -rf "$logs"
[[ -n ${REUSE:-} ]] || rm -rf "$folder/build"
mkdir -p "$folder/build/tree" "$logs"
# nothing that is installed starts a service
printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d"
chmod 755 "$folder/usr/sbin/policy-rc.d"
mkdir -p "$folder/etc/postgresql-common"
echo 'create_main_cluster = false' >"$folder/etc/postgresql-common/createcluster.conf"
git archive HEAD | tar -xf - -C "$folder/build/tree"
make -s -C "$folder/build" -f "$PWD/Makefile" dist
released='' released_commit=''
while read -r version commit _; do
    if [[ $version != '#' ]] && git cat-file -e "$commit" 2>/dev/null; then released=$version released_commit=$commit; fi
done <sql/releases
before=
if [[ -n $released ]] && ! compgen -G "$folder/build/before/*.deb" >/dev/null; then
    before=new
    mkdir -p "$folder/build/before/sources"
    git archive "$released_commit" src sql Makefile dcounter.control test/regress.list | tar -xf - -C "$folder/build/before/sources"
fi
chroot "$folder" id builder >/dev/null 2>&1 || chroot "$folder" useradd builder
chroot "$folder" chown -R builder: /build

step 'what building needs is installed' \
    "apt-get update && apt-get install -y --no-install-recommends build-essential debhelper postgresql-server-dev-all libpq-dev postgresql lintian unzip man-db clang \
        $(for major in $majors; do printf 'postgresql-server-dev-%s postgresql-%s ' "$major" "$major"; done)"
[[ -n $majors ]] || majors=$(inside pg_buildext supported-versions)
if [[ -z ${REUSE:-} ]]; then
    step 'the control files are what pg_buildext makes of those with PGVERSION' builder \
        'cp debian/control /tmp/control.given; cp debian/tests/control /tmp/tests.given; pg_buildext updatecontrol
        [ "$(pg_buildext supported-versions)" != 15 ] || { cmp debian/control /tmp/control.given && cmp debian/tests/control /tmp/tests.given; }'
    step 'dpkg-buildpackage' builder "DEB_BUILD_OPTIONS=parallel=2 dpkg-buildpackage -us -uc"
    if [[ ${CHECK_PACKAGE:-} != short ]]; then
        git archive --prefix=another/place/ HEAD | tar -xf - -C "$folder/build"
        # shellcheck disable=SC2016 # expanded inside
        step 'built again in another place, by the first stage of the Containerfile, they are the same to the byte' \
            "sh container/build.sh '$majors' /build/another/place /build/again"'
            for package in ../again/*.deb; do cmp "$package" "../$(basename "$package")"; done
            [ "$(ls ../again/*.deb)" = "$(ls ../*-dcounter_*.deb ../dcounter-relay_*.deb | sed s,^..,../again,)" ]'
    fi
fi
if [[ -n $before ]]; then step "packages of $released, for the upgrade" "sh test/package/before.sh build /build/before/sources $released $majors"; fi
step 'lintian finds nothing' builder 'lintian --fail-on error,warning ../dcounter_*.changes && ! lintian ../dcounter_*.changes | grep .'
step 'nothing but what belongs there is packaged' \
    'for deb in ../*-dcounter_*.deb ../dcounter-relay_*.deb; do dpkg -c "$deb"; done >/tmp/list; grep -q "lib/dcounter.so$" /tmp/list; grep -q "/usr/bin/dc_relay$" /tmp/list; grep -q "/usr/bin/dc_region$" /tmp/list; grep -q "/extension/dcounter_lite.control$" /tmp/list; grep -q "/doc/.*/dcounter_lite-tle--.*sql" /tmp/list; ! grep -E "bitcode|\.bc$|\.o$|lib/postgresql/.*/bin/|\.c$" /tmp/list'
step 'the release before is installed, and counts in every room' 'sh test/package/before.sh count'
for major in $majors; do
    step "the steps of the Containerfile install those of $major" "mkdir -p /build/packages && cp ../*.deb /build/packages/ && sh container/setup.sh /build/packages $major"
done
step 'over the release before, all values are there, and counting goes on' 'sh test/package/before.sh upgraded'
# shellcheck disable=SC2016 # expanded inside
step 'its server runs, preloaded, and the extension is in each database' '
    rm -rf /build/data; export PGDATA=/build/data DCOUNTER_PASSWORD=secret
    dcounter-server -p 5499 >/tmp/server.log 2>&1 & server=$!
    for i in $(seq 300); do su postgres -c "psql -Xqh /run/postgresql -p 5499 -c \"\"" 2>/dev/null && break; sleep 0.2; done
    su postgres -c "createdb -h /run/postgresql -p 5499 app && psql -Xqv ON_ERROR_STOP=1 -h /run/postgresql -p 5499 -f debian/tests/buffered.sql app" || result=$?
    PGPASSWORD=secret psql -XAtqh 127.0.0.1 -p 5499 -U postgres app -c "SELECT dc_get('\''views'\'', '\''page:1'\'')" >/tmp/out || result=$?
    kill -INT $server; wait $server; [ -z "${result:-}" ] && grep -qx 42 /tmp/out'
step 'the compose file: its server has the live page, which counts' 'apt-get update; apt-get install -y --no-install-recommends nodejs node-pg node-ws python3-yaml; sh test/package/compose.sh'
step 'man dc_relay' 'man --warnings -E UTF-8 -l /usr/share/man/man1/dc_relay.1.gz >/tmp/man 2>&1; grep -q acknowledge /tmp/man; ! grep -i warning /tmp/man'
step 'man dc_region' 'man --warnings -E UTF-8 -l /usr/share/man/man1/dc_region.1.gz >/tmp/man 2>&1; grep -q restore /tmp/man; ! grep -i warning /tmp/man'
step 'autopkgtest: preloaded' 'sh debian/tests/preloaded'
if [[ ${CHECK_PACKAGE:-} != short ]]; then
    # PostgreSQL's headers are written for gcc: for clang they are system headers
    # shellcheck disable=SC2016 # expanded inside
    step 'clang builds in another folder, without a warning' builder '
        command -v clang >/dev/null || { echo "no clang here"; exit 1; }
        config=$(ls -d /usr/lib/postgresql/*/bin/pg_config | tail -n 1)
        rm -rf /build/clang; mkdir /build/clang; cd /build/clang
        make -s -j2 -f ../tree/Makefile PG_CONFIG="$config" CC=clang CFLAGS="-O1 -fPIC -fno-strict-aliasing -fwrapv -isystem $($config --includedir-server) -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers"
        make -s -f ../tree/Makefile PG_CONFIG="$config" install DESTDIR=/build/clang/inst; find inst -name dcounter.so | grep .'
    step 'autopkgtest: installcheck' builder 'sh debian/tests/installcheck'
fi
step 'the packages are removed' 'apt-get purge -y "postgresql-*-dcounter" dcounter-relay && ! ls /usr/lib/postgresql/*/lib/dcounter.so /usr/bin/dc_relay /usr/bin/dc_region /usr/share/postgresql/*/extension/dcounter* 2>/dev/null'

# What remains is the servers. The layout of an image, which cannot be built here; from 18 on a server can have it.
# shellcheck disable=SC2016 # expanded inside
for major in $majors; do
    [[ $major -ge 18 ]] || continue
    step "the extension image for $major: lib and share/extension, nothing else, less than 10 MB" '
        rm -rf /build/image'$major'; sh container/extension.sh ../postgresql-'$major'-dcounter_*.deb /build/image'$major'; cd /build/image'$major'
        find . -type f | sort; du -sk .; [ "$(du -sk . | cut -f 1)" -lt 10240 ]
        [ -z "$(find . -type f ! -path ./lib/dcounter.so ! -path "./share/extension/dcounter*.control" ! -path "./share/extension/dcounter*.sql")" ]'
    step "a server of $major has the extension from that folder alone, preloads it, and passes the regression tests" builder \
        "sh test/package/image.sh $major /build/image$major ${CHECK_PACKAGE:+short}"
done
step 'the manifests for CloudNativePG name what the image has' 'python3 test/package/manifests.py container/cloudnative-pg.yaml'

# shellcheck disable=SC2016 # expanded inside
# As who has unpacked the archive, and as PGXN's client does, which makes much the same
step 'the archive for PGXN: it is unpacked, and make' builder '
    rm -rf /build/pgxn; mkdir /build/pgxn; cd /build/pgxn; unzip -q ../dcounter-*.zip; cd dcounter-*
    cat sql/parts/*.sql | cmp - "$(sed -n "s/.*\"file\": \"\(.*\)\",/\1/p" META.json)"
    make -s -j2'
step 'the archive for PGXN: make install' 'cd /build/pgxn/dcounter-*; make -s install; pg_virtualenv psql -Xqv ON_ERROR_STOP=1 -f /build/tree/debian/tests/smoke.sql'
if [[ ${CHECK_PACKAGE:-} != short ]]; then
    step 'the archive for PGXN: make installcheck' builder 'cd /build/pgxn/dcounter-*; pg_virtualenv make -s installcheck || { tail -n 200 regression.diffs; exit 1; }'
fi
step 'the archive for PGXN: make uninstall' \
    'cd /build/pgxn/dcounter-*; make -s uninstall; ! ls /usr/lib/postgresql/*/lib/dcounter.so /usr/lib/postgresql/*/bin/dc_relay /usr/lib/postgresql/*/bin/dc_region /usr/share/postgresql/*/extension/dcounter* 2>/dev/null'
# shellcheck disable=SC2016 # expanded inside
step "the archive for PGXN: its client installs it, loads it into a database, and uninstalls it" '
    apt-get update; apt-get install -y --no-install-recommends pgxnclient
    config=$(ls -d /usr/lib/postgresql/*/bin/pg_config | tail -n 1)
    unity=yes pgxn install --yes --pg_config "$config" /build/dcounter-*.zip
    pg_virtualenv sh -euc "pgxn load --yes --pg_config $config -d postgres /build/dcounter-*.zip; psql -XAtqc \"SELECT dc_create('\''likes'\'')\" postgres"
    pgxn uninstall --yes --pg_config "$config" /build/dcounter-*.zip; ! ls /usr/lib/postgresql/*/lib/dcounter.so 2>/dev/null'
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
