#!/usr/bin/env bash
# The library and the unit tests on a processor whose bytes are the other way around: built by a cross compiler for s390x, and the
# tests run by qemu. In a folder that test/versions.sh makes (make check-s390x), as root there:
#   s390x.sh TREE
# The headers of the server for s390x are from its packages, which are unpacked, not installed. AddressSanitizer does not
# run under qemu. Prints TAP, and "N passed, N failed" at the end.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
tree=$1
root=/s390x
qemu="qemu-s390x -L /usr/s390x-linux-gnu"
passed=0
failed=0

# step NAME COMMAND...
step() {
    local name=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        echo "ok - s390x: $name"
        passed=$((passed + 1))
    else
        tail -n 40 "$log" | sed 's/^/    /'
        echo "not ok - s390x: $name"
        failed=$((failed + 1))
    fi
}

# unpack PACKAGE...: of s390x, below $root
unpack() {
    local package
    dpkg --add-architecture s390x
    apt-get -q update
    rm -rf "$root"
    mkdir -p "$root/packages"
    cd "$root/packages"
    for package in "$@"; do
        apt-get -q -o APT::Sandbox::User=root download "$package:s390x"
    done
    for package in *.deb; do
        dpkg -x "$package" "$root"
    done
    # it finds its folders by its own place
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$qemu" "$root/usr/lib/postgresql/15/bin/pg_config" >"$root/pg_config"
    chmod 755 "$root/pg_config"
    "$root/pg_config" --includedir-server
}

# build: all of it, with warnings as errors, as test/lib.sh has them
build() {
    local headers
    headers=$("$root/pg_config" --includedir-server)
    cd "$tree"
    make -s clean-all
    # what libpq needs in turn is not there
    make -s -k -j"$(nproc)" CC=s390x-linux-gnu-gcc PG_CONFIG="$root/pg_config" unity=yes LDFLAGS="-L$root/usr/lib/s390x-linux-gnu -Wl,--allow-shlib-undefined" \
        COPT="-isystem $headers -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare"
    s390x-linux-gnu-readelf -h dcounter.so | grep 'IBM S/390'
    s390x-linux-gnu-readelf -h bin/dc_relay/dc_relay | grep 'IBM S/390'
    s390x-linux-gnu-readelf -h bin/dc_region/dc_region | grep 'IBM S/390'
}

# unit_tests LOG
unit_tests() {
    make -s -C "$tree/test/unit" clean
    make -s -k -j"$(nproc)" -C "$tree/test/unit" check CC=s390x-linux-gnu-gcc SANITIZE=undefined RUN="$qemu" \
        SERVER_HEADERS="$("$root/pg_config" --includedir-server)" >"$1" 2>&1
}

step 'the headers of the server are unpacked' unpack postgresql-server-dev-15 postgresql-client-15 libpq-dev libpq5
step 'the library, dc_relay and dc_region are built, without a warning' build
log=$(mktemp)
status=0
unit_tests "$log" || status=$?
cat "$log"
bad=$(grep -c '^not ok ' "$log" || true)
if [[ $bad -eq 0 && $status -ne 0 ]]; then bad=1; fi
passed=$((passed + $(grep -c '^ok ' "$log" || true)))
failed=$((failed + bad))
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
