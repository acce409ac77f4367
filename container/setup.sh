#!/bin/sh
# The steps of Containerfile, and of test/package.sh, in a Debian system: installs the packages that lie in a folder, and has
# new clusters preload dcounter.
#   setup.sh FOLDER
set -eu
folder=$1

# None until there is a volume for it: run.sh makes it.
mkdir -p /etc/postgresql-common
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends "$folder"/postgresql-*-dcounter_*.deb "$folder"/dcounter-relay_*.deb
rm -rf /var/lib/apt/lists/*

install -m 755 "$(dirname "$0")/run.sh" /usr/local/bin/dcounter-server
