/*
 * distinctfold.c
 *		Removing and merging rows of distinct tables: folding, the end of buckets, dc_distinct_reset().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Folding reads deltas in the order of keys, adds what they have to the row of the key, and deletes
 * them, in one transaction: a snapshot has the items in the deltas, in the row, or in both, which
 * is the same. It reads a batch of deltas in a snapshot; those that come in the meantime are left
 * for the next time. While an old snapshot is held, deltas that were deleted stay where they are,
 * and are visited by each round; a step visits a limited number of them, and the next one goes on
 * behind the last. Writers insert deltas, which conflicts with no lock of it.
 *
 * A bucket is removed when its time to be kept is over, both by the clock and by the newest bucket
 * that was folded (bucket.c). The catalog has the latter, and a clock that is ahead for a while
 * raises it by one (note_newest): rows and deltas are deleted, in batches, with one pass over the
 * rows for each such bucket. A row is small, and there is one for each key and bucket. Sessions
 * must forget what they know of such rows, so the relation is invalidated.
 *
 * A transaction that does any of this holds the table's lock `distinct` to its end; the worker
 * skips a table that it cannot lock at once. So a row of the table is changed by one of them at a
 * time. Its owner may still change it directly: then its deltas stay, and the next fold tries
 * again. Deleting a delta that is already deleted does nothing.
 *
 * None of this runs code of an owner: tables with such code cannot be written (distinctopen.c). A
 * table that a subscription feeds is left alone: the publisher folds it. The commits of the worker
 * do not wait for the disk: one that is lost leaves the deltas where they were.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/bucket.h"
#include "base/catrow.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/job.h"
#include "base/lockclass.h"
#include "base/relopen.h"
#include "core/rows/keyrow.h"
#include "core/table/access.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "time/distinct/distinct.h"
#include "types/sketch/hash.h"
#include "types/sketch/hll/dc_hll.h"

PG_FUNCTION_INFO_V1(dc_distinct_reset);

/* Rows of a step. */
#define FOLD_BATCH 2000
#define EXPIRE_BATCH 5000

/* How many dead rows, which an old snapshot keeps, a step visits without effect. */
#define DEAD_BATCH 20000

/* State of a table in this process. */
typedef struct DcFoldTable
{
	Oid relid;
	int64 horizon; /* what is before has been looked for */
	int64 goal;	   /* what is before is being looked for; 0: nothing is */
	int64 ahead;   /* the newest bucket that was folded, where it did not follow those before */
	uint32 len;	   /* up to this key, which is a limit for the next step */
	char key[DC_MAX_KEY_BYTES];
	StringInfo folded;			/* the key of the last delta that this round has looked at, */
	ItemPointerData folded_tid; /* and its place; invalid: at the beginning */
} DcFoldTable;

/* Of this process; never freed. */
static List *tables = NIL; /* DcFoldTable * */

/* The table at hand. */
static struct
{
	bool goes_on; /* this is not the first step of the round */
} work;

static bool distinctfold_is_needed(void);
static bool job_run(DcJobRun *run);
static List *distinctfold_list(void);
static bool distinctfold_has(const List *sorted, Oid relid);
static void distinctfold_start(MemoryContext cxt);
static DcTableStep distinctfold_step(Oid relid, bool all_owners);
static void destroy_fold_table(DcFoldTable *table);
static DcFoldTable *fold_table(Oid relid);
static bool fold_batch(DcDistinctRel *rel, DcFoldTable *table);
static void note_delta(DcFoldTable *table, DcDistinctScan *scan);
static void pass_key(DcFoldTable *table);
static bool fold_key(DcDistinctRel *rel, const DcKey *key, HllState *items);
static bool put_sketch(DcDistinctRel *rel, DcDistinctScan *row, const DcKey *key, HllState *state);
static bool expire_batch(DcDistinctRel *rel, DcFoldTable *table);
static void pass_dead(DcFoldTable *table, DcDistinctScan *scan);
static int64 horizon_of(const DcDistinctRow *row);
static void note_newest(DcDistinct *distinct, DcFoldTable *table, int64 bucket);
static bool distinctfold_delete_rows(DcDistinctRel *rel, int which, const char *from, const char *to, uint32 len);
static bool delete_row(Relation heap, ItemPointer tid, bool wait);

/*
 * distinct_fold_init registers the job; called once.
 */
void
distinct_fold_init(void)
{
	job_register((DcJob){.name = "distinct", .interval = &dc_distinct_interval, .run = job_run, .is_needed = distinctfold_is_needed});
}

/*
 * Return true if there are distinct tables, or could be.
 */
static bool
distinctfold_is_needed(void)
{
	Oid catalog = catalog_relation_if_any("distinct_table");

	if (!OidIsValid(catalog))
		return false;
	return !ConditionalLockRelationOid(catalog, AccessShareLock) || distinct_rows() != NIL;
}

/*
 * distinct_take_turn takes a table's lock `distinct`, and waits for it.
 */
void
distinct_take_turn(Oid relid)
{
	(void) advisory_lock(DISTINCT_LOCK_CLASS, relid, 0, ExclusiveLock, true);
}

/*
 * job_run goes over the distinct tables; true if it has yielded.
 */
static bool
job_run(DcJobRun *run)
{
	static DcTableJob job = {.list = distinctfold_list, .start = distinctfold_start, .state = &work, .state_size = sizeof(work), .step = distinctfold_step};

	return table_job_run(&job, run);
}

/*
 * distinctfold_list lists the tables for a round.
 */
static List *
distinctfold_list(void)
{
	Oid catalog = catalog_relation_if_any("distinct_table");
	List *listed = NIL;
	List *sorted;
	ListCell *lc;

	if (!OidIsValid(catalog) || !ConditionalLockRelationOid(catalog, AccessShareLock) || extension_is_fed())
		return NIL;
	foreach(lc, distinct_rows())
		listed = lappend_oid(listed, ((DcDistinctRow *) lfirst(lc))->relid);
	sorted = list_copy(listed);
	list_sort(sorted, list_oid_cmp);
	foreach(lc, tables)
	{
		DcFoldTable *table = lfirst(lc);

		if (distinctfold_has(sorted, table->relid))
			continue;
		destroy_fold_table(table);
		tables = foreach_delete_current(tables, lc);
	}
	return listed;
}

/*
 * Return true if a sorted list of OIDs has one.
 */
static bool
distinctfold_has(const List *sorted, Oid relid)
{
	int low = 0;
	int high = list_length(sorted);

	while (low < high)
	{
		int middle = low + (high - low) / 2;

		if (list_nth_oid(sorted, middle) < relid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list_length(sorted) && list_nth_oid(sorted, low) == relid;
}

/*
 * Free what this process remembers of a table. The list no longer has it.
 */
static void
destroy_fold_table(DcFoldTable *table)
{
	pfree(table->folded->data);
	pfree(table->folded);
	pfree(table);
}

/*
 * Begin a round: nothing is remembered from the steps before.
 */
static void
distinctfold_start(MemoryContext cxt)
{
	memset(&work, 0, sizeof(work));
}

/*
 * distinctfold_step does one transaction's work on a table, if it can have it at once. One that is
 * being restored is left alone.
 */
static DcTableStep
distinctfold_step(Oid relid, bool all_owners)
{
	DcDistinctRel rel;
	DcDistinctRow row;
	bool more = false;

	if (get_rel_name(relid) == NULL || (!all_owners && !compat_owns_relation(relid, GetUserId())) ||
		!distinct_row_read(relid, &row) || relation_lacks_indexes(relid) || relation_lacks_indexes(row.delta) ||
		!distinctrel_open_again(&rel, relid, false))
		return TABLE_DONE;
	if (!relation_is_fed(relid) && !relation_is_fed(rel.distinct->row.delta) &&
		advisory_lock(DISTINCT_LOCK_CLASS, relid, 0, ExclusiveLock, false))
	{
		DcFoldTable *table = fold_table(relid);

		if (!work.goes_on)
		{
			/* from the beginning, even after a step that has failed */
			ItemPointerSetInvalid(&table->folded_tid);
			table->goal = 0;
		}
		work.goes_on = true;
		for (int i = 0; i < 2; i++)
			CheckCmdReplicaIdentity(rel.heaps[i], CMD_DELETE);
		CheckCmdReplicaIdentity(rel.heaps[DISTINCT_TABLE], CMD_UPDATE);
		PushActiveSnapshot(GetLatestSnapshot());
		more = fold_batch(&rel, table) || expire_batch(&rel, table);
		PopActiveSnapshot();
	}
	distinctrel_close(&rel);
	return more ? TABLE_GOES_ON : TABLE_DONE;
}

/*
 * Return what this process remembers of a table between rounds; a new entry knows nothing.
 */
static DcFoldTable *
fold_table(Oid relid)
{
	DcFoldTable *table;
	MemoryContext old;
	ListCell *lc;

	foreach(lc, tables)
	{
		if (((DcFoldTable *) lfirst(lc))->relid == relid)
			return lfirst(lc);
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	table = palloc0(sizeof(DcFoldTable));
	table->relid = relid;
	table->folded = makeStringInfo();
	ItemPointerSetInvalid(&table->folded_tid);
	tables = lappend(tables, table);
	MemoryContextSwitchTo(old);
	return table;
}

/*
 * fold_batch folds the next deltas of the round; true if there may be more.
 */
static bool
fold_batch(DcDistinctRel *rel, DcFoldTable *table)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(old, "dcounter fold", ALLOCSET_DEFAULT_SIZES);
	ItemPointer places = palloc(FOLD_BATCH * sizeof(ItemPointerData));
	int64 horizon = horizon_of(&rel->distinct->row);
	int64 newest = -1;
	DcDistinctScan scan;
	bool any;
	int n = 0;

	if (!ItemPointerIsValid(&table->folded_tid))
		resetStringInfo(table->folded);
	distinctscan_begin(&scan, rel, DISTINCT_DELTA, GetActiveSnapshot(), table->folded->data, table->folded->len, NULL, 0);
	scan.past = table->folded_tid;
	scan.visits = DEAD_BATCH;
	any = distinctscan_next(&scan);
	while (any && n < FOLD_BATCH)
	{
		bool buckets = rel->distinct->row.bucket != 0;
		HllState *items;
		DcKey key;
		int64 bucket = -1;
		int first = n;

		MemoryContextSwitchTo(one);
		items = hll_new(rel->distinct->row.precision, SKETCH_HASH_REDIS);
		key.len = scan.key.len;
		key.data = pnstrdup(scan.key.data, scan.key.len);
		while (any && n < FOLD_BATCH && key_compare(&scan.key, &key) == 0)
		{
			items = hll_merge_datum(items, scan.sketch);
			places[n++] = scan.slot->tts_tid;
			note_delta(table, &scan);
			any = distinctscan_next(&scan);
		}
		if (buckets && !bucket_get(key.data, key.len, &bucket))
			bucket = -1;
		/* rows of no bucket, or of one that is over, are dropped */
		if ((buckets && bucket < horizon) || fold_key(rel, &key, items))
		{
			newest = Max(newest, bucket);
			for (int i = first; i < n; i++)
				(void) delete_row(rel->heaps[DISTINCT_DELTA], &places[i], false);
		}
		else
			pass_key(table);
		MemoryContextSwitchTo(old);
		MemoryContextReset(one);
	}
	if (scan.cut)
		note_delta(table, &scan);
	distinctscan_end(&scan);
	MemoryContextDelete(one);
	pfree(places);
	if (newest >= 0)
		note_newest(rel->distinct, table, newest);
	CommandCounterIncrement();
	if (n == FOLD_BATCH || scan.cut)
		return true;
	ItemPointerSetInvalid(&table->folded_tid);
	return false;
}

/*
 * pass_key goes on behind the key that the round has come to. Its deltas stay, and later steps of
 * the round do not read them again.
 */
static void
pass_key(DcFoldTable *table)
{
	appendStringInfoChar(table->folded, '\0');
	ItemPointerSet(&table->folded_tid, 0, FirstOffsetNumber);
}

/*
 * Note that the round has come to the delta that the scan is at.
 */
static void
note_delta(DcFoldTable *table, DcDistinctScan *scan)
{
	DcKey key;

	table->folded_tid = *distinctscan_place(scan, &key);
	resetStringInfo(table->folded);
	appendBinaryStringInfo(table->folded, key.data, key.len);
}

/*
 * fold_key adds items to the row of a key, or makes one; false, with nothing done, if another
 * transaction has the row.
 */
static bool
fold_key(DcDistinctRel *rel, const DcKey *key, HllState *items)
{
	DcDistinctScan row;
	bool done;

	distinctscan_begin(&row, rel, DISTINCT_TABLE, GetActiveSnapshot(), key->data, key->len, key->data, key->len);
	while (distinctscan_next(&row) && key_compare(&row.key, key) != 0)
		;
	if (row.any)
		done = put_sketch(rel, &row, key, items);
	else
		done = distinct_insert_row_at_once(rel, DISTINCT_TABLE, key->data, key->len, hll_value(items));
	distinctscan_end(&row);
	return done;
}

/*
 * put_sketch adds items to a row; false if another transaction has locked or changed it.
 */
static bool
put_sketch(DcDistinctRel *rel, DcDistinctScan *row, const DcKey *key, HllState *items)
{
	Relation heap = rel->heaps[DISTINCT_TABLE];
	Datum before = PointerGetDatum(PG_DETOAST_DATUM_PACKED(row->sketch));
	Datum after = hll_value(hll_merge_datum(items, before));
	ItemPointer tid = &row->slot->tts_tid;
	TupleTableSlot *slot;
	bool done;

	if (VARSIZE_ANY_EXHDR(DatumGetPointer(before)) == VARSIZE_ANY_EXHDR(DatumGetPointer(after)) &&
		memcmp(VARDATA_ANY(DatumGetPointer(before)), VARDATA_ANY(DatumGetPointer(after)),
			   VARSIZE_ANY_EXHDR(DatumGetPointer(after))) == 0)
		return true;
	/*
	 * the server can lock without waiting, but not update; after the lock, the update need not wait
	 */
	if (!keyrow_lock_version(heap, tid, LockTupleNoKeyExclusive, LockWaitSkip))
		return false;
	slot = distinct_make_row(rel, DISTINCT_TABLE, key->data, key->len, after);
	done = keyrow_replace(heap, tid, slot, true);
	ExecDropSingleTupleTableSlot(slot);
	return done;
}

/*
 * expire_batch deletes rows of buckets that are no longer kept; true if there may be more of them.
 */
static bool
expire_batch(DcDistinctRel *rel, DcFoldTable *table)
{
	int64 horizon = rel->distinct->row.bucket != 0 ? horizon_of(&rel->distinct->row) : 0;
	DcDistinctScan scan;
	bool deleted = false;
	int n = 0;

	if (table->goal == 0)
	{
		if (horizon <= table->horizon)
			return false;
		table->goal = horizon;
		table->len = 0;
	}
	distinctscan_begin(&scan, rel, DISTINCT_TABLE, GetActiveSnapshot(), table->key, table->len, NULL, 0);
	scan.visits = DEAD_BATCH;
	while (n < EXPIRE_BATCH && distinctscan_next(&scan))
	{
		int64 bucket;

		n++;
		table->len = Min(scan.key.len, DC_MAX_KEY_BYTES);
		memcpy(table->key, scan.key.data, table->len);
		if (bucket_get(scan.key.data, scan.key.len, &bucket) && bucket < Min(table->goal, horizon))
			deleted |= delete_row(rel->heaps[DISTINCT_TABLE], &scan.slot->tts_tid, false);
	}
	if (scan.cut)
		pass_dead(table, &scan);
	distinctscan_end(&scan);
	if (deleted)
		relation_invalidate(table->relid);
	CommandCounterIncrement();
	if (n == EXPIRE_BATCH || scan.cut)
		return true;
	table->horizon = table->goal;
	table->goal = 0;
	return false;
}

/*
 * Go on behind the key of the dead row that the scan is at.
 */
static void
pass_dead(DcFoldTable *table, DcDistinctScan *scan)
{
	DcKey key;

	(void) distinctscan_place(scan, &key);
	table->len = Min(key.len, DC_MAX_KEY_BYTES);
	memcpy(table->key, key.data, table->len);
	if (table->len < DC_MAX_KEY_BYTES)
		table->key[table->len++] = '\0';
}

/*
 * Return the number of the first bucket that is kept; 0 if all are.
 */
static int64
horizon_of(const DcDistinctRow *row)
{
	if (row->bucket == 0 || row->newest == 0)
		return 0;
	return bucket_horizon(GetCurrentTimestamp(), bucket_of(row->newest, row->bucket), row->bucket, row->keep);
}

/*
 * Write the newest bucket to the catalog. Only the bucket of a key is known to be one if the
 * functions have written it; a row that was inserted directly may say anything. A bucket that does
 * not follow the newest one may come from a clock that is ahead for a while: it counts when a later
 * one is folded, and until then it raises the newest one by a single bucket. If the newest one is
 * itself ahead of the clock, the clock was wrong at that time.
 */
static void
note_newest(DcDistinct *distinct, DcFoldTable *table, int64 bucket)
{
	int64 limit = bucket_of(GetCurrentTimestamp(), distinct->row.bucket) + 1;
	DcDistinctRow row;
	int64 newest;
	int64 next;

	if (!distinct_row_read(distinct->relid, &row) || row.bucket == 0)
		return;
	bucket = Min(bucket, limit);
	newest = row.newest != 0 ? bucket_of(row.newest, row.bucket) : -1;
	if (newest < 0 || newest > limit || bucket == newest + 1)
		next = bucket;
	else if (bucket <= newest + 1 || bucket == table->ahead)
		return;
	else
	{
		next = table->ahead > newest && table->ahead < bucket ? table->ahead : newest + 1;
		table->ahead = bucket;
	}
	row.newest = bucket_start(next, row.bucket);
	(void) distinct_row_update(&row);
}

/*
 * dc_distinct_reset(distinct_table regclass, key text|bigint|uuid) -> void: the key starts from
 * zero, in all buckets. Needs DELETE. Items that other transactions are adding at the same time may
 * be there afterwards.
 */
Datum
dc_distinct_reset(PG_FUNCTION_ARGS)
{
	DcDistinct *distinct;
	DcDistinctRel rel;
	char from[DC_MAX_KEY_BYTES];
	char to[DC_MAX_KEY_BYTES];
	uint32 len;
	DcKey key;

	arg_not_null(fcinfo, 0, "distinct table");
	distinct_key_arg(fcinfo, 1, &key);
	prevent_write("dc_distinct_reset()");
	distinct = distinct_lock(PG_GETARG_OID(0), RowExclusiveLock, ACL_DELETE);
	distinct_write_early();
	distinct_take_turn(distinct->relid);
	distinctrel_open(&rel, distinct_lookup(distinct->relid), RowExclusiveLock);
	len = distinct_row_key(rel.distinct, &key, 0, from);
	(void) distinct_row_key(rel.distinct, &key, BUCKET_MAX, to);
	for (int i = 0; i < 2; i++)
		CheckCmdReplicaIdentity(rel.heaps[i], CMD_DELETE);
	PushActiveSnapshot(IsolationUsesXactSnapshot() ? GetTransactionSnapshot() : GetLatestSnapshot());
	UpdateActiveSnapshotCommandId();
	for (int i = 0; i < 2; i++)
	{
		if (!distinctfold_delete_rows(&rel, i, from, to, len))
			serialization_error();
	}
	PopActiveSnapshot();
	distinctrel_close(&rel);
	relation_invalidate(distinct->relid);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

/*
 * distinctfold_delete_rows deletes the rows of a key; false if one of them has changed.
 */
static bool
distinctfold_delete_rows(DcDistinctRel *rel, int which, const char *from, const char *to, uint32 len)
{
	DcDistinctScan scan;
	bool done = true;

	distinctscan_begin(&scan, rel, which, GetActiveSnapshot(), from, len, to, len);
	while (done && distinctscan_next(&scan))
	{
		if (scan.key.len == len)
			done = delete_row(rel->heaps[which], &scan.slot->tts_tid, true);
	}
	distinctscan_end(&scan);
	return done;
}

/*
 * delete_row deletes a row; false if another transaction has changed it or, without `wait`, locked
 * it.
 */
static bool
delete_row(Relation heap, ItemPointer tid, bool wait)
{
	TM_FailureData failure;
	TM_Result result = compat_tuple_delete(heap, tid, wait, &failure);

	if (result == TM_Deleted) /* changed by a fold: its items may be in a row that this snapshot does not show */
		return !IsolationUsesXactSnapshot();
	return result == TM_Ok || result == TM_SelfModified;
}
