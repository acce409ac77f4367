/*
 * remote.c
 *		Adding amounts of other regions to shard rows, without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction inserts a row of its own for a key, of a number that no other transaction has
 * (shardnumber.c), and adds to that row if the key comes again. It need not remember all the keys
 * that it has had (there may be millions), though it remembers some (has_come_before): if a row
 * of the same number is inserted again, the index reports that, and the new row is taken back.
 * So it waits for no transaction, and rows that a savepoint has undone are not in the way.
 *
 * While an old snapshot is held, each row that is inserted and deleted would leave an index
 * entry that every search for rows of the key has to visit (scan.c). So compaction keeps such
 * rows, at zero (core/compact/compactdirect.c), and one that is free is added to.
 *
 * If another transaction has a row of that number, left over from before transaction ids wrapped
 * around, that row is not used: any other number is fine. The same applies if a sum would overflow
 * bigint: amounts of another region must not raise an error here, or replication from there would
 * stop. Reading the key raises the error, and compaction leaves the key alone.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "base/compat.h"
#include "core/rows/direct.h"
#include "core/rows/oldsnapshot.h"
#include "core/rows/remote.h"
#include "core/rows/scan.h"
#include "core/rows/shardnumber.h"

/* The number of rows that are tried to find one to add to. An owner may have written very many without room. */
#define KEPT_LOOKS 64

static bool has_come_before(DcDirectRel *rel, const DcDelta *delta);
static bool rows_are_kept(DcDirectRel *rel);
static bool add_to_kept(DcDirectRel *rel, const DcDelta *delta);
static bool add_to_number(DcDirectRel *rel, const DcDelta *delta, int32 number);
static bool add_to_row(DcDirectRel *rel, const DcDelta *delta, DcHint *hint, DcVersion *version);

/*
 * remote_add adds a delta to the row of a number of remote_shard(), or inserts it.
 */
void
remote_add(DcDirectRel *rel, const DcDelta *delta, int32 number)
{
	ItemPointerData root;

	if (rows_are_kept(rel) && add_to_kept(rel, delta))
		return;
	if (has_come_before(rel, delta) && add_to_number(rel, delta, number))
		return;
	while (!direct_try_insert(rel, delta, number, &root))
	{
		CHECK_FOR_INTERRUPTS();
		CommandCounterIncrement(); /* a command does not see rows that it has inserted */
		simple_heap_delete(rel->heap, &root);
		CommandCounterIncrement();
		if (add_to_number(rel, delta, number))
			return;
		number = remote_shard(random_shard());
	}
}

/*
 * Return true if the key has come in this transaction, as far as is remembered. Each row that is
 * inserted and taken back leaves an entry that the next one of the key visits.
 */
static bool
has_come_before(DcDirectRel *rel, const DcDelta *delta)
{
	static struct
	{
		LocalTransactionId transaction;
		Oid relid;
		uint64 hash;
	} keys[1024];
	static uint64 seed = 0; /* so that no user can choose keys that share a place */
	uint64 hash;
	int place;
	bool has_come;

	if (seed == 0)
		seed = pg_prng_uint64(&pg_global_prng_state) | 1;
	hash = hash_bytes_extended((const unsigned char *) delta->key.data, delta->key.len, seed);
	place = (hash ^ RelationGetRelid(rel->heap)) % lengthof(keys);
	has_come = keys[place].transaction == compat_local_xid() && keys[place].relid == RelationGetRelid(rel->heap) &&
		keys[place].hash == hash;
	keys[place].transaction = compat_local_xid();
	keys[place].relid = RelationGetRelid(rel->heap);
	keys[place].hash = hash;
	return has_come;
}

/*
 * rows_are_kept returns true if compaction keeps rows at zero, which it finds out once for a
 * transaction and table. A transaction that has gone on for long would take its own snapshot
 * for an old one.
 */
static bool
rows_are_kept(DcDirectRel *rel)
{
	static LocalTransactionId asked_in = InvalidLocalTransactionId;
	static Oid asked_for = InvalidOid;
	static bool kept;

	if (asked_in != compat_local_xid() || asked_for != RelationGetRelid(rel->heap))
	{
		kept = old_snapshot_held(rel->heap);
		asked_in = compat_local_xid();
		asked_for = RelationGetRelid(rel->heap);
	}
	return kept;
}

/*
 * add_to_kept adds to a row with amounts of other regions that no other transaction has.
 */
static bool
add_to_kept(DcDirectRel *rel, const DcDelta *delta)
{
	TupleTableSlot *slot = table_slot_create(rel->heap, NULL);
	Datum key = delta_key_text(&delta->key);
	DcKnownShards known = {NULL, 0};
	SnapshotData dirty;
	DcShardScan scan;
	ItemPointerData root;
	int32 number;
	int looks = 0;
	bool added = false;

	InitDirtySnapshot(dirty);
	shard_scan_begin(&scan, rel->heap, directrel_index(rel), key, &dirty, known);
	shard_scan_below(&scan, 0);
	while (!added && looks++ < KEPT_LOOKS && shard_scan_next(&scan, slot, &root, &number))
	{
		DcHint hint = {.shard = number};
		DcProbe probe;

		hint_set(&hint, &root, InvalidOffsetNumber, InvalidBuffer);
		if (probe_row(rel, &delta->key, &hint, &probe) == DC_PROBE_FREE)
			added = add_to_row(rel, delta, &hint, &probe.version);
	}
	shard_scan_end(&scan);
	ExecDropSingleTupleTableSlot(slot);
	pfree(DatumGetPointer(key));
	return added;
}

/*
 * add_to_number adds to the row of a number, unless another transaction has it.
 */
static bool
add_to_number(DcDirectRel *rel, const DcDelta *delta, int32 number)
{
	Datum key = delta_key_text(&delta->key);
	IndexScanDesc scan = compat_index_beginscan(rel->heap, directrel_index(rel), SnapshotAny, 2);
	ScanKeyData keys[2];
	ItemPointer tid;
	bool added = false;

	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID,
						   F_TEXTEQ, key);
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid, InvalidOid,
						   F_INT4EQ, Int32GetDatum(number));
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	while (!added && (tid = index_getnext_tid(scan, BackwardScanDirection)) != NULL)
	{
		DcHint hint = {.shard = number};
		DcProbe probe;

		hint_set(&hint, tid, InvalidOffsetNumber, InvalidBuffer);
		if (probe_row(rel, &delta->key, &hint, &probe) == DC_PROBE_FREE)
			added = add_to_row(rel, delta, &hint, &probe.version);
	}
	index_endscan(scan);
	pfree(DatumGetPointer(key));
	return added;
}

/*
 * add_to_row adds to a row that was probed, unless another transaction has it, or an amount would
 * overflow bigint.
 */
static bool
add_to_row(DcDirectRel *rel, const DcDelta *delta, DcHint *hint, DcVersion *version)
{
	if (direct_has_room(rel, delta))
		return direct_update(rel, delta, hint, version, ROW_LOCK);
	version_release(version);
	return false;
}
