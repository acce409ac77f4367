-- Buffered counters, on a server that is preloaded, but where no worker runs: settings, and they count exactly.
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try.sql
CREATE VIEW settings AS SELECT counter, mode, flush_interval, durability FROM dcounter.counter ORDER BY counter::text COLLATE "C";
SET intervalstyle = postgres;

-- There is memory for them
SELECT try($$SELECT dc_create('views', mode => 'buffered')$$);
SELECT dc_create('views');
SELECT try($$SELECT dc_alter('views', mode => 'buffered')$$), try($$SELECT dc_alter('views', mode => 'buffered', flush_interval => '2 s', durability => 'sync')$$);
SELECT * FROM settings;
SELECT to_regclass('views_shard');

-- Settings of exact tables, for the day when they are buffered
SELECT dc_create('later', flush_interval => '250 ms', durability => 'sync', mode => 'exact'), dc_create('parts', partitions => 2, durability => 'sync');
SELECT dc_alter('views', flush_interval => '1 day'), dc_alter('parts', mode => 'exact', durability => 'async'), dc_alter('later', flush_interval => '1 ms'), dc_alter('later', 'hash');
SELECT * FROM settings;
SELECT dc_alter('later', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT * FROM settings WHERE counter = 'later'::regclass;
BEGIN;
SELECT dc_alter('later', flush_interval => '7 s', durability => 'async');
SELECT * FROM settings WHERE counter = 'later'::regclass;
ROLLBACK;
SELECT * FROM settings WHERE counter = 'later'::regclass;

-- Errors of arguments
SELECT q, try(format('SELECT dc_create(''x'', %s)', q)) FROM unnest(ARRAY['mode => ''Exact''', 'mode => ''''', 'mode => NULL', 'durability => ''none''', 'durability => ''Sync''', 'durability => NULL',
	'flush_interval => ''0''', 'flush_interval => ''-1 s''', 'flush_interval => ''999 us''', 'flush_interval => ''1 day 1 us''', 'flush_interval => ''1 month''',
	'flush_interval => ''2000000000 days''', 'flush_interval => ''-2000000000 days''', 'flush_interval => NULL']) q;
SELECT q, try(format('SELECT dc_alter(''views'', %s)', q)) FROM unnest(ARRAY['mode => ''none''', 'durability => ''''', 'flush_interval => ''0''', 'flush_interval => ''25 hours''', 'flush_interval => ''2000000000 days''']) q;
SELECT to_regclass('x');
SELECT * FROM settings WHERE counter = 'views'::regclass;
-- and those of the catalog
SELECT try($$UPDATE dcounter.counter SET mode = NULL$$) LIKE '23502%', try($$UPDATE dcounter.counter SET durability = NULL$$) LIKE '23502%', try($$UPDATE dcounter.counter SET flush_interval = NULL$$) LIKE '23502%';

-- Where no worker runs
UPDATE dcounter.counter SET mode = 'buffered', durability = 'sync' WHERE counter IN ('views'::regclass, 'parts'::regclass);
\c
SET client_min_messages = warning;
CREATE FUNCTION rows_of(c text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	s text;
BEGIN
	EXECUTE format('SELECT coalesce(sum(value), 0) || '' '' || coalesce((SELECT sum(inc - dec) FROM %s_shard), 0) FROM %s', c, c) INTO s;
	RETURN s;
END $$;
SELECT * FROM settings;
SELECT dc_incr('views', 'a', 5), dc_incr('parts', 'a', 5), dc_decr('views', 'b', 2);
SELECT rows_of('views'), rows_of('parts'), dc_get('views', 'a'), dc_get('parts', 'a'), dc_sum('views'), dc_get_many('views', '{a,b,c}');
BEGIN;
SELECT dc_incr('views', 'a', 10), dc_get('views', 'a'), (dc_info('views', 'a')).inc;
SAVEPOINT s;
SELECT dc_incr('views', 'a', 100), dc_apply();
ROLLBACK TO s;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_get('views', 'a'), dc_incr('views', 'a'), dc_get('views', 'a');
ROLLBACK;
SELECT dc_set('views', 'a', 7), dc_get('views', 'a'), dc_reset('parts', 'a'), dc_delete('views', 'b');
SELECT dc_compact('views'), dc_get('views', 'a'), dc_sum('parts');
-- nothing is in memory, so there is nothing to flush
SELECT try($$SELECT dc_flush()$$), try($$SELECT dc_flush('views')$$), try($$SELECT dc_flush('later')$$);
SELECT try($$SELECT dc_flush('pg_class')$$), try($$SELECT dc_flush('settings')$$);
-- settings can be changed, but the mode only one way
SELECT dc_alter('views', flush_interval => '3 s'), dc_alter('parts', durability => 'async'), try($$SELECT dc_alter('views', mode => 'buffered')$$);
SELECT dc_alter('views', mode => 'exact'), dc_incr('views', 'a'), dc_get('views', 'a');
SELECT * FROM settings;
TRUNCATE parts, parts_shard;
ALTER TABLE parts RENAME TO pieces;
SELECT dc_incr('pieces', 'a', 2), dc_sum('pieces');
SELECT dc_drop('pieces'), dc_drop('views'), dc_drop('later');
SELECT * FROM settings;
-- a stock is never buffered, foreign tables neither
SELECT dc_stock_create('s');
SELECT try($$SELECT dc_alter('s', mode => 'buffered')$$), try($$SELECT dc_alter('s', durability => 'sync')$$);
SELECT dc_drop('s');
SELECT * FROM dc_stat_buffer;
DROP VIEW settings;
DROP FUNCTION rows_of, try;
