#!/bin/sh
# The first step of build.sh and setup.sh: makes PostgreSQL MAJOR available to apt. Each Debian has one version; the others come from
# the repository of the PostgreSQL project.
#   apt.sh MAJOR
set -eu
major=$1

# None until there is a volume for it: run.sh makes it.
mkdir -p /etc/postgresql-common
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf

apt-get update
if ! apt-cache show "postgresql-$major" >/dev/null 2>&1; then
	apt-get install -y --no-install-recommends ca-certificates postgresql-common
	/usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y
fi
