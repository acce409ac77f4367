#!/usr/bin/env bash
# The outbox: writing an event with a change; how long after the commit a waiting
# consumer has it; reading batches of 100 and acknowledging them, far behind and
# nearer to the end.
set -euo pipefail
# shellcheck source=bench/lib.sh
source bench/lib.sh

run_cases outbox_write 32

# far_behind NAME ROUND: reads with all events before it
far_behind() {
    read_batches "bench/cases/outbox_read/$1" "$SECONDS_PER_RUN"
    record outbox_read "$1" far rate "$2" "$rate"
    say 'outbox, round %d: %-20s %10.0f events/s' "$2" "$1" "$rate"
}

# No reader reaches the end of two million events in the time of a run.
for ((round = 1; round <= ROUNDS; round++)); do
    folder=bench/cases/outbox_read/10_delete
    fresh_database "$folder"
    fill "$folder"
    far_behind 10_delete "$round"
    folder=bench/cases/outbox_read/20_dc_fetch
    fresh_database "$folder"
    fill "$folder"
    far_behind 15_one_statement "$round"
    sql bench "SELECT dc_seek('c', 'beginning');" >/dev/null
    far_behind 20_dc_fetch "$round"
    sql bench "SELECT dc_seek('c', (SELECT max(seq) FROM dcounter.outbox) - $OUTBOX_EVENTS / 4);" >/dev/null
    read_batches "$folder" 1
    record outbox_read 20_dc_fetch near rate "$round" "$rate"
    say 'outbox, round %d: near the end %10.0f events/s' "$round" "$rate"
done

# Delay: a client commits 50 events a second, another one waits for them.
folder=bench/cases/outbox_read/20_dc_fetch
fresh_database "$folder"
sql bench 'CREATE TABLE delay (ms float8 NOT NULL);'
echo "SELECT dc_publish('orders', '1', 'update', '{}');" >"$DC_WORK/publish.sql"
events=$((OPEN_SECONDS * 50))
"$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -d bench >/dev/null <<SQL &
DO \$\$
DECLARE
    seen int := 0;
    event record;
BEGIN
    WHILE seen < $events LOOP
        FOR event IN SELECT seq, created_at FROM dc_fetch('c', 100, '20 s') LOOP
            INSERT INTO delay VALUES (1000 * extract(epoch FROM clock_timestamp() - event.created_at));
            PERFORM dc_ack('c', event.seq);
            seen := seen + 1;
        END LOOP;
        COMMIT;
    END LOOP;
END \$\$;
SQL
reader=$!
sleep 1
"$BINDIR/pgbench" -n -M prepared -f "$DC_WORK/publish.sql" -c 1 -t "$events" -R 50 bench >/dev/null 2>&1
wait "$reader"
for percent in 50 99; do
    record outbox_delay dc_fetch any "p$percent" 1 "$(sql bench "SELECT percentile_disc($percent / 100.0) WITHIN GROUP (ORDER BY ms) FROM delay;")"
    say 'outbox: delay from commit to fetch, p%s: %s ms' "$percent" "$(recorded)"
done
