#!/bin/sh
# The last stage of Containerfile: installs the packages of a folder, with PostgreSQL MAJOR, and the entry point of the container.
# test/package.sh takes the same steps.
#   setup.sh FOLDER MAJOR
set -eu
folder=$1 major=$2
export DEBIAN_FRONTEND=noninteractive

sh "$(dirname "$0")/apt.sh" "$major"
apt-get install -y --no-install-recommends "$folder/postgresql-$major-dcounter"_*.deb "$folder"/dcounter-relay_*.deb
rm -rf /var/lib/apt/lists/*

install -m 755 "$(dirname "$0")/run.sh" /usr/local/bin/dcounter-server
