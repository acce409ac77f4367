/*
 * probe.c
 *		From a remembered place to the current version of a shard row.
 *
 * A hint holds the tuple id that an index entry of the row had: the root of a
 * HOT chain. Most of the time the live version is in that chain, and is the one that
 * we saw last, whose line the hint holds too. If the row has
 * moved to another page since, the end of the chain points to its next root, and
 * so on. Following these links is what keeps writes fast while an old snapshot
 * prevents vacuum: the index then holds an entry for each page that the row was
 * ever on, and its heap pages are full of dead versions.
 *
 * A hint may be arbitrarily wrong. Why that is harmless:
 *
 *	- The block may not exist: it is compared with the size of the relation. The
 *	  relation cannot shrink while we hold our lock on it (truncating and
 *	  rewriting need an exclusive lock), so a size read under the lock is never
 *	  too large.
 *	- The buffer may hold another page by now: ReadRecentBuffer() compares its tag.
 *	- The line pointer may be unused, dead, or belong to another row by now:
 *	  VACUUM, pruning, a rewrite of the table or a reused relation file did that.
 *	  Each line pointer is checked before it is followed, as for any index entry
 *	  (compare heap_hot_search_buffer() in heapam.c), and the number of steps is
 *	  bounded.
 *	- Whatever chain was followed, the version found counts only if the snapshot
 *	  sees it and it holds the key and the shard number that we look for. The
 *	  table's unique index allows one such row at a time. So it is the row. To
 *	  write we ask for the live version, with a dirty snapshot (inserted by a
 *	  committed transaction or by us, not deleted by one); to read, with the
 *	  reader's MVCC snapshot.
 *	- A version left by an aborted update is not live; the chain leads from the
 *	  root past it to the one that is, or ends, which costs an index look-up.
 *
 * The page is pinned from the check until the update, so that no pruning can
 * take the tuple away in between (it needs to be the only one with a pin). The
 * content of a version never changes; if another transaction replaces it in the
 * meantime, the update says so.
 *
 * A dirty snapshot takes no predicate locks, so a blind increment is never the
 * reading side of a conflict between serializable transactions.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "base/compat.h"
#include "miscadmin.h"
#include "rows/shardrel.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

/* Versions to look at before a hint counts as stale. */
#define MAX_STEPS 100000

/* Free bytes of a page at which dead versions are worth removing. */
#define PRUNE_BELOW (BLCKSZ / 4)

/* What walking along the versions of a row led to. */
typedef enum DcWalk
{
	WALK_VISIBLE,  /* the version that the snapshot sees */
	WALK_GONE,	   /* nothing that it sees, or another row */
	WALK_NEXT_PAGE /* go on there */
} DcWalk;

static DcWalk walk(DcShardRel *rel, const DcDeltaKey *key, DcHint *hint,
				   Snapshot snapshot, DcProbe *probe);
static DcWalk walk_from(DcShardRel *rel, const DcDeltaKey *key, DcHint *hint,
						ItemPointerData tid, Snapshot snapshot, DcProbe *probe);
static DcWalk walk_page(DcShardRel *rel, ItemPointer tid, bool at_root,
						TransactionId *xmax, Snapshot snapshot, DcProbe *probe,
						int *steps);
static void prune_if_full(DcShardRel *rel, Buffer buffer);
static bool is_inserting(Snapshot snapshot);
static Buffer read_page(DcShardRel *rel, BlockNumber block, Buffer recent);

/*
 * probe_row looks for the live version of a shard row. If it is free, the row's
 * columns are in rel->values and its page stays pinned in *probe. The hint is
 * moved forward to the root that was found.
 */
DcProbeResult
probe_row(DcShardRel *rel, const DcDeltaKey *key, DcHint *hint, DcProbe *probe)
{
	SnapshotData dirty;

	InitDirtySnapshot(dirty);
	switch (walk(rel, key, hint, &dirty, probe))
	{
		case WALK_VISIBLE:
			probe->xid = dirty.xmax;
			if (!TransactionIdIsValid(probe->xid))
				return DC_PROBE_FREE;
			probe_release(probe);
			return DC_PROBE_BUSY;
		default:
			return DC_PROBE_GONE;
	}
}

/*
 * probe_visible looks for the version of a shard row that is visible in an MVCC
 * snapshot, and reads its columns into rel->values. False if it is not found
 * from here: it may still be there. Takes no predicate locks.
 */
bool
probe_visible(DcShardRel *rel, const DcDeltaKey *key, DcHint *hint,
			  Snapshot snapshot)
{
	DcProbe probe;

	if (walk(rel, key, hint, snapshot, &probe) != WALK_VISIBLE)
		return false;
	probe_release(&probe); /* the amounts are passed by value */
	return true;
}

/*
 * walk follows a hint to the version that is visible in a snapshot. If it is
 * the row wanted, the page stays pinned and the hint is moved forward. The
 * version seen last is a short cut; the root is where all of them can be found.
 */
static DcWalk
walk(DcShardRel *rel, const DcDeltaKey *key, DcHint *hint, Snapshot snapshot,
	 DcProbe *probe)
{
	if (hint->newest != InvalidOffsetNumber)
	{
		ItemPointerData newest;

		ItemPointerSet(&newest, ItemPointerGetBlockNumberNoCheck(&hint->root),
					   hint->newest);
		if (walk_from(rel, key, hint, newest, snapshot, probe) == WALK_VISIBLE)
			return WALK_VISIBLE;
	}
	return walk_from(rel, key, hint, hint->root, snapshot, probe);
}

/*
 * walk_from follows a hint from one of the versions on its page on.
 */
static DcWalk
walk_from(DcShardRel *rel, const DcDeltaKey *key, DcHint *hint,
		  ItemPointerData tid, Snapshot snapshot, DcProbe *probe)
{
	ItemPointerData root = hint->root;
	TransactionId xmax = InvalidTransactionId;
	Buffer recent = hint->buffer;
	int steps = 0;

	for (;;)
	{
		bool at_root = ItemPointerIsValid(&root) && ItemPointerEquals(&tid, &root);
		DcWalk result;

		CHECK_FOR_INTERRUPTS();
		probe->buffer = read_page(rel, ItemPointerGetBlockNumberNoCheck(&tid),
								  recent);
		recent = InvalidBuffer;
		if (!BufferIsValid(probe->buffer))
			return WALK_GONE;
		prune_if_full(rel, probe->buffer);
		LockBuffer(probe->buffer, BUFFER_LOCK_SHARE);
		result = walk_page(rel, &tid, at_root, &xmax, snapshot, probe, &steps);
		LockBuffer(probe->buffer, BUFFER_LOCK_UNLOCK);

		if (result == WALK_VISIBLE && !is_inserting(snapshot) &&
			shardrel_deform(rel, &probe->tuple, key, hint->shard))
		{
			hint_set(hint, &root, ItemPointerGetOffsetNumber(&probe->tuple.t_self),
					 probe->buffer);
			return WALK_VISIBLE;
		}
		probe_release(probe);
		if (result != WALK_NEXT_PAGE)
			return WALK_GONE;
		root = tid;
	}
}

/*
 * is_inserting tells whether the version that a dirty snapshot has found is being
 * inserted by another transaction. If that is an update, the version before leads
 * to the row; if not, the row is not there yet, and nobody may wait for it.
 */
static bool
is_inserting(Snapshot snapshot)
{
	return snapshot->snapshot_type == SNAPSHOT_DIRTY &&
		TransactionIdIsValid(snapshot->xmin);
}

/*
 * read_page pins a page of the heap, or returns InvalidBuffer if there is no
 * such page. If `recent` still holds it, neither the buffer table nor the size of
 * the file has to be looked at. Now and then it is read in the ordinary way: only
 * that counts as a use of the buffer, without which it would be evicted early.
 */
static Buffer
read_page(DcShardRel *rel, BlockNumber block, Buffer recent)
{
	static uint8 uses = 0;

	if (++uses % 16 != 0 && compat_read_recent_buffer(rel->heap, block, recent))
		return recent;
	if (block >= rel->nblocks)
	{
		rel->nblocks = RelationGetNumberOfBlocks(rel->heap);
		if (block >= rel->nblocks)
			return InvalidBuffer;
	}
	return ReadBuffer(rel->heap, block);
}

/*
 * prune_if_full removes dead versions from a page that is pinned, when it gets
 * full. The fillfactor of a shard table makes room for versions; the server would
 * prune as soon as they use it, a few at a time, with a WAL record each time.
 */
static void
prune_if_full(DcShardRel *rel, Buffer buffer)
{
	Page page = BufferGetPage(buffer);

	/* without a lock: a wrong answer does no harm (see heap_page_prune_opt()) */
	if (PageIsFull(page) || PageGetHeapFreeSpace(page) < PRUNE_BELOW)
		heap_page_prune_opt(rel->heap, buffer);
}

/*
 * probe_release unpins the page of a row.
 */
void
probe_release(DcProbe *probe)
{
	ReleaseBuffer(probe->buffer);
	probe->buffer = InvalidBuffer;
}

/*
 * walk_page follows the versions on one page, which is pinned and locked, from
 * *tid on, which is a root if at_root. *xmax is the xmax of the version before, if
 * there was one. If the versions lead to another page, *tid and *xmax are set for it.
 */
static DcWalk
walk_page(DcShardRel *rel, ItemPointer tid, bool at_root, TransactionId *xmax,
		  Snapshot snapshot, DcProbe *probe, int *steps)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	HeapTuple tuple = &probe->tuple;

	while (++*steps < MAX_STEPS)
	{
		if (!version_fetch(rel, probe->buffer, offset, at_root, xmax, tuple))
			return WALK_GONE;
		if (HeapTupleSatisfiesVisibility(tuple, snapshot, probe->buffer))
			return WALK_VISIBLE;
		/* Not this one. Where did its update, if any, put the next version? */
		if (!version_has_next(tuple, xmax))
			return WALK_GONE;
		if (!HeapTupleIsHotUpdated(tuple))
		{
			*tid = tuple->t_data->t_ctid;
			return WALK_NEXT_PAGE;
		}
		offset = ItemPointerGetOffsetNumber(&tuple->t_data->t_ctid);
		at_root = false;
	}
	return WALK_GONE;
}

/*
 * version_fetch points a tuple at a version on a page that is pinned and locked;
 * false if there is none, or not the one that follows a version with this xmax.
 */
bool
version_fetch(DcShardRel *rel, Buffer buffer, OffsetNumber offset,
			  bool at_root, TransactionId *xmax, HeapTuple tuple)
{
	Page page = BufferGetPage(buffer);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	ItemId lp;

	if (offset < FirstOffsetNumber || offset > max)
		return false;
	lp = PageGetItemId(page, offset);
	if (ItemIdIsRedirected(lp) && at_root)
	{
		/* versions in between were pruned, and the link with them */
		offset = ItemIdGetRedirect(lp);
		at_root = false;
		*xmax = InvalidTransactionId;
		if (offset < FirstOffsetNumber || offset > max)
			return false;
		lp = PageGetItemId(page, offset);
	}
	if (!ItemIdIsNormal(lp))
		return false;
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, lp);
	tuple->t_len = ItemIdGetLength(lp);
	tuple->t_tableOid = RelationGetRelid(rel->heap);
	ItemPointerSet(&tuple->t_self, BufferGetBlockNumber(buffer), offset);
	if (at_root && HeapTupleIsHeapOnly(tuple))
		return false;
	return !TransactionIdIsValid(*xmax) ||
		TransactionIdEquals(*xmax, HeapTupleHeaderGetXmin(tuple->t_data));
}

/*
 * version_has_next tells whether a version was updated, and sets *xmax to who did.
 * The next one is where its t_ctid says.
 */
bool
version_has_next(HeapTuple tuple, TransactionId *xmax)
{
	if ((tuple->t_data->t_infomask & HEAP_XMAX_INVALID) ||
		HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_data->t_infomask) ||
		HeapTupleHeaderIndicatesMovedPartitions(tuple->t_data) ||
		ItemPointerEquals(&tuple->t_self, &tuple->t_data->t_ctid))
		return false;
	*xmax = HeapTupleHeaderGetUpdateXid(tuple->t_data);
	return true;
}

/*
 * shardrel_deform reads a tuple into rel->values and checks that it is the row
 * wanted.
 */
bool
shardrel_deform(DcShardRel *rel, HeapTuple tuple, const DcDeltaKey *key,
				int32 shard)
{
	const AttrNumber *atts = rel->counter->shards.atts;
	struct varlena *value;

	heap_deform_tuple(tuple, RelationGetDescr(rel->heap), rel->values,
					  rel->nulls);
	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		if (atts[i] != InvalidAttrNumber && rel->nulls[atts[i] - 1])
			return false; /* no row of ours: whoever reads it by the index says so */
	}
	if (DatumGetInt32(rel->values[atts[DC_COL_SHARD] - 1]) != shard)
		return false;
	value = (struct varlena *) DatumGetPointer(rel->values[atts[DC_COL_KEY] - 1]);
	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		value = pg_detoast_datum_packed(value);
	return VARSIZE_ANY_EXHDR(value) == key->len &&
		memcmp(VARDATA_ANY(value), key->data, key->len) == 0;
}
