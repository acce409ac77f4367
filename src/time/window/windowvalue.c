/*
 * windowvalue.c
 *		dc_window() and dc_buckets(): what was counted for a key in a time.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "common/int.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/rows/sums.h"
#include "core/table/access.h"
#include "time/window/window.h"

#include <math.h>

PG_FUNCTION_INFO_V1(dc_window);
PG_FUNCTION_INFO_V1(dc_buckets);

/* The sums of a time. */
typedef struct DcSpan
{
	const DcLevels *levels;
	TimestampTz from;
	TimestampTz to;
	TimestampTz now;
	DcSums whole;	/* of buckets within it */
	DcSums partial; /* of buckets that overlap it only in part, */
	double share;	/* and the part of these within it, if they were filled evenly */
} DcSpan;

/* A bucket with rows. */
typedef struct DcBucket
{
	TimestampTz start; /* hash key */
	DcSums sums;
} DcBucket;

/* The buckets of a time. */
typedef struct DcBuckets
{
	const DcLevels *levels;
	HTAB *sums; /* DcBucket */
	TimestampTz last;
} DcBuckets;

static void add_to_span(void *arg, int level, int64 bucket, int64 inc, int64 dec);
static void span_values(const DcSpan *span, Datum *values);
static int64 windowvalue_rounded(int64 whole, double share, int64 low, int64 high);
static void add_to_bucket(void *arg, int level, int64 bucket, int64 inc, int64 dec);
static void return_buckets(FunctionCallInfo fcinfo, const DcWindowReading *reading, DcBuckets *buckets);

/*
 * dc_window(counter regclass, key text|bigint|uuid, span interval, until timestamptz)
 * -> (value bigint, lower bigint, upper bigint, estimate float8)
 *
 * What was counted for times from until - span up to, and without, until, which is now if it is
 * NULL. Buckets that overlap it in part make the difference between the bounds, which always hold.
 * Errors: 22004 for NULL, 22023 for a span that is not positive, or has months where buckets are
 * not those of a time zone, 22003 when a sum leaves bigint.
 */
Datum
dc_window(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	Oid relid = window_arg(fcinfo);
	DcSpan span = {.now = GetCurrentTimestamp()};
	DcWindowReading reading;
	DcWindow *window;
	Datum values[4];
	bool nulls[4] = {false};

	arg_not_null(fcinfo, 2, "span");
	span.to = PG_ARGISNULL(3) ? span.now : PG_GETARG_TIMESTAMPTZ(3);
	window = window_open(relid, ACL_SELECT);
	span.from = window_span_start(window, PG_GETARG_INTERVAL_P(2), span.to);
	window_read_begin(window, span.from, span.to, false, &reading);
	span.levels = &reading.row.levels;
	sums_init(&span.whole);
	sums_init(&span.partial);
	window_read_key(&reading, key, add_to_span, &span);
	window_read_end(&reading);
	span_values(&span, values);
	return record_result(fcinfo, values, nulls);
}

/*
 * span_values makes the result of the sums. Decrements that may be in the overlapping part of a
 * bucket lower the lower bound, and increments raise the upper one.
 */
static void
span_values(const DcSpan *span, Datum *values)
{
	int64 whole = sums_to_bigint(span->whole.net, "value");
	INT128 lower = span->whole.net;
	INT128 upper = span->whole.net;
	int64 low;
	int64 high;

	int128_add_int64(&lower, -sums_to_bigint(span->partial.dec, "value"));
	int128_add_int64(&upper, sums_to_bigint(span->partial.inc, "value"));
	low = sums_to_bigint(lower, "value");
	high = sums_to_bigint(upper, "value");
	values[0] = Int64GetDatum(windowvalue_rounded(whole, span->share, low, high));
	values[1] = Int64GetDatum(low);
	values[2] = Int64GetDatum(high);
	values[3] = Float8GetDatum((double) whole + span->share);
}

/*
 * Return whole + share, between the bounds. A sum that leaves bigint is beyond one of them.
 */
static int64
windowvalue_rounded(int64 whole, double share, int64 low, int64 high)
{
	double part = rint(share);
	int64 value;

	if (!FLOAT8_FITS_IN_INT64(part) || pg_add_s64_overflow(whole, (int64) part, &value))
		return share < 0 ? low : high;
	return Min(Max(value, low), high);
}

/*
 * add_to_span adds a row to the sums. The contents of the bucket that is being filled were all
 * counted up to now.
 */
static void
add_to_span(void *arg, int level, int64 bucket, int64 inc, int64 dec)
{
	DcSpan *span = arg;
	TimestampTz start = level_start(span->levels, level, bucket);
	TimestampTz end = level_end(span->levels, level, bucket);
	TimestampTz filled = Min(end, Max(span->now, start + 1));
	int64 common;

	if (end <= span->from || start >= span->to)
		return;
	if (start >= span->from && end <= span->to)
	{
		sums_add(&span->whole, inc, dec);
		return;
	}
	sums_add(&span->partial, inc, dec);
	common = Min(filled, span->to) - Max(start, span->from);
	if (common > 0)
		span->share += ((double) inc - (double) dec) * (double) common / (double) (filled - start);
}

/*
 * dc_buckets(counter regclass, key text|bigint|uuid, "from" timestamptz, "to" timestamptz)
 * -> setof (bucket timestamptz, value bigint)
 *
 * All buckets that begin at or after the one that has `from`, and before `to`, in order, with 0 for
 * those in which nothing was counted. Older times come in the wider buckets of their level. Times
 * that are no longer kept, or are in the future, have no rows.
 */
Datum
dc_buckets(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	Oid relid = window_arg(fcinfo);
	HASHCTL ctl = {.keysize = sizeof(TimestampTz), .entrysize = sizeof(DcBucket)};
	DcBuckets buckets = {.last = DT_NOBEGIN};
	DcWindowReading reading;
	DcWindow *window;
	TimestampTz from;
	TimestampTz to;

	arg_not_null(fcinfo, 2, "from");
	arg_not_null(fcinfo, 3, "to");
	from = PG_GETARG_TIMESTAMPTZ(2);
	to = PG_GETARG_TIMESTAMPTZ(3);
	window = window_open(relid, ACL_SELECT);
	InitMaterializedSRF(fcinfo, 0);
	window_read_begin(window, from, to, true, &reading);
	buckets.levels = &reading.row.levels;
	if (reading.from < reading.to)
	{
		ctl.hcxt = CurrentMemoryContext;
		buckets.sums = hash_create("dcounter buckets", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		window_read_key(&reading, key, add_to_bucket, &buckets);
		return_buckets(fcinfo, &reading, &buckets);
	}
	window_read_end(&reading);
	return (Datum) 0;
}

/*
 * add_to_bucket adds a row to the bucket in which its time is shown: for example a row that is
 * about to be moved.
 */
static void
add_to_bucket(void *arg, int level, int64 bucket, int64 inc, int64 dec)
{
	DcBuckets *buckets = arg;
	TimestampTz start = shown_start(buckets->levels, level_start(buckets->levels, level, bucket));
	DcBucket *entry;
	bool found;

	entry = hash_search(buckets->sums, &start, HASH_ENTER, &found);
	if (!found)
		sums_init(&entry->sums);
	sums_add(&entry->sums, inc, dec);
	buckets->last = Max(buckets->last, start);
}

/*
 * Return a row for each bucket of the time, in order, also for those without increments. Buckets in
 * the future are left out unless they have some.
 */
static void
return_buckets(FunctionCallInfo fcinfo, const DcWindowReading *reading, DcBuckets *buckets)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz last = Max(GetCurrentTimestamp(), buckets->last);
	TimestampTz start = reading->from;

	while (start < reading->to && start <= last)
	{
		DcBucket *entry = hash_search(buckets->sums, &start, HASH_FIND, NULL);
		Datum values[2] = {TimestampTzGetDatum(start), Int64GetDatum(0)};
		bool nulls[2] = {false};

		CHECK_FOR_INTERRUPTS();
		if (entry != NULL)
			values[1] = Int64GetDatum(sums_to_bigint(entry->sums.net, "value"));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		start = shown_end(buckets->levels, start);
	}
}
