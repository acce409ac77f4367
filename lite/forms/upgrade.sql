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
-- Everybody may insert here, and no row stays: a row is a request to change the registry (12_change.sql).
CREATE TABLE IF NOT EXISTS dcounter_lite.change (
	what         text NOT NULL,
	counter      regclass,
	key          text,
	max_shards   int,
	op_retention interval,
	writer       text,
	writes       text,
	ops          regclass,
	slot         smallint,
	state        text,
	forgotten    timestamptz
);
COMMENT ON TABLE dcounter_lite.change IS 'requests to change the registry; always empty';

-- Rows to lock, as anybody could take advisory locks.
CREATE TABLE IF NOT EXISTS dcounter_lite.lock (
	counter regclass NOT NULL,
	kind    text NOT NULL CHECK (kind IN ('compaction', 'key')),
	key     text COLLATE "C" NOT NULL,
	PRIMARY KEY (counter, kind, key)
);
COMMENT ON TABLE dcounter_lite.lock IS 'rows that compactions and setters lock';
COMMENT ON COLUMN dcounter_lite.lock.counter IS 'the counter table';
COMMENT ON COLUMN dcounter_lite.lock.kind IS 'compaction (of the table, or a setter of a stock) or key (setters of a key)';
COMMENT ON COLUMN dcounter_lite.lock.key IS 'the key; empty for compaction';
