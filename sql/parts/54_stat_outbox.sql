CREATE FUNCTION dcounter.stat_outbox(OUT last_seq bigint, OUT horizon bigint, OUT held_back bigint, OUT held_back_by_pid int, OUT held_back_by_xid xid, OUT events bigint, OUT bytes bigint, OUT partitions int, OUT current_partition int, OUT current_since timestamptz, OUT oldest_seq bigint, OUT oldest_created_at timestamptz, OUT oldest_needed_seq bigint, OUT oldest_needed_by text)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dcounter.stat_outbox() IS 'internal: the row of dc_stat_outbox';

CREATE VIEW dc_stat_outbox AS
	SELECT s.last_seq, s.horizon, s.held_back, s.held_back_by_pid,
		(SELECT p.gid FROM pg_catalog.pg_prepared_xacts AS p
			WHERE p.transaction OPERATOR(pg_catalog.=) s.held_back_by_xid) AS held_back_by_gid,
		s.events, s.bytes, s.partitions, s.current_partition, s.current_since,
		s.oldest_seq, s.oldest_created_at, s.oldest_needed_seq, s.oldest_needed_by
	FROM dcounter.stat_outbox() AS s;
COMMENT ON VIEW dc_stat_outbox IS 'the outbox as it is now';
COMMENT ON COLUMN dc_stat_outbox.last_seq IS 'last number that a transaction has drawn for its events';
COMMENT ON COLUMN dc_stat_outbox.horizon IS 'events up to this one can be fetched';
COMMENT ON COLUMN dc_stat_outbox.held_back IS 'numbers after it, which have to wait for a transaction that is committing or prepared';
COMMENT ON COLUMN dc_stat_outbox.held_back_by_pid IS 'the session that commits';
COMMENT ON COLUMN dc_stat_outbox.held_back_by_gid IS 'the prepared transaction';
COMMENT ON COLUMN dc_stat_outbox.events IS 'events that are stored, at most: numbers of transactions that failed to commit are counted, too';
COMMENT ON COLUMN dc_stat_outbox.bytes IS 'size of all partitions with their indexes and TOAST tables';
COMMENT ON COLUMN dc_stat_outbox.partitions IS 'partitions in use, of 8';
COMMENT ON COLUMN dc_stat_outbox.current_partition IS 'the one that is written to';
COMMENT ON COLUMN dc_stat_outbox.current_since IS 'since when';
COMMENT ON COLUMN dc_stat_outbox.oldest_seq IS 'oldest event that is stored';
COMMENT ON COLUMN dc_stat_outbox.oldest_created_at IS 'when it was written';
COMMENT ON COLUMN dc_stat_outbox.oldest_needed_seq IS 'oldest event that a consumer may still need';
COMMENT ON COLUMN dc_stat_outbox.oldest_needed_by IS 'the consumer that is furthest behind, if the caller may read it';

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
COMMENT ON COLUMN dc_stat_consumers.lag_bytes IS 'about how much of the outbox is after its position';
COMMENT ON COLUMN dc_stat_consumers.outstanding IS 'events that were fetched and are not acknowledged';
COMMENT ON COLUMN dc_stat_consumers.retries IS 'events that are delivered again later, or wait for one of these';
COMMENT ON COLUMN dc_stat_consumers.dead_letters IS 'events that were given up';
COMMENT ON COLUMN dc_stat_consumers.attempts IS 'highest number of attempts of an event that is outstanding or to be delivered again';
COMMENT ON COLUMN dc_stat_consumers.members IS 'members with a lease that has not expired';
COMMENT ON COLUMN dc_stat_consumers.lease_until IS 'when the first of these leases ends';
COMMENT ON COLUMN dc_stat_consumers.leases_expired IS 'members with an expired lease whose keys nobody has taken over yet';
COMMENT ON COLUMN dc_stat_consumers.cut_off IS 'events up to this one were removed before it had them';
COMMENT ON COLUMN dc_stat_consumers.held_back_by_pid IS 'the session that is committing, for which delivery waits';
COMMENT ON COLUMN dc_stat_consumers.held_back_by_gid IS 'the prepared transaction for which delivery waits';
