/*
 * renew.c
 *		dc_region_init(), dc_region_renew(): a first epoch for this database, and a new one.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A renewal is one transaction, with all replicated tables and the identity locked (seal.c). If the
 * worker does it, earlier transactions have sealed and folded already (sealturns.c):
 *
 *	1. Unpublished counts are sealed, unless that was done when the server started: then later
 *	   counts do not belong to the old epoch.
 *	2. Sealed amounts are folded into the rows of the old epoch, whose heartbeat is raised for the
 *	   last time.
 *	3. Stocks get new epochs as well: their units are given up, unless nothing was lost
 *	   (rightsrenew.c). At a start where no other region is known (boot.c) they keep what they have,
 *	   as that is most often an ordinary start.
 *	4. The database has a new epoch, later than all that are known of its region. It is in the state
 *	   recopy if there are other regions: either side may have missed rows of the other. A start
 *	   with no other region known does not change the state.
 *	5. At the end of the commit the first heartbeat of the new epoch is written. A region that
 *	   misses this transaction finds a gap in the heartbeats, or does not know the epoch.
 *
 * So a crash leaves everything done, or nothing.
 *
 * A database whose start nobody has confirmed in time takes a new epoch, usually without having
 * been set back. It notes since which of its epochs that is so (since), and its heartbeats ask the
 * others what they know of these (seen.c). When each active region has confirmed that it does not
 * know more than this database, nothing is missing, as after a start that was confirmed, and the
 * state ends by itself (lacks_nothing). If something was missed in another way, that is marked, and
 * the state stays. A heartbeat of one of those epochs that has more than this database is also
 * marked (beatmerge.c), as it changes the row that would show the difference.
 *
 * Otherwise the state recopy ends when everything has been copied again from each active region
 * that has a link to this one (region_copied).
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "base/subxact.h"
#include "core/table/access.h"
#include "region/life.h"
#include "region/link.h"

PG_FUNCTION_INFO_V1(dc_region_init);
PG_FUNCTION_INFO_V1(dc_region_renew);

static int64 next_epoch(const DcSelfRow *self, bool *others);
static void publish_beats(char *region);
static bool publish_work(void *region);
static TimestampTz lossless_since(const DcSelfRow *self, const DcSelfMarks *marks, DcRights rights, bool folded);
static bool copies_are_awaited(const DcSelfRow *self);
static void clear_recopy(DcSelfRow *self);

/*
 * dc_region_init(region text) -> bigint, the epoch: makes this database part of a region. The
 * caller owns the database.
 *
 * Errors: 22023 for an invalid name, 42501, 42710 if the database is in a region already, and those
 * of publications_create().
 */
Datum
dc_region_init(PG_FUNCTION_ARGS)
{
	DcSelfRow row = {0};
	DcSelfRow old;

	arg_not_null(fcinfo, 0, "region");
	row.region = text_to_cstring(PG_GETARG_TEXT_PP(0));
	region_check_name(row.region);
	prevent_write("dc_region_init()");
	if (!compat_owns_database(MyDatabaseId, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of the database to add it to a region")));
	LockRelationOid(self_relation(), ShareRowExclusiveLock);
	if (self_read(&old))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("this database is already in a region")));
	row.epoch = region_epoch_new();
	self_here(&row);
	row.state = SELF_ACTIVE;
	row.boot = self_new_boot();
	self_insert(&row);
	activity_note(beats_relation());
	region_forget_self();
	publications_create();
	publications_add(beats_relation(), beat_columns, "region", row.region);
	region_published();
	PG_RETURN_INT64(row.epoch);
}

/*
 * dc_region_renew(lossless boolean) -> bigint, the new epoch. The caller owns the database.
 * `lossless`: this database knows all sales from its stocks, so they keep their units.
 *
 * Errors: 42501, 25001 in a transaction with one snapshot, 55000 if this database is not in a
 * region; those of counter tables that cannot be written to.
 */
Datum
dc_region_renew(PG_FUNCTION_ARGS)
{
	bool lossless = bool_arg(fcinfo, 0, "lossless");
	DcSelfRow self;

	prevent_write("dc_region_renew()");
	region_check_owner();
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot execute %s at this isolation level", "dc_region_renew()"),
				 errhint("Use READ COMMITTED.")));
	if (!self_read(&self))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database is not in a region"),
				 errhint("Call dc_region_init() first.")));
	region_renew(&self, lossless ? RIGHTS_KEPT : RIGHTS_GIVEN_UP, false);
	PG_RETURN_INT64(self.epoch);
}

/*
 * region_renew takes a new epoch, and updates *self.
 */
void
region_renew(DcSelfRow *self, DcRights rights, bool worker)
{
	List *counters = worker ? NIL : replicated_lock();
	DcSelfMarks marks;
	DcSelfRow old;
	bool alone = rights == RIGHTS_ALONE;
	bool folded;
	bool others;
	TimestampTz since;

	identity_lock();
	if (!self_read(self))
		elog(ERROR, "this database is no longer in a region");
	if (!worker && (!self_is_begun(self) || self->starting || self->boot == (Datum) 0))
		self->boot = self_new_boot();
	folded = seal_and_fold(counters, self, !self->starting, true);
	if (!alone)
		rights_renew(self->region, rights, worker);
	old = *self;
	self_marks(self, &marks);
	since = lossless_since(self, &marks, rights, folded);
	self_forget_marks(self->epoch, true);
	self->epoch = next_epoch(self, &others);
	self_here(self);
	self->starting = false;
	if (marks.recopy || (others && !alone))
		self->state = SELF_RECOPY;
	else if (!alone)
		self->state = SELF_ACTIVE;
	self_update(self);
	if (alone)
		self_mark(self->epoch, "alone", self->begun_at);
	if (since != DT_NOBEGIN)
		self_mark(self->epoch, "since", since);
	if (folded)
		beat_raise(&old, true);
	region_published();
	beat_tell(DT_NOBEGIN);
	if (!worker)
		(void) publications_complete(self->region, true);
	else if (publications_lack(beats_relation()))
		publish_beats(self->region);
	ereport(LOG,
			(errmsg("this database has a new epoch in region \"%s\": " INT64_FORMAT, self->region, self->epoch)));
}

/*
 * lossless_since returns since when this database, which is about to take a new epoch, has taken
 * new ones without any sign of having been set back; DT_NOBEGIN if there is one, or something is
 * missing. It is also DT_NOBEGIN if the database has published under its epoch since it began: that
 * heartbeat is of a series of its own, and replaces one of the original that others may know.
 */
static TimestampTz
lossless_since(const DcSelfRow *self, const DcSelfMarks *marks, DcRights rights, bool folded)
{
	ItemPointerData tid;
	DcBeat own;

	if (self->starting && (folded || !beat_find(self->region, self->epoch, &own, &tid) || own.published >= own.first))
		return DT_NOBEGIN;
	if ((rights != RIGHTS_KEPT && rights != RIGHTS_SHUT) || marks->recopy || self_needs_renew(self))
		return DT_NOBEGIN;
	if (marks->since != DT_NOBEGIN)
		return marks->since;
	return self->state == SELF_ACTIVE ? epoch_time(self->epoch) : DT_NOBEGIN;
}

/*
 * publish_beats adds the heartbeats to the publications, as those of a dump lack them. If that
 * fails, the renewal continues.
 */
static void
publish_beats(char *region)
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		(void) subxact_run(publish_work, region);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(caller);

		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED || ShutdownRequestPending)
			ReThrowError(error);
		ereport(WARNING,
				(errmsg("region \"%s\" does not publish its heartbeats: %s", region, error->message),
				 errhint("Call dc_region_publish().")));
		FreeErrorData(error);
	}
	PG_END_TRY();
}

/*
 * Complete the publications, as a subtransaction.
 */
static bool
publish_work(void *region)
{
	(void) publications_complete(region, false);
	return true;
}

/*
 * next_epoch returns an epoch that is later than all known ones of the region, and sets whether
 * there are other regions.
 */
static int64
next_epoch(const DcSelfRow *self, bool *others)
{
	int64 last = self->epoch;
	ListCell *lc;

	*others = false;
	foreach(lc, beats_all())
	{
		const DcBeat *beat = lfirst(lc);

		if (strcmp(beat->region, self->region) != 0)
			*others = true;
		else
			last = Max(last, beat->epoch);
	}
	return region_epoch_later(last); /* the clock may have been set back */
}

/*
 * fold_sealed ends a start: the others have confirmed that the epoch is this database's. From now
 * on it publishes under a boot that no earlier copy has (life.h). False if the start cannot be
 * ended now.
 */
bool
fold_sealed(DcSelfRow *self, bool worker)
{
	List *counters = worker ? NIL : replicated_lock();

	identity_lock();
	if (!self_read(self) || !self->starting || self_needs_renew(self))
		return false;
	if (seal_and_fold(counters, self, false, true))
		region_published();
	self->starting = false;
	if (!worker)
		self->boot = self_new_boot();
	self_update(self);
	return true;
}

/*
 * region_copied notes that all that a peer knows was copied, by a link that was made for that at a
 * time. If nothing has to be copied, nothing is noted, and no lock is taken, for which all that
 * publishes would wait.
 */
void
region_copied(const char *peer, TimestampTz since)
{
	DcSelfRow self;

	if (!self_read(&self) || !copies_are_awaited(&self))
		return;
	identity_lock();
	if (!self_read(&self) || !copies_are_awaited(&self))
		return;
	self_mark_copied(self.epoch, peer, since);
	clear_recopy(&self);
}

/*
 * Return true if this database may have missed rows, and must copy them again.
 */
static bool
copies_are_awaited(const DcSelfRow *self)
{
	DcSelfMarks marks;

	self_marks(self, &marks);
	return self->state == SELF_RECOPY || marks.recopy;
}

/*
 * lacks_nothing returns true if all other regions, after they had learned of this epoch, have
 * confirmed that they know no more of the earlier ones than this database.
 */
bool
lacks_nothing(const DcSelfRow *self)
{
	DcSelfMarks marks;
	ListCell *lc;

	self_marks(self, &marks);
	if (self->state != SELF_RECOPY || marks.recopy || marks.since == DT_NOBEGIN)
		return false;
	foreach(lc, beats_current(beats_all()))
	{
		const DcBeat *beat = lfirst(lc);
		ListCell *lc2;
		DcSeen seen;
		List *past;

		if (strcmp(beat->region, self->region) == 0 || !beat_is_active(beat))
			continue;
		if (!seen_get(beat, self->region, &seen) || seen.epoch != self->epoch || !seen_past(beat, self->region, &past))
			return false;
		foreach(lc2, past)
		{
			if (epoch_was_continued(self->region, lfirst(lc2)))
				return false;
		}
	}
	return true;
}

/*
 * end_recopy ends the state recopy because nothing is missing.
 */
void
end_recopy(DcSelfRow *self)
{
	/* not waiting, as in note_marks() */
	if (!identity_try_lock() || !self_read(self) || !lacks_nothing(self))
		return;
	self->state = SELF_ACTIVE;
	self_update(self);
	ereport(LOG,
			(errmsg("all other regions have confirmed that they know no more of region \"%s\" than this database", self->region)));
}

/*
 * clear_recopy ends the state recopy, if all active regions that have a link to this one were
 * copied since it began. Rows of other regions come by these links, as in a star or a ring. The
 * caller has the lock on the identity.
 */
static void
clear_recopy(DcSelfRow *self)
{
	DcSelfMarks marks;
	TimestampTz began;
	ListCell *lc;

	self_marks(self, &marks);
	began = marks.recopy_at; /* long ago, if there is none */
	if (self->state == SELF_RECOPY)
		began = Max(began, self->begun_at);
	foreach(lc, beats_current(beats_all()))
	{
		const DcBeat *beat = lfirst(lc);

		if (strcmp(beat->region, self->region) != 0 && beat_is_active(beat) &&
			link_find(psprintf(LINK_PREFIX "%s", beat->region)) != NULL &&
			self_copied_at(self->epoch, beat->region) <= began)
			return;
	}
	self_forget_marks(self->epoch, false);
	if (self->state == SELF_RECOPY)
	{
		self->state = SELF_ACTIVE;
		self_update(self);
	}
}
