/*
 * ctlstate.c
 *		The state of the regions' servers, on which all decisions of a command are based.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A link that dc_region has made has a comment with the epochs of both databases for which it was
 * made, and with "refreshed" if all that the other knew was copied since. A link of other epochs is
 * out of date, as one of the databases was replaced since: its position says nothing. Epochs
 * between which nothing was missed are an exception.
 */
#include "bin/dc_region/ctl.h"

#include <string.h>

/* Of any database */
static const char sql_server[] =
	"SELECT pg_is_in_recovery() AS standby,"
	/* 19 makes "logical" of "replica" by itself, as soon as there is a slot for a link */
	" current_setting('wal_level') = 'logical' OR current_setting('wal_level') = 'replica' AND current_setting('server_version_num')::int >= 190000 AS logical,"
	" (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()) AS encoding,"
	" current_setting('max_logical_replication_workers')::int > 0 AS workers,"
	" (SELECT system_identifier FROM pg_control_system()) || ' ' || pg_postmaster_start_time() AS server,"
	" (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,"
	" (SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'dcounter') AS schema,"
	" EXISTS (SELECT FROM pg_available_extensions WHERE name = 'dcounter') AS available";

/* Functions beside those of the extension that a call could reach instead; $1: its schema */
static const char sql_false[] =
	"SELECT string_agg(p.oid::regprocedure::text, ', ' ORDER BY p.oid) FROM pg_proc AS p"
	" WHERE p.pronamespace = $1::regnamespace AND p.proname ~ '^dc_(region|replicate$|create$|stock_create$|flush$|compact$)'"
	" AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')";

/*
 * The epoch, and earlier ones since which nothing is missing (src/region/renew.c). Epochs begin
 * with their time.
 */
#define SQL_LOSSLESS \
	"SELECT s.epoch UNION SELECT r.epoch FROM dcounter.region AS r, dcounter.self_mark AS m" \
	" WHERE r.region = s.region AND r.epoch <= s.epoch AND m.epoch = s.epoch AND m.what = 'since' AND s.state = 'active'" \
	" AND r.epoch >> 10 >= extract(epoch FROM m.at) * 1000000"

/* Of a database with the extension; %s: its schema */
static const char sql_self[] =
	"SELECT s.region, s.epoch, s.state = 'recopy' AS renewed, (SELECT r.state FROM %s.dc_regions() AS r WHERE r.region = s.region) AS state,"
	" (SELECT array_agg(e.epoch) FROM (SELECT s.epoch UNION SELECT r.epoch FROM dcounter.region AS r WHERE r.region = s.region) AS e) AS epochs,"
	" (SELECT string_agg(format(' %%s ', e.epoch), '') FROM (" SQL_LOSSLESS ") AS e) AS lossless,"
	/* stocks of most owners: rows of an owner may keep their own stocks shut */
	" (SELECT count(DISTINCT t.relowner) FILTER (WHERE c.rights_epoch < 0) * 2 > count(DISTINCT t.relowner) FROM dcounter.counter AS c"
	" JOIN pg_class AS t ON t.oid = c.counter WHERE c.grants <> 0) AS shut FROM dcounter.self AS s";

static const char sql_regions[] =
	"SELECT r.region, r.epochs, r.state, date_trunc('milliseconds', r.lag) AS lag, r.link_state, r.apply_errors, to_jsonb(r) ->> 'advice' AS advice,"
	" (SELECT max(b.epoch) FROM dcounter.region AS b WHERE b.region = r.region) AS epoch FROM %s.dc_regions() AS r ORDER BY r.region";

/*
 * Links by their names, and whether they are for this epoch. src/region/join.c makes the names of
 * slots.
 */
static const char sql_links[] =
	"SELECT l.subname AS link, l.subenabled AS enabled, l.subslotname AS slot, 'dcounter_own' = ANY (l.subpublications) AS mesh, %s AS conninfo,"
	" coalesce(obj_description(l.oid, 'pg_subscription'), '') AS comment,"
	" EXISTS (SELECT FROM (" SQL_LOSSLESS ") AS e, unnest('{from,anew}'::text[]) AS h (how)"
	" WHERE l.subslotname = format('dc_%%s_%%s_%%s_%%s', left(s.region, 17), h.how, left(p.peer, 17), lpad(to_hex(hashtextextended(p.peer, e.epoch)), 16, '0'))) AS own_slot,"
	" (SELECT string_agg(srrelid::regclass::text, ' ' ORDER BY srrelid::regclass::text COLLATE \"C\") FROM pg_subscription_rel WHERE srsubid = l.oid) AS tables"
	" FROM dcounter.self AS s, pg_subscription AS l, substr(l.subname, length('dc_from_') + 1) AS p (peer)"
	" WHERE l.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND (l.subname ~ '^dc_(from|refresh)_')";

static const char sql_slots[] =
	"SELECT slot_name AS slot, active, coalesce(wal_status, 'lost') AS wal FROM pg_replication_slots WHERE database = current_database()";

static const char sql_counters[] =
	"SELECT c.counter::text AS counter, t.kind, pg_get_userbyid(r.relowner) AS owner, n.nspname AS schema, pg_get_userbyid(n.nspowner) AS schema_owner,"
	" (SELECT count(*) FROM pg_inherits WHERE inhparent = c.counter) AS partitions,"
	" t.settings->>'shard_by' AS shard_by, t.settings->>'max_shards' AS max_shards, t.settings->>'mode' AS mode, t.settings->>'flush_interval' AS flush_interval,"
	" t.settings->>'durability' AS durability, t.settings->>'op_retention' AS op_retention, t.settings->>'sample' AS sample, t.settings->>'trend' AS trend"
	" FROM dcounter.counter AS c JOIN pg_class AS r ON r.oid = c.counter JOIN pg_namespace AS n ON n.oid = r.relnamespace"
	" JOIN %s.dc_tables AS t ON t.counter = c.counter WHERE c.regions <> 0 OR c.grants <> 0 ORDER BY 1";

static const char sql_published[] =
	"SELECT string_agg(format('%I.%I', schemaname, tablename), ' ' ORDER BY format('%I.%I', schemaname, tablename) COLLATE \"C\")"
	" FROM pg_publication_tables WHERE pubname = 'dcounter_own'";

static void check_functions(Region *region);
static const char *ctlstate_lacks(const PGresult *server);
static const char *value_or_null(const PGresult *result, int row, const char *column);

/*
 * mesh_look reads the state of all regions that are reached.
 */
void
mesh_look(void)
{
	each_region(region)
	{
		if (region->why == NULL)
			region_look(region);
	}
}

/*
 * Read the region's state from its server. If the database lacks the extension, or is in no region,
 * the rest stays empty.
 */
void
region_look(Region *region)
{
	PGresult *server = ask(region, sql_server, 0, NULL);
	State *state = &region->state;
	PGresult *self;

	*state = (State){
		.schema = value_or_null(server, 0, "schema"),
		.server = field(server, 0, "server"),
		.encoding = field(server, 0, "encoding"),
		.lacks = ctlstate_lacks(server),
		.superuser = is_true(server, 0, "superuser"),
		.workers = is_true(server, 0, "workers")};
	if (state->schema == NULL)
		return;
	check_functions(region);
	self = ask(region, text(sql_self, state->schema), 0, NULL);
	state->counters = ask(region, text(sql_counters, state->schema), 0, NULL);
	if (PQntuples(self) == 0)
		return;
	state->name = field(self, 0, "region");
	state->epoch = field(self, 0, "epoch");
	state->epochs = field(self, 0, "epochs");
	state->lossless = field(self, 0, "lossless");
	state->state = field(self, 0, "state");
	state->renewed = is_true(self, 0, "renewed");
	state->shut = is_true(self, 0, "shut");
	state->regions = ask(region, text(sql_regions, state->schema), 0, NULL);
	state->links = ask(region, text(sql_links, state->superuser ? "l.subconninfo" : "NULL::text"), 0, NULL);
	state->slots = ask(region, sql_slots, 0, NULL);
	state->published = answer(region, sql_published, 0, NULL);
}

/*
 * check_functions ends the program if others have made functions that would be called, with its
 * rights, instead of dcounter's.
 */
static void
check_functions(Region *region)
{
	const char *const arguments[] = {region->state.schema};
	const char *others = answer(region, sql_false, 1, arguments);

	if (others != NULL)
		give_up(STATUS_ERROR, "%s has functions that do not belong to dcounter, but could be called instead of its functions: %s", region->name, others);
}

/*
 * ctlstate_lacks returns what keeps a database from being part of a region.
 */
static const char *
ctlstate_lacks(const PGresult *server)
{
	if (is_true(server, 0, "standby"))
		return "it is a standby";
	if (!is_true(server, 0, "available"))
		return "dcounter is not installed there";
	if (!is_true(server, 0, "logical"))
		return "its wal_level is not logical";
	return NULL;
}

/*
 * Return a column as a string, or NULL if it is NULL.
 */
static const char *
value_or_null(const PGresult *result, int row, const char *column)
{
	return PQgetisnull(result, row, PQfnumber(result, column)) ? NULL : field(result, row, column);
}

/*
 * is_member returns true for a region that is reached and is what the configuration calls it.
 */
bool
is_member(const Region *region)
{
	return region->why == NULL && region->state.name != NULL && strcmp(region->state.name, region->name) == 0 && !is_in(region, "retired");
}

/*
 * is_gone returns true for a region that is retired, according to itself or to another one.
 */
bool
is_gone(const Region *region)
{
	if (region->why == NULL)
		return is_in(region, "retired");
	each_region(other)
	{
		const char *state = is_member(other) ? region_knows(other, region->name, "state") : NULL;

		if (state != NULL)
			return strcmp(state, "retired") == 0;
	}
	return false;
}

/*
 * is_reached returns true for a region that is a member. If it should be, and is not, something is
 * left to do.
 */
bool
is_reached(const Region *region)
{
	if (region->why != NULL && !is_gone(region))
		left_to_do("%s cannot be reached: %s", region->name, region->why);
	return is_member(region);
}

/*
 * Return true if the region is in a state, such as "recopy".
 */
bool
is_in(const Region *region, const char *state)
{
	return region->state.state != NULL && strcmp(region->state.state, state) == 0;
}

/*
 * region_knows returns what a region knows of another one: a column of dc_regions(), or NULL.
 */
const char *
region_knows(const Region *region, const char *other, const char *column)
{
	const PGresult *regions = region->state.regions;

	for (int i = 0; i < PQntuples(regions); i++)
	{
		if (strcmp(field(regions, i, "region"), other) == 0)
			return value_or_null(regions, i, column);
	}
	return NULL;
}

/*
 * region_wanted returns the region of a name, if it is reached; otherwise it ends the program.
 */
Region *
region_wanted(const char *name)
{
	Region *region = mesh_find(name);

	if (region == NULL)
		give_up(STATUS_USAGE, "%s has no region \"%s\"", options.config, name);
	if (region->why != NULL)
		give_up(STATUS_ERROR, "%s cannot be reached: %s", name, region->why);
	if (region->state.name != NULL && strcmp(region->state.name, name) != 0)
		give_up(STATUS_USAGE, "the database that %s has for region \"%s\" belongs to region \"%s\"", options.config, name, region->state.name);
	return region;
}

/*
 * is_stock returns true for a counter that is a stock: its units are in one place each, so that
 * there is nothing to compare.
 */
bool
is_stock(const Region *region, int counter)
{
	return strcmp(field(region->state.counters, counter, "kind"), "stock") == 0;
}
