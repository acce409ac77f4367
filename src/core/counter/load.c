/*
 * load.c
 *		dc_load(): loading initial counts.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Increments of a key that is new go to a shard row, and from there to the totals. For a
 * million keys whose counts are known that is twice the work, and leaves a shard table of a
 * million dead rows. dc_load() inserts rows of totals at once, in the order of the keys.
 * Amounts of a key that is in the arrays several times are added up first. An existing key gets
 * a pending delta, as from dc_incr(), which is written at commit.
 *
 * That is exact under any concurrency, since the value of a key is the sum of its rows, and
 * a load only ever adds to it, in a row of totals that it inserts or in a shard row:
 *
 *	- A key counts as new if the unique index lets us insert it, which is decided page by page,
 *	  under the lock of the page: of two that insert a key the second one finds the first. No
 *	  session waits then, as for a unique violation: the row of the second one is deleted again,
 *	  and its amounts are pending deltas (indexes_try_insert). A row that other transactions are
 *	  inserting or deleting counts as there. If they abort, a shard row remains, to be compacted. To
 *	  avoid rows that are deleted again, keys are looked up first.
 *	- Increments at the same time find the row of totals in progress, and use shard rows.
 *	- dc_set() and dc_delete() do not see uncommitted rows of totals. So they are serialized
 *	  before a load that is in progress: its amounts are added to the value that they leave.
 *	  They never see a part of it: they read either the row of totals with its whole amount, or
 *	  no row.
 *	- Compaction, and flushes of buffered tables, would insert rows of the same keys, and wait
 *	  for our transaction to end, which may be long. So the load takes the lock on the
 *	  table's compaction, in the mode that loads share (locks.c). It waits for a
 *	  compaction in progress before it inserts anything. As long as our transaction is open,
 *	  compaction skips the table, and flushes use shard rows.
 *	- Two loads in any order of keys neither wait for each other nor deadlock.
 *
 * A SERIALIZABLE transaction must insert a shard row of each key that it changes (serial.c). So
 * all is pending deltas there, as it is for tables on other servers, and for replicated ones,
 * whose totals are what is published (region/regionpublish.c). Where an insertion into the
 * totals needs more than index entries (directtotals.c), it is made by SQL, as the owner of the
 * table, with ON CONFLICT DO NOTHING. That waits for other transactions that are inserting the same
 * key; keys are in order within one call, so loads of one call each do not deadlock. A trigger that
 * keeps a row from being inserted leaves the amounts to a pending delta; one that stores something
 * else makes the load fail.
 *
 * A stock's units must be in shard rows, and a ledger's balances come from its entries:
 * neither can be loaded.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "base/relopen.h"
#include "core/counter/apply.h"
#include "core/counter/applying.h"
#include "core/counter/foreign.h"
#include "core/counter/sqlpath.h"
#include "core/counter/write.h"
#include "core/rows/insert.h"
#include "core/rows/locks.h"
#include "core/table/access.h"
#include "core/table/layout.h"

PG_FUNCTION_INFO_V1(dc_load);

/* Keys that are inserted together. */
#define DIRECT_BATCH 1000
#define SQL_BATCH 10000

/* The bytes of a key, which are those of an argument. */
typedef struct DcKeyBytes
{
	const char *data;
	uint32 len;
} DcKeyBytes;

/* A key that is loaded. */
typedef struct DcLoadKey
{
	DcKeyBytes key;
	int64 inc;
	int64 dec;
	bool exists; /* the key exists, or may exist: its amounts are added by pending deltas */
} DcLoadKey;

/* All of them, in the order of keys, each once. */
typedef struct DcLoad
{
	DcLoadKey *keys;
	int nkeys;
	TimestampTz at;
} DcLoad;

/* keys, incs, decs, at */
static const DcStatement sql_load = {
	.text = "INSERT INTO @totals AS t (key, inc, dec, updated_at)"
			" SELECT d.key, d.inc, d.dec, $4 FROM unnest($1, $2, $3) AS d(key, inc, dec)"
			" ON CONFLICT DO NOTHING RETURNING t.key, t.inc, t.dec",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

static void load_collect(DcLoad *load, Datum *keys, Datum *amounts, int count);
static void load_add_amount(DcLoadKey *key, int64 amount);
static int load_compare(const void *a, const void *b);
static void load_rows(DcCounter *counter, DcLoad *load);
static void load_direct(DcCounter *counter, DcLoad *load);
static void find_existing(DcCounter *counter, Relation rel, DcLoadKey *keys, int n);
static int form_rows(DcCounter *counter, Relation rel, const DcLoad *load, DcLoadKey *keys,
					 int n, TupleTableSlot **slots, DcLoadKey **members);
static void delete_again(Relation rel, const List *places);
static void load_by_sql(DcCounter *counter, DcLoad *load);
static void sql_batch(DcSqlSession *session, DcLoad *load, DcLoadKey *keys, int n);
static void check_stored(DcSqlSession *session, DcLoadKey *keys, int n, uint64 stored);
static void tell_changed(DcCounter *counter, const DcLoadKey *keys, int n);

/*
 * dc_load(counter regclass, keys text[]|bigint[]|uuid[], amounts bigint[]) -> bigint, the number of
 * keys. A negative amount is a decrement. Needs INSERT and UPDATE.
 *
 * Errors: 2202E when the lengths differ, 22003 when an amount overflows bigint, 42809 for a stock
 * or a ledger.
 */
Datum
dc_load(PG_FUNCTION_ARGS)
{
	DcCounter *counter;
	Datum *keys;
	Datum *amounts;
	DcLoad load;
	int nkeys;
	int namounts;

	counter_arg(fcinfo);
	keys = key_array_arg(fcinfo, 1, &nkeys, NULL);
	amounts = array_arg(fcinfo, 2, "amounts", "amount", &namounts);
	if (namounts != nkeys)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys and amounts must have the same length"),
				 errdetail("There are %d keys and %d amounts.", nkeys, namounts)));

	counter = counter_open_to_write(fcinfo, "dc_load()");
	if (counter_is_stock(counter))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot load \"%s\": it is a stock", get_rel_name(counter->relid)),
				 errhint("Use dc_restock(), which adds units that can be taken.")));
	load_collect(&load, keys, amounts, nkeys);
	if (load.nkeys > 0)
		load_rows(counter, &load);
	PG_RETURN_INT64(load.nkeys);
}

/*
 * load_collect puts the keys in order, and adds up the amounts of each key.
 */
static void
load_collect(DcLoad *load, Datum *keys, Datum *amounts, int count)
{
	int n = 0;

	load->at = GetCurrentTimestamp();
	load->keys = palloc_extended(Max(count, 1) * sizeof(DcLoadKey), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
	{
		DcKey key;

		key_from_text(keys[i], &key);
		load->keys[i] = (DcLoadKey){.key = {key.data, key.len}};
		load_add_amount(&load->keys[i], DatumGetInt64(amounts[i]));
	}
	qsort(load->keys, count, sizeof(DcLoadKey), load_compare);
	for (int i = 0; i < count; i++)
	{
		DcLoadKey *last = &load->keys[n - 1];

		if (n > 0 && load_compare(last, &load->keys[i]) == 0)
		{
			load_add_amount(last, load->keys[i].inc);
			load_add_amount(last, -load->keys[i].dec);
		}
		else
			load->keys[n++] = load->keys[i];
	}
	load->nkeys = n;
}

/*
 * load_add_amount adds to a key's amount of increment, or of decrement.
 */
static void
load_add_amount(DcLoadKey *key, int64 amount)
{
	bool overflow = amount >= 0
		? pg_add_s64_overflow(key->inc, amount, &key->inc)
		: pg_sub_s64_overflow(key->dec, amount, &key->dec);

	if (overflow)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The amounts loaded for a key must fit into bigint.")));
}

/*
 * Compare two keys by their bytes, for qsort() and bsearch().
 */
static int
load_compare(const void *a, const void *b)
{
	const DcLoadKey *left = a;
	const DcLoadKey *right = b;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return bytes_compare(left->key.data, left->key.len, right->key.data, right->key.len);
}

/*
 * load_rows inserts rows of keys that are new, and adds to the others.
 */
static void
load_rows(DcCounter *counter, DcLoad *load)
{
	bool insert = !counter->foreign && !IsolationIsSerializable() && !counter_is_replicated(counter);

	if (counter->foreign)
		foreign_ready(counter);
	if (insert)
	{
		counter_lock_partitions(counter);
		lock_out_compaction(counter);
		counter_layout(counter); /* again: we may have waited */
		if (counter_is_sync(counter))
			ForceSyncCommit();
		if (counter->plain_totals)
			load_direct(counter, load);
		else
			load_by_sql(counter, load);
	}
	for (int i = 0; i < load->nkeys; i++)
	{
		const DcLoadKey *entry = &load->keys[i];
		DcKey key = {.data = entry->key.data, .len = entry->key.len};

		CHECK_FOR_INTERRUPTS();
		if ((!insert || entry->exists) && (entry->inc != 0 || entry->dec != 0))
			counter_add_amounts(counter, &key, DC_NO_HINT, entry->inc, entry->dec);
	}
}

/*
 * load_direct inserts without SQL. It marks the keys that exist.
 */
static void
load_direct(DcCounter *counter, DcLoad *load)
{
	Relation rel = counter_direct_open(counter, DC_TABLE_TOTALS);
	bool was_empty = RelationGetNumberOfBlocks(rel) == 0;
	BulkInsertState state = GetBulkInsertState();
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter load",
											  ALLOCSET_DEFAULT_SIZES);
	TupleTableSlot *slots[DIRECT_BATCH];
	DcLoadKey *members[DIRECT_BATCH];
	bool taken[DIRECT_BATCH];
	List *places = NIL;
	DcIndexes indexes;

	indexes_open(&indexes, rel);
	for (int i = 0; i < DIRECT_BATCH; i++)
		slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
	for (int start = 0; start < load->nkeys; start += DIRECT_BATCH)
	{
		int n = Min(DIRECT_BATCH, load->nkeys - start);
		MemoryContext old = MemoryContextSwitchTo(cxt);

		CHECK_FOR_INTERRUPTS();
		if (!was_empty)
			find_existing(counter, rel, load->keys + start, n);
		n = form_rows(counter, rel, load, load->keys + start, n, slots, members);
		if (n > 0)
		{
			table_multi_insert(rel, slots, n, GetCurrentCommandId(true), 0, state);
			indexes_try_insert(&indexes, rel, NULL, slots, n, taken);
		}
		MemoryContextSwitchTo(old);
		for (int i = 0; i < n; i++)
		{
			if (taken[i])
			{
				ItemPointer place = palloc(sizeof(ItemPointerData));

				*place = slots[i]->tts_tid;
				places = lappend(places, place);
				members[i]->exists = true;
			}
			ExecClearTuple(slots[i]);
		}
		MemoryContextReset(cxt);
	}
	FreeBulkInsertState(state);
	CommandCounterIncrement();
	delete_again(rel, places);
	tell_changed(counter, load->keys, load->nkeys);
	for (int i = 0; i < DIRECT_BATCH; i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	indexes_close(&indexes);
	MemoryContextDelete(cxt);
	table_close(rel, NoLock);
}

/*
 * find_existing marks those keys that have a row, or that other transactions insert or delete just
 * now.
 */
static void
find_existing(DcCounter *counter, Relation rel, DcLoadKey *keys, int n)
{
	Relation index = index_open(counter->totals.index, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	SnapshotData dirty;
	IndexScanDesc scan;

	InitDirtySnapshot(dirty);
	scan = compat_index_beginscan(rel, index, &dirty, 1);
	for (int i = 0; i < n; i++)
	{
		text *value = cstring_to_text_with_len(keys[i].key.data, keys[i].key.len);
		ScanKeyData key;

		ScanKeyEntryInitialize(&key, 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID,
							   F_TEXTEQ, PointerGetDatum(value));
		index_rescan(scan, &key, 1, NULL, 0);
		keys[i].exists = index_getnext_slot(scan, ForwardScanDirection, slot);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
}

/*
 * form_rows makes the rows of keys that are not known to exist, and returns how many there are.
 */
static int
form_rows(DcCounter *counter, Relation rel, const DcLoad *load, DcLoadKey *keys, int n,
		  TupleTableSlot **slots, DcLoadKey **members)
{
	const AttrNumber *atts = counter->totals.atts;
	TupleDesc desc = RelationGetDescr(rel);
	Datum *values = palloc(desc->natts * sizeof(Datum));
	bool *nulls = palloc(desc->natts * sizeof(bool));
	int rows = 0;

	memset(nulls, true, desc->natts * sizeof(bool)); /* of columns that were dropped */
	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		if (atts[i] != InvalidAttrNumber)
			nulls[atts[i] - 1] = false;
	}
	for (int i = 0; i < n; i++)
	{
		if (keys[i].exists)
			continue;
		values[atts[DC_COL_KEY] - 1] =
			PointerGetDatum(cstring_to_text_with_len(keys[i].key.data, keys[i].key.len));
		values[atts[DC_COL_INC] - 1] = Int64GetDatum(keys[i].inc);
		values[atts[DC_COL_DEC] - 1] = Int64GetDatum(keys[i].dec);
		values[atts[DC_COL_UPDATED_AT] - 1] = TimestampTzGetDatum(load->at);
		if (atts[DC_COL_VALUE] != InvalidAttrNumber) /* neither is negative */
			values[atts[DC_COL_VALUE] - 1] = Int64GetDatum(keys[i].inc - keys[i].dec);
		ExecStoreHeapTuple(heap_form_tuple(desc, values, nulls), slots[rows], false);
		slots[rows]->tts_tableOid = RelationGetRelid(rel);
		members[rows++] = &keys[i];
	}
	return rows;
}

/*
 * delete_again deletes rows that this transaction has inserted in an earlier command.
 */
static void
delete_again(Relation rel, const List *places)
{
	ListCell *lc;

	if (places == NIL)
		return;
	foreach(lc, places)
		simple_heap_delete(rel, lfirst(lc));
	CommandCounterIncrement();
}

/*
 * load_by_sql inserts by SQL. It marks the keys that exist.
 */
static void
load_by_sql(DcCounter *counter, DcLoad *load)
{
	counter_check_deferred(counter, true);
	for (int start = 0; start < load->nkeys; start += SQL_BATCH)
	{
		DcSqlSession session;

		sql_begin(&session, counter); /* with memory of its own */
		sql_batch(&session, load, load->keys + start, Min(SQL_BATCH, load->nkeys - start));
		sql_end(&session);
	}
	tell_changed(counter, load->keys, load->nkeys);
}

/*
 * sql_batch inserts some keys.
 */
static void
sql_batch(DcSqlSession *session, DcLoad *load, DcLoadKey *keys, int n)
{
	Datum *columns[3];
	Datum values[4];

	for (int c = 0; c < lengthof(columns); c++)
		columns[c] = palloc(n * sizeof(Datum));
	for (int i = 0; i < n; i++)
	{
		columns[0][i] = PointerGetDatum(cstring_to_text_with_len(keys[i].key.data, keys[i].key.len));
		columns[1][i] = Int64GetDatum(keys[i].inc);
		columns[2][i] = Int64GetDatum(keys[i].dec);
	}
	values[0] = array_datum(columns[0], n, TEXTOID);
	values[1] = array_datum(columns[1], n, INT8OID);
	values[2] = array_datum(columns[2], n, INT8OID);
	values[3] = TimestampTzGetDatum(load->at);
	check_stored(session, keys, n, sql_run(session, &sql_load, values));
}

/*
 * check_stored marks the keys that were not stored. Raises 55000 if code of the owner has stored
 * anything other than it was given: then the amounts that were counted are unknown.
 */
static void
check_stored(DcSqlSession *session, DcLoadKey *keys, int n, uint64 stored)
{
	for (int i = 0; i < n; i++)
		keys[i].exists = true;
	for (uint64 i = 0; i < stored; i++)
	{
		DcLoadKey probe;
		DcLoadKey *found;
		DcKey key;

		key_from_text(rows_datum(&session->rows, i, 1), &key);
		probe.key = (DcKeyBytes){key.data, key.len};
		found = bsearch(&probe, keys, n, sizeof(DcLoadKey), load_compare);
		if (found == NULL || !found->exists || found->inc != rows_bigint(&session->rows, i, 2) ||
			found->dec != rows_bigint(&session->rows, i, 3))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" stored a different row than it was given",
							get_rel_name(session->counter->relid)),
					 errdetail("A trigger or rule on it changed the row.")));
		found->exists = false;
	}
}

/*
 * tell_changed notifies listeners of the keys that were inserted. Compaction notifies them of
 * the others.
 */
static void
tell_changed(DcCounter *counter, const DcLoadKey *keys, int n)
{
	Datum batch[DIRECT_BATCH];
	int filled = 0;

	if (!counter->events)
		return;
	for (int i = 0; i < n; i++)
	{
		if (!keys[i].exists)
			batch[filled++] = PointerGetDatum(cstring_to_text_with_len(keys[i].key.data, keys[i].key.len));
		if (filled == DIRECT_BATCH || (i == n - 1 && filled > 0))
		{
			counter_changed(counter, batch, filled);
			while (filled > 0)
				pfree(DatumGetPointer(batch[--filled]));
		}
	}
}
