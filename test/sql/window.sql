-- Windowed counters: counting at times, reading, sealing, rolling up.
SET timezone = 'UTC';
-- midnight, UTC, two days ago: all times are told from there
SELECT pg_catalog.date_trunc('day', pg_catalog.now()) - interval '2 days' AS t \gset

SELECT dc_window_create('win_hits', '1 minute', '7 days', '{"1 hour": "90 days"}');
SELECT windowed, owner = current_user::regrole AS own, bucket, keep, late, refuses, sealed, dropped, levels, rollup, bytes > 0 AS has_size FROM dc_windows;
SELECT number, slot FROM dcounter.window_slot WHERE windowed = 'win_hits'::regclass ORDER BY number;

-- edges: a bucket has its beginning, and not its end
SELECT dc_incr_at('win_hits', 'a', 1, :'t'),
	dc_incr_at('win_hits', 'a', 10, :'t'::timestamptz + interval '59.999999 s'),
	dc_incr_at('win_hits', 'a', 100, :'t'::timestamptz + interval '1 min'),
	dc_incr_at('win_hits', 'a', 1000, :'t'::timestamptz + interval '59 min 59.999999 s'),
	dc_incr_at('win_hits', 'a', 10000, :'t'::timestamptz + interval '1 hour'),
	dc_incr_at('win_hits', 'ab', 5, :'t'), dc_incr_at('win_hits', 42, -7, :'t');
SELECT bucket - :'t' AS at, value FROM dc_buckets('win_hits', 'a', :'t', :'t'::timestamptz + interval '2 min 1 us');
SELECT bucket - :'t' AS at, value FROM dc_buckets('win_hits', 'a', :'t', :'t'::timestamptz + interval '2 hours') WHERE value <> 0;
SELECT count(*), sum(value), max(bucket) - :'t' AS last FROM dc_buckets('win_hits', 'a', :'t', :'t'::timestamptz + interval '1 hour');
SELECT count(*) FROM dc_buckets('win_hits', 'nobody', :'t', :'t'::timestamptz + interval '1 hour') WHERE value = 0;

-- bounds: whole buckets, and those that lie in it in part
SELECT * FROM dc_window('win_hits', 'a', '1 hour', :'t'::timestamptz + interval '1 hour');
SELECT * FROM dc_window('win_hits', 'a', '1 hour', :'t'::timestamptz + interval '60 min 30 s');
SELECT * FROM dc_window('win_hits', 'a', '30 s', :'t'::timestamptz + interval '45 s');
SELECT * FROM dc_window('win_hits', 42, '90 s', :'t'::timestamptz + interval '30 s');
SELECT * FROM dc_window('win_hits', 'nobody', '1 hour');

-- a transaction sees its own, pending or not; a savepoint takes it back
BEGIN;
SELECT dc_incr_at('win_hits', 'a', 5, :'t');
SAVEPOINT s;
SELECT dc_incr_at('win_hits', 'a', 50, :'t');
SELECT value FROM dc_window('win_hits', 'a', '1 min', :'t'::timestamptz + interval '1 min');
ROLLBACK TO s;
SELECT value FROM dc_window('win_hits', 'a', '1 min', :'t'::timestamptz + interval '1 min');
SELECT dc_apply();
SELECT value FROM dc_window('win_hits', 'a', '1 min', :'t'::timestamptz + interval '1 min');
ROLLBACK;
SELECT value FROM dc_window('win_hits', 'a', '1 min', :'t'::timestamptz + interval '1 min');

-- plain SQL shows all that is committed
SELECT key, bucket - :'t' AS at, value FROM win_hits ORDER BY key COLLATE "C", bucket;

-- keys of users that look like ours
SELECT dc_incr_at('win_hits', E'a\x0100000000', 3, :'t'), dc_incr_at('win_hits', '', 4, :'t');
SELECT value FROM dc_window('win_hits', 'a', '1 min', :'t'::timestamptz + interval '1 min');
SELECT value FROM dc_window('win_hits', E'a\x0100000000', '1 min', :'t'::timestamptz + interval '1 min');
SELECT value FROM dc_window('win_hits', '', '1 min', :'t'::timestamptz + interval '1 min');
SELECT dc_incr_at('win_hits', repeat('k', 1015), 1, :'t');
SELECT dc_incr_at('win_hits', repeat('k', 1016), 1, :'t');
SELECT value FROM dc_window('win_hits', repeat('k', 1016), '1 min', :'t'::timestamptz + interval '1 min');
SELECT dc_incr('win_hits_w0', 'not ours');
SELECT count(*) FROM win_hits WHERE key IS NULL;

-- the future, the past
SELECT dc_incr_at('win_hits', 'now', 1, clock_timestamp() + interval '50 s');
\set VERBOSITY sqlstate
SELECT dc_incr_at('win_hits', 'now', 1, clock_timestamp() + interval '2 min');
SELECT dc_incr_at('win_hits', 'now', 1, 'infinity');
SELECT dc_incr_at('win_hits', 'now', 1, '-infinity');
SELECT dc_incr_at('win_hits', 'now', 1, clock_timestamp() - interval '100 days');
SELECT dc_incr_at('win_hits', NULL::text), dc_incr_at(NULL, 'a');
SELECT dc_incr_at('win_hits', 'a', NULL);
SELECT dc_incr_at('win_hits', 'a', 1, NULL);
SELECT dc_incr('win_hits', 'a');
SELECT dc_get('win_hits', 'a');
SELECT * FROM dc_window('win_hits', 'a', '0');
SELECT * FROM dc_window('win_hits', 'a', NULL);
SELECT * FROM dc_window('win_hits_w0', 'a', '1 hour');
SELECT dc_incr_at('win_hits', 'a', (-9223372036854775807 - 1)::bigint, :'t');
\set VERBOSITY default
SELECT dc_incr('win_hits', 'a');
-- it goes to the wider buckets at once
SELECT dc_incr_at('win_hits', 'old', 6, :'t'::timestamptz - interval '50 days');
SELECT bucket - :'t' AS at, value FROM dc_buckets('win_hits', 'old', :'t'::timestamptz - interval '51 days', :'t') WHERE value <> 0;
SELECT dc_window_alter('win_hits', late => 'drop');
SELECT dc_incr_at('win_hits', 'now', 1, clock_timestamp() - interval '100 days'), dc_incr_at('win_hits', 'now', 1, '2000-01-01');
SELECT late, dropped FROM dc_windows;

-- a great span costs no more than what is kept
SELECT value, lower FROM dc_window('win_hits', 'old', '36500000 days');
SELECT count(*) < 15000 AS few, sum(value) FROM dc_buckets('win_hits', 'old', '-infinity', 'infinity');

-- the most
SELECT * FROM dc_top_window('win_hits', '5 days', 3);
SELECT * FROM dc_top_window('win_hits', '36500000 days', 0);
SELECT * FROM dc_top_window('win_hits', '1 month', 1);
SELECT value FROM dc_window('win_hits', 'a', '1 year');
BEGIN;
SELECT dc_incr_at('win_hits', 'top', 1000000);
SELECT * FROM dc_top_window('win_hits', '5 min', 1);
SAVEPOINT s;
SELECT dc_incr_at('win_hits', 'top', -2000000), dc_incr_at('win_hits', 'other', 7), dc_incr_at('win_hits', 'other', 5, :'t');
SELECT key, value FROM dc_top_window('win_hits', '5 min', 9) WHERE key <> 'now';
SELECT pg_current_xact_id_if_assigned() IS NULL AS nothing_was_written;
ROLLBACK TO s;
SELECT dc_apply();
SELECT * FROM dc_top_window('win_hits', '5 min', 1);
ROLLBACK;

-- sealed: refused, or dropped; then a batch system's totals count
CALL dc_seal('win_hits', :'t'::timestamptz + interval '2 min 10 s');
SELECT refuses - :'t' AS refuses, sealed - :'t' AS sealed FROM dc_windows;
SELECT dc_incr_at('win_hits', 'a', 1, :'t'::timestamptz + interval '119 s'), dc_incr_at('win_hits', 'a', 0, :'t'::timestamptz + interval '2 min');
SELECT dropped FROM dc_windows;
SELECT dc_window_alter('win_hits', late => 'error');
SELECT dc_window_reconcile('win_hits', :'t', ARRAY['a', 'b', 'ab'], ARRAY[500, 7, 5]);
SELECT dc_window_reconcile('win_hits', :'t', ARRAY['a', 'b', 'ab'], ARRAY[500, 7, 5]);
SELECT k, value FROM unnest(ARRAY['a', 'b', 'ab']) AS k, dc_window('win_hits', k, '1 min', :'t'::timestamptz + interval '1 min');
\set VERBOSITY sqlstate
SELECT dc_incr_at('win_hits', 'a', 1, :'t');
SELECT dc_window_reconcile('win_hits', :'t'::timestamptz + interval '2 min', ARRAY['a'], ARRAY[1]);
SELECT dc_window_reconcile('win_hits', :'t'::timestamptz + interval '1 s', ARRAY['a'], ARRAY[1]);
SELECT dc_window_reconcile('win_hits', :'t', ARRAY['a'], ARRAY[1, 2]);
SELECT dc_window_reconcile('win_hits', '1999-01-01', ARRAY['a'], ARRAY[1]);
CALL dc_seal('win_hits', clock_timestamp() + interval '1 hour');
CALL dc_seal('win_hits', clock_timestamp() + interval '1 second');
CALL dc_seal('win_hits', 'infinity');
CALL dc_seal('win_hits', NULL);
BEGIN;
CALL dc_seal('win_hits', :'t');
ROLLBACK;
\set VERBOSITY default
CALL dc_seal('win_hits', :'t');
SELECT sealed - :'t' AS sealed FROM dc_windows;

-- rolled up: nothing is lost, and what is late goes to the wider bucket
CREATE VIEW win_all AS SELECT key, sum(value) FROM win_hits WHERE key <> 'now' GROUP BY key;
SELECT count(*), sum(sum) FROM win_all;
SELECT dc_compact() >= 0 AS compacted;
SELECT dc_window_rotate('win_hits', :'t'::timestamptz + interval '15 days') > 5 AS moved;
SELECT count(*), sum(sum) FROM win_all;
SELECT bucket - :'t' AS at, value FROM dc_buckets('win_hits', 'a', :'t', :'t'::timestamptz + interval '3 hours');
SELECT dc_incr_at('win_hits', 'a', 1, :'t'::timestamptz + interval '61 min');
SELECT bucket - :'t' AS at, value FROM dc_buckets('win_hits', 'a', :'t'::timestamptz + interval '1 hour', :'t'::timestamptz + interval '2 hours');
SELECT * FROM dc_window('win_hits', 'a', '30 min', :'t'::timestamptz + interval '90 min');
CALL dc_seal('win_hits', :'t'::timestamptz + interval '5 hours');
SELECT dc_window_reconcile('win_hits', :'t'::timestamptz + interval '1 hour', ARRAY['a'], ARRAY[4]);
SELECT value FROM dc_window('win_hits', 'a', '1 day', :'t'::timestamptz + interval '1 day');
CALL dc_maintain();
SELECT count(*) AS claims FROM dcounter.window_claim WHERE level = 0 AND turn < (SELECT floors[1] / 60000000 / spans[1] FROM dcounter.time_window) - 1;
SELECT value FROM dc_window('win_hits', 'a', '1 day', :'t'::timestamptz + interval '1 day');

-- and gone
SELECT dc_window_rotate('win_hits', :'t'::timestamptz + interval '300 days') > 0 AS moved;
SELECT count(*) FROM win_hits;
SELECT pg_relation_size('win_hits_w8') + pg_relation_size('win_hits_w9') + pg_relation_size('win_hits_w10') + pg_relation_size('win_hits_w11')
	+ pg_relation_size('win_hits_w12') + pg_relation_size('win_hits_w13') + pg_relation_size('win_hits_w14') + pg_relation_size('win_hits_w15') AS bytes;
SELECT value FROM dc_window('win_hits', 'a', '36500000 days');
DROP VIEW win_all;
SELECT dc_window_drop('win_hits');
SELECT count(*) FROM pg_class WHERE relname LIKE 'win\_hits%';

-- amounts too great for the wider bucket stay where they are, and the others go
SELECT dc_window_create('win_big', '1 minute', '7 days', '{"1 hour": "90 days"}');
SELECT dc_incr_at('win_big', 'big', 9000000000000000000, :'t'), dc_incr_at('win_big', 'big', 9000000000000000000, :'t'::timestamptz + interval '1 min'),
	dc_incr_at('win_big', 'big', -9000000000000000000, :'t'::timestamptz + interval '2 min'), dc_incr_at('win_big', 'small', 1, :'t'), dc_incr_at('win_big', 'zoo', 2, :'t');
-- a sum that leaves bigint is in its place, and does not keep the others from being seen
BEGIN;
SELECT count(dc_incr_at('win_big', k, s * 9000000000000000000, :'t'::timestamptz + i * interval '1 min')) FROM generate_series(5, 6) AS i, (VALUES ('high', 1), ('low', -1)) AS v(k, s);
SELECT * FROM dc_top_window('win_big', '5 days');
\set VERBOSITY sqlstate
SELECT value FROM dc_window('win_big', 'high', '5 days');
\set VERBOSITY default
ROLLBACK;
SELECT dc_window_rotate('win_big', :'t'::timestamptz + interval '15 days');
SELECT k, value FROM unnest(ARRAY['big', 'small', 'zoo']) AS k, dc_window('win_big', k, '1 hour', :'t'::timestamptz + interval '1 hour');
SELECT key, value FROM win_big ORDER BY bucket, key, value;
SELECT dc_window_rotate('win_big', :'t'::timestamptz + interval '300 days') > 0 AS deleted;
SELECT count(*) FROM win_big;
SELECT dc_window_drop('win_big');

-- likewise if rows of a longer key are between those of one hour
SELECT dc_window_create('win_mid', '1 minute', '7 days', '{"1 hour": "90 days"}');
SELECT E'big\x01' || lpad(to_hex(floor(extract(epoch FROM :'t'::timestamptz - '2000-01-03 UTC') / 60)::bigint), 8, '0') AS longer \gset
SELECT dc_incr_at('win_mid', 'big', 9000000000000000000, :'t'), dc_incr_at('win_mid', :'longer', 3, :'t'),
	dc_incr_at('win_mid', 'big', 9000000000000000000, :'t'::timestamptz + interval '1 min'), dc_incr_at('win_mid', 'big', 1, :'t'::timestamptz + interval '2 min');
SELECT dc_compact() >= 0 AS compacted;
SELECT dc_window_rotate('win_mid', :'t'::timestamptz + interval '15 days');
SELECT key = :'longer' AS longer, bucket - :'t' AS at, value FROM win_mid ORDER BY key, bucket, value;
SELECT dc_window_drop('win_mid');

-- a bucket that has left bigint fails alone; amounts at its bounds are rounded to these
SELECT dc_window_create('win_over', '1 minute', '7 days');
SELECT dc_incr_at('win_over', 'over', 9223372036854775807, :'t'), dc_incr_at('win_over', 'under', -9223372036854775807, :'t'), dc_incr_at('win_over', 'one', 1, :'t');
SELECT k, w.* FROM unnest(ARRAY['over', 'under', 'one']) AS k, dc_window('win_over', k, '1 min', :'t'::timestamptz + interval '1 min') AS w;
SELECT k, w.* FROM unnest(ARRAY['over', 'under', 'one']) AS k, dc_window('win_over', k, '59.999999 s', :'t'::timestamptz + interval '1 min') AS w;
SELECT dc_incr_at('win_over', 'now', 9223372036854775807);
SELECT value, lower IN (0, upper) AS bounds, upper, estimate FROM dc_window('win_over', 'now', '1 hour');
SELECT dc_incr_at('win_over', 'over', 9223372036854775807, :'t');
SELECT dc_incr_at('win_over', 'under', -9223372036854775807, :'t');
SELECT key, value FROM win_over ORDER BY key, bucket;
SELECT value FROM dc_window('win_over', 'one', '1 min', :'t'::timestamptz + interval '1 min');
\set VERBOSITY sqlstate
SELECT value FROM dc_window('win_over', 'over', '1 min', :'t'::timestamptz + interval '1 min');
SELECT value FROM dc_buckets('win_over', 'under', :'t', :'t'::timestamptz + interval '1 min');
\set VERBOSITY default
SELECT dc_window_drop('win_over');

-- a bucket that has not begun is not one of the last while
SELECT dc_window_create('win_next', '7 days', '70 days');
BEGIN;
SELECT dc_incr_at('win_next', 'next', 5, date_bin('7 days', clock_timestamp(), '2000-01-03 UTC') + interval '7 days'), dc_incr_at('win_next', 'now', 1);
SELECT * FROM dc_top_window('win_next', '20 days');
SELECT dc_apply();
SELECT * FROM dc_top_window('win_next', '20 days');
ROLLBACK;
SELECT dc_window_drop('win_next');
