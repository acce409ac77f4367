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
