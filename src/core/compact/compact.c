/*
 * compact.c
 *		dc_compact(): moving amounts from shard rows to totals.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Protocol, for a batch of shard rows in the order of the keys, with SQL or, where that is
 * possible, without it (compactdirect.c); of a table that Citus distributes, shard by shard
 * (compactdistributed.c):
 *
 *	1. One compaction at a time works on a counter table: it has an advisory lock
 *	   (locks.c), taken without waiting. If another transaction has that, there is
 *	   nothing to do.
 *	2. Lock shard rows with SKIP LOCKED. A row that is being incremented, set or
 *	   deleted is left for the next time.
 *	3. Lock the keys' rows of totals with SKIP LOCKED. A key whose row exists but
 *	   is locked, by dc_set(), dc_delete() or a commit, is left alone.
 *	4. Write the sums to the totals and take them off the shard rows. A key whose row of
 *	   totals another transaction is just inserting, or has inserted since step 3, is left alone.
 *
 * So a compaction never waits for a row. It blocks no transaction and takes part in no
 * deadlock; writers skip the rows that it has locked. The tables and their partitions are
 * locked before that: also without waiting, except for a table that the caller has named. Both
 * tables change in one transaction, so every snapshot sees an amount exactly once.
 *
 * A compaction holds its locks to the end of its transaction, which may be a user's. A writer
 * that finds all of a key's max_shards rows locked therefore does not wait while a compaction
 * is in progress, but inserts one more.
 *
 * A key's only shard row is deleted. Of several rows, those that were used since the last time
 * are set to zero, as they will be used again, and those that were not are deleted: an idle key
 * shrinks to nothing in two rounds, without a clock. Rows that belonged to one transaction
 * alone (apply.c) are deleted as well. In a stock they also hold units, which stay in the shard
 * rows (compactunits.c). Without SQL rows are kept as long as an old snapshot is held.
 *
 * A table may have a trend: weights of its keys, to which the same transaction adds what it moves
 * (time/trend/trendbatch.c). A key whose weight is locked is left alone, too.
 *
 * A key whose sum overflows bigint stays in its shard rows, until it is set or deleted (set.c).
 * An explicit compaction warns of it each time, the worker only once (compactstuck.c).
 *
 * Under REPEATABLE READ and SERIALIZABLE a row that has changed since the
 * snapshot is a serialization failure (40001). Commits also change rows of totals, so comes often.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "core/compact/compact.h"
#include "core/compact/compactbatch.h"
#include "core/compact/compactstuck.h"
#include "core/counter/apply.h"
#include "core/counter/foreign.h"
#include "core/counter/sqlpath.h"
#include "core/rows/locks.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/layout.h"
#include "core/table/subscription.h"

PG_FUNCTION_INFO_V1(dc_compact);

/* after key, after shard, limit, keys to leave out: rows that are not locked */
static const DcStatement sql_compact_shards = {
	.text = "SELECT s.key, s.shard, s.inc, s.dec, s.updated_at, s.@units FROM @shards AS s"
			" WHERE (s.key, s.shard) > ($1, $2) AND s.key <> ALL ($4) ORDER BY s.key, s.shard"
			" LIMIT $3 FOR UPDATE SKIP LOCKED",
	.argtypes = {TEXTOID, INT4OID, INT4OID, TEXTARRAYOID},
	.columns = {DC_TEXT("key"), DC_COLUMN("shard", INT4OID), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at"), DC_BIGINT("units")},
	.of = DC_OF_SHARDS};

static int64 compact_table(DcCounter *counter, int64 max_keys);
static void sweep_move(DcSweep *sweep, Datum key, Datum shard);
static void batch_fetch(DcSqlSession *session, DcBatch *batch, DcSweep *sweep,
						int64 max_keys);
static int64 batch_compact(DcSqlSession *session, DcSweep *sweep, int64 max_keys);

/*
 * dc_compact(counter regclass, max_keys int) -> bigint, the number of keys
 * compacted. NULL for counter: all counter tables that the caller owns; those
 * that another session is about to drop or alter are skipped, and so are, with a notice, those that
 * a subscription feeds. NULL for max_keys: no limit.
 */
Datum
dc_compact(PG_FUNCTION_ARGS)
{
	int64 max_keys = PG_ARGISNULL(1) ? PG_INT64_MAX : PG_GETARG_INT32(1);
	int64 done = 0;
	ListCell *lc;

	if (max_keys < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_keys must not be negative")));
	prevent_write("dc_compact()");
	if (!PG_ARGISNULL(0))
	{
		DcCounter *counter = counter_open_as_owner(fcinfo, "dc_compact()",
												   RowExclusiveLock);

		prevent_fed(counter, "dc_compact()");
		apply_early();
		if (counter_is_replicated(counter))
			region_hooks->await(counter);
		counter_lock_partitions(counter);
		PG_RETURN_INT64(compact_table(counter, max_keys));
	}

	apply_early();
	foreach(lc, catalog_read_all())
	{
		DcCounter *counter = compact_open(((DcCounterRow *) lfirst(lc))->counter,
										  false);

		CHECK_FOR_INTERRUPTS();
		if (counter == NULL || done >= max_keys)
			continue;
		if (counter->fed)
			compact_note_fed(counter->relid);
		else
			done += compact_table(counter, max_keys - done);
	}
	PG_RETURN_INT64(done);
}

/*
 * compact_open locks a counter table without waiting. Returns NULL if it is
 * not the current user's (unless all_owners), is locked by DDL, or cannot be
 * compacted in its state.
 */
DcCounter *
compact_open(Oid relid, bool all_owners)
{
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ||
		(!all_owners && !compat_owns_relation(relid, GetUserId())))
		return NULL;
	return counter_open_at_once(relid, RowExclusiveLock);
}

/*
 * compact_note_fed tells the user that a table is not compacted.
 */
void
compact_note_fed(Oid relid)
{
	ereport(NOTICE,
			(errmsg("counter table \"%s\" is left alone: it is fed by a subscription",
					get_rel_name(relid))));
}

/*
 * compact_table compacts up to max_keys keys of a table, batch by batch. Rows that a
 * subscription may be writing must not be among them (subscription.c).
 */
static int64
compact_table(DcCounter *counter, int64 max_keys)
{
	DcMoment started = stats_clock();
	DcSweep sweep;
	int64 done = 0;

	sweep_start(&sweep, CurrentMemoryContext);
	while (!sweep.done && done < max_keys)
		done += sweep_next(&sweep, counter, max_keys - done);
	if (sweep.complete && stats_hooks != NULL)
		stats_hooks->swept(counter, started, sweep.stuck);
	sweep_end(&sweep);
	if (done > 0)
		check_still_not_fed(counter->relid);
	return done;
}

/*
 * sweep_start begins a sweep over the shard rows of a table. The key that is remembered from
 * one batch to the next is kept in cxt, as the batches may be in different transactions.
 */
void
sweep_start(DcSweep *sweep, MemoryContext cxt)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);

	*sweep = (DcSweep){
		.key = CStringGetTextDatum(""),
		.shard = Int32GetDatum(PG_INT32_MIN),
		.cxt = cxt,
	};
	MemoryContextSwitchTo(old);
}

/*
 * sweep_start_of_key begins a sweep over the shard rows of one key. Only for tables that are
 * compacted without SQL.
 */
void
sweep_start_of_key(DcSweep *sweep, MemoryContext cxt, Datum key)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);

	*sweep = (DcSweep){
		.key = datumCopy(key, false, -1),
		.shard = Int32GetDatum(PG_INT32_MIN),
		.only = true,
		.cxt = cxt,
	};
	MemoryContextSwitchTo(old);
}

/*
 * sweep_next compacts the next batch, and returns the number of its keys. It
 * sets done when no rows follow, or when another transaction compacts the
 * table.
 */
int64
sweep_next(DcSweep *sweep, DcCounter *counter, int64 max_keys)
{
	DcSqlSession session;
	int64 count;

	CHECK_FOR_INTERRUPTS();
	distribution_check(counter);
	if (!lock_compaction(counter))
	{
		ereport(DEBUG1,
				(errmsg_internal("counter table \"%s\" is being compacted by another transaction",
								 get_rel_name(counter->relid))));
		sweep->done = true;
		return 0;
	}
	if (counter_is_replicated(counter) && !region_hooks->ready(counter))
	{
		sweep->done = true;
		return 0;
	}
	if (counter_has_trend(counter) && !trend_hooks->ready(counter))
	{
		sweep->done = true;
		return 0;
	}
	if (counter->foreign)
	{
		foreign_ready(counter);
		foreign_note_early(counter);
	}

	sql_begin(&session, counter);
	count = counter->distributed ? sweep_distributed(&session, sweep, max_keys)
								 : batch_compact(&session, sweep, max_keys);
	sweep->done = sweep->complete;
	sql_end(&session);
	if (sweep->complete && counter_has_trend(counter))
		trend_hooks->swept(counter);
	if (stats_hooks != NULL)
		stats_hooks->compacted(counter, count);
	return count;
}

/*
 * batch_compact compacts one batch, and returns the number of its keys. It sets complete when no
 * rows follow.
 */
static int64
batch_compact(DcSqlSession *session, DcSweep *sweep, int64 max_keys)
{
	DcCounter *counter = session->counter;
	DcBatch batch = {.max_rows = dc_compact_batch};
	int64 count = 0;

	batch.rows = palloc(batch.max_rows * sizeof(DcShardRow)); /* in SPI's context */
	batch.keys = palloc(batch.max_rows * sizeof(DcBatchKey));
	if (compacts_directly(counter))
		batch_fetch_direct(counter, &batch, sweep, max_keys);
	else
		batch_fetch(session, &batch, sweep, max_keys);
	if (batch.nkeys > 0)
	{
		counter_check_deferred(counter, false);
		counter_check_deferred(counter, true);
		batch_to_totals(session, &batch);
		if (counter_is_stock(counter))
			batch_clear_units(session, &batch);
		else if (batch.direct != NULL)
			batch_clear_direct(&batch);
		else
			batch_clear_shards(session, &batch);
		count = batch_count(&batch, sweep->counted ? sweep->key : (Datum) 0);
		sweep_move(sweep, batch.rows[batch.nrows - 1].key, batch.rows[batch.nrows - 1].shard);
	}
	if (batch.reached != (Datum) 0)
		sweep_move(sweep, batch.reached, Int32GetDatum(batch.reached_shard));
	if (batch.direct != NULL)
		directrel_close(batch.direct);
	sweep->keeps |= batch.keep;
	sweep->complete = batch.last || (batch.nkeys == 0 && batch.reached == (Datum) 0);
	batch_tell_stuck(sweep, counter, &batch);
	return count;
}

/*
 * sweep_end frees the memory of a sweep.
 */
void
sweep_end(DcSweep *sweep)
{
	pfree(DatumGetPointer(sweep->key));
}

/*
 * sweep_move notes the last row that was seen.
 */
static void
sweep_move(DcSweep *sweep, Datum key, Datum shard)
{
	Datum last = sweep->key;
	MemoryContext old = MemoryContextSwitchTo(sweep->cxt);

	sweep->key = datumCopy(key, false, -1);
	MemoryContextSwitchTo(old);
	pfree(DatumGetPointer(last));
	sweep->shard = shard;
	sweep->counted = true;
}

/*
 * batch_fetch locks and reads the next shard rows. A key that the batch may
 * have cut is left for the next batch, unless it is the only one.
 */
static void
batch_fetch(DcSqlSession *session, DcBatch *batch, DcSweep *sweep,
			int64 max_keys)
{
	Datum values[4];
	uint64 nrows;

	values[0] = sweep->key;
	values[1] = sweep->shard;
	values[2] = Int32GetDatum(batch->max_rows);
	values[3] = sweep->remembers ? stuck_to_leave_out(session->counter->relid)
								 : array_datum(NULL, 0, TEXTOID);
	nrows = sql_run(session, &sql_compact_shards, values);
	batch->last = (nrows < batch->max_rows);
	for (uint64 i = 0; i < nrows; i++)
		batch_add_row(session->counter, batch, &session->rows, i);
	if (!batch->last && batch->nkeys > 1)
		batch->nkeys--;
	if (batch->nkeys > max_keys)
	{
		batch->nkeys = max_keys;
		batch->last = false;
	}
	if (batch->nkeys > 0)
	{
		DcBatchKey *last = &batch->keys[batch->nkeys - 1];

		batch->nrows = last->first + last->nrows;
	}
}
