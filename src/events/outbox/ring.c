/*
 * ring.c
 *		The ring of partitions of the outbox.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Events are written to one partition, the current one; when it is rotated, to the
 * next. A partition that all consumers have passed is truncated, so no event is
 * ever deleted row by row, and no vacuum has to follow.
 *
 * Which partition is current is a hint: a session may have it from before a
 * rotation, and write where others no longer do. So a reader looks at all
 * partitions and merges them by number, and a partition is truncated only after its
 * last event was seen, under the lock for that, to be one that all consumers have passed
 * (core/table/partition.c).
 *
 * Rotation goes to an empty partition only. If the ring is full because a consumer is slow, the
 * current partition grows instead.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/catrow.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "core/table/partition.h"
#include "core/table/protect.h"
#include "events/outbox/outbox.h"
#include "events/outbox/ring.h"

/* The only row of dcounter.outbox_ring, and where it is. */
typedef struct DcRing
{
	int32 current;
	TimestampTz since;
	ItemPointerData tid;
} DcRing;

static void ring_columns(DcCatRow *io, void *data);

static const DcCatalog catalog = {
	.table = OUTBOX_RING,
	.size = sizeof(DcRing),
	.columns = ring_columns,
	.keeps_lock = true,
};

/* The row as this backend knows it; forgotten when the table changes. */
static struct
{
	Oid table;
	DcRing ring;
} known;

static void ring_invalidate(Oid relid);
static bool read_ring(DcRing *ring);

/*
 * Read or write the columns of the ring's row, in their order.
 */
static void
ring_columns(DcCatRow *io, void *data)
{
	DcRing *ring = data;

	cat_int4(io, &ring->current);
	cat_time(io, &ring->since);
	if (io->reading)
		ring->tid = io->tid;
}

/*
 * ring_init registers the invalidation callback; called once.
 */
void
ring_init(void)
{
	relcached_on_change(ring_invalidate);
}

/*
 * Forget which partition is current when the ring's table has changed.
 */
static void
ring_invalidate(Oid relid)
{
	if (!OidIsValid(relid) || relid == known.table)
		known.table = InvalidOid;
}

/*
 * outbox_partition finds a partition.
 */
Oid
outbox_partition(int number)
{
	char name[NAMEDATALEN];

	snprintf(name, sizeof(name), OUTBOX_TABLE "_%d", number);
	return catalog_relation(name);
}

/*
 * outbox_current returns the number of the current partition. Without a row, any partition will do.
 */
int
outbox_current(TimestampTz *since)
{
	if (!OidIsValid(known.table))
	{
		uint64 changes = relcached_changes();
		Oid table = catalog_relation(OUTBOX_RING);
		DcRing ring;

		(void) read_ring(&ring);
		known.ring = ring;
		if (changes == relcached_changes())
			known.table = table; /* else it is read again the next time */
	}
	if (since != NULL)
		*since = known.ring.since;
	return (uint32) known.ring.current % OUTBOX_PARTITIONS;
}

/*
 * read_ring reads the row. A read may miss it while it is being replaced, so it is searched for
 * again. Returns false, and all zeros, if there is none.
 */
static bool
read_ring(DcRing *ring)
{
	bool found = false;

	memset(ring, 0, sizeof(*ring));
	for (int i = 0; i < 2 && !found; i++)
	{
		DcCatScan scan;

		cat_scan_begin(&scan, &catalog, NULL, AccessShareLock, NULL, 0);
		found = cat_scan_next(&scan, ForwardScanDirection, ring);
		cat_scan_end(&scan);
	}
	return found;
}

/*
 * ring_seq_index finds the index on the number of a partition's events.
 */
Oid
ring_seq_index(Relation partition)
{
	List *indexes = RelationGetIndexList(partition);
	Oid found = InvalidOid;
	ListCell *lc;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
			index->rd_index->indnkeyatts == 1 &&
			index->rd_index->indkey.values[0] == OUTBOX_SEQ &&
			index->rd_indoption[0] == 0 &&
			RelationGetIndexPredicate(index) == NIL)
			found = lfirst_oid(lc);
		index_close(index, AccessShareLock);
		if (OidIsValid(found))
			break;
	}
	list_free(indexes);
	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" has no index on seq",
						RelationGetRelationName(partition))));
	return found;
}

/*
 * ring_rotate makes the next partition the current one; false if that has events,
 * or if another session is rotating.
 */
bool
ring_rotate(void)
{
	Oid table = catalog_relation(OUTBOX_RING);
	DcRing ring;

	if (!turn_begin(table) || !read_ring(&ring))
		return false;
	ring.current = ((uint32) ring.current + 1) % OUTBOX_PARTITIONS;
	if (!relation_is_empty(outbox_partition(ring.current)))
		return false;
	ring.since = GetCurrentTimestamp();
	cat_store_at(&catalog, &ring.tid, &ring);
	relation_invalidate(table);
	return true;
}

/*
 * ring_edge_event returns the number of a partition's first or last event, depending on the
 * direction, 0 if it has none; and when it was written, if created_at is not NULL.
 */
int64
ring_edge_event(Relation partition, ScanDirection direction, TimestampTz *created_at)
{
	Relation index = index_open(ring_seq_index(partition), AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(partition, index, SnapshotSelf,
												  0, NULL);
	HeapTuple tuple = systable_getnext_ordered(scan, direction);
	int64 seq = 0;

	if (HeapTupleIsValid(tuple))
	{
		seq = DatumGetInt64(tuple_datum(partition, tuple, OUTBOX_SEQ, INT8OID));
		if (created_at != NULL)
			*created_at = DatumGetTimestampTz(tuple_datum(partition, tuple, OUTBOX_CREATED_AT,
														  TIMESTAMPTZOID));
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	return seq;
}

/*
 * ring_lock_to_truncate locks a partition and returns the number of its last event;
 * -1 if it is in use.
 */
int64
ring_lock_to_truncate(int number)
{
	Oid relid = outbox_partition(number);
	Relation rel;
	int64 last;

	if (!partition_lock_at_once(relid))
		return -1;
	rel = table_open_present(relid, NoLock);
	last = ring_edge_event(rel, BackwardScanDirection, NULL);
	table_close(rel, NoLock);
	return last;
}

/*
 * ring_unlock gives up truncating.
 */
void
ring_unlock(int number)
{
	UnlockRelationOid(outbox_partition(number), AccessExclusiveLock);
}
