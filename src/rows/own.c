/*
 * own.c
 *		Rows of a transaction's own while an old snapshot is held.
 *
 * A transaction that writes early, that is prepared, or that is SERIALIZABLE adds to a row that
 * it inserts itself, under a number of its own (counter/apply.c). Compaction deletes
 * such rows. While an old snapshot is held, each leaves a dead index entry of a number
 * without a visible version, which all that look for the rows of the key have to visit (scan.c): one
 * more for each such transaction. So then compaction keeps these rows at zero (compactdirect.c),
 * and the transaction takes one of them, if there is one that is free. There will be about
 * as many as such transactions are open at a time. They are told from rows that are for
 * all by their numbers (shardnumber.c).
 *
 * What a row of its own is for must hold for a row that is taken:
 *
 *	- Nobody waits for it. It may stay locked for as long as a prepared transaction is
 *	  forgotten. To take it does not wait; commits that wait for a row choose one that is
 *	  for all (direct.c); compaction and others pass it over.
 *	- It has nothing but what the transaction adds. Early, only rows without amounts are taken,
 *	  so no amount of others stays out of the totals as long as the transaction is open.
 *	- The transaction may read the key afterwards. One with a single snapshot would see its new
 *	  version beside other rows as they were before: so it takes only a row of which its
 *	  snapshot sees the version that is replaced. With a snapshot for each statement the
 *	  next one sees all that was there when the row was taken.
 *	- A SERIALIZABLE transaction inserts a row, by which others find it (serial.c). It does
 *	  so here: it deletes the row that it takes, and inserts one of the same number, with
 *	  the sum. At commit that may be a row with amounts. The number has one live row at any
 *	  time, as the lock on the old one is held. But a number has several entries now
 *	  by which readers must find each of these transactions. So a SERIALIZABLE scan
 *	  does not step over entries of such numbers (scan.c), and visits each; it has visited as
 *	  many when each had a number of its own. It takes predicate locks on the pages of all of them,
 *	  so the new entry meets a lock, wherever it goes.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "common/int.h"
#include "miscadmin.h"
#include "rows/clear.h"
#include "rows/oldsnapshot.h"
#include "rows/own.h"
#include "rows/scan.h"
#include "rows/shardnumber.h"
#include "rows/sharedhints.h"
#include "utils/snapmgr.h"

static bool try_own_rows(DcDirectRel *rel, const DcDelta *delta, DcHintList *list,
						 bool committing);
static bool may_take(DcDirectRel *rel, const DcDelta *delta, DcVersion *version,
					 bool committing);
static bool replace_row(DcDirectRel *rel, const DcDelta *delta, DcHintList *list, int i,
						DcVersion *version);
static bool is_ours(DcVersion *version);

/*
 * own_rows_are_reused tells whether transactions should take own rows that were left.
 */
bool
own_rows_are_reused(DcCounter *counter)
{
	Relation heap = table_open(counter->row.shards, NoLock);
	bool old = old_snapshot_held(heap);

	table_close(heap, NoLock);
	return old;
}

/*
 * direct_add_own adds a delta to a row that is this transaction's own until it ends: one that
 * it has written already, one that was left, or a new one. Never waits.
 */
void
direct_add_own(DcDirectRel *rel, const DcDelta *delta, bool committing)
{
	DcHintList *list = hints_get(&delta->key);
	int32 number = own_shard(false);
	ItemPointerData root;

	if (list->nhints == 0)
		list = shared_hints_learn(&delta->key);
	if (try_own_rows(rel, delta, list, committing))
		return;
	scan_hints(rel, list);
	if (try_own_rows(rel, delta, list, committing))
		return;
	/* there may be one of our number that was left, or that we could not take */
	for (int i = 0; i < list->nhints; i++)
	{
		if (list->hints[i].shard == number)
		{
			number = random_shard() & (SHARED_SHARD - 1);
			i = -1;
		}
	}
	direct_insert_number(rel, delta, number, &root);
	if (list->nhints > 0)
		shared_hint_put(&delta->key, number, &root);
	hints_add(list, &root, number);
}

/*
 * try_own_rows adds a delta to the first of the known rows that may be taken.
 */
static bool
try_own_rows(DcDirectRel *rel, const DcDelta *delta, DcHintList *list, bool committing)
{
	for (int i = 0; i < list->nhints;)
	{
		DcProbe probe;
		bool fresh = false;

		CHECK_FOR_INTERRUPTS();
		if (shard_is_shared(list->hints[i].shard))
		{
			i++;
			continue;
		}
		switch (probe_row(rel, &delta->key, &list->hints[i], &probe))
		{
			case DC_PROBE_GONE:
				hints_remove(list, i);
				continue;
			case DC_PROBE_BUSY:
				break;
			case DC_PROBE_FREE:
				fresh = IsolationIsSerializable() && !is_ours(&probe.version);
				if (!may_take(rel, delta, &probe.version, committing))
					version_release(&probe.version);
				else if (fresh ? replace_row(rel, delta, list, i, &probe.version)
							   : direct_update(rel, delta, &list->hints[i], &probe.version,
											   ROW_LOCK))
					return true;
				break;
		}
		i++;
	}
	return false;
}

/*
 * may_take tells whether the row whose version was probed may be this transaction's own.
 */
static bool
may_take(DcDirectRel *rel, const DcDelta *delta, DcVersion *version, bool committing)
{
	const AttrNumber *atts = rel->layout->atts;
	int64 inc = DatumGetInt64(rel->values[atts[DC_COL_INC] - 1]);
	int64 dec = DatumGetInt64(rel->values[atts[DC_COL_DEC] - 1]);
	int64 sum;

	if (is_ours(version))
		return true;
	if (committing)
		return !pg_add_s64_overflow(inc, delta->inc, &sum) &&
			!pg_add_s64_overflow(dec, delta->dec, &sum);
	return inc == 0 && dec == 0 &&
		(!IsolationUsesXactSnapshot() || version_is_visible(version, GetTransactionSnapshot()));
}

/*
 * replace_row deletes a row and inserts one of the same number, with a delta added. False if
 * another transaction has it.
 */
static bool
replace_row(DcDirectRel *rel, const DcDelta *delta, DcHintList *list, int i,
			DcVersion *version)
{
	const AttrNumber *atts = rel->layout->atts;
	int32 shard = list->hints[i].shard;
	DcLiveRow row = {
		.tid = version->tuple.t_self,
		.shard = shard,
		.inc = DatumGetInt64(rel->values[atts[DC_COL_INC] - 1]),
		.dec = DatumGetInt64(rel->values[atts[DC_COL_DEC] - 1]),
	};
	DcDelta sum = *delta;
	ItemPointerData root;

	version_release(version);
	if (!row_lock(rel, &row))
		return false;
	row_delete(rel, &delta->key, &row);
	sum.inc += row.inc;
	sum.dec += row.dec;
	direct_insert_again(rel, &sum, shard, &root);
	hints_add(list, &root, shard);
	shared_hint_put(&delta->key, shard, &root);
	return true;
}

/*
 * is_ours tells whether this transaction has made a version.
 */
static bool
is_ours(DcVersion *version)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(version->tuple.t_data));
}
