-- Makes an older dcounter_lite, installed by psql, version @VERSION@: run it as the role that has installed that one, with the same search_path, in one
-- transaction (psql -1). Tables and values stay. What the registry has new comes first, and then all functions, which replace those of the same name.
-- Inside of an extension it is the script of an update.
ALTER TABLE dcounter_lite.counter ADD COLUMN IF NOT EXISTS writer text, ADD COLUMN IF NOT EXISTS writes text, ADD COLUMN IF NOT EXISTS once_writer text;
COMMENT ON COLUMN dcounter_lite.counter.writer IS 'the procedure that make_writer() has created';
COMMENT ON COLUMN dcounter_lite.counter.writes IS 'the shard table that it names; it is used while that is the shard table';
COMMENT ON COLUMN dcounter_lite.counter.once_writer IS 'the procedure that records an op and counts';
DROP FUNCTION IF EXISTS dcounter_lite.take_one(text, text, bigint);
DROP FUNCTION IF EXISTS dcounter_lite.end_hold(dcounter_lite.counter, uuid, text, bigint);
DROP FUNCTION IF EXISTS dcounter_lite.compact_lock(regclass);
