/*
 * windowopen.c
 *		Opening a window: what a session remembers of it, rights, locks.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A window is known by its view, and privileges are granted on that: INSERT and UPDATE to count,
 * SELECT to read. Its counter tables are its owner's, and nobody else needs rights on them; they
 * are opened without a check. They must have the same owner, so that nobody gets at tables of a
 * third role by way of the view.
 *
 * What is remembered is forgotten at an invalidation of the view, which each change of the window's
 * row sends. A commit becomes visible shortly before its invalidations arrive. So nothing that a
 * reader must not miss is taken from here (windowread.c); and a writer looks again when it has the
 * lock on the slot (windowincr.c).
 *
 * An owner may alter, drop or rename the tables one by one. Then the window is not whole: calls
 * that need what is missing are refused with 55000, and the worker leaves it alone.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/errors.h"
#include "base/lockclass.h"
#include "base/relcached.h"
#include "base/roles.h"
#include "core/table/access.h"
#include "core/table/layout.h"
#include "time/window/window.h"

static void windowopen_entry_changed(void *data, Oid relid);
static bool windowopen_fill(void *entry, void *arg);

static DcRelCached entries = {
	.name = "dcounter windows",
	.keysize = sizeof(Oid),
	.size = sizeof(DcWindow),
	.changed = windowopen_entry_changed,
};

/*
 * Mark an entry as invalid if its view has changed; InvalidOid stands for all relations.
 */
static void
windowopen_entry_changed(void *data, Oid relid)
{
	DcWindow *entry = data;

	if (!OidIsValid(relid) || entry->relid == relid)
		entry->valid = false;
}

/*
 * window_find returns the entry of a window, or NULL if the relation is none.
 */
DcWindow *
window_find(Oid relid)
{
	DcWindow *entry = relcached_enter_relation(&entries, relid);

	if (entry == NULL)
		return NULL;
	if (entry->valid || relcached_fill(entry, &entry->valid, windowopen_fill, NULL))
		return entry;
	return NULL;
}

/*
 * Fill what the session remembers of a window from the catalogs, with no claims known. Return false
 * if it is no window.
 */
static bool
windowopen_fill(void *entry, void *arg)
{
	DcWindow *window = entry;
	DcWindowRow row;
	List *slots;
	ListCell *lc;

	if (!window_row_read(window->relid, &row) || get_rel_relkind(window->relid) != RELKIND_VIEW)
		return false;
	slots = window_slots_read(window->relid);
	window->row = row;
	window->owner = relation_owner(window->relid);
	window->dropped = InvalidOid;
	window->checked = InvalidOid;
	for (int i = 0; i < lengthof(window->slots); i++)
	{
		window->slots[i] = InvalidOid;
		window->claimed[i] = -1;
	}
	foreach(lc, slots)
	{
		const DcWindowSlot *slot = lfirst(lc);

		if (slot->number == WINDOW_DROPPED)
			window->dropped = slot->slot;
		else if (slot->number >= 0 && slot->number < window->row.levels.n * WINDOW_SLOTS)
			window->slots[slot->number] = slot->slot;
	}
	list_free_deep(slots);
	window->generation++;
	return true;
}

/*
 * window_lookup returns the entry of a window, with the errors that a user should see: 42P01 for no
 * relation, 42809 for another one.
 */
DcWindow *
window_lookup(Oid relid)
{
	DcWindow *window = window_find(relid);
	char *name = window == NULL ? get_rel_name(relid) : NULL;

	if (window != NULL)
		return window;
	if (name == NULL)
		relation_missing_error(relid);
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a windowed counter", name),
			 errhint("Create one with dc_window_create().")));
}

/*
 * window_arg returns argument 0, the window (22004 for NULL).
 */
Oid
window_arg(FunctionCallInfo fcinfo)
{
	arg_not_null(fcinfo, 0, "windowed counter");
	return PG_GETARG_OID(0);
}

/*
 * window_open finds a window for a role with all of `rights` on it, which are remembered until
 * something changes on which they may depend.
 */
DcWindow *
window_open(Oid relid, AclMode rights)
{
	DcWindow *window;
	uint32 roles;

	AcceptInvalidationMessages(); /* for example of a REVOKE; plain SQL does so too */
	window = window_lookup(relid);
	if (window->checked == GetUserId() && window->rights == rights && window->roles == role_changes)
		return window;
	roles = role_changes; /* a change that comes meanwhile is noticed the next time */
	table_check_rights(relid, rights);
	window->checked = GetUserId();
	window->rights = rights;
	window->roles = roles;
	return window;
}

/*
 * window_open_own finds a window for its owner, and takes its lock: then only this transaction can
 * change its row.
 */
DcWindow *
window_open_own(Oid relid)
{
	(void) window_lookup(relid);
	prevent_not_owner(relid);
	window_lock(relid);
	prevent_not_owner(relid);
	return window_lookup(relid);
}

/*
 * window_lock waits for the lock of a window, and ensures that what the session remembers of it is
 * up to date.
 */
void
window_lock(Oid relid)
{
	(void) advisory_lock(WINDOW_LOCK_CLASS, relid, 0, ExclusiveLock, true);
	AcceptInvalidationMessages();
}

/*
 * window_lock_at_once does not wait; false if another transaction has it.
 */
bool
window_lock_at_once(Oid relid)
{
	if (!advisory_lock(WINDOW_LOCK_CLASS, relid, 0, ExclusiveLock, false))
		return false;
	AcceptInvalidationMessages();
	return true;
}

/*
 * window_counter locks a counter table of a window, and opens it.
 */
DcCounter *
window_counter(DcWindow *window, Oid slot, LOCKMODE mode)
{
	DcCounter *counter;

	if (!OidIsValid(slot) || get_rel_name(slot) == NULL)
		window_slot_gone(window);
	if (mode == RowExclusiveLock)
		counter = counter_open_bound(slot);
	else
	{
		while (!counter_lock(slot, mode))
			(void) counter_lookup(slot); /* raises an error if it is none */
		counter = counter_lookup(slot);
		counter_layout(counter);
	}
	window_check_counter(counter);
	if (counter->owner != window->owner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" and its table \"%s\" have different owners",
						get_rel_name(window->relid), get_rel_name(slot)),
				 errhint("Use ALTER TABLE ... OWNER TO to give all of them to one role.")));
	return counter;
}

/*
 * window_check_counter raises 55000 for a counter table whose amounts cannot be moved, or read in a
 * snapshot.
 */
void
window_check_counter(const DcCounter *counter)
{
	const char *detail = NULL;

	if (counter_is_stock(counter) || OidIsValid(counter->row.ledger))
		detail = _("It is not a plain counter table.");
	else if (counter->bound)
		detail = _("It is bound to a source.");
	else if (counter_is_replicated(counter))
		detail = _("It is replicated between regions.");
	else if (counter_is_buffered(counter))
		detail = _("It is buffered.");
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" cannot be a table of a windowed counter", get_rel_name(counter->relid)),
				 errdetail_internal("%s", detail)));
}

/*
 * Raise the error that a table of the window was dropped, or is no longer a counter table (55000).
 */
void
window_slot_gone(const DcWindow *window)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" lacks one of its tables", get_rel_name(window->relid)),
			 errdetail("A table that belongs to the windowed counter was dropped, or is no longer a counter table."),
			 errhint("The rest can be read from the other tables. To drop them, use dc_window_drop().")));
}

/*
 * Return true if all tables are there, and are the owner's.
 */
bool
window_is_whole(const DcWindow *window)
{
	for (int i = 0; i < window->row.levels.n * WINDOW_SLOTS; i++)
	{
		if (!OidIsValid(window->slots[i]) || relation_owner(window->slots[i]) != window->owner)
			return false;
	}
	return true;
}
