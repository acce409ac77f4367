CREATE TABLE dcounter.unread (
	unread  pg_catalog.regclass NOT NULL,
	counter pg_catalog.regclass NOT NULL,
	CONSTRAINT unread_pkey PRIMARY KEY (unread)
);
CREATE INDEX unread_counter_idx ON dcounter.unread (counter);
COMMENT ON TABLE dcounter.unread IS 'unread tables and their counter tables';
COMMENT ON COLUMN dcounter.unread.unread IS 'the table with a row for each member and key';
COMMENT ON COLUMN dcounter.unread.counter IS 'the counter table whose increments are read';

CREATE FUNCTION dcounter.on_unread_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_unread_row_change() IS 'internal: makes restoring unread tables idempotent and tells sessions of changes';

CREATE TRIGGER on_unread_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.unread
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_unread_row_change();

CREATE FUNCTION dc_unread_create(unread text, counter regclass, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unread_create(text, regclass, boolean) IS 'creates a table of what members have read of the keys of a counter table';

CREATE FUNCTION dc_unread_adopt(unread regclass, counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unread_adopt(regclass, regclass) IS 'registers an existing unread table';

CREATE FUNCTION dc_unread_drop(unread regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unread_drop(regclass) IS 'drops an unread table';

-- One for each type of a member: it need not be that of the key.
CREATE FUNCTION dc_mark_read(unread regclass, member text, key anycompatible, upto bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_mark_read(regclass, text, anycompatible, bigint) IS 'records that a member has read a key, or its first messages';

CREATE FUNCTION dc_mark_read(unread regclass, member bigint, key anycompatible, upto bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_mark_read(regclass, bigint, anycompatible, bigint) IS 'records that a member has read a key, or its first messages';

CREATE FUNCTION dc_mark_read(unread regclass, member uuid, key anycompatible, upto bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_mark_read(regclass, uuid, anycompatible, bigint) IS 'records that a member has read a key, or its first messages';

CREATE FUNCTION dc_mark_read_many(unread regclass, member text, keys anycompatiblearray, upto bigint[] DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 500;
COMMENT ON FUNCTION dc_mark_read_many(regclass, text, anycompatiblearray, bigint[]) IS 'the same for many keys, in their order, from one snapshot';

CREATE FUNCTION dc_mark_read_many(unread regclass, member bigint, keys anycompatiblearray, upto bigint[] DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 500;
COMMENT ON FUNCTION dc_mark_read_many(regclass, bigint, anycompatiblearray, bigint[]) IS 'the same for many keys, in their order, from one snapshot';

CREATE FUNCTION dc_mark_read_many(unread regclass, member uuid, keys anycompatiblearray, upto bigint[] DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 500;
COMMENT ON FUNCTION dc_mark_read_many(regclass, uuid, anycompatiblearray, bigint[]) IS 'the same for many keys, in their order, from one snapshot';

CREATE FUNCTION dc_unread(unread regclass, member text, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_unread(regclass, text, anycompatiblearray) IS 'unread counts of several keys for a member';

CREATE FUNCTION dc_unread(unread regclass, member bigint, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_unread(regclass, bigint, anycompatiblearray) IS 'unread counts of several keys for a member';

CREATE FUNCTION dc_unread(unread regclass, member uuid, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_unread(regclass, uuid, anycompatiblearray) IS 'unread counts of several keys for a member';

CREATE VIEW dc_unread_tables AS
	SELECT u.unread, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, u.counter, r.relowner::pg_catalog.regrole AS owner
	FROM dcounter.unread AS u
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) u.unread
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace;
COMMENT ON VIEW dc_unread_tables IS 'tables of what members have read';
COMMENT ON COLUMN dc_unread_tables.unread IS 'the table';
COMMENT ON COLUMN dc_unread_tables.name IS 'its name, with the schema';
COMMENT ON COLUMN dc_unread_tables.counter IS 'the counter table whose increments are read';
COMMENT ON COLUMN dc_unread_tables.owner IS 'the owner of both';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.unread TO PUBLIC;
-- All roles may read the catalog behind it.
GRANT SELECT ON dc_unread_tables TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_unread_row_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.unread', '');
