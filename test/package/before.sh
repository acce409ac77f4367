#!/bin/sh
# Steps of package.sh, in its folder as root: the packages over those of the release before. It had none, so these are made of its
# sources, for the versions of PostgreSQL that these compile for.
#   before.sh build SOURCES VERSION MAJOR...    to /build/before/MAJOR.deb
#   before.sh count                             installs them; a server of each counts in every room
#   before.sh upgraded with the new packages all values are there, and counting continues
set -eu
folder=/build/before
user=builder

# psql_file MAJOR FILE: what it prints, on the server of MAJOR
psql_file() {
	setpriv --reuid="$user" --regid="$user" --init-groups psql -XAtq -v ON_ERROR_STOP=1 -h "$folder" -p "54$1" -U postgres -f "test/upgrade/$2.sql" rooms
}

# statement MAJOR DATABASE SQL
statement() {
	psql -XAtq -v ON_ERROR_STOP=1 -h "$folder" -p "54$1" -U postgres -c "$3" "$2"
}

control() { # MAJOR ACTION
	setpriv --reuid="$user" --regid="$user" --init-groups "/usr/lib/postgresql/$1/bin/pg_ctl" -D "$folder/data$1" -l "$folder/server$1.log" -w "$2" >/dev/null || {
		tail -n 20 "$folder/server$1.log"
		exit 1
	}
}

# build MAJOR: a package with the files of the extension
build() {
	config=/usr/lib/postgresql/$1/bin/pg_config
	root=$folder/root$1
	make -s -C "$sources" PG_CONFIG="$config" clean >/dev/null 2>&1 || true
	# -O0 and -g0: it is to work, not to be fast
	if ! make -s -j2 -C "$sources" PG_CONFIG="$config" with_llvm=no COPT='-O0 -g0 -w -U_FORTIFY_SOURCE' dcounter.so "sql/dcounter--$version.sql"; then
		echo "$version does not compile for PostgreSQL $1: nothing to upgrade from"
		return 0
	fi
	install -D -m 644 "$sources/dcounter.so" "$root$($config --pkglibdir)/dcounter.so"
	mkdir -p "$root$($config --sharedir)/extension" "$root/DEBIAN"
	install -m 644 "$sources/dcounter.control" "$sources/sql/dcounter--$version.sql" "$root$($config --sharedir)/extension/"
	printf '%s\n' "Package: postgresql-$1-dcounter" "Version: $version" "Architecture: $(dpkg --print-architecture)" "Depends: postgresql-$1" \
		'Maintainer: dcounter developers <dcounter@example.org>' 'Description: the release before' >"$root/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$root" "$folder/$1.deb"
}

case $1 in
build)
	sources=$2 version=$3
	shift 3
	for major in "$@"; do
		build "$major"
	done
	;;
count)
	for package in "$folder"/*.deb; do
		[ -e "$package" ] || exit 0
		major=$(basename "$package" .deb)
		apt-get install -y --no-install-recommends "$package"
		rm -rf "$folder/data$major"
		mkdir "$folder/data$major"
		chown "$user:" "$folder" "$folder/data$major"
		setpriv --reuid="$user" --regid="$user" --init-groups "/usr/lib/postgresql/$major/bin/initdb" -D "$folder/data$major" -U postgres -A trust -E UTF8 --locale=C --no-sync >/dev/null
		printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$folder'" "port = 54$major" 'fsync = off' 'wal_level = logical' \
			"shared_preload_libraries = 'dcounter'" 'max_prepared_transactions = 20' >>"$folder/data$major/postgresql.conf"
		control "$major" start
		statement "$major" postgres 'CREATE DATABASE rooms'
		statement "$major" rooms 'CREATE EXTENSION dcounter'
		psql_file "$major" fill
		psql_file "$major" check >"$folder/check$major"
		[ "$(wc -l <"$folder/check$major")" -gt 100 ]
	done
	;;
upgraded)
	for package in "$folder"/*.deb; do
		[ -e "$package" ] || exit 0
		major=$(basename "$package" .deb)
		now=$(dpkg-query -W -f '${Version}' "postgresql-$major-dcounter")
		dpkg --compare-versions "$now" gt "$(dpkg-deb -f "$package" Version)"
		# the server has the library that it was started with, until then
		psql_file "$major" check | diff "$folder/check$major" -
		control "$major" restart
		psql_file "$major" check | diff "$folder/check$major" -
		statement "$major" rooms 'ALTER EXTENSION dcounter UPDATE'
		[ "$(statement "$major" rooms "SELECT extversion FROM pg_extension WHERE extname = 'dcounter'")" = "$now" ]
		psql_file "$major" check | diff "$folder/check$major" -
		psql_file "$major" more
		control "$major" stop
	done
	;;
esac
