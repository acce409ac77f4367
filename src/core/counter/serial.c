/*
 * serial.c
 *		Making conflicts on a key visible to SERIALIZABLE transactions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Serializable snapshot isolation (SSI) has to detect each pair of overlapping
 * transactions of which one, R, reads rows that the other, W, writes, if R does not
 * see the new version. It has two ways:
 *
 *	in:	 W comes second. R holds a predicate lock (SIREAD) on the rows it has read, and
 *		 W's write meets it.
 *	out: R comes second. R comes across a version that W has made or replaced, does
 *		 not see it, and looks W up.
 *
 * For a row that is updated, both ways need R and W to meet at the same version: the one
 * that R sees must be the one that W replaces. But in between, our rows are changed by
 * transactions that SSI ignores: by compaction, levelling and flushes, which run in the
 * worker and change no value, and by increments at other isolation levels, which also write
 * rows of totals. Once one of these has replaced R's version, an update by W does not meet
 * R's lock, nor does R come across it. Then SSI does not detect the pair, and write skew is
 * possible.
 *
 * So a SERIALIZABLE transaction that changes a key inserts a row of the key into the
 * shard table, whatever else it does to the key's rows. Changes of other rows then do
 * not matter:
 *
 *	in:	 A transaction that has read the key holds a lock that covers the place in the
 *		 index where that row goes, because it has looked for all rows of the key:
 *			- by the index (dc_get() and its relatives, dc_take() that says no, balances, SQL
 *			  that looks for keys): locks on all leaf pages that a new row of the key may go to,
 *			  even if there is no row yet; or on the index, if it is empty. (The pages that scan.c
 *			  steps over have entries of one number alone, and the row has another one, or one for
 *			  which every entry is visited: core/rows/again.c);
 *			- by a sequential scan (dc_sum(), checks): a lock on the heap, which an
 *			  insertion meets as well.
 *		 The server keeps that true when a page is split or deleted (it copies the
 *		 locks), when locks get too many (it replaces them by one on the index or
 *		 the heap), and when the index or the table is rewritten (by one on the heap).
 *	out: A transaction that reads the key later comes across that row, which it does
 *		 not see, as it looks for all rows. The row is there as long as it matters: W's
 *		 id is not older than R's snapshot, which keeps VACUUM and pruning from taking the row away,
 *		 even when W itself or a compaction has deleted it. R does not take the short cut by hints
 *		 (scan.c).
 *
 * The two leave no gap. An insertion looks for locks while it has the leaf page
 * locked, on which it then puts the entry. A scan takes its lock while it has the page
 * locked, before it reads the entries.
 *
 * Functions that insert a row anyway need nothing else: increments (apply.c: a row of the
 * transaction's own), and with them restocks, units that are given back, and transfers;
 * dc_set() that writes a shard row. Takes, and the other setters, insert a *mark*: a
 * row without amounts that they delete at once. It counts in no read, at no time.
 * One mark, or another row that the transaction has inserted under its own number, is
 * enough for a key and a transaction: readers that come after it come across it.
 *
 * The number is no proof of that. It is made of 30 bits of the transaction's id, so
 * after 2^30 transactions there may be a row of it that another transaction has inserted,
 * and that readers may know. Proof is a version that this transaction has made, and not
 * out of another one. If it has only updated the row (add_to_own(), a take), it leaves a
 * mark of another number.
 *
 * What a transaction may decide by. A read shows the transaction's snapshot. Takes
 * and setters lock the latest versions, and refuse with 40001 those that are newer than
 * the snapshot. So a transaction has learned nothing that is newer than its reads. A
 * take that was given its units has not read the key: that there were enough is true in
 * every order in which the transactions that gave and took these units can come, since
 * no other transaction could take them. So takes that succeed are not in each other's
 * way. A take that was refused, or got less, has read the key (take.c).
 *
 * What is left out, as it has no place in a serial order:
 *	- the table of totals, read by plain SQL, dc_total(), dc_top(): it shows the amounts
 *	  that commits have written there, or compaction has moved so far. Setters that change a
 *	  row of it conflict with transactions that have read that row, unless others have changed
 *	  it in between;
 *	- amounts in memory of a buffered table, and the rows of such a table, which are
 *	  read as of now (bufferread.c);
 *	- tables on other servers;
 *	- settings: of counter tables, and the rules of accounts (account.c), which are
 *	  read as of now under a lock.
 *
 * The server itself misses two cases, with any table. First, of transactions that have
 * committed while others are open it remembers a limited number: ten for each session and
 * each prepared transaction that it has room for. Beyond that it folds the oldest into a
 * summary. The summary keeps their locks, but as those of a transaction without an end
 * (finishedBefore), which CheckTargetForConflictsIn() takes for one that had ended before
 * W began. So W does not meet R if that many have committed between R's commit and W's
 * insertion. Nothing here can prevent that. Second, a transaction that has
 * its id before its first snapshot (LOCK TABLE ... IN ACCESS EXCLUSIVE MODE comes first)
 * is not found by that id: "out" does not work for it as W.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "core/counter/serial.h"
#include "core/counter/sqlwrite.h"
#include "core/rows/direct.h"
#include "core/rows/shardnumber.h"

/* The use of a number by rows of a key. */
typedef enum DcNumberState
{
	NUMBER_FREE,
	NUMBER_TAKEN,
	NUMBER_OURS /* this transaction has inserted a row of it */
} DcNumberState;

static DcNumberState number_state(DcDirectRel *rel, const DcDeltaKey *key,
								  int32 number);
static DcNumberState row_state(DcDirectRel *rel, TupleTableSlot *slot);
static void mark_by_sql(DcSqlSession *session, const DcKey *key);

/*
 * serial_mark leaves a mark for a key whose rows this transaction has changed. Does nothing
 * below SERIALIZABLE.
 */
void
serial_mark(DcDirectRel *rel, const DcDeltaKey *key)
{
	DcDelta nothing = {0};
	ItemPointerData tid;
	int32 number;

	if (!IsolationIsSerializable())
		return;
	number = own_shard(true);
	for (;;)
	{
		DcNumberState state = number_state(rel, key, number);

		if (state == NUMBER_OURS)
			return;
		if (state == NUMBER_FREE)
			break;
		/* left over from long ago: any other number is fine */
		CHECK_FOR_INTERRUPTS();
		number = random_shard();
	}
	nothing.key = *key;
	direct_insert_number(rel, &nothing, number, &tid);
	CommandCounterIncrement(); /* a command does not see the rows that it has inserted */
	simple_heap_delete(rel->heap, &tid);
	CommandCounterIncrement();
}

/*
 * serial_mark_key does that for a table of any kind, and a key whose shard rows this
 * transaction has deleted.
 */
void
serial_mark_key(DcSqlSession *session, const DcKey *key)
{
	DcCounter *counter = session->counter;
	DcDeltaKey shard_key = delta_key(counter->relid, key);
	DcDirectRel rel;

	if (!IsolationIsSerializable() || counter->foreign)
		return;
	if (!counter->direct_write)
	{
		mark_by_sql(session, key);
		return;
	}
	directrel_open(&rel, counter, DC_TABLE_SHARDS, true);
	serial_mark(&rel, &shard_key);
	directrel_close(&rel);
}

/*
 * number_state looks up the rows of a key that have a number, dead ones included.
 */
static DcNumberState
number_state(DcDirectRel *rel, const DcDeltaKey *key, int32 number)
{
	DcNumberState state = NUMBER_FREE;
	Datum text_key = delta_key_text(key);
	TupleTableSlot *slot = table_slot_create(rel->heap, NULL);
	IndexScanDesc scan;
	ScanKeyData keys[2];

	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, text_key);
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(number));
	scan = compat_index_beginscan(rel->heap, directrel_index(rel), SnapshotAny,
								  lengthof(keys));
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	while (state != NUMBER_OURS && index_getnext_slot(scan, ForwardScanDirection, slot))
		state = Max(state, row_state(rel, slot));
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	pfree(DatumGetPointer(text_key));
	return state;
}

/*
 * row_state returns what a version means for its number. A version that an update has made does
 * not count as an insertion (see above). The version before it is found as well, if it is ours.
 */
static DcNumberState
row_state(DcDirectRel *rel, TupleTableSlot *slot)
{
	HeapTupleHeader tuple = ExecFetchSlotHeapTuple(slot, false, NULL)->t_data;
	SnapshotData dirty;

	if ((tuple->t_infomask & HEAP_UPDATED) == 0 &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple)))
		return NUMBER_OURS;
	InitDirtySnapshot(dirty);
	return table_tuple_satisfies_snapshot(rel->heap, slot, &dirty) ? NUMBER_TAKEN : NUMBER_FREE;
}

/*
 * mark_by_sql leaves a mark in a table that has to be written with SQL.
 */
static void
mark_by_sql(DcSqlSession *session, const DcKey *key)
{
	Datum values[5];

	values[0] = key_text_datum(key);
	values[1] = values[2] = Int64GetDatum(0);
	values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[4] = Int32GetDatum(own_shard(false));
	sql_run(session, &sql_insert_own, values);
	values[1] = values[4];
	sql_run(session, &sql_delete_own, values);
}
