/*
 * portals.c
 *		The session's portals (cursors) while code of a table's owner runs.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Portals belong to the session, not to the role that opened them. So code of an owner
 * that runs in another role's session could find the caller's cursors by name, and leave
 * cursors of its own. Both would be harmful:
 *
 *	- A cursor that is left is a portal in a transaction that does not know of it. At PRE_COMMIT
 *	  the server has dropped the transaction's portals already, so a portal that is opened then
 *	  would outlive the snapshot, the locks and the memory that it needs. In the middle of a
 *	  transaction it would wait for a FETCH by another role.
 *	- FETCH checks no rights: they were checked when the portal was opened. The owner's code
 *	  would read rows that only the caller may read, or skip rows of the caller's, or close
 *	  the cursor and open another in its place.
 *
 * So, while the session acts as an owner (runas.c), the portals that were there before are
 * shut: they cannot be run or dropped, and pg_cursors does not show them. New portals are
 * dropped before the session stops being the owner, since dropping a portal can run code, too.
 * Levels are nested: portals that one level's code has opened are shut for the next level's.
 *
 * A portal is shut by the state of one that has failed, and a pin. So to the server it looks as
 * an error would have left it: when its own transaction or subtransaction aborts, it is dropped
 * like any other, without its executor being shut down. If an inner subtransaction aborts, the
 * portal stays, and the callback here opens it again: portalmem.c fails only the portals of the
 * subtransaction itself, and those that were run in it, which is why active_subid is changed.
 * Portals that have ended are only pinned. Portals that run cannot be run again or dropped
 * anyway. A language may unpin any portal before it drops it (PL/Perl does). So the function
 * that the server calls to drop a portal is replaced as well, by one that refuses outside of an
 * abort. So only such an abort can drop a portal that a level knows. That is why pointers to
 * portals may be kept, and why a new portal is never taken for a known one.
 *
 * The server lists portals only by a view, of those that are visible. But each portal has
 * a memory context, which is named after it, and all of these have the same parent.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/portal.h"

#include "base/portals.h"
#include "base/xactrooms.h"

/* The name of a portal that serves to find the context of all. */
#define PROBE "dcounter probe"

/* A portal that was there when a level began, and its state then. */
typedef struct DcKnownPortal
{
	Portal portal;
	PortalStatus status;
	bool pinned;
	bool visible;
	SubTransactionId active_subid;
	void (*cleanup)(Portal portal);
} DcKnownPortal;

typedef struct DcPortalLevel
{
	int first;		/* of its portals among the known ones */
	int nest_level; /* of transactions */
} DcPortalLevel;

/* Never freed (TopMemoryContext); levels end by portals_leave() or the callbacks. */
static DcPortalLevel *levels = NULL;
static int nlevels = 0;
static int max_levels = 0;
static DcKnownPortal *known_portals = NULL;
static int nknown = 0;
static int max_known = 0;

/* The context of all portals, which lives as long as the session. */
static MemoryContext all_portals = NULL;

static void portals_init(void);
static void portals_make_room(int portals);
static Portal portal_of(MemoryContext context);
static void portals_shut(DcKnownPortal *entry);
static void refuse_drop(Portal portal);
static void drop_new(const DcPortalLevel *level);
static void portals_drop(Portal portal);
static Portal find_new(const DcPortalLevel *level);
static bool portals_is_known(const DcPortalLevel *level, Portal portal);
static void open_again(DcKnownPortal *entry);
static bool portals_are_idle(void);
static void portals_xact_callback(XactEvent event, void *arg);
static void portals_subxact_callback(SubXactEvent event, SubTransactionId subid,
									 SubTransactionId parent, void *arg);

/*
 * portals_enter shuts all existing portals. Undone by portals_leave().
 */
void
portals_enter(void)
{
	int count = 0;
	DcPortalLevel *level;

	if (all_portals == NULL)
		portals_init();
	for (MemoryContext cxt = all_portals->firstchild; cxt != NULL; cxt = cxt->nextchild)
		count++;
	portals_make_room(count);

	xact_mark(DC_XACT_PORTALS);
	level = &levels[nlevels++];
	level->first = nknown;
	level->nest_level = GetCurrentTransactionNestLevel();
	for (MemoryContext cxt = all_portals->firstchild; cxt != NULL; cxt = cxt->nextchild)
	{
		Portal portal = portal_of(cxt);

		if (portal == NULL)
			continue;
		known_portals[nknown].portal = portal;
		portals_shut(&known_portals[nknown++]);
	}
}

/*
 * portals_leave drops the portals that are new since, and opens the others again.
 */
void
portals_leave(void)
{
	DcPortalLevel *level;

	if (nlevels == 0 || levels[nlevels - 1].nest_level != GetCurrentTransactionNestLevel())
		elog(ERROR, "no portals were shut in this subtransaction");
	level = &levels[nlevels - 1];
	drop_new(level);
	for (int i = level->first; i < nknown; i++)
		open_again(&known_portals[i]);
	nknown = level->first;
	nlevels--;
}

/*
 * Return true if the session acts as an owner.
 */
bool
portals_are_shut(void)
{
	return nlevels > 0;
}

/*
 * portals_init makes the arrays, finds the context of all portals, and registers the callbacks.
 */
static void
portals_init(void)
{
	Portal portal = GetPortalByName(PROBE);
	bool made = !PortalIsValid(portal);

	max_levels = max_known = 16;
	known_portals = MemoryContextAlloc(TopMemoryContext, max_known * sizeof(DcKnownPortal));
	levels = MemoryContextAlloc(TopMemoryContext, max_levels * sizeof(DcPortalLevel));
	if (made)
		portal = CreatePortal(PROBE, false, false);
	all_portals = MemoryContextGetParent(portal->portalContext);
	if (made)
		portals_drop(portal);
	xact_room_add(DC_XACT_PORTALS, portals_xact_callback, portals_subxact_callback, portals_are_idle);
}

/*
 * portals_make_room makes room for one more level, with this many portals.
 */
static void
portals_make_room(int portals)
{
	if (nlevels == max_levels)
	{
		levels = repalloc(levels, 2 * max_levels * sizeof(DcPortalLevel));
		max_levels *= 2;
	}
	if (nknown + portals > max_known)
	{
		known_portals = repalloc(known_portals, 2 * (nknown + portals) * sizeof(DcKnownPortal));
		max_known = 2 * (nknown + portals);
	}
}

/*
 * portal_of returns the portal that a context belongs to, or NULL: the context of a
 * cursor's kept rows is that of no portal. The context of the portal without a name has a
 * name that other portals may have.
 */
static Portal
portal_of(MemoryContext context)
{
	const char *const names[] = {context->ident, ""};

	for (int i = 0; context->ident != NULL && i < lengthof(names); i++)
	{
		Portal portal = GetPortalByName(names[i]);

		if (PortalIsValid(portal) && portal->portalContext == context)
			return portal;
	}
	return NULL;
}

/*
 * Shut a portal, and remember its state in the entry: it looks as if an error had failed it,
 * and is pinned. One that is running only becomes invisible.
 */
static void
portals_shut(DcKnownPortal *entry)
{
	Portal portal = entry->portal;

	entry->status = portal->status;
	entry->pinned = portal->portalPinned;
	entry->visible = portal->visible;
	entry->active_subid = portal->activeSubid;
	portal->visible = false;
	if (portal->status == PORTAL_ACTIVE)
		return;
	portal->portalPinned = true;
	entry->cleanup = portal->cleanup;
	portal->cleanup = refuse_drop;
	if (portal->status == PORTAL_READY)
	{
		portal->status = PORTAL_FAILED;
		portal->activeSubid = InvalidSubTransactionId;
	}
}

/*
 * refuse_drop raises 24000 for a shut portal that is about to be dropped, before anything of it
 * is gone. An abort may drop it.
 */
static void
refuse_drop(Portal portal)
{
	if (IsTransactionState())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("cannot drop portal \"%s\", which is not of this code", portal->name)));
	for (int i = 0; i < nknown; i++)
	{
		if (known_portals[i].portal != portal)
			continue;
		/* the outermost level has the original */
		portal->cleanup = known_portals[i].cleanup;
		if (portal->cleanup != NULL)
			portal->cleanup(portal);
		return;
	}
}

/*
 * drop_new drops the portals that a level does not know. That may run code that opens more.
 */
static void
drop_new(const DcPortalLevel *level)
{
	Portal portal;

	while ((portal = find_new(level)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		portals_drop(portal);
	}
}

/*
 * portals_drop drops a portal that does not run. A language whose cursors are objects has pinned
 * its own.
 */
static void
portals_drop(Portal portal)
{
	if (portal->portalPinned)
		UnpinPortal(portal);
	if (portal->status == PORTAL_NEW || portal->status == PORTAL_DEFINED)
		MarkPortalFailed(portal); /* otherwise it could not be dropped */
	PortalDrop(portal, false);
}

/*
 * find_new returns a portal that a level does not know, or NULL. The known ones come in
 * their order, mostly.
 */
static Portal
find_new(const DcPortalLevel *level)
{
	int next = level->first;

	for (MemoryContext cxt = all_portals->firstchild; cxt != NULL; cxt = cxt->nextchild)
	{
		Portal portal = portal_of(cxt);

		if (portal == NULL)
			continue;
		if (next < nknown && known_portals[next].portal == portal)
			next++;
		else if (!portals_is_known(level, portal))
			return portal;
	}
	return NULL;
}

/*
 * Return true if a portal was there when a level began.
 */
static bool
portals_is_known(const DcPortalLevel *level, Portal portal)
{
	for (int i = level->first; i < nknown; i++)
	{
		if (known_portals[i].portal == portal)
			return true;
	}
	return false;
}

/*
 * Undo portals_shut().
 */
static void
open_again(DcKnownPortal *entry)
{
	Portal portal = entry->portal;

	portal->visible = entry->visible;
	if (entry->status == PORTAL_ACTIVE)
		return;
	portal->portalPinned = entry->pinned;
	portal->cleanup = entry->cleanup;
	if (entry->status == PORTAL_READY)
	{
		portal->status = PORTAL_READY;
		portal->activeSubid = entry->active_subid;
	}
}

/*
 * end_levels ends the levels that began in an aborted subtransaction, or inside of it. The
 * subtransaction's own portals have failed and cannot be used again; they are dropped next. So
 * are, at the end of the transaction (0), all portals that are not held beyond it.
 */
static void
end_levels(int nest_level, SubTransactionId aborted, SubTransactionId parent)
{
	while (nlevels > 0 && levels[nlevels - 1].nest_level >= nest_level)
	{
		for (int i = levels[--nlevels].first; i < nknown; i++)
		{
			DcKnownPortal *entry = &known_portals[i];
			Portal portal = entry->portal;
			bool stays = aborted != InvalidSubTransactionId
				? portal->createSubid != aborted
				: portal->createSubid == InvalidSubTransactionId || portal->autoHeld;

			if (entry->active_subid == aborted)
				entry->active_subid = parent;
			if (stays)
				open_again(entry);
		}
		nknown = levels[nlevels].first;
	}
}

/*
 * Return true if no level is open.
 */
static bool
portals_are_idle(void)
{
	return nlevels == 0;
}

/*
 * End all levels when a transaction aborts.
 */
static void
portals_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT)
		end_levels(0, InvalidSubTransactionId, InvalidSubTransactionId);
}

/*
 * End the levels of a subtransaction that aborts.
 */
static void
portals_subxact_callback(SubXactEvent event, SubTransactionId subid,
						 SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		end_levels(GetCurrentTransactionNestLevel(), subid, parent);
}
