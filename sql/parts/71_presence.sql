CREATE SEQUENCE dcounter.presence_id AS pg_catalog.int4 NO CYCLE;
COMMENT ON SEQUENCE dcounter.presence_id IS 'ids of presences';

CREATE TABLE dcounter.presence_rule (
	id          pg_catalog.int4      NOT NULL CONSTRAINT presence_rule_pkey PRIMARY KEY,
	name        pg_catalog.text      COLLATE pg_catalog."C" NOT NULL CONSTRAINT presence_rule_name_key UNIQUE,
	owner       pg_catalog.regrole   NOT NULL,
	users       pg_catalog.regrole[] NOT NULL,
	ttl         pg_catalog.interval  NOT NULL CHECK (ttl OPERATOR(pg_catalog.>) '0'::pg_catalog.interval),
	events      pg_catalog.interval  CHECK (events OPERATOR(pg_catalog.>) '0'::pg_catalog.interval),
	channel     pg_catalog.text,
	max_members pg_catalog.int8      CHECK (max_members OPERATOR(pg_catalog.>) 0),
	approx      pg_catalog.bool      NOT NULL,
	version     pg_catalog.int4      NOT NULL CHECK (version OPERATOR(pg_catalog.>) 0),
	created_at  pg_catalog.timestamptz NOT NULL,
	epoch       pg_catalog.int8
);
COMMENT ON TABLE dcounter.presence_rule IS 'presences: who is where';
COMMENT ON COLUMN dcounter.presence_rule.users IS 'roles that may let members enter and leave, and list them, besides the owner; - is everybody';
COMMENT ON COLUMN dcounter.presence_rule.ttl IS 'how long a connection stays without a heartbeat';
COMMENT ON COLUMN dcounter.presence_rule.events IS 'minimum time between two events of a room; NULL: no events';
COMMENT ON COLUMN dcounter.presence_rule.channel IS 'channel of NOTIFY for the same changes';
COMMENT ON COLUMN dcounter.presence_rule.max_members IS 'how many members and rooms may be in memory; NULL: half of the memory';
COMMENT ON COLUMN dcounter.presence_rule.approx IS 'whether rooms only estimate how many members they have';
COMMENT ON COLUMN dcounter.presence_rule.version IS 'grows with each change';
COMMENT ON COLUMN dcounter.presence_rule.epoch IS 'the epoch in which it was created, or a later one that was reported; NULL without shared memory';

CREATE FUNCTION dc_presence_create(name text, ttl interval DEFAULT '30 s', events interval DEFAULT NULL, notify text DEFAULT NULL, max_members bigint DEFAULT NULL, approx boolean DEFAULT false, if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) IS 'creates a presence: members of rooms, as long as they send heartbeats';

CREATE FUNCTION dc_presence_alter(name text, ttl interval DEFAULT NULL, events interval DEFAULT NULL, notify text DEFAULT NULL, max_members bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_alter(text, interval, interval, text, bigint) IS 'changes a presence; NULL keeps a setting, 0 and an empty text remove it';

CREATE FUNCTION dc_presence_drop(name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_drop(text) IS 'drops a presence';

CREATE FUNCTION dc_presence_grant(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_grant(text, regrole) IS 'lets a role, or everybody (-), use a presence';

CREATE FUNCTION dc_presence_revoke(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_revoke(text, regrole) IS 'revokes what dc_presence_grant granted';

CREATE FUNCTION dc_enter(name text, room text, member text, conn text DEFAULT '', meta jsonb DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_enter(text, text, text, text, jsonb) IS 'enters a member into a room, by one of its connections; returns how many members are present';

CREATE FUNCTION dc_enter(name text, room anycompatible, member text, conn text DEFAULT '', meta jsonb DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_enter(text, anycompatible, text, text, jsonb) IS 'enters a member into a room, by one of its connections; returns how many members are present';

CREATE FUNCTION dc_enter(name text, room anycompatible, member anynonarray, conn text DEFAULT '', meta jsonb DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_enter(text, anycompatible, anynonarray, text, jsonb) IS 'enters a member into a room, by one of its connections; returns how many members are present';

CREATE FUNCTION dc_beat(name text, room text, member text, conn text DEFAULT '') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_beat(text, text, text, text) IS 'heartbeat of a connection; false if it was unknown and has entered';

CREATE FUNCTION dc_beat(name text, room anycompatible, member text, conn text DEFAULT '') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_beat(text, anycompatible, text, text) IS 'heartbeat of a connection; false if it was unknown and has entered';

CREATE FUNCTION dc_beat(name text, room anycompatible, member anynonarray, conn text DEFAULT '') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_beat(text, anycompatible, anynonarray, text) IS 'heartbeat of a connection; false if it was unknown and has entered';

CREATE FUNCTION dc_beat_many(name text, rooms anycompatiblearray, members anycompatiblearray, conns text[] DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_beat_many(text, anycompatiblearray, anycompatiblearray, text[]) IS 'heartbeats of many connections; returns how many were unknown';

CREATE FUNCTION dc_exit(name text, room text, member text, conn text DEFAULT '') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_exit(text, text, text, text) IS 'removes a connection of a member, or with NULL all of them; returns how many members are present';

CREATE FUNCTION dc_exit(name text, room anycompatible, member text, conn text DEFAULT '') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_exit(text, anycompatible, text, text) IS 'removes a connection of a member, or with NULL all of them; returns how many members are present';

CREATE FUNCTION dc_exit(name text, room anycompatible, member anynonarray, conn text DEFAULT '') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_exit(text, anycompatible, anynonarray, text) IS 'removes a connection of a member, or with NULL all of them; returns how many members are present';

CREATE FUNCTION dc_present(name text, room text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_present(text, text) IS 'how many members a room has';

CREATE FUNCTION dc_present(name text, room anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_present(text, anycompatible) IS 'how many members a room has';

CREATE FUNCTION dc_presence_list(name text, room text, after text DEFAULT NULL, n integer DEFAULT 100, OUT member text, OUT meta jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100 ROWS 100;
COMMENT ON FUNCTION dc_presence_list(text, text, text, integer) IS 'n members of a room, in order, from the first or after a given one, which need not be present';

CREATE FUNCTION dc_presence_list(name text, room anycompatible, after text DEFAULT NULL, n integer DEFAULT 100, OUT member text, OUT meta jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100 ROWS 100;
COMMENT ON FUNCTION dc_presence_list(text, anycompatible, text, integer) IS 'n members of a room, in order, from the first or after a given one, which need not be present';

CREATE FUNCTION dcounter.stat_presence(OUT name text, OUT owner regrole, OUT approx boolean, OUT rooms bigint, OUT members bigint, OUT connections bigint, OUT memory bigint, OUT joined bigint, OUT "left" bigint, OUT expired bigint, OUT refused bigint, OUT untold bigint, OUT epoch bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_presence() IS 'internal: the rows of dc_stat_presence';

CREATE VIEW dc_stat_presence AS
	SELECT s.name, s.owner, s.approx, s.rooms, s.members, s.connections, s.memory, s.joined, s."left", s.expired, s.refused, s.untold, s.epoch
	FROM dcounter.stat_presence() AS s;
COMMENT ON VIEW dc_stat_presence IS 'presences that the caller may use, since the server started';
COMMENT ON COLUMN dc_stat_presence.name IS 'of the presence';
COMMENT ON COLUMN dc_stat_presence.owner IS 'its owner';
COMMENT ON COLUMN dc_stat_presence.approx IS 'whether its rooms only estimate how many members they have';
COMMENT ON COLUMN dc_stat_presence.rooms IS 'rooms in memory; one that is empty stays for some seconds';
COMMENT ON COLUMN dc_stat_presence.members IS 'members of all rooms; of an approximate presence, the sum of the estimates';
COMMENT ON COLUMN dc_stat_presence.connections IS 'connections with names';
COMMENT ON COLUMN dc_stat_presence.memory IS 'bytes of dcounter.presence_size that all this takes';
COMMENT ON COLUMN dc_stat_presence.joined IS 'how often a member has entered a room';
COMMENT ON COLUMN dc_stat_presence."left" IS 'how often a member has left';
COMMENT ON COLUMN dc_stat_presence.expired IS 'those of them that sent no heartbeat in time';
COMMENT ON COLUMN dc_stat_presence.refused IS 'how often there was no memory for a member';
COMMENT ON COLUMN dc_stat_presence.untold IS 'rooms with a pending event';
COMMENT ON COLUMN dc_stat_presence.epoch IS 'changes when everything that was known before is lost';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.presence_rule TO PUBLIC;
-- The owner of the database dumps these as well. No other role reads them, as they have rows of all roles.
GRANT SELECT ON SEQUENCE dcounter.presence_id TO pg_database_owner;
-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_presence TO PUBLIC;
-- A rule takes shared memory.
REVOKE EXECUTE ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.presence_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.presence_rule', '');
