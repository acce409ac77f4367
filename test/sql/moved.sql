-- Rows that leave their page
\pset tuples_only on
\pset format unaligned
-- The page of the row is full: a new version leaves it, and needs an index entry.
SELECT dc_create('mv', totals => 'compacted');
ALTER TABLE mv_shard SET (autovacuum_enabled = off, fillfactor = 100);
INSERT INTO mv_shard (key, shard, inc) SELECT 'k' || g, 1, 0 FROM generate_series(1, 300) AS g;
SELECT dc_incr('mv', 'k1');
SELECT dc_incr('mv', 'k1');
SELECT ctid > '(1,0)' AS moved FROM mv_shard WHERE key = 'k1';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(inc) FROM mv_shard WHERE key = 'k1';
\c -
SELECT dc_get('mv', 'k1');
SELECT dc_incr('mv', 'k1');
SELECT dc_get('mv', 'k1'), (SELECT count(*) FROM mv_shard WHERE key = 'k1') AS shard_rows;
SELECT dc_drop('mv');
