/*
 * windowseal.c
 *		dc_seal() and dc_window_reconcile(): buckets that are final.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Sealing is two transactions. The first one writes down that increments before a time are refused.
 * Then dc_seal() waits for all transactions that have a slot locked as writers do: one that has
 * placed an increment by the old row has such a lock, and keeps it until it ends, even if it is
 * prepared; one that gets its lock later sees the new row with it (windowincr.c). The second one
 * writes down that the buckets are sealed. If the session is interrupted in between, increments are
 * refused, but the buckets are not yet sealed: calling dc_seal() again goes on from there.
 *
 * In a sealed bucket, the totals of a batch system replace the counted values: the difference is
 * added, as an increment that the clock does not limit. Both this and a move hold the window's
 * lock, so no value that was read changes before the difference is committed. Each call raises the
 * version in the window's row: so under REPEATABLE READ a call whose snapshot does not show an
 * earlier call, or a move, fails (40001), instead of adding the same difference again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/int.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "core/counter/write.h"
#include "core/rows/sums.h"
#include "core/table/access.h"
#include "core/table/partition.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(dc_seal);
PG_FUNCTION_INFO_V1(dc_window_reconcile);

static TimestampTz seal_refuse(Oid relid, TimestampTz before);
static void seal_done(Oid relid, TimestampTz border);
static void wait_for_writers(Oid relid);
static void check_once(Datum *keys, int count);
static int windowseal_compare_keys(const void *a, const void *b);
static int bucket_level(const DcWindowRow *row, TimestampTz bucket);
static int64 counted_value(DcWindow *window, TimestampTz from, TimestampTz to, const DcKey *key);
static void windowseal_add_difference(DcWindow *window, int level, TimestampTz bucket, const DcKey *key, int64 more);
static void windowseal_count(void *arg, int level, int64 bucket, int64 inc, int64 dec);

/*
 * dc_seal(counter regclass, before timestamptz), a procedure: increments for buckets that end by
 * then are refused from now on, or dropped and counted; when it returns, none is still in progress.
 * It commits while it waits.
 *
 * For the owner. Errors: 2D000 in a transaction block, 22023 for a time in the future.
 */
Datum
dc_seal(PG_FUNCTION_ARGS)
{
	bool atomic = fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic;
	Oid relid = window_arg(fcinfo);
	TimestampTz before;
	TimestampTz border;

	arg_not_null(fcinfo, 1, "before");
	before = PG_GETARG_TIMESTAMPTZ(1);
	prevent_write("dc_seal()");
	if (atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("%s cannot run inside a transaction block", "dc_seal()"),
				 errdetail("It commits, and then waits for increments in progress.")));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	border = seal_refuse(relid, before);
	SPI_commit();
	wait_for_writers(relid);
	seal_done(relid, border);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * seal_refuse writes down that increments are refused, and returns before which time: a border of
 * buckets.
 */
static TimestampTz
seal_refuse(Oid relid, TimestampTz before)
{
	DcWindow *window = window_open_own(relid);
	DcWindowRow row;
	TimestampTz border;

	/* the bucket that is being filled stays open: increments as of now must never be refused */
	if (TIMESTAMP_NOT_FINITE(before) || before > GetCurrentTimestamp())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot seal buckets that have not ended")));
	border = level_start(&window->row.levels, 0, level_bucket(&window->row.levels, 0, before));
	if (window_row_read(relid, &row) && row.refuses < border)
	{
		row.refuses = border;
		(void) window_row_update(&row);
	}
	return border;
}

/*
 * wait_for_writers waits for all transactions that may have increments in progress. This session
 * has no snapshot and no lock that they could wait for.
 */
static void
wait_for_writers(Oid relid)
{
	DcWindow *window = window_lookup(relid);
	int n = window->row.levels.n * WINDOW_SLOTS;
	Oid slots[lengthof(window->slots)];

	memcpy(slots, window->slots, sizeof(slots));
	for (int i = 0; i < n; i++)
	{
		if (OidIsValid(slots[i]))
			writers_wait(slots[i]);
	}
}

/*
 * Note that buckets are sealed up to `border`, unless they are sealed further. It opens the window
 * again, as this is a new transaction.
 */
static void
seal_done(Oid relid, TimestampTz border)
{
	DcWindowRow row;

	PushActiveSnapshot(GetTransactionSnapshot());
	(void) window_open_own(relid);
	if (window_row_read(relid, &row) && row.sealed < border)
	{
		row.sealed = border;
		(void) window_row_update(&row);
	}
	PopActiveSnapshot();
}

/*
 * dc_window_reconcile(counter regclass, bucket timestamptz, keys text[]|bigint[]|uuid[], totals
 * bigint[]) -> bigint, the number of keys that had another value. For the owner. A key may be there
 * once.
 *
 * Errors: 55000 for a bucket that is not sealed, 22023 for a time at which no bucket begins, or a
 * key that is there twice, 22008 for one that is no longer kept, 2202E if the lengths differ, 22003
 * if an amount leaves bigint, 40001.
 */
Datum
dc_window_reconcile(PG_FUNCTION_ARGS)
{
	Oid relid = window_arg(fcinfo);
	TimestampTz bucket;
	TimestampTz end;
	DcWindow *window;
	DcWindowRow row;
	Datum *keys;
	Datum *totals;
	int nkeys;
	int ntotals;
	int level;
	int64 changed = 0;

	arg_not_null(fcinfo, 1, "bucket");
	bucket = PG_GETARG_TIMESTAMPTZ(1);
	keys = key_array_arg(fcinfo, 2, &nkeys, NULL);
	totals = array_arg(fcinfo, 3, "totals", "total", &ntotals);
	if (nkeys != ntotals)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys and totals must have the same length"),
				 errdetail("There are %d keys and %d totals.", nkeys, ntotals)));
	prevent_write("dc_window_reconcile()");
	window = window_open_own(relid);
	check_once(keys, nkeys);
	if (!window_row_read(relid, &row))
		(void) window_lookup(relid);
	if (IsolationUsesXactSnapshot() && !TransactionIdIsCurrentTransactionId(row.changed_by) &&
		XidInMVCCSnapshot(row.changed_by, GetTransactionSnapshot()))
		serialization_error();
	level = bucket_level(&row, bucket);
	end = level_end(&row.levels, level, level_bucket(&row.levels, level, bucket));
	row.version++;
	(void) window_row_update(&row);
	window = window_lookup(relid);
	/* commits from before the lock was taken must be visible */
	PushActiveSnapshot(IsolationUsesXactSnapshot() ? GetTransactionSnapshot() : GetLatestSnapshot());
	for (int i = 0; i < nkeys; i++)
	{
		int64 more;
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &key);
		if (pg_sub_s64_overflow(DatumGetInt64(totals[i]),
								counted_value(window, bucket, end, &key), &more))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("bigint out of range")));
		if (more == 0)
			continue;
		windowseal_add_difference(window, level, bucket, &key, more);
		changed++;
	}
	PopActiveSnapshot();
	PG_RETURN_INT64(changed);
}

/*
 * Raise 22023 if a key is there twice.
 */
static void
check_once(Datum *keys, int count)
{
	DcKey *sorted = palloc_extended(Max(count, 1) * sizeof(DcKey), MCXT_ALLOC_HUGE);

	for (int i = 0; i < count; i++)
		key_from_text(keys[i], &sorted[i]);
	qsort(sorted, count, sizeof(DcKey), windowseal_compare_keys);
	for (int i = 1; i < count; i++)
	{
		if (key_compare(&sorted[i - 1], &sorted[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("key \"%.*s\" occurs twice", (int) sorted[i].len, sorted[i].data)));
	}
	pfree(sorted);
}

/*
 * Compare two keys by their bytes, for qsort().
 */
static int
windowseal_compare_keys(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return key_compare(a, b);
}

/*
 * bucket_level returns the level of a bucket that is sealed, or raises an error.
 */
static int
bucket_level(const DcWindowRow *row, TimestampTz bucket)
{
	int level = TIMESTAMP_NOT_FINITE(bucket) ? -1 : level_of(&row->levels, bucket);
	int64 number;

	if (level < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("\"%s\" keeps no bucket for that time", get_rel_name(row->windowed))));
	number = level_bucket(&row->levels, level, bucket);
	if (level_start(&row->levels, level, number) != bucket)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no bucket begins at %s", timestamptz_to_str(bucket)),
				 errhint("Buckets that were rolled up are wider; dc_buckets() shows them.")));
	if (level_end(&row->levels, level, number) > row->sealed)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the bucket is not sealed"),
				 errhint("Use CALL dc_seal() first.")));
	return level;
}

/*
 * counted_value returns what a key has in a bucket, this transaction's own increments included.
 */
static int64
counted_value(DcWindow *window, TimestampTz from, TimestampTz to, const DcKey *key)
{
	DcWindowReading reading;
	DcSums sums;

	sums_init(&sums);
	window_read_begin(window, from, to, false, &reading);
	window_read_key(&reading, key, windowseal_count, &sums);
	window_read_end(&reading);
	return sums_to_bigint(sums.net, "value");
}

/*
 * Add a row of the bucket to its sums.
 */
static void
windowseal_count(void *arg, int level, int64 bucket, int64 inc, int64 dec)
{
	sums_add(arg, inc, dec);
}

/*
 * windowseal_add_difference adds to a bucket, as dc_incr_at() would.
 */
static void
windowseal_add_difference(DcWindow *window, int level, TimestampTz bucket, const DcKey *key, int64 more)
{
	int64 number = level_bucket(&window->row.levels, level, bucket);
	int64 turn = bucket_turn(&window->row.levels, level, number);
	DcCounter *counter;
	DcSlotKey slot_key;

	check_length("counter key", key->len, 0, WINDOW_MAX_KEY_BYTES);
	counter = window_counter(window, window->slots[window_turn_slot(level, turn)], RowExclusiveLock);
	window_claim(window, level, turn);
	slot_key_make(key, number, &slot_key);
	counter_add(counter, &slot_key.key, DC_NO_HINT, more, false);
}
