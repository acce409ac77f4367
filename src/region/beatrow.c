/*
 * beatrow.c
 *		Rows of dcounter.region: finding, locking and writing heartbeats (see beat.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/relopen.h"
#include "region/life.h"

const char *const beat_columns = "region, epoch, boot, seq, first, published, beat_at, seen, retired_at";

static void beatrow_columns(DcCatRow *io, void *data);

static const DcCatalog beats = {
	.table = "region",
	.pkey = "region_pkey",
	.nkeys = 2,
	.size = sizeof(DcBeat),
	.columns = beatrow_columns,
};

/*
 * Read or write the columns of dcounter.region, in their order.
 */
static void
beatrow_columns(DcCatRow *io, void *data)
{
	DcBeat *beat = data;

	cat_string(io, &beat->region);
	cat_int8(io, &beat->epoch);
	cat_datum(io, UUIDOID, &beat->boot);
	cat_int8(io, &beat->seq);
	cat_int8(io, &beat->first);
	cat_int8(io, &beat->published);
	cat_time(io, &beat->beat_at);
	cat_datum(io, JSONBOID, &beat->seen);
	cat_time(io, &beat->retired_at);
}

/*
 * beats_all returns all rows, as of now.
 */
List *
beats_all(void)
{
	return cat_read_all(&beats, SnapshotSelf);
}

/*
 * Return the OID of dcounter.region.
 */
Oid
beats_relation(void)
{
	return catalog_relation(beats.table);
}

/*
 * beat_find reads the row of a region and epoch, as of now; false, with nothing changed, if there is none.
 */
bool
beat_find(const char *region, int64 epoch, DcBeat *beat, ItemPointer tid)
{
	bool found = false;

	for (int i = 0; i < 2 && !found; i++)
	{
		Relation rel = table_open_present(beats_relation(), AccessShareLock);
		ScanKeyData keys[2];
		DcCatScan scan;
		DcBeat row;

		cat_key(&keys[0], RelationGetDescr(rel), 1, CStringGetTextDatum(region));
		cat_key(&keys[1], RelationGetDescr(rel), 2, Int64GetDatum(epoch));
		cat_scan_begin(&scan, &beats, beats.pkey, AccessShareLock, keys, lengthof(keys));
		found = cat_scan_next(&scan, ForwardScanDirection, &row);
		if (found)
		{
			*beat = row;
			*tid = scan.tuple->t_self;
		}
		cat_scan_end(&scan);
		table_close(rel, AccessShareLock);
	}
	return found;
}

/*
 * beat_lock locks the latest version of a row, and reads it; false if there is none. Waits for others.
 */
bool
beat_lock(const char *region, int64 epoch, DcBeat *beat, ItemPointer tid)
{
	Relation rel;
	TupleTableSlot *slot;
	TM_FailureData failure;
	Snapshot snapshot;
	bool locked;

	if (!beat_find(region, epoch, beat, tid))
		return false;
	rel = table_open_present(beats_relation(), RowExclusiveLock);
	slot = table_slot_create(rel, NULL);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	locked = table_tuple_lock(rel, tid, snapshot, slot, GetCurrentCommandId(true), LockTupleNoKeyExclusive,
							  LockWaitBlock, TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure) == TM_Ok;
	if (locked)
	{
		bool to_free;
		HeapTuple tuple = ExecFetchSlotHeapTuple(slot, true, &to_free);

		locked = beat_read_tuple(rel, tuple, beat);
		*tid = slot->tts_tid;
	}
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return locked;
}

/*
 * beat_store writes a row in place of a version that the caller has locked, or a new one.
 */
void
beat_store(ItemPointer tid, const DcBeat *beat)
{
	cat_store_at(&beats, tid, beat);
}

/*
 * Read a heartbeat from a tuple; false if a column that must not be null is.
 */
bool
beat_read_tuple(Relation rel, HeapTuple tuple, DcBeat *beat)
{
	return cat_deform(&beats, RelationGetDescr(rel), tuple, beat);
}

/*
 * Return the tuple of a heartbeat.
 */
HeapTuple
beat_form_tuple(Relation rel, const DcBeat *beat)
{
	DcCatRow io;

	return cat_form(&beats, RelationGetDescr(rel), beat, &io);
}

/*
 * boot_text returns a boot as text; "" for none.
 */
char *
boot_text(Datum boot)
{
	return boot == (Datum) 0 ? "" : DatumGetCString(DirectFunctionCall1(uuid_out, boot));
}
