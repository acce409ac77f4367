#!/usr/bin/env bash
# make lite: joins lite/parts into lite/build (or the folder that is named), in the forms in which dcounter_lite is installed. The version is that of
# dcounter.control.
set -euo pipefail
build=$(realpath -m "${1:-$(dirname "$0")/build}")
cd "$(dirname "$0")"
version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" ../dcounter.control)

# with_version FILE...: joined, with the version in them
with_version() {
    cat "$@" | sed "s/@VERSION@/$version/g"
}

mkdir -p "$build"
with_version parts/*.sql >"$build/dcounter_lite--$version.sql"
with_version forms/dcounter_lite.control >"$build/dcounter_lite.control"
with_version forms/tle_before.sql parts/*.sql forms/tle_after.sql >"$build/dcounter_lite-tle--$version.sql"
# The first part creates the schema and its tables, the last one says what is dumped: these are there.
{
    with_version forms/upgrade.sql
    with_version parts/[1-8]*.sql | sed -E 's/^CREATE (FUNCTION|PROCEDURE|TRIGGER) /CREATE OR REPLACE \1 /; s/^CREATE TABLE /&IF NOT EXISTS /'
} >"$build/dcounter_lite-upgrade--$version.sql"
