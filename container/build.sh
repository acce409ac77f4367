#!/bin/sh
# The first stage of Containerfile: builds the Debian packages of a tree for one or more versions of PostgreSQL, and installs the build dependencies.
# Two builds are identical, wherever the tree is.
#   build.sh 'MAJOR...' TREE FOLDER
set -eu
majors=$1 tree=$2 folder=$3
export DEBIAN_FRONTEND=noninteractive PG_SUPPORTED_VERSIONS="$majors"

for major in $majors; do
	sh "$(dirname "$0")/apt.sh" "$major"
	apt-get install -y --no-install-recommends "postgresql-server-dev-$major"
done
apt-get install -y --no-install-recommends build-essential debhelper libpq-dev postgresql-server-dev-all
mkdir -p "$folder"
cd "$tree"
pg_buildext updatecontrol
DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage --build-profiles=nocheck -us -uc -b
mv ../postgresql-*-dcounter_*.deb ../dcounter-relay_*.deb "$folder"
