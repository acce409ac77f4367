/*
 * compactdirect.c
 *		Locking and clearing the shard rows of a batch without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * This does the same as the statements of compact.c, for tables whose shard rows may be written
 * without SQL (layout.c), below REPEATABLE READ: at that level it would matter how rows are
 * found (compactfind.c).
 *
 * A row that another transaction inserts, changes or has locked is left for the next time, or
 * for another try (compactbusy.c). Locking never waits (core/rows/clear.c). It fails if the row
 * has changed since it was read, so the amounts of a locked row are those that were read. Any
 * other transaction finds the lock as it would find that of FOR UPDATE.
 *
 * A reader sees the new totals and the cleared rows, or neither: they are of one transaction.
 *
 * The order. Keys come in their order, the rows of a key from the highest number down (by
 * SQL from the lowest up). A key with more rows than fit is left for the next batch, unless it
 * is the first of this one: then it is cut, and the next batch goes on below the last
 * number. A sweep may change from one way to the other between two batches, as the owner
 * may have altered the table. It continues at the same key, and may see rows of it twice, or leave
 * some for the next sweep.
 *
 * Kept rows. A row that was deleted leaves dead index entries. A scan steps over the dead
 * entries of a number once it has found the visible version of that number, but has to visit
 * those of numbers without one. So while an old snapshot keeps dead rows (oldsnapshot.c), rows
 * are zeroed instead of deleted, and rows that are zero are left as they are: new increments
 * find them, and no new numbers are needed. That is exact in any case: a value is the sum of
 * all rows there are. When the snapshot has gone they are deleted as any idle row. Rows that
 * belonged to one transaction alone are kept as well, for SERIALIZABLE ones
 * (core/rows/again.c). A key keeps max_shards rows, and KEEP_OWN of these; further ones are
 * left over from a burst.
 *
 * Between locking and clearing, statements of ours write the totals, and may run code of the
 * table's owner (in dc_compact(), never in the worker). The shard table stays open in the meantime,
 * so that code cannot alter it. It may put a trigger or a rule on it, which is searched for again.
 * If it changes a row that is locked, by this transaction, the row can no longer be cleared, which
 * is an error.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/snapmgr.h"

#include "base/key.h"
#include "core/compact/compactfind.h"
#include "core/compact/compactstuck.h"
#include "core/rows/oldsnapshot.h"
#include "core/rows/shardnumber.h"
#include "core/table/extras.h"
#include "core/table/layout.h"

/* Rows that belonged to one transaction alone, of those that a key keeps. */
#define KEEP_OWN 32

static bool add_to_batch(DcFetch *fetch);
static void compactdirect_reach(DcFetch *fetch, int32 shard);
static void drop_kept(DcFetch *fetch);
static void lock_rows(DcFetch *fetch);
static void batch_add_live(DcBatch *batch, DcBatchKey *key, const DcLiveRow *live);
static bool is_empty(const DcLiveRow *row);

/*
 * Return true if the rows of a counter table are compacted without SQL.
 */
bool
compacts_directly(const DcCounter *counter)
{
	return counter->direct_write && !counter_is_stock(counter) && !IsolationUsesXactSnapshot();
}

/*
 * batch_fetch_direct opens the shard table, and locks and reads the next rows of it.
 */
void
batch_fetch_direct(DcCounter *counter, DcBatch *batch, DcSweep *sweep, int64 max_keys)
{
	DcFetch fetch;
	bool fits = true;

	batch->direct = palloc(sizeof(DcDirectRel));
	directrel_open(batch->direct, counter, DC_TABLE_SHARDS, true);
	batch->keep = old_snapshot_held(batch->direct->heap);
	PushActiveSnapshot(GetTransactionSnapshot()); /* to look up transactions */
	fetch_begin(&fetch, batch, sweep);
	while (fits && !fetch.at_end && batch->nkeys < max_keys && batch->nrows < batch->max_rows && batch->reached == (Datum) 0)
	{
		fetch_take_key(&fetch);
		if (sweep->only && !batch_key_equal(fetch.key, sweep->key))
			fetch.at_end = true;
		else if (sweep->remembers && stuck_is_left_out(counter->relid, fetch.key))
			fetch_pass_key(&fetch);
		else
		{
			fetch_rows(&fetch);
			fits = add_to_batch(&fetch);
		}
		if (fits && fetch_is_long(&fetch))
			compactdirect_reach(&fetch, PG_INT32_MIN);
	}
	batch->last = fits && fetch.at_end;
	fetch_end(&fetch);
	PopActiveSnapshot();
}

/*
 * add_to_batch locks the rows of the key and adds them to the batch; false if the next batch
 * has to continue with this key.
 */
static bool
add_to_batch(DcFetch *fetch)
{
	DcBatch *batch = fetch->batch;

	for (;;)
	{
		int last = fetch->cut_at;
		bool cut = fetch->cut;

		if (batch->keep)
			drop_kept(fetch);
		if (fetch->nrows > batch->max_rows)
		{
			fetch->nrows = batch->max_rows;
			last = fetch->rows[fetch->nrows - 1].shard;
			cut = true;
		}
		if (batch->nkeys > 0 && (cut || batch->nrows + fetch->nrows > batch->max_rows))
			return false;
		lock_rows(fetch);
		if (!cut || batch->nkeys > 0)
			return !cut;
		/* none of these could be locked, or had to be */
		CHECK_FOR_INTERRUPTS();
		if (fetch_is_long(fetch))
		{
			compactdirect_reach(fetch, last);
			return false;
		}
		fetch->below = last;
		fetch_many_rows(fetch);
	}
}

/*
 * compactdirect_reach cuts the batch at a row of the key, below which the next one continues.
 */
static void
compactdirect_reach(DcFetch *fetch, int32 shard)
{
	fetch->batch->reached = datumCopy(fetch->key, false, -1);
	fetch->batch->reached_shard = shard;
}

/*
 * drop_kept removes from the list the rows that stay as they are: those without amounts, if there
 * are not too many.
 */
static void
drop_kept(DcFetch *fetch)
{
	int room[2] = {KEEP_OWN, fetch->rel->counter->row.max_shards};
	int n = 0;

	for (int i = 0; i < fetch->nrows; i++)
	{
		bool keeps = room[shard_is_shared(fetch->rows[i].shard) ? 1 : 0]-- > 0;

		if (!keeps || !is_empty(&fetch->rows[i]))
			fetch->rows[n++] = fetch->rows[i];
	}
	fetch->nrows = n;
}

/*
 * lock_rows locks the rows and adds those that it gets to the batch.
 */
static void
lock_rows(DcFetch *fetch)
{
	DcBatch *batch = fetch->batch;
	DcBatchKey *key = NULL;

	for (int i = 0; i < fetch->nrows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!row_lock(fetch->rel, &fetch->rows[i]))
		{
			sweep_note_busy(fetch->sweep, fetch->key);
			continue;
		}
		if (key == NULL)
		{
			key = &batch->keys[batch->nkeys++];
			*key = (DcBatchKey){
				.key = datumCopy(fetch->key, false, -1),
				.first = batch->nrows,
				.at = fetch->rows[i].at,
			};
		}
		batch_add_live(batch, key, &fetch->rows[i]);
	}
}

/*
 * Add a locked row to the batch, and its amounts to its key.
 */
static void
batch_add_live(DcBatch *batch, DcBatchKey *key, const DcLiveRow *live)
{
	batch->rows[batch->nrows++] = (DcShardRow){
		.key = key->key,
		.shard = Int32GetDatum(live->shard),
		.empty = is_empty(live),
		.live = *live,
	};
	key->nrows++;
	key->used |= !is_empty(live);
	batch_key_add_shard(batch->direct->counter, key, live->shard, live->inc, live->dec, live->at);
}

/*
 * Return true if a row has no amounts.
 */
static bool
is_empty(const DcLiveRow *row)
{
	return row->inc == 0 && row->dec == 0;
}

/*
 * batch_clear_direct deletes or zeroes the rows whose amounts are in the totals now.
 */
void
batch_clear_direct(DcBatch *batch)
{
	DcDirectRel *rel = batch->direct;

	/* code of the owner may have put something on it */
	if (relation_extras(rel->heap, EXTRAS_OF_SHARDS) != 0)
		layout_altered_error(rel->heap);
	CheckCmdReplicaIdentity(rel->heap, CMD_DELETE);
	for (int i = 0; i < batch->nkeys; i++)
	{
		const DcBatchKey *key = &batch->keys[i];
		DcKey bytes;
		DcDeltaKey delta;

		key_from_text(key->key, &bytes);
		delta = delta_key(rel->counter->relid, &bytes);
		for (int r = key->first; !key->skip && r < key->first + key->nrows; r++)
		{
			const DcShardRow *row = &batch->rows[r];
			bool shared = shard_is_shared(row->live.shard);
			bool zero = !row->empty && (batch->keep || (key->nrows > 1 && shared));

			CHECK_FOR_INTERRUPTS();
			if (zero)
				row_zero(rel, &delta, &row->live);
			else
				row_delete(rel, &delta, &row->live);
		}
	}
	CommandCounterIncrement();
}
