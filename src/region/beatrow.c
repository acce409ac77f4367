/*
 * beatrow.c
 *		Rows of dcounter.region: finding, locking and writing heartbeats (see beat.c).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A row changes with every heartbeat. While any snapshot is held, its earlier versions stay,
 * thousands of them, and nothing here may visit them:
 *
 *	- A session that raises a heartbeat begins at the version that it has written last.
 *	- Versions that are on one page have one entry in the index, the latest page usually last, as
 *	  the table grows in the meantime. So otherwise a row is searched for from the end of the
 *	  entries of its key, and all rows one after the other, from the last key to the first, never
 *	  through the entries of one.
 *	- A version that goes to another page gets an entry without the check that the key is unique,
 *	  which would visit all entries of it (keyrow_replace).
 *
 * The server has to visit them where a heartbeat comes from another region, to find the row that it
 * is about.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/relopen.h"
#include "core/rows/keyrow.h"
#include "core/rows/rowversions.h"
#include "region/life.h"

/* Columns of dcounter.region, by number. */
#define BEAT_REGION 1
#define BEAT_EPOCH 2

/* The key of a row. */
typedef struct DcBeatKey
{
	char *region;
	int64 epoch;
} DcBeatKey;

/* So many versions may follow the one that was written; after that the index is the shorter way. */
#define MAX_VERSIONS 1000

/*
 * The row that this session has written last, and where. It is a place to begin at, which may lead
 * to anything by now (core/rows/rowversions.c).
 */
static char written_region[MAX_REGION_BYTES + 1];
static int64 written_epoch;
static ItemPointerData written_at;

const char *const beat_columns = "region, epoch, boot, seq, first, published, beat_at, seen, retired_at";

static void beatrow_columns(DcCatRow *io, void *data);
static void beat_key_columns(DcCatRow *io, void *data);
static List *read_beats(const char *region);
static bool beat_key_before(DcBeatKey *key, bool others);
static bool find_from_written(const char *region, int64 epoch, DcBeat *beat, ItemPointer tid);
static DcVersionStep keep_current(DcVersion *version, void *arg);
static bool last_key(const ScanKeyData *keys, int nkeys, DcBeatKey *key);

static const DcCatalog beats = {
	.table = "region",
	.pkey = "region_pkey",
	.nkeys = 2,
	.size = sizeof(DcBeat),
	.columns = beatrow_columns,
};

static const DcCatalog beat_keys = {
	.table = "region",
	.pkey = "region_pkey",
	.size = sizeof(DcBeatKey),
	.columns = beat_key_columns,
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
 * Read or write the first columns alone.
 */
static void
beat_key_columns(DcCatRow *io, void *data)
{
	DcBeatKey *key = data;

	cat_string(io, &key->region);
	cat_int8(io, &key->epoch);
}

/*
 * beats_all returns all rows, as of now.
 */
List *
beats_all(void)
{
	return read_beats(NULL);
}

/*
 * Return the rows of all epochs of a region, as of now.
 */
List *
beats_of(const char *region)
{
	return read_beats(region);
}

/*
 * Return the rows of a region, or (NULL) of all, in the order of their keys.
 */
static List *
read_beats(const char *region)
{
	List *all = NIL;
	DcBeatKey key = {unconstify(char *, region), PG_INT64_MAX};

	while (beat_key_before(&key, region == NULL))
	{
		DcBeat *beat = palloc(sizeof(DcBeat));
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		if (beat_find(key.region, key.epoch, beat, &tid))
			all = lcons(beat, all);
	}
	return all;
}

/*
 * Set a key to the last one before it of which there is, or was, a row; false if there is none. A
 * region that is NULL is after all. Other regions are checked only if wanted.
 */
static bool
beat_key_before(DcBeatKey *key, bool others)
{
	ScanKeyData keys[2];
	int nkeys = 0;

	if (key->region != NULL)
	{
		ScanKeyInit(&keys[0], BEAT_REGION, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(key->region));
		ScanKeyInit(&keys[1], BEAT_EPOCH, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(key->epoch));
		if (last_key(keys, 2, key))
			return true;
		ScanKeyInit(&keys[0], BEAT_REGION, BTLessStrategyNumber, F_TEXT_LT, CStringGetTextDatum(key->region));
		nkeys = 1;
	}
	return others && last_key(keys, nkeys, key);
}

/*
 * Read the last key that fits, of a row of any state: a row that is being replaced is not missed.
 */
static bool
last_key(const ScanKeyData *keys, int nkeys, DcBeatKey *key)
{
	DcCatScan scan;
	bool found;

	cat_scan_begin_ordered(&scan, &beat_keys, beat_keys.pkey, SnapshotAny, keys, nkeys);
	found = cat_scan_next(&scan, BackwardScanDirection, key);
	cat_scan_end(&scan);
	return found;
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
 * beat_find reads the row of a region and epoch, as of now; false, with nothing changed, if there
 * is none.
 */
bool
beat_find(const char *region, int64 epoch, DcBeat *beat, ItemPointer tid)
{
	ScanKeyData keys[2];
	bool found = find_from_written(region, epoch, beat, tid);

	ScanKeyInit(&keys[0], BEAT_REGION, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(region));
	ScanKeyInit(&keys[1], BEAT_EPOCH, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(epoch));
	for (int i = 0; i < 2 && !found; i++)
	{
		DcCatScan scan;
		DcBeat row;

		cat_scan_begin_ordered(&scan, &beats, beats.pkey, SnapshotSelf, keys, lengthof(keys));
		found = cat_scan_next(&scan, BackwardScanDirection, &row);
		if (found)
		{
			*beat = row;
			*tid = scan.tuple->t_self;
		}
		cat_scan_end(&scan);
	}
	return found;
}

/*
 * Do the same from the version that this session has written last; false if that leads nowhere.
 */
static bool
find_from_written(const char *region, int64 epoch, DcBeat *beat, ItemPointer tid)
{
	DcDirectRel rel = {.table = DC_TABLE_SHARDS};
	DcHint hint = {.buffer = InvalidBuffer};
	DcVersion version;
	bool found = false;
	int steps = 0;

	if (!ItemPointerIsValid(&written_at) || epoch != written_epoch || strcmp(region, written_region) != 0)
		return false;
	rel.heap = table_open_present(beats_relation(), AccessShareLock);
	/* not a root: what an index entry points to is not known */
	ItemPointerSet(&hint.root, ItemPointerGetBlockNumber(&written_at), InvalidOffsetNumber);
	if (versions_walk(&rel, &hint, ItemPointerGetOffsetNumber(&written_at), keep_current, &steps, &version))
	{
		HeapTuple tuple = heap_copytuple(&version.tuple);
		DcBeat row;

		version_release(&version);
		found = beat_read_tuple(rel.heap, tuple, &row) && row.epoch == epoch && strcmp(row.region, region) == 0;
		if (found)
		{
			*beat = row;
			*tid = tuple->t_self;
		}
	}
	table_close(rel.heap, AccessShareLock);
	return found;
}

/*
 * Keep the version that is there now; stop after too many. arg points to their number.
 */
static DcVersionStep
keep_current(DcVersion *version, void *arg)
{
	if (++*(int *) arg > MAX_VERSIONS)
		return VERSION_STOP;
	return HeapTupleSatisfiesVisibility(&version->tuple, SnapshotSelf, version->buffer) ? VERSION_KEEP : VERSION_NEXT;
}

/*
 * beat_lock locks the latest version of a row, and reads it; false if there is none. Waits for
 * others.
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
	Relation rel;
	TupleTableSlot *slot;

	if (!ItemPointerIsValid(tid))
	{
		cat_store_at(&beats, tid, beat);
		return;
	}
	rel = table_open_present(beats_relation(), RowExclusiveLock);
	slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
	ExecStoreHeapTuple(beat_form_tuple(rel, beat), slot, true);
	if (!keyrow_replace(rel, tid, slot, true))
		elog(ERROR, "a heartbeat was replaced meanwhile");
	*tid = written_at = slot->tts_tid;
	strlcpy(written_region, beat->region, sizeof(written_region));
	written_epoch = beat->epoch;
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
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
