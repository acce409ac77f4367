-- The common behaviour on a plain counter table
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
SELECT dc_create('c', totals => 'compacted');
\set rounds 1500
\i include/behaviour.sql
\i include/behaviour_local.sql
SELECT dc_drop('c');
