CREATE TABLE dcounter.counter_events (
	counter    pg_catalog.regclass NOT NULL,
	every      pg_catalog."interval" NOT NULL,
	channel    pg_catalog.text,
	last_round pg_catalog.timestamptz,
	CONSTRAINT counter_events_pkey PRIMARY KEY (counter)
) WITH (fillfactor = 50);
COMMENT ON TABLE dcounter.counter_events IS 'counter tables that emit events of type counter.changed';
COMMENT ON COLUMN dcounter.counter_events.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.counter_events.every IS 'at most one event of a key in this time';
COMMENT ON COLUMN dcounter.counter_events.channel IS 'channel that is notified of each event';
COMMENT ON COLUMN dcounter.counter_events.last_round IS 'when events were written last';

CREATE FUNCTION dcounter.on_events_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_events_change() IS 'internal: makes restoring these settings idempotent and tells sessions of changes';

CREATE TRIGGER on_events_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.counter_events
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_events_change();

CREATE TABLE dcounter.changed_key (
	counter   pg_catalog.regclass    NOT NULL,
	marked_at pg_catalog.timestamptz NOT NULL,
	key       pg_catalog.text COLLATE pg_catalog."C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);
CREATE INDEX changed_key_marked_at ON dcounter.changed_key (counter, marked_at);
COMMENT ON TABLE dcounter.changed_key IS 'keys of counter tables that have changed since their last event';
COMMENT ON COLUMN dcounter.changed_key.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.changed_key.marked_at IS 'when the change was made';
COMMENT ON COLUMN dcounter.changed_key.key IS 'the key';
