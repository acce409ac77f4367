/*
 * retire.c
 *		dc_region_retire(): giving up a region.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Its counts stay. Others no longer wait for it: after a start (boot.c), or before something is
 * removed permanently (seen.c). If it still exists, it no longer publishes, until dc_region_renew()
 * brings it back with a new epoch. A new database of its name does so, too: a region is retired if
 * its latest epoch is.
 *
 * The flag is in the rows of dcounter.region, of all epochs of the region, and the others pass it
 * on with their heartbeats (seen.c), as nobody sends rows of a lost region any longer. It is never
 * unset.
 *
 * A region that is alive must have published everything, and all others must know its last
 * heartbeat that came with rows (column published): then they have everything. It must have given
 * away the units of its stocks, as far as it has reported them; another region can take over those
 * of a dead one (stockregions.c). The survivors of a dead region may know different states of it.
 * They have to be refreshed from each other (dc_region_refresh), before or after.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "core/table/access.h"
#include "region/life.h"
#include "region/rights.h"

PG_FUNCTION_INFO_V1(dc_region_retire);

static bool retire_leaves(const DcSelfRow *self, const char *region);
static void check_published(const char *region);
static void write_down_all(void);
static void check_units(const char *region, bool own);
static void retire_check_seen(const List *current, const DcBeat *what, const char *own);
static void set_retired(const List *beats, const DcSelfRow *self, const char *region);

/*
 * dc_region_retire(region text, force boolean) -> void. The caller owns the database.
 *
 * Errors: 22004, 42501, 42704 if the region is unknown, 55000 if this database is not in a region,
 * or the region is alive, as far as it is known, and others do not have all of it, or it has units
 * of a stock.
 */
Datum
dc_region_retire(PG_FUNCTION_ARGS)
{
	bool force = bool_arg(fcinfo, 1, "force");
	List *beats;
	List *current;
	DcBeat *what = NULL;
	DcIdentity identity;
	DcSelfRow self;
	char *region;
	ListCell *lc;

	arg_not_null(fcinfo, 0, "region");
	region = text_to_cstring(PG_GETARG_TEXT_PP(0));
	prevent_write("dc_region_retire()");
	region_check_owner();
	if (!self_read(&self) || self_needs_renew(&self) || (!force && retire_leaves(&self, region)))
	{
		region_identity_needed(&identity);
		(void) self_read(&self); /* it may have been waited for */
	}
	beats = beats_all();
	current = beats_current(beats);
	foreach(lc, current)
	{
		if (strcmp(((DcBeat *) lfirst(lc))->region, region) == 0)
			what = lfirst(lc);
	}
	if (what == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("region \"%s\" is not known", region),
				 errhint("dc_regions() lists the known regions.")));
	if (!beat_is_active(what))
	{
		ereport(NOTICE, (errmsg("region \"%s\" is already retired", region)));
		PG_RETURN_VOID();
	}
	if (!force)
	{
		if (strcmp(region, self.region) == 0)
			check_published(region);
		check_units(region, strcmp(region, self.region) == 0);
		retire_check_seen(current, what, self.region);
	}
	set_retired(beats, &self, region);
	PG_RETURN_VOID();
}

/*
 * Return true if the region to be retired is this one, and it is not retired yet.
 */
static bool
retire_leaves(const DcSelfRow *self, const char *region)
{
	DcSelfMarks marks;

	self_marks(self, &marks);
	return strcmp(region, self->region) == 0 && !marks.retired;
}

/*
 * check_published raises 55000 if something of this region is not published, or only in this
 * transaction, so that nobody can know of it. Amounts in memory are flushed first, to be visible;
 * the error undoes that.
 */
static void
check_published(const char *region)
{
	write_down_all();
	if (beat_publishes() || unpublished_look_all() == DT_NOBEGIN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("region \"%s\" has increments that are not published yet", region),
				 errhint("Stop the writers of this region, then call dc_flush() and dc_compact().")));
	unpublished_end();
}

/*
 * Write all amounts in memory of replicated counters to rows, so that compaction can publish them.
 */
static void
write_down_all(void)
{
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		DcCounter *counter;

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(row->regions) || row->mode != DC_MODE_BUFFERED || buffer_hooks == NULL ||
			!counter_lock(row->counter, RowExclusiveLock))
			continue;
		counter = counter_lookup(row->counter);
		if (counter_is_buffered(counter))
			buffer_hooks->write_down(counter);
	}
	CommandCounterIncrement();
}

/*
 * check_units raises 55000 if the region has units of a stock, as nobody could sell these any
 * longer.
 */
static void
check_units(const char *region, bool own)
{
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		DcCounter *counter;

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(row->grants))
			continue;
		LockRelationOid(row->grants, AccessShareLock);
		LockRelationOid(row->wants, AccessShareLock);
		if (!counter_lock(row->counter, AccessShareLock))
			continue;
		counter = counter_lookup(row->counter);
		if (counter_has_rights(counter) && region_has_units(counter, region, own))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("region \"%s\" has units of stock \"%s\"", region, get_rel_name(row->counter)),
					 errdetail("They could no longer be sold."),
					 errhint("In another region, ask for them with dc_want(), and wait until they have arrived. If the region is lost, use force => true, and take them over with dc_rights_reclaim().")));
	}
}

/*
 * retire_check_seen raises 55000 if an active region does not know the last rows that a region has
 * published.
 */
static void
retire_check_seen(const List *current, const DcBeat *what, const char *own)
{
	StringInfoData missing;
	ListCell *lc;

	initStringInfo(&missing);
	foreach(lc, current)
	{
		const DcBeat *of = lfirst(lc);
		DcSeen seen;

		if (strcmp(of->region, what->region) == 0 || strcmp(of->region, own) == 0 || !beat_is_active(of))
			continue;
		if (!seen_get(of, what->region, &seen) || seen.epoch != what->epoch || seen.seq < what->published)
			appendStringInfo(&missing, "%s\"%s\"", missing.len > 0 ? ", " : "", of->region);
	}
	if (missing.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("not all regions have received what region \"%s\" has counted", what->region),
				 errdetail("As far as is known here, these have not: %s.", missing.data),
				 errhint("Wait until they have. If the region is lost, use force => true, and refresh the others from each other.")));
}

/*
 * Mark the rows of all epochs of a region as retired. For this region, take the locks on its
 * identity and its heartbeat first: then nothing more is published.
 */
static void
set_retired(const List *beats, const DcSelfRow *self, const char *region)
{
	TimestampTz now = GetCurrentTimestamp();
	bool own = strcmp(region, self->region) == 0;
	ListCell *lc;

	if (own)
	{
		identity_lock();
		(void) advisory_lock(REGION_LOCK_CLASS, 0, BEAT_LOCK, ExclusiveLock, true);
	}
	foreach(lc, beats)
	{
		DcBeat *beat = lfirst(lc);
		ItemPointerData tid;

		if (strcmp(beat->region, region) != 0 || !beat_lock(beat->region, beat->epoch, beat, &tid) ||
			beat->retired_at != 0)
			continue;
		beat->retired_at = now;
		beat_store(&tid, beat);
	}
	if (own)
		self_mark(self->epoch, "retired", now);
	else
		beat_tell(DT_NOBEGIN);
	activity_note(beats_relation());
}
