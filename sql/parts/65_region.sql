-- This database, if it is one of a region: one row at most.
CREATE TABLE dcounter.self (
	region    pg_catalog.text        COLLATE pg_catalog."C" NOT NULL,
	epoch     pg_catalog.int8        NOT NULL,
	system_id pg_catalog.int8        NOT NULL,
	timeline  pg_catalog.int4        NOT NULL,
	dboid     pg_catalog.oid         NOT NULL,
	postmaster_start pg_catalog.timestamptz NOT NULL,
	state     pg_catalog.text        NOT NULL,
	boot      pg_catalog.uuid,
	starting  pg_catalog.bool        NOT NULL DEFAULT false,
	begun_at  pg_catalog.timestamptz,
	CONSTRAINT self_pkey PRIMARY KEY (region),
	CHECK (state OPERATOR(pg_catalog.=) ANY ('{active,renew,recopy}'::pg_catalog.text[]))
);
COMMENT ON TABLE dcounter.self IS 'the region that this database belongs to';
COMMENT ON COLUMN dcounter.self.region IS 'its name';
COMMENT ON COLUMN dcounter.self.epoch IS 'what this database counts is known by this number, which no other database ever has';
COMMENT ON COLUMN dcounter.self.system_id IS 'the identifier of the database system for which that is true,';
COMMENT ON COLUMN dcounter.self.timeline IS 'its timeline,';
COMMENT ON COLUMN dcounter.self.dboid IS 'the OID of the database there,';
COMMENT ON COLUMN dcounter.self.postmaster_start IS 'and when the server was started';
COMMENT ON COLUMN dcounter.self.state IS 'active, renew (it needs a new epoch before it publishes) or recopy (it does not have all of the others yet)';

COMMENT ON COLUMN dcounter.self.boot IS 'another one after each start of the server';
COMMENT ON COLUMN dcounter.self.starting IS 'it publishes nothing until the other regions have heard of the boot';
COMMENT ON COLUMN dcounter.self.begun_at IS 'since when, or since when it is in its state';

-- What apply workers find out about that; rows are added, and removed when it takes a new epoch.
CREATE TABLE dcounter.self_mark (
	epoch pg_catalog.int8        NOT NULL,
	what  pg_catalog.text        NOT NULL,
	peer  pg_catalog.text        COLLATE pg_catalog."C",
	at    pg_catalog.timestamptz NOT NULL,
	CHECK (what OPERATOR(pg_catalog.=) ANY ('{renew,recopy,retired,copied,alone,since}'::pg_catalog.text[]))
);
COMMENT ON TABLE dcounter.self_mark IS 'what this database has found out about its epoch';
COMMENT ON COLUMN dcounter.self_mark.epoch IS 'the epoch that it is about';
COMMENT ON COLUMN dcounter.self_mark.what IS 'renew (another database has it, too), recopy (something was missed), retired, copied (from a peer), alone (the epoch was taken when no other region was known), or since (when its epochs follow each other without a loss)';
COMMENT ON COLUMN dcounter.self_mark.peer IS 'the region that was copied from';
COMMENT ON COLUMN dcounter.self_mark.at IS 'when it was found out, or since when the copy has all';

-- What regions know of each other.
CREATE TABLE dcounter.region (
	region     pg_catalog.text        COLLATE pg_catalog."C" NOT NULL,
	epoch      pg_catalog.int8        NOT NULL,
	boot       pg_catalog.uuid,
	seq        pg_catalog.int8        NOT NULL DEFAULT 0,
	first      pg_catalog.int8        NOT NULL DEFAULT 0,
	published  pg_catalog.int8        NOT NULL DEFAULT 0,
	beat_at    pg_catalog.timestamptz,
	seen       pg_catalog.jsonb,
	retired_at pg_catalog.timestamptz,
	CONSTRAINT region_pkey PRIMARY KEY (region, epoch)
) WITH (fillfactor=50);
COMMENT ON TABLE dcounter.region IS 'the last beat of each region and epoch';
COMMENT ON COLUMN dcounter.region.region IS 'name of the region';
COMMENT ON COLUMN dcounter.region.epoch IS 'the number by which what it counts is known';
COMMENT ON COLUMN dcounter.region.boot IS 'another one after each start of its server';
COMMENT ON COLUMN dcounter.region.seq IS 'how many beats there were';
COMMENT ON COLUMN dcounter.region.first IS 'number of the first beat of this boot, and of those that begin like it';
COMMENT ON COLUMN dcounter.region.published IS 'number of the last beat that came with something';
COMMENT ON COLUMN dcounter.region.beat_at IS 'what it had committed before then came before the beat';
COMMENT ON COLUMN dcounter.region.seen IS 'the last beats that it had got, by region: epoch, seq, boot, beat_at and retired_at (us since 1970)';
COMMENT ON COLUMN dcounter.region.retired_at IS 'when it was given up';

CREATE FUNCTION dcounter.on_self_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_self_change() IS 'internal: lets a database that was restored from a dump take a new epoch';

CREATE TRIGGER on_self_change
	BEFORE INSERT ON dcounter.self
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_self_change();

CREATE FUNCTION dcounter.merge_region() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_region() IS 'internal: merges what another region has counted';

CREATE FUNCTION dc_region_init(region text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_region_init(text) IS 'makes this database one of a region, and returns its epoch';

CREATE FUNCTION dc_replicate(counter regclass, seed boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_replicate(regclass, boolean) IS 'lets other regions count in a counter table as well; with seed, what it has becomes this region''s own';

CREATE FUNCTION dc_unreplicate(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unreplicate(regclass) IS 'makes a counter table one of this database alone; its values stay';

CREATE FUNCTION dc_get_regions(counter regclass, key anycompatible, OUT region text, OUT inc bigint, OUT "dec" bigint, OUT value bigint, OUT updated_at timestamptz, OUT complete_to timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 3;
COMMENT ON FUNCTION dc_get_regions(regclass, anycompatible) IS 'what each region has counted for a key';

CREATE FUNCTION dc_region_check(counter regclass, OUT region text, OUT epoch bigint, OUT keys bigint, OUT inc numeric, OUT "dec" numeric, OUT digest bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 10000 ROWS 5;
COMMENT ON FUNCTION dc_region_check(regclass) IS 'what there is of each region, and how many keys do not have the values that the regions have counted';

CREATE FUNCTION dc_region_repair(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_repair(regclass) IS 'makes the totals what the regions have counted; returns how many keys were not';

CREATE FUNCTION dcounter.merge_beat() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_beat() IS 'internal: merges the beats of other regions';

CREATE TRIGGER merge_beat
	BEFORE INSERT OR UPDATE ON dcounter.region
	FOR EACH ROW EXECUTE FUNCTION dcounter.merge_beat();
ALTER TABLE dcounter.region ENABLE REPLICA TRIGGER merge_beat;

CREATE FUNCTION dc_region_renew(lossless boolean DEFAULT false) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_renew(boolean) IS 'gives this database a new epoch, and returns it; stocks lose their units unless nothing was lost';

CREATE FUNCTION dc_region_publish() RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_publish() IS 'adds to the publications of the regions what they lack; of how many counters';

CREATE FUNCTION dc_region_retire(region text, force boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_region_retire(text, boolean) IS 'gives up a region: it is not waited for any more; force is for one that is lost';

CREATE FUNCTION dc_regions(OUT region text, OUT epochs int, OUT state text, OUT beat_at timestamptz, OUT lag interval, OUT seen_by_all_to timestamptz, OUT link_state text, OUT apply_errors bigint, OUT advice text) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 5;
COMMENT ON FUNCTION dc_regions() IS 'the regions that were heard of: how far they are, what is known of them everywhere, their links, what to do';

CREATE VIEW dc_stat_regions AS SELECT * FROM dc_regions();
COMMENT ON VIEW dc_stat_regions IS 'the regions, as dc_regions() shows them';
COMMENT ON COLUMN dc_stat_regions.region IS 'its name';
COMMENT ON COLUMN dc_stat_regions.epochs IS 'how many epochs it has had';
COMMENT ON COLUMN dc_stat_regions.state IS 'active, retired, or behind (some counters are put aside); of this database also starting, renew or recopy';
COMMENT ON COLUMN dc_stat_regions.beat_at IS 'all that it had committed before then is here';
COMMENT ON COLUMN dc_stat_regions.lag IS 'how long ago that was';
COMMENT ON COLUMN dc_stat_regions.seen_by_all_to IS 'all that it had committed before then is in each active region';
COMMENT ON COLUMN dc_stat_regions.link_state IS 'of the subscription dc_from_REGION: up, copying, down or disabled';
COMMENT ON COLUMN dc_stat_regions.apply_errors IS 'how many errors that has had';
COMMENT ON COLUMN dc_stat_regions.advice IS 'what is wrong, and what to call; null if nothing is to be done';

CREATE FUNCTION dcounter.merge_set() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dcounter.merge_set() IS 'internal: merges what another region has set a key to';

CREATE FUNCTION dc_region_vacuum(counter regclass, older_than interval DEFAULT '30 days') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_vacuum(regclass, interval) IS 'removes what is left of keys that were deleted so long ago, where all regions know that; returns how many';

CREATE FUNCTION dc_region_join(peer text, conninfo text, topology text DEFAULT 'mesh', trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 3;
COMMENT ON FUNCTION dc_region_join(text, text, text, boolean) IS 'the statements that bring what another region counts to this database';

CREATE FUNCTION dc_region_join(peer text, conninfo text, anew boolean, topology text DEFAULT 'mesh', trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 3;
COMMENT ON FUNCTION dc_region_join(text, text, boolean, text, boolean) IS 'the same, and drops a link that exists, to make it anew';

CREATE FUNCTION dc_region_refresh(peer text, conninfo text DEFAULT NULL, trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 4;
COMMENT ON FUNCTION dc_region_refresh(text, text, boolean) IS 'the statements that bring all that another region knows, once';

CREATE PROCEDURE dc_region_wait_copied(subscription text DEFAULT NULL)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_region_wait_copied(text) IS 'waits until a subscription to another region, or all of them, have copied their tables';

CREATE FUNCTION dcounter.merge_grant() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_grant() IS 'internal: merges what another region has given, and adds what it has given to this one';

CREATE FUNCTION dcounter.merge_want() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_want() IS 'internal: merges what another region asks for';

CREATE FUNCTION dc_want(stock regclass, key anycompatible, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_want(regclass, anycompatible, bigint) IS 'asks other regions for units of a replicated stock, or, with 0, for none any more';

CREATE PROCEDURE dc_take_wait(stock regclass, key anycompatible, qty bigint, timeout interval, INOUT ok boolean DEFAULT NULL)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_take_wait(regclass, anycompatible, bigint, interval, boolean) IS 'takes units, and waits for them so long if there are not enough; commits while it waits';

CREATE FUNCTION dc_stock_regions(stock regclass, key anycompatible, OUT region text, OUT units bigint, OUT units_at timestamptz, OUT granted_in bigint, OUT granted_out bigint, OUT wanted bigint, OUT wanted_since timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 3;
COMMENT ON FUNCTION dc_stock_regions(regclass, anycompatible) IS 'what is known of the units of a key in each region';

CREATE FUNCTION dc_rights_reclaim(stock regclass, region text, key anycompatible DEFAULT NULL::text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_rights_reclaim(regclass, text, anycompatible) IS 'takes over the units that a retired region has at most, of all keys by default; what it has sold unheard of is sold again';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.self, dcounter.self_mark, dcounter.region TO PUBLIC;
-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_regions TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_self_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.merge_beat() FROM PUBLIC;
-- A restore of a dump creates triggers with these.
REVOKE EXECUTE ON FUNCTION dcounter.merge_region() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_region() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_set() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_set() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_grant() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_grant() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_want() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_want() TO pg_database_owner;
-- What is replicated comes by links that all counters share.
REVOKE EXECUTE ON FUNCTION dc_replicate(regclass, boolean) FROM PUBLIC;
-- They wait for a renewal, and what they return is for those who may make subscriptions.
REVOKE EXECUTE ON FUNCTION dc_region_join(text, text, text, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_region_join(text, text, boolean, text, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_region_refresh(text, text, boolean) FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.self', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.region', '');
