CREATE TABLE dcounter.time_window (
	windowed pg_catalog.regclass    NOT NULL,
	late     pg_catalog.text        NOT NULL,
	refuses  pg_catalog.timestamptz,
	sealed   pg_catalog.timestamptz,
	widths   pg_catalog.int8[]      NOT NULL,
	keeps    pg_catalog.int8[]      NOT NULL,
	spans    pg_catalog.int8[]      NOT NULL,
	floors   pg_catalog.int8[]      NOT NULL,
	gone     pg_catalog.int8[]      NOT NULL,
	advanced pg_catalog.int8[]      NOT NULL,
	version  pg_catalog.int8        NOT NULL,
	units    pg_catalog.text[],
	time_zone pg_catalog.text,
	CONSTRAINT time_window_pkey PRIMARY KEY (windowed)
);
COMMENT ON TABLE dcounter.time_window IS 'windowed counters; arrays have a member for each level';
COMMENT ON COLUMN dcounter.time_window.windowed IS 'the view that identifies it';
COMMENT ON COLUMN dcounter.time_window.late IS 'what happens to increments that arrive too late: error or drop';
COMMENT ON COLUMN dcounter.time_window.refuses IS 'increments for earlier times are refused';
COMMENT ON COLUMN dcounter.time_window.sealed IS 'no increments for times before this are still in progress';
COMMENT ON COLUMN dcounter.time_window.widths IS 'of a bucket, in microseconds, or in the unit of the level';
COMMENT ON COLUMN dcounter.time_window.keeps IS 'for how long buckets are kept, in microseconds, or in the unit of the level';
COMMENT ON COLUMN dcounter.time_window.spans IS 'how many buckets in a row lie in one table';
COMMENT ON COLUMN dcounter.time_window.floors IS 'the time before which increments go to the next level, in microseconds since 2000';
COMMENT ON COLUMN dcounter.time_window.gone IS 'the time before which rows may have been truncated';
COMMENT ON COLUMN dcounter.time_window.advanced IS 'when rows were last moved out of the level, or removed';
COMMENT ON COLUMN dcounter.time_window.version IS 'raised when values are reconciled';
COMMENT ON COLUMN dcounter.time_window.units IS 'microsecond, day or month; null: all levels are in microseconds';
COMMENT ON COLUMN dcounter.time_window.time_zone IS 'the zone of days and months';

CREATE TABLE dcounter.window_slot (
	slot     pg_catalog.regclass NOT NULL,
	windowed pg_catalog.regclass NOT NULL,
	number   pg_catalog.int4     NOT NULL,
	CONSTRAINT window_slot_pkey PRIMARY KEY (slot)
);
CREATE INDEX window_slot_windowed_idx ON dcounter.window_slot (windowed);
COMMENT ON TABLE dcounter.window_slot IS 'the counter tables of windowed counters';
COMMENT ON COLUMN dcounter.window_slot.slot IS 'the counter table';
COMMENT ON COLUMN dcounter.window_slot.windowed IS 'the windowed counter';
COMMENT ON COLUMN dcounter.window_slot.number IS 'eight for each level, or -1 for what was dropped';

CREATE TABLE dcounter.window_claim (
	windowed pg_catalog.regclass NOT NULL,
	level    pg_catalog.int4     NOT NULL,
	turn     pg_catalog.int8     NOT NULL,
	emptied  pg_catalog.bool     NOT NULL
);
CREATE INDEX window_claim_idx ON dcounter.window_claim (windowed);
COMMENT ON TABLE dcounter.window_claim IS 'which turns of windowed counters may have rows';
COMMENT ON COLUMN dcounter.window_claim.windowed IS 'the windowed counter';
COMMENT ON COLUMN dcounter.window_claim.level IS 'the level, from 0';
COMMENT ON COLUMN dcounter.window_claim.turn IS 'the number of the turn, which determines the table';
COMMENT ON COLUMN dcounter.window_claim.emptied IS 'all of its rows have been moved';

CREATE FUNCTION dcounter.on_window_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_window_row_change() IS 'internal: makes restoring windowed counters idempotent and tells sessions of changes';

CREATE FUNCTION dcounter.on_window_slot_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_window_slot_change() IS 'internal: makes restoring the tables of windowed counters idempotent';

CREATE TRIGGER on_window_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.time_window
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_window_row_change();
CREATE TRIGGER on_window_slot_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.window_slot
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_window_slot_change();

CREATE FUNCTION dc_window_create(counter text, bucket interval, keep interval, rollup jsonb DEFAULT NULL, late text DEFAULT 'error', time_zone text DEFAULT NULL) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_create(text, interval, interval, jsonb, text, text) IS 'creates a counter that counts by buckets of time';

CREATE FUNCTION dc_window_adopt(counter regclass, bucket interval, keep interval, rollup jsonb DEFAULT NULL, late text DEFAULT 'error', time_zone text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_adopt(regclass, interval, interval, jsonb, text, text) IS 'registers an existing windowed counter';

CREATE FUNCTION dc_window_alter(counter regclass, keep interval DEFAULT NULL, late text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_alter(regclass, interval, text) IS 'changes settings of a windowed counter';

CREATE FUNCTION dc_window_drop(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_drop(regclass) IS 'drops a windowed counter with its tables';

CREATE FUNCTION dc_window_rotate(counter regclass, at timestamptz DEFAULT clock_timestamp()) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_rotate(regclass, timestamptz) IS 'rolls up and removes buckets that have expired by then';

CREATE FUNCTION dc_window_reopen(counter regclass) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_reopen(regclass) IS 'accepts increments again that are too late only because the clock was ahead; false if there are none';

CREATE FUNCTION dc_window_reconcile(counter regclass, bucket timestamptz, keys anycompatiblearray, totals bigint[]) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_reconcile(regclass, timestamptz, anycompatiblearray, bigint[]) IS 'sets keys to their exact totals in a sealed bucket';

CREATE FUNCTION dc_incr_at(counter regclass, key anycompatible, delta bigint DEFAULT 1, at timestamptz DEFAULT clock_timestamp()) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_incr_at(regclass, anycompatible, bigint, timestamptz) IS 'adds to a key of a windowed counter at a time; false if it was dropped as too late';

CREATE FUNCTION dc_window(counter regclass, key anycompatible, span interval, until timestamptz DEFAULT NULL, OUT value bigint, OUT lower bigint, OUT upper bigint, OUT estimate float8)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_window(regclass, anycompatible, interval, timestamptz) IS 'what was counted for a key in a span of time, with bounds';

CREATE FUNCTION dc_buckets(counter regclass, key anycompatible, "from" timestamptz, "to" timestamptz DEFAULT clock_timestamp(), OUT bucket timestamptz, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_buckets(regclass, anycompatible, timestamptz, timestamptz) IS 'the buckets of a key, those without increments included';

CREATE FUNCTION dc_top_window(counter regclass, span interval, n int DEFAULT 10, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_top_window(regclass, interval, int) IS 'the keys with the highest counts in the last span of time';

CREATE PROCEDURE dc_seal(counter regclass, before timestamptz)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_seal(regclass, timestamptz) IS 'refuses increments for times before this one, and waits for those in progress';

CREATE FUNCTION dcounter.window_key(key text) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.window_key(text) IS 'internal: the key in a key of a windowed counter''s table';

CREATE FUNCTION dcounter.window_bucket(key text, width bigint) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.window_bucket(text, bigint) IS 'internal: the bucket in a key of a windowed counter''s table';

CREATE FUNCTION dcounter.window_calendar_bucket(key text, width bigint, unit text, time_zone text) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.window_calendar_bucket(text, bigint, text, text) IS 'internal: the bucket of days or months in a key of a windowed counter''s table';

CREATE FUNCTION dcounter.window_start(slot regclass) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dcounter.window_start(regclass) IS 'internal: since when a windowed counter has buckets';

CREATE FUNCTION dcounter.window_dropped(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dcounter.window_dropped(regclass) IS 'internal: how many increments of a windowed counter were dropped';

CREATE FUNCTION dcounter.window_bytes(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION dcounter.window_bytes(regclass) IS 'internal: the size of a windowed counter''s tables';

CREATE VIEW dc_windows AS
	SELECT w.windowed, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, r.relowner::pg_catalog.regrole AS owner,
		b.widths[1] AS bucket, b.keeps[1] AS keep,
		w.late, w.refuses, w.sealed, dcounter.window_dropped(w.windowed) AS dropped,
		pg_catalog.cardinality(w.widths) AS levels,
		(SELECT pg_catalog.jsonb_object_agg(l.width, l.keep)
			FROM ROWS FROM (pg_catalog.unnest(b.widths), pg_catalog.unnest(b.keeps)) WITH ORDINALITY AS l(width, keep, number)
			WHERE l.number OPERATOR(pg_catalog.>) 1) AS rollup,
		dcounter.window_bytes(w.windowed) AS bytes, w.time_zone
	FROM dcounter.time_window AS w
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) w.windowed
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace
		CROSS JOIN LATERAL (SELECT pg_catalog.array_agg(u.unit OPERATOR(pg_catalog.*) l.width::pg_catalog.float8 ORDER BY l.number) AS widths,
				pg_catalog.array_agg(u.unit OPERATOR(pg_catalog.*) l.keep::pg_catalog.float8 ORDER BY l.number) AS keeps
			FROM ROWS FROM (pg_catalog.unnest(w.widths), pg_catalog.unnest(w.keeps), pg_catalog.unnest(w.units)) WITH ORDINALITY AS l(width, keep, unit, number),
				LATERAL (SELECT pg_catalog.concat('1 ', coalesce(l.unit, 'microsecond'))::pg_catalog.interval AS unit) AS u) AS b;
COMMENT ON VIEW dc_windows IS 'windowed counters';
COMMENT ON COLUMN dc_windows.windowed IS 'the windowed counter';
COMMENT ON COLUMN dc_windows.name IS 'its name, with the schema';
COMMENT ON COLUMN dc_windows.owner IS 'its owner';
COMMENT ON COLUMN dc_windows.bucket IS 'how long a bucket is';
COMMENT ON COLUMN dc_windows.keep IS 'for how long such buckets are kept';
COMMENT ON COLUMN dc_windows.late IS 'what happens to increments that arrive too late';
COMMENT ON COLUMN dc_windows.refuses IS 'increments for earlier times are refused';
COMMENT ON COLUMN dc_windows.sealed IS 'no increments for times before this are still in progress';
COMMENT ON COLUMN dc_windows.dropped IS 'how many increments were dropped as too late; null for a role that may not read it';
COMMENT ON COLUMN dc_windows.levels IS 'how many widths of buckets there are';
COMMENT ON COLUMN dc_windows.rollup IS 'the wider ones, and for how long they are kept';
COMMENT ON COLUMN dc_windows.bytes IS 'size of all of its tables and their indexes';
COMMENT ON COLUMN dc_windows.time_zone IS 'the zone whose days and months its buckets have';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.time_window, dcounter.window_slot, dcounter.window_claim TO PUBLIC;
-- All roles may read the catalog behind it.
GRANT SELECT ON dc_windows TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_window_row_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_window_slot_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.time_window', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.window_slot', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.window_claim', '');
