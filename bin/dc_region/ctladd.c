/*
 * ctladd.c
 *		dc_region add: from an empty database to one that is linked with all others.
 *		dc_region join: the links between existing regions.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "bin/dc_region/ctl.h"

#include <stdlib.h>
#include <string.h>

static void make_region(Region *region);
static void copy_past(Region *region);
static bool takes_part(const Region *region);
static void join_all(void);
static Region *first_member(const Region *but);
static void check_fitness(const Region *region);
static void make_extension(Region *region, const Region *model);
static void make_role(Region *region);
static void make_counters(Region *region, const Region *model);
static void make_counter(Region *region, const PGresult *counters, int row);
static const char *other_role(Region *region, const char *name);
static const char *counter_settings(const PGresult *counters, int row);
static bool knows_past(const Region *region, const char *name);
static void join_pair(Region *at, Region *from);
static bool is_named(const Region *region);

/*
 * command_add can be called again: it does the steps that are left.
 */
void
command_add(void)
{
	for (int i = 0; i < options.count; i++)
		make_region(region_wanted(options.names[i]));
	for (int i = 0; i < options.count; i++)
	{
		each_region(other)
		{
			if (other != mesh_find(options.names[i]) && is_member(other))
				make_counters(mesh_find(options.names[i]), other);
		}
	}
	each_region(region)
	{
		if (!is_reached(region) && region->why == NULL && !is_gone(region) && !takes_part(region))
			note("%s is not a region yet, and gets no links", region->name);
	}
	join_all();
	for (int i = 0; i < options.count; i++)
		copy_past(mesh_find(options.names[i]));
	if (!options.dry_run)
		mesh_check();
}

/*
 * make_region makes a database part of a region, with its extension, and the role of its links.
 */
static void
make_region(Region *region)
{
	if (is_in(region, "retired"))
		give_up(STATUS_ERROR, "region \"%s\" was retired; a new database can be added under its name", region->name);
	check_fitness(region);
	if (region->state.schema == NULL)
		make_extension(region, first_member(region));
	make_role(region);
	if (region->state.name == NULL)
		step(region, "SELECT %s.dc_region_init(%s)", region->state.schema, quoted(region->name));
	if (!options.dry_run)
		region_look(region);
}

/*
 * copy_past copies rows that the others do not send: counts of retired regions, and earlier ones of
 * this region.
 */
static void
copy_past(Region *region)
{
	Region *model = first_member(region);

	if (model != NULL && knows_past(model, region->name) && !link_is_refreshed(region, model) && (options.dry_run || link_is_known(region, model)))
		link_refresh(region, model);
}

/*
 * takes_part returns true for a region that has links, or would have them after a dry run.
 */
static bool
takes_part(const Region *region)
{
	return is_member(region) || (options.dry_run && strcmp(options.command, "add") == 0 && is_named(region));
}

/*
 * join_all makes or repairs the links from and to the named regions, or all.
 */
static void
join_all(void)
{
	each_region(at)
	{
		each_region(from)
		{
			if (at != from && takes_part(at) && takes_part(from) && (is_named(at) || is_named(from)))
				join_pair(at, from);
		}
	}
}

/*
 * Return the first region of the file that is reached and is a region, other than `but`; NULL if
 * there is none.
 */
static Region *
first_member(const Region *but)
{
	each_region(region)
	{
		if (region != but && is_member(region))
			return region;
	}
	return NULL;
}

/*
 * check_fitness ends the program if a database cannot be part of a region.
 */
static void
check_fitness(const Region *region)
{
	if (region->state.lacks != NULL)
		give_up(STATUS_ERROR, "%s cannot become a region: %s", region->name, region->state.lacks);
	each_region(other)
	{
		if (is_member(other) && strcmp(other->state.encoding, region->state.encoding) != 0)
			give_up(STATUS_ERROR, "%s has the encoding %s, but %s has %s", region->name, region->state.encoding, other->name, other->state.encoding);
	}
}

/*
 * Create the extension in the schema that it has in another region, as functions must have the same
 * names everywhere.
 */
static void
make_extension(Region *region, const Region *model)
{
	const char *schema = model != NULL ? model->state.schema : "public";

	if (strcmp(schema, "public") != 0)
		step(region, "CREATE SCHEMA IF NOT EXISTS %s", schema);
	step(region, "CREATE EXTENSION dcounter SCHEMA %s", schema);
	region->state.schema = schema;
}

/*
 * make_role creates the role as which the other regions connect, unless it exists. It cannot log in
 * with a password, as it has none.
 */
static void
make_role(Region *region)
{
	PQconninfoOption *settings = PQconninfoParse(region->link, NULL);

	for (PQconninfoOption *setting = settings; setting != NULL && setting->keyword != NULL; setting++)
	{
		const char *const arguments[] = {setting->val};
		const char *role;

		if (strcmp(setting->keyword, "user") != 0 || setting->val == NULL)
			continue;
		role = answer(region, "SELECT quote_ident($1::text) WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", 1, arguments);
		if (role == NULL)
			continue;
		step(region, "CREATE ROLE %s LOGIN REPLICATION", role);
		step(region, "GRANT pg_read_all_data TO %s", role);
	}
	PQconninfoFree(settings);
}

/*
 * make_counters creates the counters that another region has.
 */
static void
make_counters(Region *region, const Region *model)
{
	const PGresult *counters = model->state.counters;

	for (int i = 0; i < PQntuples(counters); i++)
	{
		const char *counter = field(counters, i, "counter");
		bool found = false;

		for (int j = 0; j < PQntuples(region->state.counters); j++)
			found = found || strcmp(field(region->state.counters, j, "counter"), counter) == 0;
		if (found)
			continue;
		make_counter(region, counters, i);
		step(region, "SELECT %s.dc_replicate(%s)", region->state.schema, quoted(counter));
	}
	if (!options.dry_run)
		region_look(region);
}

/*
 * make_counter creates a counter, with its owner, unless it exists. An existing one may have
 * amounts: then dc_replicate() refuses it, and the operator has to say whose these are.
 */
static void
make_counter(Region *region, const PGresult *counters, int row)
{
	const char *counter = field(counters, row, "counter");
	const char *const arguments[] = {counter};
	const char *const schema[] = {field(counters, row, "schema")};
	const char *name;
	const char *owner;

	if (answer(region, "SELECT to_regclass($1::text)", 1, arguments) != NULL)
		return;
	name = answer(region, "SELECT quote_ident($1::text) WHERE to_regnamespace(quote_ident($1)) IS NULL", 1, schema);
	owner = other_role(region, field(counters, row, "schema_owner"));
	if (name != NULL)
		step(region, "CREATE SCHEMA IF NOT EXISTS %s%s%s", name, owner != NULL ? " AUTHORIZATION " : "", owner != NULL ? owner : "");
	if (strcmp(field(counters, row, "kind"), "stock") == 0)
		step(region, "SELECT %s.dc_stock_create(%s, max_shards => %s)", region->state.schema, quoted(counter), field(counters, row, "max_shards"));
	else
		step(region, "SELECT %s.dc_create(%s%s)", region->state.schema, quoted(counter), counter_settings(counters, row));
	owner = other_role(region, field(counters, row, "owner"));
	if (owner != NULL)
		step(region, "ALTER TABLE %s OWNER TO %s", counter, owner);
}

/*
 * other_role returns a role, quoted for SQL, if it exists and is not a superuser, as this program
 * is one.
 */
static const char *
other_role(Region *region, const char *name)
{
	const char *const arguments[] = {name};

	return answer(region, "SELECT quote_ident(rolname) FROM pg_roles WHERE rolname = $1 AND NOT rolsuper", 1, arguments);
}

/*
 * Return the arguments of dc_create() for those settings of a counter that are not the default.
 */
static const char *
counter_settings(const PGresult *counters, int row)
{
	static const struct
	{
		const char *name;
		const char *usual; /* that of dc_create() */
	} settings[] = {	   /* totals are compacted in any case */
					{"shard_by", "backend"},
					{"max_shards", "64"},
					{"mode", "exact"},
					{"flush_interval", "00:00:01"},
					{"durability", "async"},
					{"op_retention", "7 days"},
					{"sample", "1"},
					{"trend", ""}};
	Buffer result = {0};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
	{
		const char *value = field(counters, row, settings[i].name);

		if (strcmp(value, settings[i].usual) != 0)
			buffer_add_string(&result, text(", %s => %s", settings[i].name, *value == '\0' ? "NULL" : quoted(value)));
	}
	if (strcmp(field(counters, row, "partitions"), "0") != 0)
		buffer_add_string(&result, text(", partitions => %s", field(counters, row, "partitions")));
	buffer_add(&result, "", 1);
	return result.data;
}

/*
 * Return true if the region knows of a past that a new one has missed: a retired region, or an
 * earlier epoch of the new one's name.
 */
static bool
knows_past(const Region *region, const char *name)
{
	for (int i = 0; i < PQntuples(region->state.regions); i++)
	{
		bool same = strcmp(field(region->state.regions, i, "region"), name) == 0;

		if (strcmp(field(region->state.regions, i, "state"), "retired") == 0 || (same && atoi(field(region->state.regions, i, "epochs")) > 1))
			return true;
	}
	return false;
}

/*
 * join_pair makes or repairs the link by which the rows of one region come to another one, and
 * waits for the copy. A link from an earlier epoch of a database is left to dc_region restore.
 */
static void
join_pair(Region *at, Region *from)
{
	const char *why;

	if (!options.dry_run && lacks_counters(at, from, true))
		return;
	switch (link_condition(at, from, &why))
	{
		case LINK_CURRENT:
			break;
		case LINK_FOREIGN:
			left_to_do("the link from %s to %s does not belong to a mesh; dc_region leaves it alone", from->name, at->name);
			return;
		case LINK_STALE:
		case LINK_CUT:
			note("the link from %s to %s is created again: %s", from->name, at->name, why);
			link_drop(at, from->name, from);
			link_make(at, from);
			break;
		default:
			note("the link from %s to %s: %s", from->name, at->name, why);
			link_make(at, from);
	}
	link_wait(at, from);
}

/*
 * command_join makes the links between the named regions, or all, and all others.
 */
void
command_join(void)
{
	for (int i = 0; i < options.count; i++)
		(void) region_wanted(options.names[i]);
	each_region(at)
	{
		if (!is_reached(at) && at->why == NULL && !is_gone(at))
			left_to_do("%s is not a region yet: dc_region add %s", at->name, at->name);
	}
	join_all();
}

/*
 * Return true if the region is among the command's arguments, or there are none, which stands for
 * all.
 */
static bool
is_named(const Region *region)
{
	for (int i = 0; i < options.count; i++)
	{
		if (strcmp(options.names[i], region->name) == 0)
			return true;
	}
	return options.count == 0;
}
