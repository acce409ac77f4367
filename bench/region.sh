# shellcheck shell=bash
# Two regions: the server of bench.sh, "here", and a second one, "there". Sourced by lib.sh.
# A case of regions has cluster_name = here in its postgresql.conf; setup.sql makes of that the region.

# regions_start CASE: the second server, with the settings of the case
regions_start() {
    local data=$DC_DATA log=$DC_LOG socket=$PGHOST
    rm -rf "$DC_WORK/there" # of another part
    start_cluster there 'max_connections = 200' 'shared_buffers = 256MB' 'min_wal_size = 1GB' 'max_wal_size = 4GB' \
        'checkpoint_timeout = 30min' "include_if_exists = 'case.conf'" "cluster_name = 'there'"
    THERE_DATA=$DC_DATA THERE_LOG=$DC_LOG THERE_HOST=$PGHOST
    export DC_DATA=$data DC_LOG=$log PGHOST=$socket
    : >"$THERE_DATA/case.conf"
    there use_settings "$1/postgresql.conf"
    there fill_wal
}

# there COMMAND...: a function of lib.sh, for the second server
there() {
    DC_DATA=$THERE_DATA DC_LOG=$THERE_LOG PGHOST=$THERE_HOST "$@"
}

# regions_fresh CASE: the database of the case on both
regions_fresh() {
    regions_unlink
    fresh_database "$1"
    there fresh_database "$1"
}

# regions_link OPTION: what is published here from now on comes there, or is kept until link_switch
# with the option "enabled = false". Otherwise it waits until that works: the launcher of 15 starts
# one worker in wal_retrieve_retry_interval.
regions_link() {
    there sql bench "CREATE SUBSCRIPTION link CONNECTION 'host=$PGHOST port=$PGPORT user=$PGUSER dbname=bench'
        PUBLICATION dcounter_own WITH (copy_data = false, binary = true${1:+, $1});" 2>/dev/null
    [[ -n $1 ]] || until [[ -n $(link_sender) ]]; do sleep 0.1; done
}

# link_switch ENABLE|DISABLE: the latter waits until it has stopped
link_switch() {
    there sql bench "ALTER SUBSCRIPTION link $1;"
    [[ $1 == ENABLE ]] || while [[ -n $(link_worker) || $(sql bench 'SELECT active FROM pg_replication_slots;') == t ]]; do sleep 0.05; done
}

# link_worker: the process that applies, if it is running
link_worker() {
    there sql bench "SELECT pid FROM pg_stat_subscription WHERE subname = 'link' AND pid IS NOT NULL;"
}

# link_sender: the process that sends, if it is running
link_sender() {
    sql bench "SELECT pid FROM pg_stat_replication WHERE application_name = 'link';"
}

# link_replayed LSN: waits until everything written here before that LSN has arrived there. In one
# session: on a machine with few processors, asking again and again would take one.
link_replayed() {
    sql bench "DO \$\$BEGIN
            WHILE NOT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = 'link' AND replay_lsn >= '$1') LOOP
                COMMIT;
                PERFORM pg_sleep(0.02);
            END LOOP;
        END\$\$;"
}

# link_caught_up: waits until everything committed here has arrived there
link_caught_up() {
    link_replayed "$(sql bench 'SELECT pg_current_wal_lsn();')"
}

# regions_unlink: drops the link, if there is one
regions_unlink() {
    [[ $(there sql postgres "SELECT count(*) FROM pg_subscription WHERE subname = 'link';") == 0 ]] ||
        there sql bench 'DROP SUBSCRIPTION link;' 2>/dev/null
}

# count_all KEYS: counts each of the keys 1 .. KEYS of "likes" once, in transactions that fit into pending_memory
count_all() {
    local start
    for ((start = 0; start < $1; start += 5000)); do
        echo "SELECT count(dc_incr('likes', 'post:' || k)) FROM generate_series($start + 1, least($start + 5000, $1)) AS k;"
    done | "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d bench >/dev/null
}

# compacted: waits until all is
compacted() {
    until [[ $(sql bench 'SELECT count(*) FROM likes_shard;') == 0 ]]; do
        sql bench "SELECT dc_compact('likes');" >/dev/null
        sleep 0.05
    done
}

# region_rows PATTERN: rows of regions, of keys like that, and what they have counted
region_rows() {
    sql bench "SELECT count(*), coalesce(sum(inc), 0) FROM likes_region WHERE key LIKE '$1';"
}

# cpu_of PROCESS: its processor time so far, in us
cpu_of() {
    awk '{ printf "%.0f", $1 / 1000 }' "/proc/$1/schedstat"
}

# microseconds: the time
microseconds() {
    echo "${EPOCHREALTIME/./}"
}
