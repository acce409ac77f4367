/*
 * ctlstatus.c
 *		dc_region status: each region, what is wrong with it, and which command helps.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "bin/dc_region/ctl.h"

#include <stdio.h>
#include <string.h>

static void ctlstatus_show(const Region *region);
static void ctlstatus_advise(Buffer *advice, const char *format, ...) PRINTF_LIKE(2, 3);
static void advise_of(const Region *region, const char *other, Buffer *advice);
static bool link_advice(const Region *at, const Region *from, Buffer *advice);

/*
 * Run dc_region status: print all regions, and what is left to do in each.
 */
void
command_status(void)
{
	each_region(region)
		ctlstatus_show(region);
	each_region(region)
	{
		Buffer advice = {0};

		if (region_advice(region, &advice))
			continue;
		buffer_add(&advice, "", 1);
		for (char *line = strtok(advice.data, "\n"); line != NULL; line = strtok(NULL, "\n"))
			left_to_do("%s", line);
	}
	if (!anything_left())
		note("nothing left to do");
}

/*
 * Print a region's line: its state, epochs and counters, and its links from others.
 */
static void
ctlstatus_show(const Region *region)
{
	Buffer links = {0};
	const char *shown;

	if (!is_member(region))
	{
		shown = is_gone(region) ? "retired" : "not a region";
		note("%-12s %s", region->name, region->why != NULL && !is_gone(region) ? "unreachable" : shown);
		return;
	}
	for (int i = 0; i < PQntuples(region->state.regions); i++)
	{
		const char *other = field(region->state.regions, i, "region");
		const char *state = field(region->state.regions, i, "link_state");

		if (strcmp(other, region->name) != 0 && *state != '\0')
			buffer_add_string(&links, text("%s%s %s, lag %s, %s errors", links.length > 0 ? "; " : "from ", other, state, field(region->state.regions, i, "lag"), field(region->state.regions, i, "apply_errors")));
	}
	buffer_add(&links, "", 1);
	shown = region_knows(region, region->name, "epochs");
	note("%-12s %s, epochs: %s, counters: %d%s%s", region->name, region->state.state, shown != NULL ? shown : "1", PQntuples(region->state.counters),
		 links.length > 1 ? ", " : "", links.data);
}

/*
 * Add a line to the advice. Messages of servers may have several lines, which become one.
 */
static void
ctlstatus_advise(Buffer *advice, const char *format, ...)
{
	va_list args;
	char *line;

	va_start(args, format);
	line = text_args(format, args);
	va_end(args);
	for (char *at = strchr(line, '\n'); at != NULL; at = strchr(at, '\n'))
		*at = ' ';
	buffer_add_string(advice, line);
	buffer_add_string(advice, "\n");
}

/*
 * region_advice adds lines on what is wrong with a region, and which command helps; true if there
 * are none. A region reports problems that it sees itself; the ones added here are seen only by
 * comparing databases.
 */
bool
region_advice(const Region *region, Buffer *advice)
{
	if (is_gone(region))
		return true;
	if (region->why != NULL)
		ctlstatus_advise(advice, "%s cannot be reached: %s", region->name, region->why);
	else if (region->state.name == NULL)
		ctlstatus_advise(advice, "%s is not a region: dc_region add %s", region->name, region->name);
	else if (strcmp(region->state.name, region->name) != 0)
		ctlstatus_advise(advice, "the database of %s belongs to region %s: correct %s", region->name, region->state.name, options.config);
	else
	{
		for (int i = 0; i < PQntuples(region->state.regions); i++)
			advise_of(region, field(region->state.regions, i, "region"), advice);
		if (region->state.shut && is_in(region, "active"))
			ctlstatus_advise(advice, "stocks of %s are shut: dc_region restore %s gives up their units; if its server was only stopped: dc_region_renew(lossless => true)", region->name, region->name);
		each_region(from)
		{
			if (from != region && is_member(from) && region_knows(region, from->name, "state") == NULL)
				link_advice(region, from, advice); /* not known yet */
		}
	}
	return advice->length == 0;
}

/*
 * advise_of adds advice about a region that another one, or itself, reports.
 */
static void
advise_of(const Region *region, const char *other, Buffer *advice)
{
	const Region *from = mesh_find(other);
	const char *said = region_knows(region, other, "advice");

	if (from != NULL && from != region && is_member(from) && link_advice(region, from, advice))
		return;
	if (said != NULL)
		ctlstatus_advise(advice, "%s", said);
	else if (from == NULL && strcmp(region_knows(region, other, "state"), "active") == 0)
		ctlstatus_advise(advice, "%s knows of region %s, which %s does not have; if it is lost: dc_region retire %s --force", region->name, other, options.config, other);
}

/*
 * link_advice adds problems that are seen by comparing both ends of a link; true if it has said all
 * about the link.
 */
static bool
link_advice(const Region *at, const Region *from, Buffer *advice)
{
	const char *said = region_knows(at, from->name, "advice");
	const char *why;

	if (lacks_counters(at, from, false))
		ctlstatus_advise(advice, "%s lacks counters that %s has: dc_region add %s", at->name, from->name, at->name);
	switch (link_condition(at, from, &why))
	{
		case LINK_STALE:
			ctlstatus_advise(advice, "the link from %s to %s: %s: dc_region restore %s", from->name, at->name, why,
							 is_in(at, "recopy") ? at->name : from->name);
			return true;
		case LINK_CUT:
			ctlstatus_advise(advice, "the link from %s to %s: %s: dc_region join", from->name, at->name, why);
			return true;
		case LINK_NONE:
		case LINK_OUT_OF_DATE:
			if (said == NULL)
				ctlstatus_advise(advice, "the link from %s to %s: %s: dc_region join", from->name, at->name, why);
			return said == NULL;
		default:
			return false;
	}
}
