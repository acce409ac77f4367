/*
 * compactdistributed.c
 *		A batch of compaction of a table that Citus distributes.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A statement can lock rows of one shard only (core/table/distribution.c). So a batch begins by
 * reading the next keys, without locks, from all shards; sorts them by the shard that each belongs
 * to; and then does what compact.c says for the keys of one shard after the other, in the one
 * transaction of the batch. Each statement has the keys of one shard as its parameter, and so goes
 * to one worker, once.
 *
 * Rows are locked with SKIP LOCKED on the worker, as elsewhere: compaction waits for no
 * transaction, and a session that finds a lock on the key, or on all of them
 * (core/rows/locks.c), adds to a row that compaction has not seen. Each of these rows is work
 * for the next sweep, and finding keys takes a while. So the lock on all is left for dc_compact(),
 * and for many keys, and commits of other keys continue as if there were no compaction. So
 * compaction comes to an end even while a table is in use. A key that is gone by the time that its
 * rows are locked has none. If a shard was split in the meantime, that is an error, and the batch
 * is left for the next time.
 *
 * Citus moves a shard when no transaction that has written to it, or to one that is colocated,
 * is open. Locking rows is not writing: a shard could move between the statement that locks and
 * reads its rows and those that write, and an increment made in between, on the other worker,
 * would be deleted unseen. So the first statement for a shard is a DELETE of a row that never
 * exists (sql_hold_shard).
 *
 * A batch uses one connection to each worker, so that what it does for a key is one transaction
 * there, which others see or do not see as a whole.
 *
 * A batch commits on several workers. Citus does so in two phases, so if a worker or the
 * coordinator is lost, the amounts are either in their old place or in the new one: a prepared
 * transaction of a worker has both.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "core/compact/compactbatch.h"
#include "core/compact/compactstuck.h"
#include "core/rows/locks.h"
#include "core/table/layout.h"

/* after key, limit, keys to leave out */
static const DcStatement sql_next_keys = {
	.text = "SELECT DISTINCT s.key FROM @shards AS s WHERE s.key > $1 AND s.key <> ALL ($3)"
			" ORDER BY s.key LIMIT $2",
	.argtypes = {TEXTOID, INT4OID, TEXTARRAYOID},
	.columns = {DC_TEXT("key")},
	.of = DC_OF_SHARDS};

/* keys, shard table: by the shard of each */
static const DcStatement sql_sort_keys = {
	.text = "SELECT d.key, get_shard_id_for_distribution_column($2, d.key) FROM unnest($1) AS d(key)"
			" ORDER BY 2, d.key COLLATE \"C\"",
	.argtypes = {TEXTARRAYOID, REGCLASSOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("shard")},
	.of = DC_OF_SHARDS};

/*
 * A batch has this many times as many keys as a batch of a local table has rows. Most of its
 * time goes to the messages, which are some for each shard.
 */
#define MORE_KEYS 8

/*
 * How many keys a transaction of the job locks one by one, which make a batch: memory for locks
 * is shared. And how many such batches it makes of the keys that it has found at once: more
 * would take too long.
 */
#define MAX_KEY_LOCKS 256
#define SMALL_BATCHES 8

/* A transaction, and how many keys it has locked. */
static LocalTransactionId locked_in = InvalidLocalTransactionId;
static int nlocked = 0;

/* keys of one shard */
static const DcStatement sql_hold_shard = {
	.text = "DELETE FROM @shards AS s WHERE s.key = ANY ($1) AND s.shard = (-2147483648)::int4",
	.argtypes = {TEXTARRAYOID}};

/* keys of one shard, after key, after shard row, limit: rows that are not locked */
static const DcStatement sql_lock_rows = {
	.text = "SELECT s.key, s.shard, s.inc, s.dec, s.updated_at, s.@units FROM @shards AS s"
			" WHERE s.key = ANY ($1) AND (s.key, s.shard) > ($2, $3) ORDER BY s.key, s.shard"
			" LIMIT $4 FOR UPDATE SKIP LOCKED",
	.argtypes = {TEXTARRAYOID, TEXTOID, INT4OID, INT4OID},
	.columns = {DC_TEXT("key"), DC_COLUMN("shard", INT4OID), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at"), DC_BIGINT("units")},
	.of = DC_OF_SHARDS};

static int compactdistributed_next_keys(DcSqlSession *session, DcSweep *sweep, int limit, Datum **keys);
static int key_locks_left(void);
static int lock_keys(DcCounter *counter, Datum *keys, int nkeys);
static int64 *sort_keys(DcSqlSession *session, Datum *keys, int nkeys);
static int64 compact_shard(DcSqlSession *session, DcSweep *sweep, Datum *keys, int nkeys);
static void fetch_from_shard(DcSqlSession *session, DcBatch *batch, Datum *values);

/*
 * sweep_distributed compacts the next keys, and returns how many had an amount. It sets complete
 * when no keys follow.
 */
int64
sweep_distributed(DcSqlSession *session, DcSweep *sweep, int64 max_keys)
{
	int limit = (int) Min(max_keys, MORE_KEYS * (int64) dc_compact_batch);
	MemoryContext old;
	Datum last = sweep->key;
	Datum *keys;
	int64 *shards;
	int found;
	int nkeys;
	bool few;
	int64 count = 0;

	/* until the session ends */
	set_config_option("citus.max_adaptive_executor_pool_size", "1", PGC_USERSET, PGC_S_SESSION,
					  GUC_ACTION_SAVE, true, 0, false);
	found = compactdistributed_next_keys(session, sweep, limit, &keys);
	few = sweep->remembers && found <= SMALL_BATCHES * MAX_KEY_LOCKS && key_locks_left() > 0;
	nkeys = few ? Min(found, key_locks_left()) : found;
	sweep->complete = found < limit && nkeys == found;
	if (nkeys == 0)
		return 0;
	old = MemoryContextSwitchTo(sweep->cxt);
	sweep->key = datumCopy(keys[nkeys - 1], false, -1);
	MemoryContextSwitchTo(old);
	pfree(DatumGetPointer(last));

	if (few)
		nkeys = lock_keys(session->counter, keys, nkeys);
	else
		lock_compacted(session->counter);
	shards = sort_keys(session, keys, nkeys);
	for (int start = 0, end; start < nkeys; start = end)
	{
		end = start + 1;
		while (end < nkeys && shards[end] == shards[start])
			end++;
		count += compact_shard(session, sweep, keys + start, end - start);
	}
	return count;
}

/*
 * compactdistributed_next_keys reads the keys that follow those that the sweep has seen.
 */
static int
compactdistributed_next_keys(DcSqlSession *session, DcSweep *sweep, int limit, Datum **keys)
{
	Datum values[3];
	int n;

	values[0] = sweep->key;
	values[1] = Int32GetDatum(limit);
	values[2] = sweep->remembers ? stuck_to_leave_out(session->counter->relid)
								 : array_datum(NULL, 0, TEXTOID);
	n = (int) sql_run(session, &sql_next_keys, values);
	*keys = palloc(Max(n, 1) * sizeof(Datum));
	for (int i = 0; i < n; i++)
		(*keys)[i] = datumCopy(rows_datum(&session->rows, i, 1), false, -1);
	return n;
}

/*
 * key_locks_left returns how many keys this transaction may lock. dc_maintain() may have several
 * batches in it.
 */
static int
key_locks_left(void)
{
	if (locked_in != compat_local_xid())
		nlocked = 0;
	locked_in = compat_local_xid();
	return MAX_KEY_LOCKS - nlocked;
}

/*
 * lock_keys locks some keys, and returns how many are left: keys that other transactions are
 * setting are left out, as setters look for a compaction afterwards.
 */
static int
lock_keys(DcCounter *counter, Datum *keys, int nkeys)
{
	int left = 0;

	for (int i = 0; i < nkeys; i++)
	{
		if (lock_compacted_key(counter, VARDATA_ANY(DatumGetPointer(keys[i])), VARSIZE_ANY_EXHDR(DatumGetPointer(keys[i]))))
			keys[left++] = keys[i];
	}
	nlocked += left;
	return left;
}

/*
 * sort_keys sorts keys by the shard to which they belong, and returns the shards.
 */
static int64 *
sort_keys(DcSqlSession *session, Datum *keys, int nkeys)
{
	int64 *shards = palloc(nkeys * sizeof(int64));
	Datum values[2];

	values[0] = array_datum(keys, nkeys, TEXTOID);
	values[1] = ObjectIdGetDatum(session->counter->row.shards);
	if (sql_run(session, &sql_sort_keys, values) != nkeys)
		elog(ERROR, "unexpected number of rows");
	for (int i = 0; i < nkeys; i++)
	{
		keys[i] = datumCopy(rows_datum(&session->rows, i, 1), false, -1);
		shards[i] = rows_bigint(&session->rows, i, 2);
	}
	return shards;
}

/*
 * compact_shard compacts keys of one shard, and returns how many had an amount. A key with many
 * rows may be done in several parts.
 */
static int64
compact_shard(DcSqlSession *session, DcSweep *sweep, Datum *keys, int nkeys)
{
	DcCounter *counter = session->counter;
	DcBatch batch = {.max_rows = Max(dc_compact_batch, nkeys)};
	Datum values[4];
	Datum counted = (Datum) 0;
	int64 count = 0;

	values[0] = array_datum(keys, nkeys, TEXTOID);
	values[1] = CStringGetTextDatum("");
	values[2] = Int32GetDatum(PG_INT32_MIN);
	values[3] = Int32GetDatum(batch.max_rows);
	batch.rows = palloc(batch.max_rows * sizeof(DcShardRow));
	batch.keys = palloc(batch.max_rows * sizeof(DcBatchKey));
	(void) sql_run(session, &sql_hold_shard, values);
	while (!batch.last)
	{
		CHECK_FOR_INTERRUPTS();
		fetch_from_shard(session, &batch, values);
		if (batch.nkeys == 0)
			break;
		counter_check_deferred(counter, false);
		counter_check_deferred(counter, true);
		batch_to_totals(session, &batch);
		batch_clear_shards(session, &batch);
		count += batch_count(&batch, counted);
		batch_tell_stuck(sweep, counter, &batch);
		values[1] = counted = batch.rows[batch.nrows - 1].key;
		values[2] = batch.rows[batch.nrows - 1].shard;
	}
	return count;
}

/*
 * fetch_from_shard locks and reads the next rows of some keys. The rows keep their memory until the
 * session ends.
 */
static void
fetch_from_shard(DcSqlSession *session, DcBatch *batch, Datum *values)
{
	uint64 nrows = sql_run(session, &sql_lock_rows, values);

	batch->nrows = 0;
	batch->nkeys = 0;
	batch->last = nrows < batch->max_rows;
	for (uint64 i = 0; i < nrows; i++)
		batch_add_row(session->counter, batch, &session->rows, i);
}
