-- Two-phase commit, on a plain and on a partitioned counter table
SELECT current_setting('max_prepared_transactions')::int = 0 AS off \gset
\if :off
\echo 'max_prepared_transactions is 0: nothing to test'
\quit
\endif
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
SELECT dc_create('c', totals => 'compacted');
\i include/prepared.sql
SELECT dc_drop('c');
SELECT dc_create('c', partitions => 4);
\i include/prepared.sql
SELECT dc_drop('c');
