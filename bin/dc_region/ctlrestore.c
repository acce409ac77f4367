/*
 * ctlrestore.c
 *		dc_region restore: a database that was restored, or the like, takes a new epoch; all its links are made again;
 *		and it gets its rows back from the others. Others that have missed rows of it are refreshed as well. dc_region
 *		refresh: only the last of these steps. dc_region repair: all repairs that need no decision of an operator.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Its link from a region that is not reached stays, disabled: as long as it exists, the database
 * remembers (by its state recopy) that it may lack rows.
 */
#include "bin/dc_region/ctl.h"

#include <string.h>

static void check_mesh(const Region *region);
static void ctlrestore_renew(Region *region);
static void renew_now(Region *region);
static void drop_stale(Region *region);
static bool ctlrestore_is_old(const Region *at, const Region *from);
static void make_links(Region *region);
static void wait_until_started(Region *region);
static void refresh_all(Region *region, bool again);
static void refresh_others(const Region *region);
static bool has_old_links(const Region *region);
static void repair_counter(Region *region, const char *counter);

/*
 * command_restore can be called again: the comments of links show which are new.
 */
void
command_restore(void)
{
	Region *region = region_wanted(options.names[0]);
	const char *epoch;
	bool opened = false;

	if (region->state.name == NULL || is_in(region, "retired"))
		give_up(STATUS_ERROR, "the database is no longer a region; to add it as a new one: dc_region add %s", region->name);
	check_mesh(region);
	ctlrestore_renew(region);
	do
	{
		epoch = region->state.epoch;
		drop_stale(region);
		if (!region->state.workers)
		{
			left_to_do("start the server of %s with its workers (max_logical_replication_workers is 0), and call this again", region->name);
			return;
		}
		make_links(region);
		wait_until_started(region);
		/*
		 * a start that the others have confirmed too late ends with a new epoch, and with stocks
		 * that are shut
		 */
		if (region->state.shut && !opened)
			renew_now(region);
		opened = true;
	} while (strcmp(region->state.epoch, epoch) != 0);
	refresh_all(region, false);
	if (is_in(region, "recopy"))
		refresh_all(region, true);
	refresh_others(region);
	if (!options.dry_run)
	{
		if (!is_in(region, "active"))
			left_to_do("the state of %s is %s", region->name, region->state.state);
		mesh_check();
	}
}

/*
 * check_mesh ends the program before anything is changed, if links of the region belong to another
 * topology.
 */
static void
check_mesh(const Region *region)
{
	const char *why;

	each_region(other)
	{
		if (other != region && is_member(other) &&
			(link_condition(region, other, &why) == LINK_FOREIGN || link_condition(other, region, &why) == LINK_FOREIGN))
			give_up(STATUS_ERROR, "the links between %s and %s do not belong to a mesh; dc_region cannot create them again", region->name, other->name);
	}
}

/*
 * ctlrestore_renew gives the database a new epoch, unless it has taken one by itself. In the state
 * renew it still has to. In the state starting it has yet to find out whether it has to, but it may
 * have renewed before its last start.
 */
static void
ctlrestore_renew(Region *region)
{
	bool must = is_in(region, "renew") || (is_in(region, "starting") && !region->state.renewed);

	if (must || options.renew)
		renew_now(region);
}

/*
 * renew_now also opens stocks that are shut: they lose their units, unless nothing was lost.
 */
static void
renew_now(Region *region)
{
	step(region, "SELECT %s.dc_region_renew(%s)", region->state.schema, options.lossless ? "lossless => true" : "");
	if (options.dry_run)
		region->state.epoch = "NEW"; /* so that no link has this epoch */
	else
		region_look(region);
}

/*
 * drop_stale drops the links of the region, and those of the others to it, that have another epoch.
 */
static void
drop_stale(Region *region)
{
	each_region(other)
	{
		if (other == region)
			continue;
		if (!is_reached(other))
		{
			link_disable(region, other->name);
			continue;
		}
		if (ctlrestore_is_old(region, other))
			link_drop(region, other->name, other);
	}
	each_region(other)
	{
		if (other != region && is_member(other) && ctlrestore_is_old(other, region))
			link_drop(other, region->name, region);
	}
}

/*
 * ctlrestore_is_old returns true for a link that has to be made again. One that was made by hand
 * may have any epoch.
 */
static bool
ctlrestore_is_old(const Region *at, const Region *from)
{
	const char *why;

	return !link_is_known(at, from) || link_condition(at, from, &why) == LINK_CUT;
}

/*
 * make_links makes the links of a region, and those of the others to it. The latter copy at the
 * same time, as each is in a database of its own.
 */
static void
make_links(Region *region)
{
	const char *why;

	each_region(other)
	{
		if (other == region || !is_member(other) || lacks_counters(region, other, true))
			continue;
		if (link_condition(region, other, &why) != LINK_CURRENT)
			link_make(region, other);
		link_wait(region, other);
	}
	each_region(other)
	{
		if (other == region || !is_member(other) || lacks_counters(other, region, true))
			continue;
		if (link_condition(other, region, &why) != LINK_CURRENT)
			link_make(other, region);
	}
	each_region(other)
	{
		if (other != region && is_member(other) && !lacks_counters(other, region, false))
			link_wait(other, region);
	}
}

/*
 * wait_until_started waits until the others have confirmed the start.
 */
static void
wait_until_started(Region *region)
{
	Patience patience;

	if (options.dry_run)
		return;
	patience_begin(&patience);
	while (!says(region, text("SELECT state IN ('starting', 'renew') FROM %s.dc_regions() WHERE region = '%s'", region->state.schema, region->name), 0, NULL, "f"))
		patience_next(&patience, "%s waits until the other regions have acknowledged its start", region->name);
	region_look(region);
}

/*
 * refresh_all copies all that the others know to a region. Without `again`, it skips those from
 * which that was done since its links were made.
 */
static void
refresh_all(Region *region, bool again)
{
	each_region(other)
	{
		if (other != region && is_member(other) && !lacks_counters(region, other, false) && (again || !link_is_refreshed(region, other)))
			link_refresh(region, other);
	}
}

/*
 * refresh_others refreshes the others that miss something: over the old links, some rows of the
 * region may have been lost. A region that was restored itself, and has old links, needs a call of
 * its own.
 */
static void
refresh_others(const Region *region)
{
	each_region(other)
	{
		if (other == region || !is_member(other))
			continue;
		if (!options.dry_run)
			region_look(other);
		if (is_in(other, "recopy") && !has_old_links(other))
			refresh_all(other, true);
	}
}

/*
 * Return true if a link from or to the region was made for an epoch other than the present ones.
 */
static bool
has_old_links(const Region *region)
{
	each_region(other)
	{
		if (other != region && is_member(other) && (ctlrestore_is_old(region, other) || ctlrestore_is_old(other, region)))
			return true;
	}
	return false;
}

/*
 * command_refresh refreshes the named regions, or all.
 */
void
command_refresh(void)
{
	for (int i = 0; i < options.count; i++)
		(void) region_wanted(options.names[i]);
	each_region(region)
	{
		bool wanted = options.count == 0;

		for (int i = 0; i < options.count; i++)
			wanted = wanted || strcmp(options.names[i], region->name) == 0;
		if (is_reached(region) && wanted)
			refresh_all(region, true);
	}
}

/*
 * command_repair sets values to what the regions have counted, repairs links, and refreshes regions
 * that lack something. A database that has to take a new epoch, and links from one that has, are
 * left to dc_region restore.
 */
void
command_repair(void)
{
	each_region(region)
	{
		for (int i = 0; is_member(region) && i < PQntuples(region->state.counters); i++)
		{
			if (!is_stock(region, i))
				repair_counter(region, field(region->state.counters, i, "counter"));
		}
	}
	command_join();
	each_region(region)
	{
		if (!is_member(region) || !is_in(region, "recopy"))
			continue;
		each_region(other)
		{
			if (other != region && is_member(other) && !lacks_counters(region, other, false))
				link_refresh(region, other);
		}
	}
	if (!options.dry_run)
		mesh_check();
}

/*
 * Repair the values of a counter that do not add up in the region, if there are any.
 */
static void
repair_counter(Region *region, const char *counter)
{
	PGresult *wrong = ask_of_counter(region, text("SELECT keys FROM %s.dc_region_check(%s) WHERE region IS NULL AND keys > 0", region->state.schema, quoted(counter)), counter, 1);
	const char *sql = text("SELECT %s.dc_region_repair(%s)", region->state.schema, quoted(counter));

	if (wrong == NULL || PQntuples(wrong) == 0)
		return;
	step_of_counter(region, sql, counter);
}
