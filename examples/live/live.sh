#!/usr/bin/env bash
# make live: the live page, on a throwaway server, until Ctrl-C. PORT is where (any that is free).
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/lib.sh
source test/lib.sh

# shellcheck disable=SC2031 # in_work_folder sets it for the second half only
if [[ ${DC_STAGE:-} != user ]]; then
    bash test/deps.sh build live
    echo 'Building and installing dcounter ...'
    build_and_install unity=yes COPT=-g0 >/dev/null # the same code, in half the time, and without what a debugger reads
    make_work
    status=0
    in_work_folder examples/live/live.sh || status=$?
    [[ $status -eq 130 ]] || exit "$status"
    exit 0
fi

use_postgres
echo 'Starting a throwaway server ...'
start_cluster live "shared_preload_libraries = 'dcounter'" 'fsync = off' \
    "dcounter.compact_interval = '200 ms'" "dcounter.events_interval = '200 ms'"
{
    sql postgres "$(cat examples/live/schema.sql)"
    # so that there is something to look at
    sql postgres "
        SELECT count(dc_incr('likes', 'hello'))
        FROM (SELECT dc_incr_at('likes_by_minute', 'hello', 1, now() - make_interval(secs => 3600 * (i / 400.0)::numeric ^ 2)) FROM generate_series(1, 400) AS i) AS u;
        SELECT dc_incr('likes', page, n)
        FROM (VALUES ('counting without waiting', 321), ('who is here?', 254), ('ten million views', 187), ('sold out', 96), ('unread', 41)) AS v(page, n);"
} >/dev/null

echo 'The page, until Ctrl-C:'
PGUSER=web PORT=${PORT:-0} node examples/live/server.mjs
