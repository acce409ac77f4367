CREATE SEQUENCE dcounter.consumer_id AS pg_catalog.int4 NO CYCLE;
COMMENT ON SEQUENCE dcounter.consumer_id IS 'ids of consumers';

CREATE TABLE dcounter.consumer (
	id           pg_catalog.int4      NOT NULL CONSTRAINT consumer_pkey PRIMARY KEY,
	name         pg_catalog.text      COLLATE pg_catalog."C" NOT NULL CONSTRAINT consumer_name_key UNIQUE,
	owner        pg_catalog.regrole   NOT NULL,
	readers      pg_catalog.regrole[] NOT NULL,
	topics       pg_catalog.text[],
	lease        pg_catalog.interval  NOT NULL,
	max_attempts pg_catalog.int4      NOT NULL,
	on_nack      pg_catalog.text      NOT NULL CHECK (on_nack OPERATOR(pg_catalog.=) ANY (ARRAY['wait', 'skip'])),
	max_retention_age  pg_catalog.interval,
	max_retention_size pg_catalog.int8,
	cut_off      pg_catalog.int8,
	created_at   pg_catalog.timestamptz NOT NULL,
	revived      pg_catalog.int8        NOT NULL
);
COMMENT ON TABLE dcounter.consumer IS 'consumers of the outbox and their settings';
COMMENT ON COLUMN dcounter.consumer.readers IS 'roles that may fetch and acknowledge, as the owner may';
COMMENT ON COLUMN dcounter.consumer.topics IS 'the topics it is interested in, NULL for all';
COMMENT ON COLUMN dcounter.consumer.max_retention_age IS 'how long it may keep events from being removed; NULL: forever';
COMMENT ON COLUMN dcounter.consumer.max_retention_size IS 'how many bytes it may keep from being removed; NULL: any number';
COMMENT ON COLUMN dcounter.consumer.cut_off IS 'events up to this seq were removed before it had them';
COMMENT ON COLUMN dcounter.consumer.revived IS 'raised when its members must look for retries again';

CREATE TABLE dcounter.consumer_member (
	consumer    pg_catalog.int4        NOT NULL,
	member      pg_catalog.text        COLLATE pg_catalog."C" NOT NULL,
	version     pg_catalog.int8        NOT NULL,
	lanes       pg_catalog.int8        NOT NULL,
	acked       pg_catalog.int8        NOT NULL,
	positions   pg_catalog.int8[],
	fetched     pg_catalog.int8        NOT NULL,
	delivered   pg_catalog.int8        NOT NULL,
	attempts    pg_catalog.int8[],
	skip        pg_catalog.bool        NOT NULL,
	retries     pg_catalog.int8[],
	lease_until pg_catalog.timestamptz NOT NULL,
	retry_due   pg_catalog.timestamptz,
	retry_first pg_catalog.int8        NOT NULL,
	retry_last  pg_catalog.int8        NOT NULL,
	revived     pg_catalog.int8        NOT NULL,
	CONSTRAINT consumer_member_pkey PRIMARY KEY (consumer, member, version)
);
COMMENT ON TABLE dcounter.consumer_member IS 'positions of consumers and of their members; each change makes a row with a higher version';
COMMENT ON COLUMN dcounter.consumer_member.member IS 'empty for the consumer itself, which has what no member has';
COMMENT ON COLUMN dcounter.consumer_member.lanes IS 'which of the 64 shares of the keys it has, a bit each';
COMMENT ON COLUMN dcounter.consumer_member.acked IS 'everything up to this seq is done, in all of its lanes';
COMMENT ON COLUMN dcounter.consumer_member.positions IS 'the same by lane, unless acked applies to all';
COMMENT ON COLUMN dcounter.consumer_member.fetched IS 'how far the last fetch has looked';
COMMENT ON COLUMN dcounter.consumer_member.delivered IS 'the last event that was handed out';
COMMENT ON COLUMN dcounter.consumer_member.attempts IS 'how often events were handed out: pairs of a seq and the attempts of the events up to it; all others were handed out once';
COMMENT ON COLUMN dcounter.consumer_member.skip IS 'whether on_nack was skip at the last fetch, which applies until the next one';
COMMENT ON COLUMN dcounter.consumer_member.retries IS 'events that were handed out from dcounter.consumer_retry';
COMMENT ON COLUMN dcounter.consumer_member.retry_due IS 'no retry of its lanes is due before; NULL if there is none';
COMMENT ON COLUMN dcounter.consumer_member.retry_first IS 'no retry of its lanes has a lower seq, unless it is dead';
COMMENT ON COLUMN dcounter.consumer_member.retry_last IS 'no retry of its lanes has a higher seq';
COMMENT ON COLUMN dcounter.consumer_member.revived IS 'dcounter.consumer.revived when these were found';

CREATE TABLE dcounter.consumer_retry (
	consumer     pg_catalog.int4        NOT NULL,
	seq          pg_catalog.int8        NOT NULL,
	lane         pg_catalog.int2        NOT NULL,
	pending_hash pg_catalog.int8,
	due_at       pg_catalog.timestamptz,
	died_at      pg_catalog.timestamptz,
	attempts     pg_catalog.int4        NOT NULL,
	spared       pg_catalog.int4        NOT NULL,
	reason       pg_catalog.text,
	created_at   pg_catalog.timestamptz NOT NULL,
	id           pg_catalog.uuid        NOT NULL,
	topic        pg_catalog.text        NOT NULL,
	key          pg_catalog.text,
	type         pg_catalog.text        NOT NULL,
	payload      pg_catalog.jsonb,
	headers      pg_catalog.jsonb,
	CONSTRAINT consumer_retry_pkey PRIMARY KEY (consumer, seq)
);
CREATE INDEX consumer_retry_due ON dcounter.consumer_retry (consumer, due_at);
CREATE INDEX consumer_retry_key ON dcounter.consumer_retry (consumer, pending_hash, seq);
COMMENT ON TABLE dcounter.consumer_retry IS 'events to be delivered again, those that wait for them, and dead letters';
COMMENT ON COLUMN dcounter.consumer_retry.pending_hash IS 'hash of topic and key, NULL if it holds up no other event';
COMMENT ON COLUMN dcounter.consumer_retry.due_at IS 'when it is delivered again; NULL if it waits for another event of its key or is dead, -infinity if it was dead and was discarded';
COMMENT ON COLUMN dcounter.consumer_retry.died_at IS 'when it was given up';
COMMENT ON COLUMN dcounter.consumer_retry.attempts IS 'how often it was delivered';
COMMENT ON COLUMN dcounter.consumer_retry.spared IS 'how many of these do not count, because an event before it was refused';

CREATE FUNCTION dc_consumer_create(name text, topics text[] DEFAULT NULL, start text DEFAULT 'now', if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_create(text, text[], text, boolean) IS 'creates a consumer of events, of some topics or of all';

CREATE FUNCTION dc_consumer_alter(name text, topics text[] DEFAULT NULL, lease interval DEFAULT NULL, max_attempts int DEFAULT NULL, on_nack text DEFAULT NULL, max_retention_age interval DEFAULT NULL, max_retention_size bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_alter(text, text[], interval, int, text, interval, bigint) IS 'changes settings of a consumer; NULL keeps one, an empty array or 0 removes a limit';

CREATE FUNCTION dc_consumer_drop(name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_drop(text) IS 'drops a consumer with its members and dead letters';

CREATE FUNCTION dc_consumer_grant(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_grant(text, regrole) IS 'lets a role fetch and acknowledge events of a consumer';

CREATE FUNCTION dc_consumer_revoke(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_revoke(text, regrole) IS 'revokes what dc_consumer_grant granted';

CREATE FUNCTION dc_fetch(consumer text, max_events int DEFAULT 100, wait interval DEFAULT '0', member text DEFAULT NULL)
	RETURNS TABLE (seq bigint, id uuid, topic text, key text, type text, payload jsonb, headers jsonb, created_at timestamptz, attempt int)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100 ROWS 100;
COMMENT ON FUNCTION dc_fetch(text, int, interval, text) IS 'the next events of a consumer, until they are acknowledged';

CREATE FUNCTION dcounter.last_fetch() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1;
COMMENT ON FUNCTION dcounter.last_fetch() IS 'how the last dc_fetch of this session ended: complete, stopped (the next one continues) or busy (others were active)';

CREATE FUNCTION dc_ack(consumer text, seq bigint, member text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_ack(text, bigint, text) IS 'acknowledges everything that was fetched, up to an event';

CREATE FUNCTION dc_nack(consumer text, seq bigint, delay interval DEFAULT '10 s', reason text DEFAULT NULL, member text DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_nack(text, bigint, interval, text, text) IS 'refuses a fetched event, which is delivered again later (retry) or was tried for the last time (dead)';

CREATE FUNCTION dc_seek(consumer text, "position" text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_seek(text, text) IS 'moves a consumer to another position, as dc_consumer_create understands it';

CREATE FUNCTION dc_seek(consumer text, "position" bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'dc_seek_int8' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_seek(text, bigint) IS 'moves a consumer to just after an event';

CREATE FUNCTION dc_dead_letter_retry(consumer text, seq bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_dead_letter_retry(text, bigint) IS 'delivers a dead letter again, or all of a consumer; returns how many';

CREATE FUNCTION dc_dead_letter_discard(consumer text, seq bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_dead_letter_discard(text, bigint) IS 'removes a dead letter, or all of a consumer; returns how many';

CREATE VIEW dc_dead_letters WITH (security_barrier) AS
	SELECT c.name AS consumer, r.seq, r.id, r.topic, r.key, r.type, r.payload, r.headers, r.created_at, r.attempts, r.reason, r.died_at
	FROM dcounter.consumer_retry r JOIN dcounter.consumer c ON c.id OPERATOR(pg_catalog.=) r.consumer
	WHERE r.died_at IS NOT NULL AND r.due_at IS NULL
		AND (pg_catalog.pg_has_role(c.owner::pg_catalog.oid, 'USAGE')
			OR EXISTS (SELECT FROM pg_catalog.unnest(c.readers) reader WHERE pg_catalog.pg_has_role(reader::pg_catalog.oid, 'USAGE')));
COMMENT ON VIEW dc_dead_letters IS 'events that were given up after too many attempts';

CREATE FUNCTION dcounter.stat_consumers(OUT name text, OUT owner regrole, OUT topics text[], OUT "position" bigint, OUT lag_events bigint, OUT lag_seconds float8, OUT lag_bytes bigint, OUT outstanding bigint, OUT retries bigint, OUT dead_letters bigint, OUT attempts int, OUT members int, OUT lease_until timestamptz, OUT leases_expired int, OUT cut_off bigint, OUT held_back_by_pid int, OUT held_back_by_xid xid)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dcounter.stat_consumers() IS 'internal: the rows of dc_stat_consumers';

CREATE VIEW dc_stat_consumers AS
	SELECT s.name, s.owner, s.topics, s."position", s.lag_events, s.lag_seconds, s.lag_bytes,
		s.outstanding, s.retries, s.dead_letters, s.attempts, s.members, s.lease_until, s.leases_expired,
		s.cut_off, s.held_back_by_pid,
		(SELECT p.gid FROM pg_catalog.pg_prepared_xacts AS p
			WHERE p.transaction OPERATOR(pg_catalog.=) s.held_back_by_xid) AS held_back_by_gid
	FROM dcounter.stat_consumers() AS s;
COMMENT ON VIEW dc_stat_consumers IS 'consumers that the caller may read, and how far behind they are';
COMMENT ON COLUMN dc_stat_consumers.name IS 'the consumer';
COMMENT ON COLUMN dc_stat_consumers.owner IS 'who created it';
COMMENT ON COLUMN dc_stat_consumers.topics IS 'the topics it is interested in, NULL for all';
COMMENT ON COLUMN dc_stat_consumers."position" IS 'everything up to this event is done';
COMMENT ON COLUMN dc_stat_consumers.lag_events IS 'events that are not done; an upper bound if there are more than 10000';
COMMENT ON COLUMN dc_stat_consumers.lag_seconds IS 'age of the oldest of these, 0 if there is none';
COMMENT ON COLUMN dc_stat_consumers.lag_bytes IS 'approximate size of the outbox after its position';
COMMENT ON COLUMN dc_stat_consumers.outstanding IS 'events that were fetched and are not acknowledged';
COMMENT ON COLUMN dc_stat_consumers.retries IS 'events that will be delivered again, or wait for such an event';
COMMENT ON COLUMN dc_stat_consumers.dead_letters IS 'events that were given up';
COMMENT ON COLUMN dc_stat_consumers.attempts IS 'highest number of attempts of an event that is outstanding or to be delivered again';
COMMENT ON COLUMN dc_stat_consumers.members IS 'members with a lease that has not expired';
COMMENT ON COLUMN dc_stat_consumers.lease_until IS 'when the first of these leases ends';
COMMENT ON COLUMN dc_stat_consumers.leases_expired IS 'members with an expired lease whose keys nobody has taken over yet';
COMMENT ON COLUMN dc_stat_consumers.cut_off IS 'events up to this one were removed before it had them';
COMMENT ON COLUMN dc_stat_consumers.held_back_by_pid IS 'the session that is committing, for which delivery waits';
COMMENT ON COLUMN dc_stat_consumers.held_back_by_gid IS 'the prepared transaction for which delivery waits';

-- The owner of the database dumps these as well. No other role reads them, as they have rows of all roles.
GRANT SELECT ON SEQUENCE dcounter.consumer_id TO pg_database_owner;
GRANT SELECT ON dcounter.consumer, dcounter.consumer_member, dcounter.consumer_retry TO pg_database_owner;
-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_consumers TO PUBLIC;
-- Creating a consumer holds back the removal of events, and reads all topics.
REVOKE EXECUTE ON FUNCTION dc_consumer_create(text, text[], text, boolean) FROM PUBLIC;
-- The view decides which rows the caller is shown.
GRANT SELECT ON dc_dead_letters TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_member', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_retry', '');
