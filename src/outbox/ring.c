/*
 * ring.c
 *		The ring of partitions of the outbox.
 *
 * Events are written to one partition, the current one; when it is rotated, to the
 * next. A partition that all consumers have passed is truncated, so no event is
 * ever deleted row by row, and no vacuum has to follow.
 *
 * Which partition is current is a hint: a session may have it from before a
 * rotation, and write where others no longer do. So a reader looks at all
 * partitions and merges them by number, and a partition is truncated only after its
 * last event was seen, under the lock for that, to be one that all consumers have passed
 * (table/partition.c).
 *
 * Rotation goes to an empty partition only. If the ring is full since a consumer is slow,
 * the current partition grows instead.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/rowread.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "outbox/outbox.h"
#include "outbox/ring.h"
#include "storage/lmgr.h"
#include "table/partition.h"
#include "table/protect.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Columns of dcounter.outbox_ring */
enum
{
	RING_CURRENT = 1,
	RING_SINCE
};

/* What this backend knows; forgotten when one of the relations changes. */
static struct
{
	Oid table;
	Oid sequence;
	Oid ring;
	Oid partitions[OUTBOX_PARTITIONS];
	int current; /* -1: not known */
	TimestampTz since;
} known;

static void invalidate(Datum arg, Oid relid);
static Oid lookup(const char *name);
static void read_current(void);

/*
 * ring_init registers the invalidation callback; called once.
 */
void
ring_init(void)
{
	memset(&known, 0, sizeof(known));
	known.current = -1;
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
}

static void
invalidate(Datum arg, Oid relid)
{
	bool ours = !OidIsValid(relid) || relid == known.table ||
		relid == known.sequence || relid == known.ring;

	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
		ours |= relid == known.partitions[i];
	if (ours)
	{
		memset(&known, 0, sizeof(known));
		known.current = -1;
	}
}

/*
 * outbox_relation finds one of the room's relations.
 */
Oid
outbox_relation(const char *name)
{
	Oid *place = NULL;

	if (strcmp(name, OUTBOX_SEQUENCE) == 0)
		place = &known.sequence;
	else if (strcmp(name, OUTBOX_RING) == 0)
		place = &known.ring;
	else if (strcmp(name, OUTBOX_TABLE) == 0)
		place = &known.table;
	if (place == NULL)
		return lookup(name);
	if (!OidIsValid(*place))
	{
		Oid found = lookup(name);

		*place = found; /* lookups may have invalidated what was known */
	}
	return *place;
}

/*
 * outbox_partition finds a partition.
 */
Oid
outbox_partition(int number)
{
	if (!OidIsValid(known.partitions[number]))
	{
		char name[NAMEDATALEN];
		Oid found;

		snprintf(name, sizeof(name), OUTBOX_TABLE "_%d", number);
		found = lookup(name);
		known.partitions[number] = found;
	}
	return known.partitions[number];
}

static Oid
lookup(const char *name)
{
	Oid schema = get_namespace_oid("dcounter", true);
	Oid relid = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"dcounter.%s\" does not exist", name),
				 errhint("Is the extension dcounter created in this database?")));
	return relid;
}

/*
 * outbox_current returns the number of the current partition.
 */
int
outbox_current(TimestampTz *since)
{
	if (known.current < 0)
	{
		(void) outbox_relation(OUTBOX_RING);
		read_current();
	}
	if (since != NULL)
		*since = known.since;
	return known.current;
}

/*
 * read_current reads the only row of dcounter.outbox_ring. A read may miss a row
 * that is being replaced just then, so it is looked for once more; and without a
 * row any partition will do.
 */
static void
read_current(void)
{
	int current = 0;
	TimestampTz since = 0;
	bool found = false;

	for (int i = 0; i < 2 && !found; i++)
	{
		Relation rel = table_open(outbox_relation(OUTBOX_RING), AccessShareLock);
		SysScanDesc scan = systable_beginscan(rel, InvalidOid, false,
											  SnapshotSelf, 0, NULL);
		HeapTuple tuple = systable_getnext(scan);

		found = HeapTupleIsValid(tuple);
		if (found)
		{
			current = DatumGetInt32(tuple_datum(rel, tuple, RING_CURRENT, INT4OID));
			since = DatumGetTimestampTz(tuple_datum(rel, tuple, RING_SINCE, TIMESTAMPTZOID));
		}
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
	}
	known.current = (uint32) current % OUTBOX_PARTITIONS;
	known.since = since;
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
 * or if somebody else is rotating.
 */
bool
ring_rotate(void)
{
	Oid ring = outbox_relation(OUTBOX_RING);
	int next;
	Relation rel;
	SysScanDesc scan;
	HeapTuple tuple;
	bool rotated = false;

	if (!turn_begin(ring))
		return false;
	next = (outbox_current(NULL) + 1) % OUTBOX_PARTITIONS;
	if (!relation_is_empty(outbox_partition(next)))
		return false;
	rel = table_open(ring, RowExclusiveLock);
	scan = systable_beginscan(rel, InvalidOid, false, SnapshotSelf, 0, NULL);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Datum values[2];
		bool nulls[2] = {false, false};
		bool replace[2] = {true, true};
		HeapTuple copy;

		values[RING_CURRENT - 1] = Int32GetDatum(next);
		values[RING_SINCE - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
		copy = heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls,
								 replace);
		CatalogTupleUpdate(rel, &tuple->t_self, copy);
		CacheInvalidateRelcacheByRelid(ring);
		rotated = true;
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
	CommandCounterIncrement();
	return rotated;
}

/*
 * ring_edge_op returns the number of a partition's first or last event, as the
 * direction says, 0 if it has none; and when it was written, if created_at is not NULL.
 */
int64
ring_edge_op(Relation partition, ScanDirection direction, TimestampTz *created_at)
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
	rel = table_open(relid, NoLock);
	last = ring_edge_op(rel, BackwardScanDirection, NULL);
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
