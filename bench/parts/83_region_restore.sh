#!/usr/bin/env bash
# A region of RESTORE_KEYS keys is set back to a backup that was made before its last increments: how long "dc_region restore" takes
# until both regions have the same. The servers have no other work: no users are counting at that
# time.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

folder=bench/cases/region
config=$DC_WORK/regions.conf

# program COMMAND...: dc_region; before PostgreSQL 16 a link needs trust in the owners of tables
program() {
    "$BINDIR/dc_region" --config "$config" --trust-owners "$@" >"$DC_WORK/dc_region.out" 2>&1 || die "$(cat "$DC_WORK/dc_region.out")"
}

# set_back: the region "there" is what its backup has, and runs
set_back() {
    stop_cluster "$THERE_DATA" immediate
    rm -rf "$THERE_DATA"
    cp -R "$DC_WORK/backup" "$THERE_DATA"
    printf '%s\n' "restore_command = 'false'" "recovery_target = 'immediate'" "recovery_target_action = 'promote'" \
        >>"$THERE_DATA/postgresql.auto.conf"
    touch "$THERE_DATA/recovery.signal"
    "$BINDIR/pg_ctl" -D "$THERE_DATA" -l "$THERE_LOG" -w -t 120 start >/dev/null
    until [[ $(there sql bench 'SELECT pg_is_in_recovery();') == f ]]; do sleep 0.1; done
}

for ((round = 1; round <= ROUNDS; round++)); do
    regions_start "$folder"
    regions_fresh "$folder"
    printf '%s\n' "here = host=$PGHOST port=$PGPORT user=$PGUSER dbname=bench" \
        "there = host=$THERE_HOST port=$PGPORT user=$PGUSER dbname=bench" >"$config"
    count_all "$RESTORE_KEYS"
    compacted
    program add here there
    rm -rf "$DC_WORK/backup"
    there "$BINDIR/pg_basebackup" -D "$DC_WORK/backup" -c fast -X stream
    there count_all 1000
    set_back
    start=$(microseconds)
    program restore there
    record region_restore dc_region any seconds "$round" "$(awk -v a="$start" -v b="$(microseconds)" 'BEGIN { print (b - a) / 1000000 }')"
    say 'region_restore, round %d: %d keys in %.1f s' "$round" "$RESTORE_KEYS" "$(recorded)"
    program check
    [[ $(there sql bench 'SELECT count(*) FROM likes;') == "$RESTORE_KEYS" ]] || die 'keys are missing'
    # The database of the next round takes the place of this one, which must no longer have a link.
    stop_cluster "$THERE_DATA" immediate
    program retire there --force
    program forget there
done
