/*
 * ctlcheck.c
 *		dc_region check: do the values of each region add up, and do all have the same?
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * While users count, the counts of a region are ahead of their copies in the others. But amounts
 * only grow: so it is enough if all others reach, in time, as much as any had at the first look.
 * Amounts that do not change must be equal.
 */
#include "bin/dc_region/ctl.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_TIMEOUT 20000		 /* ms without any of the missing amounts */
#define CHECK_TIMEOUT_MAX 200000 /* with some amounts, but not the missing ones */

/* A region's copy of what some region has counted in a counter under an epoch, or has set */
typedef struct Part
{
	const char *counter;
	const char *what; /* the counter, region and epoch */
	const Region *at;
	double keys;
	double inc;
	double dec;
	const char *digest;
} Part;

typedef struct Parts
{
	Part *parts;
	int count; /* in the order of `what`, and of regions */
	int wrong; /* keys whose values do not add up */
} Parts;

/* Counters that could not be read in a region, and are not compared. */
static const char **failed;
static int nfailed;

static bool same_parts(const Parts *one, const Parts *other);
static bool ctlcheck_look(Parts *parts, bool tell);
static int compare_parts(const void *one, const void *other);
static bool has_failed(const char *counter);
static void ctlcheck_look_at(Parts *parts, Region *region, const char *counter, bool tell);
static bool all_equal(const Parts *now, const Parts *first, bool tell);
static bool is_behind(const Parts *now, const Parts *first, const Part *part, bool tell);
static const Part *find_part(const Parts *parts, const char *what, const Region *at);
static int ctlcheck_members(void);

/*
 * Run dc_region check. A database of the file that is reached, but is not a region, is something
 * left to do.
 */
void
command_check(void)
{
	each_region(region)
	{
		if (!is_reached(region) && region->why == NULL && !is_gone(region))
			left_to_do("%s is not a region", region->name);
	}
	mesh_check();
}

/*
 * mesh_check compares all regions that are reached; if they differ, the program ends.
 */
void
mesh_check(void)
{
	int64_t end = now_ms() + CHECK_TIMEOUT;
	int64_t last = now_ms() + CHECK_TIMEOUT_MAX; /* others may count all the time */
	Patience patience;
	Parts first;
	Parts now;
	Parts next;
	bool sound;
	bool equal;

	mesh_look();
	nfailed = 0;
	patience_begin(&patience);
	sound = ctlcheck_look(&first, true);
	now = first;
	while (!(equal = all_equal(&now, &first, false)) && now_ms() < end)
	{
		patience_next(&patience, "increments are still on their way to other regions");
		(void) ctlcheck_look(&next, false);
		if (!same_parts(&now, &next))
			end = last < now_ms() + CHECK_TIMEOUT ? last : now_ms() + CHECK_TIMEOUT;
		now = next;
	}
	if (!equal)
		(void) all_equal(&now, &first, true);
	if (!sound || !equal)
		give_up(STATUS_DIFFERENT, "%s", sound ? "regions differ: if no link is down, use dc_region refresh" : "values differ from what the regions have counted: use dc_region repair");
	note("%d regions have the same", ctlcheck_members());
}

/*
 * same_parts returns true if nothing has changed between two looks.
 */
static bool
same_parts(const Parts *one, const Parts *other)
{
	bool same = one->count == other->count;

	for (int i = 0; same && i < one->count; i++)
		same = strcmp(one->parts[i].what, other->parts[i].what) == 0 && strcmp(one->parts[i].digest, other->parts[i].digest) == 0;
	return same;
}

/*
 * Return how many regions are reached.
 */
static int
ctlcheck_members(void)
{
	int count = 0;

	each_region(region)
		count += is_member(region);
	return count;
}

/*
 * ctlcheck_look reads the parts of all regions; false if values do not add up somewhere.
 */
static bool
ctlcheck_look(Parts *parts, bool tell)
{
	*parts = (Parts){0};
	each_region(region)
	{
		for (int i = 0; is_member(region) && i < PQntuples(region->state.counters); i++)
		{
			if (!is_stock(region, i) && !has_failed(field(region->state.counters, i, "counter")))
				ctlcheck_look_at(parts, region, field(region->state.counters, i, "counter"), tell);
		}
	}
	if (parts->count > 0)
		qsort(parts->parts, (size_t) parts->count, sizeof(Part), compare_parts);
	return parts->wrong == 0;
}

/*
 * Compare two parts by what they count, and where, for qsort() and bsearch().
 */
static int
compare_parts(const void *one, const void *other)
{
	const Part *left = one;
	const Part *right = other;
	int order = strcmp(left->what, right->what);

	return order != 0 ? order : strcmp(left->at->name, right->at->name);
}

/*
 * Return true if dc_region_check() could not be called for the counter in some region.
 */
static bool
has_failed(const char *counter)
{
	for (int i = 0; i < nfailed; i++)
	{
		if (strcmp(failed[i], counter) == 0)
			return true;
	}
	return false;
}

/*
 * Add a region's amounts of a counter to the parts, and count values that do not add up; with
 * `tell`, print them. A counter for which the call fails is noted as failed.
 */
static void
ctlcheck_look_at(Parts *parts, Region *region, const char *counter, bool tell)
{
	PGresult *rows = ask_of_counter(region, text("SELECT region, epoch, keys, inc, dec, digest FROM %s.dc_region_check(%s)", region->state.schema, quoted(counter)), counter, 1);

	if (rows == NULL)
	{
		failed = realloc(failed, (size_t) (nfailed + 1) * sizeof(char *));
		if (failed == NULL)
			fail("out of memory");
		failed[nfailed++] = counter;
		return;
	}
	parts->parts = realloc(parts->parts, (size_t) (parts->count + PQntuples(rows)) * sizeof(Part));
	if (parts->parts == NULL)
		fail("out of memory");
	for (int i = 0; i < PQntuples(rows); i++)
	{
		const char *of = field(rows, i, "region");
		const char *epoch = field(rows, i, "epoch");

		if (*of != '\0')
		{
			parts->parts[parts->count++] = (Part){
				.counter = counter,
				.what = text("%s: %s %s%s", counter, of, *epoch == '\0' ? "has set" : "has counted under epoch ", epoch),
				.at = region,
				.keys = atof(field(rows, i, "keys")),
				.inc = atof(field(rows, i, "inc")),
				.dec = atof(field(rows, i, "dec")),
				.digest = field(rows, i, "digest")};
			continue;
		}
		if (strcmp(field(rows, i, "keys"), "0") == 0)
			continue;
		parts->wrong++;
		if (tell)
			note("%s: the values of %s keys of %s differ from what the regions have counted", region->name, field(rows, i, "keys"), counter);
	}
}

/*
 * all_equal compares each part with that of all others.
 */
static bool
all_equal(const Parts *now, const Parts *first, bool tell)
{
	bool equal = true;

	for (int i = 0; i < now->count; i++)
	{
		if (is_behind(now, first, &now->parts[i], tell))
			equal = false;
	}
	return equal;
}

/*
 * is_behind returns true if another region lacks some of a part. A part that has changed since the
 * first look is still being counted, so the other region only needs the amounts of the first look.
 */
static bool
is_behind(const Parts *now, const Parts *first, const Part *part, bool tell)
{
	const Part *before = find_part(first, part->what, part->at);
	bool changes = before == NULL || strcmp(before->digest, part->digest) != 0;
	bool behind = false;

	each_region(other)
	{
		const Part *theirs = find_part(now, part->what, other);
		bool enough;

		if (other == part->at || !is_member(other))
			continue;
		enough = theirs != NULL && strcmp(theirs->digest, part->digest) == 0;
		if (!enough && changes)
			enough = before == NULL || (theirs != NULL && theirs->keys >= before->keys && theirs->inc >= before->inc && theirs->dec >= before->dec);
		/* the other one may be ahead, as long as more comes */
		if (!enough && theirs != NULL && theirs->keys >= part->keys && theirs->inc >= part->inc && theirs->dec >= part->dec)
			enough = theirs->keys > part->keys || theirs->inc > part->inc || theirs->dec > part->dec;
		if (enough || lacks_counters(other, part->at, false) || has_failed(part->counter))
			continue;
		behind = true;
		if (tell)
			note("%s: %s does not have what %s has (%.0f keys, +%.0f, -%.0f there, %.0f keys, +%.0f, -%.0f here)", part->what, other->name, part->at->name,
				 part->keys, part->inc, part->dec, theirs != NULL ? theirs->keys : 0, theirs != NULL ? theirs->inc : 0, theirs != NULL ? theirs->dec : 0);
	}
	return behind;
}

/*
 * Return the part of this name in a region, or NULL. The parts are sorted.
 */
static const Part *
find_part(const Parts *parts, const char *what, const Region *at)
{
	const Part wanted = {.what = what, .at = at};

	return parts->count == 0 ? NULL : bsearch(&wanted, parts->parts, (size_t) parts->count, sizeof(Part), compare_parts);
}
