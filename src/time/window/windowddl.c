/*
 * windowddl.c
 *		DDL on a window.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- Dropping the view drops the counter tables, unless one of them goes in the same command: then
 *	  the view was dropped by CASCADE, and the others stay, as ordinary counter tables; a notice
 *	  says so.
 *	- ALTER VIEW ... OWNER TO, RENAME TO and SET SCHEMA are repeated on the tables, whose names are
 *	  made of its name.
 *	- No table may become unlogged: a crash would empty it, and leave the others.
 */
#include "postgres.h"

#include "utils/lsyscache.h"

#include "base/runas.h"
#include "core/table/ddlhooks.h"
#include "core/table/storage.h"
#include "time/window/window.h"

static void window_gone(Oid relid, const DcDdl *ddl);
static void prevent_unlogged(const DcDdl *ddl);

/*
 * Delete the catalog rows of windows and slots that are being dropped, and drop the tables of such
 * windows.
 */
static void
windowddl_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		DcWindowRow row;

		if (window_row_read(lfirst_oid(lc), &row))
			window_gone(lfirst_oid(lc), ddl);
	}
	foreach(lc, ddl->relations)
	{
		DcWindowSlot slot;

		if (window_slot_read(lfirst_oid(lc), &slot))
			(void) window_slot_delete(slot.slot);
	}
}

/*
 * window_gone forgets a window whose view was dropped.
 */
static void
window_gone(Oid relid, const DcDdl *ddl)
{
	List *slots;
	ListCell *lc;
	bool alone = true;

	window_lock(relid);
	slots = window_slots_read(relid);
	window_claims_delete_all(relid);
	(void) window_row_delete(relid);
	foreach(lc, slots)
	{
		const DcWindowSlot *slot = lfirst(lc);

		(void) window_slot_delete(slot->slot);
		alone &= !list_member_oid(ddl->relations, slot->slot);
	}
	foreach(lc, slots)
	{
		const DcWindowSlot *slot = lfirst(lc);

		if (alone)
			sibling_drop(slot->slot, ddl);
		else if (ddl_keeps(ddl, slot->slot))
			ereport(NOTICE,
					(errmsg("table \"%s\" is no longer a table of a windowed counter", get_rel_name(slot->slot))));
	}
}

/*
 * Repeat renames, owners and the like of a view on its counter tables. An error if one of these
 * would become unlogged.
 */
static void
windowddl_altered(const DcDdl *ddl)
{
	ListCell *lc;

	prevent_unlogged(ddl);
	if (!ddl_alters(ddl))
		return;
	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcWindowRow row;
		List *slots;
		ListCell *lc2;

		if (!window_row_read(relid, &row))
			continue;
		slots = window_slots_read(relid);
		foreach(lc2, slots)
		{
			const DcWindowSlot *slot = lfirst(lc2);

			sibling_follow(ddl, relid, slot->slot, window_slot_suffix(slot->number));
		}
	}
}

/*
 * Raise an error if the command has made a table of a windowed counter unlogged.
 */
static void
prevent_unlogged(const DcDdl *ddl)
{
	ListCell *lc;

	if (!has_command(ddl->parsetree, AT_SetUnLogged))
		return;
	foreach(lc, ddl->relations)
	{
		DcWindowSlot slot;

		if (window_slot_read(lfirst_oid(lc), &slot) && get_rel_persistence(slot.slot) != RELPERSISTENCE_PERMANENT)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" of a windowed counter must not be unlogged", get_rel_name(slot.slot)),
					 errdetail("A crash would empty it, but not the other tables of \"%s\".", get_rel_name(slot.windowed))));
	}
}

const DcDdlHook window_ddl = {windowddl_dropped, windowddl_altered, NULL};
