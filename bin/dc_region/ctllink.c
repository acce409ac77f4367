/*
 * ctllink.c
 *		Links between two regions: what is wrong with one, making and dropping it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The statements that make a link come from dc_region_join() and dc_region_refresh(). It is dropped
 * here without its slot, which may be gone, out of reach, or that of another database with the same
 * past. The slot is dropped afterwards, by its name, if nobody uses it.
 */
#include "bin/dc_region/ctl.h"

#include <stdio.h>
#include <string.h>

#define COMMENT "dc_region: "
#define REFRESHED " refreshed"
#define SLOT_TIMEOUT 30000 /* ms until a slot that was in use is free */

/*
 * Slots in the server of a region for another one: for any of its epochs, except for those in use.
 * One may be of another database, if the conninfo named that before. src/region/join.c makes the
 * names.
 */
static const char sql_slots_of[] =
	"SELECT s.slot_name, s.active FROM pg_replication_slots AS s WHERE NOT s.slot_name::text = ANY ($4::text[])"
	" AND s.slot_name IN (SELECT format('dc_%s_%s_%s_%s', left($1, 17), h.how, left($2, 17), lpad(to_hex(hashtextextended($2, e.epoch)), 16, '0'))"
	" FROM unnest('{from,anew,refresh}'::text[]) AS h (how),"
	" (SELECT epoch FROM dcounter.region WHERE region = $1 UNION SELECT unnest($3::int8[])) AS e (epoch)) ORDER BY 1";

static Buffer dropped; /* in a dry run: " REGION/LINK " of each */
static Buffer foreign; /* " SLOT " of each that was found to be another database's */

static int link_row(const Region *at, const char *link);
static const char *comment_of(const Region *at, const Region *from);
static bool is_of_epochs(const char *comment, const Region *at, const Region *from);
static const char *slot_problem(const Region *from, const char *slot);
static void drop_one(Region *at, const char *link);
static void ctllink_list(Buffer *listed, const char *mark);
static bool ctllink_is_listed(const Buffer *listed, const char *mark);
static const char *slots_in_use(const Region *region);
static void slot_drop(Region *at, const char *slot, const char *of);
static void set_comment(Region *at, const Region *from, bool refreshed);

/*
 * Return the row of a link in the region's state, or -1 if there is none. With --dry-run, one that
 * would have been dropped does not count.
 */
static int
link_row(const Region *at, const char *link)
{
	char *mark = text(" %s/%s ", at->name, link);

	if (ctllink_is_listed(&dropped, mark))
		return -1;
	for (int i = 0; i < PQntuples(at->state.links); i++)
	{
		if (strcmp(field(at->state.links, i, "link"), link) == 0)
			return i;
	}
	return -1;
}

/*
 * Return true if the region has a link, or one that refreshes, from the region of this name.
 */
bool
link_exists(const Region *at, const char *from)
{
	return link_row(at, text("dc_from_%s", from)) >= 0 || link_row(at, text("dc_refresh_%s", from)) >= 0;
}

/*
 * comment_of returns the beginning of the comment of a link between two databases, for their
 * present epochs.
 */
static const char *
comment_of(const Region *at, const Region *from)
{
	return text(COMMENT "%s %s", at->state.epoch, from->state.epoch != NULL ? from->state.epoch : "");
}

/*
 * link_is_known returns true for a link that was made by this program for the present epochs of
 * both databases. That is not known of a region that is not reached.
 */
bool
link_is_known(const Region *at, const Region *from)
{
	int row = link_row(at, text("dc_from_%s", from->name));

	return row >= 0 && is_of_epochs(field(at->state.links, row, "comment"), at, from);
}

/*
 * is_of_epochs returns true if a comment has epochs since which neither database has lost anything.
 */
static bool
is_of_epochs(const char *comment, const Region *at, const Region *from)
{
	char epochs[2][24];

	if (sscanf(comment, COMMENT "%23s %23s", epochs[0], epochs[1]) != 2 || at->state.lossless == NULL)
		return false;
	return strstr(at->state.lossless, text(" %s ", epochs[0])) != NULL &&
		(from->state.lossless == NULL || strstr(from->state.lossless, text(" %s ", epochs[1])) != NULL);
}

/*
 * Return true if the link is of the present epochs, and all that the other region knew has been
 * copied since it was made.
 */
bool
link_is_refreshed(const Region *at, const Region *from)
{
	int row = link_row(at, text("dc_from_%s", from->name));
	const char *comment = row >= 0 ? field(at->state.links, row, "comment") : "";
	size_t length = strlen(comment);

	return length > strlen(REFRESHED) && strcmp(comment + length - strlen(REFRESHED), REFRESHED) == 0 && is_of_epochs(comment, at, from);
}

/*
 * link_condition returns what has to be done about a link, and why.
 */
LinkCondition
link_condition(const Region *at, const Region *from, const char **why)
{
	const PGresult *links = at->state.links;
	int row = link_row(at, text("dc_from_%s", from->name));
	const char *slot;

	*why = "there is none";
	if (row < 0)
		return LINK_NONE;
	*why = "it does not belong to a mesh";
	if (!is_true(links, row, "mesh"))
		return LINK_FOREIGN;
	slot = field(links, row, "slot");
	*why = "it was created for another epoch of one of them";
	if (strncmp(field(links, row, "comment"), COMMENT, strlen(COMMENT)) == 0 ? !link_is_known(at, from) : *slot != '\0' && !is_true(links, row, "own_slot"))
		return LINK_STALE;
	*why = *slot == '\0' ? "it has no slot" : slot_problem(from, slot);
	if (*why != NULL)
		return LINK_CUT;
	*why = "it is disabled";
	if (!is_true(links, row, "enabled"))
		return LINK_OUT_OF_DATE;
	*why = "its tables differ from those of the other region";
	if (from->state.published != NULL && strcmp(field(links, row, "tables"), from->state.published) != 0)
		return LINK_OUT_OF_DATE;
	*why = "its conninfo differs from the configuration";
	if (at->state.superuser && strcmp(field(links, row, "conninfo"), from->link) != 0)
		return LINK_OUT_OF_DATE;
	*why = NULL;
	return LINK_CURRENT;
}

/*
 * Return what is wrong with the slot of a link, or NULL; also NULL if its region is not reached, as
 * that is not known then.
 */
static const char *
slot_problem(const Region *from, const char *slot)
{
	if (from->why != NULL)
		return NULL;
	for (int i = 0; i < PQntuples(from->state.slots); i++)
	{
		if (strcmp(field(from->state.slots, i, "slot"), slot) == 0)
			return strcmp(field(from->state.slots, i, "wal"), "lost") == 0 ? "its slot was too far behind and is lost" : NULL;
	}
	return "its slot does not exist";
}

/*
 * link_disable stops a link without dropping it.
 */
void
link_disable(Region *at, const char *from)
{
	const char *link = text("dc_from_%s", from);
	int row = link_row(at, link);

	if (row < 0 || !is_true(at->state.links, row, "enabled"))
		return;
	step(at, "ALTER SUBSCRIPTION %s DISABLE", link);
	if (!options.dry_run)
		region_look(at);
}

/*
 * link_drop drops the links from a region, and their slots there if the region is reached.
 */
void
link_drop(Region *at, const char *from_name, Region *from)
{
	drop_one(at, text("dc_from_%s", from_name));
	drop_one(at, text("dc_refresh_%s", from_name));
	if (from != NULL && from->why == NULL && from->state.name != NULL)
		slots_drop(from, at->name, at);
}

/*
 * Drop a link if it is there, without its slot. The region's state is read again afterwards.
 */
static void
drop_one(Region *at, const char *link)
{
	int row = link_row(at, link);

	if (row < 0)
		return;
	if (is_true(at->state.links, row, "enabled"))
		step(at, "ALTER SUBSCRIPTION %s DISABLE", link);
	if (*field(at->state.links, row, "slot") != '\0')
		step(at, "ALTER SUBSCRIPTION %s SET (slot_name = NONE)", link);
	step(at, "DROP SUBSCRIPTION %s", link);
	if (!options.dry_run)
	{
		region_look(at);
		return;
	}
	ctllink_list(&dropped, text(" %s/%s ", at->name, link));
}

/*
 * Add a mark to a list, which is a string.
 */
static void
ctllink_list(Buffer *listed, const char *mark)
{
	if (listed->length > 0)
		listed->length--; /* the end of the string */
	buffer_add(listed, mark, strlen(mark) + 1);
}

/*
 * Return true if the list has the mark. Marks begin and end with a space, so none is found within
 * another.
 */
static bool
ctllink_is_listed(const Buffer *listed, const char *mark)
{
	return listed->length > 0 && strstr(listed->data, mark) != NULL;
}

/*
 * slots_drop drops the slots that a region has for another one, which may be out of reach, except
 * for those of its links.
 */
void
slots_drop(Region *at, const char *of, const Region *region)
{
	bool known = region != NULL && region->why == NULL && region->state.name != NULL;
	const char *const arguments[] = {of, at->name, known ? region->state.epochs : "{}", known ? slots_in_use(region) : "{}"};
	PGresult *slots = ask(at, sql_slots_of, 4, arguments);

	for (int i = 0; i < PQntuples(slots); i++)
		slot_drop(at, PQgetvalue(slots, i, 0), of);
	if (PQntuples(slots) > 0 && !options.dry_run)
		region_look(at);
}

/*
 * Return the array, as text, of the slots that the region's links use.
 */
static const char *
slots_in_use(const Region *region)
{
	Buffer array = {0};

	for (int i = 0; i < PQntuples(region->state.links); i++)
	{
		if (link_row(region, field(region->state.links, i, "link")) < 0)
			continue;
		buffer_add_string(&array, array.length > 0 ? "," : "{");
		buffer_add_string(&array, text("\"%s\"", field(region->state.links, i, "slot")));
	}
	if (array.length == 0)
		return "{}";
	buffer_add(&array, "}", 2);
	return array.data;
}

/*
 * slot_drop drops a slot as soon as nobody uses it. A slot that stays in use belongs to another
 * database, of which this one is a copy.
 */
static void
slot_drop(Region *at, const char *slot, const char *of)
{
	const char *const arguments[] = {slot};
	int64_t end = now_ms() + SLOT_TIMEOUT;
	static const char sql[] = "SELECT CASE WHEN active THEN 'used' ELSE 'free' END FROM pg_replication_slots WHERE slot_name = $1";

	if (ctllink_is_listed(&foreign, text(" %s ", slot)))
		return;
	while (!options.dry_run && says(at, sql, 1, arguments, "used") && !stopping && now_ms() < end)
		wait_for(-1, 0, now_ms() + 100);
	if (!options.dry_run && says(at, sql, 1, arguments, "used"))
	{
		left_to_do("slot %s of %s is used by a database that is not the one that region %s has now, so it stays", slot, at->name, of);
		ctllink_list(&foreign, text(" %s ", slot));
	}
	else if (options.dry_run || says(at, sql, 1, arguments, "free"))
		step(at, "SELECT pg_drop_replication_slot(%s)", quoted(slot));
}

/*
 * link_make makes a link, or updates it.
 */
void
link_make(Region *at, Region *from)
{
	const char *link = text("dc_from_%s", from->name);
	bool exists = link_row(at, link) >= 0;

	if (!exists && is_member(at) && is_member(from))
		slots_drop(from, at->name, at); /* of a link that was not completed */
	step_statements(at, from, "dc_region_join", link);
	if (!exists)
		set_comment(at, from, false);
	if (!options.dry_run)
		region_look(at);
}

/*
 * Note in the link's comment the epochs of both databases, and whether it was refreshed.
 */
static void
set_comment(Region *at, const Region *from, bool refreshed)
{
	bool known = at->state.epoch != NULL && from->state.epoch != NULL;

	if (options.dry_run && !known)
		note("a comment records the epochs that the link is for");
	else
		step(at, "COMMENT ON SUBSCRIPTION dc_from_%s IS '%s%s'", from->name, comment_of(at, from), refreshed ? REFRESHED : "");
}

/*
 * link_wait waits until a link has copied its tables.
 */
void
link_wait(Region *at, const Region *from)
{
	const char *link = text("dc_from_%s", from->name);
	const char *const arguments[] = {link};
	static const char sql[] = "SELECT count(*) FROM pg_subscription AS s JOIN pg_subscription_rel AS r ON r.srsubid = s.oid"
							  " WHERE s.subname = $1 AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND r.srsubstate <> 'r'";
	Patience patience;

	if (options.dry_run)
	{
		step_shown(at, "", text("CALL %s.dc_region_wait_copied('%s')", at->state.schema != NULL ? at->state.schema : "public", link));
		return;
	}
	patience_begin(&patience);
	while (!says(at, sql, 1, arguments, "0"))
		patience_next(&patience, "%s waits for the copy of what %s has; if that does not end, see the log of %s", at->name, from->name, at->name);
}

/*
 * link_refresh copies all that a region knows to another one, and notes that in the comment of the
 * link.
 */
void
link_refresh(Region *at, Region *from)
{
	const char *link = text("dc_refresh_%s", from->name);

	drop_one(at, link);
	if (is_member(at) && is_member(from))
		slots_drop(from, at->name, at);
	step_statements(at, from, "dc_region_refresh", link);
	if (options.dry_run || link_is_known(at, from))
		set_comment(at, from, true);
	if (!options.dry_run)
		region_look(at);
}

/*
 * lacks_counters returns true if a region lacks a replicated counter of another one, whose rows it
 * therefore cannot get.
 */
bool
lacks_counters(const Region *at, const Region *from, bool tell)
{
	bool lacking = false;

	for (int i = 0; i < PQntuples(from->state.counters); i++)
	{
		const char *counter = field(from->state.counters, i, "counter");
		bool found = false;

		for (int j = 0; j < PQntuples(at->state.counters); j++)
			found = found || strcmp(field(at->state.counters, j, "counter"), counter) == 0;
		if (found)
			continue;
		lacking = true;
		if (tell)
			left_to_do("%s lacks the counter %s, which %s has: dc_region add %s", at->name, counter, from->name, at->name);
	}
	return lacking;
}
