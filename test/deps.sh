#!/usr/bin/env bash
# Installs with apt-get, and npm, what is missing for: build, sql (what tests of SQL need), test (all tests), fuzz, memory,
# versions, bench, live (the arguments).
# Does nothing, and asks nothing of the machine, when all is there.
# PGVERSION=N picks the PostgreSQL major, else that of the pg_config found,
# else the newest one apt knows.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

sets=" ${*:-build} "
missing=()
optional=()
unpackaged=()

# need PACKAGE COMMAND...: remember PACKAGE unless COMMAND succeeds
need() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

# need_pg PACKAGE FILE: FILE must exist; a PostgreSQL that did not come from
# a package cannot be completed with one
need_pg() {
    [[ -n $2 && -e $2 ]] && return
    if [[ -n $config && $config != /usr/lib/postgresql/* && $config != /usr/bin/* ]]; then
        unpackaged+=("$2")
    else
        missing+=("$1")
    fi
}

# want_pg PACKAGE FILE: as need_pg, but what has no package here is left out, and
# the tests that use it say so
want_pg() {
    [[ -n $2 && -e $2 ]] && return
    [[ -n $config && $config != /usr/lib/postgresql/* && $config != /usr/bin/* ]] || optional+=("$1")
}

has_libfuzzer() {
    clang -fsanitize=fuzzer -x c -o /dev/null - <<<'int LLVMFuzzerTestOneInput(void) { return 0; }'
}

# The interpreters of the packages, which look for their modules in the packages' folders
python_has() {
    /usr/bin/python3 -c "import $1" 2>/dev/null
}

ruby_has() {
    /usr/bin/ruby -e "require '$1'" 2>/dev/null
}

newest_in_apt() {
    apt-cache --names-only search '^postgresql-server-dev-[0-9]+$' 2>/dev/null |
        sed -n 's/^postgresql-server-dev-\([0-9]*\) .*/\1/p' | sort -n | tail -n 1
}

as_root() {
    if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-confold \
        -o DPkg::Lock::Timeout=300 "$@" # others may use it just now, as on a machine that has just been started
}

if [[ -n ${PGVERSION:-} && -z ${PG_CONFIG:-} ]]; then
    PG_CONFIG=/usr/lib/postgresql/$PGVERSION/bin/pg_config
    [[ -x $PG_CONFIG ]] || PG_CONFIG=
fi
config=
if [[ -n ${PG_CONFIG:-} || -z ${PGVERSION:-} ]]; then
    config=$(find_pg_config || true)
fi
[[ -n ${PG_CONFIG:-} && -z $config ]] && die "PG_CONFIG=$PG_CONFIG has no PGXS"

major=${PGVERSION:-} bindir='' share='' libdir='' headers=''
if [[ -n $config ]]; then
    major=$(pg_major "$config")
    bindir=$("$config" --bindir)
    share=$("$config" --sharedir)/extension
    libdir=$("$config" --pkglibdir)
    headers=$("$config" --includedir)
fi

updated=
if [[ -z $major ]] && command -v apt-get >/dev/null; then
    major=$(newest_in_apt)
    if [[ -z $major ]]; then
        echo 'deps: apt-get update'
        apt update >/dev/null
        updated=1
        major=$(newest_in_apt)
    fi
fi
major=${major:-15}

if [[ $sets == *' build '* ]]; then
    need gcc command -v gcc
    need libc6-dev test -e /usr/include/stdio.h
    need make command -v make
    [[ -n $config ]] || missing+=("postgresql-server-dev-$major")
    need_pg "postgresql-$major" "${bindir:+$bindir/postgres}"
    need_pg libpq-dev "${headers:+$headers/libpq-fe.h}"
    need_pg postgresql-contrib "${share:+$share/pg_stat_statements.control}"
fi
if [[ $sets == *' test '* || $sets == *' sql '* ]]; then
    need perl command -v prove
    need libtap-parser-sourcehandler-pgtap-perl command -v pg_prove
    need_pg "postgresql-$major-pgtap" "${share:+$share/pgtap.control}"
fi
if [[ $sets == *' test '* ]]; then
    need libipc-run-perl perl -MIPC::Run -e 1
    want_pg "postgresql-$major-wal2json" "${libdir:+$libdir/wal2json.so}"
    want_pg "postgresql-$major-hll" "${share:+$share/hll.control}"
    want_pg "postgresql-$major-cron" "${share:+$share/pg_cron.control}"
    need clang-format command -v clang-format
    need redis-tools find_redis
    command -v kcat >/dev/null || optional+=(kcat)
    [[ -x /usr/sbin/pgbouncer ]] || command -v pgbouncer >/dev/null || optional+=(pgbouncer)
    command -v prometheus-postgres-exporter >/dev/null || optional+=(prometheus-postgres-exporter)
    python_has psycopg || optional+=(python3-psycopg)
    python_has psycopg2 || optional+=(python3-psycopg2)
    python_has django || optional+=(python3-django)
    python_has alembic || optional+=(python3-alembic)
    ruby_has active_record || optional+=(ruby ruby-activerecord)
    ruby_has pg || optional+=(ruby-pg)
    command -v node >/dev/null || optional+=(nodejs)
    command -v npm >/dev/null || optional+=(npm)
    command -v chromium >/dev/null || optional+=(chromium)
fi
if [[ $sets == *' live '* ]]; then
    need nodejs command -v node
    need npm command -v npm
fi
if [[ $sets == *' fuzz '* ]]; then
    need gcc command -v gcc
    need libc6-dev test -e /usr/include/stdio.h
    need make command -v make
    need clang command -v clang
    need libclang-rt-dev has_libfuzzer
fi
if [[ $sets == *' memory '* ]]; then
    need dpkg-dev command -v dpkg-source
    need patch command -v patch
    need bzip2 command -v bzip2
    need xz-utils command -v xz
    need libssl-dev test -e /usr/include/openssl/ssl.h
    need libxml2-dev test -e /usr/include/libxml2/libxml/parser.h
    need pkg-config command -v pkg-config
    need zlib1g-dev test -e /usr/include/zlib.h
    need debian-archive-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
fi
if [[ $sets == *' versions '* ]]; then
    need debootstrap command -v debootstrap
    need debian-archive-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
fi
if [[ $sets == *' bench '* ]]; then
    need gnuplot-nox command -v gnuplot
    need redis-tools find_redis
    need redis-tools command -v redis-benchmark
    need_pg "postgresql-$major-hll" "${share:+$share/hll.control}"
fi

if [[ ${#unpackaged[@]} -gt 0 ]]; then
    die "not in the PostgreSQL of $config, install by hand: ${unpackaged[*]}"
fi
# Fails for nothing: without them, some tests are skipped. All in one call; one by one only if that fails,
# as one of them is not to be had here, or not together with another.
install_optional() {
    local package
    [[ ${#optional[@]} -gt 0 ]] || return 0
    if [[ $(id -u) -eq 0 ]] || sudo -n true 2>/dev/null; then
        # are there any lists?
        if [[ -z $updated ]] && ! apt-cache show "postgresql-$major" >/dev/null 2>&1; then
            apt update >/dev/null 2>&1 || true
            updated=1
        fi
        apt install --no-install-recommends "${optional[@]}" >/dev/null 2>&1 && return
        for package in "${optional[@]}"; do
            apt install --no-install-recommends "$package" >/dev/null 2>&1 ||
                echo "deps: could not install $package: the tests that use it are skipped"
        done
        return
    fi
    echo "deps: could not install ${optional[*]}: the tests that use them are skipped"
}

# npm_packages FOLDER: those of its package-lock.json, into FOLDER/node_modules, unless they are there
npm_packages() {
    local installed=$1/node_modules/.package-lock.json
    [[ ! -e $installed || $1/package-lock.json -nt $installed ]] || return 0
    command -v npm >/dev/null && npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund >/dev/null 2>&1 && touch "$installed"
}

# Fails for nothing but "live": without them, some tests are skipped.
install_npm() {
    local lock folder
    if [[ $sets == *' live '* ]]; then
        npm_packages examples/live || die 'could not install the npm packages of examples/live'
    fi
    [[ $sets == *' test '* ]] || return 0
    for lock in examples/*/package-lock.json; do
        folder=$(dirname "$lock")
        npm_packages "$folder" ||
            echo "deps: could not install the npm packages of $folder: the tests that use them are skipped"
    done
}

# Citus for PostgreSQL 15 of Debian 12, from beside the tree: Debian has no package. Fails for nothing: without it, some
# tests are skipped, and say so.
install_citus() {
    local archive config
    [[ $sets == *' test '* || $sets == *' bench '* ]] || return 0
    config=$(find_pg_config) || return 0
    [[ ! -e $("$config" --sharedir)/extension/citus.control ]] || return 0
    for archive in ../shared/citus/citus-*-pg15-debian12-amd64.tar.xz; do
        [[ -e $archive ]] || return 0
        if [[ $("$config" --pkglibdir) != /usr/lib/postgresql/15/lib || $(dpkg --print-architecture) != amd64 || $(cut -d. -f1 /etc/debian_version) != 12 ]]; then
            echo 'deps: Citus is for PostgreSQL 15 of Debian 12 on amd64: the tests that use it are skipped'
        elif [[ $(id -u) -ne 0 ]] && ! sudo -n true 2>/dev/null; then
            echo 'deps: could not install Citus: the tests that use it are skipped'
        elif ! { command -v xz >/dev/null || apt install --no-install-recommends xz-utils >/dev/null 2>&1; } ||
            ! as_root tar -xJf "$archive" --no-same-owner --no-overwrite-dir -C /; then
            echo 'deps: could not install Citus: the tests that use it are skipped'
        elif ldd "$("$config" --pkglibdir)/citus.so" | grep 'not found'; then
            echo 'deps: libraries that Citus needs are missing: the tests that use it fail'
        fi
        return 0
    done
}

if [[ ${#missing[@]} -eq 0 ]]; then
    install_citus
    install_optional
    install_npm
    exit 0
fi

echo "deps: missing: ${missing[*]}"
command -v apt-get >/dev/null || die 'there is no apt-get here: install these by hand'
if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || die 'neither root nor sudo: install these by hand'
    # Without a terminal sudo must not wait for a password.
    [[ -t 0 ]] || sudo -n true 2>/dev/null || die 'sudo asks for a password: install these by hand'
fi

# A freshly installed server would set up and start a cluster nobody asked for.
conf=/etc/postgresql-common/createcluster.conf
if [[ " ${missing[*]} " == *" postgresql-$major "* && ! -e $conf ]]; then
    echo "deps: $conf: create_main_cluster = false"
    as_root mkdir -p "$(dirname "$conf")"
    echo 'create_main_cluster = false' | as_root tee "$conf" >/dev/null
fi

[[ -n $updated ]] || apt update >/dev/null
# pgTAP is SQL alone: a PostgreSQL that is too new to have a package of it takes the files of the one before.
pgtap=postgresql-$major-pgtap older=
if [[ " ${missing[*]} " == *" $pgtap "* ]] && ! apt-cache show "$pgtap" >/dev/null 2>&1; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vxF "$pgtap")
    older=$((major - 1))
fi
apt install --no-install-recommends "${missing[@]}"
if [[ -n $older ]]; then
    folder=$(mktemp -d)
    (cd "$folder" && apt-get -q download "postgresql-$older-pgtap" && dpkg-deb -x ./*.deb .)
    as_root cp -R "$folder/usr/share/postgresql/$older/." "/usr/share/postgresql/$major/"
    rm -rf "$folder"
fi
updated=1
install_citus
install_optional
install_npm
