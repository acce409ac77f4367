CREATE FUNCTION dc_publish(topic text, key text, type text, payload jsonb, headers jsonb DEFAULT NULL) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_publish(text, text, text, jsonb, jsonb) IS 'writes an event when the transaction commits';

CREATE FUNCTION dc_publish(topic text, key anycompatible, type text, payload jsonb, headers jsonb DEFAULT NULL) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_publish(text, anycompatible, text, jsonb, jsonb) IS 'writes an event when the transaction commits';

CREATE FUNCTION dcounter.outbox_capture() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.outbox_capture() IS 'writes an event for each change of a row; see dc_outbox_attach()';

CREATE FUNCTION dc_outbox_attach(source regclass, topic text DEFAULT NULL, key_columns text[] DEFAULT NULL, columns text[] DEFAULT NULL, condition text DEFAULT NULL, sink text DEFAULT 'table', if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_outbox_attach(regclass, text, text[], text[], text, text, boolean) IS 'writes an event for each change of a table, in the same transaction';

CREATE FUNCTION dc_outbox_detach(source regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_outbox_detach(regclass) IS 'ends what dc_outbox_attach() began';
