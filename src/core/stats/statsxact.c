/*
 * statsxact.c
 *		Statistics of a transaction, until it commits.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The statistics must show only what has really happened. Deltas that are written early may be
 * rolled back with a savepoint and written again, and a compaction may be part of a transaction
 * that fails. So the counts of both are collected here, for each counter table and nesting
 * level of subtransactions, and handed over to shared memory when the transaction commits. A
 * transaction that is prepared counts as committed. (The hot keys are an estimate, and are
 * recorded at once.)
 *
 * In the same way, dropped tables are remembered, so that their entries can be freed at
 * commit.
 *
 * All of this is private to the backend and lives in TopTransactionContext.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/xactclock.h"
#include "base/xactrooms.h"
#include "core/stats/stats.h"

typedef struct DcXactStats
{
	struct DcXactStats *next; /* of the same nesting level or a lower one */
	DcCounter *counter;
	int nest;
	uint64 counts[DC_NUM_STATS];
	DcSweepTimes sweep;
} DcXactStats;

/* In TopTransactionContext, as is the next; end_xact() forgets both. */
static DcXactStats *xact_stats = NULL;

/* Counter tables dropped; from before_commit() on, this is final. */
static List *dropped = NIL;

/* A database that was dropped, which no transaction block may do. */
static Oid dropped_database = InvalidOid;

static bool statsxact_is_idle(void);
static void statsxact_xact_callback(XactEvent event, void *arg);
static void statsxact_subxact_callback(SubXactEvent event, SubTransactionId subid,
									   SubTransactionId parent, void *arg);
static void before_commit(void);
static void end_xact(bool committed, bool prepared);
static void commit_subxact(void);
static void abort_subxact(void);
static DcXactStats *xact_stats_get(DcCounter *counter);
static DcXactStats *xact_stats_find(DcXactStats *from, DcCounter *counter,
									int nest);
static void xact_stats_merge(DcXactStats *into, const DcXactStats *from);

/*
 * stats_xact_init registers the callbacks; called once.
 */
void
stats_xact_init(void)
{
	xact_room_add(DC_XACT_STATS, statsxact_xact_callback, statsxact_subxact_callback, statsxact_is_idle);
}

/*
 * Return true if nothing is left of a transaction, so that its callbacks need not be called.
 */
static bool
statsxact_is_idle(void)
{
	return xact_stats == NULL && dropped == NIL && !OidIsValid(dropped_database);
}

/*
 * Hand over the counts when the transaction commits or is prepared, or forget them.
 */
static void
statsxact_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT)
		before_commit();
	else if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
			 event == XACT_EVENT_PREPARE)
		end_xact(event != XACT_EVENT_ABORT, event == XACT_EVENT_PREPARE);
}

/*
 * Keep or forget the counts of a subtransaction that ends. Must not throw.
 */
static void
statsxact_subxact_callback(SubXactEvent event, SubTransactionId subid,
						   SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		commit_subxact();
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		abort_subxact();
}

/*
 * stats_applied counts the deltas that were written to a table.
 */
void
stats_applied(DcCounter *counter, const DcApplyStats *stats)
{
	uint64 *counts = xact_stats_get(counter)->counts;
	counts[DC_STATS_INCREMENTS] += stats->increments;
	counts[DC_STATS_KEYS] += stats->keys;
	counts[DC_STATS_TOTALS] += stats->totals;
	counts[DC_STATS_BUSY_SKIPS] += stats->busy_skips;
	counts[DC_STATS_SPLITS] += stats->splits;
	counts[DC_STATS_WAITS] += stats->waits;
	counts[DC_STATS_EARLY] += stats->early;
	counts[DC_STATS_BUFFERED] += stats->buffered;
	counts[DC_STATS_BUFFER_FULL] += stats->full;
}

/*
 * stats_compacted counts the keys that compaction has moved to the totals.
 */
void
stats_compacted(DcCounter *counter, int64 keys)
{
	stats_attach_free(counter);
	xact_stats_get(counter)->counts[DC_STATS_COMPACTED] += keys;
}

/*
 * stats_swept records that compaction has looked at all rows of a table that are older
 * than `started`, and ends now. It could not move `overflowed` keys. A transaction with
 * one snapshot does not see rows that came after that.
 */
void
stats_swept(DcCounter *counter, DcMoment started, int64 overflowed)
{
	DcSweepTimes *sweep;

	stats_attach_free(counter);
	sweep = &xact_stats_get(counter)->sweep;
	sweep->started = started;
	if (IsolationUsesXactSnapshot())
		sweep->started = moment_min(started, xact_moment());
	sweep->us = moment_age(sweep->started);
	sweep->ended_at = GetCurrentTimestamp();
	sweep->overflowed = overflowed;
}

/*
 * stats_dropped remembers that this transaction drops a counter table.
 */
void
stats_dropped(Oid counter)
{
	MemoryContext old;

	old = MemoryContextSwitchTo(TopTransactionContext);
	xact_mark(DC_XACT_STATS);
	dropped = list_append_unique_oid(dropped, counter);
	MemoryContextSwitchTo(old);
}

/*
 * stats_dropped_database remembers that this transaction drops a database.
 */
void
stats_dropped_database(Oid database)
{
	xact_mark(DC_XACT_STATS);
	dropped_database = database;
}

/*
 * before_commit leaves in the list the tables that are really dropped: a savepoint may
 * have undone a drop. Called at PRE_COMMIT, when catalogs can still be read.
 */
static void
before_commit(void)
{
	ListCell *lc;

	foreach(lc, dropped)
	{
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(lc))))
			dropped = foreach_delete_current(dropped, lc);
	}
}

/*
 * end_xact hands over the counts that were collected. Runs when the transaction has
 * committed: must not throw.
 */
static void
end_xact(bool committed, bool prepared)
{
	if (committed)
	{
		DcMoment now = xact_stats != NULL ? moment_now() : DC_LONG_AGO;
		ListCell *lc;

		for (DcXactStats *stats = xact_stats; stats != NULL; stats = stats->next)
		{
			stats_add(stats->counter, stats->counts, now);
			if (stats->sweep.ended_at != 0)
				stats_add_sweep(stats->counter, &stats->sweep);
		}
		if (!prepared)
		{
			foreach(lc, dropped)
				stats_free(lfirst_oid(lc));
			if (OidIsValid(dropped_database))
				stats_free_database(dropped_database);
		}
	}
	dropped_database = InvalidOid;
	xact_stats = NULL;
	dropped = NIL;
}

/*
 * commit_subxact gives the counts of the ending subtransaction to its parent. Must not
 * throw.
 */
static void
commit_subxact(void)
{
	int nest = GetCurrentTransactionNestLevel();
	DcXactStats **link = &xact_stats;

	while (*link != NULL && (*link)->nest == nest)
	{
		DcXactStats *stats = *link;
		DcXactStats *parent = xact_stats_find(stats->next, stats->counter,
											  nest - 1);

		if (parent != NULL)
		{
			xact_stats_merge(parent, stats);
			*link = stats->next;
			pfree(stats);
		}
		else
		{
			stats->nest--;
			link = &stats->next;
		}
	}
}

/*
 * abort_subxact forgets the counts of the ending subtransaction.
 */
static void
abort_subxact(void)
{
	int nest = GetCurrentTransactionNestLevel();

	while (xact_stats != NULL && xact_stats->nest >= nest)
	{
		DcXactStats *stats = xact_stats;

		xact_stats = stats->next;
		pfree(stats);
	}
}

/*
 * xact_stats_get returns the counts of the current subtransaction for a table.
 */
static DcXactStats *
xact_stats_get(DcCounter *counter)
{
	int nest = GetCurrentTransactionNestLevel();
	DcXactStats *stats = xact_stats_find(xact_stats, counter, nest);

	if (stats == NULL)
	{
		stats = MemoryContextAlloc(TopTransactionContext, sizeof(DcXactStats));
		*stats = (DcXactStats){.next = xact_stats, .counter = counter, .nest = nest};
		xact_mark(DC_XACT_STATS);
		xact_stats = stats;
	}
	return stats;
}

/*
 * xact_stats_find searches a list from some member on.
 */
static DcXactStats *
xact_stats_find(DcXactStats *from, DcCounter *counter, int nest)
{
	for (DcXactStats *stats = from;
		 stats != NULL && stats->nest >= nest; stats = stats->next)
	{
		if (stats->nest == nest && stats->counter == counter)
			return stats;
	}
	return NULL;
}

/*
 * Add counts to others of the same table; the later sweep wins.
 */
static void
xact_stats_merge(DcXactStats *into, const DcXactStats *from)
{
	for (int i = 0; i < DC_NUM_STATS; i++)
		into->counts[i] += from->counts[i];
	if (from->sweep.ended_at != 0) /* the later one */
		into->sweep = from->sweep;
}
