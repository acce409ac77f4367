/*
 * rowversions.c
 *		Walking along the versions of a shard row, or of a row of totals.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A row's versions are linked, the older to the newer. On one page they are a HOT
 * chain, whose root is where an index entry of the row points. If the row has moved
 * to another page since, the end of the chain points to its next root, and so on.
 * A walk begins at a root, or at a version on the root's page that was seen before,
 * and shows each version to a callback, until that has found the one that it looks for or
 * the links end. This is the only place that follows links.
 *
 * Pins and locks. A walk has one page at a time: it is pinned, pruned if it is full,
 * and its content locked (shared) while versions on it are visited. Lock and pin are
 * given up before the next page is read. A callback that returns VERSION_KEEP ends
 * the walk: the lock is given up, and the pin left to the caller, which must release it
 * (version_release).
 *
 *	- Within the callback, the version's header and columns may be read, its
 *	  visibility tested (which may set hint bits), and transactions be looked up. The
 *	  callback must not lock or pin a buffer of the table, wait for a transaction, or
 *	  write. (Reading a key that is stored out of line, as an owner may have it, goes to
 *	  the TOAST table with the lock held; so better keep the version first.)
 *	- Of a version that is kept, columns may be read without the lock: they never change, and
 *	  the pin keeps pruning, which needs to be the only one with a pin, from taking the version
 *	  away. The header may change. To test visibility again takes the lock (version_is_visible).
 *	  Whether the version is still the latest is known only when an update of it succeeds.
 *
 * Where a walk begins may be arbitrarily wrong. Why that is harmless:
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
 *	- So the walk may be along the versions of another row. The callback, or the
 *	  caller that gets a version from it, compares key and number (directrel_deform).
 *
 * Nothing between a version that was live when our snapshot was taken and the newest one
 * can be removed while we have the snapshot: from there a walk always gets to the end.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "base/compat.h"
#include "core/rows/rowversions.h"

/* Pages to look at in one walk. */
#define MAX_PAGES 100000

/*
 * Free bytes of a page at which dead versions are worth removing. A page of totals has many
 * rows, and little room by its fillfactor.
 */
#define PRUNE_SHARDS_BELOW (BLCKSZ / 4)
#define PRUNE_TOTALS_BELOW (BLCKSZ / 16)

static Buffer read_page(DcDirectRel *rel, BlockNumber block, Buffer recent);
static void prune_if_full(DcDirectRel *rel, Buffer buffer);
static DcVersionStep walk_page(DcVersion *version, ItemPointer tid,
							   TransactionId *xmax, DcVersionVisit visit, void *arg);
static bool versions_fetch(DcVersion *version, OffsetNumber offset, bool at_root,
						   TransactionId *xmax);
static bool has_next(HeapTuple tuple, TransactionId *xmax);
static int64 needed_on_page(Relation rel, Buffer buffer, TransactionId horizon);

/*
 * versions_walk shows a callback the versions of the row that a hint leads to, from line `from`
 * of its page on: that of the root, or of a version seen before. Returns true if the callback
 * has kept one, which then is *version.
 */
bool
versions_walk(DcDirectRel *rel, const DcHint *hint, OffsetNumber from,
			  DcVersionVisit visit, void *arg, DcVersion *version)
{
	ItemPointerData tid = hint->root;
	TransactionId xmax = InvalidTransactionId;
	Buffer recent = hint->buffer;

	version->root = hint->root;
	version->tuple.t_tableOid = RelationGetRelid(rel->heap);
	ItemPointerSetOffsetNumber(&tid, from);
	for (int pages = 0; pages < MAX_PAGES; pages++)
	{
		DcVersionStep step;

		CHECK_FOR_INTERRUPTS();
		version->buffer = read_page(rel, ItemPointerGetBlockNumberNoCheck(&tid), recent);
		if (!BufferIsValid(version->buffer))
			return false;
		prune_if_full(rel, version->buffer);
		LockBuffer(version->buffer, BUFFER_LOCK_SHARE);
		step = walk_page(version, &tid, &xmax, visit, arg);
		LockBuffer(version->buffer, BUFFER_LOCK_UNLOCK);
		if (step == VERSION_KEEP)
			return true;
		version_release(version);
		if (step == VERSION_STOP)
			return false;
		version->root = tid;
		recent = InvalidBuffer;
	}
	return false;
}

/*
 * version_is_visible tests whether a snapshot sees a version that was kept.
 */
bool
version_is_visible(DcVersion *version, Snapshot snapshot)
{
	bool visible;

	LockBuffer(version->buffer, BUFFER_LOCK_SHARE);
	visible = HeapTupleSatisfiesVisibility(&version->tuple, snapshot, version->buffer);
	LockBuffer(version->buffer, BUFFER_LOCK_UNLOCK);
	return visible;
}

/*
 * version_release unpins the page of a version that was kept.
 */
void
version_release(DcVersion *version)
{
	ReleaseBuffer(version->buffer);
	version->buffer = InvalidBuffer;
}

/*
 * read_page pins a page of the heap, or returns InvalidBuffer if there is no
 * such page. If `recent` still holds it, neither the buffer table nor the size of
 * the file has to be checked. Now and then it is read in the ordinary way: only that counts as a
 * use of the buffer, without which it would be evicted early.
 */
static Buffer
read_page(DcDirectRel *rel, BlockNumber block, Buffer recent)
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
 * full. The fillfactor makes room for versions; the server would
 * prune as soon as they use it, a few at a time, with a WAL record each time.
 */
static void
prune_if_full(DcDirectRel *rel, Buffer buffer)
{
	Page page = BufferGetPage(buffer);
	Size below = rel->table == DC_TABLE_TOTALS ? PRUNE_TOTALS_BELOW : PRUNE_SHARDS_BELOW;

	/* without a lock: a wrong answer does no harm (see heap_page_prune_opt()) */
	if (PageIsFull(page) || PageGetHeapFreeSpace(page) < below)
		compat_heap_page_prune(rel->heap, buffer);
}

/*
 * walk_page visits the versions on one page, which is pinned and locked, from *tid
 * on. *xmax is the xmax of the version before, if there was one. If the result is VERSION_NEXT, the
 * versions continue at *tid, after *xmax.
 */
static DcVersionStep
walk_page(DcVersion *version, ItemPointer tid, TransactionId *xmax,
		  DcVersionVisit visit, void *arg)
{
	HeapTuple tuple = &version->tuple;
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	bool at_root = offset == ItemPointerGetOffsetNumberNoCheck(&version->root);

	/* more steps than lines would be a circle */
	for (int steps = 0; steps < MaxHeapTuplesPerPage; steps++)
	{
		DcVersionStep step;

		if (!versions_fetch(version, offset, at_root, xmax))
			return VERSION_STOP;
		step = visit(version, arg);
		if (step != VERSION_NEXT)
			return step;
		if (!has_next(tuple, xmax))
			return VERSION_STOP;
		if (!HeapTupleIsHotUpdated(tuple))
		{
			*tid = tuple->t_data->t_ctid;
			return VERSION_NEXT;
		}
		offset = ItemPointerGetOffsetNumber(&tuple->t_data->t_ctid);
		at_root = false;
	}
	return VERSION_STOP;
}

/*
 * versions_fetch sets the version to the one on a line; false if there is none, or not the one
 * that follows a version with this xmax.
 */
static bool
versions_fetch(DcVersion *version, OffsetNumber offset, bool at_root, TransactionId *xmax)
{
	Page page = BufferGetPage(version->buffer);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	HeapTuple tuple = &version->tuple;
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
	ItemPointerSet(&tuple->t_self, BufferGetBlockNumber(version->buffer), offset);
	if (at_root && HeapTupleIsHeapOnly(tuple))
		return false;
	return !TransactionIdIsValid(*xmax) ||
		TransactionIdEquals(*xmax, HeapTupleHeaderGetXmin(tuple->t_data));
}

/*
 * Return true if a version was updated, and sets *xmax to the transaction that
 * did so. Its t_ctid says where the next version is.
 */
static bool
has_next(HeapTuple tuple, TransactionId *xmax)
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
 * Count the versions in a table that are not dead to everybody, until there are more than
 * `limit`. If the count is not complete by `end`, return a number above the limit.
 */
int64
versions_needed(Relation rel, int64 limit, DcMoment end)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	TransactionId horizon = GetOldestNonRemovableTransactionId(rel);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	int64 needed = 0;

	for (BlockNumber block = 0; block < blocks && needed <= limit; block++)
	{
		Buffer buffer;

		CHECK_FOR_INTERRUPTS();
		if (moment_is_reached(end))
			needed = limit + 1;
		buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		needed += needed_on_page(rel, buffer, horizon);
		UnlockReleaseBuffer(buffer);
	}
	FreeAccessStrategy(strategy);
	return needed;
}

/*
 * Count the versions on a page, which is locked, that are not dead to everybody.
 */
static int64
needed_on_page(Relation rel, Buffer buffer, TransactionId horizon)
{
	Page page = BufferGetPage(buffer);
	int64 needed = 0;

	if (PageIsNew(page))
		return 0;
	for (OffsetNumber line = FirstOffsetNumber; line <= PageGetMaxOffsetNumber(page); line++)
	{
		ItemId item = PageGetItemId(page, line);
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(rel);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), line);
		needed += HeapTupleSatisfiesVacuum(&tuple, horizon, buffer) != HEAPTUPLE_DEAD;
	}
	return needed;
}
