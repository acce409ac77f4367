CREATE FUNCTION dc_worker_start() RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_worker_start() IS 'starts the background worker of this database';

CREATE FUNCTION dc_worker_stop() RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_worker_stop() IS 'ends the background worker of this database';

CREATE PROCEDURE dc_maintain()
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_maintain() IS 'does the work of the background worker once, for the tables of the caller';

CREATE FUNCTION dcounter.stat_worker(OUT datname name, OUT pid int, OUT state text, OUT job text, OUT last_run timestamptz, OUT last_run_ms float8, OUT runs bigint, OUT work_ms float8, OUT failures bigint, OUT last_error text, OUT last_error_at timestamptz, OUT tables_left bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000 ROWS 10;
COMMENT ON FUNCTION dcounter.stat_worker() IS 'what dc_stat_worker shows';

CREATE VIEW dc_stat_worker AS SELECT * FROM dcounter.stat_worker();
COMMENT ON VIEW dc_stat_worker IS 'background workers and their jobs';

-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_worker TO PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_worker_start() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_worker_stop() FROM PUBLIC;
