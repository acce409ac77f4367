/*
 * shrink.c
 *		Freeing the space of a shard table that is nearly empty.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Increments of a million new keys, in one transaction, make a million shard rows. A minute
 * later compaction has deleted them, and hundreds of megabytes without a row are left, with
 * an index. VACUUM would not change that soon: it does not make an index smaller, and it
 * truncates the table only if there happens to be no row at its end. Autovacuum is told not to
 * try (create.c), because it would truncate small tables all the time.
 *
 * So the worker rewrites such a table, as VACUUM FULL does, when it has swept it:
 *
 *	1. The table is of some size, but not so large that reading it takes a long time.
 *	2. All its pages are read, without a lock that anybody would notice. Every row counts that
 *	   is not dead to every snapshot. There must not be more such rows than pages. Reading ends
 *	   as soon as there are more; in a table that is in use, or while an old snapshot needs the
 *	   deleted rows, that is after a twentieth of the pages. It also ends when it takes too long.
 *	3. The table is locked exclusively, if the lock is free at once, so that no session queues
 *	   behind us. Sessions that come while the table is rewritten do wait: for a few
 *	   tenths of a second, since only some rows are left, and their pages were just read.
 *	4. cluster_rel() copies the rows that snapshots may need, with what they need to know, to
 *	   new files, and rebuilds the index. It does that as the owner, in a security-restricted
 *	   operation; only tables with nothing but our index get here, so no code of the owner's runs.
 *
 * All is in a transaction of its own, so an error or a crash leaves the table as it was. A table
 * that could not be rewritten is left alone for a while, which doubles each time.
 *
 * Only the worker does this: dc_maintain() may be in a transaction of its user's, which would
 * keep the lock.
 */
#include "postgres.h"

#include "access/table.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "core/compact/shrink.h"
#include "core/rows/rowversions.h"
#include "core/table/layout.h"

/*
 * us: reading that takes longer is ended, as the worker has other tables, and rewriting would take
 * as long.
 */
#define READ_MAX (INT64CONST(1000) * 1000)

/* Blocks: from 8 MB, where VACUUM's own limit for cutting off a table's end is, to 1 GB. */
#define MIN_BLOCKS 1024
#define MAX_BLOCKS 131072

#define PAUSE_MIN (INT64CONST(1000) * 1000)
#define PAUSE_MAX (INT64CONST(60) * 1000 * 1000)

/* A table that could not be rewritten. */
typedef struct DcShrinkPause
{
	Oid shards;
	int64 pause; /* us */
	DcMoment until;
} DcShrinkPause;

/* They are in TopMemoryContext; shrink_is_due() removes those whose table is small now. */
static List *pauses = NIL;

static BlockNumber shard_blocks(DcCounter *counter);
static bool is_nearly_empty(Oid relid);
static DcShrinkPause *find_pause(Oid shards);
static void note_pause(Oid shards);

/*
 * Return true if a step should look at the space of a counter's shard table,
 * which is locked. It costs next to nothing.
 */
bool
shrink_is_due(DcCounter *counter)
{
	BlockNumber blocks = counter->direct_write ? shard_blocks(counter) : 0;
	DcShrinkPause *entry = find_pause(counter->row.shards);

	if (blocks >= MIN_BLOCKS && blocks <= MAX_BLOCKS)
		return entry == NULL || moment_is_reached(entry->until);
	if (entry != NULL)
	{
		pauses = list_delete_ptr(pauses, entry);
		pfree(entry);
	}
	return false;
}

/*
 * shrink_shards rewrites the shard table, if it is nearly empty, and not in use. This
 * transaction does nothing else.
 */
void
shrink_shards(DcCounter *counter)
{
	Oid shards = counter->row.shards;

	note_pause(shards); /* whether it succeeds or not */
	if (!is_nearly_empty(shards) ||
		!ConditionalLockRelationOid(shards, AccessExclusiveLock))
		return;
	/* it may have been altered since */
	if (!counter_has_layout(counter) || counter->row.shards != shards || !counter->direct_write)
		return;
	ereport(DEBUG1,
			(errmsg_internal("rewriting shard table \"%s\" of %u blocks, which is nearly empty",
							 get_rel_name(shards), shard_blocks(counter))));
	compat_rewrite_table(shards);
}

/*
 * Return the number of blocks of a counter's shard table, which is locked.
 */
static BlockNumber
shard_blocks(DcCounter *counter)
{
	Relation rel = table_open_present(counter->row.shards, NoLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);

	table_close(rel, NoLock);
	return blocks;
}

/*
 * Return true if a table has no more rows that a snapshot may need than pages.
 */
static bool
is_nearly_empty(Oid relid)
{
	Relation rel = table_open_present(relid, NoLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	bool empty = versions_needed(rel, blocks, moment_in(READ_MAX / 1000)) <= blocks;

	table_close(rel, NoLock);
	return empty;
}

/*
 * Return the entry of a shard table that is left alone for a while, or NULL.
 */
static DcShrinkPause *
find_pause(Oid shards)
{
	ListCell *lc;

	foreach(lc, pauses)
	{
		if (((DcShrinkPause *) lfirst(lc))->shards == shards)
			return lfirst(lc);
	}
	return NULL;
}

/*
 * note_pause notes that a table is to be left alone for a while.
 */
static void
note_pause(Oid shards)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	DcShrinkPause *entry = find_pause(shards);

	if (entry == NULL)
	{
		entry = palloc0(sizeof(DcShrinkPause));
		entry->shards = shards;
		pauses = lappend(pauses, entry);
	}
	entry->pause = Min(Max(entry->pause * 2, PAUSE_MIN), PAUSE_MAX);
	entry->until = moment_after(moment_now(), entry->pause);
	MemoryContextSwitchTo(old);
}
