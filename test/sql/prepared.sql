-- Two-phase commit, on a plain and on a partitioned counter table
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
SELECT dc_create('c', totals => 'compacted');
\i include/prepared.sql
SELECT dc_drop('c');
SELECT dc_create('c', partitions => 4);
\i include/prepared.sql
SELECT dc_drop('c');
