/*
 * distinctread.c
 *		dc_distinct(), dc_distinct_union(), dc_distinct_sketch(), dc_distinct_buckets(), dc_distinct_report().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The sketch of a key is the union of its row, of its deltas, and of what this transaction has
 * pending. Row and deltas are read in one snapshot. Folding moves items from the one to the other
 * in one transaction, so each snapshot has all of them; duplicates count once, as in any union.
 * Reads do not use what a session knows (distinctknown.c), as that belongs to no single snapshot.
 *
 * A table with buckets has such a sketch for each bucket. Buckets of a key, and keys of a table,
 * are read in their order, so that memory is needed for one of them at a time.
 *
 * Estimates and bounds are whole numbers, as the true number is. Rounding the bounds loses none
 * that lies between them.
 */
#include "postgres.h"

#include <math.h>

#include "common/int.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/bucket.h"
#include "base/compat.h"
#include "core/table/access.h"
#include "time/distinct/distinct.h"
#include "types/sketch/hash.h"
#include "types/sketch/hll/dc_hll.h"

PG_FUNCTION_INFO_V1(dc_distinct);
PG_FUNCTION_INFO_V1(dc_distinct_union);
PG_FUNCTION_INFO_V1(dc_distinct_sketch);
PG_FUNCTION_INFO_V1(dc_distinct_buckets);
PG_FUNCTION_INFO_V1(dc_distinct_report);

/* The buckets that are asked for. */
typedef struct DcBucketRange
{
	int64 from;
	int64 to;
} DcBucketRange;

/*
 * The rows of a key, or of all keys, in a range of buckets; those of a table without buckets are in
 * any range.
 */
typedef struct DcKeyRows
{
	DcDistinctRel *rel;
	DcBucketRange range; /* of all keys; */
	bool all;
	char from[DC_MAX_KEY_BYTES]; /* or the keys of the rows of one, which are equally long */
	char to[DC_MAX_KEY_BYTES];
	uint32 len;
	DcDistinctScan scans[2];
	List *pending; /* DcRowKey *, in order */
	int next_pending;
	DcRowKey key; /* of the sketch that was returned last */
	char key_bytes[DC_MAX_KEY_BYTES];
} DcKeyRows;

static void distinctread_open_to_read(FunctionCallInfo fcinfo, DcDistinctRel *rel);
static void close_read(DcDistinctRel *rel);
static DcBucketRange span_arg(FunctionCallInfo fcinfo, const DcDistinct *distinct, int argno);
static DcBucketRange range_arg(FunctionCallInfo fcinfo, const DcDistinct *distinct, int argno);
static HllState *distinctread_read_key(DcDistinctRel *rel, const DcKey *key, const DcBucketRange *range, HllState *into);
static void rows_begin(DcKeyRows *rows, DcDistinctRel *rel, const DcKey *key, const DcBucketRange *range);
static void rows_begin_all(DcKeyRows *rows, DcDistinctRel *rel, const DcBucketRange *range);
static void rows_start(DcKeyRows *rows);
static bool rows_have(const void *arg, const DcRowKey *key);
static bool rows_next(DcKeyRows *rows);
static HllState *rows_merge(DcKeyRows *rows, HllState *into);
static void rows_end(DcKeyRows *rows);
static bool distinctread_scan_next(DcKeyRows *rows, int which);
static void rows_put(DcKeyRows *rows, ReturnSetInfo *result);
static int pending_compare(const ListCell *a, const ListCell *b);
static Datum result_of(FunctionCallInfo fcinfo, HllState *state);

/*
 * dc_distinct(distinct_table regclass, key text|bigint|uuid, span interval, until timestamptz)
 * -> (estimate, lower, upper float8): how many different items there are, and an interval that has
 * the true number in 95 of 100 cases. With a span, those in the buckets that overlap the time from
 * until - span to until.
 *
 * Needs SELECT. Errors: those of dc_add(), 22023 for a span that is not above zero, or of a table
 * without buckets.
 */
Datum
dc_distinct(PG_FUNCTION_ARGS)
{
	DcDistinctRel rel;
	DcBucketRange range;
	HllState *state;
	DcKey key;

	distinct_key_arg(fcinfo, 1, &key);
	distinctread_open_to_read(fcinfo, &rel);
	range = span_arg(fcinfo, rel.distinct, 2);
	state = distinctread_read_key(&rel, &key, &range, hll_new(rel.distinct->row.precision, SKETCH_HASH_REDIS));
	close_read(&rel);
	return result_of(fcinfo, state);
}

/*
 * dc_distinct_union(distinct_table regclass, keys text[]|bigint[]|uuid[], span interval, until
 * timestamptz): the same for the items of all of these keys, each counted once.
 */
Datum
dc_distinct_union(PG_FUNCTION_ARGS)
{
	DcDistinctRel rel;
	DcBucketRange range;
	HllState *state;
	Datum *keys;
	int nkeys;

	keys = key_array_arg(fcinfo, 1, &nkeys, NULL);
	distinctread_open_to_read(fcinfo, &rel);
	range = span_arg(fcinfo, rel.distinct, 2);
	state = hll_new(rel.distinct->row.precision, SKETCH_HASH_REDIS);
	for (int i = 0; i < nkeys; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &key);
		state = distinctread_read_key(&rel, &key, &range, state);
	}
	close_read(&rel);
	return result_of(fcinfo, state);
}

/*
 * dc_distinct_sketch(distinct_table regclass, key text|bigint|uuid, span interval, until
 * timestamptz) -> dc_hll: the sketch behind dc_distinct().
 */
Datum
dc_distinct_sketch(PG_FUNCTION_ARGS)
{
	DcDistinctRel rel;
	DcBucketRange range;
	HllState *state;
	DcKey key;

	distinct_key_arg(fcinfo, 1, &key);
	distinctread_open_to_read(fcinfo, &rel);
	range = span_arg(fcinfo, rel.distinct, 2);
	state = distinctread_read_key(&rel, &key, &range, hll_new(rel.distinct->row.precision, SKETCH_HASH_REDIS));
	close_read(&rel);
	return hll_value(state);
}

/*
 * dc_distinct_buckets(distinct_table regclass, key text|bigint|uuid, since timestamptz, until
 * timestamptz)
 * -> setof (bucket timestamptz, estimate, lower, upper): one row for each bucket that has items and overlaps the
 * time, in their order.
 */
Datum
dc_distinct_buckets(PG_FUNCTION_ARGS)
{
	DcDistinctRel rel;
	DcBucketRange range;
	DcKeyRows rows;
	DcKey key;

	distinct_key_arg(fcinfo, 1, &key);
	distinctread_open_to_read(fcinfo, &rel);
	range = range_arg(fcinfo, rel.distinct, 2);
	InitMaterializedSRF(fcinfo, 0);
	rows_begin(&rows, &rel, &key, &range);
	rows_put(&rows, (ReturnSetInfo *) fcinfo->resultinfo);
	rows_end(&rows);
	close_read(&rel);
	PG_RETURN_NULL();
}

/*
 * dc_distinct_report(distinct_table regclass, since timestamptz, until timestamptz)
 * -> setof (key text, bucket timestamptz, estimate, lower, upper): the same of all keys, in one
 * snapshot. Of a table without buckets, one row per key, whose bucket is NULL; then the times must
 * be NULL (22023).
 */
Datum
dc_distinct_report(PG_FUNCTION_ARGS)
{
	DcDistinctRel rel;
	DcBucketRange range = {0, BUCKET_MAX};
	DcKeyRows rows;

	distinctread_open_to_read(fcinfo, &rel);
	if (rel.distinct->row.bucket != 0 || !PG_ARGISNULL(1) || !PG_ARGISNULL(2))
		range = range_arg(fcinfo, rel.distinct, 1);
	InitMaterializedSRF(fcinfo, 0);
	rows_begin_all(&rows, &rel, &range);
	rows_put(&rows, (ReturnSetInfo *) fcinfo->resultinfo);
	rows_end(&rows);
	close_read(&rel);
	PG_RETURN_NULL();
}

/*
 * Add (bucket, estimate, lower, upper) of each sketch to a result, with the key before them if it
 * is of all keys.
 */
static void
rows_put(DcKeyRows *rows, ReturnSetInfo *result)
{
	const DcDistinctRow *row = &rows->rel->distinct->row;
	MemoryContext one = AllocSetContextCreate(CurrentMemoryContext, "dcounter bucket", ALLOCSET_DEFAULT_SIZES);

	while (rows_next(rows))
	{
		MemoryContext old = MemoryContextSwitchTo(one);
		bool has_bucket = row->bucket != 0;
		uint32 len = rows->key.len - (has_bucket ? BUCKET_SUFFIX_BYTES : 0);
		Datum values[5];
		bool nulls[5] = {false};
		double bounds[3];
		int64 bucket = 0;
		int n = 0;

		if (rows->all)
			values[n++] = PointerGetDatum(cstring_to_text_with_len(rows->key_bytes, len));
		if (has_bucket)
			(void) bucket_get(rows->key_bytes, rows->key.len, &bucket);
		nulls[n] = !has_bucket;
		values[n++] = has_bucket ? TimestampTzGetDatum(bucket_start(bucket, row->bucket)) : (Datum) 0;
		hll_bounds(rows_merge(rows, hll_new(row->precision, SKETCH_HASH_REDIS)), 0.95, &bounds[0], &bounds[1], &bounds[2]);
		values[n++] = Float8GetDatum(rint(bounds[1]));
		values[n++] = Float8GetDatum(rint(bounds[0]));
		values[n++] = Float8GetDatum(rint(bounds[2]));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		MemoryContextSwitchTo(old);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/*
 * Open the table in argument 0 and its deltas for a reader, and push the snapshot that it answers
 * from.
 */
static void
distinctread_open_to_read(FunctionCallInfo fcinfo, DcDistinctRel *rel)
{
	DcDistinct *distinct;

	arg_not_null(fcinfo, 0, "distinct table");
	distinct = distinct_lock(PG_GETARG_OID(0), AccessShareLock, ACL_SELECT);
	distinctrel_open(rel, distinct, AccessShareLock);
	read_snapshot_push();
}

/*
 * Pop the snapshot and close the tables.
 */
static void
close_read(DcDistinctRel *rel)
{
	PopActiveSnapshot();
	distinctrel_close(rel);
}

/*
 * span_arg returns the buckets of a span; all buckets if there is none.
 */
static DcBucketRange
span_arg(FunctionCallInfo fcinfo, const DcDistinct *distinct, int argno)
{
	int64 width = distinct->row.bucket;
	DcBucketRange range = {0, BUCKET_MAX};
	TimestampTz until = PG_ARGISNULL(argno + 1) ? GetCurrentTimestamp() : PG_GETARG_TIMESTAMPTZ(argno + 1);
	TimestampTz since;
	int64 span;

	if (PG_ARGISNULL(argno) && PG_ARGISNULL(argno + 1))
		return range;
	if (width == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" has no buckets", get_rel_name(distinct->relid)),
				 errhint("Create it with a bucket, or leave out the span.")));
	span = PG_ARGISNULL(argno) ? PG_INT64_MAX : interval_to_duration(PG_GETARG_INTERVAL_P(argno), "span");
	if (span <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("span must be greater than zero")));
	if (TIMESTAMP_IS_NOBEGIN(until))
		range.to = -1;
	else if (!TIMESTAMP_IS_NOEND(until))
		range.to = bucket_of(until - 1, width);
	if (!TIMESTAMP_NOT_FINITE(until) && !pg_sub_s64_overflow(until, span, &since))
		range.from = Max(bucket_of(since, width), 0);
	range.to = Min(range.to, BUCKET_MAX);
	return range;
}

/*
 * range_arg returns the buckets of a time from one moment to another.
 */
static DcBucketRange
range_arg(FunctionCallInfo fcinfo, const DcDistinct *distinct, int argno)
{
	int64 width = distinct->row.bucket;
	DcBucketRange range = {0, BUCKET_MAX};

	if (width == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" has no buckets", get_rel_name(distinct->relid))));
	if (!PG_ARGISNULL(argno) && !TIMESTAMP_IS_NOBEGIN(PG_GETARG_TIMESTAMPTZ(argno)))
		range.from = TIMESTAMP_IS_NOEND(PG_GETARG_TIMESTAMPTZ(argno)) ? BUCKET_MAX + 1 : Max(bucket_of(PG_GETARG_TIMESTAMPTZ(argno), width), 0);
	if (!PG_ARGISNULL(argno + 1) && !TIMESTAMP_IS_NOEND(PG_GETARG_TIMESTAMPTZ(argno + 1)))
		range.to = TIMESTAMP_IS_NOBEGIN(PG_GETARG_TIMESTAMPTZ(argno + 1)) ? -1 : Min(bucket_of(PG_GETARG_TIMESTAMPTZ(argno + 1) - 1, width), BUCKET_MAX);
	return range;
}

/*
 * distinctread_read_key adds the items of a key to a sketch, which may move.
 */
static HllState *
distinctread_read_key(DcDistinctRel *rel, const DcKey *key, const DcBucketRange *range, HllState *into)
{
	DcKeyRows rows;

	rows_begin(&rows, rel, key, range);
	while (rows_next(&rows))
		into = rows_merge(&rows, into);
	rows_end(&rows);
	return into;
}

/*
 * Begin to read the rows of a key in a range of buckets: from the table, the deltas and what is
 * pending. The range may be empty.
 */
static void
rows_begin(DcKeyRows *rows, DcDistinctRel *rel, const DcKey *key, const DcBucketRange *range)
{
	/* an empty range has its ends in the wrong order */
	int64 to = range->to < 0 ? 0 : range->to;
	int64 from = range->to < 0 ? 1 : Min(range->from, BUCKET_MAX);

	if (range->from > BUCKET_MAX)
		to = from - 1;
	rows->rel = rel;
	rows->all = false;
	rows->len = distinct_row_key(rel->distinct, key, from, rows->from);
	(void) distinct_row_key(rel->distinct, key, to, rows->to);
	rows_start(rows);
}

/*
 * Start to read the rows of all keys in a range of buckets.
 */
static void
rows_begin_all(DcKeyRows *rows, DcDistinctRel *rel, const DcBucketRange *range)
{
	rows->rel = rel;
	rows->all = true;
	rows->range = *range;
	rows->len = 0;
	rows_start(rows);
}

/*
 * Start the scans of both tables, and find what is pending.
 */
static void
rows_start(DcKeyRows *rows)
{
	Oid relid = rows->rel->distinct->relid;

	rows->key = (DcRowKey){relid, rows->len, rows->key_bytes};
	rows->pending = distinct_pending_keys(relid, rows_have, rows);
	list_sort(rows->pending, pending_compare);
	rows->next_pending = 0;
	for (int i = 0; i < 2; i++)
	{
		distinctscan_begin(&rows->scans[i], rows->rel, i, GetActiveSnapshot(), rows->from, rows->len, rows->all ? NULL : rows->to, rows->len);
		(void) distinctread_scan_next(rows, i);
	}
}

/*
 * Return true if this key is among the rows that are asked for. Other, longer keys may lie between
 * the buckets of a key, and an owner may have inserted any key directly.
 */
static bool
rows_have(const void *arg, const DcRowKey *key)
{
	const DcKeyRows *rows = arg;
	int64 bucket;

	if (!rows->all)
		return key->len == rows->len && memcmp(key->data, rows->from, rows->len) >= 0 && memcmp(key->data, rows->to, rows->len) <= 0;
	if (key->len > sizeof(rows->key_bytes))
		return false;
	return rows->rel->distinct->row.bucket == 0 ||
		(bucket_get(key->data, key->len, &bucket) && bucket >= rows->range.from && bucket <= rows->range.to);
}

/*
 * Compare two keys of rows (DcRowKey) by their bytes, for list_sort().
 */
static int
pending_compare(const ListCell *a, const ListCell *b)
{
	const DcRowKey *left = lfirst(a);
	const DcRowKey *right = lfirst(b);

	CHECK_FOR_INTERRUPTS();
	return bytes_compare(left->data, left->len, right->data, right->len);
}

/*
 * distinctread_scan_next goes to the next row that is asked for.
 */
static bool
distinctread_scan_next(DcKeyRows *rows, int which)
{
	DcDistinctScan *scan = &rows->scans[which];

	while (distinctscan_next(scan))
	{
		DcRowKey key = {rows->rel->distinct->relid, scan->key.len, scan->key.data};

		if (rows_have(rows, &key))
			return true;
	}
	return false;
}

/*
 * rows_next goes to the next bucket, or key, that has items; rows->key is the key of its rows.
 */
static bool
rows_next(DcKeyRows *rows)
{
	DcKey first = {0};

	for (int i = 0; i < 2; i++)
	{
		const DcDistinctScan *scan = &rows->scans[i];

		if (scan->any && (first.data == NULL || key_compare(&scan->key, &first) < 0))
			first = scan->key;
	}
	if (rows->next_pending < list_length(rows->pending))
	{
		const DcRowKey *pending = list_nth(rows->pending, rows->next_pending);
		DcKey key = {.data = pending->data, .len = pending->len};

		if (first.data == NULL || key_compare(&key, &first) < 0)
			first = key;
	}
	if (first.data == NULL)
		return false;
	memcpy(rows->key_bytes, first.data, first.len);
	rows->key.len = first.len;
	return true;
}

/*
 * rows_merge adds the items of these rows to a sketch, which may move, and steps over them.
 */
static HllState *
rows_merge(DcKeyRows *rows, HllState *into)
{
	for (int i = 0; i < 2; i++)
	{
		DcDistinctScan *scan = &rows->scans[i];

		while (scan->any && bytes_compare(scan->key.data, scan->key.len, rows->key_bytes, rows->key.len) == 0)
		{
			into = hll_merge_datum(into, scan->sketch);
			(void) distinctread_scan_next(rows, i);
		}
	}
	while (rows->next_pending < list_length(rows->pending) &&
		   rowkey_equal(list_nth(rows->pending, rows->next_pending), &rows->key))
		rows->next_pending++;
	return distinct_pending_merge(&rows->key, into);
}

/*
 * End the scans of rows_begin.
 */
static void
rows_end(DcKeyRows *rows)
{
	for (int i = 0; i < 2; i++)
		distinctscan_end(&rows->scans[i]);
	list_free(rows->pending);
}

/*
 * result_of makes the result (estimate, lower, upper).
 */
static Datum
result_of(FunctionCallInfo fcinfo, HllState *state)
{
	double bounds[3];
	Datum values[3];
	bool nulls[3] = {false};

	hll_bounds(state, 0.95, &bounds[0], &bounds[1], &bounds[2]);
	values[0] = Float8GetDatum(rint(bounds[1]));
	values[1] = Float8GetDatum(rint(bounds[0]));
	values[2] = Float8GetDatum(rint(bounds[2]));
	return record_result(fcinfo, values, nulls);
}
