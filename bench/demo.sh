#!/usr/bin/env bash
# make demo: 32 clients like one post, first with UPDATE, then with dc_incr.
# DEMO_SECONDS is the length of each of the two runs.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh
# shellcheck source=bench/pgbench.sh
source bench/pgbench.sh

seconds=${DEMO_SECONDS:-4}
clients=32

# shellcheck disable=SC2031 # in_work_folder sets it for the second half only
if [[ ${DC_STAGE:-} != user ]]; then
    bash test/deps.sh build
    echo 'Building and installing dcounter ...'
    build_and_install unity=yes COPT=-g0 >/dev/null # the same code, in half the time, and without what a debugger reads
    make_work disk
    in_work_folder bench/demo.sh
    exit
fi

use_postgres
echo 'Starting a throwaway server (fsync on) ...'
start_cluster demo 'max_connections = 100' 'shared_buffers = 256MB'
sql postgres "
    CREATE EXTENSION dcounter;
    CREATE TABLE posts (id int PRIMARY KEY, likes bigint NOT NULL);
    INSERT INTO posts VALUES (42, 0);
    SELECT dc_create('likes');" >/dev/null

cat >"$DC_WORK/update.sql" <<<'UPDATE posts SET likes = likes + 1 WHERE id = 42;'
cat >"$DC_WORK/dc_incr.sql" <<<"SELECT dc_incr('likes', 'post:42');"

echo "$clients clients like post 42, $seconds seconds each way"
echo
run_pgbench "$DC_WORK/update.sql" "$clients" "$seconds"
update_rate=$rate
printf '  %-44s %9.0f likes/s\n' 'UPDATE posts SET likes = likes + 1' "$rate"
run_pgbench "$DC_WORK/dc_incr.sql" "$clients" "$seconds"
printf '  %-44s %9.0f likes/s\n' "SELECT dc_incr('likes', 'post:42')" "$rate"
awk -v a="$rate" -v b="$update_rate" 'BEGIN { printf "  %-44s %9.1f times\n", "ratio", a / b }'

counted=$(sql postgres "SELECT dc_get('likes', 'post:42');")
verdict=OK
[[ $counted == "$transactions" ]] || verdict=MISMATCH
printf '\n  %-44s %9s\n' 'transactions that pgbench saw committed' "$transactions"
printf '  %-44s %9s  %s\n\n' "SELECT dc_get('likes', 'post:42')" "$counted" "$verdict"
[[ $verdict == OK ]]
