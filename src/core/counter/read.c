/*
 * read.c
 *		Exact values: dc_get(), dc_get_many(), dc_info(), dc_sum().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The exact value of a key is its row of totals plus its shard rows, read by one query in one
 * snapshot: compaction moves amounts between them in one transaction, so no snapshot sees an amount
 * twice or not at all. The snapshot is the caller's. The transaction's own pending deltas are added
 * to the result. A buffered table has a part of its amounts in memory. Memory keeps no old
 * versions, so such a table is read as of now at every isolation level. For a stock, the units of
 * expired holds are added; the rows get them back only when the hold is ended
 * (transactional/stock/holdexpired.c).
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/interval.h"
#include "base/key.h"
#include "core/counter/pending.h"
#include "core/counter/read.h"
#include "core/counter/sample.h"
#include "core/counter/sqlpath.h"
#include "core/rows/scan.h"
#include "core/table/access.h"
#include "core/table/layout.h"

PG_FUNCTION_INFO_V1(dc_get);
PG_FUNCTION_INFO_V1(dc_info);
PG_FUNCTION_INFO_V1(dc_get_many);
PG_FUNCTION_INFO_V1(dc_sum);

/* A key that dc_get_many() was asked for. */
typedef struct DcKeySum
{
	DcKey key;
	DcSums sums;
} DcKeySum;

/* The distinct keys that it was asked for, in order. */
typedef struct DcKeySums
{
	DcKeySum *sorted;
	int n;
} DcKeySums;

/* key: all rows of it, with whether it is a shard row */
const DcStatement sql_read_key = {
	.text = "SELECT t.inc, t.dec, t.updated_at, false FROM @totals AS t"
			" WHERE t.key = $1 UNION ALL"
			" SELECT s.inc, s.dec, s.updated_at, true FROM @shards AS s"
			" WHERE s.key = $1",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at"), DC_COLUMN("is shard", BOOLOID)}};

/* keys */
static const DcStatement sql_read_keys = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t"
			" WHERE t.key = ANY ($1) UNION ALL"
			" SELECT s.key, s.inc, s.dec FROM @shards AS s"
			" WHERE s.key = ANY ($1)",
	/* both tables of a shard by one query */
	.distributed = "SELECT u.key, u.inc, u.dec FROM (SELECT t.key, t.inc, t.dec FROM @totals AS t"
				   " WHERE t.key = ANY ($1) UNION ALL"
				   " SELECT s.key, s.inc, s.dec FROM @shards AS s"
				   " WHERE s.key = ANY ($1)) AS u",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

static const DcStatement sql_read_all = {
	.text = "SELECT coalesce(sum(u.inc), 0) - coalesce(sum(u.dec), 0)"
			" FROM (SELECT t.inc, t.dec FROM @totals AS t UNION ALL"
			" SELECT s.inc, s.dec FROM @shards AS s) AS u",
	/* the same, with the column that says to which shard a row belongs */
	.distributed = "SELECT coalesce(sum(u.inc), 0) - coalesce(sum(u.dec), 0)"
				   " FROM (SELECT t.key, t.inc, t.dec FROM @totals AS t UNION ALL"
				   " SELECT s.key, s.inc, s.dec FROM @shards AS s) AS u",
	.argtypes = {0},
	.reads_all = true,
	.columns = {DC_COLUMN("inc", NUMERICOID)}};

static bool own_begin(DcCounter *counter);
static bool expired_begin(DcCounter *counter);
static void add_expired(void *sums, Datum key, int64 units);
static void add_expired_of_key(void *sums, Datum key, int64 units);
static void own_amounts(DcCounter *counter, const DcKey *key, bool distinct, int64 *inc, int64 *dec);
static bool buffered_read(DcCounter *counter, DcBuffered *keys, int count);
static void read_key(DcCounter *counter, const DcKey *key, bool expired, DcKeyState *state);
static int key_read(DcCounter *counter, const DcKey *key, DcKeyState *state);
static void snapshots_pop(int n);
static void read_key_by_sql(DcCounter *counter, const DcKey *key,
							DcKeyState *state);
static int keys_read(DcCounter *counter, Datum *keys, int nkeys, DcKeySum *sorted, int nsorted);
static bool read_keys(DcCounter *counter, Datum keys,
					  DcKeySum *sorted, int nsorted);
static DcKeySum *key_sums_create(Datum *keys, int nkeys, int *nsorted);
static DcKeySum *key_sums_find(DcKeySum *sorted, int nsorted, Datum key);
static int key_sum_compare(const void *a, const void *b);

/*
 * counter_value returns the exact value of a key, of a counter table that the
 * caller may read.
 */
int64
counter_value(DcCounter *counter, const DcKey *key)
{
	DcKeyState state;

	read_key(counter, key, true, &state);
	return sums_to_bigint(state.sums.net, "value");
}

/*
 * Return the value that the rows of a key have: without the units of expired holds.
 */
int64
counter_rows_value(DcCounter *counter, const DcKey *key)
{
	DcKeyState state;

	read_key(counter, key, false, &state);
	return sums_to_bigint(state.sums.net, "value");
}

/*
 * counter_values returns the exact values of many keys, which are texts; they may
 * repeat.
 */
void
counter_values(DcCounter *counter, Datum *keys, int nkeys, int64 *values)
{
	DcKeySums sums;
	bool expired = expired_begin(counter);

	sums.sorted = key_sums_create(keys, nkeys, &sums.n);
	snapshots_pop(keys_read(counter, keys, nkeys, sums.sorted, sums.n));
	if (expired)
	{
		stock_hooks->expired_each(counter, array_datum(keys, nkeys, TEXTOID), add_expired_of_key, &sums);
		PopActiveSnapshot();
	}
	for (int i = 0; i < nkeys; i++)
	{
		DcKeySum *found = key_sums_find(sums.sorted, sums.n, keys[i]);

		CHECK_FOR_INTERRUPTS();
		values[i] = sums_value(&found->sums, keys[i]);
	}
}

/*
 * counter_sums does the same for the sums of increments and decrements. If the rows were read in a
 * snapshot other than the active one, it leaves that snapshot active, and returns the number of
 * snapshots that the caller has to pop when it has read everything that must be from the same
 * moment.
 */
int
counter_sums(DcCounter *counter, Datum *keys, int nkeys, DcSums *sums)
{
	DcKeyState state;
	DcKeySum *sorted;
	DcKey key;
	int snapshots;
	int nsorted;

	if (nkeys == 1)
	{
		key_from_text(keys[0], &key);
		snapshots = key_read(counter, &key, &state);
		sums[0] = state.sums;
		return snapshots;
	}
	sorted = key_sums_create(keys, nkeys, &nsorted);
	snapshots = keys_read(counter, keys, nkeys, sorted, nsorted);
	for (int i = 0; i < nkeys; i++)
	{
		CHECK_FOR_INTERRUPTS();
		sums[i] = key_sums_find(sorted, nsorted, keys[i])->sums;
	}
	pfree(sorted);
	return snapshots;
}

/*
 * Pop as many active snapshots as a reading function has left.
 */
static void
snapshots_pop(int n)
{
	while (n-- > 0)
		PopActiveSnapshot();
}

/*
 * counter_value_below returns true if the value of a key's rows is below a limit, even if it
 * overflows bigint.
 */
bool
counter_value_below(DcCounter *counter, const DcKey *key, int64 limit)
{
	DcKeyState state;

	read_key(counter, key, false, &state);
	return int128_compare(state.sums.net, int64_to_int128(limit)) < 0;
}

/*
 * dc_get(counter regclass, key text|bigint|uuid) -> bigint; 0 for an unknown key
 */
Datum
dc_get(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcMoment started = stats_clock();
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_get()");
	int64 value = counter_value(counter, key);

	if (stats_hooks != NULL)
		stats_hooks->read(counter, started);
	PG_RETURN_INT64(value);
}

/*
 * dc_info(counter regclass, key text|bigint|uuid)
 * -> (value bigint, inc bigint, dec bigint, updated_at timestamptz, shards int,
 *	   cache_age interval, error float8)
 *
 * updated_at is NULL for an unknown key, and the start of the current
 * transaction for one that this transaction is about to change. cache_age is the age of the value
 * that dc_get() with max_staleness would find; NULL if there is none. error is the margin of a
 * sampled table, which contains the true value in 95 of 100 cases (sample.h); 0 if the value is
 * exact.
 */
Datum
dc_info(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcMoment started = stats_clock();
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_info()");
	DcKeyState state;
	Datum values[7];
	bool nulls[7] = {false};
	int64 age;

	read_key(counter, key, true, &state);
	values[0] = Int64GetDatum(sums_to_bigint(state.sums.net, "value"));
	values[1] = Int64GetDatum(sums_to_bigint(state.sums.inc, "sum of increments"));
	values[2] = Int64GetDatum(sums_to_bigint(state.sums.dec, "sum of decrements"));
	values[3] = TimestampTzGetDatum(state.updated_at);
	nulls[3] = TIMESTAMP_IS_NOBEGIN(state.updated_at);
	values[4] = Int32GetDatum(state.shards);
	nulls[5] = cache_hooks == NULL || !cache_hooks->age(counter, key, &age);
	if (!nulls[5])
		values[5] = IntervalPGetDatum(interval_from_us(age));
	values[6] = Float8GetDatum(sample_error((double) DatumGetInt64(values[1]), (double) DatumGetInt64(values[2]),
											counter->row.sample_max));
	if (stats_hooks != NULL)
		stats_hooks->read(counter, started);
	return record_result(fcinfo, values, nulls);
}

/*
 * dc_get_many(counter regclass, keys text[]|bigint[]|uuid[])
 * -> setof (key text|bigint|uuid, value bigint)
 *
 * One row for each member of keys, in its order; members may repeat.
 */
Datum
dc_get_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DcMoment started = stats_clock();
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_get_many()");
	Datum *members;
	int64 *sums;
	int nkeys;
	Datum *keys = key_array_arg(fcinfo, 1, &nkeys, &members);

	InitMaterializedSRF(fcinfo, 0);
	sums = palloc_extended(Max(nkeys, 1) * sizeof(int64), MCXT_ALLOC_HUGE);
	counter_values(counter, keys, nkeys, sums);
	for (int i = 0; i < nkeys; i++)
	{
		Datum values[] = {members[i], Int64GetDatum(sums[i])};
		bool nulls[2] = {false};

		CHECK_FOR_INTERRUPTS();
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	if (stats_hooks != NULL)
		stats_hooks->read(counter, started);
	PG_RETURN_NULL();
}

/*
 * dc_sum(counter regclass) -> numeric, over all keys
 */
Datum
dc_sum(PG_FUNCTION_ARGS)
{
	DcMoment started = stats_clock();
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_sum()");
	MemoryContext caller = CurrentMemoryContext;
	DcSqlSession session;
	DcSums buffered;
	Datum sum;
	bool distinct;
	bool in_memory;
	bool expired = expired_begin(counter);
	int64 inc = 0;
	int64 dec = 0;
	MemoryContext old;

	sums_init(&buffered);
	if (expired)
		stock_hooks->expired_each(counter, (Datum) 0, add_expired, &buffered);
	in_memory = counter_may_be_buffered(counter) && buffer_hooks->read_all(counter, &buffered);
	distinct = own_begin(counter);
	if (distinct)
		bound_hooks->pending(counter->relid, NULL, &inc, &dec);
	sums_add(&buffered, inc, dec);
	sql_begin(&session, counter);
	if (sql_read(&session, &sql_read_all, NULL) != 1)
		elog(ERROR, "unexpected number of rows");
	sum = rows_datum(&session.rows, 0, 1);
	old = MemoryContextSwitchTo(caller);
	sum = DirectFunctionCall2(numeric_add, sum,
							  NumericGetDatum(pending_total(counter->relid)));
	sum = DirectFunctionCall2(numeric_add, sum,
							  NumericGetDatum(int64_to_numeric(sums_to_bigint(buffered.net, "sum"))));
	MemoryContextSwitchTo(old);
	sql_end(&session);
	snapshots_pop(distinct + in_memory + expired);
	if (stats_hooks != NULL)
		stats_hooks->read(counter, started);
	PG_RETURN_DATUM(sum);
}

/*
 * Return true if something may be in memory for a table, or was there
 * when the active snapshot was taken. dc_alter() flushes the memory when it makes a
 * table exact. An older snapshot does not show the rows of that flush, so such a table
 * is read as a buffered one.
 */
bool
counter_may_be_buffered(DcCounter *counter)
{
	if (buffer_hooks == NULL)
		return false;
	return counter_is_buffered(counter) ||
		(ActiveSnapshotSet() && TransactionIdIsNormal(counter->row.changed_by) &&
		 XidInMVCCSnapshot(counter->row.changed_by, GetActiveSnapshot()) &&
		 buffer_hooks->was_buffered(counter));
}

/*
 * buffered_read reads the amounts in memory of some keys. If there may be
 * something, it makes a snapshot active, in which the rows are to be read.
 */
static bool
buffered_read(DcCounter *counter, DcBuffered *keys, int count)
{
	return counter_may_be_buffered(counter) && buffer_hooks->read_keys(counter, keys, count);
}

/*
 * read_key sums the rows of a key and this transaction's pending deltas; and units of expired
 * holds, if they are wanted.
 */
static void
read_key(DcCounter *counter, const DcKey *key, bool expired, DcKeyState *state)
{
	expired = expired && expired_begin(counter);
	snapshots_pop(key_read(counter, key, state));
	if (!expired)
		return;
	stock_hooks->expired_each(counter, array_datum((Datum[]){key_text_datum(key)}, 1, TEXTOID), add_expired, &state->sums);
	PopActiveSnapshot();
}

/*
 * expired_begin makes a snapshot active in which both the rows and the holds of a stock are to
 * be read; false if the counter table is not a stock.
 */
static bool
expired_begin(DcCounter *counter)
{
	if (!counter_is_stock(counter) || counter_is_limit(counter))
		return false;
	read_snapshot_push();
	return true;
}

/*
 * Add the units of an expired hold to sums (DcSums), for any key.
 */
static void
add_expired(void *sums, Datum key, int64 units)
{
	sums_add(sums, units, 0);
}

/*
 * key_read sums the rows of a key and pending deltas, without expired holds, and returns how
 * many snapshots it has left active.
 */
static int
key_read(DcCounter *counter, const DcKey *key, DcKeyState *state)
{
	int64 inc;
	int64 dec;
	DcBuffered buffered = {.key = key};
	bool distinct;
	bool in_memory;

	key_state_init(state);
	counter_layout(counter);
	distinct = own_begin(counter);
	in_memory = buffered_read(counter, &buffered, 1);
	if (counter->direct_read)
		scan_key(counter, key, state);
	else
		read_key_by_sql(counter, key, state);
	if (in_memory)
	{
		sums_add(&state->sums, buffered.inc, buffered.dec);
		state->updated_at = Max(state->updated_at, buffered.at);
	}

	own_amounts(counter, key, distinct, &inc, &dec);
	if (inc != 0 || dec != 0)
	{
		sums_add(&state->sums, inc, dec);
		state->updated_at = Max(state->updated_at,
								GetCurrentTransactionStartTimestamp());
	}
	return distinct + in_memory;
}

/*
 * Return true if this transaction has changed distinct values that the counter table has, and
 * has not written that yet. Their effect depends on counts that other transactions have written,
 * which must be read together with the rows: then it makes a snapshot active for both.
 */
static bool
own_begin(DcCounter *counter)
{
	if (!counter->bound || !bound_hooks->any_pending(counter->relid))
		return false;
	read_snapshot_push();
	return true;
}

/*
 * own_amounts returns what this transaction has not written yet for a key, after own_begin().
 * Raises 22003 when a sum overflows bigint.
 */
static void
own_amounts(DcCounter *counter, const DcKey *key, bool distinct, int64 *inc, int64 *dec)
{
	int64 more_inc;
	int64 more_dec;

	pending_lookup(counter->relid, key, inc, dec);
	if (!distinct)
		return;
	bound_hooks->pending(counter->relid, key, &more_inc, &more_dec);
	if (pg_add_s64_overflow(*inc, more_inc, inc) || pg_add_s64_overflow(*dec, more_dec, dec))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
}

/*
 * read_key_by_sql sums the rows of a key for tables that need SQL.
 */
static void
read_key_by_sql(DcCounter *counter, const DcKey *key, DcKeyState *state)
{
	DcSqlSession session;
	Datum value = key_text_datum(key);

	sql_begin(&session, counter);
	sql_read(&session, &sql_read_key, &value);
	for (uint64 i = 0; i < session.rows.count; i++)
		key_state_add(state, rows_bigint(&session.rows, i, 1),
					  rows_bigint(&session.rows, i, 2),
					  DatumGetTimestampTz(rows_datum(&session.rows, i, 3)),
					  DatumGetBool(rows_datum(&session.rows, i, 4)));
	sql_end(&session);
	pfree(DatumGetPointer(value));
}

/*
 * keys_read sums the rows of many keys, and this transaction's pending deltas, into an array from
 * key_sums_create(), and returns how many snapshots it has left active.
 */
static int
keys_read(DcCounter *counter, Datum *keys, int nkeys, DcKeySum *sorted, int nsorted)
{
	bool distinct = own_begin(counter);
	bool in_memory = read_keys(counter, array_datum(keys, nkeys, TEXTOID), sorted, nsorted);

	for (int i = 0; i < nsorted; i++)
	{
		int64 inc;
		int64 dec;

		CHECK_FOR_INTERRUPTS();
		own_amounts(counter, &sorted[i].key, distinct, &inc, &dec);
		sums_add(&sorted[i].sums, inc, dec);
	}
	return distinct + in_memory;
}

/*
 * read_keys sums the rows of many keys. Returns true if it has left a snapshot active.
 */
static bool
read_keys(DcCounter *counter, Datum keys, DcKeySum *sorted, int nsorted)
{
	DcBuffered *buffered = palloc_extended(Max(nsorted, 1) * sizeof(DcBuffered),
										   MCXT_ALLOC_HUGE);
	DcSqlSession session;
	bool in_memory;

	for (int i = 0; i < nsorted; i++)
		buffered[i].key = &sorted[i].key;
	in_memory = buffered_read(counter, buffered, nsorted);
	for (int i = 0; in_memory && i < nsorted; i++)
		sums_add(&sorted[i].sums, buffered[i].inc, buffered[i].dec);
	sql_begin(&session, counter);
	sql_read(&session, &sql_read_keys, &keys);
	for (uint64 i = 0; i < session.rows.count; i++)
	{
		DcKeySum *sum = key_sums_find(sorted, nsorted, rows_datum(&session.rows, i, 1));

		sums_add(&sum->sums, rows_bigint(&session.rows, i, 2),
				 rows_bigint(&session.rows, i, 3));
	}
	sql_end(&session);
	pfree(buffered);
	return in_memory;
}

/*
 * key_sums_create creates a sorted array of the distinct keys, with sums of 0.
 */
static DcKeySum *
key_sums_create(Datum *keys, int nkeys, int *nsorted)
{
	DcKeySum *sorted = palloc_extended(Max(nkeys, 1) * sizeof(DcKeySum),
									   MCXT_ALLOC_HUGE);
	int n = 0;

	for (int i = 0; i < nkeys; i++)
	{
		key_from_text(keys[i], &sorted[i].key);
		sums_init(&sorted[i].sums);
	}
	qsort(sorted, nkeys, sizeof(DcKeySum), key_sum_compare);
	for (int i = 0; i < nkeys; i++)
	{
		if (n == 0 || key_sum_compare(&sorted[n - 1], &sorted[i]) != 0)
			sorted[n++] = sorted[i];
	}
	*nsorted = n;
	return sorted;
}

/*
 * key_sums_find returns the entry of a key, which must be there.
 */
static DcKeySum *
key_sums_find(DcKeySum *sorted, int nsorted, Datum key)
{
	DcKeySum probe;
	DcKeySum *found;

	key_from_text(key, &probe.key);
	found = bsearch(&probe, sorted, nsorted, sizeof(DcKeySum), key_sum_compare);
	if (found == NULL)
		elog(ERROR, "unexpected counter key");
	return found;
}

/*
 * Add the units of an expired hold to the sums of its key; arg is a DcKeySums.
 */
static void
add_expired_of_key(void *arg, Datum key, int64 units)
{
	const DcKeySums *sums = arg;

	sums_add(&key_sums_find(sums->sorted, sums->n, key)->sums, units, 0);
}

/*
 * Compare two entries by their keys, for qsort() and bsearch().
 */
static int
key_sum_compare(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return key_compare(&((const DcKeySum *) a)->key,
					   &((const DcKeySum *) b)->key);
}
