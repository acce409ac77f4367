CREATE VIEW dc_stat_drift WITH (security_barrier) AS
	SELECT s.counter, b.source, s.state, s.built_to, s.last_pass, s.passes, s.keys_checked, s.rows_checked, s.drifted_keys, s.drift_sum,
		s.repaired, s.last_drift_at
	FROM dcounter.source_state AS s JOIN dcounter.source AS b ON b.counter OPERATOR(pg_catalog.=) s.counter
	WHERE pg_catalog.has_table_privilege(s.counter, 'SELECT') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW dc_stat_drift IS 'how far bound counter tables agree with their sources, of those that the caller may read, for members of pg_monitor of all';
COMMENT ON COLUMN dc_stat_drift.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_drift.source IS 'the table that it counts';
COMMENT ON COLUMN dc_stat_drift.state IS 'building, exact, suspect (something was done that is not counted) or drifted (a difference was found, and not repaired)';
COMMENT ON COLUMN dc_stat_drift.built_to IS 'while it is being built: keys up to here are done';
COMMENT ON COLUMN dc_stat_drift.last_pass IS 'when all keys had been verified for the last time';
COMMENT ON COLUMN dc_stat_drift.passes IS 'how often that was';
COMMENT ON COLUMN dc_stat_drift.keys_checked IS 'keys compared, in all';
COMMENT ON COLUMN dc_stat_drift.rows_checked IS 'rows of the source, or entries of its indexes, read for that';
COMMENT ON COLUMN dc_stat_drift.drifted_keys IS 'keys that differed';
COMMENT ON COLUMN dc_stat_drift.drift_sum IS 'by how much, without signs';
COMMENT ON COLUMN dc_stat_drift.repaired IS 'of these, keys that were repaired at once';
COMMENT ON COLUMN dc_stat_drift.last_drift_at IS 'when the last of them was found';

CREATE VIEW dc_drifts WITH (security_barrier) AS
	SELECT d.id, d.counter, d.at, d.key, d.source, d.value, d.drift, d.repaired
	FROM dcounter.drift AS d
	WHERE pg_catalog.has_table_privilege(d.counter, 'SELECT');
COMMENT ON VIEW dc_drifts IS 'the last differences that were found, of the counter tables that the caller may read';
COMMENT ON COLUMN dc_drifts.id IS 'in the order in which they were found';
COMMENT ON COLUMN dc_drifts.counter IS 'the counter table';
COMMENT ON COLUMN dc_drifts.at IS 'when';
COMMENT ON COLUMN dc_drifts.key IS 'the key';
COMMENT ON COLUMN dc_drifts.source IS 'what the source had';
COMMENT ON COLUMN dc_drifts.value IS 'what the counter had';
COMMENT ON COLUMN dc_drifts.drift IS 'the difference';
COMMENT ON COLUMN dc_drifts.repaired IS 'whether it was repaired at once';
