/*
 * reader.c
 *		Reading events in the order of their numbers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The partitions are merged: each is read by its index, and the one with the
 * lowest number comes first. Most of the ring is empty, and skipped.
 *
 * Events are read with SnapshotSelf, as they are now: up to the horizon all are
 * settled, so it shows the same as any snapshot taken later. A transaction's own
 * snapshot may be older than the events, and the read is no concern of serializable transactions.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/relopen.h"
#include "base/rowread.h"
#include "events/outbox/outbox.h"
#include "events/outbox/ring.h"

typedef struct Source
{
	Relation heap;
	Relation index;
	SysScanDesc scan;
	HeapTuple tuple; /* the next */
	int64 seq;
} Source;

struct DcReader
{
	MemoryContext cxt; /* of the scans, which allocate as they go on */
	int nsources;
	int current; /* whose event was returned last, or -1 */
	Source sources[OUTBOX_PARTITIONS];
};

static void source_open(DcReader *reader, Relation heap, int64 after, int64 upto);
static void source_next(Source *source);

/*
 * reader_begin starts reading the events with after < seq <= upto, which is not
 * beyond the horizon.
 */
DcReader *
reader_begin(int64 after, int64 upto)
{
	DcReader *reader = palloc(sizeof(DcReader));

	reader->cxt = CurrentMemoryContext;
	reader->nsources = 0;
	reader->current = -1;
	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
	{
		Relation heap = table_open_present(outbox_partition(i), AccessShareLock);

		if (RelationGetNumberOfBlocks(heap) == 0)
			table_close(heap, AccessShareLock);
		else
			source_open(reader, heap, after, upto);
	}
	return reader;
}

/*
 * Open a partition to read the events after a number and up to another, and read the first one.
 */
static void
source_open(DcReader *reader, Relation heap, int64 after, int64 upto)
{
	Source *source = &reader->sources[reader->nsources++];
	ScanKeyData keys[2];

	if (RelationGetDescr(heap)->natts != OUTBOX_NUM_COLUMNS)
		elog(ERROR, "table \"%s\" has columns of its own",
			 RelationGetRelationName(heap));
	ScanKeyInit(&keys[0], OUTBOX_SEQ, BTGreaterStrategyNumber, F_INT8GT,
				Int64GetDatum(after));
	ScanKeyInit(&keys[1], OUTBOX_SEQ, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(upto));
	source->heap = heap;
	source->index = index_open(ring_seq_index(heap), AccessShareLock);
	source->scan = systable_beginscan_ordered(heap, source->index, SnapshotSelf,
											  lengthof(keys), keys);
	source_next(source);
}

/*
 * Read the next event of a partition. It has a tuple only if there is one.
 */
static void
source_next(Source *source)
{
	source->tuple = systable_getnext_ordered(source->scan, ForwardScanDirection);
	if (HeapTupleIsValid(source->tuple))
		source->seq = DatumGetInt64(tuple_datum(source->heap, source->tuple, OUTBOX_SEQ,
												INT8OID));
}

/*
 * reader_next returns the next event; false if there is none.
 */
bool
reader_next(DcReader *reader, DcStoredEvent *event)
{
	Source *first;
	int lowest = -1;

	if (reader->current >= 0)
	{
		MemoryContext old = MemoryContextSwitchTo(reader->cxt);

		source_next(&reader->sources[reader->current]);
		MemoryContextSwitchTo(old);
	}
	for (int i = 0; i < reader->nsources; i++)
	{
		if (HeapTupleIsValid(reader->sources[i].tuple) &&
			(lowest < 0 || reader->sources[i].seq < reader->sources[lowest].seq))
			lowest = i;
	}
	reader->current = lowest;
	if (lowest < 0)
		return false;
	first = &reader->sources[lowest];
	heap_deform_tuple(first->tuple, RelationGetDescr(first->heap), event->values,
					  event->isnull);
	event->seq = first->seq;
	return true;
}

/*
 * reader_end ends reading. It releases the locks, since a fetch that waits for events must not keep
 * the partitions from being truncated.
 */
void
reader_end(DcReader *reader)
{
	for (int i = 0; i < reader->nsources; i++)
	{
		systable_endscan_ordered(reader->sources[i].scan);
		index_close(reader->sources[i].index, AccessShareLock);
		table_close(reader->sources[i].heap, AccessShareLock);
	}
	pfree(reader);
}
