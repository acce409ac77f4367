/*
 * probe.c
 *		From a remembered place to the current version of a row of a key: a shard row, or
 *		the row of totals.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A hint holds the tuple id that an index entry of the row had. Most of the time the
 * live version is on that page, and is the one that we saw last, whose line the hint
 * holds too. If not, the links between versions lead to it (rowversions.c). Following
 * links keeps writes fast while an old snapshot prevents vacuum: the index then has an
 * entry for each page that the row was ever on, and its heap pages are full of dead
 * versions.
 *
 * A hint may be wrong. Whatever chain was followed, the version found counts only if the
 * snapshot sees it, and if it holds the key and the shard number that we look for. The
 * table's unique index allows one such row at a time. So it is the row. A write asks
 * for the live version, with a dirty snapshot (inserted by a committed transaction or
 * by us, not deleted by one); a read asks with its MVCC snapshot. A version that an
 * aborted update has left is not live. The chain leads from the root past it to the
 * one that is live, or ends, which costs an index look-up.
 *
 * A row that has moved across many pages since then is first looked up in shared memory
 * (sharedhints.c), as following the links may take a long time. So is one whose links have ended: a
 * row that was deleted may have been inserted again (again.c), and no link leads there.
 *
 * A free row's page is pinned from the check until the update. If another transaction
 * replaces the version in the meantime, the update says so.
 *
 * A dirty snapshot takes no predicate locks, so a blind increment is never the
 * reading side of a conflict between serializable transactions.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "utils/snapmgr.h"

#include "core/rows/probe.h"
#include "core/rows/sharedhints.h"

/* Versions to look at before a hint counts as stale. */
#define MAX_STEPS 100000

/* Pages to look at before looking for another hint. */
#define NEAR_PAGES 3

/* The version that a walk looks for. */
typedef struct DcWanted
{
	Snapshot snapshot; /* that sees the version */
	int steps;		   /* versions looked at */
	int max_pages;
	int pages; /* looked at; the last was */
	BlockNumber block;
} DcWanted;

static bool find_visible(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint,
						 Snapshot snapshot, DcVersion *version);
static bool find_elsewhere(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint,
						   Snapshot snapshot, DcVersion *version);
static bool find_from(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint,
					  OffsetNumber from, DcWanted *wanted, DcVersion *version);
static DcVersionStep keep_visible(DcVersion *version, void *arg);
static bool probe_is_inserting(Snapshot snapshot);

/*
 * probe_row looks for the live version of a shard row. If it is free, the row's
 * columns are in rel->values and probe->version is kept. The hint is moved forward to
 * the root that was found.
 */
DcProbeResult
probe_row(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint, DcProbe *probe)
{
	SnapshotData dirty;

	InitDirtySnapshot(dirty);
	/* this initializes the kind only, and there may be no version to look at */
	dirty.xmin = dirty.xmax = InvalidTransactionId;
	if (!find_visible(rel, key, hint, &dirty, &probe->version))
	{
		probe->xid = dirty.xmin;
		return DC_PROBE_GONE;
	}
	probe->xid = dirty.xmax;
	if (!TransactionIdIsValid(probe->xid))
		return DC_PROBE_FREE;
	version_release(&probe->version);
	return DC_PROBE_BUSY;
}

/*
 * probe_visible looks for the version of a shard row that is visible in an MVCC snapshot, and
 * reads its columns into rel->values. Returns false if it is not found from here: it may still
 * be there. Takes no predicate locks.
 */
bool
probe_visible(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint,
			  Snapshot snapshot)
{
	DcVersion version;

	if (!find_visible(rel, key, hint, snapshot, &version))
		return false;
	version_release(&version); /* the amounts are passed by value */
	return true;
}

/*
 * find_visible follows a hint to the version that is visible in a snapshot. If it is
 * the row wanted, the version is kept and the hint is moved forward. The
 * version seen last is a short cut; the root is where all of them can be found.
 */
static bool
find_visible(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint, Snapshot snapshot,
			 DcVersion *version)
{
	DcWanted wanted = {.snapshot = snapshot, .max_pages = NEAR_PAGES};
	OffsetNumber root = ItemPointerGetOffsetNumberNoCheck(&hint->root);
	bool at_end;

	if (hint->newest != InvalidOffsetNumber &&
		find_from(rel, key, hint, hint->newest, &wanted, version))
		return true;
	if (find_from(rel, key, hint, root, &wanted, version))
		return true;
	at_end = wanted.pages <= wanted.max_pages;
	if (find_elsewhere(rel, key, hint, snapshot, version))
		return true;
	if (at_end)
		return false; /* the links have been followed to their end */
	wanted.max_pages = PG_INT32_MAX;
	return find_from(rel, key, hint, root, &wanted, version);
}

/*
 * find_elsewhere looks for the version where all sessions are told that the row is.
 */
static bool
find_elsewhere(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint, Snapshot snapshot,
			   DcVersion *version)
{
	DcWanted wanted = {.snapshot = snapshot, .max_pages = NEAR_PAGES};
	DcHint other = *hint;
	ItemPointerData root;

	if (rel->table != DC_TABLE_SHARDS || !shared_hint_find(key, hint->shard, &root) ||
		ItemPointerEquals(&root, &hint->root))
		return false;
	hint_set(&other, &root, InvalidOffsetNumber, InvalidBuffer);
	if (!find_from(rel, key, &other, ItemPointerGetOffsetNumberNoCheck(&root), &wanted,
				   version))
		return false;
	*hint = other;
	return true;
}

/*
 * find_from follows a hint from one of the versions on its page on, over a limited number of
 * pages.
 */
static bool
find_from(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint, OffsetNumber from,
		  DcWanted *wanted, DcVersion *version)
{
	wanted->steps = 0;
	wanted->pages = 0;
	wanted->block = InvalidBlockNumber;
	if (!versions_walk(rel, hint, from, keep_visible, wanted, version))
		return false;
	if (probe_is_inserting(wanted->snapshot) ||
		!directrel_deform(rel, &version->tuple, key, hint->shard))
	{
		version_release(version);
		return false;
	}
	hint_set(hint, &version->root, ItemPointerGetOffsetNumber(&version->tuple.t_self),
			 version->buffer);
	return true;
}

/*
 * Keep the version that wanted->snapshot sees; stop after too many versions or pages.
 */
static DcVersionStep
keep_visible(DcVersion *version, void *arg)
{
	DcWanted *wanted = arg;
	BlockNumber block = ItemPointerGetBlockNumber(&version->tuple.t_self);

	wanted->pages += block != wanted->block;
	wanted->block = block;
	if (++wanted->steps >= MAX_STEPS || wanted->pages > wanted->max_pages)
		return VERSION_STOP;
	return HeapTupleSatisfiesVisibility(&version->tuple, wanted->snapshot, version->buffer) ? VERSION_KEEP : VERSION_NEXT;
}

/*
 * Return true if the version that a dirty snapshot has found is being
 * inserted by another transaction. If that is an update, the version before leads
 * to the row. If not, the row is not there yet, and must not be waited for.
 */
static bool
probe_is_inserting(Snapshot snapshot)
{
	return snapshot->snapshot_type == SNAPSHOT_DIRTY &&
		TransactionIdIsValid(snapshot->xmin);
}
