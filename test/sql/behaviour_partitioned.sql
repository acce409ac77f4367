-- The common behaviour on a counter table of eight hash partitions
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
SELECT dc_create('c', partitions => 8);
SELECT relid, level, isleaf FROM pg_partition_tree('c') UNION ALL
SELECT relid, level, isleaf FROM pg_partition_tree('c_shard') ORDER BY 1;
\i include/behaviour.sql
\i include/behaviour_local.sql
-- The keys are spread over the partitions
SELECT count(DISTINCT tableoid) FROM c;
SELECT dc_drop('c');
SELECT count(*) FROM pg_class WHERE relname ~ '^c_(shard_)?p[0-7]';
