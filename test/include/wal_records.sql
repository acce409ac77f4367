-- wal_records(STATEMENT): how many records of the write-ahead log it writes, which other sessions have no part in
CREATE FUNCTION wal_records(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, WAL, FORMAT JSON) ' || statement INTO plan;
	RETURN plan->0->'Plan'->>'WAL Records';
END $$;
