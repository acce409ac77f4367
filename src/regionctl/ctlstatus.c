/*
 * ctlstatus.c
 *		dc_region status: each region, what is wrong with it, and what to call.
 */
#include "regionctl/ctl.h"

#include <stdio.h>
#include <string.h>

static void show(const Region *region);
static void advise(Buffer *advice, const char *format, ...) PRINTF_LIKE(2, 3);
static void link_advice(const Region *at, const Region *from, Buffer *advice);
static bool has_slots(const Region *region, const char *other);
static void retired_advice(const Region *region, Buffer *advice);

void
command_status(void)
{
	each_region(region)
		show(region);
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
		note("nothing is left to do");
}

static void
show(const Region *region)
{
	Buffer links = {0};
	const char *shown;

	if (!is_member(region))
	{
		shown = is_gone(region) ? "retired" : "no region";
		note("%-12s %s", region->name, region->why != NULL && !is_gone(region) ? "not reached" : shown);
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

static void
advise(Buffer *advice, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	for (char *at = strchr(line, '\n'); at != NULL; at = strchr(at, '\n'))
		*at = ' ';
	buffer_add_string(advice, line);
	buffer_add_string(advice, "\n");
}

/*
 * region_advice adds lines on what is wrong with a region, and what to call; true if there is nothing.
 */
bool
region_advice(const Region *region, Buffer *advice)
{
	if (is_gone(region))
		return true;
	if (region->why != NULL)
		advise(advice, "%s is not reached: %s", region->name, region->why);
	else if (region->state.name == NULL)
		advise(advice, "%s is no region: dc_region add %s", region->name, region->name);
	else if (strcmp(region->state.name, region->name) != 0)
		advise(advice, "the database of %s is one of region %s: mend %s", region->name, region->state.name, options.config);
	else if (is_in(region, "renew"))
		advise(advice, "%s has to take a new epoch, as it is not where it was: dc_region restore %s", region->name, region->name);
	else if (is_in(region, "starting"))
		advise(advice, "%s waits until the others have heard of its start; if it was set back: dc_region restore %s", region->name, region->name);
	else if (is_in(region, "recopy"))
		advise(advice, "%s may lack what others have: dc_region restore %s", region->name, region->name);
	else if (region->state.shut)
		advise(advice, "stocks of %s are shut: dc_region restore %s gives up their units; if its server was only stopped: dc_region_renew(lossless => true)", region->name, region->name);
	if (is_member(region))
	{
		each_region(from)
		{
			if (from != region && is_member(from))
				link_advice(region, from, advice);
		}
		retired_advice(region, advice);
	}
	return advice->length == 0;
}

static void
link_advice(const Region *at, const Region *from, Buffer *advice)
{
	const char *why;
	const char *errors;
	const char *state;

	if (lacks_counters(at, from, false))
		advise(advice, "%s lacks counters that %s has: dc_region add %s", at->name, from->name, at->name);
	switch (link_condition(at, from, &why))
	{
		case LINK_NONE:
			advise(advice, "there is no link from %s to %s: dc_region join", from->name, at->name);
			return;
		case LINK_STALE:
			advise(advice, "the link from %s to %s: %s: dc_region restore %s", from->name, at->name, why,
				   is_in(at, "recopy") ? at->name : from->name);
			return;
		case LINK_CUT:
		case LINK_OUT_OF_DATE:
			advise(advice, "the link from %s to %s: %s: dc_region join", from->name, at->name, why);
			return;
		default:
			break;
	}
	state = region_knows(at, from->name, "link_state");
	errors = region_knows(at, from->name, "apply_errors");
	if (state != NULL && strcmp(state, "down") == 0)
		advise(advice, "the link from %s to %s is down, after %s errors: the log of %s says why", from->name, at->name, errors, at->name);
}

/*
 * has_slots returns true if a region keeps slots for links to another one.
 */
static bool
has_slots(const Region *region, const char *other)
{
	const char *prefix = text("dc_%.17s_from_", other);

	for (int i = 0; i < PQntuples(region->state.slots); i++)
	{
		if (strncmp(field(region->state.slots, i, "slot"), prefix, strlen(prefix)) == 0)
			return true;
	}
	return false;
}

/*
 * retired_advice is about what was kept for regions that are not there any more.
 */
static void
retired_advice(const Region *region, Buffer *advice)
{
	for (int i = 0; i < PQntuples(region->state.regions); i++)
	{
		const char *other = field(region->state.regions, i, "region");

		if (strcmp(field(region->state.regions, i, "state"), "retired") == 0 && (link_exists(region, other) || has_slots(region, other)))
			advise(advice, "%s has a link from %s, which is retired, or keeps a slot for it: dc_region forget %s", region->name, other, other);
		else if (strcmp(field(region->state.regions, i, "state"), "active") == 0 && mesh_find(other) == NULL)
			advise(advice, "%s knows of region %s, which %s does not have; if it is lost: dc_region retire %s --force", region->name, other, options.config, other);
	}
}
