#!/bin/sh
# A step of package.sh: a server that has dcounter from the folder of an extension image alone, as CloudNativePG gives it, preloads it and
# passes the regression tests. In the tree, not as root.
#   image.sh MAJOR IMAGE [short]
set -eu
major=$1 image=$2
bin=/usr/lib/postgresql/$major/bin
config=$bin/pg_config
[ ! -e "$($config --pkglibdir)/dcounter.so" ] && [ ! -e "$($config --sharedir)/extension/dcounter.control" ]

folder=$(mktemp -d)
trap '"$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
export PGHOST="$folder" PGPORT=5498 PGUSER=postgres PGDATABASE=postgres
"$bin/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >/dev/null
printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$folder'" 'port = 5498' 'fsync = off' \
	"extension_control_path = '\$system:$image/share'" "dynamic_library_path = '\$libdir:$image/lib'" \
	"shared_preload_libraries = 'dcounter'" 'max_prepared_transactions = 0' >>"$folder/data/postgresql.conf"
"$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w start >/dev/null || { cat "$folder/log" && exit 1; }

psql -Xqv ON_ERROR_STOP=1 -f debian/tests/smoke.sql
psql -Xqv ON_ERROR_STOP=1 -c 'CREATE EXTENSION dcounter' -f debian/tests/buffered.sql
# the worker is there, which the postmaster and the launcher start by the library's name
for _ in $(seq 100); do
	workers=$(psql -XAtc "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'")
	[ "$workers" = 0 ] || break
	sleep 0.1
done
[ "$workers" != 0 ]
[ -n "${3:-}" ] || make -s installcheck PG_CONFIG="$config" preloaded=yes ISOLATION= || { tail -n 200 regression.diffs && exit 1; }
