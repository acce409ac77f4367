-- The catalogs of the extension, which its tests look at, over those of dcounter_lite.
CREATE SCHEMA dcounter;
GRANT USAGE ON SCHEMA dcounter TO PUBLIC;
CREATE VIEW dcounter.counter AS
	SELECT counter, shards, 'backend'::text AS shard_by, max_shards, holds, 'exact'::text AS mode, interval '1 second' AS flush_interval, 'async'::text AS durability,
		op_retention, NULL::regclass AS ledger, 'compacted'::text AS totals, NULL::regclass AS regions, NULL::regclass AS sets, NULL::regclass AS grants,
		NULL::regclass AS wants, 0::bigint AS rights_epoch, 1 AS sample, 1 AS sample_max, NULL::regclass AS trends, NULL::interval AS half_life, NULL::interval AS idle
	FROM dcounter_lite.counter;
CREATE VIEW dcounter.op_slot AS
	SELECT counter, slot, ops, partition, state, since, CASE state WHEN 'closed' THEN since END AS closed_at, forgotten
	FROM dcounter_lite.op_slot;
GRANT SELECT ON dcounter.counter, dcounter.op_slot TO PUBLIC;
