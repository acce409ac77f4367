CREATE SEQUENCE dcounter.limit_id AS pg_catalog.int4 NO CYCLE;
COMMENT ON SEQUENCE dcounter.limit_id IS 'ids of limits';

CREATE TABLE dcounter.limit_rule (
	id          pg_catalog.int4      NOT NULL CONSTRAINT limit_rule_pkey PRIMARY KEY,
	name        pg_catalog.text      COLLATE pg_catalog."C" NOT NULL CONSTRAINT limit_rule_name_key UNIQUE,
	owner       pg_catalog.regrole   NOT NULL,
	users       pg_catalog.regrole[] NOT NULL,
	refunders   pg_catalog.regrole[] NOT NULL,
	algorithm   pg_catalog.text      NOT NULL CHECK (algorithm OPERATOR(pg_catalog.=) ANY ('{gcra,fixed,log,sliding,concurrent}'::pg_catalog.text[])),
	rate        pg_catalog.int8      NOT NULL CHECK (rate OPERATOR(pg_catalog.>) 0),
	per         pg_catalog.interval  NOT NULL CHECK (per OPERATOR(pg_catalog.>) '0'::pg_catalog.interval),
	burst       pg_catalog.int8      CHECK (burst OPERATOR(pg_catalog.>) 0),
	max_keys    pg_catalog.int8      CHECK (max_keys OPERATOR(pg_catalog.>) 0),
	on_full     pg_catalog.text      NOT NULL CHECK (on_full OPERATOR(pg_catalog.=) ANY ('{deny,allow}'::pg_catalog.text[])),
	after_crash pg_catalog.text      NOT NULL CHECK (after_crash OPERATOR(pg_catalog.=) ANY ('{open,full}'::pg_catalog.text[])),
	version     pg_catalog.int4      NOT NULL CHECK (version OPERATOR(pg_catalog.>) 0),
	created_at  pg_catalog.timestamptz NOT NULL
);
COMMENT ON TABLE dcounter.limit_rule IS 'limits: how often a key may do something';
COMMENT ON COLUMN dcounter.limit_rule.users IS 'roles that may use it, besides the owner; - is everybody';
COMMENT ON COLUMN dcounter.limit_rule.refunders IS 'those of them that may also refund and reset';
COMMENT ON COLUMN dcounter.limit_rule.algorithm IS 'gcra (a token bucket), fixed, log (exact) or sliding windows, or concurrent';
COMMENT ON COLUMN dcounter.limit_rule.rate IS 'units in a period, or at a time';
COMMENT ON COLUMN dcounter.limit_rule.per IS 'the period, or how long a lease is';
COMMENT ON COLUMN dcounter.limit_rule.burst IS 'of a token bucket: units at once';
COMMENT ON COLUMN dcounter.limit_rule.max_keys IS 'how many keys may be in memory; NULL: half of the memory';
COMMENT ON COLUMN dcounter.limit_rule.on_full IS 'the answer for a key for which there is no memory';
COMMENT ON COLUMN dcounter.limit_rule.after_crash IS 'whether keys start with their full budget or with none when it is not known what was used';
COMMENT ON COLUMN dcounter.limit_rule.version IS 'grows with each change';

CREATE TYPE dcounter.limit_answer AS (
	allowed     pg_catalog.bool,
	remaining   pg_catalog.int8,
	retry_after pg_catalog.interval,
	reset_at    pg_catalog.timestamptz,
	rule        pg_catalog.text,
	lease       pg_catalog.int8
);
COMMENT ON TYPE dcounter.limit_answer IS 'the answer of a limit to a call';
COMMENT ON COLUMN dcounter.limit_answer.allowed IS 'whether it may go on';
COMMENT ON COLUMN dcounter.limit_answer.remaining IS 'units that the key has left';
COMMENT ON COLUMN dcounter.limit_answer.retry_after IS 'when such a call will be allowed if there are no other calls; NULL: never';
COMMENT ON COLUMN dcounter.limit_answer.reset_at IS 'when the key will have its full budget';
COMMENT ON COLUMN dcounter.limit_answer.rule IS 'name of the limit';
COMMENT ON COLUMN dcounter.limit_answer.lease IS 'the lease to end with dc_limit_release, if the limit gives leases';

CREATE FUNCTION dc_limit_create(name text, algorithm text, rate bigint, per interval, burst bigint DEFAULT NULL, on_full text DEFAULT 'deny', after_crash text DEFAULT 'open', max_keys bigint DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_create(text, text, bigint, interval, bigint, text, text, bigint, boolean) IS 'creates a limit: how often, or how many at a time';

CREATE FUNCTION dc_limit_alter(name text, rate bigint DEFAULT NULL, per interval DEFAULT NULL, burst bigint DEFAULT NULL, on_full text DEFAULT NULL, after_crash text DEFAULT NULL, max_keys bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_alter(text, bigint, interval, bigint, text, text, bigint) IS 'changes a limit; NULL keeps a setting, max_keys 0 removes it. What keys have used stays used';

CREATE FUNCTION dc_limit_drop(name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_drop(text) IS 'drops a limit';

CREATE FUNCTION dc_limit_grant(name text, role regrole, refund boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_grant(text, regrole, boolean) IS 'lets a role, or everybody (-), use a limit; with refund, also refund and reset';

CREATE FUNCTION dc_limit_revoke(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_revoke(text, regrole) IS 'revokes what dc_limit_grant granted';

CREATE FUNCTION dc_limit(name text, key text, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit(text, text, bigint) IS 'whether a key may do something now; if so, it is counted, and stays counted if the transaction rolls back';

CREATE FUNCTION dc_limit(name text, key anycompatible, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit(text, anycompatible, bigint) IS 'whether a key may do something now; if so, it is counted, and stays counted if the transaction rolls back';

CREATE FUNCTION dc_allow(name text, key text, cost bigint DEFAULT 1) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow(text, text, bigint) IS 'the column allowed of dc_limit without the rest: the fastest form';

CREATE FUNCTION dc_allow(name text, key anycompatible, cost bigint DEFAULT 1) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow(text, anycompatible, bigint) IS 'the column allowed of dc_limit without the rest: the fastest form';

CREATE FUNCTION dc_allow_up_to(name text, key text, cost bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow_up_to(text, text, bigint) IS 'allows as much of a cost as fits now, counts that, and returns how much it is';

CREATE FUNCTION dc_allow_up_to(name text, key anycompatible, cost bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow_up_to(text, anycompatible, bigint) IS 'allows as much of a cost as fits now, counts that, and returns how much it is';

CREATE FUNCTION dc_limit_all(names text[], keys anycompatiblearray, costs bigint[] DEFAULT NULL, OUT allowed boolean, OUT remaining bigint, OUT retry_after interval, OUT reset_at timestamptz, OUT rule text, OUT leases bigint[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_limit_all(text[], anycompatiblearray, bigint[]) IS 'asks several limits: all count, or none; rule is the one that refuses';

CREATE FUNCTION dc_limit_peek(name text, key text, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_peek(text, text, bigint) IS 'what dc_limit would say; nothing is counted';

CREATE FUNCTION dc_limit_peek(name text, key anycompatible, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_peek(text, anycompatible, bigint) IS 'what dc_limit would say; nothing is counted';

CREATE FUNCTION dc_limit_refund(name text, key text, units bigint DEFAULT 1) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_refund(text, text, bigint) IS 'gives back units that were counted; returns how many there are now';

CREATE FUNCTION dc_limit_refund(name text, key anycompatible, units bigint DEFAULT 1) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_refund(text, anycompatible, bigint) IS 'gives back units that were counted; returns how many there are now';

CREATE FUNCTION dc_limit_release(name text, key text, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_release(text, text, bigint) IS 'ends a lease; false if it had ended';

CREATE FUNCTION dc_limit_release(name text, key anycompatible, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_release(text, anycompatible, bigint) IS 'ends a lease; false if it had ended';

CREATE FUNCTION dc_limit_renew(name text, key text, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_renew(text, text, bigint) IS 'renews a lease; false if it had ended';

CREATE FUNCTION dc_limit_renew(name text, key anycompatible, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_renew(text, anycompatible, bigint) IS 'renews a lease; false if it had ended';

CREATE FUNCTION dc_limit_reset(name text, key text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_reset(text, text) IS 'gives a key its full budget; false if it already had it';

CREATE FUNCTION dc_limit_reset(name text, key anycompatible) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_reset(text, anycompatible) IS 'gives a key its full budget; false if it already had it';

CREATE FUNCTION dc_throttle(key text, burst bigint, rate bigint, per interval, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint) IS 'a token bucket of the calling role, without a rule';

CREATE FUNCTION dc_throttle(key anycompatible, burst bigint, rate bigint, per interval, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_throttle(anycompatible, bigint, bigint, interval, bigint) IS 'a token bucket of the calling role, without a rule';

CREATE FUNCTION dc_throttle_reset(key anycompatible DEFAULT NULL::text, role regrole DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_throttle_reset(anycompatible, regrole) IS 'gives the ad hoc limits of a key, or of all keys, of the calling or another role their full budget; returns how many there were';

CREATE FUNCTION dcounter.stat_limits(OUT rule text, OUT owner regrole, OUT keys bigint, OUT memory bigint, OUT allowed bigint, OUT denied bigint, OUT full_allowed bigint, OUT full_denied bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_limits() IS 'internal: the rows of dc_stat_limits';

CREATE VIEW dc_stat_limits AS
	SELECT s.rule, s.owner, s.keys, s.memory, s.allowed, s.denied, s.full_allowed, s.full_denied
	FROM dcounter.stat_limits() AS s;
COMMENT ON VIEW dc_stat_limits IS 'limits that the caller may use, since the server started';
COMMENT ON COLUMN dc_stat_limits.rule IS 'name of the limit; NULL: what a role asks with dc_throttle';
COMMENT ON COLUMN dc_stat_limits.owner IS 'its owner, or that role';
COMMENT ON COLUMN dc_stat_limits.keys IS 'keys in memory';
COMMENT ON COLUMN dc_stat_limits.memory IS 'bytes of dcounter.limit_size that they take';
COMMENT ON COLUMN dc_stat_limits.allowed IS 'calls that were allowed';
COMMENT ON COLUMN dc_stat_limits.denied IS 'calls that were denied, by this limit';
COMMENT ON COLUMN dc_stat_limits.full_allowed IS 'calls that were allowed, but not counted, because memory was full';
COMMENT ON COLUMN dc_stat_limits.full_denied IS 'calls that were denied because memory was full';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.limit_rule TO PUBLIC;
-- The owner of the database dumps these as well. No other role reads them, as they have rows of all roles.
GRANT SELECT ON SEQUENCE dcounter.limit_id TO pg_database_owner;
-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_limits TO PUBLIC;
-- A rule takes shared memory.
REVOKE EXECUTE ON FUNCTION dc_limit_create(text, text, bigint, interval, bigint, text, text, bigint, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle(anycompatible, bigint, bigint, interval, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle_reset(anycompatible, regrole) FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.limit_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.limit_rule', '');
