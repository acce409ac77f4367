/*
 * ctlretire.c
 *		dc_region retire: removes a region permanently; with --force, a lost one.
 *		dc_region forget: drops what is left of its links.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * After the loss of a region the others may know different states of it. So each of them first
 * disables its link from it, and refreshes from each other one, and only then drops the link: while
 * it exists, something is left to do.
 */
#include "bin/dc_region/ctl.h"

#include <string.h>

static void retire_alive(Region *region);
static void retire_lost(const char *name);
static Region *ctlretire_survivor(const char *name);
static bool all_know(const char *name);
static void wait_until_known(const char *name);
static void forget_lost(const char *name);
static bool ctlretire_is_wanted(const Region *region, const char *name);

/*
 * Run dc_region retire. Without --force, the region must be reached: it hands over what it has.
 */
void
command_retire(void)
{
	const char *name = options.names[0];

	if (options.force)
		retire_lost(name);
	else
		retire_alive(region_wanted(name));
}

/*
 * retire_alive waits until all others know the region's last counts, then its retirement, and then
 * drops its links.
 */
static void
retire_alive(Region *region)
{
	const char *schema = region->state.schema;
	Patience patience;

	if (region->state.name == NULL)
		give_up(STATUS_ERROR, "the database of %s is not a region", region->name);
	if (!is_in(region, "retired"))
	{
		const char *retire = text("SELECT %s.dc_region_retire(%s)", schema, quoted(region->name));
		PGresult *result;

		step(region, "SELECT %s.dc_flush()", schema);
		for (int i = 0; i < PQntuples(region->state.counters); i++)
		{
			const char *counter = field(region->state.counters, i, "counter");

			step_of_counter(region, text("SELECT %s.dc_compact(%s)", schema, quoted(counter)), counter);
		}
		if (options.dry_run)
			step(region, "%s", retire);
		patience_begin(&patience);
		while (!options.dry_run && PQresultStatus(result = run(region, retire, "55000")) != PGRES_TUPLES_OK)
		{
			const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);

			patience_next(&patience, "%s cannot retire yet: %s. %s", region->name,
						  PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY), detail != NULL ? detail : "");
		}
		if (!options.dry_run)
		{
			step_print(region, retire);
			step_done();
		}
	}
	wait_until_known(region->name);
	each_region(other)
	{
		if (ctlretire_is_wanted(other, region->name))
			link_drop(other, region->name, region);
	}
	each_region(other)
	{
		if (ctlretire_is_wanted(other, region->name))
			link_drop(region, other->name, other);
		else if (other != region && other->why != NULL && !is_gone(other))
			left_to_do("%s cannot be reached, and may not know that %s is retired: %s", other->name, region->name, other->why);
	}
}

/*
 * Retire a region that is lost. One that is still reached is refused, as it would go on counting.
 */
static void
retire_lost(const char *name)
{
	Region *first = ctlretire_survivor(name);
	Region *lost = mesh_find(name);
	const char *state;

	if (lost != NULL && lost->why == NULL && is_member(lost))
		give_up(STATUS_ERROR, "%s is running: stop its server first, or retire it without --force", name);
	state = region_knows(first, name, "state");
	if (state == NULL)
		give_up(STATUS_USAGE, "%s does not know a region \"%s\"", first->name, name);
	if (!all_know(name) && strcmp(state, "retired") != 0)
		step(first, "SELECT %s.dc_region_retire(%s, force => true)", first->state.schema, quoted(name));
	wait_until_known(name);
	forget_lost(name);
}

/*
 * Return the first region that is reached and has another name. Exits if there is none.
 */
static Region *
ctlretire_survivor(const char *name)
{
	each_region(region)
	{
		if (ctlretire_is_wanted(region, name))
			return region;
	}
	give_up(STATUS_ERROR, "no other region can be reached");
}

/*
 * Return true if the region is reached and has another name: one that has to learn of the
 * retirement.
 */
static bool
ctlretire_is_wanted(const Region *region, const char *name)
{
	return is_member(region) && strcmp(region->name, name) != 0;
}

/*
 * Return true if all regions that are reached, and know the name, know it as retired.
 */
static bool
all_know(const char *name)
{
	each_region(region)
	{
		const char *state = ctlretire_is_wanted(region, name) ? region_knows(region, name, "state") : NULL;

		if (state != NULL && strcmp(state, "retired") != 0)
			return false;
	}
	return true;
}

/*
 * Wait until all other regions that are reached know that the region is retired, and read all
 * states again. Exits when the time is up.
 */
static void
wait_until_known(const char *name)
{
	Patience patience;

	if (options.dry_run)
		return;
	patience_begin(&patience);
	each_region(region)
	{
		if (!ctlretire_is_wanted(region, name))
			continue;
		while (says(region, text("SELECT state FROM %s.dc_regions() WHERE region = '%s'", region->state.schema, name), 0, NULL, "active"))
			patience_next(&patience, "%s does not know yet that %s is retired", region->name, name);
	}
	mesh_look();
}

/*
 * forget_lost drops the links from a region that is retired and not reached, in all others.
 */
static void
forget_lost(const char *name)
{
	bool complete = true;

	each_region(region)
	{
		if (strcmp(region->name, name) == 0)
			continue;
		if (!is_reached(region))
		{
			complete = complete && is_gone(region);
			continue;
		}
		link_disable(region, name);
		slots_drop(region, name, NULL);
	}
	each_region(region)
	{
		if (!ctlretire_is_wanted(region, name) || !link_exists(region, name))
			continue;
		each_region(other)
		{
			if (other != region && ctlretire_is_wanted(other, name) && !lacks_counters(region, other, true))
				link_refresh(region, other);
		}
		if (complete)
			link_drop(region, name, NULL);
	}
	if (!options.dry_run)
		mesh_check();
}

/*
 * command_forget drops the links of a region that was retired in another way.
 */
void
command_forget(void)
{
	const char *name = options.names[0];
	Region *gone = mesh_find(name);

	if (gone != NULL && is_member(gone))
		give_up(STATUS_ERROR, "%s is one of the regions: dc_region retire %s", name, name);
	(void) ctlretire_survivor(name);
	if (!all_know(name))
		give_up(STATUS_ERROR, "not all regions know that %s is retired: dc_region retire %s --force", name, name);
	forget_lost(name);
}
