CREATE TABLE dcounter.distinct_table (
	distinct_table pg_catalog.regclass NOT NULL,
	deltas         pg_catalog.regclass NOT NULL,
	"precision"    pg_catalog.int4 NOT NULL,
	bucket         pg_catalog.interval,
	keep           pg_catalog.interval,
	newest         pg_catalog.timestamptz,
	CONSTRAINT distinct_table_pkey PRIMARY KEY (distinct_table)
);
CREATE UNIQUE INDEX distinct_table_delta_idx ON dcounter.distinct_table (deltas);
COMMENT ON TABLE dcounter.distinct_table IS 'the distinct tables and their settings';
COMMENT ON COLUMN dcounter.distinct_table.distinct_table IS 'the table with a sketch for each key';
COMMENT ON COLUMN dcounter.distinct_table.deltas IS 'the table with what is not in the sketches yet';
COMMENT ON COLUMN dcounter.distinct_table.precision IS 'of the sketches';
COMMENT ON COLUMN dcounter.distinct_table.bucket IS 'how long a bucket is; NULL: it has none';
COMMENT ON COLUMN dcounter.distinct_table.keep IS 'how long a bucket is kept; NULL: for good';
COMMENT ON COLUMN dcounter.distinct_table.newest IS 'when the newest bucket begins that has been folded';

CREATE FUNCTION dcounter.on_distinct_table_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_distinct_table_change() IS 'internal: makes restoring the distinct tables idempotent and tells sessions of changes';

CREATE TRIGGER on_distinct_table_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.distinct_table
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_distinct_table_change();

CREATE FUNCTION dc_distinct_create(distinct_table text, "precision" int DEFAULT 14, bucket interval DEFAULT NULL, keep interval DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_create(text, int, interval, interval, boolean) IS 'creates a table that counts the different items of keys';

CREATE FUNCTION dc_distinct_adopt(distinct_table regclass, bucket interval DEFAULT NULL, keep interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_adopt(regclass, interval, interval) IS 'registers an existing distinct table';

CREATE FUNCTION dc_distinct_alter(distinct_table regclass, keep interval) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_alter(regclass, interval) IS 'changes how long buckets are kept';

CREATE FUNCTION dc_distinct_drop(distinct_table regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_drop(regclass) IS 'drops a distinct table';

CREATE FUNCTION dc_distinct_reset(distinct_table regclass, key anycompatible) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_distinct_reset(regclass, anycompatible) IS 'lets a key start anew, in all buckets';

-- One for each type of a key, and for text, which a literal is, and any other type of an item, as of dc_hll_add().
-- The table is a text as well, so that literals do not mean the function of this name of mergeable sets.
CREATE FUNCTION dc_add(distinct_table text, key text, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, text, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key text, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, text, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key bigint, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, bigint, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key bigint, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, bigint, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key uuid, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, uuid, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key uuid, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, uuid, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key text, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, text, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key text, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, text, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key bigint, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, bigint, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key bigint, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, bigint, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key uuid, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, uuid, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key uuid, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, uuid, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add_many(distinct_table regclass, keys anycompatiblearray, items anyarray, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 200;
COMMENT ON FUNCTION dc_add_many(regclass, anycompatiblearray, anyarray, timestamptz) IS 'adds each of several items to its key';

CREATE FUNCTION dc_distinct(distinct_table regclass, key anycompatible, span interval DEFAULT NULL, until timestamptz DEFAULT NULL, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_distinct(regclass, anycompatible, interval, timestamptz) IS 'how many different items a key has had, with an interval that holds the true number in 95 of 100 cases';

CREATE FUNCTION dc_distinct_union(distinct_table regclass, keys anycompatiblearray, span interval DEFAULT NULL, until timestamptz DEFAULT NULL, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 500;
COMMENT ON FUNCTION dc_distinct_union(regclass, anycompatiblearray, interval, timestamptz) IS 'how many different items several keys have had together';

CREATE FUNCTION dc_distinct_sketch(distinct_table regclass, key anycompatible, span interval DEFAULT NULL, until timestamptz DEFAULT NULL) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_distinct_sketch(regclass, anycompatible, interval, timestamptz) IS 'the sketch of the items of a key';

CREATE FUNCTION dc_distinct_buckets(distinct_table regclass, key anycompatible, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, OUT bucket timestamptz, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 500 ROWS 100;
COMMENT ON FUNCTION dc_distinct_buckets(regclass, anycompatible, timestamptz, timestamptz) IS 'how many different items a key has had in each bucket';

CREATE FUNCTION dc_distinct_report(distinct_table regclass, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, OUT key text, OUT bucket timestamptz, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 1000;
COMMENT ON FUNCTION dc_distinct_report(regclass, timestamptz, timestamptz) IS 'how many different items each key has had in each bucket';

CREATE VIEW dc_distinct_tables AS
	SELECT d.distinct_table, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, r.relowner::pg_catalog.regrole AS owner,
			d.precision, d.bucket, d.keep, d.newest
	FROM dcounter.distinct_table AS d
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) d.distinct_table
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace;
COMMENT ON VIEW dc_distinct_tables IS 'distinct tables';
COMMENT ON COLUMN dc_distinct_tables.distinct_table IS 'the table';
COMMENT ON COLUMN dc_distinct_tables.name IS 'its name, with the schema';
COMMENT ON COLUMN dc_distinct_tables.owner IS 'its owner';
COMMENT ON COLUMN dc_distinct_tables.precision IS 'of the sketches';
COMMENT ON COLUMN dc_distinct_tables.bucket IS 'how long a bucket is; NULL: it has none';
COMMENT ON COLUMN dc_distinct_tables.keep IS 'how long a bucket is kept; NULL: for good';
COMMENT ON COLUMN dc_distinct_tables.newest IS 'when the newest bucket begins that has been folded';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.distinct_table TO PUBLIC;
-- All roles may read the catalog behind it.
GRANT SELECT ON dc_distinct_tables TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_distinct_table_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.distinct_table', '');
