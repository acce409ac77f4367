#!/bin/sh
# The entry point of the container: creates a cluster in the volume if there is none, with dcounter preloaded and in its databases, and
# then becomes the server. DCOUNTER_PASSWORD is the password of the role postgres for connections from
# outside: without it, only the socket accepts any. The files /container-init/*.sql are run once, in the database postgres of a new
# cluster.
set -eu
PGDATA=${PGDATA:-/var/lib/postgresql/data}
bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin | sort -V | tail -n 1)

if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA" /run/postgresql
	chown postgres: "$PGDATA" /run/postgresql
	exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	"$bin/initdb" -D "$PGDATA" -E UTF8 --auth-local=peer --auth-host=scram-sha-256
	cat >>"$PGDATA/postgresql.conf" <<'END'
shared_preload_libraries = 'dcounter'
wal_level = logical
unix_socket_directories = '/run/postgresql'
END
	if [ -n "${DCOUNTER_PASSWORD:-}" ]; then
		echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
		echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	else
		echo "listen_addresses = ''" >>"$PGDATA/postgresql.conf"
	fi
	# A private server for this step: later databases get the extension from template1.
	"$bin/pg_ctl" -D "$PGDATA" -w -o "-c listen_addresses=''" start
	for database in template1 postgres; do
		psql -Xq -v ON_ERROR_STOP=1 -h /run/postgresql -d "$database" -c 'CREATE EXTENSION dcounter'
	done
	for file in /container-init/*.sql; do
		[ ! -e "$file" ] || psql -Xq -v ON_ERROR_STOP=1 -h /run/postgresql -d postgres -f "$file" >/dev/null
	done
	if [ -n "${DCOUNTER_PASSWORD:-}" ]; then
		psql -Xq -v ON_ERROR_STOP=1 -h /run/postgresql -d postgres -v password="$DCOUNTER_PASSWORD" <<'END'
ALTER ROLE postgres PASSWORD :'password';
END
	fi
	"$bin/pg_ctl" -D "$PGDATA" -w -m fast stop
fi
exec "$bin/postgres" -D "$PGDATA" "$@"
